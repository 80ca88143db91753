"""A fit as one page of HTML that needs nothing else: no network, no other file.

``write_report`` gathers what summary.py and plotting.py know; page.html is the frame around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

import momentmix
from momentmix.files.writing import written_whole
from momentmix.plotting import COLOURS, telling_features
from momentmix.report.pictures import pictures
from momentmix.selection import Choice, best_choice
from momentmix.summary import (
    Component,
    FitSummary,
    Match,
    Rival,
    components,
    counted,
    names_of,
    readable,
)

#: Columns of the data that the table of components shows.
MOST_COLUMNS = 20

Row = TypeVar("Row")


class Cell(NamedTuple):
    """One cell of a table."""

    value: float  # by which its column sorts
    html: str


#: A heading, and the cell below it that a row of the table has.
Column: TypeAlias = tuple[str, Callable[[Row], Cell]]


def write_report(
    path: str | PathLike[str], fit: FitSummary, model: str | PathLike[str] | None = None
) -> None:
    """Write the page, whole or not at all. ``model`` is the file that it says how to use.

    Examples
    --------
    >>> from momentmix import MomentMixture
    >>> from momentmix.datasets import load_quakes
    >>> from momentmix.report import write_report
    >>> from momentmix.summary import FitSummary
    >>> X, names = load_quakes()
    >>> gm = MomentMixture(3, random_state=0).fit(X)
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, FitSummary.from_estimator(gm, X, source="quakes"))
    >>> "3 Gaussian components in quakes" in path.read_text(encoding="utf-8")
    True
    """
    text = page(fit, model)
    with written_whole(path) as file:
        file.write(text.encode())


def page(report: FitSummary, model: str | PathLike[str] | None = None) -> str:
    """The page as text."""
    title = f"{counted(report.mixture.n_components, 'Gaussian component')} in {report.source}"
    drawn = pictures(report)
    parts = [
        f"<h1>{escape(title)}</h1>",
        _cards(report),
        _remarks(report),
        _components(report),
        drawn["mixture"],
        _moments(report.matches),
        drawn.get("moments", ""),
        _choices(report),
        drawn.get("choices", ""),
        _rivals(report),
        _usage(model),
    ]
    template = Template(files("momentmix.report").joinpath("page.html").read_text("utf-8"))
    body = "\n".join(part for part in parts if part)
    return template.substitute(title=escape(title), body=body, version=momentmix.__version__)


def _cards(report: FitSummary) -> str:
    mixture = report.mixture
    cards = [("components", f"{mixture.n_components}"), ("columns", f"{mixture.n_features}")]
    if report.rows is not None:
        cards.insert(0, ("rows", f"{report.rows:,}"))
    cards.append(("covariances", mixture.covariance_type))
    if report.log_likelihood is not None:
        cards.append(("log-likelihood", _one_decimal(report.log_likelihood)))
        bic = "—" if len(report.collapsed) else _one_decimal(report.bic(report.log_likelihood))
        cards.append(("BIC", bic))
    if report.seconds is not None:
        cards.append(("seconds", f"{report.seconds:.2g}"))
    items = "".join(
        f"<li><b>{escape(value)}</b><span>{escape(what)}</span></li>" for what, value in cards
    )
    return f'<ul class="cards">{items}</ul>'


def _remarks(report: FitSummary) -> str:
    found = report.remarks
    if not found:
        return '<h2>Remarks</h2>\n<p class="soft">Nothing unusual was found.</p>'
    items = "".join(f"<li>{escape(remark)}</li>" for remark in found)
    return f'<h2>Remarks</h2>\n<ul class="remarks">{items}</ul>'


def _components(report: FitSummary) -> str:
    mixture = report.mixture
    names = names_of(mixture)
    shown = list(range(len(names)))
    note = ""
    if len(shown) > MOST_COLUMNS:
        shown = telling_features(mixture, MOST_COLUMNS)
        note = (
            f"<p class='soft'>Of {len(names)} columns, the {MOST_COLUMNS} in which the components "
            "lie furthest apart. The model file has them all.</p>"
        )
    columns: list[Column[Component]] = [("component", _component_cell), ("weight", _weight_cell)]
    if report.rows:
        columns.append(("rows, about", partial(_rows_cell, report.rows)))
    columns += [(names[i], partial(_feature_cell, i)) for i in shown]
    return (
        "<h2>Components</h2>\n<p>Mean ± standard deviation of each column in each component, the "
        "largest first. Press a heading to sort.</p>" + note + table(columns, components(mixture))
    )


def _component_cell(part: Component) -> Cell:
    colour = COLOURS[part.number % len(COLOURS)]
    return Cell(part.number, f'<span class="dot" style="background:{colour}"></span>{part.number}')


def _weight_cell(part: Component) -> Cell:
    percent, colour = f"{100 * part.weight:.1f}", COLOURS[part.number % len(COLOURS)]
    bar = f'<span class="bar"><i style="width:{percent}%;background:{colour}"></i></span>'
    return Cell(part.weight, f"{percent} %{bar}")


def _rows_cell(rows: int, part: Component) -> Cell:
    return Cell(part.weight, f"{part.weight * rows:,.0f}")


def _feature_cell(feature: int, part: Component) -> Cell:
    mean, deviation = part.mean[feature], part.deviation[feature]
    return Cell(mean, f"{readable(mean)} <small>± {readable(deviation, 2)}</small>")


def _moments(matches: list[Match]) -> str:
    if not matches:
        return ""
    known = any(np.isfinite(match.noise) for match in matches)
    columns: list[Column[Match]] = [
        ("order", lambda match: Cell(match.order, f"{match.order}")),
        ("distance", lambda match: Cell(match.distance, _distance_text(match.distance))),
        ("of the moment", _relative_cell),
    ]
    if known:
        columns += [
            ("expected from sampling", lambda match: Cell(match.noise, readable(match.noise, 3))),
            ("ratio", _ratio_cell),
        ]
    words = (
        " A ratio of about 1 or less is as good as this number of rows allows; far above 1 the "
        "mixture misses something: order 3 is skewness, order 4 the weight of tails."
        if known
        else ""
    )
    return (
        "<h2>How well the moments are matched</h2>\n<p>The distance between the moments of the "
        "mixture and those of the data, about the data's mean and in units of its standard "
        f"deviations.{words}</p>" + table(columns, matches)
    )


def _relative_cell(match: Match) -> Cell:
    percent = f"{readable(100 * match.relative, 2)} %" if match.relative > 1e-9 else "—"
    return Cell(np.nan_to_num(match.relative), percent)


def _ratio_cell(match: Match) -> Cell:
    shown = _distance_text(match.ratio) if np.isfinite(match.ratio) else "—"
    return Cell(np.nan_to_num(match.ratio), shown)


def _distance_text(value: float) -> str:
    return readable(value, 3) if value > 1e-9 else "0"  # the rest is rounding


def _choices(report: FitSummary) -> str:
    if not report.choices:
        return ""
    best = best_choice(report.choices).n_components
    columns: list[Column[Choice]] = [
        ("components", lambda choice: Cell(choice.n_components, f"{choice.n_components}")),
        ("log-likelihood", lambda choice: _number_cell(choice.log_likelihood)),
        ("BIC", lambda choice: _number_cell(choice.bic)),
        ("collapsed", lambda choice: Cell(choice.collapsed, f"{choice.collapsed or ''}")),
    ]
    return (
        "<h2>How many components</h2>\n<p>The Bayesian information criterion weighs the "
        f"likelihood against the number of parameters; it is least for {best} among the fits in "
        "which no component has collapsed onto next to nothing.</p>"
        + table(columns, report.choices, lambda choice: choice.n_components == best)
    )


def _rivals(report: FitSummary) -> str:
    if not report.rivals or report.log_likelihood is None:
        return ""
    ours = Rival("this fit", report.log_likelihood, report.seconds or 0.0)
    all_fits = [ours, *report.rivals]
    best = max(fit.log_likelihood for fit in all_fits)
    columns: list[Column[Rival]] = [
        ("fit", lambda fit: Cell(all_fits.index(fit), escape(fit.name))),
        ("log-likelihood", lambda fit: _number_cell(fit.log_likelihood)),
        ("BIC", lambda fit: _number_cell(report.bic(fit.log_likelihood))),
        ("seconds", lambda fit: Cell(fit.seconds, f"{fit.seconds:.2g}")),
    ]
    return (
        "<h2>Against EM</h2>\n<p>The same rows, number of components and covariance type. A higher "
        "log-likelihood, or a lower BIC, is better, unless a component has collapsed; the prior "
        "of this fit gives up a little of it on the rows that were fitted, for new ones.</p>"
        + table(columns, all_fits, lambda fit: fit.log_likelihood == best)
    )


def _usage(model: str | PathLike[str] | None) -> str:
    if model is None:
        return ""
    name = Path(model).name
    shell = f"momentmix predict {name} new-rows.csv"
    python = f'from momentmix import Mixture\n\nmixture = Mixture.load("{name}")'
    code = escape(f"{shell}\n\n# or in Python\n{python}", quote=False)
    return f"<h2>Using the model</h2>\n<pre>{code}</pre>"


def _one_decimal(value: float) -> str:
    return f"{value:,.1f}".replace("-", "−")


def _number_cell(value: float) -> Cell:
    return Cell(value, _one_decimal(value))


def table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    is_best: Callable[[Row], bool] = lambda row: False,
) -> str:
    """A table that sorts by any of its columns, each a heading and what it shows of a row."""
    top = "".join(f'<th scope="col"><button>{escape(head)}</button></th>' for head, _ in columns)
    body = "".join(
        ('<tr class="best">' if is_best(row) else "<tr>")
        + "".join(_td(cell(row)) for _, cell in columns)
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _td(cell: Cell) -> str:
    return f'<td data-value="{float(cell.value)!r}">{cell.html}</td>'
