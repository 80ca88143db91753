"""The search for the best penalised likelihood: EM from several starts, and repairs of each.

The search uses rows in memory, which may be a sample of many more. From the optimum that it finds
there, scoring climbs to the top of the likelihood of all rows in a few passes. This needs only sums
over the rows, wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix.fit import Agreement, Fit, Parameters
from momentmix.fitting.em import Likelihood, LikelihoodHere
from momentmix.fitting.moves import SMALL_DATA, TRIED_ANYWAY, relocations, split_and_merge
from momentmix.fitting.newton import climb_by_scoring
from momentmix.fitting.plan import InitParams
from momentmix.fitting.starts import plain_starts
from momentmix.rows.memory import Rows
from momentmix.support.parallel import single_threaded_blas
from momentmix.support.stopping import stopped

#: Starts are made in BATCHES batches of BATCH, one for each kind of k-means. A batch takes its
#: first steps together, and its best CARRIED starts are followed to their end. The number of starts
#: was chosen on the "tuned" tables of benchmarks/real.py, before starts came in batches; these
#: sizes have no experiment of their own. With more, the search takes longer and misses less.
BATCH, CARRIED, BATCHES = 4, 4, 2
#: The same on small data, where the steps of several mixtures at once cost little more than those
#: of one, and a batch also has starts at random rows.
SMALL_BATCH, SMALL_CARRIED = 8, 3
#: Without a prior small data have many narrow optima, and batches are this many times as large.
#: This is a round number that was not tuned.
RUGGED = 4
#: The EM steps after which starts are compared: MORE_STEPS without a prior, and with gaps or
#: errors, which make steps short. On the tables and simulations of the benchmarks, five steps
#: recognised a start near the best optimum as well as twelve did.
FIRST_STEPS, MORE_STEPS = 5, 12
#: The search ends without agreement when it has taken this many times as many steps as it took to
#: find the best. With 2 it missed optima of real tables that it found with 3.
PERSISTENCE = 3
#: The search ends when this many starts agree on the best groups: 2 is the least that can agree,
#: and MORE_AGREEING is for gaps or errors, which hide the groups. Two ends of EM within SAME nats
#: per row count as one optimum, because EM stops a little short; SAME was not tuned.
AGREEING, MORE_AGREEING, SAME = 2, 3, 5e-4
#: Two groups are the same if at least this share of the rows in either is in both. If one row in
#: twenty moves between overlapping groups, 0.95 / 1.05 = 0.905 is left. A group that another
#: solution lacks shares at most about half of its rows with some group there.
SHARED = 0.9


class LikelihoodSearch:
    """EM from one start after the other, each repaired, until enough agree on the best.

    ``callback`` is called with "likelihood" and the value that each start has led to. The last
    climb uses scoring steps if ``method`` is "newton", or if it is "auto" and only a sample was
    searched.
    """

    def __init__(
        self,
        likelihood: LikelihoodHere,
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        callback: Callable[[str, float], None],
        method: Literal["auto", "em", "newton"] = "auto",
    ) -> None:
        self.method = method
        self.thorough = False  # all candidates are followed unless enough agree
        self.likelihood, self.rng, self.callback = likelihood, rng, callback
        self.tol, self.max_iter = tol, max_iter
        target, small = likelihood.target, likelihood.rows.X.size <= SMALL_DATA
        self.rough = max(tol, 1e-5 if small else 1e-4)
        self.n_iter = 0
        # Without a prior the highest peaks are narrow, and a peak on which two starts agree may
        # not be the highest.
        free = target.prior is None and target.variance is None and not target.kind.common
        self.rugged = free and small
        self.best: Fit | None = None
        self.origin: Fit | None = None  # the start of the best
        self.values: list[float] = []  # the log-likelihoods that starts have led to
        self._log_posteriors: list[float] = []
        self._ends: list[tuple[float, np.ndarray]] = []  # log posterior and groups of each end
        self._labels = np.empty(0, dtype=np.intp)  # the groups of the best
        self._found_after = 0  # the number of iterations when the best was found

    def run(self, candidates: Iterable[Fit], repair: bool) -> None:
        """Follow candidates until there are no more or, with ``repair``, until enough agree."""
        for candidate in candidates:
            self._follow(candidate, repair)
            if stopped() or (repair and (self._enough_agree or self._is_long_enough)):
                break
        if stopped():
            return
        if repair and self.best is not None and not self._enough_agree:
            self._try_anyway(self.best)

    def finish(
        self,
        likelihood: Likelihood[Rows],
        candidates: Iterable[Fit],
        repair: bool,
        more: Iterable[Fit] = (),
        most: int | None = None,
        last: Iterable[Fit] = (),
    ) -> Fit:
        """The best that the candidates lead to, carried to the maximum for all rows.

        At most so many are followed, and if fewer were and do not agree, ``more``. Those in
        ``last`` are followed whether they agree or not. After Ctrl-C the best so far is only
        evaluated for all rows.
        """
        with single_threaded_blas():
            self.run(islice(candidates, most), repair)
            if most is not None and len(self._ends) < most and not self._enough_agree:
                self.thorough = True
                self.run(islice(more, most - len(self._ends)), repair)
            self.thorough = True
            for candidate in last:
                if not stopped():
                    self._follow(candidate, repair)
            if stopped():
                return self._ended(likelihood.evaluate(self.found))
            top = self._top(likelihood, self.found.parameters)
        self.n_iter += top.n_iter
        return self._ended(top)

    def _top(self, likelihood: Likelihood[Rows], start: Parameters) -> Fit:
        """The maximum of the likelihood of all rows near the optimum of the sample."""
        tol, max_iter = self.tol, self.max_iter
        sampled = likelihood.rows is not self.likelihood.rows
        likelihood = replace(likelihood, target=self.likelihood.target)  # with what was learned
        newton = self.method == "newton" or (self.method == "auto" and sampled)
        if newton and likelihood.target.sharpness == 1:
            return climb_by_scoring(likelihood, start, self.rng, tol=tol, max_iter=max_iter)[0]
        return likelihood.fit(start, tol=tol, max_iter=max_iter)

    @property
    def found(self) -> Fit:
        """The best so far, once there is one."""
        assert self.best is not None
        return self.best

    def _ended(self, fit: Fit) -> Fit:
        """A fit with what the search knows of its way."""
        start = Fit(fit.parameters) if self.origin is None else self.origin
        return replace(
            fit,
            objective=start.objective,
            history=start.history,
            n_passes=self.n_iter,
            log_likelihoods=tuple(self.values),
            agreement=self.agreement if self._ends else None,
        )

    def _follow(self, candidate: Fit, repair: bool) -> None:
        """Run EM from a candidate and, with ``repair``, exchange merges for splits.

        A candidate that already has the groups of the best counts as one that ends there.
        """
        likelihood, tol, max_iter = self.likelihood, self.rough, self.max_iter
        if repair and self.best is not None and not self.rugged:
            groups = self._groups(candidate.parameters)
            if likelihood.rows.complete and self._is_best(-np.inf, groups):
                self._end(self.best, groups)
                return
            max_iter = min(max_iter, self._steps_left)
        result = likelihood.fit(candidate.parameters, tol=tol, max_iter=max_iter)
        self.n_iter += result.n_iter
        values, best = [*self._log_posteriors], None if self.rugged else self.best

        def seen(fit: Fit) -> bool:
            value = fit.log_posterior
            if any(abs(value - other) < SAME for other in values):
                return True
            if best is None or value > best.log_posterior:
                return False
            return self._is_best(value, self._groups(fit.parameters))

        self._log_posteriors.append(result.log_posterior)
        if repair and not seen(result):  # the same optimum is repaired once
            before = result.n_iter
            result = split_and_merge(
                likelihood, result, self.rng, tol=tol, max_iter=max_iter, seen=seen
            )
            self.n_iter += result.n_iter - before
            self._log_posteriors.append(result.log_posterior)
        if self.best is None and not stopped():
            result = self._learned(result)
        groups = self._groups(result.parameters)
        self._consider(result, candidate, groups)
        self._end(result, groups)
        self.callback("likelihood", result.log_likelihood)

    def _learned(self, fit: Fit) -> Fit:
        """The first optimum, fitted again with the strengths of the prior that it suggests.

        The search goes on with these strengths, so that all later optima can be compared.
        """
        likelihood, again = self.likelihood.settle(fit, self.rough, self.max_iter)
        if likelihood is not self.likelihood:
            self.likelihood, self._log_posteriors = likelihood, [again.log_posterior]
            self.n_iter += again.n_passes + again.n_iter - fit.n_passes - fit.n_iter
        return again

    def _try_anyway(self, best: Fit) -> None:
        """Try exchanges that promise no gain, from a best solution that was found only once."""
        tol, max_iter = self.rough, self.max_iter
        repaired = split_and_merge(
            self.likelihood, best, self.rng, tol=tol, max_iter=max_iter, anyway=TRIED_ANYWAY
        )
        self.n_iter += repaired.n_iter - best.n_iter
        self._consider(repaired, Fit(repaired.parameters), self._groups(repaired.parameters))

    def _groups(self, parameters: Parameters) -> np.ndarray:
        """The component that each row most probably belongs to; (p,)."""
        return np.asarray(np.argmax(self.likelihood.rows.log_joint(parameters), axis=1))

    def _is_best(self, log_posterior: float, groups: np.ndarray) -> bool:
        """Whether an end is the best so far, because it has the same value or the same groups.

        For rows with gaps or errors only the value counts, because groups are too uncertain.
        """
        if abs(log_posterior - self.found.log_posterior) < SAME:
            return True
        m, rows = len(self.found.parameters.weights), self.likelihood.rows
        return rows.complete and same_groups(self._labels, groups, m, rows.weights)

    def _end(self, result: Fit, groups: np.ndarray) -> None:
        self._ends.append((result.log_posterior, groups))
        self.values.append(result.log_likelihood)

    def _consider(self, result: Fit, candidate: Fit, groups: np.ndarray) -> None:
        if self.best is None or result.worth > self.best.worth:
            self.best, self.origin, self._found_after = result, candidate, self.n_iter
            self._labels = groups

    @property
    def agreement(self) -> Agreement:
        """How many starts have ended at the groups of the best."""
        same = [self._is_best(*end) for end in self._ends]
        others = [value for (value, _), it in zip(self._ends, same, strict=True) if not it]
        gap = self.found.log_posterior - max(others, default=-np.inf)
        return Agreement(len(same), sum(same), float(gap))

    @property
    def _enough_agree(self) -> bool:
        """Whether enough starts have ended at the best groups known."""
        enough = AGREEING if self.likelihood.rows.complete else MORE_AGREEING
        if len(self._ends) < enough or self.rugged:
            return False
        return self.agreement.agreeing >= enough

    @property
    def _steps_left(self) -> int:
        """The EM steps that the search may still take without finding anything better."""
        if self.thorough or self.rugged:
            return self.max_iter
        return max(PERSISTENCE * self._found_after - self.n_iter, FIRST_STEPS)

    @property
    def _is_long_enough(self) -> bool:
        """Whether the search has gone on for long enough since it found the best."""
        vain = self.n_iter > PERSISTENCE * self._found_after
        return vain and not (self.thorough or self.rugged)

    def promising_starts(self, m: int, init: InitParams = "auto") -> Iterator[Fit]:
        """Plain starts of m components: the better ones of each batch, the best first.

        The first batch has one of each kind.
        """
        starts = plain_starts(self.likelihood, m, self.rng, init)
        more, batch, carried = RUGGED if self.rugged else 1, BATCH, CARRIED
        if self.likelihood.rows.X.size <= SMALL_DATA:
            batch, carried = more * SMALL_BATCH, more * SMALL_CARRIED
        for _ in range(BATCHES):
            yield from self._better(list(islice(starts, batch)), carried)
        if self.rugged and m > 1 and self.best is not None:
            for _ in range(BATCHES):
                moved = relocations(self.likelihood, self.best.parameters, self.rng, batch)
                yield from self._better(moved, SMALL_CARRIED)

    def _better(self, starts: list[Parameters], count: int) -> Iterator[Fit]:
        """The better ones of some starts, after a few steps of each.

        The best of the later half comes second. Its starts differ more from the very best, because
        k-means gives similar clusters in all coordinates, and random rows do not.
        """
        slow = self.rugged or not self.likelihood.rows.complete
        steps = MORE_STEPS if slow else FIRST_STEPS
        looked_at = self.likelihood.try_steps(starts, steps)
        self.n_iter += len(starts) * steps
        ranked = sorted(range(len(looked_at)), key=lambda i: -looked_at[i].worth)
        later = [i for i in ranked[1:] if i >= len(starts) // 2 > ranked[0]]
        order = [*ranked[:1], *later[:1], *(i for i in ranked[1:] if i not in later[:1])]
        yield from (Fit(looked_at[i].parameters) for i in order[:count])


def same_groups(one: np.ndarray, other: np.ndarray, m: int, weights: np.ndarray) -> bool:
    """Whether two divisions of rows with weights (p,) into m groups are nearly the same.

    The labels are from 0 to m - 1. Each pair of matched groups must share at least ``SHARED`` of
    the rows that are in either.
    """
    both = np.zeros((m, m))
    np.add.at(both, (one, other), weights)
    either = both.sum(axis=1)[:, None] + both.sum(axis=0) - both
    overlap = np.where(either > 0, both / np.maximum(either, 1e-300), 1.0)
    return bool(np.min(overlap[linear_sum_assignment(-overlap)]) >= SHARED)
