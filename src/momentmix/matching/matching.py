"""Matching moments from any start: the pure moment estimate.

Everything here is in centred and scaled coordinates (frame.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Data, mean_and_covariance
from momentmix.matching.choices import parameter_count
from momentmix.matching.objective import ImplicitObjective, PackedObjective
from momentmix.matching.parametrisation import Parametrisation
from momentmix.solvers import Solution, gauss_newton, lbfgs
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.tensors.isserlis import hermite_factor, moment_covariance
from momentmix.tensors.packed import multiplicities, order_starts, total_size

#: Share of the moments' own square below which a cost counts as zero.
ZERO = 1e-18
#: Share of the identity in the correlation matrix of the moments, against its smallest eigenvalues.
RIDGE = 0.01


@dataclass(frozen=True)
class Model:
    """What is fitted, and how moments are matched."""

    kind: Kind
    m: int
    n: int
    order: int
    weights: list[float]
    augmentation: str
    weighting: str
    solver: str
    floor: float
    max_iter: int
    tol: float
    explicit: bool  # hold the moments and their Jacobian, rather than inner products alone
    mixture: bool = True  # the weights are those of a mixture, with sum 1


@dataclass
class Fit:
    """A mixture and how it came about. ``objective`` lacks the constant ‖M̂‖² where implicit."""

    parameters: Parameters
    objective: float
    log_likelihood: float = -np.inf
    n_iter: int = 0
    n_passes: int = 0
    converged: bool = False
    interrupted: bool = False
    history: list[float] = field(default_factory=list)
    log_likelihoods: list[float] = field(default_factory=list)
    log_posterior: float = np.nan  # the log-likelihood less the penalty of the prior
    strength: float = 0.0  # of the prior, in rows


class MomentMatching:
    """The moments of some data, to be matched from any start.

    ``agreeing``: cheap starts that must end at the lowest cost found before no more are tried, of
    which they must be half as well.
    """

    agreeing = 8

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data = model, data
        self.moments = data.moments(model.order) if model.explicit else None
        self.factor: Any = None
        if model.explicit and model.weighting != "orders":
            self.factor = hermite_factor(model.n, model.order)
        self.zero = 0.0  # below it a cost is zero to rounding; of implicit costs nobody knows
        if self.moments is not None:
            scale = np.repeat(model.weights, np.diff(order_starts(model.n, model.order)))
            whole = self.moments**2 * scale * multiplicities(model.n, model.order)
            self.zero = ZERO * float(np.sum(whole))

    def objective(self, parametrisation: Parametrisation) -> PackedObjective | ImplicitObjective:
        if self.moments is None:
            return ImplicitObjective(parametrisation, self.data, self.model.weights)
        return PackedObjective(parametrisation, self.moments, self.model.weights, self.factor)

    def weight_for(self, parameters: Parameters) -> None:
        """From now on weight residuals by the inverse covariance that moments of samples have.

        The samples being from a mixture with these parameters: the efficient weight of the
        generalised method of moments, estimated from a first fit. It needs no pass over the data,
        because the covariance of moments up to d follows from the mixture's moments up to 2d.
        """
        model = self.model
        covariance = model.kind.of(parameters.covariances, model.n)
        S = moment_covariance(
            parameters.weights, parameters.means, covariance.matrices(), model.order
        )
        S[0, 0] = 1  # order 0 does not vary
        scale = 1 / np.sqrt(np.diag(S))
        correlation = S * np.outer(scale, scale) + RIDGE * np.eye(len(S))
        L = np.linalg.cholesky(correlation)
        self.factor = solve_triangular(L, np.diag(scale), lower=True)

    def passes(self, evaluations: int) -> int:
        """Passes over the rows that the moments, or so many evaluations of the cost, took."""
        return self.data.passes * (1 if self.model.explicit else evaluations)

    def solve(
        self,
        start: Parameters,
        *,
        strict: bool,
        callback: Callable | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
    ) -> tuple[Parameters, Solution]:
        """Match the moments from a start.

        Covariances are free at first, which makes the cost well scaled. If some come out below
        the floor, they are raised to it (``strict`` false: to the size of the errors, good enough
        for EM to go on), or the fit goes on with factors, which keep them above it.
        """
        model = self.model
        free = self._parametrisation(model.floor if model.solver == "lbfgs" else None)
        limits = {
            "tol": model.tol if tol is None else tol,
            "max_iter": model.max_iter if max_iter is None else max_iter,
        }
        solution = self._minimise(free, start, callback, limits)
        parameters = self._decoded(free, solution)
        covariances = parameters.covariances
        lowest = model.kind.smallest_variance(covariances)
        if lowest >= model.floor:
            return parameters, solution
        if not strict or solution.interrupted:
            level = min(0.1, max(model.floor, 1e-3, -lowest))
            raised = model.kind.raised(covariances, level)
            return parameters._replace(covariances=raised), solution
        bounded = self._parametrisation(model.floor)
        raised = model.kind.raised(covariances, max(0.01, 2 * model.floor))
        second = self._minimise(bounded, parameters._replace(covariances=raised), callback, limits)
        second.n_iter += solution.n_iter
        second.n_passes += solution.n_passes
        second.history = solution.history + second.history
        return self._decoded(bounded, second), second

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
        callback: Callable | None,
        limits: dict[str, Any],
    ) -> Solution:
        model = self.model
        solver: Callable = gauss_newton
        if model.solver == "lbfgs":
            # It has no way to go on to rounding, where the cost tells nothing any more.
            solver, limits = lbfgs, limits | {"tol": max(limits["tol"], 1e-14)}
        objective = self.objective(parametrisation)
        x = parametrisation.encode(*start)
        with np.errstate(all="ignore"):
            return solver(objective, x, callback=callback, **limits)


#: Work of a Gauss–Newton step (moments × parameters²) from which starts are not wasted.
COSTLY_STEP = 3e6
#: Costly starts that must end at the lowest cost found before no more are tried.
AGREEING = 2


def match_moments(
    matching: MomentMatching, starts: list[Parameters], callback: Callable | None = None
) -> Fit:
    """The best of several moment fits by their cost: the pure moment estimate.

    Explicit fits stop trying once several starts agree, and are then carried on until rounding
    ends them, first by the weight of normal data and at last by that of the mixture found.
    """
    model = matching.model
    fit = Fit(starts[0], np.inf)
    found: list[tuple[Parameters, Solution]] = []
    try:
        if not model.explicit:
            for start in starts:
                found.append(matching.solve(start, strict=True, callback=callback))
                if found[-1][1].interrupted:
                    break
            _take(fit, found)
            if fit.converged and not fit.interrupted:
                _sharpen(matching, fit)
        else:
            with single_threaded_blas():
                _explore(matching, starts, found, callback)
                _take(fit, found)
                if not fit.interrupted:
                    _refine(matching, fit)
    except KeyboardInterrupt:
        _take(fit, found)
        fit.interrupted = True
    fit.n_passes = matching.passes(fit.n_passes)
    return fit


def _explore(
    matching: MomentMatching,
    starts: list[Parameters],
    found: list[tuple[Parameters, Solution]],
    callback: Callable | None,
) -> None:
    """Starts side by side, to a loose tolerance, until enough of them agree."""
    model = matching.model
    work = total_size(model.n, model.order) * parameter_count(model.kind, model.m, model.n) ** 2
    costly = work > COSTLY_STEP
    workers = worker_count(np) if costly else 1
    step = workers if costly else 4
    for i in range(0, len(starts), step):

        def solve(start: Parameters) -> tuple[Parameters, Solution]:
            return matching.solve(start, strict=True, callback=callback, tol=1e-4)

        batch = starts[i : i + step]
        for pair in map(solve, batch) if workers == 1 else parallel_map(solve, batch, workers):
            found.append(pair)
            if pair[1].interrupted or pair[1].value <= matching.zero:
                return
        values = np.array([solution.value for _, solution in found])
        agree = int(np.sum(values <= 1.001 * values.min()))
        if agree >= (AGREEING if costly else max(matching.agreeing, len(found) / 2)):
            return


def _take(fit: Fit, found: list[tuple[Parameters, Solution]]) -> None:
    """The solution of lowest cost; of those equal to it the first, whatever rounding did."""
    fit.n_passes = sum(solution.n_passes for _, solution in found)
    if not found:
        return
    lowest = min(solution.value for _, solution in found)
    level = lowest + 1e-3 * abs(lowest)
    parameters, solution = next(pair for pair in found if pair[1].value <= level)
    _adopt(fit, parameters, solution)
    fit.interrupted = any(solution.interrupted for _, solution in found)


def _adopt(fit: Fit, parameters: Parameters, solution: Solution) -> None:
    fit.parameters, fit.objective = parameters, solution.value
    fit.n_iter += solution.n_iter
    fit.history, fit.converged = solution.history, solution.converged
    fit.interrupted = solution.interrupted


#: Steps of an implicit fit after its cost is level, which the gradient is not yet.
LAST_STEPS = 6


def _sharpen(matching: MomentMatching, fit: Fit) -> None:
    """A few steps more while the gradient shrinks, so that rounding on the way does not show."""
    parameters, solution = matching.solve(fit.parameters, strict=True, tol=0.0, max_iter=LAST_STEPS)
    fit.n_passes += solution.n_passes
    if solution.value <= fit.objective + 1e-9 * abs(fit.objective):
        solution.converged = True
        _adopt(fit, parameters, solution)


def _refine(matching: MomentMatching, fit: Fit) -> None:
    """On from a good start until rounding ends it, and once more by the weight it makes known.

    Each ends at rounding, so that the result does not depend on the way that led to it.
    """
    parameters, solution = matching.solve(fit.parameters, strict=True, tol=0.0)
    # From free covariances back above the floor, the way may lead into another valley.
    if solution.value <= 1.01 * fit.objective + matching.zero:
        _adopt(fit, parameters, solution)
    if matching.model.weighting == "optimal" and fit.objective > 1e-20 and not fit.interrupted:
        matching.weight_for(fit.parameters)
        parameters, solution = matching.solve(fit.parameters, strict=True, tol=0.0)
        # A weight that lets a component run off to nowhere is no improvement.
        size = np.linalg.norm(fit.parameters.means, axis=1).max()
        if np.linalg.norm(parameters.means, axis=1).max() < 3 * size + 3:
            _adopt(fit, parameters, solution)


def widened(kind: Kind, parameters: Parameters) -> Parameters:
    """Fit for EM to go on from: no covariance so flat that its component would catch no sample."""
    if kind.smallest_variance(parameters.covariances) >= 0.01:
        return parameters
    raised = kind.raised(parameters.covariances, 0.1)
    return parameters._replace(covariances=raised)


def single_component(kind: Kind, data: Data, floor: float) -> Fit:
    """One component: the mean and the covariance, which every method agrees on."""
    mean, covariance = mean_and_covariance(data)
    spread = kind.raised(kind.repeated(1, covariance), floor)
    parameters = Parameters(np.ones(1), mean[None], spread)
    return Fit(parameters, 0.0, n_iter=1, n_passes=data.passes, converged=True, history=[0.0])
