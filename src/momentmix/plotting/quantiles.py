"""Pictures of how well a mixture fits: quantiles of rows against those of the mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from momentmix.goodness.quantiles import Quantiles, distance_quantiles, projections
from momentmix.plotting.axes import axes_or_new, mixture_of, pyplot_or_error, text_colour
from momentmix.plotting.colours import component_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from momentmix.plotting.axes import Model


def plot_quantiles(model: Model, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """How far rows lie from their components, against how far they should.

    The distances are Mahalanobis distances, and each row counts for each component with its
    probability of belonging to it. If the mixture fits, the dots follow the straight line, and most
    lie in the grey band, which at each place holds 95 % of samples of the mixture. Dots above the
    line at the right are heavy tails, or rows that belong nowhere. Thin lines are single
    components, in their colours. Gaps in X are filled once at random, given the other values of the
    row.
    """
    ax = axes_or_new(ax)
    whole, each = distance_quantiles(mixture_of(model), X)
    _draw(ax, whole)
    if len(each) > 1:
        for j, one in enumerate(each):
            ax.plot(one.expected, one.found, color=component_colour(j), linewidth=1, alpha=0.8)
    ax.set(xlabel="distance expected", ylabel="distance found")
    return ax


def plot_projections(
    model: Model,
    X: ArrayLike,
    *,
    most: int = 3,
    axes: np.ndarray | Sequence[Axes] | None = None,
) -> np.ndarray:
    """Quantiles of the rows along some directions against those of the mixture; an array of Axes.

    The candidates are the features and the axes along which the components lie furthest apart.
    Those in which the rows differ most from the mixture are drawn, the worst first. The grey band
    is that of :func:`plot_quantiles`.
    """
    mixture = mixture_of(model)
    found = projections(mixture, X, most)
    if axes is None:
        size = (3.4 * len(found), 3.2)
        axes = pyplot_or_error().subplots(1, len(found), figsize=size, layout="constrained")[1]
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    for ax, one in zip(panels, found, strict=False):
        _draw(ax, one.quantiles)
        name = one.name.replace("$", r"\$")
        ax.set(title=name, xlabel="quantile of the mixture", ylabel="quantile of the rows")
    return panels


def _draw(ax: Axes, quantiles: Quantiles) -> None:
    expected, found, low, high = quantiles
    ax.fill_between(expected, low, high, color="#9999994d", linewidth=0)
    ends = [expected[0], expected[-1]]
    ax.plot(ends, ends, color="#999999", linewidth=1)
    ax.plot(expected, found, ".", color=text_colour(), markersize=4)
