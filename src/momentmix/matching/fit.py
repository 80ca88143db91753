"""What a fit has found, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters


class Agreement(NamedTuple):
    """How many starts of a search came to the same groups."""

    starts: int  #: the number of starts that were followed to their end
    agreeing: int  #: how many of them ended at the groups of the best
    gap: float  #: nats a row from the best to the best of the others; infinite if there are none

    @property
    def sentence(self) -> str:
        """The same in words, with what to do where starts disagree."""
        if self.starts == 1:
            return "One start was followed; ask for more with n_init to see whether others agree."
        if self.starts == self.agreeing:
            who = "Both" if self.starts == 2 else f"All {self.starts}"
            return f"{who} starts agree on the groups."
        below = f"the next best is {self.gap:.2g} nats a row below"
        if self.agreeing > 1:
            return f"{self.agreeing} of {self.starts} starts agree on the groups; {below}."
        return (
            f"The starts disagree: one of {self.starts} led to these groups, and {below}. Ask for "
            "more with n_init, and see whether the groups stay."
        )


@dataclass(frozen=True)
class Fit:
    """A mixture and the way to it, in the coordinates of the fit or, restored, in those of X.

    Values that were not computed are NaN. ``objective``, the moment cost, lacks the constant ‖M̂‖²
    if moments are implicit. Log-likelihoods are means over the samples.
    """

    parameters: Parameters
    objective: float = np.nan
    log_likelihood: float = np.nan
    log_posterior: float = np.nan  # the log-likelihood less the penalty of the prior
    n_iter: int = 0  # the iterations of the last run of the solver that gave the result
    n_passes: int = 0  # the passes over the data in all
    converged: bool = False
    interrupted: bool = False
    history: tuple[float, ...] = ()  # the moment cost after each iteration
    log_likelihoods: tuple[float, ...] = ()  # where each start has ended
    agreement: Agreement | None = None  # how far the starts agree; None without a search
    bound: float = 0.0  # the lower bound that a moment fit had to put on variances, or 0
    prior_strength: float = 0.0  # in rows; 0 without a prior
    curvature: np.ndarray | None = None  # the negative Hessian of the log posterior, if known
    widths: np.ndarray | None = None  # of the box of a background, in the units of X, if any
