"""Pictures of mixtures and fits, with matplotlib (the ``plot`` extra).

Functions take a Mixture or a fitted estimator, draw into ``ax`` or a new figure, and return the
Axes. ``MixtureDisplay`` offers the same in scikit-learn's convention.
"""

from momentmix.plotting.colours import COLOURS, component_colour, text_on
from momentmix.plotting.display import MixtureDisplay
from momentmix.plotting.fits import (
    draw_matches,
    plot_history,
    plot_moment_residuals,
    plot_recovery,
)
from momentmix.plotting.mixtures import plot_density, plot_ellipses, plot_marginal, plot_pairs
from momentmix.plotting.quantiles import plot_projections, plot_quantiles
from momentmix.plotting.samples import MOST_DOTS
from momentmix.plotting.selections import plot_selection
from momentmix.summary import telling_features

__all__ = [
    "COLOURS",
    "MOST_DOTS",
    "MixtureDisplay",
    "component_colour",
    "draw_matches",
    "plot_density",
    "plot_ellipses",
    "plot_history",
    "plot_marginal",
    "plot_moment_residuals",
    "plot_pairs",
    "plot_projections",
    "plot_quantiles",
    "plot_recovery",
    "plot_selection",
    "telling_features",
    "text_on",
]
