"""Matching the moments of data, from any start, in centred and scaled coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtri

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Data, MomentSource
from momentmix.matching.objective import Factor, ImplicitObjective, PackedObjective
from momentmix.matching.parametrisation import Parametrisation
from momentmix.solvers import Callback, Solution, gauss_newton, lbfgs
from momentmix.support.array import to_numpy
from momentmix.tensors.isserlis import hermite_factor, moment_covariance
from momentmix.tensors.packed import multiplicities, order_starts

#: A cost below this share of the squared moments counts as zero: the moments then agree to about
#: nine digits. This is a round number; no sampling noise is that small.
ZERO = 1e-18
#: This multiple of the identity is added to the correlation matrix of the moments, so that its
#: smallest eigenvalues do not decide the weights. This is a round number that was not tuned.
RIDGE = 0.01
#: Negative variances are raised to at most WIDEST, in units of the data, and to at most the share
#: WIDEST_SHARE of the average variance of components. These are round numbers that were not tuned:
#: larger ones widen narrow components, and smaller ones leave peaks.
WIDEST, WIDEST_SHARE = 0.1, 0.25


Augmentation = Literal["implicit", "post-processing", "free"]
SolverName = Literal["auto", "gauss-newton", "lbfgs"]
#: How residuals are weighted. "orders": one weight for each order. "hermite": the inverse
#: covariance of moments of normal samples. "optimal": first that, then the one for the mixture.
Weighting = Literal["orders", "hermite", "optimal"]


@dataclass(frozen=True)
class Model:
    """What is fitted, and how moments are matched."""

    kind: Kind
    m: int
    n: int
    order: int
    weights: Sequence[float]  # over the orders 0..order
    augmentation: Augmentation
    weighting: Weighting
    solver: SolverName
    floor: float  # the least variance, in the units of the data
    max_iter: int
    tol: float
    explicit: bool  # hold the moments and their Jacobian, rather than inner products alone
    rough: bool = False  # the fit is only a start of EM, and not an estimate of its own
    mixture: bool = True  # the weights sum to 1


class Matched(NamedTuple):
    """Parameters that match moments, and how the solver came there."""

    parameters: Parameters
    solution: Solution
    bound: float = 0.0  # the lower bound of variances that the moments do not determine


class MomentMatching:
    """The moments of some data, to be matched from any start."""

    #: If starts are cheap, they end when at least this many, and at least half of them, have the
    #: lowest cost. This is a round number that was not tuned; more starts miss less and cost time.
    agreeing = 8

    def __init__(self, model: Model, source: MomentSource, moments: np.ndarray | None) -> None:
        """``moments`` (N,) are the packed moments of the source where they are explicit."""
        self.model, self.source, self.moments = model, source, moments
        self.factor: Factor | None = None
        if model.explicit and model.weighting != "orders":
            self.factor = hermite_factor(model.n, model.order)
        self.zero = 0.0  # a cost below it is zero to rounding; unknown for implicit costs
        if self.moments is not None:
            scale = np.repeat(model.weights, np.diff(order_starts(model.n, model.order)))
            squares = self.moments**2 * scale * multiplicities(model.n, model.order)
            self.zero = ZERO * float(np.sum(squares))

    @classmethod
    def of(cls, model: Model, data: Data) -> MomentMatching:
        """The matching for some data, whose moments are computed here if they are explicit."""
        return cls(model, data, data.moments(model.order) if model.explicit else None)

    def objective(self, parametrisation: Parametrisation) -> PackedObjective | ImplicitObjective:
        if self.moments is None:
            return ImplicitObjective(parametrisation, self.source, self.model.weights)
        return PackedObjective(parametrisation, self.moments, self.model.weights, self.factor)

    def weight_for(self, parameters: Parameters) -> MomentMatching:
        """The same with the efficient weight of the generalised method of moments.

        It is the inverse covariance of moments of samples from a mixture with these parameters,
        which a first fit has estimated. It needs no pass over the data, because the covariance of
        moments up to order d follows from the mixture's moments up to order 2d.
        """
        model = self.model
        covariance = model.kind.of(parameters.covariances, model.n)
        S = moment_covariance(
            parameters.weights, parameters.means, to_numpy(covariance.matrices()), model.order
        )
        S[0, 0] = 1  # order 0 does not vary
        scale = 1 / np.sqrt(np.diag(S))
        correlation = S * np.outer(scale, scale) + RIDGE * np.eye(len(S))
        L = np.linalg.cholesky(correlation)
        other = copy(self)
        # Products with it are faster if its rows are contiguous in memory.
        other.factor = np.ascontiguousarray(dtrtri(L, lower=1)[0] * scale)
        return other

    def passes(self, evaluations: int) -> int:
        """The passes over the rows that moments, or some evaluations of the cost, have taken."""
        return self.source.passes * (1 if self.model.explicit else evaluations)

    def solve(
        self,
        start: Parameters,
        *,
        strict: bool,
        callback: Callback | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
    ) -> Matched:
        """Match the moments from a start.

        Covariances are free at first, which makes the cost well scaled. If some come out below the
        floor, they are raised to about the size of their error if ``strict`` is false, which is
        good enough for a start of EM. Otherwise the fit goes on with factors of covariances, which
        stay above that bound.
        """
        model = self.model
        free = self._parametrisation(model.floor if model.solver == "lbfgs" else None)
        tol = model.tol if tol is None else tol
        max_iter = model.max_iter if max_iter is None else max_iter
        solution = self._minimise(free, start, callback, tol, max_iter)
        parameters = self._decode(free, solution)
        covariances = parameters.covariances
        lowest = model.kind.smallest_variance(covariances)
        if lowest >= model.floor:
            return Matched(parameters, solution)
        if not strict or solution.interrupted:
            level = min(WIDEST, max(model.floor, 1e-3, -lowest))
            raised = model.kind.raise_to(covariances, level)
            return Matched(parameters._replace(covariances=raised), solution, level)
        level = max(model.floor, self._error_of_variances(parameters, lowest))
        bounded = self._parametrisation(level)
        raised = model.kind.raise_to(covariances, max(0.01, 2 * level))
        inside = parameters._replace(covariances=raised)
        second = self._minimise(bounded, inside, callback, tol, max_iter)
        return Matched(self._decode(bounded, second), second.after(solution), level)

    def _error_of_variances(self, parameters: Parameters, lowest: float) -> float:
        """The likely error of variances, given the lowest variance of a free fit.

        A negative variance is wrong by at least its size. With too low a bound, the next fit would
        end at the bound, in a peak that misses the rows. But narrow components must not be widened
        much because of one that is badly determined, so the average variance limits the bound;
        negative variances count as zero in it.
        """
        kind = self.model.kind
        raised = kind.of(kind.raise_to(parameters.covariances, self.model.floor), self.model.n)
        traces = np.trace(to_numpy(raised.matrices()), axis1=1, axis2=2)
        average = float(np.average(np.broadcast_to(traces, self.model.m))) / self.model.n
        return min(-lowest, WIDEST, WIDEST_SHARE * average)

    def _decode(self, parametrisation: Parametrisation, solution: Solution) -> Parameters:
        weights, means, covariances = parametrisation.decode(solution.x)
        if self.model.mixture:
            weights = weights / weights.sum()
        return Parameters(weights, means, covariances)

    def _parametrisation(self, floor: float | None) -> Parametrisation:
        m = self.model
        return Parametrisation(
            m.kind, m.m, m.n, augmentation=m.augmentation, order=m.order, floor=floor
        )

    def _minimise(
        self,
        parametrisation: Parametrisation,
        start: Parameters,
        callback: Callback | None,
        tol: float,
        max_iter: int,
    ) -> Solution:
        objective = self.objective(parametrisation)
        x = parametrisation.encode(*start)
        with np.errstate(all="ignore"):
            if self.model.solver == "lbfgs":
                # L-BFGS cannot go on to rounding, where the cost no longer shows progress.
                tol = max(tol, 1e-14)
                return lbfgs(objective, x, callback=callback, tol=tol, max_iter=max_iter)
            return gauss_newton(objective, x, callback=callback, tol=tol, max_iter=max_iter)
