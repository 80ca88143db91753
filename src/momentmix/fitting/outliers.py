"""Rows that belong nowhere: how dense the background is, and whether there is one.

The background has a constant density c, and a share that EM finds. Rows spread evenly over a box
have c = 1 / its volume. "uniform" takes the box of all rows, which one far row makes huge. "auto"
takes one three times as wide as that of the rows that are no outliers. It is found by turns: EM
says which they are, and they say how large the box is. As the first box is that of all rows, c only
grows, and no cluster is taken for background before rows in it are less dense than rows all over
the box would be.

Rows with heavy tails have no such gap between them and their outliers. So if the others do not lie
about their components as Gaussian rows do, the box is made smaller, and sets more rows aside.

Where there are no outliers the background gains next to nothing, and is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import chi2

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
#: By how much a background that takes too many rows is widened, until it does not.
THINNER = 1.2
#: What chance alone may do to the misfit of a single row; of p rows it does less by √p.
CHANCE = 0.8
#: What setting aside all rows would cost, in units of that misfit.
COST = 0.1
#: Turns that the size of the box is found in, EM steps of each, and nats a row at which they end.
TURNS, STEPS, ROUGH = 5, 30, 1e-4
#: Change of the logarithm of the volume with which the box is found.
SETTLED = 0.05
#: Numbers that a background adds to a mixture: its share and its density.
BACKGROUND_PARAMETERS = 2


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
    if not _gains(_rows(rows), fit):  # and so will not for a better fit
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


def bounded(problem: Problem, plan: Plan, fit: Fit) -> tuple[Problem, Fit]:
    """The fit with so thin a background that it takes no more rows than are allowed.

    EM bounds its share alone; a dense background takes more rows than that.
    """
    while not fit.interrupted and problem.widths is not None:
        likelihood = _rows(problem)
        if taken_by_background(likelihood, fit.parameters) <= likelihood.most_outliers + 1e-3:
            break
        problem = with_background(problem, THINNER * problem.widths, likelihood.most_outliers)
        likelihood = _rows(problem)
        result = likelihood.fit(fit.parameters, tol=plan.tol, max_iter=plan.max_iter)
        fit = reached(fit, result)
    return problem, fit


def misfit_of_distances(likelihood: RowLikelihood, parameters: Parameters) -> float:
    """How far rows are from lying about their components as Gaussian ones do: from 0 to 1.

    The largest difference of two distribution functions: that of the squared distances of rows from
    the components that they belong to, in units of these, and that of χ². It is 0 where gaps or
    noise leave distances open.
    """
    if not likelihood.complete:
        return 0.0
    X, (_, means, covariances) = likelihood.X, parameters
    squares, _ = likelihood.kind.whitened_squares(covariances, X - means[:, None, :])
    levels = chi2.cdf(squares.T.reshape(-1), X.shape[1])
    R, _ = likelihood.responsibilities(parameters)
    weights = (likelihood.weights[:, None] * R).reshape(-1)
    order = np.argsort(levels)
    up_to = np.cumsum(weights[order]) / weights.sum()
    return float(np.max(np.abs(up_to - levels[order])))


def _gains(likelihood: RowLikelihood, parameters: Parameters) -> bool:
    """Whether a background makes a mixture more likely, by more than the price of the BIC."""
    closed = parameters._replace(weights=parameters.weights / parameters.weights.sum())
    without = likelihood.without_background().value(closed)
    return _pays(likelihood, likelihood.value(parameters) - without)


def _pays(likelihood: RowLikelihood, gain: float) -> bool:
    return likelihood.count * gain > BACKGROUND_PARAMETERS / 2 * float(np.log(likelihood.count))


def _rows(problem: Problem) -> RowLikelihood:
    assert isinstance(problem.likelihood, RowLikelihood)
    return problem.likelihood


def box_widths(problem: Problem, among: np.ndarray) -> np.ndarray:
    """Widths of a box around some of the rows (p,), in units of X: along its axes, or smaller.

    In the coordinates of the fit the box may be smaller; the widths then have its volume.
    """
    frame, Z = problem.frame, _rows(problem).X[among]
    assert isinstance(frame, Frame)
    if len(Z) == 0:
        return np.asarray(frame.units)
    here, there = np.ptp(Z, axis=0), np.ptp(frame.restore(Z), axis=0)
    here, there = np.where(here > 0, here, 1.0), np.where(there > 0, there, frame.units)
    volume = float(np.sum(np.log(there)))
    smaller = min(volume, float(np.sum(np.log(here))) + frame.log_volume)
    return there * np.exp((smaller - volume) / len(there))


def if_it_pays(problem: Problem, plan: Plan, fit: Fit) -> Fit:
    """The fit with its background, or one without, if that is as good for fewer parameters.

    The price of a parameter is that of the BIC.
    """
    if problem.widths is None:
        return fit
    if fit.interrupted:
        return replace(fit, widths=problem.widths)
    problem, fit = bounded(problem, plan, fit)
    likelihood = _rows(problem)
    weights, means, covariances = fit.parameters
    closed = Parameters(weights / weights.sum(), means, covariances)
    none = likelihood.without_background()
    rival = none.fit(closed, tol=plan.tol, max_iter=plan.max_iter)
    if rival.interrupted:
        return replace(fit, widths=problem.widths, interrupted=True)
    if _pays(likelihood, fit.log_posterior - rival.log_posterior):
        return replace(fit, widths=problem.widths)
    return reached(fit, rival)
