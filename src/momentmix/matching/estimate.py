"""The moment estimate: moments matched from several starts, until enough of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from momentmix.covariance import Bound
from momentmix.fit import Fit, Parameters
from momentmix.matching.model import (
    Matched,
    Model,
    MomentMatching,
    moment_starts,
    normal_points,
)
from momentmix.matching.orders import TELLING, is_enough, needed_order, parameter_count
from momentmix.rows.data import MomentData, mean_and_spread
from momentmix.solvers import Callback
from momentmix.support.messages import Progress
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.support.stopping import stopped
from momentmix.tensors.packed import total_size

#: If a Gauss–Newton step takes more work than this (moments × parameters²), starts are costly: they
#: run on all threads, and fewer of them have to agree. This is a round number that was not tuned.
COSTLY_STEP = 3e6
#: If starts are costly, this many must end at the lowest cost; two are the least that can agree.
AGREEING = 2
#: When the cost of an implicit fit no longer falls, up to this many more steps shrink the gradient.
#: This is a round number that was not tuned; it affects the last digits of the result.
LAST_STEPS = 6
#: The most starts of a fit by default: explicit fits are cheap, and implicit ones are not. These
#: are round numbers that were not tuned; more starts take longer and miss less.
EXPLICIT_STARTS, IMPLICIT_STARTS = 60, 4


class MixtureMoments:
    """The moments of data, and fits of mixtures to them.

    If ``n_init`` is None, starts are made until some agree. ``floor`` bounds the covariance of a
    single component from below.
    """

    def __init__(self, model: Model, data: MomentData, n_init: int | None, floor: Bound) -> None:
        self.model, self.data, self.n_init, self.floor = model, data, n_init, floor

    @cached_property
    def matching(self) -> MomentMatching:
        return MomentMatching.of(self.model, self.data)

    def with_order(self, order: int) -> MixtureMoments:
        """The same data up to another order, with the weights of the orders."""
        weights = list(self.model.weights)[: order + 1]
        model = replace(self.model, order=order, weights=weights, explicit=True)
        return MixtureMoments(model, self.data, self.n_init, self.floor)

    def single(self) -> Fit:
        """One component, which has the mean and the covariance of the data."""
        kind = self.model.kind
        mean, covariance = mean_and_spread(self.data, kind.thin)
        spread = kind.raise_to(kind.repeat(1, covariance), self.floor)
        parameters = Parameters(np.ones(1), mean[None], spread)
        passes = self.data.passes
        return Fit(parameters, 0.0, n_iter=1, n_passes=passes, converged=True, history=(0.0,))

    def match(self, start: Parameters) -> Fit:
        """A fit from one start, good enough to be a start of EM."""
        matched = self.matching.solve(start, strict=False)
        return _adopt(Fit(start, n_passes=matched.solution.n_passes), matched)

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        """The best of several moment fits, or the fit from ``start`` if it is given."""
        starts = [start] if start is not None else self._starts(rng)
        with Progress(verbose, len(starts)) as progress:
            rough = self._fewer.matching if start is None else None
            return match_moments(self.matching, starts, progress.iteration, rough)

    @property
    def _fewer(self) -> MixtureMoments:
        """The same with the fewest orders that find the right minimum; the others add precision."""
        model = self.model
        if model.weighting == "optimal":
            for order in range(needed_order(model.kind, model.m, model.n), model.order):
                if is_enough(model.kind, model.m, model.n, order, TELLING):
                    return self.with_order(order)
        return self

    def _starts(self, rng: np.random.Generator) -> list[Parameters]:
        count = self.n_init
        if count is None:
            count = EXPLICIT_STARTS if self.model.explicit else IMPLICIT_STARTS
        points = normal_points(self.data, rng)
        return self.starts(points, None, count, rng)

    def starts(
        self, points: np.ndarray, weights: np.ndarray | None, count: int, rng: np.random.Generator
    ) -> list[Parameters]:
        """``count`` starts among points (p, n) of weights (p,), or from the moments themselves."""
        return moment_starts(self.data, self.model, self.model.init, points, weights, count, rng)


def match_moments(
    matching: MomentMatching,
    starts: Sequence[Parameters],
    callback: Callback | None = None,
    rough: MomentMatching | None = None,
) -> Fit:
    """The best of several moment fits by their cost.

    Explicit fits try starts until several agree, on the fewer moments of ``rough`` if it is given.
    The best is then carried on until rounding ends it: first with the weight for normal data, and
    last with the weight for the mixture found. A fit that is only a start of EM skips the first of
    these, and ends the last at its tolerance.
    """
    found: list[Matched] = []
    if matching.model.explicit:
        with single_threaded_blas():
            first = matching if rough is None else rough
            _explore(first, starts, found, callback)
            fit = _best(found, starts[0])
            if not stopped():
                fit = _refine(first, matching, fit)
    else:
        for start in starts:
            found.append(matching.solve(start, strict=True, callback=callback))
            if stopped():
                break
        fit = _best(found, starts[0])
        if fit.converged and not stopped():
            fit = _sharpen(matching, fit)
    return replace(fit, n_passes=matching.passes(fit.n_passes))


def _explore(
    matching: MomentMatching,
    starts: Sequence[Parameters],
    found: list[Matched],
    callback: Callback | None,
) -> None:
    """Fit starts to a loose tolerance until enough of them agree; append them to ``found``."""
    model = matching.model
    work = total_size(model.n, model.order) * parameter_count(model.kind, model.m, model.n) ** 2
    costly = work > COSTLY_STEP
    workers = worker_count(np) if costly else 1
    step = workers if costly else 4

    def solve(start: Parameters) -> Matched:
        return matching.solve(start, strict=True, callback=callback, tol=1e-4)

    for i in range(0, len(starts), step):
        batch = starts[i : i + step]
        for matched in map(solve, batch) if workers == 1 else parallel_map(solve, batch, workers):
            found.append(matched)
            if stopped() or matched.solution.value <= matching.zero:
                return
        values = np.array([matched.solution.value for matched in found])
        agree = int(np.sum(values <= 1.001 * values.min()))
        if agree >= (AGREEING if costly else max(matching.agreeing, len(found) / 2)):
            return


def _best(found: Sequence[Matched], start: Parameters) -> Fit:
    """The solution of lowest cost; of several that are equal to rounding, the first."""
    lowest = min(matched.solution.value for matched in found)
    level = lowest + 1e-3 * abs(lowest)
    best = next(matched for matched in found if matched.solution.value <= level)
    passes = sum(matched.solution.n_passes for matched in found)
    return _adopt(Fit(start, n_passes=passes), best)


def _adopt(fit: Fit, matched: Matched) -> Fit:
    """The fit with another solution in place of its own."""
    parameters, solution, bound = matched
    return replace(
        fit,
        parameters=parameters,
        bound=bound,
        objective=solution.value,
        n_iter=fit.n_iter + solution.n_iter,
        history=tuple(solution.history),
        converged=solution.converged,
    )


def _sharpen(matching: MomentMatching, fit: Fit) -> Fit:
    """Take a few more steps while the gradient shrinks, so that rounding does not show."""
    last = matching.solve(fit.parameters, strict=True, tol=0.0, max_iter=LAST_STEPS)
    fit = replace(fit, n_passes=fit.n_passes + last.solution.n_passes)
    if last.solution.value > fit.objective + 1e-9 * abs(fit.objective):
        return fit
    return replace(_adopt(fit, last), converged=True)


def _refine(first: MomentMatching, matching: MomentMatching, fit: Fit) -> Fit:
    """Carry a good start on until rounding ends it, and again with the weight that follows from it.

    Both end at rounding, so the result does not depend on the start.
    """
    model = matching.model
    if not model.rough:
        last = first.solve(fit.parameters, strict=True, tol=0.0)
        # Covariances that were raised above the floor may lead to another, worse minimum.
        if last.solution.value <= 1.01 * fit.objective + first.zero:
            fit = _adopt(fit, last)
        if stopped():
            return fit
    if model.weighting == "optimal" and fit.objective > 1e-20:
        efficient = matching.weight_for(fit.parameters)
        last = efficient.solve(fit.parameters, strict=True, tol=model.tol if model.rough else 0.0)
        # Refuse a weight that lets a component run off to infinity.
        size = np.linalg.norm(fit.parameters.means, axis=1).max()
        if np.linalg.norm(last.parameters.means, axis=1).max() < 3 * size + 3:
            fit = _adopt(fit, last)
    return fit
