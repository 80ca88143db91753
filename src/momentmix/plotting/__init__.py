"""Pictures of mixtures and fits, with matplotlib (the ``plot`` extra).

Functions take a Mixture or a fitted estimator, draw into ``ax`` or a new figure, and return the
Axes. ``MixtureDisplay`` offers the same in scikit-learn's convention.
"""

from momentmix.plotting.canvas import COLOURS as COLOURS
from momentmix.plotting.canvas import MOST_DOTS as MOST_DOTS
from momentmix.plotting.canvas import component_colour as component_colour
from momentmix.plotting.canvas import text_on as text_on
from momentmix.plotting.diagnostics import draw_matches as draw_matches
from momentmix.plotting.diagnostics import plot_history as plot_history
from momentmix.plotting.diagnostics import plot_merges as plot_merges
from momentmix.plotting.diagnostics import plot_moment_residuals as plot_moment_residuals
from momentmix.plotting.diagnostics import plot_profile as plot_profile
from momentmix.plotting.diagnostics import plot_projections as plot_projections
from momentmix.plotting.diagnostics import plot_quantiles as plot_quantiles
from momentmix.plotting.diagnostics import plot_recovery as plot_recovery
from momentmix.plotting.diagnostics import plot_selection as plot_selection
from momentmix.plotting.mixtures import MixtureDisplay as MixtureDisplay
from momentmix.plotting.mixtures import plot_density as plot_density
from momentmix.plotting.mixtures import plot_ellipses as plot_ellipses
from momentmix.plotting.mixtures import plot_marginal as plot_marginal
from momentmix.plotting.mixtures import plot_pairs as plot_pairs
