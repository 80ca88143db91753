"""Rows that belong nowhere: how dense the background is, and whether there is one.

The background has a constant density c, and a share that EM finds. Rows spread evenly over a box
have c = 1 / its volume. "uniform" takes the box of all rows, which one far row makes huge. "auto"
takes the box of the rows that are no outliers, which is found by turns: EM says which they are, and
they say how large the box is. As the first box is that of all rows, c only grows, and no cluster is
taken for background before rows in it are less dense than rows all over the box would be.

Where there are no outliers the background gains next to nothing, and is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, with_background
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.starts import plain_starts
from momentmix.matching.fit import Fit

#: How many times as wide as the rows that are no outliers is the box in which outliers are.
AROUND = 3.0
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
    sample.crowds  # noqa: B018 - found here once, they are kept by all copies
    rows = replace(problem, likelihood=sample)
    widths = box_widths(rows, np.ones(len(_rows(rows).X), dtype=bool))
    if not outliers.robust or plan.max_iter == 0:
        return with_background(problem, widths, outliers.most), start
    first = start
    for _ in range(TURNS):
        rows = with_background(rows, widths, outliers.most)
        sample = _rows(rows)
        if first is None:
            first = next(plain_starts(sample, plan.m, rng, plan.init_params))
        steps = min(STEPS, plan.max_iter)
        first = sample.fit(first, tol=max(ROUGH, plan.tol), max_iter=steps).parameters
        R, _ = sample.responsibilities(first)
        before, widths = widths, np.minimum(widths, AROUND * box_widths(rows, R.sum(axis=1) > 0.5))
        if float(np.sum(np.log(before) - np.log(widths))) < SETTLED:
            widths = before
            break
    kept = start if start is not None else first
    if first is not None and not _gains(_rows(rows), first):  # and so will not for a better fit
        return problem, kept
    return with_background(problem, widths, outliers.most), kept


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
    likelihood = _rows(problem)
    if problem.widths is None:
        return fit
    if fit.interrupted:
        return replace(fit, widths=problem.widths)
    weights, means, covariances = fit.parameters
    closed = Parameters(weights / weights.sum(), means, covariances)
    none = likelihood.without_background()
    rival = none.fit(closed, tol=plan.tol, max_iter=plan.max_iter)
    if rival.interrupted:
        return replace(fit, widths=problem.widths, interrupted=True)
    if _pays(likelihood, fit.log_posterior - rival.log_posterior):
        return replace(fit, widths=problem.widths)
    return replace(
        fit,
        parameters=rival.parameters,
        log_likelihood=rival.log_likelihood,
        log_posterior=rival.log_posterior,
        n_passes=fit.n_passes + rival.n_iter,
        converged=rival.converged,
    )
