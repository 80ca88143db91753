"""The search for the best likelihood: moment starts, a short look at each, polish of the best.

Everything here is in centred and scaled coordinates (frame.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from momentmix._parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.choices import parameter_count
from momentmix.covariance import make_covariance
from momentmix.data import Data
from momentmix.em import EMResult, Likelihood, Parameters
from momentmix.matching import Fit, Model, MomentMatching
from momentmix.moves import relocate, split_and_merge
from momentmix.packed import total_size
from momentmix.solvers import Solution
from momentmix.starts import POINTS, around_points, kmeans_labels, spectral_means

#: Entries of X up to which an EM run is so quick that the search can be a wide one.
SMALL_DATA = 50_000
#: Gain of the cost, of itself, at which a moment start ends that is one of several.
START_TOL = 1e-3
#: Entries of X beyond which the search looks at a sample of the rows, and only the end at all.
LARGE_DATA = 2_000_000


@dataclass
class Candidate:
    """A mixture on its way to the best likelihood, and the moment fit it came from, if any."""

    result: EMResult
    solution: Solution | None

    @property
    def worth(self) -> float:
        return self.result.worth


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
        if self.leader is None or noted.worth > self.leader.worth:
            self.leader = noted
        return noted

    def shortlist(self, candidates: list[Candidate], callback: Callable) -> list[Candidate]:
        """All of them after a few steps; on small data the better ones after some more."""
        short = []
        for candidate in candidates:
            short.append(self.run(candidate, 10, max(self.tol, 1e-4)))
            callback("likelihood", short[-1].result.log_likelihood)
        short.sort(key=lambda c: -c.worth)
        if self.cheap:
            short[:12] = [self.run(c, 30, max(self.tol, 1e-4)) for c in short[:12]]
            short.sort(key=lambda c: -c.worth)
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
            known = any(abs(full.result.log_likelihood - value) < self.loose for value in values)
            if i == 0 or (self.cheap and not known):
                full = self.repaired(full, split_and_merge, tries=5)
            values.append(full.result.log_likelihood)
            callback("likelihood", values[-1])
            if best is None or full.worth > best.worth:
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
        matching = matchings[job[0]]
        # Where each step reads the rows and repairs follow, a start needs no more digits.
        loose = START_TOL if wide and not matching.model.explicit else matching.model.tol
        parameters, solution = matching.solve(job[1], strict=False, tol=loose)
        search.interrupted = search.interrupted or solution.interrupted
        callback("moments", solution.value)
        return parameters, solution

    solved: list[tuple[Parameters, Solution | None]] = []
    try:
        with single_threaded_blas():
            solved = parallel_map(moment_start, starts, workers)
    except KeyboardInterrupt:
        search.interrupted = True
    candidates = [candidate(*pair) for pair in solved]
    candidates += [candidate(parameters) for parameters in others]
    fit = polished(search, whole, candidates or [candidate(starts[0][1])], wide, callback)
    solutions = [solution for _, solution in solved if solution is not None]
    evaluations = sum(solution.n_passes for solution in solutions)
    moment_passes = sum(matching.passes(1) for matching in matchings)
    if not matchings[0].model.explicit:
        moment_passes = matchings[0].passes(evaluations)
    fit.n_passes += moment_passes
    return fit


def candidate(parameters: Parameters, solution: Solution | None = None) -> Candidate:
    return Candidate(EMResult(parameters, -np.inf, 0, False, False), solution)


def polished(
    search: LikelihoodSearch,
    whole: Likelihood,
    candidates: list[Candidate],
    wide: bool,
    callback: Callable[[str, float], None],
) -> Fit:
    """The best likelihood that some candidates lead to, at the end that of the ``whole``."""
    values: list[float] = []
    final = candidates[0]
    try:
        with single_threaded_blas():
            short = search.shortlist(candidates, callback)
            if wide:
                best, values = search.best(short, callback)
            else:
                best = search.finish(short[0])
                values = [best.result.log_likelihood]
            search.likelihood = whole
            final = search.run(best, search.max_iter, search.tol)
    except KeyboardInterrupt:
        search.interrupted = True
    if search.interrupted:
        final = search.leader or final
        value = whole.value(final.result.parameters)  # that of a sample so far, or not known
    else:
        value = final.result.log_likelihood
    chosen = final.solution
    return Fit(
        final.result.parameters,
        np.nan if chosen is None else chosen.value,
        value,
        final.result.n_iter,
        search.n_iter,
        final.result.converged,
        search.interrupted,
        [] if chosen is None else chosen.history,
        values,
    )


def of_likelihood(result: EMResult) -> Fit:
    """EM from a start of one's own, without a search."""
    return Fit(
        result.parameters,
        np.nan,
        result.log_likelihood,
        result.n_iter,
        result.n_iter,
        result.converged,
        result.interrupted,
        log_likelihoods=[result.log_likelihood],
    )


def default_starts(
    X: np.ndarray,
    weights: np.ndarray | None,
    model: Model,
    rng: np.random.Generator,
    init: str,
    count: int,
    data: Data,
) -> list[Parameters]:
    """``count`` guesses of one kind, or of all kinds in turn for "auto"."""
    if init == "spectral":
        means = [spectral_means(data, model.m, rng) for _ in range(count)]
    else:
        kinds = list(POINTS) if init == "auto" else [init]
        means = [POINTS[kinds[i % len(kinds)]](X, weights, model.m, rng) for i in range(count)]
    return [around_points(model.kind, points) for points in means]


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
    return likelihood.part(rows, None)


def affordable_starts(model: Model, p: int) -> int:
    """Moment starts that cost no more than some tens of EM runs; at most 4.

    A Gauss–Newton step takes about N P² multiplications for N moments and P parameters, and an EM
    step p D m for D features, either at least what NumPy takes to be called.
    """
    if not model.explicit:
        return 3
    P = parameter_count(model.kind, model.m, model.n)
    N = total_size(model.n, model.order)
    width = make_covariance(model.kind, np.empty((1, 1, 1)), model.n).width + model.n
    newton = 4e6 + N * P * (P + model.m * model.n)
    em = 1e6 + 2.0 * p * width * model.m
    return int(np.clip(10 * em / newton, 0, 4))
