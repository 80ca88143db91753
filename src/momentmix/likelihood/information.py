"""The information that rows hold about the parameters.

By Louis' formula, the observed information is that of rows whose components are known, less what is
lost because they are not known: the covariance of the scores that the components would give.

    observed = Σ_i E[-∂² log λ_j N(x_i)] - Cov[∂ log λ_j N(x_i)],   outer = Σ_i s_i s_iᵀ,

where expectation and covariance are over the components j of row i, and s_i is its score. Both are
computed in one pass over blocks of rows, and are means over rows here. The prior adds its own
second derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix.covariance.tangent import Curvature
from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import Expectations, RowLikelihood
from momentmix.likelihood.scores import Directions, row_scores

#: The step of the central differences that give second derivatives of the penalty, relative to each
#: covariance. Their relative error is about STEP² = 1e-8, and rounding is far below that.
STEP = 1e-4
#: The numbers in a block of scores, which are 2 MiB. This is a round number: results do not depend
#: on it, only memory and speed do.
BLOCK_NUMBERS = 1 << 18
#: The number of mixtures whose penalty is computed at once. This is a round number: results do not
#: depend on it, only memory and speed do.
TOGETHER = 256


class Information(NamedTuple):
    """The mean information of a row, in the directions in which a mixture can change."""

    directions: Directions
    score: np.ndarray  # (size,), zero at a maximum of the likelihood
    observed: np.ndarray  # (size, size)
    outer: np.ndarray  # (size, size)
    penalty: np.ndarray  # second derivatives of the penalty; (size, size)
    pull: np.ndarray  # first derivatives of the penalty; (size,)

    @property
    def slope(self) -> np.ndarray:
        """The gradient of what a fit maximises, zero at its maximum."""
        return self.score - self.pull

    @property
    def curvature(self) -> np.ndarray:
        """The negative Hessian of what a fit maximises."""
        return self.observed + self.penalty


def information(likelihood: Likelihood, parameters: Parameters) -> Information:
    """The information of all rows of a likelihood, at some parameters; one pass."""
    directions = Directions.of(likelihood, parameters)
    score, observed, outer = likelihood.total(information_sums, directions)
    m, weights = directions.m, np.zeros(directions.size)
    weights[:m] = parameters.weights
    # Scores in η are responsibilities less weights, and only responsibilities were summed.
    outer = outer - np.outer(weights, score) - np.outer(score - weights, weights)
    observed[:m, :m] += np.diag(weights[:m]) - np.outer(weights[:m], weights[:m])
    penalty = penalty_curvature(likelihood, directions)
    pull = penalty_slope(likelihood, directions)
    return Information(directions, score - weights, observed, outer, penalty, pull)


def information_sums(
    rows: RowLikelihood, directions: Directions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sums over rows of scores, of the observed information, and of squares of scores.

    In η they use responsibilities in place of scores, which differ from them by constants.
    """
    m, width, tangent = directions.m, len(directions.own[0]), directions.tangent

    def block(places: slice | np.ndarray, behind: Expectations) -> tuple[np.ndarray, ...]:
        weights, R = rows.weights[places], behind.responsibilities
        roots = np.sqrt(weights)
        S = np.empty((len(weights), m, width))
        squares, curvatures = np.empty((m, width, width)), np.zeros((m, width, width))
        for j in range(m):
            F, Z, C = directions.features(j, behind)
            r = weights * R[j]
            np.multiply(F, (roots * R[j])[:, None], out=S[:, j])
            squares[j] = F.T @ (F * r[:, None])
            if C is not None:
                curvatures[j] = _of_one(tangent.curvature(r, Z, C))
        flat = S.reshape(len(S), m * width)
        return roots @ flat, squares, curvatures, dsyrk(1.0, flat.T, lower=1)

    parts = rows.each(directions.parameters, block, most=BLOCK_NUMBERS // directions.size)
    sums = [sum(part, start=np.zeros(())) for part in zip(*parts, strict=True)]
    score, squares, curvatures, outer = sums
    if rows.complete:
        n, firsts = directions.n, squares[:, 0]
        curvatures = np.array(
            [_of_one(tangent.complete_curvature(f[0], f[1 : n + 1], f[n + 1 :])) for f in firsts]
        )
    outer = np.tril(outer) + np.tril(outer, -1).T
    # From the numbers of each component to the directions; components may share some of these.
    to = np.concatenate(directions.own)
    total = np.zeros(directions.size)
    np.add.at(total, to, score)
    together = np.zeros((directions.size, directions.size))
    np.add.at(together, (to[:, None], to), outer)
    observed = together.copy()
    for own, of_one in zip(directions.own, curvatures - squares, strict=True):
        observed[np.ix_(own, own)] += of_one
    return total, observed, together


def _of_one(curvature: Curvature) -> np.ndarray:
    """The curvature of one component as a matrix, with a place for its weight, where it is 0."""
    means, mixed, covariances = curvature
    n, size = len(means), 1 + sum(mixed.shape)
    result = np.zeros((size, size))
    result[1 : n + 1, 1 : n + 1], result[n + 1 :, n + 1 :] = means, covariances
    result[1 : n + 1, n + 1 :], result[n + 1 :, 1 : n + 1] = mixed, mixed.T
    return result


def penalty_slope(likelihood: Likelihood, directions: Directions) -> np.ndarray:
    """First derivatives of the penalty, per row; (size,)."""
    result = np.zeros(directions.size)
    if not directions.known:
        m, n = directions.m, directions.n
        coordinates = likelihood.kind.coordinates(m, n)
        numbers = coordinates.encode(directions.parameters.covariances)
        slope = _penalty_slopes(likelihood, numbers[None], m, n)[0]
        result[-len(slope) :] = directions.here[-len(slope) :, -len(slope) :].T @ slope
    return result


def penalty_curvature(likelihood: Likelihood, directions: Directions) -> np.ndarray:
    """Second derivatives of the penalty, per row, by differences of gradients; (size, size)."""
    result = np.zeros((directions.size, directions.size))
    if directions.known or (likelihood.prior is None and likelihood.anchor is None):
        return result
    m, n, kind = directions.m, directions.n, likelihood.kind
    coordinates = kind.coordinates(m, n)
    size = coordinates.size
    steps = STEP * directions.here[-size:, -size:].T
    at = coordinates.encode(directions.parameters.covariances)
    moved = np.concatenate([at + steps, at - steps])
    slopes = [
        _penalty_slopes(likelihood, moved[start : start + TOGETHER], m, n)
        for start in range(0, len(moved), TOGETHER)
    ]
    ahead, behind = np.split(np.concatenate(slopes), 2)
    H = steps @ (ahead - behind).T / (2 * STEP**2)
    result[-size:, -size:] = (H + H.T) / 2
    return result


def _penalty_slopes(likelihood: Likelihood, numbers: np.ndarray, m: int, n: int) -> np.ndarray:
    """The gradients of the penalty at the numbers of covariances of some mixtures; (S, size)."""
    kind, S = likelihood.kind, len(numbers)
    if kind.common:  # each mixture has one covariance
        one = kind.coordinates(m, n)
        found = [one.pullback(x, likelihood.penalty_gradients(one.decode(x))) for x in numbers]
        return np.array(found)
    together = kind.coordinates(S * m, n)  # numbers stand one component after the other
    flat = numbers.reshape(-1)
    gradients = likelihood.penalty_gradients(together.decode(flat), S)
    return together.pullback(flat, gradients).reshape(S, -1)


def influence(likelihood: RowLikelihood, parameters: Parameters) -> np.ndarray:
    """The influence ψ_i of each row: θ̂ - θ ≈ Σ_i w_i ψ_i for weights w of sum 1; (p, …).

    Over the rows of the fit they sum to zero, because the mean score, which the prior balances, is
    subtracted. θ are weights, means and numbers of covariances as in ``Parametrisation`` with free
    weights, in the coordinates of the likelihood.
    """
    found = information(likelihood, parameters)
    directions, basis = found.directions, found.directions.basis
    inverse = np.linalg.inv(basis.T @ found.curvature @ basis)
    to_natural = directions.here @ basis @ inverse @ basis.T
    return (row_scores(likelihood, directions) - found.score) @ to_natural.T
