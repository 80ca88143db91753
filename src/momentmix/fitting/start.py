"""Where a fit starts if a user says so: a start, or a part of one, in the fit's coordinates."""

from __future__ import annotations

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.distributions.mixture import Mixture
from momentmix.fitting.plan import Plan, Start
from momentmix.fitting.problem import Problem
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.starts import nearest_start, plain_starts
from momentmix.matching.starts import around_points


def starting_point(problem: Problem, plan: Plan, rng: np.random.Generator) -> Parameters | None:
    """The start that was asked for, what is missing of it filled in; None if none was."""
    if plan.start is None:
        return None
    weights, means, covariances = plan.start
    if weights is None or means is None or covariances is None:
        guess = problem.frame.back(_guess(plan.start, problem, plan, rng))
        weights = guess.weights if weights is None else weights
        means = guess.means if means is None else means
        covariances = guess.covariances if covariances is None else covariances
    start = Parameters(weights, means, covariances)
    if problem.floor is not None:  # the covariances are free, and these may be anything
        start = _checked(start, problem)
    return problem.frame.forward(start)


def _checked(start: Parameters, problem: Problem) -> Parameters:
    kind = problem.frame.kind
    checked = Parameters.of(Mixture(*start, kind.name))
    try:
        kind.precision_cholesky(checked.covariances)
    except np.linalg.LinAlgError:
        raise ValueError("covariances_init must be positive definite") from None
    return checked


def _guess(start: Start, problem: Problem, plan: Plan, rng: np.random.Generator) -> Parameters:
    """What stands in for the parts of a start that are not given: those of k-means as a rule."""
    likelihood, m, n = problem.likelihood, plan.m, plan.n
    rows = likelihood if isinstance(likelihood, RowLikelihood) else None
    if start.means is None:
        if rows is None:
            raise ValueError("without rows, weights_init or covariances_init need means_init too")
        return next(plain_starts(rows, m, rng))
    means = np.asarray(start.means, dtype=np.float64)
    if means.shape != (m, n):
        raise ValueError(f"means_init must have shape {(m, n)}, got {means.shape}")
    points = problem.frame.apply(means)
    if rows is None or not np.all(np.isfinite(points)):
        return around_points(plan.kind, points)
    nearest = nearest_start(rows, rows.X, points)
    if start.covariances is not None or nearest.weights.min() <= 0:
        nearest = nearest._replace(weights=np.full(m, 1 / m))
    return nearest
