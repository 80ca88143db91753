"""Fits of one covariance type with 1, 2, 3 and more components, which share their work.

The coordinates, the rows and their likelihood do not depend on the number of components, so there
is one problem. Each solution is found from those with one component more or less: a component is
added by a cut through the solution at hand, and removed by a merge. Of large data this looks at a
sample.

Each number that is asked for is then searched for as by a fit of that number alone, which tries
the solution of the sweep last; the next number is reached from what it finds. At the
end the sweep goes up and down through the numbers until nothing improves, which has the effect of
repairs: on the way, a split is exchanged for a merge. Numbers far beyond the best are searched for
from one start alone. If the numbers are left open and the data are not small, only those near the
best are searched for.
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
from momentmix.fitting.moves import PROMISING, SMALL_DATA, grown, shrunk
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, mixture_problem, resize
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
            cuts = grown(likelihood, known, self.rng)[:TRIES]
            return [*cuts, next(plain_starts(likelihood, target, self.rng))] if plain else cuts

        return self._consider(target, starts)

    def _consider(self, m: int, starts: Callable[[], list[Parameters]]) -> bool:
        """Run EM from the best of some starts; whether it finds a better solution than is known."""
        likelihood, made = self.likelihood_of(m), starts()
        known = self.found[m].worth if m in self.found else -np.inf
        if not made:  # nothing can be cut
            made = [next(plain_starts(likelihood, m, self.rng))]
        best = likelihood.best_after(made, FIRST_STEPS)
        self.n_iter += best.n_iter
        if best.worth > known - PROMISING:
            best = likelihood.fit(best.parameters, tol=self.rough, max_iter=self.max_iter)
            self.n_iter += best.n_iter
        if best.worth < known + GAIN:
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
        fits = _Fits(data, plan_of, numbers, rng, seed, price, progress, most)
        fits.run(most, patience, callback)
    return fits.of(numbers)


class _Fits:
    """The fits of one sweep, by their number of components."""

    def __init__(
        self,
        data: RowData,
        plan_of: Callable[[int], Plan],
        numbers: Sequence[int],
        rng: np.random.Generator,
        seed: Callable[[], np.random.Generator],
        price: float | None,
        progress: Progress,
        most: int,
    ) -> None:
        self.data, self.plan_of, self.guided = data, cache(plan_of), price is not None
        self.numbers, self.seed = numbers, seed
        self.price = float(np.log(data.count)) if price is None else price
        plan = self.plan_of(1)
        self.problem = mixture_problem(data, plan)
        if plan.outliers is not None:
            self._settle_outliers(min(most, SETTLING), rng)
            plan = self.plan_of(1)
        self.sample = sample_of(likelihood_in(self.problem), rng)
        self.search = Sweep(self._rough, rng, plan.tol, plan.max_iter, progress.start)
        self.alone: dict[int, Found] = {}  # where the searches for single numbers led
        self._far: set[int] = set()  # those of one start
        self._made: dict[int, tuple[Fit, Found]] = {}  # of each solution of the sweep, what it is

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
        return replace(self.sample, target=self._likelihood(m).target)

    def _likelihood(self, m: int) -> LikelihoodHere:
        """The likelihood of all rows, with the strengths of the prior that a fit has learned.

        Until there is a fit of this number, they are those of the number before.
        """
        likelihood = likelihood_in(self._problem(m))
        last = self.alone.get(m, self.alone.get(m - 1)) if m > 1 else None
        if last is None or last.plan.m == 1:
            return likelihood
        return likelihood.of_strengths(last.fit.strengths)

    def _problem(self, m: int) -> Problem:
        """The problem of m components."""
        return resize(self.problem, self.data, self.plan_of(m))

    def __getitem__(self, m: int) -> Found:
        fit = self.search.found[m]
        if m not in self._made or self._made[m][0] is not fit:
            plan = self.plan_of(m)
            found = _fit(plan, fit, self.search.n_iter, self.problem.widths)
            self._made[m] = fit, Found(self._problem(m), plan, found)
        return self._made[m][1]

    def _search_alone(self, m: int) -> None:
        """Search for a number as a fit of it does, which tries the solution of the sweep too.

        The sweep goes on from where this leads. A number that "auto" would not come to is tried
        from one start of its own.
        """
        problem, search = self._problem(m), self.search
        known = replace(self.plan_of(m), known=search.found[m].parameters)
        if self.guided and m - self._last() > PATIENCE:
            known = replace(known, n_init=1)
            self._far.add(m)
        else:
            self._far.discard(m)
        fit = solve(problem, known, self.seed())
        self.alone[m] = Found(problem, self.plan_of(m), fit)
        if known.outliers is None and self.sample.rows is likelihood_in(problem).rows:
            search.improve(m, fit)
        self._made[m] = search.found[m], self.alone[m]

    def _compared(self) -> list[Found]:
        """The fits of the numbers that are asked for, so far; of all numbers if there are none."""
        known = self.search.found
        return [self[m] for m in known if m in self.numbers] or [self[m] for m in known]

    def _best(self) -> int:
        """The number that is best by the criterion so far."""
        known = self._compared()
        return min(known, key=lambda one: (one.collapsed, one.criterion(self.price))).plan.m

    def _last(self) -> int:
        """The last number that was better than all before, whether components collapsed or not.

        A fit with more components, or a settled one, may be better without a collapse.
        """
        known = self._compared()
        lowest = min(known, key=lambda one: one.criterion(self.price)).plan.m
        return max(self._best(), lowest)

    def _near(self) -> list[int]:
        """The numbers that may still be chosen: those near the best."""
        known, best = self.search.found, self._best()
        return [m for m in known if abs(m - best) <= NEAR or not self.guided]

    def run(
        self,
        most: int,
        patience: int | None,
        callback: Callable[[Found], None],
    ) -> None:
        """Find the fits; at most ``most``, or until ``patience`` numbers in a row were worse."""
        numbers, every = self.numbers, patience is None or self.sample.rows.X.size <= SMALL_DATA
        left: Sequence[int] = numbers
        while left and not stopped():
            self.grow(most, numbers if every else (), patience, callback)
            self.settle()
            done = self.alone.keys() - self._far
            left = [m for m in self._near() if m in numbers and m not in done]
            for m in left:
                self._search_alone(m)
        for m in numbers:
            if m in self.search.found and not stopped():
                self.climb(m)

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
            self.search.settle(self._near())

    def climb(self, m: int) -> None:
        """Carry the solution of the sweep to the maximum for all rows, if it is not there yet."""
        plan, rough, alone = self.plan_of(m), self.search.rough, self.alone.get(m)
        found, likelihood = self[m], self._likelihood(m)
        tol = plan.tol if alone is not None or m in self._near() else rough
        if found is alone or (self.sample.rows is likelihood.rows and tol >= rough):
            return
        start = self.search.found[m]
        fit = likelihood.fit(start.parameters, tol=tol, max_iter=plan.max_iter)
        fit = _fit(plan, fit, self.search.n_iter, self.problem.widths)
        if plan.outliers is not None:
            fit = keep_background_if_it_pays(found.problem, plan, fit)
        found = replace(found, fit=fit)
        if alone is not None and alone.fit.worth >= fit.worth:
            found = alone
        elif alone is not None:
            found = replace(found, fit=replace(fit, agreement=alone.fit.agreement))
        self._made[m] = start, found

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


def _fit(plan: Plan, result: Fit, n_passes: int, widths: np.ndarray | None) -> Fit:
    return replace(
        result,
        parameters=by_weight(plan.kind, result.parameters) if plan.by_weight else result.parameters,
        n_passes=n_passes,
        log_likelihoods=(result.log_likelihood,),
        widths=widths,
    )
