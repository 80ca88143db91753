"""Pictures of a mixture over samples, as functions and in scikit-learn's convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.plotting.canvas import (
    OUTLIERS,
    ShownRows,
    axes_or_new,
    axis_label,
    component_colour,
    crosses_of,
    draw_outliers_below,
    draw_samples,
    drawn_mixture,
    mark_components,
    pyplot_or_error,
    shown_range,
    shown_rows,
    text_colour,
)
from momentmix.summary.components import covariance_matrices, telling_features
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from momentmix.plotting.canvas import Model


#: Points of a grid along each side. Enough for smooth contours; it affects pictures alone.
_GRID_POINTS = 160


def plot_density(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] = (0, 1),
    levels: int = 8,
    errors: np.ndarray | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Contours of the density of two features over the samples (figure 1 of the paper).

    Each contour encloses a share of the probability; they are evenly spaced from 0.05 to 0.95. NaN
    in X is a gap. ``errors`` (p, n) are the error bars of the values in X, if there are any. If the
    mixture has a background, the density is that of the components, and grey crosses are outliers;
    those too far out are drawn at the edge of the picture.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.plotting import plot_density
    >>> drawn = plot_density(gm, X[:300, :2])
    """
    mixture, ax = drawn_mixture(model), axes_or_new(ax)
    flat, rows = mixture.marginal(list(features)), shown_rows(mixture, X, errors)
    draw_samples(ax, rows, features)
    xx, yy = _grid(*shown_range(flat, rows, features))
    points = np.column_stack([xx.ravel(), yy.ravel()])
    density = np.exp(to_numpy(flat.log_joint(points))).sum(axis=1).reshape(xx.shape)
    heights = mass_levels(density, np.linspace(0.95, 0.05, levels))
    ax.contour(xx, yy, density, levels=heights, colors=text_colour(), linewidths=0.8)
    mark_components(ax, to_numpy(flat.means))
    return _with_legend(_labelled_axes(ax, mixture, features))


def plot_ellipses(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] = (0, 1),
    mass: Sequence[float] = (0.5, 0.9),
    errors: np.ndarray | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Ellipses that hold the shares ``mass`` of the probability of each component.

    Gaps, ``errors`` and outliers in X are as in :func:`plot_density`.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.plotting import plot_ellipses
    >>> drawn = plot_ellipses(gm, X[:300, :2])
    """
    mixture, ax = drawn_mixture(model), axes_or_new(ax)
    _ellipses(ax, mixture, shown_rows(mixture, X, errors), features, mass)
    return _with_legend(ax)


def _ellipses(
    ax: Axes,
    mixture: Mixture,
    rows: ShownRows | None,
    features: Sequence[int],
    mass: Sequence[float] = (0.5, 0.9),
) -> None:
    from matplotlib.patches import Ellipse

    flat = mixture.marginal(list(features))
    draw_samples(ax, rows, features)
    width = 1.6 if mixture.n_components <= 8 else 1.1
    normals = zip(to_numpy(flat.means), covariance_matrices(flat), strict=True)
    for j, (mean, matrix) in enumerate(normals):
        values, vectors = np.linalg.eigh(matrix)
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for share in mass:
            # Of a normal pair, the share within Mahalanobis distance r is 1 - exp(-r²/2).
            radius = np.sqrt(-2 * np.log1p(-share))
            short, long = 2 * radius * np.sqrt(np.maximum(values, 0))
            ax.add_patch(
                Ellipse(
                    mean,
                    long,
                    short,
                    angle=angle,
                    fill=False,
                    linewidth=width,
                    color=component_colour(j),
                )
            )
    mark_components(ax, to_numpy(flat.means))
    _labelled_axes(ax, mixture, features)


def plot_marginal(
    model: Model,
    X: ArrayLike | None = None,
    *,
    feature: int = 0,
    numbers: bool = True,
    errors: np.ndarray | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The density of one feature, the part of each component, and a histogram of samples.

    Components are numbered at their peaks unless ``numbers`` is false. Gaps, ``errors`` and
    outliers in X are as in :func:`plot_density`; the crosses of outliers are on the axis.
    """
    mixture, ax = drawn_mixture(model), axes_or_new(ax)
    _curves(ax, mixture, shown_rows(mixture, X, errors), feature, numbers)
    return _with_legend(ax)


def _curves(
    ax: Axes, mixture: Mixture, rows: ShownRows | None, feature: int, numbers: bool
) -> None:
    line = mixture.marginal([feature])
    low, high = shown_range(line, rows, [feature])
    x = np.linspace(low[0], high[0], 400)
    if rows is not None:
        values = rows.members[:, feature]
        values = values[~np.isnan(values)]
        ax.hist(values, bins="auto", range=(low[0], high[0]), density=True, color="#9999994d")
    parts = np.exp(to_numpy(line.log_joint(x[:, None])))
    ax.plot(x, parts.sum(axis=1), color=text_colour(), linewidth=1.8)
    for j, part in enumerate(parts.T):
        ax.plot(x, part, color=component_colour(j), linewidth=1.2)
    ax.set(xlabel=axis_label(mixture, feature), yticks=[])
    if numbers:
        peaks = np.argmax(parts, axis=0)
        mark_components(ax, np.column_stack([x[peaks], np.max(parts, axis=0)]))
    draw_outliers_below(ax, rows, feature)


def plot_pairs(
    model: Model,
    X: ArrayLike | None = None,
    *,
    features: Sequence[int] | None = None,
    most: int = 4,
    errors: np.ndarray | None = None,
    figure: Figure | None = None,
) -> np.ndarray:
    """Each feature on the diagonal, and below it each pair with ellipses; an array of Axes.

    By default the ``most`` features in which the components lie furthest apart. Gaps, ``errors``
    and outliers in X are as in :func:`plot_density`.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.plotting import plot_pairs
    >>> drawn = plot_pairs(gm, X[:300, :2])
    """
    mixture = drawn_mixture(model)
    chosen = list(telling_features(mixture, most) if features is None else features)
    n = len(chosen)
    size = 2.2 * n + 0.6, 2.2 * n + 0.4
    if figure is None:
        figure = pyplot_or_error().figure(figsize=size, layout="constrained")
    else:
        figure.set_size_inches(size)
    axes: np.ndarray = figure.subplots(n, n, squeeze=False)
    rows = shown_rows(mixture, X, errors)
    for i, j in np.ndindex(n, n):
        ax = axes[i, j]
        if i == j:
            _curves(ax, mixture, rows, chosen[i], numbers=False)
        elif i > j:
            _ellipses(ax, mixture, rows, (chosen[j], chosen[i]))
        else:
            ax.set_visible(False)
            continue
        ax.set(xlabel=_short(ax.get_xlabel()) if i == n - 1 else "")
        ax.set(ylabel=_short(ax.get_ylabel()) if j == 0 and i > 0 else "")
        ax.tick_params(labelsize="small")
    if crosses := crosses_of(axes[-1, 0]):
        figure.legend(crosses, [OUTLIERS], loc="upper right", frameon=False)
    return axes


def _short(label: str) -> str:
    """The label, cut to the side of a small picture."""
    return label if len(label) <= 22 else label[:21] + "…"


def _with_legend(ax: Axes) -> Axes:
    """The Axes, with a legend for the crosses if there are any."""
    if crosses := crosses_of(ax):
        ax.legend(crosses, [OUTLIERS], fontsize="small")
    return ax


def _grid(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two coordinates of the points at which a density of two features is computed."""
    x, y = (np.linspace(a, b, _GRID_POINTS) for a, b in zip(low, high, strict=True))
    xx, yy = np.meshgrid(x, y)
    return xx, yy


def mass_levels(density: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Densities above which the given shares of the probability on the grid lie, rising."""
    falling = np.sort(density.ravel())[::-1]
    mass = np.cumsum(falling)
    places = np.searchsorted(mass, shares * mass[-1])
    return np.unique(falling[np.minimum(places, len(falling) - 1)])


def _labelled_axes(ax: Axes, mixture: Mixture, features: Sequence[int]) -> Axes:
    ax.set(xlabel=axis_label(mixture, features[0]), ylabel=axis_label(mixture, features[1]))
    return ax


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
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> from momentmix.plotting import MixtureDisplay
    >>> X, names = load_quakes()
    >>> fit = GaussianMixture(3, random_state=0).fit(X[:, :2])
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
        return cls(drawn_mixture(estimator), X, features).plot(kind=kind, ax=ax)

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
