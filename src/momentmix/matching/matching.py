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

#: Share of the moments' own square below which a cost counts as zero.
ZERO = 1e-18
#: Share of the identity in the correlation matrix of the moments, against its smallest eigenvalues.
RIDGE = 0.01
#: The largest variance, in units of the data, and the largest share of the average variance of
#: components, to which those are raised that came out negative.
WIDEST, WIDEST_SHARE = 0.1, 0.25


Augmentation = Literal["implicit", "post-processing", "free"]
SolverName = Literal["auto", "gauss-newton", "lbfgs"]
#: One weight an order; the inverse covariance of moments of normal samples; that at first, and then
#: the one of samples of the mixture found.
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
    rough: bool = False  # as a start of something better, and not as an estimate of its own
    mixture: bool = True  # the weights are those of a mixture, with sum 1


class Matched(NamedTuple):
    """Parameters that match moments, and how the solver came there."""

    parameters: Parameters
    solution: Solution
    bound: float = 0.0  # that variances were kept above, because these moments do not tell them


class MomentMatching:
    """The moments of some data, to be matched from any start.

    ``agreeing``: cheap starts that must end at the lowest cost found before no more are tried, of
    which they must be half as well.
    """

    agreeing = 8

    def __init__(self, model: Model, source: MomentSource, moments: np.ndarray | None) -> None:
        """``moments`` (N,) are the packed moments of the source where they are explicit."""
        self.model, self.source, self.moments = model, source, moments
        self.factor: Factor | None = None
        if model.explicit and model.weighting != "orders":
            self.factor = hermite_factor(model.n, model.order)
        self.zero = 0.0  # below it a cost is zero to rounding; of implicit costs nobody knows
        if self.moments is not None:
            scale = np.repeat(model.weights, np.diff(order_starts(model.n, model.order)))
            squares = self.moments**2 * scale * multiplicities(model.n, model.order)
            self.zero = ZERO * float(np.sum(squares))

    @classmethod
    def of(cls, model: Model, data: Data) -> MomentMatching:
        """That of data, of which explicit moments are taken here."""
        return cls(model, data, data.moments(model.order) if model.explicit else None)

    def objective(self, parametrisation: Parametrisation) -> PackedObjective | ImplicitObjective:
        if self.moments is None:
            return ImplicitObjective(parametrisation, self.source, self.model.weights)
        return PackedObjective(parametrisation, self.moments, self.model.weights, self.factor)

    def weighted_for(self, parameters: Parameters) -> MomentMatching:
        """The same with residuals weighted by the inverse covariance that moments of samples have.

        The samples being from a mixture with these parameters: the efficient weight of the
        generalised method of moments, estimated from a first fit. It needs no pass over the data,
        because the covariance of moments up to d follows from the mixture's moments up to 2d.
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
        # Rows along memory, as products with it want them.
        other.factor = np.ascontiguousarray(dtrtri(L, lower=1)[0] * scale)
        return other

    def passes(self, evaluations: int) -> int:
        """Passes over the rows that the moments, or so many evaluations of the cost, took."""
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

        Covariances are free at first, which makes the cost well scaled. If some come out below
        the floor, they are raised to the size of the errors (``strict`` false: good enough for EM
        to go on), or the fit goes on with factors, which keep them above that.
        """
        model = self.model
        free = self._parametrisation(model.floor if model.solver == "lbfgs" else None)
        tol = model.tol if tol is None else tol
        max_iter = model.max_iter if max_iter is None else max_iter
        solution = self._minimise(free, start, callback, tol, max_iter)
        parameters = self._decoded(free, solution)
        covariances = parameters.covariances
        lowest = model.kind.smallest_variance(covariances)
        if lowest >= model.floor:
            return Matched(parameters, solution)
        if not strict or solution.interrupted:
            level = min(WIDEST, max(model.floor, 1e-3, -lowest))
            raised = model.kind.raised(covariances, level)
            return Matched(parameters._replace(covariances=raised), solution, level)
        level = max(model.floor, self._error_of_variances(parameters, lowest))
        bounded = self._parametrisation(level)
        raised = model.kind.raised(covariances, max(0.01, 2 * level))
        inside = parameters._replace(covariances=raised)
        second = self._minimise(bounded, inside, callback, tol, max_iter)
        return Matched(self._decoded(bounded, second), second.after(solution), level)

    def _error_of_variances(self, parameters: Parameters, lowest: float) -> float:
        """How far variances may be wrong, if the lowest of a free fit came out so.

        One that is negative errs by its size at least. A fit bounded by next to nothing would end
        there, and have no density to speak of where the rows are. But narrow components must not
        be widened much for the sake of one that is badly known. Of the average variance, parts
        that are negative count as nothing.
        """
        kind = self.model.kind
        raised = kind.of(kind.raised(parameters.covariances, self.model.floor), self.model.n)
        traces = np.trace(to_numpy(raised.matrices()), axis1=1, axis2=2)
        average = float(np.average(np.broadcast_to(traces, self.model.m))) / self.model.n
        return min(-lowest, WIDEST, WIDEST_SHARE * average)

    def _decoded(self, parametrisation: Parametrisation, solution: Solution) -> Parameters:
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
                # It has no way to go on to rounding, where the cost tells nothing any more.
                tol = max(tol, 1e-14)
                return lbfgs(objective, x, callback=callback, tol=tol, max_iter=max_iter)
            return gauss_newton(objective, x, callback=callback, tol=tol, max_iter=max_iter)
