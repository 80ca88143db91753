"""Moments of data matched from one start, in centred and scaled coordinates, and the starts.

A start has some means, with equal weights and equal covariances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg.lapack import dtrtri

from momentmix.covariance import Kind
from momentmix.fit import Parameters
from momentmix.matching.objective import Factor, ImplicitObjective, PackedObjective, Parametrisation
from momentmix.moments.orders import augmented_weights
from momentmix.rows.data import MomentData, MomentSource, mean_and_covariance
from momentmix.rows.memory import random_points, spread_points
from momentmix.solvers import Callback, Solution, gauss_newton, lbfgs
from momentmix.support.array import to_numpy
from momentmix.support.stopping import stopped
from momentmix.tensors.dense import unpack
from momentmix.tensors.isserlis import hermite_factor, moment_covariance
from momentmix.tensors.packed import multiplicities, order_slice, order_starts

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


#: The least variance of a component, relative to that of the data, if moments are matched. This is
#: a round number that was not tuned.
LEAST_MATCHED_VARIANCE = 1e-9
#: The most iterations and the tolerance of moment fits that are only starts of EM, and the
#: tolerance of estimates. These are round numbers that were not tuned: EM corrects its starts, and
#: estimates are exact to far less than their sampling noise.
START_ITERATIONS, START_TOL, ESTIMATE_TOL = 30, 3e-5, 1e-9


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
    weights: Sequence[float]  # over the orders 0..order; none until they are derived from the data
    augmentation: Augmentation
    weighting: Weighting
    solver: SolverName
    floor: float  # the least variance, in the units of the data
    max_iter: int
    tol: float
    explicit: bool  # hold the moments and their Jacobian, rather than inner products alone
    rough: bool = False  # the fit is only a start of EM, and not an estimate of its own
    mixture: bool = True  # the weights sum to 1
    omega: float | None = None  # the paper's ω, in units of X, which gives the weights
    tensors: bool = False  # one pass makes moments, which replace the rows
    init: Init = "auto"

    def weigh(self, unit: float, derived: Sequence[float]) -> Model:
        """The same with weights of the orders: from ω in the unit of a frame, as given, derived."""
        if self.omega is not None:
            return replace(self, weights=list(augmented_weights(self.order, self.omega / unit)))
        return self if self.weights else replace(self, weights=derived)


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
    def of(cls, model: Model, data: MomentData) -> MomentMatching:
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

        In the post-processing form, the weights are rescaled at the end, which raises the cost; if
        ``strict``, the fit therefore goes on in the implicit form.

        Covariances are free at first, which makes the cost well scaled. If some come out below the
        floor, they are raised to about the size of their error if ``strict`` is false, which is
        good enough for a start of EM. Otherwise the fit goes on with factors of covariances, which
        stay above that bound.
        """
        model, form = self.model, self.model.augmentation
        lowest_free = model.floor if model.solver == "lbfgs" else None
        free = self._parametrisation(form, lowest_free)
        tol = model.tol if tol is None else tol
        max_iter = model.max_iter if max_iter is None else max_iter
        solution = self._minimise(free, start, callback, tol, max_iter)
        parameters = self._decode(free, solution)
        if free.homogeneous and model.mixture and strict and not stopped():
            form = "implicit"
            free = self._parametrisation(form, lowest_free)
            last = self._minimise(free, parameters, callback, tol, max_iter)
            parameters, solution = self._decode(free, last), last.after(solution)
        covariances = parameters.covariances
        lowest = model.kind.smallest_variance(covariances)
        if lowest >= model.floor:
            return Matched(parameters, solution)
        if not strict or stopped():
            level = min(WIDEST, max(model.floor, 1e-3, -lowest))
            raised = model.kind.raise_to(covariances, level)
            return Matched(parameters._replace(covariances=raised), solution, level)
        level = max(model.floor, self._error_of_variances(parameters, lowest))
        bounded = self._parametrisation(form, level)
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

    def _parametrisation(self, form: Augmentation, floor: float | None) -> Parametrisation:
        m = self.model
        return Parametrisation(m.kind, m.m, m.n, augmentation=form, order=m.order, floor=floor)

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


#: Without rows, starts are chosen among this many points drawn from a Gaussian. This is a round
#: number that was not tuned; it affects starts alone.
DRAWS = 2000


def normal_points(data: MomentData, rng: np.random.Generator) -> np.ndarray:
    """Gaussian points with the mean and covariance of the data."""
    mean, covariance = mean_and_covariance(data)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return mean + rng.normal(size=(DRAWS, data.n)) @ root


def spectral_means(data: MomentData, m: int, rng: np.random.Generator) -> np.ndarray:
    """Means from a symmetric CP of the third moment, in the subspace where the means differ.

    Centred means span m-1 dimensions, those of the leading eigenvectors of the covariance if the
    means stand out from the noise. The third moment of the projected data is decomposed by power
    iteration with deflation (§5 of Pereira–Kileel–Kolda). It needs no debiasing, because isotropic
    noise around a zero mean does not change it.
    """
    r = min(m - 1, data.n)
    if r == 0:
        return np.zeros((m, data.n))
    second = to_numpy(unpack(data.moments(2)[order_slice(data.n, 2)], data.n, 2))
    basis = np.linalg.eigh(second)[1][:, -r:]
    T = to_numpy(unpack(data.compress(basis, 3).moments(3)[order_slice(r, 3)], r, 3))
    points = []
    for _ in range(m):
        best, vector = -np.inf, np.zeros(r)
        for _ in range(6):
            v = rng.normal(size=data.n) @ basis  # signs of eigenvectors do not matter
            for _ in range(50):
                v = np.einsum("abc,b,c->a", T, v, v)
                v /= max(np.linalg.norm(v), 1e-300)
            value = float(np.einsum("abc,a,b,c->", T, v, v, v))
            if value > best:
                best, vector = value, v
        T = T - best * np.einsum("a,b,c->abc", vector, vector, vector)
        # λ μ³ with λ = 1/m gives the length.
        points.append(np.cbrt(m * best) * vector)
    return np.array(points) @ basis.T


Init: TypeAlias = Literal["auto", "random", "k-means++", "spectral"]
INITS: tuple[Init, ...] = ("random", "k-means++", "spectral", "auto")
Draw: TypeAlias = Callable[[np.ndarray, np.ndarray | None, int, np.random.Generator], np.ndarray]
#: The kinds of start that draw points from the data.
POINTS: dict[str, Draw] = {"random": random_points, "k-means++": spread_points}


def around_points(kind: Kind, means: np.ndarray, share: float = 0.5) -> Parameters:
    """Components of equal weight at some means; variances are a share of the data's, which is 1."""
    m, n = means.shape
    return Parameters(np.full(m, 1 / m), means, kind.repeat(m, share * np.eye(n)))


def moment_starts(
    data: MomentData,
    model: Model,
    init: Init,
    points: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    rng: np.random.Generator,
) -> list[Parameters]:
    """``count`` starts of one kind; "auto" takes the kinds that draw points in turn."""
    if init == "spectral":
        means = [spectral_means(data, model.m, rng) for _ in range(count)]
    else:
        draws = list(POINTS.values()) if init == "auto" else [POINTS[init]]
        means = [draws[i % len(draws)](points, weights, model.m, rng) for i in range(count)]
    return [around_points(model.kind, m) for m in means]
