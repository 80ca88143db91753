"""The search for the best penalised likelihood: EM from several starts, and repairs of each.

The search looks at rows in memory, which may be a sample of many more; from the optimum it finds,
scoring leads to the top of the likelihood of all rows in a few passes. Of that it needs sums alone,
wherever the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.moves import SMALL_DATA, relocations, split_and_merge
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scoring import scored
from momentmix.likelihood.starts import InitParams, plain_starts
from momentmix.matching.fit import Fit
from momentmix.solvers import Solution
from momentmix.support.parallel import single_threaded_blas

#: Small data are searched in batches after the first start: so many starts take a few steps each,
#: so many of them are carried on, and there are so many batches. On others one start will do.
BATCH, CARRIED, BATCHES = 8, 3, 2
#: Without a prior the batches are this many times as large.
RUGGED = 4
#: No exchange repairs a covariance that all components share. There are then this many times as
#: many batches, and as many starts must agree.
UNREPAIRED = 2
#: EM steps after which starts are compared.
FIRST_STEPS = 12
#: Starts that must end at the best optimum before no more are tried, and nats a row within which
#: two ends of EM, which creeps at last, are the same optimum.
AGREEING, SAME = 2, 5e-4


@dataclass(frozen=True)
class Candidate:
    """A start of EM, and the moment fit it came from, if any."""

    parameters: Parameters
    solution: Solution | None = None


class LikelihoodSearch:
    """EM from one start after the other, each repaired, until enough agree on the best.

    ``callback`` is told "likelihood" and the value that each start has led to.
    """

    def __init__(
        self,
        likelihood: RowLikelihood,
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        callback: Callable[[str, float], None],
    ) -> None:
        self.likelihood, self.rng, self.callback = likelihood, rng, callback
        self.tol, self.max_iter = tol, max_iter
        small = likelihood.X.size <= SMALL_DATA
        self.rough = max(tol, 1e-5 if small else 1e-4)
        self.n_iter, self.interrupted = 0, False
        common = likelihood.kind.common
        # Without a prior the highest peaks are narrow: where two starts agree there are others.
        free = likelihood.prior is None and likelihood.variance is None and not common
        self.rugged = free and small
        self.patience = UNREPAIRED if common else 1
        self.best: EMResult | None = None
        self.origin: Candidate | None = None  # where the best came from
        self.values: list[float] = []  # log-likelihoods that starts have led to
        self._log_posteriors: list[float] = []
        self._ends = 0  # starts that ended at the best
        self.curvature: np.ndarray | None = None  # of all rows at the end, where it is known

    def run(self, candidates: Iterable[Candidate], repair: bool) -> None:
        """Look at candidates until there are no more, or with repairs until enough agree."""
        for candidate in candidates:
            if self.interrupted:  # while a candidate was being made
                return
            self._look_at(candidate, repair)
            if self.interrupted or (repair and self._settled):
                return

    def finished(
        self, likelihood: Likelihood, candidates: Iterable[Candidate], repair: bool
    ) -> Fit | None:
        """The best that candidates lead to, climbed to the top of the likelihood of all rows.

        After Ctrl-C the best so far; None if there is none yet.
        """
        try:
            with single_threaded_blas():
                self.run(candidates, repair)
                if self.best is not None and not self.interrupted:
                    self.best = self._noted(self._top(likelihood, self.best.parameters), 0)
        except KeyboardInterrupt:
            self.interrupted = True
        if self.best is None:
            return None
        return self._fit(likelihood, self.best)

    def _top(self, likelihood: Likelihood, start: Parameters) -> EMResult:
        """Where the likelihood of all rows is highest near what some of them have led to."""
        if likelihood is self.likelihood:
            return likelihood.fit(start, tol=self.tol, max_iter=self.max_iter)
        top = scored(likelihood, start, self.rng, tol=self.tol, max_iter=self.max_iter)
        self.curvature = top.curvature
        return top.result

    def _fit(self, likelihood: Likelihood, best: EMResult) -> Fit:
        value, log_posterior = best.log_likelihood, best.log_posterior
        if self.interrupted:  # that of a sample so far, or not known
            value = likelihood.value(best.parameters)
            log_posterior = value - likelihood.penalty(best.parameters)
        start = None if self.origin is None else self.origin.solution
        return Fit(
            best.parameters,
            objective=np.nan if start is None else start.value,
            log_likelihood=value,
            log_posterior=log_posterior,
            n_iter=best.n_iter,
            n_passes=self.n_iter,
            converged=best.converged,
            interrupted=self.interrupted,
            history=() if start is None else tuple(start.history),
            log_likelihoods=tuple(self.values),
            curvature=self.curvature,
        )

    def _look_at(self, candidate: Candidate, repair: bool) -> None:
        """Where EM from a candidate leads, with exchanges of a merge for a split if asked for."""
        likelihood, tol, max_iter = self.likelihood, self.rough, self.max_iter
        result = likelihood.fit(candidate.parameters, tol=tol, max_iter=max_iter)
        self._noted(result, 0)
        known = any(abs(result.log_posterior - seen) < SAME for seen in self._log_posteriors)
        self._consider(result, candidate)
        if repair and not known and not self.interrupted:  # the same optimum is repaired once
            repaired = split_and_merge(likelihood, result, self.rng, tol=tol, max_iter=max_iter)
            result = self._noted(repaired, result.n_iter)
            self._consider(result, candidate)
        assert self.best is not None
        self._ends += result.log_posterior > self.best.log_posterior - SAME
        self.values.append(result.log_likelihood)
        self.callback("likelihood", result.log_likelihood)

    def _noted(self, result: EMResult, before: int) -> EMResult:
        """A result, of which so many iterations were counted before."""
        self.n_iter += result.n_iter - before
        self.interrupted = self.interrupted or result.interrupted
        return result

    def _consider(self, result: EMResult, candidate: Candidate) -> None:
        self._log_posteriors.append(result.log_posterior)
        if self.best is None or result.worth > self.best.worth:
            if self.best is None or result.log_posterior > self.best.log_posterior + SAME:
                self._ends = 0  # another optimum, at which nothing has ended yet
            self.best, self.origin = result, candidate

    @property
    def _settled(self) -> bool:
        """Whether enough starts have ended at the best optimum known."""
        return self._ends >= self.patience * AGREEING and not self.rugged

    def promising(self, m: int, init: InitParams = "auto") -> Iterator[Candidate]:
        """Plain starts of m components; on small data the better ones of many."""
        starts = plain_starts(self.likelihood, m, self.rng, init)
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
        self.interrupted = self.interrupted or any(result.interrupted for result in looked_at)
        looked_at.sort(key=lambda result: -result.worth)
        yield from (Candidate(result.parameters) for result in looked_at[:count])


def reached(fit: Fit, result: EMResult, n_iter: int | None = None) -> Fit:
    """A fit carried on to where EM has led, in so many steps if they are not the result's own."""
    steps = result.n_iter if n_iter is None else n_iter
    return replace(
        fit,
        parameters=result.parameters,
        log_likelihood=result.log_likelihood,
        log_posterior=result.log_posterior,
        n_iter=steps,
        n_passes=fit.n_passes + steps,
        converged=result.converged,
        interrupted=result.interrupted,
    )
