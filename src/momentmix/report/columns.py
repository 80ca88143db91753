"""The section on the columns of the data: what they hold, and which were not used."""

from __future__ import annotations

from html import escape

import numpy as np

from momentmix.report.parts import Cell, Column, Section, name_html, number_cell, plain_cell, table
from momentmix.summary import ColumnSummary, FitSummary, Origin, counted, listed, percent

#: Columns that a sentence names for each reason. It affects the length of the text alone.
_MOST_NAMED = 20


def columns_section(report: FitSummary) -> Section | None:
    """A section for fits with rows, or with a known origin."""
    columns, origin = report.columns, report.origin or Origin()
    words = [
        f"{_rows_words(origin, report.rows)} {_left_out(origin)}".strip(),
        _gaps_words(columns, report),
        _errors_words(origin, report),
        _cost_words(columns),
    ]
    told = "".join(f"<p>{escape(word)}</p>" for word in words if word)
    if not columns and not told:
        return None
    return Section("columns", "The columns", told + (_table(columns) if columns else ""))


def _rows_words(origin: Origin, used: int | None) -> str:
    """How many of the rows that were read were used."""
    if origin.rows_read is None:
        return ""
    if origin.rows_dropped == 0:
        return f"All {counted(origin.rows_read, 'row')} were used."
    one = origin.rows_dropped == 1
    what = "no value" if origin.rows_dropped == origin.rows_empty else "gaps"
    have = f"has {what} and was" if one else f"have {what} and were"
    left = "" if used is None else f", so that {counted(used, 'row')} were used"
    return f"Of {counted(origin.rows_read, 'row')}, {origin.rows_dropped:,} {have} left out{left}."


def _gaps_words(columns: list[ColumnSummary], report: FitSummary) -> str:
    """How many cells of the rows used have no value."""
    X = report.X
    if X is None or not report.has_gaps:
        return ""
    empty = np.isnan(X)
    cells, total = int(empty.sum()), X.size
    partly = int((empty.any(axis=1) & ~empty.all(axis=1)).sum())
    where = f", in {counted(partly, 'row')}"
    if report.of_all is not None:  # X is a sample of all rows
        cells, total = (
            sum(column.gaps for column in columns),
            sum(column.rows for column in columns),
        )
        where = ""
    most = max(columns, key=lambda column: column.gap_share)
    return (
        f"{counted(cells, 'cell')} of {total:,} ({percent(cells / total)}) "
        f"{'is a gap' if cells == 1 else 'are gaps'}{where}; column "
        f"“{most.name}” has the most, {percent(most.gap_share)}. Of a row with gaps, the values "
        "that are there were used. This is right if whether a value is missing depends only on "
        "values that are not."
    )


def _errors_words(origin: Origin, report: FitSummary) -> str:
    """Which columns hold the error bars, and how the fit used them."""
    if report.errors is None:
        return ""
    pairs = [f"“{value}” (in “{error}”)" for value, error in origin.errors.items()]
    of = f" of {listed(pairs, _MOST_NAMED)}" if pairs else ""
    return (
        f"The standard errors{of} were taken into account: the mixture describes the values as "
        "they would be without errors."
    )


def _cost_words(columns: list[ColumnSummary]) -> str:
    """An explanation of the last columns of the table."""
    told = [column for column in columns if np.isfinite(column.known)]
    least = min(told, key=lambda column: column.known, default=None)
    if least is None or least.known >= 1:
        return ""
    errors = any(column.error_share for column in columns)
    gaps = any(np.isfinite(column.gaps_known) for column in columns)
    words = "The table says what this costs, in shares of the variance of each column."
    if gaps:
        words += (
            " “Gaps known” is how much of it the other values of a row tell, on average, where "
            "there is a gap."
        )
    if errors:
        words += (
            " “Errors” is how much of the variance of the values their errors explain; more than "
            "100 % is more than there is."
        )
    return words + (
        " “Known” is what a row tells of the column, on average over all rows: all of it where "
        f"there is {'an exact' if errors else 'a'} value. It is least for “{least.name}”, "
        f"{percent(least.known)}."
    )


def _left_out(origin: Origin) -> str:
    """The columns that were not used, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    nameless = 0
    for name, reason in origin.left_out:
        if name.strip():
            reasons.setdefault(reason, []).append(f"“{name}”")
        else:
            nameless += 1
    groups = [f"{listed(names, _MOST_NAMED)} ({reason})" for reason, names in reasons.items()]
    if nameless:
        groups.append(f"{'one' if nameless == 1 else f'{nameless:,}'} without a name")
    were = "Left out this column:" if len(origin.left_out) == 1 else "Left out these columns:"
    return f"{were} {listed(groups, len(groups))}." if groups else ""


def _table(columns: list[ColumnSummary]) -> str:
    heads: list[Column[ColumnSummary]] = [
        ("column", lambda column: Cell(columns.index(column), name_html(column.name))),
        ("mean", lambda column: number_cell(column.mean)),
        ("standard deviation", lambda column: number_cell(column.deviation)),
        ("minimum", lambda column: plain_cell(column.minimum)),
        ("median", lambda column: plain_cell(column.median)),
        ("maximum", lambda column: plain_cell(column.maximum)),
    ]
    if any(column.gaps for column in columns):
        heads.append(("gaps", _gaps_cell))
    if any(np.isfinite(column.gaps_known) for column in columns):
        heads.append(("gaps known", lambda column: _share_cell(column.gaps_known)))
    if any(column.error_share for column in columns):
        heads.append(("errors", lambda column: _share_cell(column.error_share or np.nan)))
    if any(column.known < 1 for column in columns):
        heads.append(("known", lambda column: _share_cell(column.known)))
    return table("Columns", heads, columns)


def _gaps_cell(column: ColumnSummary) -> Cell:
    share = f" <small>{percent(column.gap_share)}</small>"
    return Cell(column.gaps, f"{column.gaps:,}{share}" if column.gaps else "—")


def _share_cell(share: float) -> Cell:
    return Cell(float(np.nan_to_num(share)), percent(share) if np.isfinite(share) else "—")
