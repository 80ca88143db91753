"""What all pictures share: colours of components, axes, marks with numbers, and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.summary.components import feature_variances, names_of
from momentmix.summary.origin import MeasuredRows
from momentmix.support.array import foreign, to_numpy

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.transforms import Transform
    from numpy.typing import ArrayLike

    from momentmix.estimators.base import MixtureEstimator

    #: A mixture or a fitted estimator.
    Model: TypeAlias = Mixture | MixtureEstimator

#: One for each component, repeated from the first if there are more. The first ones are those of
#: Okabe and Ito, the others differ from them; all are visible on white and on black. As nobody can
#: tell many colours apart, pictures and tables show numbers with them.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8A6D3B",
    "#7A7A7A",
    "#7B3FE4",
    "#3FAE2A",
    "#D63AC7",
    "#D7204E",
    "#9C8CFF",
    "#4B7A12",
    "#F08A7A",
    "#A8A832",
)


def component_colour(component: int) -> str:
    """The colour of a component, by its number."""
    return COLOURS[component % len(COLOURS)]


def text_on(colour: str) -> str:
    """White if it is legible on a colour, by WCAG's contrast ratio, else almost black."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > 3.3 else "#111111"


def drawn_mixture(model: object) -> Mixture:
    if isinstance(model, Mixture):
        return model.on(np.empty(0)) if foreign(model.means) else model
    found = getattr(model, "mixture_", None)
    if not isinstance(found, Mixture):
        raise TypeError(
            f"a Mixture or a fitted estimator is needed, got {type(model).__name__}; call fit first"
        )
    return found


def axes_or_new(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    new: Axes = pyplot_or_error().subplots(layout="constrained")[1]
    return new


def pyplot_or_error() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'momentmix[plot]'") from error
    module: ModuleType = pyplot
    return module


def text_colour() -> str:
    """The colour of text, for lines that are visible on light and on dark."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def axis_label(mixture: Mixture, feature: int) -> str:
    """The name of a feature, with dollar signs escaped so that they begin no formula."""
    return names_of(mixture)[feature].replace("$", r"\$")


#: The diameter of a disc in points, and the most rounds in which overlapping discs push each other
#: apart. Chosen by how pictures look.
_SIZE, _PUSHES = 11.0, 100


def mark_components(ax: Axes, points: np.ndarray) -> None:
    """Mark the components at their points (m, 2); call it when the limits of the axes are final.

    Discs that would hide each other move apart, each with a line back to its point.
    """
    ax.autoscale_view()
    places = ax.transData.transform(points) * 72 / ax.figure.dpi
    for j, shift in enumerate(push_apart(places, _SIZE + 0.5)):
        _draw_mark(ax, j, points[j], shift)


def push_apart(places: np.ndarray, gap: float) -> np.ndarray:
    """Shifts (m, 2) that move places (m, 2) about ``gap`` apart or more, by mutual pushes."""
    i, j = np.indices((len(places), len(places)))
    # Pairs at the same place are pushed in directions that differ from pair to pair.
    turned = np.sign(i - j)[:, :, None] * np.stack([np.cos(i + j), np.sin(i + j)], axis=2)
    shifts = np.zeros_like(places)
    for _ in range(_PUSHES):
        difference = (places + shifts)[:, None] - (places + shifts)
        distance = np.linalg.norm(difference, axis=2)
        overlap = np.where(i == j, 0, np.maximum(gap - distance, 0))
        if overlap.max(initial=0) < 0.05 * gap:
            break
        safe = np.where(distance > 1e-9, distance, 1)[:, :, None]
        direction = np.where(distance[:, :, None] > 1e-9, difference / safe, turned)
        shifts = shifts + 0.4 * np.sum(overlap[:, :, None] * direction, axis=1)
    return shifts


def _draw_mark(ax: Axes, component: int, point: np.ndarray, shift: np.ndarray) -> None:
    from matplotlib.transforms import ScaledTranslation

    colour = component_colour(component)
    if np.hypot(*shift) > _SIZE / 4:
        line = {"arrowstyle": "-", "color": colour, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        ax.annotate(
            "", tuple(point), tuple(shift), textcoords="offset points", arrowprops=line, zorder=4
        )
        ax.plot(*point, "o", color=colour, markersize=3, markeredgewidth=0, zorder=4)
    right, up = shift / 72  # inches
    moved = ax.transData + ScaledTranslation(right, up, ax.figure.dpi_scale_trans)
    ax.plot(
        *point, "o", color=colour, markersize=_SIZE, markeredgewidth=0.6, transform=moved,
        markeredgecolor=text_on(colour), clip_on=False, zorder=5,
    )  # fmt: skip
    ax.annotate(
        str(component), tuple(point), tuple(shift), textcoords="offset points", ha="center",
        va="center_baseline", color=text_on(colour), fontsize=7, fontweight="bold", zorder=6,
    )  # fmt: skip


#: The most samples in a picture. A round number that keeps pictures small and legible.
MOST_DOTS = 5000
#: How far a picture extends beyond the other rows to show outliers, as a share of the range of
#: these rows. A round number; outliers farther out are drawn at the edge.
_REACH = 0.5
#: The label of the crosses in legends, and their colour.
OUTLIERS, _GREY = "outliers", "#808080"


class ShownRows(NamedTuple):
    """The rows of a picture, those that belong to components and those that do not."""

    members: np.ndarray  # (p, n)
    outliers: np.ndarray  # (k, n)
    dots: np.ndarray  # (q, n) members, or a fixed choice of them if they are many
    labels: np.ndarray  # (q,) their most probable components

    def clip(self, feature: int) -> np.ndarray:
        """The outliers in one feature, moved to the edge of the picture if they lie beyond."""
        return np.clip(self.outliers[:, feature], *self.range(feature))

    def range(self, feature: int) -> tuple[float, float]:
        """The range that a picture shows of a feature: the rows, and outliers not too far out."""
        inside, beyond = (_span(rows[:, feature]) for rows in (self.members, self.outliers))
        if inside is None or beyond is None:
            return inside or beyond or (np.nan, np.nan)
        reach = _REACH * (inside[1] - inside[0])
        low = min(inside[0], max(beyond[0], inside[0] - reach))
        return low, max(inside[1], min(beyond[1], inside[1] + reach))


def _span(column: np.ndarray) -> tuple[float, float] | None:
    values = column[~np.isnan(column)]
    return (float(values.min()), float(values.max())) if len(values) else None


def shown_rows(
    mixture: Mixture, X: ArrayLike | None, errors: np.ndarray | None = None
) -> ShownRows | None:
    """The rows X (p, n), in which NaN is a gap, with their error bars (p, n) if any."""
    if X is None:
        return None
    rows = MeasuredRows(np.asarray(to_numpy(X), dtype=float), errors)
    beyond = np.zeros(len(rows.X), dtype=bool)
    if mixture.background is not None:
        beyond = mixture.outlier_probability(rows.X, rows.noise) > 0.5
    outliers, dots = rows.X[beyond], rows.some(~beyond)
    members = dots.X
    if len(members) > MOST_DOTS:
        dots = dots.some(np.random.default_rng(0).choice(len(members), MOST_DOTS, replace=False))
    labels = np.zeros(0, dtype=int)
    if len(members):
        labels = np.argmax(to_numpy(mixture.log_joint(dots.X, dots.noise)), axis=1)
    return ShownRows(members, outliers[:MOST_DOTS], dots.X, labels)


def draw_samples(ax: Axes, rows: ShownRows | None, features: Sequence[int]) -> None:
    """Two features of the rows."""
    if rows is None:
        return
    i, j = features
    colours = [component_colour(label) for label in rows.labels]
    x, y = rows.dots[:, i], rows.dots[:, j]
    ax.scatter(x, y, c=colours, s=8, alpha=0.45, linewidths=0, rasterized=True)
    if len(rows.outliers):
        _draw_crosses(ax, rows.clip(i), rows.clip(j), ax.transData)


def draw_outliers_below(ax: Axes, rows: ShownRows | None, feature: int) -> None:
    """The outliers in one feature, on the axis below its density."""
    if rows is not None and len(rows.outliers):
        x = rows.clip(feature)
        crosses = _draw_crosses(ax, x, np.zeros(len(x)), ax.get_xaxis_transform())
        crosses.set_clip_on(False)


def _draw_crosses(ax: Axes, x: np.ndarray, y: np.ndarray, scale: Transform) -> Collection:
    return ax.scatter(
        x, y, c=_GREY, s=20, marker="x", linewidths=1, zorder=3, label=OUTLIERS, transform=scale
    )


def crosses_of(ax: Axes) -> list[Collection]:
    """The crosses in a picture, for a legend."""
    return [one for one in ax.collections if one.get_label() == OUTLIERS]


def shown_range(
    mixture: Mixture, rows: ShownRows | None, features: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The ranges that a picture of some features shows; ``mixture`` has these features alone.

    They hold the rows, or without rows three deviations about each mean, with a margin.
    """
    means = to_numpy(mixture.means)
    spread = 3 * np.sqrt(feature_variances(mixture))
    low, high = (means - spread).min(axis=0), (means + spread).max(axis=0)
    if rows is not None:
        ends = np.array([rows.range(feature) for feature in features])
        if np.isfinite(ends).all():
            low, high = ends.T
    margin = 0.05 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin
