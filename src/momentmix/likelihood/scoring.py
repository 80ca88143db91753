"""Scoring: from a good start to the maximum of the likelihood in two or three passes over the rows.

A pass that makes the sums of an EM step also tells the slope of the likelihood: by Fisher's
identity it is that of rows whose components are known, at their expected sums. The curvature, which
would cost a pass of its own and much more, is nearly the same for some of the rows as for all. So a
step is Newton's with the slope of all rows and the curvature of a sample, and costs what a step of
EM does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Sums
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.information import information, penalty_slope
from momentmix.likelihood.newton import moved, step_of
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.support.array import to_numpy

#: Rows whose curvature stands for that of all.
SAMPLE = 20_000
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


def sampled(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    """That of rows whose curvature stands for that of all: some of them, or drawn ones."""
    if isinstance(likelihood, RowLikelihood):
        p = len(likelihood.X)
        if p <= SAMPLE:
            return likelihood
        shares = likelihood.weights / likelihood.weights.sum()
        return likelihood.part(rng.choice(p, SAMPLE, p=shares), None, 1.0, likelihood.prior)
    fixed = likelihood.kind, likelihood.floor, likelihood.variance, likelihood.prior
    empty = np.zeros((1, parameters.means.shape[1]))
    like = RowLikelihood(empty, None, *fixed, float(SAMPLE))
    drawn = like.drawn(parameters, rng)
    drawn.count = likelihood.count
    return drawn


def scored(
    likelihood: Likelihood,
    start: Parameters,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
) -> EMResult:
    """From a start to where a further step should gain less than ``tol``, one pass a step.

    A step that does not gain is halved, and after some halvings EM takes over.
    """
    at, passes = likelihood.opened(start), 0
    best, step, halvings = EMResult(at, -np.inf, 0, False, False), np.empty(0), 0
    directions = Directions.of(likelihood, at)
    try:
        while passes < max_iter:
            sums = likelihood.sums(at)
            passes += 1
            value = float(sums.log_likelihoods[0])
            log_posterior = value - likelihood.penalty(at)
            if log_posterior < best.log_posterior:
                halvings += 1
                if halvings > HALVINGS:
                    result = likelihood.fit(best.parameters, tol=tol, max_iter=max_iter - passes)
                    return result._replace(n_iter=result.n_iter + passes)
                step = step / 2
            else:
                best = EMResult(at, value, passes, False, False, log_posterior)
                if callback is not None:
                    callback(passes, value)
                directions, halvings = Directions.of(likelihood, at), 0
                slope = slope_of_sums(likelihood, directions, sums)
                curvature = information(sampled(likelihood, at, rng), at).curvature
                step, gain = step_of(directions, slope, curvature)
                if gain < tol:
                    return best._replace(converged=True)
            at = moved(likelihood, directions, step)
    except KeyboardInterrupt:
        return best._replace(interrupted=True)
    return best
