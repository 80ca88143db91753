"""The parts of sections: tables, marks of components, coloured cells, pictures.

Pictures are SVG inside the page, with text and lines in the page's own colour.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from momentmix import plotting
from momentmix.distributions.mixture import Mixture
from momentmix.plotting import component_colour, text_on
from momentmix.selection import MergedComponents, Selection
from momentmix.summary.components import readable
from momentmix.summary.fit_summary import FitSummary

#: Headings are at least as wide as their longest word, up to this many letters; only longer words
#: break. Chosen by how the page looks.
_LONGEST_WORD = 14
#: The letters of a column's name for which a cell leaves room, on a wide page and on a phone.
#: Chosen by how the page looks.
_LONGEST_NAME, _LONGEST_PIECE = 20, 11

Row = TypeVar("Row")


class Section(NamedTuple):
    """A part of the page with a heading, linked from the top."""

    name: str  # the anchor of links
    title: str
    html: str

    def __str__(self) -> str:
        return f'<section id="{self.name}">\n<h2>{escape(self.title)}</h2>\n{self.html}\n</section>'


class Cell(NamedTuple):
    """One cell of a table."""

    value: float  # by which its column sorts
    html: str


#: A heading, and the function that makes the cell below it from a row of the table.
Column: TypeAlias = tuple[str, Callable[[Row], Cell]]


def table(
    label: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    is_best: Callable[[Row], bool] = lambda row: False,
    words: Collection[int] = (),
) -> str:
    """A table that sorts by any of its columns.

    ``words`` are the positions of columns of words, which are aligned left like the first one.
    """
    top = "".join(_th(head, i in words) for i, (head, _) in enumerate(columns))
    body = "".join(
        ('<tr class="best">' if is_best(row) else "<tr>")
        + "".join(_td(cell(row), i in words) for i, (_, cell) in enumerate(columns))
        + "</tr>"
        for row in rows
    )
    return wide(
        f'<table class="sortable"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>', label
    )


def _th(head: str, is_words: bool) -> str:
    # Wide enough for the longest word, unless that is very long.
    pieces = _pieces(head)
    longest = min(max(map(len, pieces)), _LONGEST_WORD)
    kind = ' class="words"' if is_words else ""
    inside = "<wbr>".join(map(escape, pieces))
    return f'<th scope="col"{kind} style="--word:{longest}ch"><button>{inside}</button></th>'


def _td(cell: Cell, is_words: bool) -> str:
    kind = ' class="words"' if is_words else ""
    return f'<td{kind} data-value="{float(cell.value)!r}">{cell.html}</td>'


def wide(html: str, label: str) -> str:
    """HTML that may be wider than the page; it then scrolls, and a hint says so."""
    return (
        '<div class="wide"><p class="hint" aria-hidden="true">There is more to the right: scroll '
        f'sideways →</p><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(label)}">{html}</div></div>'
    )


def _pieces(name: str) -> list[str]:
    """The words of a name, each with the mark after it; lines may break between them."""
    return re.split(r"(?<=[\s_/.:-])", name)


def name_html(name: str) -> str:
    """The name of a column as HTML that may break between words or after marks.

    Its style holds the width that it wants on a wide page and on a phone.
    """
    pieces = _pieces(name)
    whole = min(len(name), _LONGEST_NAME)
    piece = min(max(map(len, pieces)), _LONGEST_PIECE)
    return (
        f'<span class="name" style="--whole:{whole}ch;--piece:{piece}ch">'
        f"{'<wbr>'.join(map(escape, pieces))}</span>"
    )


def mark(component: int) -> str:
    """The number of a component on its colour, as in pictures."""
    colour = component_colour(component)
    return (
        f'<span class="mark" style="background:{colour};color:{text_on(colour)}">{component}</span>'
    )


def heat(value: float, strongest: float) -> str:
    """A style that colours a cell: orange above zero, blue below, full at ``strongest``.

    The colour is translucent, so that text on it is legible on light and on dark pages.
    """
    share = min(abs(value) / strongest, 1.0) if np.isfinite(value) else 0.0
    colour = "213 94 0" if value > 0 else "0 114 178"
    return f"background:rgb({colour} / {0.78 * share:.2f})"


def heat_scale(strongest: float, words: str) -> str:
    """The legend of the colours: a strip from blue to orange."""
    steps = "".join(
        f'<i style="{heat(value, strongest)}"></i>'
        for value in np.linspace(-strongest, strongest, 9)
    )
    return (
        f'<p class="scale"><span>−{strongest:g}</span><span class="strip">{steps}</span>'
        f"<span>+{strongest:g}</span> <span>{escape(words)}</span></p>"
    )


def signed(value: float, decimals: int = 1) -> str:
    """A number with its sign; zero has none."""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def one_decimal(value: float) -> str:
    """A number with one decimal, commas between thousands, and a true minus sign."""
    return f"{value:,.1f}".replace("-", "−")


def decimal_cell(value: float) -> Cell:
    """A cell with one decimal."""
    return Cell(value, one_decimal(value))


def known_cell(value: float, show: Callable[[float], str]) -> Cell:
    """A cell with a number as ``show`` writes it, or a dash if it is not known."""
    return Cell(float(np.nan_to_num(value)), show(value) if np.isfinite(value) else "—")


def number_cell(value: float, digits: int = 4) -> Cell:
    """A cell with a number of any size."""
    return known_cell(value, lambda number: readable(number, digits))


def plain_cell(value: float) -> Cell:
    """A cell with a number as it may stand in the data, without trailing zeros."""
    text = readable(value)
    return Cell(float(np.nan_to_num(value)), re.sub(r"(\.\d*?)0+$", r"\1", text).removesuffix("."))


def component_cell(component: int) -> Cell:
    """A cell with the mark of a component."""
    return Cell(component, mark(component))


try:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("reports need matplotlib: pip install 'momentmix[plot]'") from error


#: A placeholder that the SVG replaces by the page's text colour, which is light or dark.
_TEXT_COLOUR = "#123456"
#: Its type is Any because the type of its keys differs between versions of matplotlib.
_STYLE: Any = {
    "text.color": _TEXT_COLOUR,
    "axes.edgecolor": _TEXT_COLOUR,
    "axes.labelcolor": _TEXT_COLOUR,
    "xtick.color": _TEXT_COLOUR,
    "ytick.color": _TEXT_COLOUR,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "momentmix",
    "font.family": "sans-serif",
    "font.size": 10,
}


def pictures(report: FitSummary) -> dict[str, str]:
    """The pictures as HTML: mixture, outliers, moments, quantiles, choices, clusters."""
    with matplotlib.rc_context(_STYLE):
        drawn = {"mixture": _mixture(report)}
        if report.outliers is not None and report.outliers.rows:
            drawn["outliers"] = _outliers(report, sorted(report.outliers.features[:2]))
        if report.data is not None:
            drawn["moments"] = _moments(report)
        if report.X is not None and report.tests is not None:
            drawn["quantiles"] = _quantiles(report.mixture, report.X)
        if report.choices:
            drawn["choices"] = _choices(report)
        if report.clusters is not None:
            drawn["clusters"] = _clusters(report.clusters)
    return drawn


def _mixture(report: FitSummary) -> str:
    mixture, X = report.mixture, report.X
    dots = "" if X is None else "; dots are rows in the colour of their likeliest component"
    if X is not None and (report.members or 0) > plotting.MOST_DOTS:
        dots += f", {plotting.MOST_DOTS:,} of them"
    if report.outliers is not None and report.outliers.rows:
        dots += ", and crosses are outliers"
    if X is not None and report.has_gaps:
        dots += ". A row with a gap in one of two columns is not among their dots"
    if X is not None and report.errors is not None:
        dots += ". The rows scatter more widely than the components, because they have errors"
    if mixture.n_features == 1:
        figure = _figure(6, 3.2)
        plotting.plot_marginal(mixture, X, errors=report.errors, ax=figure.subplots())
        words = "The density, and that of each component"
        words += "" if X is None else ", over a histogram of the rows"
    elif mixture.n_features == 2:
        figure = _figure(6, 4.5)
        plotting.plot_density(mixture, X, errors=report.errors, ax=figure.subplots())
        words = f"Contours of the density, and numbers at the means{dots}"
    else:
        figure = _figure(1, 1)
        axes = plotting.plot_pairs(mixture, X, errors=report.errors, figure=figure)
        words = (
            f"Ellipses hold half and nine tenths of each component; numbers are at the means{dots}"
        )
        if mixture.n_features > len(axes):
            words += ". The columns are those in which the components lie furthest apart"
    return _html(figure, words + ".", "mixture", broad=mixture.n_features > 2)


def _outliers(report: FitSummary, features: list[int]) -> str:
    """A picture of the outliers in the two columns that show them best."""
    figure = _figure(4.8, 3.8)
    mixture, X, ax = report.mixture, report.X, figure.subplots()
    if len(features) == 1:
        plotting.plot_marginal(mixture, X, errors=report.errors, ax=ax)
        where = "Crosses on the axis are outliers"
    else:
        plotting.plot_ellipses(mixture, X, features=features, errors=report.errors, ax=ax)
        where = "Crosses are outliers, in the two columns that show them best"
    return _html(figure, f"{where}; those that lie far out are at the edge.", "outliers")


def _moments(report: FitSummary) -> str:
    figure = _figure(4.5, 2.7)
    plotting.draw_matches(report.matches, figure.subplots())
    return _html(figure, "The distances from the table.", "moments")


def _quantiles(mixture: Mixture, X: np.ndarray) -> str:
    figure = _figure(4.5, 3.4)
    plotting.plot_quantiles(mixture, X, ax=figure.subplots())
    words = (
        "How far rows lie from their components, in standard deviations, and how far they should. "
        "If the mixture fits, the dots follow the line, most of them within the grey band"
    )
    if mixture.n_components > 1:
        words += "; thin lines are single components"
    return _html(figure, words + ".", "quantiles")


def _choices(report: FitSummary) -> str:
    figure = _figure(4.5, 2.7)
    plotting.plot_selection(Selection(report.choices, report.criterion), ax=figure.subplots())
    better = "higher" if report.criterion == "cv" else "lower"
    return _html(figure, f"The {better} the better; the ring is around the best.", "choices")


def _clusters(merged: MergedComponents) -> str:
    figure = _figure(4.5, 2.7)
    plotting.plot_merges(merged, ax=figure.subplots())
    words = "Where two branches meet, they overlap by so much; the dashed line separates clusters"
    return _html(figure, words + ".", "clusters")


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def _html(figure: Figure, words: str, name: str, broad: bool = False) -> str:
    """A picture with its caption as a part of the page; ``name`` begins the ids of its parts.

    A broad picture has too many parts to shrink to the width of a phone.
    """
    text = io.StringIO()
    FigureCanvasSVG(figure)
    figure.savefig(text, format="svg", dpi=150, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = svg.replace(f": {_TEXT_COLOUR}", ": currentColor")
    # Several pictures in one page must not share the names of their parts.
    svg = re.sub(r'(?<=<)(\w+ (?:[^<>]* )?)id="', rf'\g<1>id="{name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(words)}" ', 1)
    if broad:
        svg = wide(svg, "Picture of the mixture")
    kind = ' class="broad"' if broad else ""
    return f"<figure{kind}>{svg}<figcaption>{escape(words)}</figcaption></figure>"
