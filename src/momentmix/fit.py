"""What every fit returns: the parameters of a mixture, and how they came about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind, Strengths
from momentmix.distributions.mixture import Mixture

#: Decimal places that count when numbers of about 1 are compared. Later places may be rounding
#: errors, which must not break ties, and whole-numbered data have many ties. float64 has 16 digits;
#: 9 leaves a wide margin on both sides and was not tuned.
DIGITS = 9


class Parameters(NamedTuple):
    """Weights (m,), means (m, n) and covariances of a mixture while it is being fitted.

    Weights sum to 1, or to less if some rows belong to no component. S mixtures of m components are
    stored as S m components one after the other.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def of(cls, mixture: Mixture) -> Parameters:
        """The parameters of a mixture, as NumPy arrays."""
        parts = mixture.weights, mixture.means, mixture.atoms.covariance.array
        weights, means, covariances = (np.asarray(part) for part in parts)
        if mixture.background is not None:
            weights = weights * (1 - mixture.background.share)
        return cls(weights, means, covariances)


def order_by_weight(parameters: Parameters) -> np.ndarray:
    """The indices of the components by decreasing weight; equal weights go by mean; (m,)."""
    return np.lexsort([*parameters.means.T[::-1], -np.round(parameters.weights, 9)])


def by_weight(kind: Kind, parameters: Parameters) -> Parameters:
    """The components in that order."""
    weights, means, covariances = parameters
    order = order_by_weight(parameters)
    return Parameters(weights[order], means[order], kind.take_components(covariances, order))


def outlier_share(weights: np.ndarray) -> float:
    """The share of rows that belong to no component: 1 minus the weights, 0 if only rounding."""
    missing = 1 - float(np.sum(weights))
    return missing if missing > 1e-12 else 0.0


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
    interrupted: bool = False  # by Ctrl-C, so that it is the best so far
    history: tuple[float, ...] = ()  # the moment cost after each iteration
    log_likelihoods: tuple[float, ...] = ()  # where each start has ended
    agreement: Agreement | None = None  # how far the starts agree; None without a search
    bound: float = 0.0  # the lower bound that a moment fit had to put on variances, or 0
    strengths: Strengths = field(default=Strengths())  # of the prior
    curvature: np.ndarray | None = None  # the negative Hessian of the log posterior, if known
    widths: np.ndarray | None = None  # of the box of a background, in the units of X; (n,)

    @property
    def worth(self) -> float:
        """The log-posterior without digits that may be rounding; fits are compared by it."""
        return round(self.log_posterior, DIGITS)

    def after(self, before: Fit, n_iter: int | None = None) -> Fit:
        """This result of EM as the continuation of a fit, whose passes count too.

        ``n_iter`` replaces the number of its steps if it is given.
        """
        steps = self.n_iter if n_iter is None else n_iter
        return replace(
            before,
            parameters=self.parameters,
            log_likelihood=self.log_likelihood,
            log_posterior=self.log_posterior,
            n_iter=steps,
            n_passes=before.n_passes + self.n_passes + steps,
            converged=self.converged,
            strengths=self.strengths,
            curvature=self.curvature,
        )
