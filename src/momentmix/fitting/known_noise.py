"""Fits under known noise: its coordinates, and the problem of means and weights.

The model is X = Y + N(0, Σ), where Σ is known and Y is one of m points. The moments of Y follow
from those of X by removing the noise (Thm. 5.1 of Pereira–Kileel–Kolda), and a symmetric CP
decomposition of all their orders gives the points and how often each occurs (§5.2). In coordinates
where the noise is spherical, the likelihood is that of spherical components of known variance, so
a fit needs only that variance, which is estimated if it is not known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from momentmix.covariance import Covariance, Spherical, common_noise
from momentmix.decomposition.terms import TermInit, TermSearch
from momentmix.fit import Fit, Parameters
from momentmix.fitting.em import Likelihood, Target
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.matching.orders import MOST_MOMENTS, gaussian_weights
from momentmix.rows.data import AtomData, Data, RowData, TensorData, mean_and_covariance
from momentmix.rows.elsewhere import BlockData, ElsewhereRows
from momentmix.rows.frame import Frame
from momentmix.rows.memory import Rows
from momentmix.support.array import ArrayLike, foreign, to_numpy
from momentmix.support.messages import warn_user
from momentmix.tensors.packed import total_size


def trailing_variance(covariance: np.ndarray, r: int, p: float) -> float:
    """The variance of spherical noise, from the directions in which the means do not differ.

    The r leading directions are fitted to the means, so the others have (n - r)(p - 1 - r) degrees
    of freedom.
    """
    # A constant feature has no noise, and tells nothing about that of the others.
    varying = np.diag(covariance) > 0
    covariance = covariance[np.ix_(varying, varying)]
    n = len(covariance)
    if n <= r:
        raise ValueError(
            f"covariance='estimate' needs more features than n_components - 1 = {r}, and {n} vary: "
            "noise shows where the means do not differ; give covariance as a number"
        )
    if p <= r + 2:
        raise ValueError(
            f"covariance='estimate' needs more than n_components + 1 = {r + 2} samples, got {p:.0f}"
        )
    values = np.linalg.eigvalsh(covariance)
    trailing = float(np.sum(values[: n - r]))
    if trailing <= 1e-14 * n * values[-1]:
        raise ValueError(
            "covariance='estimate' found no noise: the data lie in the subspace of their means; "
            "give covariance as a number"
        )
    correction = 1.0 if np.isinf(p) else p / (p - 1 - r)
    return trailing * correction / (n - r)


def check_size(noise: Covariance, covariance: np.ndarray, p: float) -> None:
    """Warn if the given noise has a larger variance than the data."""
    own, said = np.diag(covariance), np.diag(to_numpy(noise.matrices())[0])
    ratios = own[said > 0] / said[said > 0]
    sampling = 0.0 if np.isinf(p) else 6 * np.sqrt(2 / p)
    if len(ratios) and np.min(ratios) < 1 - sampling:
        warn_user(
            "the covariance of the noise is larger than that of the data: one feature has only "
            f"{np.min(ratios):.3g} times the variance of its noise; is it a variance, not a "
            "standard deviation, and in the unit of the data?",
            UserWarning,
        )


def noise_frame(
    noise: Covariance, definite: bool, centre: np.ndarray, covariance: np.ndarray
) -> tuple[Frame, float]:
    """Centred coordinates in which the noise is spherical, and its variance there.

    The unit is such that the data have variance 1 on average. Singular noise is left as it is, and
    the variance that is returned has no meaning.
    """
    if not definite:
        return Frame(Spherical, centre, covariance), 0.0
    matrix = to_numpy(noise.matrices())[0]
    ratio = float(np.mean(np.diag(covariance) / np.diag(matrix)))
    ratio = max(ratio, 1e-3)  # data can hardly vary less than their noise
    return Frame(noise.kind, centre, ratio * matrix), 1 / ratio


#: A component with less than this share of the weight is not determined by the moments, and is put
#: at the centre. This is a round number that was not tuned; it affects nearly empty components.
LOST = 1e-6


class NoiseFrame:
    """Coordinates in which the known noise is spherical, of some variance.

    ``noise`` is its covariance in the coordinates of X, the same for all components.
    """

    def __init__(self, noise: Covariance, frame: Frame, variance: float) -> None:
        self.noise, self.frame, self.variance = noise, frame, variance
        self.kind, self.log_volume, self.factor = noise.kind, frame.log_volume, frame.factor

    def components(self, weights: np.ndarray, means: np.ndarray) -> Parameters:
        """Components at means in these coordinates."""
        return Parameters(weights, means, np.full(len(weights), self.variance))

    def apply(self, X: np.ndarray) -> np.ndarray:
        return self.frame.apply(X)

    def forward(self, parameters: Parameters) -> Parameters:
        return self.components(parameters.weights, self.frame.apply(parameters.means))

    def back(self, parameters: Parameters) -> Parameters:
        covariances = self.kind.repeat(len(parameters.weights), to_numpy(self.noise.matrices())[0])
        means = self.frame.restore(parameters.means)
        return Parameters(parameters.weights, means, covariances)


class PointMoments:
    """The moments of data with the noise taken out, and the points that have them."""

    def __init__(self, data: AtomData | TensorData, frame: NoiseFrame, plan: Plan) -> None:
        self.data, self.frame, self.plan = data, frame, plan
        self.scaled = data.within(frame.frame)

    def single(self) -> Fit:
        only = self.frame.components(np.ones(1), np.zeros((1, self.plan.n)))
        return Fit(only, 0.0, n_iter=1, n_passes=1, converged=True, history=(0.0,))

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        plan, own = self.plan, self.frame.frame
        frame, scaled = own, self.scaled
        if plan.at_the_origin:  # as ω is about the origin, in one unit for all features
            frame = Frame.about_the_origin(Spherical, own)
            scaled = self.data.within(frame)
        terms = TermSearch(
            scaled.debias(frame.apply_covariance(self.frame.noise)),
            plan.m,
            plan.model.weigh(frame.unit, gaussian_weights(plan.model.order)).weights,
            form=plan.model.augmentation,
            solver=plan.model.solver,
            max_iter=plan.model.max_iter,
            tol=plan.model.tol,
            mixture=True,
        )
        if start is not None:
            points = frame.apply(own.restore(start.means))
            start = Parameters(start.weights, points, np.empty((plan.m, 0)))
        fit = terms.solve(cast(TermInit, plan.model.init), plan.n_init, rng, verbose, start)
        means = fit.parameters.means
        if frame is not own:
            means = own.apply(frame.restore(means))
        shares = np.maximum(fit.parameters.weights, 0)
        # Moments do not determine a component without weight, so it is put at the centre.
        lost = (shares < LOST * shares.sum()) | ~np.all(np.isfinite(means), axis=1)
        means = np.where(lost[:, None], 0.0, means)
        return replace(fit, parameters=self.frame.components(shares / shares.sum(), means))


def known_noise_problem(data: Data, plan: Plan, covariance: ArrayLike) -> Problem:
    """The problem for the covariance of the noise that a user gives, or "estimate"."""
    if isinstance(data, BlockData):
        _check_moments(plan)
    matched = data.matched(plan.model.order, plan.tensors)
    assert isinstance(matched, AtomData | TensorData)  # rows elsewhere are summed up
    if matched.count < plan.m and isinstance(matched, TensorData):
        raise ValueError(
            f"{plan.m} components need as many samples at least, and there are {matched.count:.0f}"
        )
    centre, spread = mean_and_covariance(matched)
    noise = _noise(covariance, spread, plan, matched.count)
    definite = noise.is_definite()
    if plan.polish and not definite:
        raise ValueError(
            "the covariance of the noise is singular, so there is no likelihood; add a small "
            "multiple of the identity to it, or use polish=None"
        )
    frame = NoiseFrame(noise, *noise_frame(noise, definite, centre, spread))
    moments, likelihood = PointMoments(matched, frame, plan), None
    rows: Rows | None = None
    elsewhere = data.elsewhere if isinstance(data, BlockData) else None
    if plan.polish and isinstance(data, RowData):
        rows = data.rows_within(frame.frame, Spherical)
    elif plan.polish and elsewhere is not None and isinstance(matched, TensorData):
        incomplete = elsewhere.noisy or not np.all(matched.tensors.presence >= 1)
        rows = ElsewhereRows(elsewhere, frame.frame, Spherical, matched.count, incomplete)
    if rows is not None:
        likelihood = Likelihood(rows, Target(Spherical, 0.0, variance=frame.variance))
    return Problem(
        frame,
        lambda plan: moments,
        likelihood,
        matched.count,
        floor=None,
        rows=data if plan.polish and isinstance(data, AtomData) else None,
        elsewhere=elsewhere,
        definite=definite,
    )


def _check_moments(plan: Plan) -> None:
    order = plan.model.order
    if total_size(plan.n, order) > MOST_MOMENTS:
        raise ValueError(
            f"{plan.n} features have too many moments of order {order} to be summed up on a "
            "cluster; use fewer features or fit a sample of the rows in memory"
        )


def _noise(covariance: ArrayLike, spread: np.ndarray, plan: Plan, count: float) -> Covariance:
    """The covariance of the noise, of a type that all atoms share."""
    if isinstance(covariance, str):
        variance = trailing_variance(spread, plan.m - 1, count)
        return Spherical(np.array([variance]), plan.n)
    noise = common_noise(to_numpy(covariance) if foreign(covariance) else covariance, plan.n)
    check_size(noise, spread, count)
    return noise
