"""Outliers: how dense their background is, and whether there is one.

The background has a constant density c, and EM finds its share. For rows spread evenly over a box,
c is 1 / the volume of the box. "uniform" takes the box of all rows, which one distant row makes
huge. "auto" takes a box three times as wide as that of the rows that are no outliers. The two are
found in turn: EM says which rows these are, and they say how large the box is. The first box is
that of all rows, so c only grows. A cluster is taken for background only if its rows are less dense
than rows spread evenly over the box.

Heavy tails leave no gap between the rows of a cluster and outliers. So if the distances of the
other rows from their components are not those of Gaussian rows, the box is made smaller, which sets
more rows aside.

Clean rows gain by a background too, because its box follows the farthest of them in each feature.
So the background is kept only if it gains more than its share and the ends of its box cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit
from scipy.stats import beta, chi2, kstwobign

from momentmix.fit import Fit, Parameters, outlier_share
from momentmix.fitting.em import LikelihoodHere, responsibilities, sample_of
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import FrameLike, Problem, with_background
from momentmix.fitting.starts import plain_starts
from momentmix.rows.frame import Frame
from momentmix.rows.memory import Box

#: The widths of the box that are tried in turn, relative to the box of the rows that are no
#: outliers, until the misfit of the distances of these rows is below FITTING. These are round
#: numbers that were not tuned; narrower boxes set more rows aside.
AROUND, FITTING = (3.0, 1.7, 1.4, 1.2, 1.1, 1.0), 0.05
#: The nats by which a background has to gain more than its price: a likelihood ratio of twenty,
#: which is customarily called strong evidence (Kass and Raftery, 1995).
SURE = float(np.log(20))
#: The EM runs that make a background thin enough for the allowed share, and the halvings of an
#: interval before each. 30 halvings give nine digits; the number of runs was not tuned.
THINNINGS, HALVINGS = 3, 30
#: Divided by √p, this is the misfit of p Gaussian rows that chance exceeds in one data set in a
#: hundred, by Kolmogorov's distribution. One in a hundred is a customary level.
CHANCE = float(kstwobign.isf(0.01))
#: The price of setting all rows aside, in units of the misfit, by which boxes are compared. This is
#: a round number that was not tuned; a larger one sets fewer rows aside.
COST = 0.1
#: The turns in which the size of the box is found, and the EM steps and the tolerance (in nats per
#: row) of each. These are round numbers that were not tuned; the fit itself comes later.
TURNS, STEPS, ROUGH = 3, 10, 1e-4
#: The turns end when the logarithm of the volume changes by less than this, so the density is right
#: to 5 %. This is a round number that was not tuned.
SETTLED = 0.05


def background_parameters(n: int) -> int:
    """The number of parameters of a background: its share, and the two ends of its box."""
    return 1 + 2 * n


def find_background(
    problem: Problem, plan: Plan, start: Parameters | None, rng: np.random.Generator
) -> tuple[Problem, Parameters | None]:
    """The problem with a background whose density suits the rows, and a mixture to start from.

    Both are found from a start, by default one of k-means.
    """
    outliers, here = plan.outliers, problem.here
    if outliers is None or here is None or outliers.widths is not None:
        return problem, start
    frame, sample = problem.frame, sample_of(here, rng)
    everywhere = box_widths(frame, sample, np.ones(len(sample.rows.X), dtype=bool))
    if not outliers.robust or plan.max_iter == 0:
        return with_background(problem, everywhere, outliers.most), start
    sample = in_box(sample, Box(everywhere, frame.log_volume, outliers.most))
    fit = start or next(plain_starts(sample, plan.m, rng, plan.init_params, sheltered=True))
    found: list[tuple[float, Parameters, LikelihoodHere]] = []
    for around in AROUND:
        sample, fit = _by_turns(frame, sample, fit, around, plan)
        if found and share_of_background(sample, fit) > outliers.most:
            break
        misfit = misfit_of_distances(sample, fit)
        found.append((misfit + COST * outlier_share(fit.weights), fit, sample))
        if misfit < max(FITTING, CHANCE / np.sqrt(sample.rows.count)) or start is not None:
            break
    _, fit, sample = min(found, key=lambda one: one[0])
    if not _is_needed_for(sample, fit, plan):  # nor will a better fit need it
        return problem, start or fit
    widths = everywhere if sample.target.box is None else sample.target.box.widths
    return with_background(problem, widths, outliers.most), start or fit


def in_box(likelihood: LikelihoodHere, box: Box | None) -> LikelihoodHere:
    """The same rows and target with a background over a box, or without one."""
    return replace(likelihood, target=replace(likelihood.target, box=box))


def _by_turns(
    frame: FrameLike, sample: LikelihoodHere, fit: Parameters, around: float, plan: Plan
) -> tuple[LikelihoodHere, Parameters]:
    """EM in turn with a box that is ``around`` times as wide as that of the rows in components."""
    for _ in range(TURNS):
        box, steps = sample.target.box, min(STEPS, plan.max_iter)
        fit = sample.fit(fit, tol=max(ROUGH, plan.tol), max_iter=steps).parameters
        if box is None:
            break
        R, _ = responsibilities(sample, fit)
        smaller = around * box_widths(frame, sample, R.sum(axis=1) > 0.5)
        smaller = np.minimum(box.widths, smaller)
        if float(np.sum(np.log(box.widths) - np.log(smaller))) < SETTLED:
            break
        sample = in_box(sample, box._replace(widths=smaller))
    return sample, fit


def share_of_background(likelihood: LikelihoodHere, parameters: Parameters) -> float:
    """The share of the rows that belong to no component, by their probabilities."""
    return 1 - float(likelihood.rows.weights @ responsibilities(likelihood, parameters)[0].sum(1))


def thin_background(likelihood: LikelihoodHere, plan: Plan, fit: Fit) -> tuple[LikelihoodHere, Fit]:
    """The fit with a background thin enough to take no more rows than are allowed.

    EM bounds only the share of the background, and a dense background can take more rows than that.
    Bisection finds how thin it has to be for a mixture, and EM goes on from there.
    """
    for _ in range(THINNINGS):
        wider = _widen(likelihood, fit.parameters)
        if wider is likelihood:
            return likelihood, fit
        likelihood = wider
        result = likelihood.fit(fit.parameters, tol=plan.tol, max_iter=plan.max_iter)
        fit = result.after(fit)
    return _widen(likelihood, fit.parameters), fit


def _widen(likelihood: LikelihoodHere, parameters: Parameters) -> LikelihoodHere:
    """The likelihood with a box wide enough to take no more rows than are allowed."""
    rows, box = likelihood.rows, likelihood.target.box
    if box is None:
        return likelihood
    own = np.logaddexp.reduce(rows.log_joint(parameters), axis=1)
    beyond = np.log(max(outlier_share(parameters.weights), 1e-300)) + rows.log_uniform(box)

    def share_taken(log_volume: float) -> float:
        return float(rows.weights @ expit(beyond - own - log_volume))

    if share_taken(0.0) <= box.most + 1e-3:
        return likelihood
    low, high = 0.0, float(np.ptp(own - beyond)) + 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if share_taken(middle) <= box.most else (middle, high)
    wider = float(np.exp(high / rows.X.shape[1])) * box.widths
    return in_box(likelihood, box._replace(widths=wider))


def misfit_of_distances(likelihood: LikelihoodHere, parameters: Parameters) -> float:
    """How far the distances of rows from their components differ from those of Gaussian rows.

    It is the largest difference, between 0 and 1, of two distribution functions. One is that of the
    squared distances of rows from the components that they belong to, in units of these. The other
    is that of N Gaussian rows from their own mean and covariance, (N - 1)²/N times a beta variable,
    or χ² for many rows. It is 0 for rows with gaps or noise, whose distances are not known.
    """
    rows, kind, (_, means, covariances) = likelihood.rows, likelihood.target.kind, parameters
    if not rows.complete:
        return 0.0
    squares, _ = kind.whitened_squares(covariances, rows.X - means[:, None, :])
    R, _ = responsibilities(likelihood, parameters)
    weights, n = rows.weights[:, None] * R, rows.X.shape[1]
    counts = rows.count * weights.sum(axis=0)
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


def _is_needed_for(likelihood: LikelihoodHere, parameters: Parameters, plan: Plan) -> bool:
    """Whether there are outliers by a rough fit, after a few steps of a rival without them."""
    closed = parameters._replace(weights=parameters.weights / parameters.weights.sum())
    rival = in_box(likelihood, None).fit(
        closed, tol=max(ROUGH, plan.tol), max_iter=min(TURNS * STEPS, plan.max_iter)
    )
    return is_needed(likelihood, parameters, rival.parameters)


def is_needed(likelihood: LikelihoodHere, parameters: Parameters, rival: Parameters) -> bool:
    """Whether a mixture with a background explains rows clearly better than one without.

    The gain in log-likelihood has to pay three prices: the share by the BIC, the two ends of the
    box in each feature by the number of outliers, which determine them, and the gain that
    covariances have by chance when they follow fewer rows.
    """
    kind, n, count = likelihood.target.kind, likelihood.rows.X.shape[1], likelihood.rows.count
    gain = count * (likelihood.value(parameters) - in_box(likelihood, None).value(rival))
    R, _ = responsibilities(likelihood, parameters)
    left = count * (likelihood.rows.weights @ R)
    price = np.log(count) / 2 + n * np.log1p(max(count - left.sum(), 0.0)) + SURE
    chance = kind.total_optimism(left, n) - kind.total_optimism(count * rival.weights, n)
    return bool(gain > price + max(chance, 0.0))


def box_widths(frame: FrameLike, likelihood: LikelihoodHere, among: np.ndarray) -> np.ndarray:
    """The widths of a box around some of the rows (p,), in the units of X.

    If the box along the axes of the fit's coordinates is smaller, the widths are scaled to its
    volume. The rows of a box have at least the least variance that components can have.
    """
    Z = likelihood.rows.X[among]
    assert isinstance(frame, Frame)
    if len(Z) == 0:
        return np.asarray(frame.units)
    floor, A = np.asarray(likelihood.target.floor), np.asarray(frame.scale)
    floor = np.diag(np.broadcast_to(floor, frame.n)) if floor.ndim < 2 else floor
    A = np.diag(np.broadcast_to(A, frame.n)) if A.ndim < 2 else A
    here = np.maximum(np.ptp(Z, axis=0), np.sqrt(12 * np.diag(floor)))
    there = np.maximum(np.ptp(frame.restore(Z), axis=0), np.sqrt(12 * np.diag(A.T @ floor @ A)))
    volume = float(np.sum(np.log(there)))
    smaller = min(volume, float(np.sum(np.log(here))) + frame.log_volume)
    return np.asarray(there * np.exp((smaller - volume) / len(there)))


def keep_background_if_it_pays(problem: Problem, plan: Plan, fit: Fit) -> Fit:
    """The fit with its background, or a fit without it if that explains the rows as well."""
    likelihood = problem.here
    if problem.widths is None or likelihood is None:
        return fit
    likelihood = likelihood.of_strengths(fit.strengths)
    likelihood, fit = thin_background(likelihood, plan, fit)
    box = likelihood.target.box
    fit = replace(fit, widths=None if box is None else box.widths)
    weights, means, covariances = fit.parameters
    closed = Parameters(weights / weights.sum(), means, covariances)
    without = in_box(likelihood, None)
    rival = without.fit(closed, tol=plan.tol, max_iter=plan.max_iter)
    if is_needed(likelihood, fit.parameters, rival.parameters):
        return fit
    return replace(rival.after(fit), widths=None)
