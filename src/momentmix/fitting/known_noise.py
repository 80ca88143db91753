"""The problem of means under noise of known covariance.

The model is X = Y + N(0, Σ), where Σ is known and Y is one of m points. The moments of Y follow
from those of X by removing the noise (Thm. 5.1 of Pereira–Kileel–Kolda), and a symmetric CP
decomposition of all their orders gives the points and how often each occurs (§5.2). In coordinates
where the noise is spherical, the likelihood is that of spherical components of known variance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from momentmix.covariance import Covariance, Spherical, common_noise
from momentmix.data.blocks import BlockData
from momentmix.data.frame import Frame
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data, TensorData, mean_and_covariance
from momentmix.decomposition.terms import TermInit, TermSearch
from momentmix.fitting.building import moments_of_blocks
from momentmix.fitting.noise import check_size, noise_frame, trailing_variance
from momentmix.fitting.plan import ESTIMATE_TOL, Plan
from momentmix.fitting.problem import Problem
from momentmix.likelihood.blocks import BlockLikelihood
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.matching.costs import MOST_MOMENTS
from momentmix.matching.fit import Fit
from momentmix.matching.order_weights import gaussian_weights
from momentmix.matching.starts import normal_points
from momentmix.support.array import ArrayLike, foreign, to_numpy
from momentmix.tensors.packed import total_size

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

    def __init__(
        self,
        data: AtomData | TensorData,
        scaled: AtomData | TensorData,
        frame: NoiseFrame,
        plan: Plan,
    ) -> None:
        self.data, self.scaled, self.frame, self.plan = data, scaled, frame, plan

    def single(self) -> Fit:
        only = self.frame.components(np.ones(1), np.zeros((1, self.plan.n)))
        return Fit(only, 0.0, n_iter=1, n_passes=1, converged=True, history=(0.0,))

    def guess(self, rng: np.random.Generator) -> Parameters:
        m = self.plan.m
        return self.frame.components(np.full(m, 1 / m), normal_points(self.scaled, rng)[:m])

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        plan, own = self.plan, self.frame.frame
        frame, scaled = own, self.scaled
        if plan.omega is not None:  # ω is about the origin, in one unit for all features
            frame = Frame.about_the_origin(Spherical, own)
            scaled = self.data.within(frame)
        terms = TermSearch(
            scaled.debias(frame.apply_covariance(self.frame.noise)),
            plan.m,
            plan.weights(frame.unit, gaussian_weights(plan.order)),
            form=plan.augmentation,
            solver=plan.solver,
            max_iter=plan.max_iter,
            tol=ESTIMATE_TOL,
            mixture=True,
        )
        if start is not None:
            points = frame.apply(own.restore(start.means))
            start = Parameters(start.weights, points, np.empty((plan.m, 0)))
        fit = terms.solve(cast(TermInit, plan.init), plan.n_init, rng, verbose, start)
        means = fit.parameters.means
        if frame is not own:
            means = own.apply(frame.restore(means))
        shares = np.maximum(fit.parameters.weights, 0)
        # Moments do not determine a component without weight, so it is put at the centre.
        lost = (shares < LOST * shares.sum()) | ~np.all(np.isfinite(means), axis=1)
        means = np.where(lost[:, None], 0.0, means)
        return replace(fit, parameters=self.frame.components(shares / shares.sum(), means))


def known_noise_problem(data: Data | ObservedData, plan: Plan, covariance: ArrayLike) -> Problem:
    """The problem for the covariance of the noise that a user gives, or "estimate"."""
    observed = data if isinstance(data, ObservedData) else None
    if isinstance(data, ObservedData):
        data = data.moments(plan.order, plan.tensors)
    rows = data if plan.polish and isinstance(data, AtomData) and observed is None else None
    elsewhere, share = None, 0.0  # the share of cells that are gaps
    if isinstance(data, BlockData):
        _check_moments(plan)
        elsewhere = data.elsewhere
        data, share = moments_of_blocks(data, plan)
    assert isinstance(data, AtomData | TensorData)
    if data.count < plan.m and isinstance(data, TensorData):
        raise ValueError(
            f"{plan.m} components need as many samples at least, and there are {data.count:.0f}"
        )
    centre, spread = mean_and_covariance(data)
    noise = _noise(covariance, spread, plan, data.count)
    definite = noise.is_definite()
    if plan.polish and not definite:
        raise ValueError(
            "the covariance of the noise is singular, so there is no likelihood; add a small "
            "multiple of the identity to it, or use polish=None"
        )
    frame = NoiseFrame(noise, *noise_frame(noise, definite, centre, spread))
    scaled = data.within(frame.frame)
    likelihood: Likelihood | None = None
    if observed is not None and plan.polish:
        likelihood = ObservedLikelihood(
            observed.within(frame.frame),
            observed.weights,
            Spherical,
            0.0,
            variance=frame.variance,
            count=observed.count,
            to_features=frame.frame.to_features,
        )
    elif rows is not None and isinstance(scaled, AtomData):
        ordered = scaled.in_order()
        likelihood = RowLikelihood(
            ordered.X,
            ordered.weights,
            Spherical,
            0.0,
            variance=frame.variance,
            count=rows.count,
        ).on(rows.device)
    elif elsewhere is not None and plan.polish:
        likelihood = BlockLikelihood(
            elsewhere,
            frame.frame,
            Spherical,
            0.0,
            frame.variance,
            observed=share > 0 or elsewhere.noisy,
        )
    moments = PointMoments(data, scaled, frame, plan)
    return Problem(
        frame,
        moments,
        likelihood,
        data.count,
        floor=None,
        rows=rows,
        elsewhere=elsewhere,
        definite=definite,
    )


def _check_moments(plan: Plan) -> None:
    if total_size(plan.n, plan.order) > MOST_MOMENTS:
        raise ValueError(
            f"{plan.n} features have too many moments of order {plan.order} to be summed up on a "
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
