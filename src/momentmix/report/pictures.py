"""The pictures of a report, as SVG inside the page: text and lines in the page's own colour."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

import numpy as np

try:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("reports need matplotlib: pip install 'momentmix[plot]'") from error

from momentmix import plotting
from momentmix.distributions.mixture import Mixture
from momentmix.report.parts import wide
from momentmix.selection import Selection
from momentmix.summary import FitSummary

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
    """The pictures as HTML: mixture, outliers, moments, quantiles, choices."""
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
