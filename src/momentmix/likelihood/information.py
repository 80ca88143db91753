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
from scipy.linalg import block_diag

from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import Behind, RowLikelihood
from momentmix.likelihood.scores import Directions, row_scores

#: The change in which second derivatives of the penalty are taken, relative to each covariance.
STEP = 1e-4
#: Mixtures of which the penalty is taken at once.
TOGETHER = 256


class Information(NamedTuple):
    """What a row tells on average, in the directions of a mixture."""

    directions: Directions
    score: np.ndarray  # (size,), zero at a maximum of the likelihood
    observed: np.ndarray  # (size, size)
    outer: np.ndarray  # (size, size)
    penalty: np.ndarray  # second derivatives of the prior's; (size, size)

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
    return Information(directions, score - weights, observed, outer, penalty)


def information_sums(
    rows: RowLikelihood, directions: Directions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of scores, of what makes the observed information, and of squares of scores.

    In η all are of responsibilities alone: as they differ by constants, covariances do not.
    """

    def block(
        places: slice | np.ndarray, behind: Behind
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weights, R = rows.weights[places], behind.responsibilities
        S = np.zeros((len(weights), directions.size))
        H = np.zeros((directions.size, directions.size))
        for j, own in enumerate(directions.own):
            F, Z, C = directions.features(j, behind)
            S[:, own] += R[j][:, None] * F
            r = weights * R[j]
            means, mixed, covariances = directions.tangent.curvature(r, Z, C)
            here = block_diag(0.0, np.block([[means, mixed], [mixed.T, covariances]]))
            H[np.ix_(own, own)] += here - F.T @ (F * r[:, None])
        outer = S.T @ (S * weights[:, None])
        return weights @ S, H + outer, outer

    parts = rows.each(directions.parameters, block)
    score, observed, outer = (sum(part, start=np.zeros(())) for part in zip(*parts, strict=True))
    return score, observed, outer


def penalty_curvature(likelihood: Likelihood, directions: Directions) -> np.ndarray:
    """Second derivatives of the penalty, a row, by differences of its gradient; (size, size)."""
    result = np.zeros((directions.size, directions.size))
    if directions.known or (likelihood.prior is None and likelihood.anchor is None):
        return result
    m, n, covariances = directions.m, directions.n, directions.parameters.covariances
    coordinates = likelihood.kind.coordinates(m, n)
    at = coordinates.encode(covariances)
    steps = STEP * directions.natural()[-coordinates.size :, -coordinates.size :]
    moved = np.concatenate([at + steps.T, at - steps.T])
    gradients = []
    for start in range(0, len(moved), TOGETHER):
        some = [coordinates.decode(x) for x in moved[start : start + TOGETHER]]
        if directions.common:  # one covariance a mixture, not a component
            found = [likelihood.penalty_gradients(one) for one in some]
        else:
            found = np.split(
                likelihood.penalty_gradients(np.concatenate(some), len(some)), len(some)
            )
        gradients += [coordinates.pullback(at, gradient) for gradient in found]
    ahead, behind = np.split(np.array(gradients), 2)
    H = steps.T @ (ahead - behind).T / (2 * STEP**2)
    result[-coordinates.size :, -coordinates.size :] = (H + H.T) / 2
    return result


def influence(likelihood: RowLikelihood, parameters: Parameters) -> np.ndarray:
    """How far each row moves the fit: θ̂ - θ ≈ Σ_i w_i ψ_i, for weights w of sum 1; (p, …).

    Of the rows of the fit itself they sum to zero: what the prior holds against them is taken off.
    θ are weights, means and numbers of covariances as ``Parametrisation`` with free weights has
    them, in the coordinates of the likelihood.
    """
    found = information(likelihood, parameters)
    directions, basis = found.directions, found.directions.basis
    inverse = np.linalg.inv(basis.T @ found.curvature @ basis)
    to_natural = directions.natural() @ basis @ inverse @ basis.T
    return (row_scores(likelihood, directions) - found.score) @ to_natural.T
