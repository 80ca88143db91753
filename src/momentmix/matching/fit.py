"""What a fit has found, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix.data.parameters import Parameters


@dataclass(frozen=True)
class Fit:
    """A mixture and the way to it, in the coordinates of the fit or, restored, in those of X.

    What was not looked at is NaN. ``objective``, the moment cost, lacks the constant ‖M̂‖² where
    moments are implicit; log-likelihoods are means over the samples.
    """

    parameters: Parameters
    objective: float = np.nan
    log_likelihood: float = np.nan
    log_posterior: float = np.nan  # the log-likelihood less the penalty of the prior
    n_iter: int = 0  # of the last run of the solver that gave the result
    n_passes: int = 0  # over the data in all
    converged: bool = False
    interrupted: bool = False
    history: tuple[float, ...] = ()  # the moment cost after each iteration
    log_likelihoods: tuple[float, ...] = ()  # that the starts have led to
    bound: float = 0.0  # that a fit of moments kept variances above; 0 if it did not have to
    prior_strength: float = 0.0  # in rows; 0 without a prior
    curvature: np.ndarray | None = None  # -∂² of the log posterior a row, where it is known
    widths: np.ndarray | None = None  # of the box of a background, in the units of X; None: none
