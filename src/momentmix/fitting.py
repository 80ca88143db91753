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
from momentmix.covariance import (
    common_covariance,
    make_covariance,
    raised_to_floor,
    smallest_variance,
)
from momentmix.dense import packed_size
from momentmix.em import EMResult, Likelihood, Parameters
from momentmix.isserlis import atom_sums, hermite_factor
from momentmix.moves import relocate, split_and_merge
from momentmix.objective import ImplicitObjective, PackedObjective
from momentmix.parametrisation import Parametrisation
from momentmix.solvers import Solution, gauss_newton, lbfgs
from momentmix.starts import POINTS, around_points, kmeans_labels

#: Distinct moments and parameters up to which a fit holds the moments themselves.
PACKED_MOMENTS, PACKED_PARAMETERS = 3000, 700

#: Entries of X up to which an EM run is so quick that the search can be a wide one.
SMALL_DATA = 50_000
#: Entries of X beyond which the search looks at a sample of the rows, and only the end at all.
LARGE_DATA = 2_000_000


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
            self.moments = atom_sums(data, np.zeros(model.n), model.order)

    def objective(self, parametrisation: Parametrisation) -> PackedObjective | ImplicitObjective:
        model = self.model
        if self.moments is None:
            return ImplicitObjective(parametrisation, self.data, model.weights)
        factor = hermite_factor(model.n, model.order) if model.weighting == "hermite" else None
        return PackedObjective(parametrisation, self.moments, model.weights, factor)

    def solve(
        self,
        start: Parameters,
        *,
        strict: bool,
        callback: Callable | None = None,
        tol: float | None = None,
    ) -> tuple[Parameters, Solution]:
        """Match the moments from a start.

        Covariances are free at first, which makes the cost well scaled. If some come out below
        the floor, they are raised to it (``strict`` false: to the size of the errors, good enough
        for EM to go on), or the fit goes on with factors, which keep them above it.
        """
        model = self.model
        free = self._parametrisation(model.floor if model.solver == "lbfgs" else None)
        tol = model.tol if tol is None else tol
        solution = self._minimise(free, start, callback, tol)
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
        second = self._minimise(bounded, parameters._replace(covariances=raised), callback, tol)
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
        self,
        parametrisation: Parametrisation,
        start: Parameters,
        callback: Callable | None,
        tol: float,
    ) -> Solution:
        model = self.model
        solver = lbfgs if model.solver == "lbfgs" else gauss_newton
        objective = self.objective(parametrisation)
        x = parametrisation.encode(*start)
        with np.errstate(all="ignore"):
            return solver(objective, x, max_iter=model.max_iter, tol=tol, callback=callback)


def fit_moments(
    matching: MomentMatching, starts: list[Parameters], callback: Callable | None = None
) -> Fit:
    """The best of several moment fits by their objective: the pure moment estimate."""
    packed = matching.moments is not None
    best = Fit(starts[0], np.inf, n_passes=1 if packed else 0)
    try:
        for start in starts:
            found = matching.solve(start, strict=True, callback=callback)
            if _improved(best, *found, packed):
                break
        if packed and not best.interrupted:  # each step is cheap: go on until rounding ends it
            _improved(best, *matching.solve(best.parameters, strict=True, tol=0.0), packed)
    except KeyboardInterrupt:
        best.interrupted = True
    return best


def _improved(best: Fit, parameters: Parameters, solution: Solution, packed: bool) -> bool:
    """Take over a solution that is better; whether there is no point in another start."""
    best.n_passes += 0 if packed else solution.n_passes
    if solution.value <= best.objective:
        best.parameters, best.objective = parameters, solution.value
        best.n_iter, best.history = solution.n_iter, solution.history
        best.converged = solution.converged
    best.interrupted = solution.interrupted
    return solution.interrupted or (packed and solution.value < 1e-22)


@dataclass
class Candidate:
    """A mixture on its way to the best likelihood, and the moment fit it came from, if any."""

    result: EMResult
    solution: Solution | None

    @property
    def value(self) -> float:
        return self.result.log_likelihood


class LikelihoodSearch:
    """EM for many starts, more of it for the better ones, and repairs for the best."""

    def __init__(
        self, likelihood: Likelihood, rng: np.random.Generator, tol: float, max_iter: int
    ) -> None:
        self.likelihood, self.rng = likelihood, rng
        self.tol, self.max_iter = tol, max_iter
        self.loose = max(tol, 1e-5)
        self.n_iter, self.interrupted = 0, False
        self.leader: Candidate | None = None
        self.cheap = likelihood.X.size <= SMALL_DATA

    def run(self, candidate: Candidate, max_iter: int, tol: float) -> Candidate:
        if self.interrupted:
            return candidate
        parameters = candidate.result.parameters
        return self._noted(
            self.likelihood.fit(parameters, tol=tol, max_iter=max_iter), candidate, 0
        )

    def _noted(self, result: EMResult, candidate: Candidate, before: int) -> Candidate:
        self.n_iter += result.n_iter - before
        self.interrupted = self.interrupted or result.interrupted
        noted = Candidate(result, candidate.solution)
        if self.leader is None or noted.value > self.leader.value:
            self.leader = noted
        return noted

    def shortlist(self, candidates: list[Candidate], callback: Callable) -> list[Candidate]:
        """All of them after a few steps; on small data the better ones after some more."""
        short = []
        for candidate in candidates:
            short.append(self.run(candidate, 10, max(self.tol, 1e-4)))
            callback("likelihood", short[-1].value)
        short.sort(key=lambda c: -c.value)
        if self.cheap:
            short[:12] = [self.run(c, 30, max(self.tol, 1e-4)) for c in short[:12]]
            short.sort(key=lambda c: -c.value)
        return short

    def finish(self, candidate: Candidate) -> Candidate:
        return self.run(candidate, self.max_iter, self.loose)

    def repaired(self, candidate: Candidate, move: Callable, tries: int) -> Candidate:
        """After split_and_merge or relocate."""
        if self.interrupted:
            return candidate
        result = move(
            self.likelihood,
            candidate.result,
            self.rng,
            tol=self.loose,
            max_iter=self.max_iter,
            tries=tries,
        )
        return self._noted(result, candidate, candidate.result.n_iter)

    def best(self, short: list[Candidate], callback: Callable) -> tuple[Candidate, list[float]]:
        """The best after repairs, and the likelihoods of all that were carried to the end."""
        values: list[float] = []
        best: Candidate | None = None
        for i, candidate in enumerate(short[: 4 if self.cheap else 2]):
            full = self.finish(candidate)
            known = any(abs(full.value - value) < self.loose for value in values)
            if i == 0 or (self.cheap and not known):
                full = self.repaired(full, split_and_merge, tries=5)
            values.append(full.value)
            callback("likelihood", full.value)
            if best is None or full.value > best.value:
                best = full
        assert best is not None
        if self.cheap:
            tries = int(np.clip(len(self.likelihood.X) // 4, 30, 45))
            best = self.repaired(best, relocate, tries)
        return best, values


def fit_likelihood(
    matchings: list[MomentMatching],
    likelihood: Likelihood,
    whole: Likelihood,
    starts: list[tuple[int, Parameters]],
    others: list[Parameters],
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    wide: bool,
    callback: Callable[[str, float], None],
) -> Fit:
    """Moment fits from ``starts`` (which of the matchings, and where), and ``others`` as they are.

    A few EM steps for each, EM to the end for the best and, if ``wide``, repairs from there.
    ``likelihood`` may be that of a sample of the rows; the last EM run is on the ``whole``.
    """
    # On small data threads cost more than they give; on large data EM uses them itself.
    workers = worker_count(np) if 2e5 < likelihood.X.size < 4e6 else 1

    search = LikelihoodSearch(likelihood, rng, tol, max_iter)

    def moment_start(job: tuple[int, Parameters]) -> tuple[Parameters, Solution | None]:
        if search.interrupted:
            return job[1], None
        parameters, solution = matchings[job[0]].solve(job[1], strict=False)
        search.interrupted = search.interrupted or solution.interrupted
        callback("moments", solution.value)
        return parameters, solution

    def candidate(parameters: Parameters, solution: Solution | None) -> Candidate:
        return Candidate(EMResult(parameters, -np.inf, 0, False, False), solution)

    solved: list[tuple[Parameters, Solution | None]] = []
    values: list[float] = []
    final = candidate(others[0] if others else starts[0][1], None)
    try:
        with single_threaded_blas():
            solved = parallel_map(moment_start, starts, workers)
            candidates = [candidate(*pair) for pair in solved]
            candidates += [candidate(parameters, None) for parameters in others]
            short = search.shortlist(candidates, callback)
            if wide:
                best, values = search.best(short, callback)
            else:
                best = search.finish(short[0])
                values = [best.value]
            search.likelihood = whole
            final = search.run(best, max_iter, tol)
    except KeyboardInterrupt:
        search.interrupted = True
    if search.interrupted:
        final = search.leader or final
        value = whole.value(final.result.parameters)  # that of a sample so far, or not known
    else:
        value = final.value
    solutions = [solution for _, solution in solved if solution is not None]
    implicit = any(matching.moments is None for matching in matchings)
    moment_passes = sum(s.n_passes for s in solutions) if implicit else len(matchings)
    chosen = final.solution
    return Fit(
        final.result.parameters,
        np.nan if chosen is None else chosen.value,
        value,
        final.result.n_iter,
        search.n_iter + moment_passes,
        final.result.converged,
        search.interrupted,
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


def nearest_start(likelihood: Likelihood, points: np.ndarray) -> Parameters:
    """One M-step from the samples nearest to each of some points."""
    square = np.sum(points * points, axis=1) - 2 * (likelihood.X @ points.T)
    nearest = np.argmin(square, axis=1)
    R = (nearest[:, None] == np.arange(len(points))).astype(float)
    return likelihood.from_responsibilities(R)


def random_nearest_start(likelihood: Likelihood, m: int, rng: np.random.Generator) -> Parameters:
    points = POINTS["random"](likelihood.X, likelihood.weights, m, rng)
    return nearest_start(likelihood, points)


def plain_starts(likelihood: Likelihood, m: int, rng: np.random.Generator) -> list[Parameters]:
    """Starts of EM without moments: k-means, and for small data many around random samples."""
    p, cheap = len(likelihood.X), likelihood.X.size <= SMALL_DATA
    clusters = [cluster_start(likelihood, m, rng) for _ in range(2 if cheap else 1)]
    few = (30 if p <= 300 else 18) if cheap else 0
    return clusters + [random_nearest_start(likelihood, m, rng) for _ in range(few)]


def sample_of_rows(likelihood: Likelihood, rng: np.random.Generator) -> Likelihood:
    """The likelihood itself, or for large data that of rows drawn by weight."""
    p, n = likelihood.X.shape
    if p * n <= LARGE_DATA:
        return likelihood
    count = max(LARGE_DATA // 2 // n, 2000)
    rows = np.sort(rng.choice(p, count, p=likelihood.weights))
    return Likelihood(likelihood.X[rows], None, likelihood.kind, likelihood.floor)


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


def single_component(kind: str, atoms: Atoms, floor: float) -> Fit:
    """One component: the mean and the covariance, which every method agrees on."""
    weights, n = np.asarray(atoms.column)[:, 0], atoms.means.shape[1]
    mean = weights @ atoms.means
    spread = _second_moment(atoms, weights) - np.outer(mean, mean) + floor * np.eye(n)
    parameters = Parameters(np.ones(1), mean[None], common_covariance(kind, 1, spread))
    fit = Fit(parameters, 0.0, n_iter=1, n_passes=1, converged=True, history=[0.0])
    if atoms.covariance.zero:
        safe = raised_to_floor(kind, parameters.covariances, max(floor, 1e-12))
        likelihood = Likelihood(atoms.means, weights, kind, floor)
        fit.log_likelihood = likelihood.value(parameters._replace(covariances=safe))
    return fit


def draws(atoms: Atoms, rng: np.random.Generator) -> np.ndarray:
    """Points to start from: means, spread by the covariances where these can be drawn from."""
    rows = rng.choice(len(atoms), 2000, p=np.asarray(atoms.column)[:, 0])
    points = atoms.means[rows]
    covariance = atoms.covariance
    if covariance.zero:
        return points
    used, where = np.unique(rows, return_inverse=True)
    if covariance.shared:
        used, where = np.zeros(1, dtype=int), np.zeros(len(rows), dtype=int)
    values, vectors = np.linalg.eigh(covariance.matrices()[used])
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]  # noise taken out spreads nothing
    return points + (roots[where] @ rng.normal(size=(*points.shape, 1)))[:, :, 0]


def _second_moment(atoms: Atoms, weights: np.ndarray) -> np.ndarray:
    total = (atoms.means * weights[:, None]).T @ atoms.means
    if not atoms.covariance.zero:
        matrices = atoms.covariance.matrices()
        shares = weights if len(matrices) > 1 else np.array([weights.sum()])
        total = total + np.tensordot(shares, matrices, axes=1)
    return total
