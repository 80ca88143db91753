"""The number of each component, in a disc of its colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from momentmix.plotting.colours import component_colour, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
