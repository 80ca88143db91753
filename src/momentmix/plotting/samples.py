"""Rows in a picture: dots in the colours of their components, and crosses that are outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.observed import noise_of_errors
from momentmix.plotting.colours import component_colour
from momentmix.summary import feature_variances
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection
    from matplotlib.transforms import Transform
    from numpy.typing import ArrayLike

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
    X = np.asarray(to_numpy(X), dtype=float)
    beyond = np.zeros(len(X), dtype=bool)
    if mixture.background is not None:
        beyond = mixture.outlier_probability(X, _noise(errors)) > 0.5
    outliers, X = X[beyond], X[~beyond]
    dots, errors = X, None if errors is None else errors[~beyond]
    if len(X) > MOST_DOTS:
        some = np.random.default_rng(0).choice(len(X), MOST_DOTS, replace=False)
        dots, errors = X[some], None if errors is None else errors[some]
    labels = np.zeros(0, dtype=int)
    if len(dots):
        labels = np.argmax(to_numpy(mixture.log_joint(dots, _noise(errors))), axis=1)
    return ShownRows(X, outliers[:MOST_DOTS], dots, labels)


def _noise(errors: np.ndarray | None) -> np.ndarray | None:
    return None if errors is None else noise_of_errors(errors)


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
