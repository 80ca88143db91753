"""Pictures of mixtures and fits, with matplotlib (the ``plot`` extra).

Functions take a Mixture or a fitted estimator, draw into ``ax`` or a new figure, and return the
Axes. ``MixtureDisplay`` is the same in scikit-learn's convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.summary import (
    Match,
    covariance_matrices,
    feature_variances,
    moment_match,
    names_of,
    paired_components,
)
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from momentmix.estimators.base import MixtureEstimator
    from momentmix.summary import Distribution

    #: A mixture, or a fitted estimator that has found one.
    Model: TypeAlias = Mixture | MixtureEstimator

#: Colours that most eyes tell apart (Okabe and Ito), one a component, again from the first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6D3B", "#5B5B5B")
#: Samples that a picture shows at most.
MOST_DOTS = 5000
#: Points of a grid along each side.
_GRID_POINTS = 160


def plot_density(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] = (0, 1),
    levels: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Contours of the density of two features over the samples (figure 1 of the paper).

    Each contour encloses a share of the probability; they are evenly spaced from 0.05 to 0.95.
    """
    mixture, ax = _mixture_of(model), _axes_or_new(ax)
    flat = mixture.marginal(list(features))
    _draw_samples(ax, mixture, X, features)
    xx, yy = _grid(flat, None if X is None else np.asarray(X)[:, list(features)])
    points = np.column_stack([xx.ravel(), yy.ravel()])
    density = np.exp(to_numpy(flat.log_prob(points))).reshape(xx.shape)
    heights = _mass_levels(density, np.linspace(0.95, 0.05, levels))
    ax.contour(xx, yy, density, levels=heights, colors=_text_colour(), linewidths=0.8)
    means = to_numpy(flat.means)
    ax.plot(means[:, 0], means[:, 1], "+", color=_text_colour(), markersize=9, markeredgewidth=1.8)
    return _labelled_axes(ax, mixture, features)


def plot_ellipses(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] = (0, 1),
    mass: Sequence[float] = (0.5, 0.9),
    ax: Axes | None = None,
) -> Axes:
    """For each component the ellipses that hold the shares ``mass`` of its probability."""
    mixture, ax = _mixture_of(model), _axes_or_new(ax)
    from matplotlib.patches import Ellipse

    flat = mixture.marginal(list(features))
    _draw_samples(ax, mixture, X, features)
    normals = zip(to_numpy(flat.means), covariance_matrices(flat), strict=True)
    for j, (mean, matrix) in enumerate(normals):
        values, vectors = np.linalg.eigh(matrix)
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for share in mass:
            # Of a normal pair, the share within Mahalanobis distance r is 1 - exp(-r²/2).
            radius = np.sqrt(-2 * np.log1p(-share))
            short, long = 2 * radius * np.sqrt(np.maximum(values, 0))
            ax.add_patch(
                Ellipse(mean, long, short, angle=angle, fill=False, linewidth=1.6, color=_colour(j))
            )
        ax.plot(*mean, "+", color=_colour(j), markersize=10, markeredgewidth=2)
    ax.autoscale_view()
    return _labelled_axes(ax, mixture, features)


def plot_marginal(
    model: Model, X: ArrayLike | None = None, *, feature: int = 0, ax: Axes | None = None
) -> Axes:
    """The density of one feature, that of each component below it, and a histogram of samples."""
    mixture, ax = _mixture_of(model), _axes_or_new(ax)
    line = mixture.marginal([feature])
    column = None if X is None else np.asarray(X)[:, [feature]]
    low, high = _shown_range(line, column)
    x = np.linspace(low[0], high[0], 400)
    if column is not None:
        ax.hist(column[:, 0], bins="auto", range=(low[0], high[0]), density=True, color="#9999994d")
    parts = np.exp(to_numpy(line.log_joint(x[:, None])))
    ax.plot(x, parts.sum(axis=1), color=_text_colour(), linewidth=1.8)
    for j, part in enumerate(parts.T):
        ax.plot(x, part, color=_colour(j), linewidth=1.2)
    ax.set(xlabel=_axis_label(mixture, feature), yticks=[])
    return ax


def plot_pairs(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] | None = None,
    most: int = 4,
    figure: Figure | None = None,
) -> np.ndarray:
    """Every feature alone on the diagonal, every pair with ellipses below it; an array of Axes.

    By default the ``most`` features in which the components lie furthest apart.
    """
    mixture = _mixture_of(model)
    chosen = list(telling_features(mixture, most) if features is None else features)
    n = len(chosen)
    size = 2.2 * n + 0.6, 2.2 * n + 0.4
    if figure is None:
        figure = _pyplot().figure(figsize=size, layout="constrained")
    else:
        figure.set_size_inches(size)
    axes: np.ndarray = figure.subplots(n, n, squeeze=False)
    for i, j in np.ndindex(n, n):
        ax = axes[i, j]
        if i == j:
            plot_marginal(mixture, X, feature=chosen[i], ax=ax)
        elif i > j:
            plot_ellipses(mixture, X, features=(chosen[j], chosen[i]), ax=ax)
        else:
            ax.set_visible(False)
            continue
        ax.set(xlabel=ax.get_xlabel() if i == n - 1 else "")
        ax.set(ylabel=ax.get_ylabel() if j == 0 and i > 0 else "")
        ax.tick_params(labelsize="small")
    return axes


def telling_features(mixture: Mixture, most: int) -> list[int]:
    """Features whose component means vary most, compared with the components' own spread."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    between = weights @ (means - weights @ means) ** 2
    within = weights @ feature_variances(mixture)
    order = np.argsort(-between / np.maximum(within, 1e-300), kind="stable")
    return sorted(int(i) for i in order[:most])


def plot_history(estimator: MixtureEstimator, *, ax: Axes | None = None) -> Axes:
    """The moment cost after each iteration of the start that led to the fit.

    Costs that leave out the constant ‖M̂‖² may be negative, so what is drawn is the distance to the
    last one.
    """
    ax = _axes_or_new(ax)
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
    """How far the moments are from those of ``data``, order by order, and what sampling explains.

    ``data`` is Samples, MomentTensors or a Mixture.
    """
    return draw_matches(moment_match(_mixture_of(model), data, order), _axes_or_new(ax))


def draw_matches(matches: Sequence[Match], ax: Axes) -> Axes:
    """The picture of :func:`plot_moment_residuals`, of moments that are compared already."""
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

    Three Axes; a perfect fit lies on the diagonals. Components are paired by their means, so that
    the sum of their distances is least.
    """
    fitted, true = _mixture_of(model), _mixture_of(truth)
    if fitted.n_features != true.n_features:
        raise ValueError(
            f"the fit has {fitted.n_features} feature(s), but the truth has {true.n_features}"
        )
    if axes is None:
        axes = _pyplot().subplots(1, 3, figsize=(10.5, 3.6), layout="constrained")[1]
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
            ax.plot(a, b, "o", color=_colour(k), alpha=0.6, markersize=5, markeredgewidth=0)
        ax.set(title=name, xlabel="true", ylabel="fitted")
    return panels


class MixtureDisplay:
    """A mixture with samples, drawn as scikit-learn's displays are.

    Parameters
    ----------
    mixture : Mixture
    X : (p, n), optional
    features : pair of positions, or one; by default all of one or two, else the most telling pair

    Attributes
    ----------
    ax_, figure_ : where it was drawn last

    Examples
    --------
    >>> from momentmix import MomentMixture
    >>> from momentmix.datasets import load_quakes
    >>> from momentmix.plotting import MixtureDisplay
    >>> X, names = load_quakes()
    >>> fit = MomentMixture(3, random_state=0).fit(X[:, :2])
    >>> display = MixtureDisplay.from_estimator(fit, X[:, :2], kind="ellipses")
    >>> display.ax_.get_xlabel()
    'x0'
    """

    def __init__(
        self, mixture: Mixture, X: ArrayLike | None = None, features: Sequence[int] | None = None
    ) -> None:
        self.mixture, self.X = mixture, X
        if features is None:
            features = telling_features(mixture, min(2, mixture.n_features))
        self.features = [int(i) for i in features]
        if len(self.features) not in (1, 2):
            raise ValueError(f"features must be one or two positions, got {features!r}")

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        *,
        kind: Literal["density", "ellipses"] = "density",
        features: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> MixtureDisplay:
        """Draw a fitted estimator over samples."""
        return cls(_mixture_of(estimator), X, features).plot(kind=kind, ax=ax)

    from_mixture = from_estimator

    def plot(
        self, *, kind: Literal["density", "ellipses"] = "density", ax: Axes | None = None
    ) -> MixtureDisplay:
        """``kind`` is "density" or "ellipses"; one feature alone is drawn as a curve."""
        if kind not in ("density", "ellipses"):
            raise ValueError(f"kind must be 'density' or 'ellipses', got {kind!r}")
        if len(self.features) == 1:
            self.ax_ = plot_marginal(self.mixture, self.X, feature=self.features[0], ax=ax)
        else:
            draw = plot_density if kind == "density" else plot_ellipses
            self.ax_ = draw(self.mixture, self.X, features=self.features, ax=ax)
        self.figure_ = self.ax_.figure
        return self


def _mixture_of(model: object) -> Mixture:
    if isinstance(model, Mixture):
        return model
    found = getattr(model, "mixture_", None)
    if not isinstance(found, Mixture):
        raise TypeError(
            f"a Mixture or a fitted estimator is needed, got {type(model).__name__}; call fit first"
        )
    return found


def _axes_or_new(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    new: Axes = _pyplot().subplots(layout="constrained")[1]
    return new


def _pyplot() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'momentmix[plot]'") from error
    module: ModuleType = pyplot
    return module


def _text_colour() -> str:
    """The colour of text, so that lines show on light and on dark."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def _colour(component: int) -> str:
    return COLOURS[component % len(COLOURS)]


def _draw_samples(ax: Axes, mixture: Mixture, X: ArrayLike | None, features: Sequence[int]) -> None:
    """Samples in the colour of their most probable component; a fixed choice of them if many."""
    if X is None:
        return
    X = np.asarray(X, dtype=float)
    if len(X) > MOST_DOTS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_DOTS, replace=False)]
    labels = np.argmax(to_numpy(mixture.log_joint(X)), axis=1)
    x, y = X[:, features[0]], X[:, features[1]]
    colours = [_colour(j) for j in labels]
    ax.scatter(x, y, c=colours, s=8, alpha=0.45, linewidths=0, rasterized=True)


def _shown_range(mixture: Mixture, X: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """What a picture shows: the samples, or three deviations about each mean, with a margin."""
    means = to_numpy(mixture.means)
    spread = 3 * np.sqrt(feature_variances(mixture))
    low, high = (means - spread).min(axis=0), (means + spread).max(axis=0)
    if X is not None:
        low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.05 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin


def _grid(mixture: Mixture, X: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The two coordinates of the points at which a density of two features is computed."""
    low, high = _shown_range(mixture, X)
    x, y = (np.linspace(a, b, _GRID_POINTS) for a, b in zip(low, high, strict=True))
    xx, yy = np.meshgrid(x, y)
    return xx, yy


def _mass_levels(density: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Densities above which the given shares of the probability on the grid lie, rising."""
    falling = np.sort(density.ravel())[::-1]
    mass = np.cumsum(falling)
    places = np.searchsorted(mass, shares * mass[-1])
    return np.unique(falling[np.minimum(places, len(falling) - 1)])


def _labelled_axes(ax: Axes, mixture: Mixture, features: Sequence[int]) -> Axes:
    ax.set(xlabel=_axis_label(mixture, features[0]), ylabel=_axis_label(mixture, features[1]))
    return ax


def _axis_label(mixture: Mixture, feature: int) -> str:
    """The name of a feature as it is: a dollar in it begins no formula."""
    return names_of(mixture)[feature].replace("$", r"\$")
