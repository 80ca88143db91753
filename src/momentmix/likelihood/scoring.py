"""Scoring: from a good start to the maximum of the likelihood in two or three passes over the rows.

A pass that makes the sums of an EM step also tells the slope of the likelihood: by Fisher's
identity it is that of rows whose components are known, at their expected sums. The curvature, which
would cost a pass of its own and much more, is nearly the same for some of the rows as for all. So a
step is Newton's with the slope of all rows and the curvature of a sample, and costs what a step of
EM does. Every component is taken in coordinates of its own, in which the curvature hardly changes
from one step to the next, so that one will do as long as steps lead ahead fast. What it lacks along
the last step, the slopes before and after it tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Sums
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.information import information, penalty_slope
from momentmix.likelihood.newton import moved, step_of
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.support.array import to_numpy

#: Rows whose curvature stands for that of all, and parameters that it is worth having of.
SAMPLE, MOST_PARAMETERS = 20_000, 1000
#: The curvature is taken anew unless a step leaves less than this share of the gain to be had.
FAST = 0.1
#: What is left to gain at last, a parameter, beside the half nat that chance makes of each.
SMALL_ERROR = 0.01
#: Halvings of a step that does not gain, after which EM takes over.
HALVINGS = 3


def slope_of_sums(likelihood: Likelihood, directions: Directions, sums: Sums) -> np.ndarray:
    """∂ of the mean log-likelihood less the penalty, from the sums of a pass; (size,)."""
    kind, tangent, n = likelihood.kind, directions.tangent, directions.n
    _, shares, firsts, seconds = sums
    safe = np.maximum(shares, 1e-300)[:, None]
    means, slope = firsts / safe, np.zeros(directions.size)
    matrices = np.zeros((directions.m, n, n))
    if not directions.known:
        scatter = kind.of(kind.fitted(shares, means, seconds / safe), n)
        matrices = np.broadcast_to(to_numpy(scatter.matrices()), matrices.shape)
    for j, root in enumerate(directions.roots):
        Z = tangent.whitened(root, (means[j] - directions.parameters.means[j])[None])
        C = tangent.whitened_twice(root, matrices[j][None])
        of_one = np.concatenate([[1.0], Z[0], tangent.features(Z, C)[0]])
        slope[directions.own[j]] += shares[j] * of_one
    slope[: directions.m] -= directions.parameters.weights
    return np.asarray(slope - penalty_slope(likelihood, directions))


def curvature_of_some(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray:
    """-∂² of what a fit maximises, a row: that of some rows, which stands for that of all."""
    return information(_some(likelihood, parameters, rng), parameters).curvature


def _some(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    """Some of the rows in memory; where there are none, rows drawn from the mixture."""
    rows = likelihood.at_hand
    if rows is None:
        fixed = likelihood.kind, likelihood.floor, likelihood.variance, likelihood.prior
        empty = np.zeros((1, parameters.means.shape[1]))
        like = RowLikelihood(empty, None, *fixed, float(SAMPLE))
        drawn = like.drawn(parameters, rng)
        drawn.count = likelihood.count  # beside which the prior stands
        return drawn
    p = len(rows.X)
    if p <= SAMPLE:
        return rows
    shares = rows.weights / rows.weights.sum()
    return rows.part(rng.choice(p, SAMPLE, p=shares), None, 1.0, rows.prior)


def with_secant(curvature: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """A curvature that explains how the slope of all rows has changed along a step.

    The nearest one that does: H - Hs(Hs)ᵀ/sᵀHs + yyᵀ/sᵀy for a step s and the slope less by y, by
    Broyden, Fletcher, Goldfarb and Shanno. O(size²).
    """
    along, explained = float(step @ change), curvature @ step
    expected = float(step @ explained)
    if along <= 0 or expected <= 0:
        return curvature
    return np.asarray(
        curvature - np.outer(explained, explained / expected) + np.outer(change, change / along)
    )


class Scored(NamedTuple):
    """Where scoring has led."""

    result: EMResult
    curvature: np.ndarray | None = None  # at the end, if no rows are here to ask for it later
    by_em: bool = False


def _at_last(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> np.ndarray | None:
    """The curvature where a fit has ended, unless the rows are here and can tell when asked."""
    if isinstance(likelihood, RowLikelihood):
        return None
    return curvature_of_some(likelihood, parameters, rng)


def scored(
    likelihood: Likelihood,
    start: Parameters,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
) -> Scored:
    """From a start to where a further step should gain less than ``tol``, one pass a step.

    It also goes on until what is left to gain is little beside the error that so many rows leave. A
    step that does not gain is halved. EM takes over after some halvings, which singular information
    leads to, and where the parameters are too many for their curvature.
    """
    at, passes, gain = likelihood.opened(start), 0, np.inf
    best, step, halvings = EMResult(at, -np.inf, 0, False, False), np.empty(0), 0
    directions, slope, curvature = Directions.of(likelihood, at), step, None
    enough = min(tol, SMALL_ERROR * directions.size / likelihood.count)
    if directions.size > MOST_PARAMETERS:
        return Scored(likelihood.fit(at, tol=tol, max_iter=max_iter, callback=callback), by_em=True)
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
                    return Scored(last._replace(n_iter=last.n_iter + passes), by_em=True)
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
                    return Scored(best._replace(converged=True), _at_last(likelihood, at, rng))
            at = moved(likelihood, directions, step)
    except KeyboardInterrupt:
        return Scored(best._replace(interrupted=True))
    return Scored(best, _at_last(likelihood, best.parameters, rng))
