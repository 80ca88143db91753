"""Scoring: from a good start to the maximum of the likelihood in two or three passes over the rows.

A pass that makes the sums of an EM step also gives the slope of the likelihood: by Fisher's
identity it is that of rows whose components are known, at their expected sums. The curvature would
cost much more, but a sample of the rows has nearly the same as all rows. So a step is Newton's with
the slope of all rows and the curvature of a sample, and costs as much as a step of EM. Each
component has coordinates of its own, in which the curvature hardly changes from step to step, so it
is computed anew only when steps become slow. The change of the slope along the last step corrects
the curvature in that direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Sums
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.information import information, penalty_slope
from momentmix.likelihood.newton import step_of, take_step
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.support.array import to_numpy

#: The curvature comes from SAMPLE rows, which gives it a sampling error of about 1/√20,000 = 0.7 %.
#: Mixtures of more than MOST_PARAMETERS parameters take EM, because the cost of the curvature grows
#: as the square of their number. Both are round numbers that were not tuned.
SAMPLE, MOST_PARAMETERS = 20_000, 1000
#: The curvature is computed anew unless a step leaves less than this share of the expected gain.
#: This is a round number that was not tuned; it affects the number of passes alone.
FAST = 0.1
#: Scoring stops when less than this many nats per parameter are left to gain in all rows together.
#: By chance alone, the maximum exceeds the truth by half a nat per parameter, so this is 2 % of it.
SMALL_ERROR = 0.01
#: A step that does not gain is halved this many times before EM takes over. This is a round number
#: that was not tuned; each halving costs a pass.
HALVINGS = 3


def slope_of_sums(likelihood: Likelihood, directions: Directions, sums: Sums) -> np.ndarray:
    """The gradient of the mean log-likelihood less the penalty, from sums of a pass; (size,)."""
    kind, tangent, n = likelihood.kind, directions.tangent, directions.n
    _, shares, firsts, seconds = sums
    safe = np.maximum(shares, 1e-300)[:, None]
    means, slope = firsts / safe, np.zeros(directions.size)
    matrices = np.zeros((directions.m, n, n))
    if not directions.known:
        scatter = kind.of(kind.estimate(shares, means, seconds / safe), n)
        matrices = np.broadcast_to(to_numpy(scatter.matrices()), matrices.shape)
    for j, root in enumerate(directions.roots):
        Z = tangent.whiten(root, (means[j] - directions.parameters.means[j])[None])
        C = tangent.whiten_both_sides(root, matrices[j][None])
        of_one = np.concatenate([[1.0], Z[0], tangent.features(Z, C)[0]])
        slope[directions.own[j]] += shares[j] * of_one
    slope[: directions.m] -= directions.parameters.weights
    return np.asarray(slope - penalty_slope(likelihood, directions))


def curvature_of_some(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray:
    """The negative Hessian per row of what a fit maximises, from some of the rows."""
    return information(_some(likelihood, parameters, rng), parameters).curvature


def _some(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    """Some of the rows in memory; if there are none, rows drawn from the mixture."""
    rows = likelihood.in_memory
    if rows is None:
        fixed = likelihood.kind, likelihood.floor, likelihood.variance, likelihood.prior
        empty = np.zeros((1, parameters.means.shape[1]))
        like = RowLikelihood(empty, None, *fixed, float(SAMPLE))
        drawn = like.draw(parameters, rng)
        drawn.count = likelihood.count  # the weight of the prior depends on it
        return drawn
    p = len(rows.X)
    if p <= SAMPLE:
        return rows
    shares = rows.weights / rows.weights.sum()
    return rows.part(rng.choice(p, SAMPLE, p=shares), None, 1.0, rows.prior)


def with_secant(curvature: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The curvature corrected by how the slope of all rows has changed along a step.

    It is the update of Broyden, Fletcher, Goldfarb and Shanno: H - Hs(Hs)ᵀ/sᵀHs + yyᵀ/sᵀy for a
    step s along which the slope falls by y. O(size²).
    """
    along, explained = float(step @ change), curvature @ step
    expected = float(step @ explained)
    if along <= 0 or expected <= 0:
        return curvature
    return np.asarray(
        curvature - np.outer(explained, explained / expected) + np.outer(change, change / along)
    )


class ScoringResult(NamedTuple):
    """The result of scoring."""

    result: EMResult
    curvature: np.ndarray | None = None  # at the end, unless the rows are in memory
    by_em: bool = False


def _at_last(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray | None:
    """The curvature where a fit has ended; None for rows in memory, which give it when needed."""
    if isinstance(likelihood, RowLikelihood):
        return None
    return curvature_of_some(likelihood, parameters, rng)


def climb_by_scoring(
    likelihood: Likelihood,
    start: Parameters,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
) -> ScoringResult:
    """Take scoring steps until the next should gain less than ``tol``; each costs one pass.

    The expected gain must also be small beside the sampling error (``SMALL_ERROR``). A step that
    does not gain is halved. EM takes over after ``HALVINGS`` of them, as happens if the information
    is singular, and if there are more than ``MOST_PARAMETERS`` parameters.
    """
    at, passes, gain = likelihood.with_room_for_background(start), 0, np.inf
    best, step, halvings = EMResult(at, -np.inf, 0, False, False), np.empty(0), 0
    directions, slope, curvature = Directions.of(likelihood, at), step, None
    enough = min(tol, SMALL_ERROR * directions.size / likelihood.count)
    if directions.size > MOST_PARAMETERS:
        return ScoringResult(
            likelihood.fit(at, tol=tol, max_iter=max_iter, callback=callback), by_em=True
        )
    try:
        while passes < max_iter:
            sums = likelihood.sums(at)
            passes += 1
            value = float(sums.log_likelihoods[0])
            log_posterior = value - likelihood.penalty(at)
            if log_posterior < best.log_posterior:
                halvings += 1
                if halvings > HALVINGS:
                    last = likelihood.fit(best.parameters, tol=tol, max_iter=max_iter - passes)
                    return ScoringResult(last._replace(n_iter=last.n_iter + passes), by_em=True)
                step = step / 2
            else:
                best = EMResult(at, value, passes, False, False, log_posterior)
                if callback is not None:
                    callback(passes, value)
                directions = Directions.of(likelihood, at)
                before, last_gain = slope, gain
                slope = slope_of_sums(likelihood, directions, sums)
                if curvature is not None:
                    curvature = with_secant(curvature, step, before - slope)
                    step, gain = step_of(directions, slope, curvature)
                if curvature is None or halvings or enough < gain > FAST * last_gain:
                    curvature = curvature_of_some(likelihood, at, rng)
                    step, gain = step_of(directions, slope, curvature)
                halvings = 0
                if gain < enough:
                    return ScoringResult(
                        best._replace(converged=True), _at_last(likelihood, at, rng)
                    )
            at = take_step(likelihood, directions, step)
    except KeyboardInterrupt:
        return ScoringResult(best._replace(interrupted=True))
    return ScoringResult(best, _at_last(likelihood, best.parameters, rng))
