"""Pictures of how a fit went: its iterations, its moments, its distance from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from momentmix.plotting.axes import axes_or_new, mixture_of, pyplot_or_error
from momentmix.plotting.colours import COLOURS, component_colour
from momentmix.summary import Match, covariance_matrices, moment_match, paired_components
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from momentmix.estimators.base import MixtureEstimator
    from momentmix.plotting.axes import Model
    from momentmix.summary import Distribution


def plot_history(estimator: MixtureEstimator, *, ax: Axes | None = None) -> Axes:
    """The moment cost after each iteration of the start that led to the fit.

    Costs leave out the constant ‖M̂‖² and may be negative, so the picture shows how far each lies
    above the least.
    """
    ax = axes_or_new(ax)
    history = np.asarray(estimator.history_, dtype=float)
    if len(history) == 0:
        ax.text(0.5, 0.5, "no moment start led here", ha="center", transform=ax.transAxes)
        ax.set_axis_off()
        return ax
    above = np.maximum(history - history.min(), 0)
    floor = 1e-16 * max(float(np.max(np.abs(history))), 1e-300)
    ax.semilogy(np.arange(1, len(history) + 1), above + floor, ".-", color=COLOURS[0])
    ax.set(xlabel="iteration", ylabel="moment cost above its least")
    return ax


def plot_moment_residuals(
    model: Model, data: Distribution, *, order: int | None = None, ax: Axes | None = None
) -> Axes:
    """Distances to the moments of ``data``, order by order, and those expected from sampling.

    ``data`` is Samples, MomentTensors or a Mixture.
    """
    return draw_matches(moment_match(mixture_of(model), data, order), axes_or_new(ax))


def draw_matches(matches: Sequence[Match], ax: Axes) -> Axes:
    """The picture of :func:`plot_moment_residuals`, from comparisons already made."""
    orders = [match.order for match in matches]
    ax.bar(orders, [match.distance for match in matches], 0.55, color=COLOURS[0], label="distance")
    noise = np.array([match.noise for match in matches])
    if np.isfinite(noise).any():
        ax.plot(orders, noise, "_", color=COLOURS[1], markersize=38, markeredgewidth=2.5,
                label="expected from sampling alone")  # fmt: skip
        ax.legend(frameon=False, markerscale=0.5)
    ax.set(xlabel="order", ylabel="distance of moments", xticks=orders)
    return ax


def plot_recovery(
    model: Model, truth: Model, *, axes: np.ndarray | Sequence[Axes] | None = None
) -> np.ndarray:
    """Weights, means and covariances of a fit against the true ones, component by component.

    It needs three Axes; a perfect fit lies on the diagonals. Components are paired so that the sum
    of the distances between their means is least.
    """
    fitted, true = mixture_of(model), mixture_of(truth)
    if fitted.n_features != true.n_features:
        raise ValueError(
            f"the fit has {fitted.n_features} feature(s), but the truth has {true.n_features}"
        )
    if axes is None:
        axes = pyplot_or_error().subplots(1, 3, figsize=(10.5, 3.6), layout="constrained")[1]
    panels = np.asarray(axes, dtype=object).ravel()
    i, j = paired_components(to_numpy(fitted.means), to_numpy(true.means))
    upper = (slice(None), *np.triu_indices(true.n_features))
    pairs = {
        "weights": (to_numpy(true.weights)[i, None], to_numpy(fitted.weights)[j, None]),
        "means": (to_numpy(true.means)[i], to_numpy(fitted.means)[j]),
        "covariances": (covariance_matrices(true)[i][upper], covariance_matrices(fitted)[j][upper]),
    }
    for ax, (name, (x, y)) in zip(panels, pairs.items(), strict=True):
        low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
        ax.plot([low, high], [low, high], color="#999999", linewidth=1)
        for k, (a, b) in enumerate(zip(x, y, strict=True)):
            ax.plot(
                a, b, "o", color=component_colour(k), alpha=0.6, markersize=5, markeredgewidth=0
            )
        ax.set(title=name, xlabel="true", ylabel="fitted")
    return panels
