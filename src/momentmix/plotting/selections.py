"""A picture of fits that were compared: a criterion against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from momentmix.plotting.axes import axes_or_new
from momentmix.plotting.colours import component_colour
from momentmix.selection.selection import COLUMNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from momentmix.selection import Selection


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
