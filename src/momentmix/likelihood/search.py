"""The search for the best penalised likelihood: EM from several starts, and repairs of each.

Everything here is in centred and scaled coordinates (frame.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any

import numpy as np

from momentmix.data.content import DIGITS, by_distance
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.moves import SMALL_DATA, relocations, split_and_merge
from momentmix.matching.matching import Fit, Model, MomentMatching
from momentmix.matching.starts import POINTS, around_points, kmeans_labels, spectral_means
from momentmix.solvers import Solution
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count

#: On small data, starts that are looked at together after the first, how many of them are carried
#: on, and how often. On others one start and its repairs do.
BATCH, CARRIED, BATCHES = 8, 3, 2
#: How many times as many where there is no prior, and how many times as often, and as many of them
#: that must agree, for a tied covariance, which no exchange repairs.
RUGGED, UNREPAIRED = 4, 2
#: EM steps after which starts are compared.
FIRST_STEPS = 12
#: Starts that must end at the best optimum before no more are tried, and nats a row within which
#: two ends of EM, which creeps at last, are the same optimum.
AGREEING, SAME = 2, 5e-4
#: Entries of X beyond which the search looks at a sample of the rows, and only the end at all.
LARGE_DATA = 2_000_000


@dataclass
class Candidate:
    """A start of EM, and the moment fit it came from, if any."""

    parameters: Parameters
    solution: Solution | None = None


class LikelihoodSearch:
    """EM from one start after the other, each repaired, until enough agree on the best."""

    def __init__(
        self,
        likelihood: Likelihood,
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        callback: Callable[[str, float], None],
    ) -> None:
        self.likelihood, self.rng, self.callback = likelihood, rng, callback
        self.tol, self.max_iter = tol, max_iter
        self.loose = max(tol, 1e-5)
        self.rough = self.loose if likelihood.X.size <= SMALL_DATA else max(tol, 1e-4)
        self.n_iter, self.interrupted = 0, False
        # Without a prior the highest peaks are narrow: where two starts agree there are others.
        free = (
            likelihood.prior is None and likelihood.variance is None and not likelihood.kind.common
        )
        self.rugged = free and likelihood.X.size <= SMALL_DATA
        self.patience = UNREPAIRED if likelihood.kind.common else 1
        self.best: EMResult | None = None
        self.origin: Candidate | None = None  # where the best came from
        self.values: list[float] = []  # log-likelihoods that starts have led to
        self._log_posteriors: list[float] = []
        self._ends = 0  # starts that ended at the best

    def climb(self, parameters: Parameters, max_iter: int, tol: float) -> EMResult:
        result = self.likelihood.fit(parameters, tol=tol, max_iter=max_iter)
        return self._noted(result, 0)

    def _noted(self, result: EMResult, before: int) -> EMResult:
        self.n_iter += result.n_iter - before
        self.interrupted = self.interrupted or result.interrupted
        return result

    def look_at(self, candidate: Candidate, repair: bool) -> None:
        """Where EM from a candidate leads, with exchanges of a merge for a split if asked for."""
        result = self.climb(candidate.parameters, self.max_iter, self.rough)
        known = any(abs(result.log_posterior - seen) < SAME for seen in self._log_posteriors)
        self._consider(result, candidate)
        if repair and not known and not self.interrupted:  # the same optimum is repaired once
            repaired = split_and_merge(
                self.likelihood, result, self.rng, tol=self.rough, max_iter=self.max_iter
            )
            result = self._noted(repaired, result.n_iter)
            self._consider(result, candidate)
        assert self.best is not None
        self._ends += result.log_posterior > self.best.log_posterior - SAME
        self.values.append(result.log_likelihood)
        self.callback("likelihood", result.log_likelihood)

    def _consider(self, result: EMResult, candidate: Candidate) -> None:
        self._log_posteriors.append(result.log_posterior)
        if self.best is None or result.log_posterior > self.best.log_posterior:
            if self.best is None or result.log_posterior > self.best.log_posterior + SAME:
                self._ends = 0  # another optimum, at which nothing has ended yet
            self.best, self.origin = result, candidate

    @property
    def settled(self) -> bool:
        """Whether enough starts have ended at the best optimum known."""
        return self._ends >= self.patience * AGREEING and not self.rugged

    def promising(self, m: int) -> Iterator[Candidate]:
        """Plain starts of m components; on small data the better ones of many."""
        starts = plain_starts(self.likelihood, m, self.rng)
        yield Candidate(next(starts))
        if self.likelihood.X.size > SMALL_DATA:
            return
        more = RUGGED if self.rugged else 1
        for _ in range(self.patience * BATCHES):
            yield from self._better(list(islice(starts, more * BATCH)), more * CARRIED)
        if self.rugged and m > 1 and self.best is not None:
            for _ in range(BATCHES):
                count = more * BATCH
                moved = relocations(self.likelihood, self.best.parameters, self.rng, count)
                yield from self._better(moved, CARRIED)

    def _better(self, starts: list[Parameters], count: int) -> Iterator[Candidate]:
        """The better ones of some starts, after a few steps of each."""
        looked_at = self.likelihood.look_at(starts, FIRST_STEPS)
        self.n_iter += len(starts) * FIRST_STEPS
        looked_at.sort(key=lambda result: -result.log_posterior)
        yield from (Candidate(result.parameters) for result in looked_at[:count])

    def run(self, candidates: Iterable[Candidate], repair: bool) -> None:
        for candidate in candidates:
            self.look_at(candidate, repair)
            if self.interrupted or (repair and self.settled):
                return


def fit_likelihood(
    matchings: list[MomentMatching],
    likelihood: Likelihood,
    whole: Likelihood,
    starts: list[tuple[int, Parameters]],
    m: int,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    wide: bool,
    callback: Callable[[str, float], None],
) -> Fit:
    """Moment fits from ``starts`` (which of the matchings, and where); if ``wide`` plain starts.

    ``likelihood`` may be that of a sample of the rows; the last EM run is on the ``whole``.
    """
    search = LikelihoodSearch(likelihood, rng, tol, max_iter, callback)
    solved: list[Candidate] = []

    def moment_start(job: tuple[int, Parameters]) -> Candidate:
        if search.interrupted:
            return Candidate(job[1])
        parameters, solution = matchings[job[0]].solve(job[1], strict=False)
        search.interrupted = search.interrupted or solution.interrupted
        callback("moments", solution.value)
        return Candidate(parameters, solution)

    try:
        with single_threaded_blas():
            workers = worker_count(np) if 2e5 < likelihood.X.size < 4e6 else 1
            solved = parallel_map(moment_start, starts, workers)
    except KeyboardInterrupt:
        search.interrupted = True
    fit = polished(search, whole, solved, m if wide else None)
    solutions = [c.solution for c in solved if c.solution is not None]
    if solutions:
        evaluations = sum(solution.n_passes for solution in solutions)
        fit.n_passes += sum(matching.passes(1) for matching in matchings[1:])
        fit.n_passes += matchings[0].passes(evaluations)
    return fit


def polished(
    search: LikelihoodSearch, whole: Likelihood, candidates: list[Candidate], m: int | None
) -> Fit:
    """The best that some candidates, and plain starts of m components, lead to on the whole."""
    try:
        with single_threaded_blas():
            if m is None:
                search.run(candidates, repair=False)
            else:
                search.run(chain(candidates, search.promising(m)), repair=True)
            if search.best is not None and not search.interrupted:
                search.likelihood = whole
                final = search.climb(search.best.parameters, search.max_iter, search.tol)
                search.best = final
    except KeyboardInterrupt:
        search.interrupted = True
    if search.best is None:
        raise KeyboardInterrupt  # nothing better than a guess yet
    final = search.best
    value, log_posterior = final.log_likelihood, final.log_posterior
    if search.interrupted:  # that of a sample so far, or not known
        value = whole.value(final.parameters)
        log_posterior = value - whole.penalty(final.parameters)
    chosen = None if search.origin is None else search.origin.solution
    return Fit(
        final.parameters,
        np.nan if chosen is None else chosen.value,
        value,
        final.n_iter,
        search.n_iter,
        final.converged,
        search.interrupted,
        [] if chosen is None else chosen.history,
        search.values,
        log_posterior,
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
        log_posterior=result.log_posterior,
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


def cluster_start(likelihood: Likelihood, X: np.ndarray, m: int, rng: Any) -> Parameters:
    """One M-step from the clusters of k-means: where scikit-learn's EM starts."""
    p = likelihood.weights
    uniform = bool(np.all(p == p[0]))
    return likelihood.from_responsibilities(kmeans_labels(X, None if uniform else p, m, rng))


def nearest_start(likelihood: Likelihood, X: np.ndarray, points: np.ndarray) -> Parameters:
    """One M-step from the samples nearest to each of some points."""
    square = np.sum(points * points, axis=1) - 2 * (X @ points.T)
    nearest = np.argmin(np.round(square, DIGITS), axis=1)
    R = (nearest[:, None] == np.arange(len(points))).astype(float)
    return likelihood.from_responsibilities(R)


def plain_starts(likelihood: Likelihood, m: int, rng: np.random.Generator) -> Iterator[Parameters]:
    """Starts of EM without moments, without end: k-means, then around random samples.

    Distances are taken in the features' own units and in those of the fit, in turn: a full
    covariance makes all directions alike, and hides clusters that the features show.
    """
    views = [likelihood.X]
    if likelihood.to_features is not None:
        views.insert(0, likelihood.X @ likelihood.to_features)
    views = [np.round(view, DIGITS) for view in views]
    for i in count():
        X = views[i % len(views)]
        if i < 2:
            yield cluster_start(likelihood, X, m, rng)
        else:
            points = POINTS["random"](X, likelihood.weights, m, rng)
            yield nearest_start(likelihood, X, points)


def in_order(data: AtomData) -> AtomData:
    """The rows in an order that follows from the data, unless there are very many."""
    if data.atoms.means.size > LARGE_DATA:
        return data
    return data.in_order(by_distance(data.atoms.means))


def sample_of_rows(likelihood: Likelihood, rng: np.random.Generator) -> Likelihood:
    """The likelihood itself, or for large data that of rows drawn by weight."""
    p, n = likelihood.X.shape
    if p * n <= LARGE_DATA:
        return likelihood
    order = by_distance(likelihood.X)  # equal rows stand together, and are drawn as one would be
    up_to = np.cumsum(likelihood.weights[order])
    draws = np.sort(rng.uniform(0, up_to[-1], max(LARGE_DATA // 2 // n, 2000)))
    rows = order[np.minimum(np.searchsorted(up_to, draws, side="right"), p - 1)]
    return likelihood.part(rows, None, 1.0, likelihood.prior)
