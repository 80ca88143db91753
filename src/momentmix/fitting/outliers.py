"""Rows that belong nowhere: how dense the background is, and whether there is one.

The background has a constant density c, and a share that EM finds. Rows spread evenly over a box
have c = 1 / its volume. "uniform" takes the box of all rows, which one far row makes huge. "auto"
takes one three times as wide as that of the rows that are no outliers. It is found by turns: EM
says which they are, and they say how large the box is. As the first box is that of all rows, c only
grows, and no cluster is taken for background before rows in it are less dense than rows all over
the box would be.

Rows with heavy tails have no such gap between them and their outliers. So if the others do not lie
about their components as Gaussian rows do, the box is made smaller, and sets more rows aside.

Clean rows gain by a background too, since its box follows the farthest of them in each feature. So
it is kept only if it gains more than its share and the ends of its box cost, and is left out
otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit
from scipy.stats import beta, chi2, kstwobign

from momentmix.covariance import Full
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.fitting.building import with_background
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.search import reached
from momentmix.likelihood.starts import plain_starts
from momentmix.matching.fit import Fit

#: How many times as wide as that of rows that are no outliers the box is. One after the other is
#: tried, until the others lie about their components as Gaussian ones would, to so much.
AROUND, FITTING = (3.0, 1.7, 1.4, 1.2, 1.1, 1.0), 0.05
#: Nats by which a background has to be better than its price: it is then twenty times as probable.
SURE = float(np.log(20))
#: EM runs, and halvings before each, that find a background thin enough for the share allowed.
THINNINGS, HALVINGS = 3, 30
#: What chance alone may do to the misfit of a single row; of p rows it does less by √p. One data
#: set in a hundred is beyond that, by Kolmogorov's distribution.
CHANCE = float(kstwobign.isf(0.01))
#: What setting aside all rows would cost, in units of that misfit.
COST = 0.1
#: Turns that the size of the box is found in, EM steps of each, and nats a row at which they end.
TURNS, STEPS, ROUGH = 3, 10, 1e-4
#: Change of the logarithm of the volume with which the box is found.
SETTLED = 0.05


def background_parameters(n: int) -> int:
    """Numbers that a background adds to a mixture: its share, and the ends of its box."""
    return 1 + 2 * n


def settled(
    problem: Problem, plan: Plan, start: Parameters | None, rng: np.random.Generator
) -> tuple[Problem, Parameters | None]:
    """The problem with a background of the density that rows ask for; and a mixture to start from.

    Both are found from a start, by default from one of k-means.
    """
    outliers, likelihood = plan.outliers, problem.likelihood
    assert outliers is not None
    assert isinstance(likelihood, RowLikelihood)
    if outliers.widths is not None:
        return problem, start
    sample = likelihood.sample(rng)
    rows = replace(problem, likelihood=sample)
    everywhere = box_widths(rows, np.ones(len(sample.X), dtype=bool))
    if not outliers.robust or plan.max_iter == 0:
        return with_background(problem, everywhere, outliers.most), start
    rows = with_background(rows, everywhere, outliers.most)
    fit = start or next(plain_starts(sample, plan.m, rng, plan.init_params, sheltered=True))
    found: list[tuple[float, Parameters, Problem]] = []
    for around in AROUND:
        rows, fit = _by_turns(rows, fit, around, plan)
        sample = _rows(rows)
        if found and taken_by_background(sample, fit) > outliers.most:
            break
        misfit = misfit_of_distances(sample, fit)
        found.append((misfit + COST * outlier_share(fit.weights), fit, rows))
        if misfit < max(FITTING, CHANCE / np.sqrt(sample.count)) or start is not None:
            break
    _, fit, rows = min(found, key=lambda one: one[0])
    if not _is_needed_for(_rows(rows), fit, plan):  # and so will not be for a better fit
        return problem, start or fit
    assert rows.widths is not None
    return with_background(problem, rows.widths, outliers.most), start or fit


def _by_turns(
    rows: Problem, fit: Parameters, around: float, plan: Plan
) -> tuple[Problem, Parameters]:
    """EM, and a box so many times as wide as that of the rows that are no outliers, by turns."""
    assert plan.outliers is not None
    for _ in range(TURNS):
        sample, widths = _rows(rows), rows.widths
        steps = min(STEPS, plan.max_iter)
        result = sample.fit(fit, tol=max(ROUGH, plan.tol), max_iter=steps)
        if result.interrupted:
            raise KeyboardInterrupt
        fit = result.parameters
        R, _ = sample.responsibilities(fit)
        assert widths is not None
        smaller = np.minimum(widths, around * box_widths(rows, R.sum(axis=1) > 0.5))
        if float(np.sum(np.log(widths) - np.log(smaller))) < SETTLED:
            break
        rows = with_background(rows, smaller, plan.outliers.most)
    return rows, fit


def taken_by_background(likelihood: RowLikelihood, parameters: Parameters) -> float:
    """The share of the rows that belong to no component, by their probabilities."""
    return 1 - float(likelihood.weights @ likelihood.responsibilities(parameters)[0].sum(axis=1))


def thin_background(problem: Problem, plan: Plan, fit: Fit) -> tuple[Problem, Fit]:
    """The fit with so thin a background that it takes no more rows than are allowed.

    EM bounds its share alone; a dense background takes more rows than that. How thin it has to be
    for a mixture is found by halving an interval, and EM goes on from there.
    """
    most = _rows(problem).most_outliers
    for _ in range(THINNINGS):
        wider = _widening(_rows(problem), fit.parameters)
        if wider == 1.0:
            return problem, fit
        assert problem.widths is not None
        problem = with_background(problem, wider * problem.widths, most)
        result = _rows(problem).fit(fit.parameters, tol=plan.tol, max_iter=plan.max_iter)
        fit = reached(fit, result)
        if fit.interrupted:
            return problem, fit
    wider = _widening(_rows(problem), fit.parameters)
    assert problem.widths is not None
    return with_background(problem, wider * problem.widths, most), fit


def _widening(likelihood: RowLikelihood, parameters: Parameters) -> float:
    """By how much the box has to be wider for a mixture to take no more rows than are allowed."""
    assert likelihood.background is not None
    own = np.logaddexp.reduce(likelihood.log_joint(parameters), axis=1)
    beyond = np.log(max(outlier_share(parameters.weights), 1e-300)) + likelihood.background

    def taken(log_volume: float) -> float:
        return float(likelihood.weights @ expit(beyond - own - log_volume))

    n, most = likelihood.X.shape[1], likelihood.most_outliers
    if taken(0.0) <= most + 1e-3:
        return 1.0
    low, high = 0.0, float(np.ptp(own - beyond)) + 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) <= most else (middle, high)
    return float(np.exp(high / n))


def misfit_of_distances(likelihood: RowLikelihood, parameters: Parameters) -> float:
    """How far rows are from lying about their components as Gaussian ones do: from 0 to 1.

    The largest difference of two distribution functions: that of the squared distances of rows from
    the components that they belong to, in units of these, and that of distances of Gaussian rows
    from a mean and a covariance of their own: of N rows, those of (N - 1)²/N times a beta
    variable; of infinitely many, χ². It is 0 where gaps or noise leave distances open.
    """
    if not likelihood.complete:
        return 0.0
    X, kind, (_, means, covariances) = likelihood.X, likelihood.kind, parameters
    squares, _ = kind.whitened_squares(covariances, X - means[:, None, :])
    R, _ = likelihood.responsibilities(parameters)
    weights, n = likelihood.weights[:, None] * R, X.shape[1]
    counts = likelihood.count * weights.sum(axis=0)
    if kind.common:
        counts = np.full(len(counts), counts.sum())
    levels = chi2.cdf(squares.T, n)
    if not kind.diagonal:
        few = np.flatnonzero(counts > n + 2)
        N = counts[few]
        levels[:, few] = beta.cdf(squares[few].T * N / (N - 1) ** 2, n / 2, (N - n - 1) / 2)
    order = np.argsort(levels, axis=None)
    up_to = np.cumsum(weights.reshape(-1)[order]) / weights.sum()
    return float(np.max(np.abs(up_to - levels.reshape(-1)[order])))


def _is_needed_for(likelihood: RowLikelihood, parameters: Parameters, plan: Plan) -> bool:
    """Whether there are outliers, as far as a rough fit tells; the rival takes a few steps."""
    closed = parameters._replace(weights=parameters.weights / parameters.weights.sum())
    rival = likelihood.without_background().fit(
        closed, tol=max(ROUGH, plan.tol), max_iter=min(TURNS * STEPS, plan.max_iter)
    )
    if rival.interrupted:
        raise KeyboardInterrupt
    return is_needed(likelihood, parameters, rival.parameters)


def is_needed(likelihood: RowLikelihood, parameters: Parameters, rival: Parameters) -> bool:
    """Whether a mixture with a background explains rows better than one without, and surely so.

    The gain in log-likelihood has to pay for the share by the BIC, for the two ends of the box in
    each feature by the rows that tell them, which are those outside, and for what covariances gain
    by chance when they have fewer rows to follow.
    """
    kind, n, count = likelihood.kind, likelihood.X.shape[1], likelihood.count
    gain = count * (likelihood.value(parameters) - likelihood.without_background().value(rival))
    R, _ = likelihood.responsibilities(parameters)
    left = count * (likelihood.weights @ R)
    price = np.log(count) / 2 + n * np.log1p(max(count - left.sum(), 0.0)) + SURE
    whole, own = count * rival.weights, kind
    if kind.common:  # one covariance, of all rows
        left, whole, own = left.sum(keepdims=True), whole.sum(keepdims=True), Full
    chance = own.optimism(left, n).sum() - own.optimism(whole, n).sum()
    return bool(gain > price + max(float(chance), 0.0))


def _rows(problem: Problem) -> RowLikelihood:
    assert isinstance(problem.likelihood, RowLikelihood)
    return problem.likelihood


def box_widths(problem: Problem, among: np.ndarray) -> np.ndarray:
    """Widths of a box around some of the rows (p,), in units of X: along its axes, or smaller.

    In the coordinates of the fit the box may be smaller; the widths then have its volume. A box is
    nowhere narrower than one whose rows have the least variance that components can have.
    """
    frame, Z = problem.frame, _rows(problem).X[among]
    assert isinstance(frame, Frame)
    if len(Z) == 0:
        return np.asarray(frame.units)
    floor, A = np.asarray(_rows(problem).floor), np.asarray(frame.scale)
    floor = np.diag(np.broadcast_to(floor, frame.n)) if floor.ndim < 2 else floor
    A = np.diag(np.broadcast_to(A, frame.n)) if A.ndim < 2 else A
    here = np.maximum(np.ptp(Z, axis=0), np.sqrt(12 * np.diag(floor)))
    there = np.maximum(np.ptp(frame.restore(Z), axis=0), np.sqrt(12 * np.diag(A.T @ floor @ A)))
    volume = float(np.sum(np.log(there)))
    smaller = min(volume, float(np.sum(np.log(here))) + frame.log_volume)
    return np.asarray(there * np.exp((smaller - volume) / len(there)))


def if_it_pays(problem: Problem, plan: Plan, fit: Fit) -> Fit:
    """The fit with its background, or one without, if rows are as probable without."""
    if problem.widths is None:
        return fit
    if not fit.interrupted:
        problem, fit = thin_background(problem, plan, fit)
    if fit.interrupted:
        return replace(fit, widths=problem.widths)
    likelihood = _rows(problem)
    weights, means, covariances = fit.parameters
    closed = Parameters(weights / weights.sum(), means, covariances)
    rival = likelihood.without_background().fit(closed, tol=plan.tol, max_iter=plan.max_iter)
    if rival.interrupted:
        return replace(fit, widths=problem.widths, interrupted=True)
    if is_needed(likelihood, fit.parameters, rival.parameters):
        return replace(fit, widths=problem.widths)
    return reached(fit, rival)
