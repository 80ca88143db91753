"""Pictures of fits: how they went, how well they match the rows, and how they compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta, chi2

from momentmix.distributions.mixture import Mixture
from momentmix.goodness.comparison import Match, moment_match
from momentmix.goodness.given import check_rows, tested_mixture
from momentmix.plotting.canvas import (
    COLOURS,
    axes_or_new,
    axis_label,
    component_colour,
    drawn_mixture,
    pyplot_or_error,
    text_colour,
)
from momentmix.selection.criteria import COLUMNS
from momentmix.selection.merging import NEGLIGIBLE
from momentmix.summary.components import (
    components,
    covariance_matrices,
    overall_mean_and_deviation,
    paired_components,
    percent,
    standardised_means,
    telling_features,
)
from momentmix.summary.fit_summary import uncertainty_of
from momentmix.support.array import ArrayLike, to_numpy, without_masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from momentmix.estimators.base import MixtureEstimator
    from momentmix.goodness.comparison import Distribution
    from momentmix.plotting.canvas import Model
    from momentmix.selection import MergedComponents, Selection


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
    return draw_matches(moment_match(drawn_mixture(model), data, order), axes_or_new(ax))


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
    fitted, true = drawn_mixture(model), drawn_mixture(truth)
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


def plot_quantiles(model: Model, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """How far rows lie from their components, against how far they should.

    The distances are Mahalanobis distances, and each row counts for each component with its
    probability of belonging to it. If the mixture fits, the dots follow the straight line, and most
    lie in the grey band, which at each place holds 95 % of samples of the mixture. Dots above the
    line at the right are heavy tails, or rows that belong nowhere. Thin lines are single
    components, in their colours. Gaps in X are filled once at random, given the other values of the
    row.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.plotting import plot_quantiles
    >>> drawn = plot_quantiles(gm, X[:300, :2])
    """
    ax = axes_or_new(ax)
    whole, each = distance_quantiles(drawn_mixture(model), X)
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

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.plotting import plot_projections
    >>> drawn = plot_projections(gm, X[:300, :2])
    """
    mixture = drawn_mixture(model)
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


#: Points of a picture: evenly spaced ranks, and the outermost ranks at each end. Round numbers that
#: affect only how the picture looks.
_EVENLY, _OUTERMOST = 200, 25
#: Grid points of a mixture's distribution function, which is interpolated between them. A round
#: number, fine enough for a picture.
_GRID = 4000


class Quantiles(NamedTuple):
    """Quantiles of rows and of the mixture at the same ranks, with a 95 % band."""

    expected: np.ndarray  # (q,), rising
    found: np.ndarray  # (q,)
    low: np.ndarray  # (q,), of the band that holds 95 % of samples of the mixture, rank by rank
    high: np.ndarray  # (q,)


class Projection(NamedTuple):
    """The rows along one direction."""

    name: str
    quantiles: Quantiles
    distance: float  # the largest difference of the two distribution functions


def complete_rows(mixture: Mixture, X: ArrayLike) -> np.ndarray:
    """Rows in which gaps are filled once at random, given the other values of the row."""
    rows = check_rows(X, gaps=True)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} feature(s), but the mixture has {mixture.n_features}"
        )
    rows = rows[~np.isnan(rows).all(axis=1)]
    if not np.isnan(rows).any():
        return rows
    return to_numpy(mixture.impute(rows, 1, random_state=0))[0]


def distance_quantiles(model: object, X: ArrayLike) -> tuple[Quantiles, list[Quantiles]]:
    """Quantiles of Mahalanobis distances of rows from their components, of all and of each.

    Each row counts for each component with its probability of belonging to it. Weighted in this
    way, the squared distances of samples of the mixture have a χ² distribution with n degrees of
    freedom.
    """
    mixture = tested_mixture(model)
    rows = complete_rows(mixture, X)
    covariance = mixture.atoms.covariance
    whitener, _ = covariance.whitener()
    means = to_numpy(mixture.means)
    squares = np.stack(
        [
            np.sum(to_numpy(covariance.apply(whitener, j, rows - mean)) ** 2, axis=1)
            for j, mean in enumerate(means)
        ],
        axis=1,
    )
    R = to_numpy(mixture.predict_proba(rows))
    n = mixture.n_features
    whole = _by_weight(squares.reshape(-1), R.reshape(-1), n)
    return whole, [_by_weight(d, r, n) for d, r in zip(squares.T, R.T, strict=True) if r.sum() > 3]


def _by_weight(squares: np.ndarray, weights: np.ndarray, n: int) -> Quantiles:
    """Weighted distances, and the square roots of quantiles of χ²."""
    order = np.argsort(squares)
    squares, weights = squares[order], weights[order]
    shares = (np.cumsum(weights) - weights / 2) / weights.sum()
    ranks = _ranks(weights.sum())
    found = np.sqrt(np.interp(ranks, shares, squares))
    expected, low, high = (
        np.sqrt(chi2.ppf(shares, n)) for shares in (ranks, *_band(ranks, weights.sum()))
    )
    return Quantiles(expected, found, low, high)


def projections(model: object, X: ArrayLike, most: int = 3) -> list[Projection]:
    """The rows along the directions in which they differ most from the mixture.

    The candidates are the features and the axes along which the components lie furthest apart.
    """
    mixture = tested_mixture(model)
    rows = complete_rows(mixture, X)
    n, weights, means = mixture.n_features, to_numpy(mixture.weights), to_numpy(mixture.means)
    matrices = np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (len(means), n, n))
    names = mixture.feature_names or [f"x{i}" for i in range(n)]
    directions = list(zip(names, np.eye(n), strict=True))
    within = np.tensordot(weights, matrices, axes=1)
    values, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(np.maximum(values, 1e-300))
    apart = (means - weights @ means) @ root * np.sqrt(weights)[:, None]
    _, strengths, axes = np.linalg.svd(apart, full_matrices=False)
    for i, (strength, axis) in enumerate(zip(strengths, axes, strict=True)):
        if strength > 1e-6 and n > 1:
            directions.append((f"components' axis {i + 1}", root @ axis))
    found = [
        _projection(name, rows @ a, weights, means @ a, np.sqrt((matrices @ a) @ a))
        for name, a in directions
    ]
    return sorted(found, key=lambda one: -one.distance)[:most]


def _projection(
    name: str, values: np.ndarray, weights: np.ndarray, means: np.ndarray, deviations: np.ndarray
) -> Projection:
    values = np.sort(values)
    ends = [*(means - 7 * deviations), *(means + 7 * deviations), values[0], values[-1]]
    grid = np.linspace(min(ends), max(ends), _GRID)
    steps = np.maximum(deviations, 1e-300)
    cdf = ndtr((grid[:, None] - means) / steps) @ weights
    here = np.interp(values, grid, cdf)
    p = len(values)
    after, before = np.arange(1, p + 1) / p - here, here - np.arange(p) / p
    ranks = _ranks(p)
    # Interpolation needs a rising function, and it is flat at both ends.
    rising = np.concatenate([[True], np.diff(cdf) > 0])
    expected, low, high = (
        np.interp(shares, cdf[rising], grid[rising]) for shares in (ranks, *_band(ranks, p))
    )
    own = np.interp(ranks, (np.arange(p) + 0.5) / p, values)
    return Projection(
        name, Quantiles(expected, own, low, high), float(max(after.max(), before.max()))
    )


def _ranks(count: float) -> np.ndarray:
    """Ranks in (0, 1): evenly spaced ones, and each of the outermost rows."""
    each = 1 / max(count, 2.0)
    ends = each * (np.arange(min(_OUTERMOST, int(count) // 2)) + 0.5)
    evenly = np.linspace(each / 2, 1 - each / 2, min(_EVENLY, max(int(count), 2)))
    return np.unique(np.concatenate([ends, evenly, 1 - ends]))


def _band(ranks: np.ndarray, count: float) -> tuple[np.ndarray, np.ndarray]:
    """The shares of a distribution between which these ranks lie in 95 % of samples.

    The i-th smallest of N uniform values has the distribution Beta(i, N + 1 - i).
    """
    i = ranks * count + 0.5
    low, high = (beta.ppf(share, i, count + 1 - i) for share in (0.025, 0.975))
    return low, high


def plot_profile(
    model: Model, X: ArrayLike | None = None, *, most: int = 12, ax: Axes | None = None
) -> Axes:
    """The means of each component by column, one line a component, in deviations of the column.

    Zero is the mean of all. Given the rows X that an estimator was fitted to, bars are the 95 %
    intervals of the means. Of many columns, the ``most`` that separate the components best.
    """
    mixture, ax = drawn_mixture(model), axes_or_new(ax)
    shown, z = telling_features(mixture, most), standardised_means(mixture)
    deviations = overall_mean_and_deviation(mixture)[1]
    sure = None
    if X is not None and not isinstance(model, Mixture):
        rows = np.asarray(without_masks(X, "X"), dtype=float)
        sure = uncertainty_of(model, rows)
    for part in components(mixture):
        j, errors = part.number, None
        if sure is not None:
            errors = (sure.high.means[j] - sure.low.means[j])[shown] / 2 / deviations[shown]
        ax.errorbar(range(len(shown)), z[j, shown], errors, marker="o", markersize=4, capsize=3,
                    color=component_colour(j), label=f"{j} ({percent(part.weight)})")  # fmt: skip
    ax.axhline(0, color=text_colour(), linewidth=0.8, linestyle=":")
    labels = [axis_label(mixture, i) for i in shown]
    ax.set_xticks(range(len(shown)), labels, rotation=30, horizontalalignment="right")
    ax.set(ylabel="standard deviations")
    ax.legend(frameon=False, title="component", loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def plot_selection(selection: Selection, *, ax: Axes | None = None) -> Axes:
    """The criterion against the number of components: a line for each type, a ring around the best.

    "blrt" is a test that does not compare all fits, so its picture shows the BIC. Fits with a
    collapsed component are crosses: their values mean little.
    """
    ax = axes_or_new(ax)
    name = "bic" if selection.criterion == "blrt" else selection.criterion
    types = list(dict.fromkeys(choice.covariance_type for choice in selection.table))
    for i, kind in enumerate(types):
        colour = component_colour(i)
        alike = sorted(
            (c for c in selection.table if c.covariance_type == kind), key=lambda c: c.n_components
        )
        for collapsed, mark in ((False, "o"), (True, "x")):
            some = [c for c in alike if bool(c.collapsed) is collapsed]
            numbers = [c.n_components for c in some]
            ax.plot(numbers, [getattr(c, name) for c in some], mark, color=colour)
        values = [getattr(c, name) for c in alike]
        ax.plot([c.n_components for c in alike], values, "-", color=colour, label=kind)
    best = selection.chosen
    ax.plot(best.n_components, getattr(best, name), "o", markersize=13, markeredgewidth=1.8,
            fillstyle="none", color="black")  # fmt: skip
    ax.set(xlabel="components", ylabel=COLUMNS[name][0])
    ax.set_xticks(sorted({choice.n_components for choice in selection.table}))
    if len(types) > 1:
        ax.legend(frameon=False)
    return ax


def plot_merges(merged: MergedComponents, *, ax: Axes | None = None) -> Axes:
    """The tree of merges: where two branches meet, their clusters overlap by so much.

    The scale is logarithmic, and the more two overlap, the lower they meet. Each cluster has the
    colour of its first component. The dashed line lies between the last merge that was made and the
    first that was not.
    """
    ax = axes_or_new(ax)
    tree, clusters = merged.tree, merged.clusters_
    least = NEGLIGIBLE / 2  # what overlaps less meets here
    # A merge is drawn no lower than those before it, though it may raise the overlap with a third.
    overlaps = np.minimum.accumulate([max(merge.overlap, least) for merge in tree] or [1.0])
    order = tree[-1].first + tree[-1].second if tree else (0,)
    places: dict[tuple[int, ...], tuple[float, float]] = {
        (k,): (float(order.index(k)), 1.0) for k in order
    }
    for merge, overlap in zip(tree, overlaps, strict=False):
        (x, from_x), (y, from_y) = places[merge.first], places[merge.second]
        joined = merge.first + merge.second
        own = np.unique(clusters[list(joined)])
        colour = "#999999" if len(own) > 1 else component_colour(merged.members(own[0])[0])
        ax.plot([x, x, y, y], [from_x, overlap, overlap, from_y], color=colour)
        places[joined] = ((x + y) / 2, overlap)
    for k, cluster in enumerate(clusters):
        colour = component_colour(merged.members(cluster)[0])
        ax.plot(order.index(k), 1.0, "o", color=colour, clip_on=False)
    if 0 < (made := len(clusters) - merged.n_clusters_) < len(tree):
        between = np.sqrt(overlaps[made - 1] * overlaps[made])
        ax.axhline(between, color=text_colour(), linewidth=1, linestyle="--")
    ax.set(yscale="log", ylim=(1.0, least / 1.5), xlabel="component", ylabel="overlap")
    ax.set_xticks(range(len(order)), map(str, order))
    return ax
