"""Fits of one covariance type with 1, 2, 3 and more components, which share all their work.

The coordinates, the rows and their likelihood do not depend on the number of components, so there
is one problem. Its solutions are found from each other (likelihood/sweep.py), on a sample of large
data. Those that may be chosen are then carried to the maximum on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import by_weight
from momentmix.data.sources import AtomData
from momentmix.fitting.building import mixture_problem, resize
from momentmix.fitting.outliers import (
    background_parameters,
    find_background,
    keep_background_if_it_pays,
)
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.fitting.solve import solve
from momentmix.likelihood.em import EMResult
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.search import SAME
from momentmix.likelihood.sweep import Sweep
from momentmix.matching.fit import Fit
from momentmix.matching.identifiability import parameter_count
from momentmix.support.parallel import single_threaded_blas
from momentmix.support.progress import Progress

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
        return 0 if collapse is None else int(np.sum(collapse.flat | collapse.thin))

    def criterion(self, price: float) -> float:
        """-2 log-likelihood of all rows, plus ``price`` for each parameter; lower is better.

        Rows count by their weights. The price of the BIC is the logarithm of the number of rows.
        """
        likelihood, plan = self.problem.likelihood, self.plan
        assert likelihood is not None
        value = self.fit.log_likelihood - self.problem.frame.log_volume
        parameters = parameter_count(plan.kind, plan.m, plan.n)
        if self.fit.widths is not None:
            parameters += background_parameters(plan.n)
        return -2 * likelihood.count * value + price * parameters

    @property
    def bic(self) -> float:
        assert self.problem.likelihood is not None
        return self.criterion(float(np.log(self.problem.likelihood.count)))


def best_of(found: Sequence[Found]) -> Found:
    """The fit of lowest BIC among those with the fewest collapsed components."""
    return min(found, key=lambda one: (one.collapsed, one.bic))


def sweep(
    data: AtomData | ObservedData,
    plan_of: Callable[[int], Plan],
    numbers: Sequence[int],
    rng: np.random.Generator,
    *,
    patience: int | None = None,
    price: float | None = None,
    callback: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Fits of some numbers of components, if there are enough rows; after Ctrl-C of fewer.

    The first number is fitted however few the rows are.

    Parameters
    ----------
    data : AtomData or ObservedData
        Rows in memory.
    plan_of : callable
        Gives the plan for a number of components; ``can_sweep`` must hold for it.
    numbers : sequence of int
        The numbers that are asked for, in rising order.
    rng : Generator
    patience : int, optional
        The sweep stops after so many numbers in a row that were no better than the best.
    price : float, optional
        The price of a parameter in the criterion that compares numbers (``criterion``). With it,
        only numbers near the best are improved; without it, all are.
    callback : callable
        Is called with each rough fit when it is first known.
    """
    plan = plan_of(1)
    with Progress(plan.verbose, numbers[-1], plan.kind.name) as progress, single_threaded_blas():
        most = numbers[0]  # this one is always fitted
        while most < numbers[-1] and is_determined(most + 1, data.count, plan.n, plan.kind):
            most += 1
        fits = _Fits(data, plan_of, rng, price, progress, most)
        fits.grow(most, patience, callback)
        fits.settle()
        fits.climb(numbers)
    return fits.of(numbers)


class _Fits:
    """The fits of one sweep, by their number of components."""

    def __init__(
        self,
        data: AtomData | ObservedData,
        plan_of: Callable[[int], Plan],
        rng: np.random.Generator,
        price: float | None,
        progress: Progress,
        most: int,
    ) -> None:
        self.data, self.plan_of, self.guided = data, cache(plan_of), price is not None
        self.price = float(np.log(data.count)) if price is None else price
        plan = self.plan_of(1)
        self.problem = mixture_problem(data, plan)
        if plan.outliers is not None:
            self._settle_outliers(min(most, SETTLING), rng)
            plan = self.plan_of(1)
        assert isinstance(self.problem.likelihood, RowLikelihood)
        self.whole = self.problem.likelihood
        self.sample = replace(self.problem, likelihood=self.whole.sample(rng))
        self._likelihoods: dict[int, RowLikelihood] = {}
        self.search = Sweep(self._rough, rng, plan.tol, plan.max_iter, progress.start)
        self.ends: dict[int, EMResult] = {}  # the solutions at the maximum
        self._made: dict[int, tuple[EMResult, Found]] = {}

    def _settle_outliers(self, m: int, rng: np.random.Generator) -> None:
        """Find the background from a fit of m components, once for all numbers."""
        plan_of = self.plan_of
        self.problem, _ = find_background(self.problem, plan_of(m), None, rng)

        def with_widths(m: int) -> Plan:
            plan = plan_of(m)
            assert plan.outliers is not None
            return replace(plan, outliers=plan.outliers._replace(widths=self.problem.widths))

        self.plan_of = cache(with_widths)

    def _rough(self, m: int) -> RowLikelihood:
        """The likelihood that is used on the way."""
        if m not in self._likelihoods:
            likelihood = resize(self.sample, self.data, self.plan_of(m)).likelihood
            assert isinstance(likelihood, RowLikelihood)
            self._likelihoods[m] = likelihood
        return self._likelihoods[m]

    def __getitem__(self, m: int) -> Found:
        result = self.ends.get(m, self.search.found[m])
        if m not in self._made or self._made[m][0] is not result:
            plan = self.plan_of(m)
            fit = _fit(plan, result, self.search.n_iter, self.problem.widths)
            found = Found(resize(self.problem, self.data, plan), plan, fit)
            self._made[m] = result, found
        return self._made[m][1]

    def _best(self) -> int:
        """The number that is best by the criterion so far."""
        known = [self[m] for m in self.search.found]
        return min(known, key=lambda one: (one.collapsed, one.criterion(self.price))).plan.m

    def _near(self) -> list[int]:
        """The numbers that may still be chosen: those near the best."""
        known, best = self.search.found, self._best()
        return [m for m in known if abs(m - best) <= NEAR or not self.guided]

    def grow(self, most: int, patience: int | None, callback: Callable[[Found], None]) -> None:
        """Go from one component to ``most``, or stop after ``patience`` numbers that were worse."""
        search = self.search
        for m in range(1, most + 1):
            search.grow()
            if search.interrupted:
                break
            callback(self[m])
            if patience is not None and m - self._best() >= patience:
                search.settle(self._near())
                if m - self._best() >= patience:
                    break
        if not search.found:
            raise KeyboardInterrupt

    def settle(self) -> None:
        """Go up and down near the best number until the best no longer changes."""
        before = -1
        while before != (before := self._best()) and not self.search.interrupted:
            self.search.settle(self._near())

    def climb(self, numbers: Sequence[int]) -> None:
        """Fit all rows, and carry those numbers that may be chosen to the maximum."""
        search, near, tol = self.search, self._near(), self.plan_of(1).tol
        for m in numbers:
            close = m in near and tol < search.rough
            if m not in search.found or not (close or self.sample.likelihood is not self.whole):
                continue
            if search.interrupted:
                break
            likelihood = self[m].problem.likelihood
            assert likelihood is not None
            start, most = search.found[m].parameters, search.max_iter
            try:
                top = likelihood.fit(start, tol=tol if close else search.rough, max_iter=most)
            except KeyboardInterrupt:
                search.interrupted = True
                break
            self.ends[m], search.interrupted = top, top.interrupted

    def of(self, numbers: Sequence[int]) -> list[Found]:
        """The fits of some numbers, or of the largest known; the last is marked after Ctrl-C."""
        known = self.search.found
        found = [self[m] for m in numbers if m in known] or [self[max(known)]]
        if self.search.interrupted:
            found[-1] = replace(found[-1], fit=replace(found[-1].fit, interrupted=True))
        return found


def search_again(found: Found, rng: np.random.Generator) -> Found:
    """The result of the ordinary search for this number, or the fit itself if that is better."""
    rival = replace(found, fit=solve(found.problem, found.plan, rng))
    if found.plan.outliers is not None:
        found = replace(found, fit=keep_background_if_it_pays(found.problem, found.plan, found.fit))
    if found.plan.cross_validated and not rival.fit.interrupted:  # priors differ
        return rival
    ours, theirs = (
        (-one.collapsed, one.fit.log_posterior + least)
        for one, least in ((found, 0.0), (rival, SAME))
    )
    if theirs >= ours:
        return rival
    return replace(found, fit=replace(found.fit, interrupted=rival.fit.interrupted))


def _fit(plan: Plan, result: EMResult, n_passes: int, widths: np.ndarray | None) -> Fit:
    return Fit(
        by_weight(plan.kind, result.parameters) if plan.by_weight else result.parameters,
        log_likelihood=result.log_likelihood,
        log_posterior=result.log_posterior,
        n_iter=result.n_iter,
        n_passes=n_passes,
        converged=result.converged,
        interrupted=result.interrupted,
        log_likelihoods=(result.log_likelihood,),
        prior_strength=0.0 if plan.prior is None else plan.prior.strength,
        widths=widths,
    )
