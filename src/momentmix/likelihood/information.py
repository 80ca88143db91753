"""How much rows tell of each parameter: the information that they hold.

Louis' formula has the observed information from that of rows whose components are known, less what
is lost because they are not: the covariance of the scores that each component would give the row.

    observed = Σ_i E[-∂² log λ_j N(x_i)] - Cov[∂ log λ_j N(x_i)],   outer = Σ_i s_i s_iᵀ,

expectation and covariance over the components j of a row i, and s_i its score. Both are made in one
pass over blocks of rows, and are means over rows here. The prior adds its own second derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix.covariance.tangent import Curvature
from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import Behind, RowLikelihood
from momentmix.likelihood.scores import Directions, row_scores

#: The change in which second derivatives of the penalty are taken, relative to each covariance.
STEP = 1e-4
#: Numbers in a block of scores.
BLOCK_NUMBERS = 1 << 18
#: Mixtures of which the penalty is taken at once.
TOGETHER = 256


class Information(NamedTuple):
    """What a row tells on average, in the directions of a mixture."""

    directions: Directions
    score: np.ndarray  # (size,), zero at a maximum of the likelihood
    observed: np.ndarray  # (size, size)
    outer: np.ndarray  # (size, size)
    penalty: np.ndarray  # second derivatives of the prior's; (size, size)
    pull: np.ndarray  # and its first ones; (size,)

    @property
    def slope(self) -> np.ndarray:
        """∂ of what a fit maximises, zero at its maximum."""
        return self.score - self.pull

    @property
    def curvature(self) -> np.ndarray:
        """-∂² of what a fit maximises."""
        return self.observed + self.penalty


def information(likelihood: Likelihood, parameters: Parameters) -> Information:
    """The information of all rows of a likelihood, at some parameters; one pass."""
    directions = Directions.of(likelihood, parameters)
    score, observed, outer = likelihood.total(information_sums, directions)
    m, weights = directions.m, np.zeros(directions.size)
    weights[:m] = parameters.weights
    # Scores in η are responsibilities less weights, and only the former were summed.
    outer = outer - np.outer(weights, score) - np.outer(score - weights, weights)
    observed[:m, :m] += np.diag(weights[:m]) - np.outer(weights[:m], weights[:m])
    penalty = penalty_curvature(likelihood, directions)
    pull = penalty_slope(likelihood, directions)
    return Information(directions, score - weights, observed, outer, penalty, pull)


def information_sums(
    rows: RowLikelihood, directions: Directions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of scores, of what makes the observed information, and of squares of scores.

    In η all are of responsibilities alone: as they differ by constants, covariances do not.
    """
    m, width, tangent = directions.m, len(directions.own[0]), directions.tangent

    def block(places: slice | np.ndarray, behind: Behind) -> tuple[np.ndarray, ...]:
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
    # From one component after the other to the directions, in which some have a place in common.
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
    """Of one component, with its weight, of which second derivatives are the same for all rows."""
    means, mixed, covariances = curvature
    n, size = len(means), 1 + sum(mixed.shape)
    result = np.zeros((size, size))
    result[1 : n + 1, 1 : n + 1], result[n + 1 :, n + 1 :] = means, covariances
    result[1 : n + 1, n + 1 :], result[n + 1 :, 1 : n + 1] = mixed, mixed.T
    return result


def penalty_slope(likelihood: Likelihood, directions: Directions) -> np.ndarray:
    """First derivatives of the penalty, a row; (size,)."""
    result = np.zeros(directions.size)
    if not directions.known:
        m, n = directions.m, directions.n
        coordinates = likelihood.kind.coordinates(m, n)
        numbers = coordinates.encode(directions.parameters.covariances)
        slope = _penalty_slopes(likelihood, numbers[None], m, n)[0]
        result[-len(slope) :] = directions.here[-len(slope) :, -len(slope) :].T @ slope
    return result


def penalty_curvature(likelihood: Likelihood, directions: Directions) -> np.ndarray:
    """Second derivatives of the penalty, a row, by differences of its gradient; (size, size)."""
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
    if kind.common:  # one covariance a mixture, not a component
        one = kind.coordinates(m, n)
        found = [one.pullback(x, likelihood.penalty_gradients(one.decode(x))) for x in numbers]
        return np.array(found)
    together = kind.coordinates(S * m, n)  # numbers stand one component after the other
    flat = numbers.reshape(-1)
    gradients = likelihood.penalty_gradients(together.decode(flat), S)
    return together.pullback(flat, gradients).reshape(S, -1)


def influence(likelihood: RowLikelihood, parameters: Parameters) -> np.ndarray:
    """How far each row moves the fit: θ̂ - θ ≈ Σ_i w_i ψ_i, for weights w of sum 1; (p, …).

    Of the rows of the fit itself they sum to zero: what the prior holds against them is taken off.
    θ are weights, means and numbers of covariances as ``Parametrisation`` with free weights has
    them, in the coordinates of the likelihood.
    """
    found = information(likelihood, parameters)
    directions, basis = found.directions, found.directions.basis
    inverse = np.linalg.inv(basis.T @ found.curvature @ basis)
    to_natural = directions.here @ basis @ inverse @ basis.T
    return (row_scores(likelihood, directions) - found.score) @ to_natural.T
