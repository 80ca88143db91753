"""The section on rows that belong to no component: how many, which, and what is odd about them."""

from __future__ import annotations

from functools import partial
from html import escape

from momentmix.report.fits import beside
from momentmix.report.parts import (
    Cell,
    Column,
    Section,
    mark,
    name_html,
    number_cell,
    plain_cell,
    signed,
    table,
)
from momentmix.summary import FitSummary, Outlier, fine_percent, names_of

#: Columns of the data whose values the table shows. Chosen so that the table fits on the page.
_MOST_COLUMNS = 6


def outliers_section(report: FitSummary, picture: str) -> Section | None:
    """The section for fits that look for outliers."""
    found = report.outliers
    if found is None:
        return None
    if found.rows == 0:
        return Section("outliers", "Outliers", f"<p>{escape(found.sentence)}</p>")
    words = (
        f"{found.sentence} They are in the background of the mixture, a density that is the same "
        f"everywhere and has a share of {fine_percent(found.share)}. So they count neither for the "
        "components nor for what the rest of the page says of rows and their moments, and there is "
        "no test of fit."
    )
    return Section(
        "outliers",
        "Outliers",
        f"<p>{escape(words)}</p><p>{escape(_table_words(report))}</p>"
        + beside(_table(report), picture),
    )


def _table_words(report: FitSummary) -> str:
    found = report.outliers
    assert found is not None
    shown = len(found.worst)
    what = f"Here are the {shown} that lie" if shown < found.rows else "Those come first that lie"
    words = (
        f"{what} farthest out. A row is measured from its nearest component, in standard deviations"
        " of that component, and the table says in which column it lies farthest off. Where that is"
        " not far, no single value is odd but several of them together."
    )
    if report.mixture.n_features > _MOST_COLUMNS:
        words += f" Values are those of the {_MOST_COLUMNS} columns that show outliers best."
    return words


def _table(report: FitSummary) -> str:
    found, names = report.outliers, names_of(report.mixture)
    assert found is not None
    columns: list[Column[Outlier]] = [
        ("row", lambda row: Cell(row.number, f"{row.number:,}")),
        ("farthest off in", lambda row: Cell(row.feature, name_html(names[row.feature]))),
        ("deviations", lambda row: _deviations_cell(row.deviations)),
        ("nearest", lambda row: Cell(row.component, mark(row.component))),
    ]
    columns += [(names[i], partial(_value_cell, i)) for i in sorted(found.features[:_MOST_COLUMNS])]
    return table("Outliers", columns, found.worst, words=[1])


def _deviations_cell(value: float) -> Cell:
    return Cell(value, signed(value)) if abs(value) < 1000 else number_cell(value, 3)


def _value_cell(feature: int, row: Outlier) -> Cell:
    return plain_cell(row.values[feature])
