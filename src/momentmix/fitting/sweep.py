"""Fits of one covariance type with 1, 2, 3 and more components, which share their work.

The coordinates, the rows and their likelihood do not depend on the number of components, so there
is one problem. Each solution is found from those with one component more or less: a component is
added by a cut through the solution at hand, and removed by a merge. The sweep goes up and down
through the numbers until nothing improves, which has the effect of repairs: on the way, a split is
exchanged for a merge. Of large data it looks at a sample, and solutions that may be chosen are then
carried to the maximum on all rows.

Each number that is asked for is also searched for as by a fit of that number alone, with the same
random numbers, and the better of the two solutions is kept. So no fit is better than the entry of
its number, whatever other numbers there are. From there the sweep goes on. If the numbers are left
open and the data are not small, only those near the best are searched for in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from momentmix.covariance import Kind
from momentmix.fit import Fit, Parameters, by_weight
from momentmix.fitting.background import (
    background_parameters,
    find_background,
    keep_background_if_it_pays,
)
from momentmix.fitting.em import LikelihoodHere, sample_of, single
from momentmix.fitting.moves import PROMISING, SMALL_DATA, grown, shrunk, split_and_merge
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, mixture_problem, resize
from momentmix.fitting.search import SAME
from momentmix.fitting.solve import solve
from momentmix.fitting.starts import plain_starts
from momentmix.matching.orders import parameter_count
from momentmix.rows.data import RowData
from momentmix.support.messages import Progress
from momentmix.support.parallel import single_threaded_blas
from momentmix.support.stopping import stopped

#: The number of cuts or merges of a solution that are tried, and the first EM steps of each. With
#: three tries, the sweep missed solutions that an ordinary fit of that number found. The steps are
#: as in search.py.
TRIES, FIRST_STEPS = 12, 5
#: The tolerance of EM on the way, and the least gain that counts as an improvement, in nats a row.
#: GAIN is above ROUGH, so that a solution does not seem better because EM went on a little longer.
#: Both are round numbers that were not tuned.
ROUGH, GAIN = 1e-4, 3e-4
#: The most times that the sweep goes down and up. This is a round number that was not tuned; it
#: ends earlier if nothing improves.
ROUNDS = 3


class Sweep:
    """The solutions found so far, by their number of components (``found``).

    ``likelihood_of`` gives the likelihood for m components; all are of the same rows. The solutions
    are rough, but good enough to be compared. ``callback`` is called for each.
    """

    def __init__(
        self,
        likelihood_of: Callable[[int], LikelihoodHere],
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        callback: Callable[[str, float], None] = lambda what, value: None,
    ) -> None:
        self.likelihood_of, self.rng, self.callback = likelihood_of, rng, callback
        self.rough, self.max_iter = max(tol, ROUGH), max_iter
        self.found: dict[int, Fit] = {}
        self.n_iter = 0
        self._repaired: dict[int, Fit] = {}
        self._unused: dict[int, set[int]] = {}  # numbers not yet tried from a solution

    def grow(self) -> None:
        """Find a solution with one component more, from cuts of the last one and from k-means."""
        m = len(self.found) + 1
        likelihood = self.likelihood_of(m)
        if m == 1:
            self._consider(1, lambda: [single(likelihood)])
        else:
            self._step(m - 1, m, plain=True)

    def settle(self, numbers: Iterable[int]) -> None:
        """Go down and up again through neighbouring numbers, as long as something improves."""
        pairs = [(m, m + 1) for m in sorted(numbers) if m + 1 in self.found]
        for _ in range(ROUNDS):
            better = [self._step(high, low) for low, high in reversed(pairs) if low > 1]
            better += [self._step(low, high) for low, high in pairs]
            if not any(better):
                return

    def improve(self, m: int, fit: Fit) -> None:
        """Take a better solution of one number from elsewhere, and try its neighbours from it."""
        self.found[m], self._unused[m] = fit, {m - 1, m + 1}

    def _step(self, source: int, target: int, plain: bool = False) -> bool:
        """Try to reach a better solution of one number from that of its neighbour, once."""
        if stopped() or target not in self._unused[source]:
            return False
        self._unused[source].discard(target)
        likelihood, known = self.likelihood_of(target), self.found[source].parameters

        def starts() -> list[Parameters]:
            if target < source:
                return shrunk(likelihood, known)[:TRIES]
            cuts = grown(likelihood, known, self.rng)
            cuts = sorted(cuts, key=lambda cut: self._thin(likelihood, cut))[:TRIES]
            return [*cuts, next(plain_starts(likelihood, target, self.rng))] if plain else cuts

        return self._consider(target, starts)

    def repair(self, m: int) -> None:
        """Exchange merges for splits in the solution of one number."""
        likelihood, before = self.likelihood_of(m), self.found[m]
        if stopped() or self._repaired.get(m) is before:
            return
        after = split_and_merge(
            likelihood, before, self.rng, tol=self.rough, max_iter=self.max_iter
        )
        self.n_iter += after.n_iter - before.n_iter
        thin, most = (self._thin(likelihood, one.parameters) for one in (after, before))
        if thin <= most and after.log_posterior > before.log_posterior + GAIN:
            self.improve(m, after)
        self._repaired[m] = self.found[m]

    def _thin(self, likelihood: LikelihoodHere, parameters: Parameters) -> int:
        """How many components rest on too few rows; solutions with fewer of them come first."""
        counts, n = parameters.weights * likelihood.rows.count, parameters.means.shape[1]
        return int(np.sum(likelihood.target.kind.too_few(counts, n)))

    def _consider(self, m: int, starts: Callable[[], list[Parameters]]) -> bool:
        """Run EM from the best of some starts; whether it finds a better solution than is known."""
        likelihood, before = self.likelihood_of(m), self.found.get(m)

        def rank(fit: Fit) -> tuple[int, float]:
            return -self._thin(likelihood, fit.parameters), fit.worth

        thick, known = (-m, -np.inf) if before is None else rank(before)
        made = starts()
        if not made:  # nothing can be cut
            made = [next(plain_starts(likelihood, m, self.rng))]
        best = max(likelihood.try_steps(made, FIRST_STEPS), key=rank)
        self.n_iter += len(made) * FIRST_STEPS
        if rank(best) > (thick, known - PROMISING):
            best = likelihood.fit(best.parameters, tol=self.rough, max_iter=self.max_iter)
            self.n_iter += best.n_iter
        if rank(best) < (thick, known + GAIN):
            return False
        self.improve(m, best)
        self.callback("likelihood", best.log_likelihood)
        return True


#: "auto" stops after PATIENCE numbers in a row that are no better. This is a round number that was
#: not tuned.
PATIENCE = 3


def numbers_for(rows: float) -> range:
    """The numbers that "auto" may try: up to twice the square root of the number of rows.

    This bounds the time if ever more components pay, as of very many rows that are not Gaussian; a
    note says so where it decides.
    """
    return range(1, max(int(2 * np.sqrt(rows)), 1) + 1)


#: The most components of the fit that finds the density of the background of outliers. This is a
#: round number that was not tuned; the density depends little on it.
SETTLING = 5
#: The numbers of components up to this far from the best are improved and carried to the maximum.
#: 1 is the least that compares the best with its neighbours; a larger one costs time.
NEAR = 1


def can_sweep(plan: Plan) -> bool:
    """Whether a plan has rows in memory and lets the fit choose where EM starts."""
    return plan.search == "plain" and plan.start is None and plan.max_iter > 0


def is_determined(m: int, rows: float, n: int, kind: Kind) -> bool:
    """Whether there are enough rows for m components."""
    return m == 1 or (m <= rows and not kind.too_few(np.array([rows / m]), n)[0])


@dataclass(frozen=True)
class Found:
    """A fit in the coordinates of its problem, with the problem and the plan."""

    problem: Problem
    plan: Plan
    fit: Fit

    @cached_property
    def collapsed(self) -> int:
        """The number of collapsed components."""
        collapse = self.problem.collapse(self.fit)
        return 0 if collapse is None else int(np.sum(collapse.components))

    def criterion(self, price: float) -> float:
        """-2 log-likelihood of all rows, plus ``price`` for each parameter; lower is better.

        Rows count by their weights. The price of the BIC is the logarithm of the number of rows.
        """
        plan = self.plan
        value = self.fit.log_likelihood - self.problem.frame.log_volume
        parameters = parameter_count(plan.kind, plan.m, plan.n)
        if self.fit.widths is not None:
            parameters += background_parameters(plan.n)
        return -2 * self.problem.count * value + price * parameters

    @property
    def bic(self) -> float:
        return self.criterion(float(np.log(self.problem.count)))


def best_of(found: Sequence[Found]) -> Found:
    """The fit of lowest BIC among those with the fewest collapsed components."""
    return min(found, key=lambda one: (one.collapsed, one.bic))


def sweep(
    data: RowData,
    plan_of: Callable[[int], Plan],
    numbers: Sequence[int],
    rng: np.random.Generator,
    seed: Callable[[], np.random.Generator],
    *,
    patience: int | None = None,
    price: float | None = None,
    callback: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Fits of some numbers of components, if there are enough rows; after Ctrl-C of fewer.

    The first number is fitted however few the rows are.

    Parameters
    ----------
    data : RowData
        Rows in memory.
    plan_of : callable
        Gives the plan for a number of components; ``can_sweep`` must hold for it.
    numbers : sequence of int
        The numbers that are asked for, in rising order.
    rng : Generator
    seed : callable
        Gives the random numbers with which a fit of one number searches.
    patience : int, optional
        The sweep stops after so many numbers in a row that were no better than the best.
    price : float, optional
        The price of a parameter in the criterion that compares numbers (``criterion``). With it,
        only numbers near the best are improved; without it, all are.
    callback : callable
        Is called with each fit when it is first known; it may still improve.
    """
    plan = plan_of(1)
    with Progress(plan.verbose, numbers[-1], plan.kind.name) as progress, single_threaded_blas():
        most = numbers[0]  # this one is always fitted
        while most < numbers[-1] and is_determined(most + 1, data.count, plan.n, plan.kind):
            most += 1
        fits = _Fits(data, plan_of, rng, seed, price, progress, most)
        fits.run(most, numbers, patience, callback)
    return fits.of(numbers)


class _Fits:
    """The fits of one sweep, by their number of components."""

    def __init__(
        self,
        data: RowData,
        plan_of: Callable[[int], Plan],
        rng: np.random.Generator,
        seed: Callable[[], np.random.Generator],
        price: float | None,
        progress: Progress,
        most: int,
    ) -> None:
        self.data, self.plan_of, self.guided = data, cache(plan_of), price is not None
        self.seed = seed
        self.price = float(np.log(data.count)) if price is None else price
        plan = self.plan_of(1)
        self.problem = mixture_problem(data, plan)
        if plan.outliers is not None:
            self._settle_outliers(min(most, SETTLING), rng)
            plan = self.plan_of(1)
        self.sample = sample_of(likelihood_in(self.problem), rng)
        self._likelihoods: dict[int, LikelihoodHere] = {}
        self.search = Sweep(self._rough, rng, plan.tol, plan.max_iter, progress.start)
        self.ends: dict[int, Fit] = {}  # the solutions at the maximum
        self._climbed: dict[int, Fit] = {}  # from where
        self.alone: dict[int, Found] = {}  # what a fit of one number finds
        self._made: dict[int, tuple[Fit, Found]] = {}

    def _settle_outliers(self, m: int, rng: np.random.Generator) -> None:
        """Find the background from a fit of m components, once for all numbers."""
        plan_of = self.plan_of
        self.problem, _ = find_background(self.problem, plan_of(m), None, rng)

        def with_widths(m: int) -> Plan:
            plan = plan_of(m)
            if plan.outliers is None:
                return plan
            return replace(plan, outliers=plan.outliers._replace(widths=self.problem.widths))

        self.plan_of = cache(with_widths)

    def _rough(self, m: int) -> LikelihoodHere:
        """The likelihood that is used on the way."""
        if m not in self._likelihoods:
            target = likelihood_in(self._problem(m)).target
            self._likelihoods[m] = replace(self.sample, target=target)
        return self._likelihoods[m]

    def _problem(self, m: int) -> Problem:
        """The problem of m components."""
        return resize(self.problem, self.data, self.plan_of(m))

    def __getitem__(self, m: int) -> Found:
        result = self.search.found[m]
        if self._climbed.get(m) is result:
            result = self.ends.get(m, result)
        if m not in self._made or self._made[m][0] is not result:
            plan = self.plan_of(m)
            fit = _fit(plan, result, self.search.n_iter, self.problem.widths)
            found = Found(self._problem(m), plan, fit)
            self._made[m] = result, better_of(found, self.alone.get(m))
        return self._made[m][1]

    def _search_alone(self, m: int) -> None:
        """Search for a number as a fit of it does, and let the sweep go on from the better end."""
        problem, plan, search = self._problem(m), self.plan_of(m), self.search
        fit = solve(problem, plan, self.seed())
        self.alone[m] = Found(problem, plan, fit)
        self._made.pop(m, None)
        whole = likelihood_in(problem)
        same = self.sample.rows is whole.rows and fit.strengths == whole.target.strengths
        if same and plan.outliers is None and self[m] is self.alone[m]:
            search.improve(m, fit)

    def _best(self) -> int:
        """The number that is best by the criterion so far."""
        known = [self[m] for m in self.search.found]
        return min(known, key=lambda one: (one.collapsed, one.criterion(self.price))).plan.m

    def _last(self) -> int:
        """The last number that was better than all before, whether components collapsed or not.

        A fit with more components, or a settled one, may be better without a collapse.
        """
        known = [self[m] for m in self.search.found]
        lowest = min(known, key=lambda one: one.criterion(self.price)).plan.m
        return max(self._best(), lowest)

    def _near(self) -> list[int]:
        """The numbers that may still be chosen: those near the best."""
        known, best = self.search.found, self._best()
        return [m for m in known if abs(m - best) <= NEAR or not self.guided]

    def run(
        self,
        most: int,
        numbers: Sequence[int],
        patience: int | None,
        callback: Callable[[Found], None],
    ) -> None:
        """Find the fits; at most ``most``, or until ``patience`` numbers in a row were worse."""
        every = patience is None or self.sample.rows.X.size <= SMALL_DATA
        while True:
            self.grow(most, numbers if every else (), patience, callback)
            self.settle()
            self.climb(numbers)
            left = [m for m in self._near() if m in numbers and m not in self.alone]
            if stopped() or not left:
                return
            for m in left:
                self._search_alone(m)

    def grow(
        self,
        most: int,
        alone: Sequence[int],
        patience: int | None,
        callback: Callable[[Found], None],
    ) -> None:
        """Add numbers up to ``most``, or until ``patience`` in a row were worse than the best.

        Those in ``alone`` are searched for by themselves too, as soon as they are known.
        """
        search = self.search
        while len(search.found) < most and not (search.found and stopped()):
            m = len(search.found)
            if patience is not None and search.found and m - self._last() >= patience:
                search.settle(self._near())
                if m - self._last() >= patience:
                    break
            search.grow()
            if m + 1 in alone and not stopped():
                self._search_alone(m + 1)
            if m + 1 in search.found:
                callback(self[m + 1])

    def settle(self) -> None:
        """Go up and down near the best number until the best no longer changes."""
        before = -1
        while before != (before := self._best()) and not stopped():
            for m in self._near():
                self.search.repair(m)
            self.search.settle(self._near())

    def climb(self, numbers: Sequence[int]) -> None:
        """Fit all rows, and carry those numbers that may be chosen to the maximum."""
        search, near, tol = self.search, self._near(), self.plan_of(1).tol
        whole = likelihood_in(self.problem).rows
        for m in numbers:
            start = search.found.get(m)
            close = m in near and tol < search.rough
            if start is None or not (close or self.sample.rows is not whole):
                continue
            if stopped():
                break
            if self._climbed.get(m) is start or self[m] is self.alone.get(m):
                continue
            self._climbed[m], most = start, search.max_iter
            self.ends[m] = likelihood_in(self._problem(m)).fit(
                start.parameters, tol=tol if close else search.rough, max_iter=most
            )

    def of(self, numbers: Sequence[int]) -> list[Found]:
        """The fits of some numbers, or of the largest known; the last is marked after Ctrl-C."""
        known = self.search.found
        found = [self[m] for m in numbers if m in known] or [self[max(known)]]
        if stopped():
            found[-1] = replace(found[-1], fit=replace(found[-1].fit, interrupted=True))
        return found


def likelihood_in(problem: Problem) -> LikelihoodHere:
    """The likelihood of all rows of a problem, which are in memory."""
    if problem.all_here is None:
        raise ValueError("numbers of components are compared by likelihoods of rows in memory")
    return problem.all_here


def better_of(found: Found, alone: Found | None) -> Found:
    """The solution of the sweep, or that of a fit of this number alone if it is as good."""
    if alone is None:
        return found
    if found.plan.outliers is not None:
        found = replace(found, fit=keep_background_if_it_pays(found.problem, found.plan, found.fit))
    if found.fit.strengths != alone.fit.strengths and not alone.fit.interrupted:
        found = replace(found, fit=_under_the_prior_of(alone, found))
    ours, theirs = (
        (-one.collapsed, one.fit.log_posterior + least)
        for one, least in ((found, 0.0), (alone, SAME))
    )
    if theirs >= ours:
        return alone
    return replace(found, fit=replace(found.fit, interrupted=alone.fit.interrupted))


def _under_the_prior_of(other: Found, found: Found) -> Fit:
    """The fit, once more with the strength of the prior that another has found."""
    plan, likelihood = found.plan, likelihood_in(found.problem)
    likelihood = likelihood.of_strengths(other.fit.strengths)
    again = likelihood.fit(found.fit.parameters, tol=plan.tol, max_iter=plan.max_iter)
    return again.after(found.fit)


def _fit(plan: Plan, result: Fit, n_passes: int, widths: np.ndarray | None) -> Fit:
    return replace(
        result,
        parameters=by_weight(plan.kind, result.parameters) if plan.by_weight else result.parameters,
        n_passes=n_passes,
        log_likelihoods=(result.log_likelihood,),
        widths=widths,
    )
