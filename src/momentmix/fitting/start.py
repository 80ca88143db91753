"""The start that a user gives, whole or in part, in the coordinates of the fit."""

from __future__ import annotations

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.fitting.given import Start
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.likelihood.starts import nearest_start, plain_starts
from momentmix.matching.starts import around_points


def starting_point(
    problem: Problem, plan: Plan, rng: np.random.Generator, interrupted: bool = False
) -> Parameters | None:
    """The start that was asked for, with its missing parts filled in; None if none was."""
    if plan.start is None:
        return None
    weights, means, covariances = plan.start
    if weights is None or means is None or covariances is None:
        guess = problem.frame.back(_guess(plan.start, problem, plan, rng, interrupted))
        weights = guess.weights if weights is None else weights
        means = guess.means if means is None else means
        covariances = guess.covariances if covariances is None else covariances
    return problem.frame.forward(Parameters(weights, means, covariances))


def _guess(
    start: Start, problem: Problem, plan: Plan, rng: np.random.Generator, interrupted: bool
) -> Parameters:
    """A start that provides the parts that are not given."""
    if start.means is None:
        return _start_of_its_own(problem, plan, rng, interrupted)
    points, likelihood = problem.frame.apply(start.means), problem.likelihood
    rows = None if likelihood is None else likelihood.in_memory
    if rows is None or not np.all(np.isfinite(points)):
        return around_points(plan.kind, points)
    nearest = nearest_start(rows, rows.X, points)
    if start.covariances is not None or nearest.weights.min() <= 0:
        nearest = nearest._replace(weights=np.full(plan.m, 1 / plan.m))
    return nearest


def _start_of_its_own(
    problem: Problem, plan: Plan, rng: np.random.Generator, interrupted: bool
) -> Parameters:
    """The fit's own start: usually k-means, or the moment estimate."""
    likelihood = problem.likelihood
    if plan.search == "plain":
        assert likelihood is not None
        assert likelihood.in_memory is not None
        return next(plain_starts(likelihood.in_memory, plan.m, rng, plan.init_params))
    if interrupted:
        return problem.moments.guess(rng)
    if plan.m == 1:
        return problem.moments.single().parameters
    fit = problem.moments.estimate(rng, None, plan.verbose)
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit.parameters if likelihood is None else likelihood.widen(fit.parameters)
