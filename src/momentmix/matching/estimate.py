"""The moment estimate: moments matched from several starts, until enough of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from momentmix.covariance import Bound
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Data, mean_and_spread
from momentmix.matching.fit import Fit
from momentmix.matching.identifiability import TELLING, is_enough, needed_order, parameter_count
from momentmix.matching.matching import Matched, Model, MomentMatching
from momentmix.matching.starts import Init, around_points, moment_starts, normal_points
from momentmix.solvers import Callback
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.support.progress import Progress
from momentmix.tensors.packed import total_size

#: Work of a Gauss–Newton step (moments × parameters²) from which starts are not wasted.
COSTLY_STEP = 3e6
#: Costly starts that must end at the lowest cost found before no more are tried.
AGREEING = 2
#: Steps of an implicit fit after its cost is level, which the gradient is not yet.
LAST_STEPS = 6
#: Starts at most, where nobody says how many: of explicit fits, which are cheap, and of others.
EXPLICIT_STARTS, IMPLICIT_STARTS = 60, 4


class MixtureMoments:
    """The moments of data, and the mixtures that have them; ``n_init`` None tries until some agree.

    ``floor`` bounds the covariance of a single component from below.
    """

    def __init__(
        self, model: Model, data: Data, init: Init, n_init: int | None, floor: Bound
    ) -> None:
        self.model, self.data = model, data
        self.init, self.n_init, self.floor = init, n_init, floor

    @cached_property
    def matching(self) -> MomentMatching:
        return MomentMatching.of(self.model, self.data)

    def with_order(self, order: int) -> MixtureMoments:
        """The same data up to another order, each moment weighted as its order is."""
        weights = list(self.model.weights)[: order + 1]
        model = replace(self.model, order=order, weights=weights, explicit=True)
        return MixtureMoments(model, self.data, self.init, self.n_init, self.floor)

    def single(self) -> Fit:
        """One component: the mean and the covariance, which every method agrees on."""
        kind = self.model.kind
        mean, covariance = mean_and_spread(self.data, kind.diagonal)
        spread = kind.raised(kind.repeated(1, covariance), self.floor)
        parameters = Parameters(np.ones(1), mean[None], spread)
        passes = self.data.passes
        return Fit(parameters, 0.0, n_iter=1, n_passes=passes, converged=True, history=(0.0,))

    def guess(self, rng: np.random.Generator) -> Parameters:
        """Components at random points: what there is before anything was tried."""
        return around_points(self.model.kind, normal_points(self.data, rng)[: self.model.m])

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        """The best of several moment fits, or that from a start."""
        starts = [start] if start is not None else self._starts(rng)
        with Progress(verbose, len(starts)) as progress:
            rough = self._fewer.matching if start is None else None
            return match_moments(self.matching, starts, progress.iteration, rough)

    @property
    def _fewer(self) -> MixtureMoments:
        """The same with as many orders as find the valley, if the others are for precision."""
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
        """So many starts among points (p, n) of weights (p,), or from the moments themselves."""
        return moment_starts(self.data, self.model, self.init, points, weights, count, rng)


def match_moments(
    matching: MomentMatching,
    starts: Sequence[Parameters],
    callback: Callback | None = None,
    rough: MomentMatching | None = None,
) -> Fit:
    """The best of several moment fits by their cost, which ``rough`` may be that of fewer moments.

    Explicit fits stop trying once several starts agree, and are then carried on until rounding
    ends them, first by the weight of normal data and at last by that of the mixture found. If they
    are to be starts of something else, the last will do, as far as it leads ahead.
    """
    found: list[Matched] = []
    try:
        if matching.model.explicit:
            with single_threaded_blas():
                first = matching if rough is None else rough
                _explore(first, starts, found, callback)
                fit = _best(found, starts[0])
                if not fit.interrupted:
                    fit = _refined(first, matching, fit)
        else:
            for start in starts:
                found.append(matching.solve(start, strict=True, callback=callback))
                if found[-1].solution.interrupted:
                    break
            fit = _best(found, starts[0])
            if fit.converged and not fit.interrupted:
                fit = _sharpened(matching, fit)
    except KeyboardInterrupt:
        fit = replace(_best(found, starts[0]), interrupted=True)
    return replace(fit, n_passes=matching.passes(fit.n_passes))


def _explore(
    matching: MomentMatching,
    starts: Sequence[Parameters],
    found: list[Matched],
    callback: Callback | None,
) -> None:
    """Starts side by side, to a loose tolerance, until enough of them agree; added to ``found``."""
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
            if matched.solution.interrupted or matched.solution.value <= matching.zero:
                return
        values = np.array([matched.solution.value for matched in found])
        agree = int(np.sum(values <= 1.001 * values.min()))
        if agree >= (AGREEING if costly else max(matching.agreeing, len(found) / 2)):
            return


def _best(found: Sequence[Matched], start: Parameters) -> Fit:
    """The solution of lowest cost; of those equal to it the first, whatever rounding did."""
    if not found:
        return Fit(start, np.inf)
    lowest = min(matched.solution.value for matched in found)
    level = lowest + 1e-3 * abs(lowest)
    best = next(matched for matched in found if matched.solution.value <= level)
    passes = sum(matched.solution.n_passes for matched in found)
    interrupted = any(matched.solution.interrupted for matched in found)
    return replace(_adopted(Fit(start, n_passes=passes), best), interrupted=interrupted)


def _adopted(fit: Fit, matched: Matched) -> Fit:
    """The fit carried on to another solution."""
    parameters, solution, bound = matched
    return replace(
        fit,
        parameters=parameters,
        bound=bound,
        objective=solution.value,
        n_iter=fit.n_iter + solution.n_iter,
        history=tuple(solution.history),
        converged=solution.converged,
        interrupted=solution.interrupted,
    )


def _sharpened(matching: MomentMatching, fit: Fit) -> Fit:
    """A few steps more while the gradient shrinks, so that rounding on the way does not show."""
    last = matching.solve(fit.parameters, strict=True, tol=0.0, max_iter=LAST_STEPS)
    fit = replace(fit, n_passes=fit.n_passes + last.solution.n_passes)
    if last.solution.value > fit.objective + 1e-9 * abs(fit.objective):
        return fit
    return replace(_adopted(fit, last), converged=True)


def _refined(first: MomentMatching, matching: MomentMatching, fit: Fit) -> Fit:
    """On from a good start until rounding ends it, and once more by the weight it makes known.

    Each ends at rounding, so that the result does not depend on the way that led to it.
    """
    model = matching.model
    if not model.rough:
        last = first.solve(fit.parameters, strict=True, tol=0.0)
        # From free covariances back above the floor, the way may lead into another valley.
        if last.solution.value <= 1.01 * fit.objective + first.zero:
            fit = _adopted(fit, last)
        if last.solution.interrupted:
            return replace(fit, interrupted=True)
    if model.weighting == "optimal" and fit.objective > 1e-20:
        efficient = matching.weighted_for(fit.parameters)
        last = efficient.solve(fit.parameters, strict=True, tol=model.tol if model.rough else 0.0)
        # A weight that lets a component run off to nowhere is no improvement.
        size = np.linalg.norm(fit.parameters.means, axis=1).max()
        if np.linalg.norm(last.parameters.means, axis=1).max() < 3 * size + 3:
            fit = _adopted(fit, last)
        fit = replace(fit, interrupted=last.solution.interrupted)
    return fit
