"""From data to a mixture: moment starts, a short look at their likelihood, polish of the best.

Everything here is in centred and scaled coordinates (frame.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from momentmix._parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.atoms import Atoms
from momentmix.choices import parameter_count
from momentmix.covariance import make_covariance, raised_to_floor, smallest_variance
from momentmix.em import EMResult, Likelihood, Parameters
from momentmix.moves import relocate, split_and_merge
from momentmix.objective import ImplicitObjective, PackedObjective
from momentmix.packed import distribution_moments, hermite_factor
from momentmix.parametrisation import Parametrisation
from momentmix.dense import packed_size
from momentmix.solvers import Solution, gauss_newton, lbfgs
from momentmix.starts import POINTS, around_points, kmeans_labels

#: Distinct moments and parameters up to which a fit holds the moments themselves.
PACKED_MOMENTS, PACKED_PARAMETERS = 3000, 700

#: Entries of X up to which an EM run is so quick that the search can be a wide one.
SMALL_DATA = 50_000


@dataclass(frozen=True)
class Model:
    """What is fitted, and how moments are matched."""

    kind: str
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

    @property
    def packed(self) -> bool:
        moments = sum(packed_size(self.n, k) for k in range(self.order + 1))
        parameters = parameter_count(self.kind, self.m, self.n)
        return moments <= PACKED_MOMENTS and parameters <= PACKED_PARAMETERS


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


class MomentMatching:
    """The moments of one data distribution, to be matched from any start."""

    def __init__(self, model: Model, data: Atoms) -> None:
        self.model, self.data = model, data
        self.moments: np.ndarray | None = None
        if model.packed:
            self.moments = distribution_moments(_Holder(data), model.order)

    def objective(self, parametrisation: Parametrisation) -> PackedObjective | ImplicitObjective:
        model = self.model
        if self.moments is None:
            return ImplicitObjective(parametrisation, self.data, model.weights)
        factor = hermite_factor(model.n, model.order) if model.weighting == "hermite" else None
        return PackedObjective(parametrisation, self.moments, model.weights, factor)

    def solve(
        self, start: Parameters, *, strict: bool, callback: Callable | None = None
    ) -> tuple[Parameters, Solution]:
        """Match the moments from a start.

        Covariances are free at first, which makes the cost well scaled. If some come out below
        the floor, they are raised to it (``strict`` false: to the size of the errors, good enough
        for EM to go on), or the fit goes on with factors, which keep them above it.
        """
        model = self.model
        free = self._parametrisation(model.floor if model.solver == "lbfgs" else None)
        solution = self._minimise(free, start, callback)
        weights, means, covariances = free.decode(solution.x)
        parameters = Parameters(weights / weights.sum(), means, covariances)
        lowest = smallest_variance(model.kind, covariances)
        if lowest >= model.floor:
            return parameters, solution
        if not strict or solution.interrupted:
            level = min(0.1, max(model.floor, 1e-3, -lowest))
            raised = raised_to_floor(model.kind, covariances, level)
            return parameters._replace(covariances=raised), solution
        bounded = self._parametrisation(model.floor)
        raised = raised_to_floor(model.kind, covariances, max(0.01, 2 * model.floor))
        second = self._minimise(bounded, parameters._replace(covariances=raised), callback)
        second.n_iter += solution.n_iter
        second.n_passes += solution.n_passes
        second.history = solution.history + second.history
        weights, means, covariances = bounded.decode(second.x)
        return Parameters(weights / weights.sum(), means, covariances), second

    def _parametrisation(self, floor: float | None) -> Parametrisation:
        m = self.model
        return Parametrisation(
            m.kind, m.m, m.n, augmentation=m.augmentation, order=m.order, floor=floor
        )

    def _minimise(
        self, parametrisation: Parametrisation, start: Parameters, callback: Callable | None
    ) -> Solution:
        model = self.model
        solver = lbfgs if model.solver == "lbfgs" else gauss_newton
        objective = self.objective(parametrisation)
        x = parametrisation.encode(*start)
        with np.errstate(all="ignore"):
            return solver(
                objective, x, max_iter=model.max_iter, tol=model.tol, callback=callback
            )


@dataclass(frozen=True)
class _Holder:
    atoms: Atoms


def fit_moments(
    matching: MomentMatching, starts: list[Parameters], callback: Callable | None = None
) -> Fit:
    """The best of several moment fits by their objective: the pure moment estimate."""
    best: Fit | None = None
    passes = 1 if matching.moments is not None else 0
    for start in starts:
        parameters, solution = matching.solve(start, strict=True, callback=callback)
        if matching.moments is None:
            passes += solution.n_passes
        if best is None or solution.value < best.objective:
            best = Fit(
                parameters,
                solution.value,
                n_iter=solution.n_iter,
                converged=solution.converged,
                interrupted=solution.interrupted,
                history=solution.history,
            )
        if solution.interrupted or (matching.moments is not None and solution.value < 1e-22):
            best.interrupted = solution.interrupted
            break
    best.n_passes = passes
    return best


def fit_likelihood(
    matchings: list[MomentMatching],
    likelihood: Likelihood,
    starts: list[tuple[int, Parameters]],
    others: list[Parameters],
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    search: bool,
    callback: Callable[[str, float], None],
) -> Fit:
    """Moment fits from ``starts`` (which of the matchings, and where), and ``others`` as they are;
    a few EM steps for each, EM to the end for the best, and split-and-merge from there."""
    X = likelihood.X
    # On small data a thread costs more than it gives; on large data EM uses the threads itself.
    workers = worker_count(np) if 2e5 < X.size < 4e6 else 1

    def moment_start(job: tuple[int, Parameters]) -> tuple[Parameters, Solution]:
        parameters, solution = matchings[job[0]].solve(job[1], strict=False)
        callback("moments", solution.value)
        return parameters, solution

    with single_threaded_blas():
        solved = parallel_map(moment_start, starts, workers)
        guesses = [(parameters, solution) for parameters, solution in solved]
        guesses += [(parameters, None) for parameters in others]
        cheap = X.size <= SMALL_DATA
        short = []
        for parameters, solution in guesses:
            result = likelihood.fit(parameters, tol=max(tol, 1e-4), max_iter=10)
            callback("likelihood", result.log_likelihood)
            short.append((result, solution))
        n_iter = sum(r.n_iter for r, _ in short)
        short.sort(key=lambda pair: -pair[0].log_likelihood)
        if cheap:
            for i, (result, solution) in enumerate(short[:12]):
                longer = likelihood.fit(result.parameters, tol=max(tol, 1e-4), max_iter=30)
                n_iter += longer.n_iter
                short[i] = longer, solution
            short.sort(key=lambda pair: -pair[0].log_likelihood)
        best: tuple[EMResult, Solution | None] | None = None
        values = []
        options = {"tol": max(tol, 1e-5), "max_iter": max_iter}
        for i, (result, solution) in enumerate(short[: 4 if search else 1]):
            full = likelihood.fit(result.parameters, **options)
            n_iter += full.n_iter
            known = any(abs(full.log_likelihood - v) < 1e-5 for v in values)
            if search and (i == 0 or (cheap and not known)):
                before = full.n_iter
                full = split_and_merge(likelihood, full, rng, tries=5, **options)
                n_iter += full.n_iter - before
            callback("likelihood", full.log_likelihood)
            values.append(full.log_likelihood)
            if best is None or full.log_likelihood > best[0].log_likelihood:
                best = full, solution
            if full.interrupted:
                break
        if search and cheap:
            tries = int(np.clip(len(X) // 4, 30, 45))
            best = relocate(likelihood, best[0], rng, tries=tries, **options), best[1]
        final = likelihood.fit(best[0].parameters, tol=tol, max_iter=max_iter)
    n_iter += final.n_iter
    interrupted = final.interrupted or best[0].interrupted
    solutions = [s for _, s in solved]
    implicit = any(m.moments is None for m in matchings)
    moment_passes = sum(s.n_passes for s in solutions) if implicit else len(matchings)
    chosen = best[1]
    return Fit(
        final.parameters,
        np.nan if chosen is None else chosen.value,
        final.log_likelihood,
        final.n_iter,
        n_iter + moment_passes,
        final.converged,
        interrupted or any(s.interrupted for s in solutions),
        [] if chosen is None else chosen.history,
        values,
    )


def default_starts(
    X: np.ndarray,
    weights: np.ndarray | None,
    model: Model,
    rng: np.random.Generator,
    init: str,
    count: int,
) -> list[Parameters]:
    """``count`` guesses of one kind, or of all kinds in turn for "auto"."""
    kinds = ["random", "k-means++"] if init == "auto" else [init]
    makers = [POINTS[kinds[i % len(kinds)]] for i in range(count)]
    return [around_points(model.kind, make(X, weights, model.m, rng)) for make in makers]


def cluster_start(likelihood: Likelihood, m: int, rng: np.random.Generator) -> Parameters:
    """One M-step from the clusters of k-means: where scikit-learn's EM starts."""
    p = likelihood.weights
    uniform = bool(np.all(p == p[0]))
    return likelihood.from_responsibilities(
        kmeans_labels(likelihood.X, None if uniform else p, m, rng)
    )


def nearest_start(likelihood: Likelihood, m: int, rng: np.random.Generator) -> Parameters:
    """One M-step from the samples nearest to each of m random ones."""
    points = POINTS["random"](likelihood.X, likelihood.weights, m, rng)
    square = np.sum(points * points, axis=1) - 2 * (likelihood.X @ points.T)
    nearest = np.argmin(square, axis=1)
    return likelihood.from_responsibilities((nearest[:, None] == np.arange(m)).astype(float))


def affordable_starts(model: Model, p: int) -> int:
    """Moment starts that cost no more than some tens of EM runs; at most 4.

    A Gauss–Newton step takes about N P² multiplications for N moments and P parameters, and an EM
    step p D m for D features, either at least what NumPy takes to be called.
    """
    if not model.packed:
        return 3
    P = parameter_count(model.kind, model.m, model.n)
    N = sum(packed_size(model.n, k) for k in range(model.order + 1))
    width = make_covariance(model.kind, np.empty((1, 1, 1)), model.n).width + model.n
    newton = 4e6 + N * P * (P + model.m * model.n)
    em = 1e6 + 2.0 * p * width * model.m
    return int(np.clip(10 * em / newton, 0, 4))

