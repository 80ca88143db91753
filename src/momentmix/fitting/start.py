"""Where a fit starts if a user says so: a start, or a part of one, in the fit's coordinates."""

from __future__ import annotations

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.fitting.given import Start
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.likelihood.starts import nearest_start, plain_starts
from momentmix.matching.starts import around_points


def starting_point(
    problem: Problem, plan: Plan, rng: np.random.Generator, hurried: bool = False
) -> Parameters | None:
    """The start that was asked for, what is missing of it filled in; None if none was."""
    if plan.start is None:
        return None
    weights, means, covariances = plan.start
    if weights is None or means is None or covariances is None:
        guess = problem.frame.back(_guess(plan.start, problem, plan, rng, hurried))
        weights = guess.weights if weights is None else weights
        means = guess.means if means is None else means
        covariances = guess.covariances if covariances is None else covariances
    return problem.frame.forward(Parameters(weights, means, covariances))


def _guess(
    start: Start, problem: Problem, plan: Plan, rng: np.random.Generator, hurried: bool
) -> Parameters:
    """What stands in for the parts of a start that are not given."""
    if start.means is None:
        return _start_of_its_own(problem, plan, rng, hurried)
    points, likelihood = problem.frame.apply(start.means), problem.likelihood
    rows = None if likelihood is None else likelihood.at_hand
    if rows is None or not np.all(np.isfinite(points)):
        return around_points(plan.kind, points)
    nearest = nearest_start(rows, rows.X, points)
    if start.covariances is not None or nearest.weights.min() <= 0:
        nearest = nearest._replace(weights=np.full(plan.m, 1 / plan.m))
    return nearest


def _start_of_its_own(
    problem: Problem, plan: Plan, rng: np.random.Generator, hurried: bool
) -> Parameters:
    """Where the fit would start by itself: at k-means as a rule, or at the moment estimate."""
    likelihood = problem.likelihood
    if plan.search != "estimate":
        assert likelihood is not None
        assert likelihood.at_hand is not None
        return next(plain_starts(likelihood.at_hand, plan.m, rng, plan.init_params))
    if hurried:
        return problem.moments.guess(rng)
    if plan.m == 1:
        return problem.moments.single().parameters
    fit = problem.moments.estimate(rng, None, plan.verbose)
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit.parameters if likelihood is None else likelihood.widened(fit.parameters)
