"""Scores of rows, and the information that they hold about the parameters.

By Fisher's identity the score of a row is the expectation of the score that it would have if its
component were known, Σ_j r_ij ∂ log λ_j N(x_i; μ_j, Σ_j). The derivatives are in the coordinates of
``Tangent`` (covariance/coordinates.py), in which every component is the standard Gaussian, and the
weights are λ ∝ exp η, where a background has η = 0:

    ∂/∂η_j = r_j - λ_j,   ∂/∂a_j = r_j z_j,   ∂/∂s_j = r_j ½ tr E(z_j z_jᵀ - I).

By Louis' formula, the observed information is that of rows whose components are known, less what is
lost because they are not known: the covariance of the scores that the components would give.

    observed = Σ_i E[-∂² log λ_j N(x_i)] - Cov[∂ log λ_j N(x_i)],   outer = Σ_i s_i s_iᵀ,

where expectation and covariance are over the components j of row i, and s_i is its score. Both are
computed in one pass over blocks of rows, and are means over rows here. The prior adds its own
second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix.covariance import Kind, Zero
from momentmix.covariance.coordinates import Curvature
from momentmix.fit import Parameters, outlier_share
from momentmix.fitting.em import Likelihood, Target
from momentmix.rows.memory import Box, Expectations, MemoryRows, Rows


class Directions:
    """The directions (η, a, s) in which a mixture can change, a vector of ``size`` numbers.

    With ``known`` covariances there is no s. ``own[j]`` has the places of η_j, a_j and s_j. If all
    components share a covariance, they share one s.
    """

    def __init__(self, kind: Kind, parameters: Parameters, known: bool = False) -> None:
        self.kind, self.parameters, self.known = kind, parameters, known
        self.m, self.n = parameters.means.shape
        m, n = self.m, self.n
        self.tangent = (Zero if known else kind).tangent(n)
        self.roots = self.tangent.roots(parameters.covariances, m)
        q, self.common = self.tangent.size, kind.common
        self.size = m + m * n + q * (1 if self.common else m)
        self.own = [
            np.concatenate(
                [
                    [j],
                    m + n * j + np.arange(n),
                    m + m * n + (0 if self.common else q * j) + np.arange(q),
                ]
            )
            for j in range(m)
        ]

    @classmethod
    def of(cls, target: Target, parameters: Parameters) -> Directions:
        """The directions in which a fit is free to move."""
        return cls(target.kind, parameters, known=target.variance is not None)

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal directions, except the one that changes all η alike; (size, P).

        That one changes nothing, unless there is a background, whose share it changes.
        """
        if outlier_share(self.parameters.weights):
            return np.eye(self.size)
        # A reflection that takes the first axis to the diagonal: its other columns sum to zero.
        v = np.full(self.m, 1 / np.sqrt(self.m))
        v[0] += 1
        reflected = np.eye(self.m) - 2 * np.outer(v, v) / (v @ v)
        return block_diagonal([reflected[:, 1:], np.eye(self.size - self.m)])

    def places_after(self, order: np.ndarray) -> np.ndarray:
        """For components in another order, the place here of each of their numbers; (size,)."""
        own, n = [self.own[j] for j in order], self.n
        spreads = self.own[:1] if self.common else own
        return np.concatenate(
            [
                [places[0] for places in own],
                *(places[1 : n + 1] for places in own),
                *(places[n + 1 :] for places in spreads),
            ]
        ).astype(np.intp)

    def features(
        self, j: int, behind: Expectations
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scores (1, z, ½ tr E(zzᵀ - I)) of rows that belong to component j; z; and Cov z."""
        root, C = self.roots[j], None
        Z = self.tangent.whiten(root, behind.deviations[j])
        if behind.covariances is not None:
            C = self.tangent.whiten_both_sides(root, behind.covariances[j])
        return np.hstack([np.ones((len(Z), 1)), Z, self.tangent.features(Z, C)]), Z, C

    def scores(self, behind: Expectations) -> np.ndarray:
        """The scores of some rows; (B, size)."""
        R = behind.responsibilities
        result = np.zeros((R.shape[1], self.size))
        for j in range(self.m):
            result[:, self.own[j]] += R[j][:, None] * self.features(j, behind)[0]
        result[:, : self.m] -= self.parameters.weights
        return result

    def natural(self, factor: float | np.ndarray = 1.0) -> np.ndarray:
        """The map from (η, a, s) to weights, means and numbers of covariances; (…, size).

        Weights are shares of the rows that belong to a component. The rest is as in
        ``Parametrisation`` with free weights, in coordinates in which points are ``factor`` times
        those here (a number, a vector or a matrix), and shifted.
        """
        weights = self.parameters.weights / self.parameters.weights.sum()
        in_weights = np.diag(weights) - np.outer(weights, weights)
        A = np.asarray(factor, dtype=float)
        A = A if A.ndim == 2 else np.diag(np.broadcast_to(A, self.n))
        in_means = [A @ (root if root.ndim == 2 else np.diag(root)) for root in self.roots]
        in_covariances: list[np.ndarray] = []
        if self.tangent.size:
            mapped = [
                root * np.diag(A) if root.ndim == 1 else A @ root
                for root in (self.roots[:1] if self.common else self.roots)
            ]
            in_covariances = [self.tangent.numbers(root) for root in mapped]
        return block_diagonal([in_weights, *in_means, *in_covariances])

    @cached_property
    def here(self) -> np.ndarray:
        """``natural`` in the coordinates of the fit."""
        return self.natural()


def block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Matrices one after the other on the diagonal; SciPy's function does more and is slower."""
    heights, widths = zip(*(block.shape for block in blocks), strict=True)
    result, row, column = np.zeros((sum(heights), sum(widths))), 0, 0
    for block in blocks:
        height, width = block.shape
        result[row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return result


def row_scores(
    rows: MemoryRows,
    directions: Directions,
    change: Callable[[Expectations], Expectations] = lambda behind: behind,
    box: Box | None = None,
) -> np.ndarray:
    """The score of each row; (p, size). ``change`` can replace the expectations of each block."""
    result = np.empty((len(rows.X), directions.size))

    def block(places: slice | np.ndarray, behind: Expectations) -> None:
        result[places] = directions.scores(change(behind))

    rows.each(directions.parameters, block, box=box)
    return result


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


def information(likelihood: Likelihood[Rows], parameters: Parameters) -> Information:
    """The information of all rows of a likelihood, at some parameters; one pass."""
    directions = Directions.of(likelihood.target, parameters)
    score, observed, outer = likelihood.rows.total(
        information_sums, directions, likelihood.target.box
    )
    m, weights = directions.m, np.zeros(directions.size)
    weights[:m] = parameters.weights
    # Scores in η are responsibilities less weights, and only responsibilities were summed.
    outer = outer - np.outer(weights, score) - np.outer(score - weights, weights)
    observed[:m, :m] += np.diag(weights[:m]) - np.outer(weights[:m], weights[:m])
    penalty = penalty_curvature(likelihood, directions)
    pull = penalty_slope(likelihood, directions)
    return Information(directions, score - weights, observed, outer, penalty, pull)


def information_sums(
    rows: MemoryRows, directions: Directions, box: Box | None
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

    parts = rows.each(directions.parameters, block, most=BLOCK_NUMBERS // directions.size, box=box)
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


def penalty_slope(likelihood: Likelihood[Rows], directions: Directions) -> np.ndarray:
    """First derivatives of the penalty, per row; (size,)."""
    result = np.zeros(directions.size)
    if not directions.known:
        m, n = directions.m, directions.n
        coordinates = likelihood.target.kind.coordinates(m, n)
        numbers = coordinates.encode(directions.parameters.covariances)
        slope = _penalty_slopes(likelihood, numbers[None], m, n)[0]
        result[-len(slope) :] = directions.here[-len(slope) :, -len(slope) :].T @ slope
    return result


def penalty_curvature(likelihood: Likelihood[Rows], directions: Directions) -> np.ndarray:
    """Second derivatives of the penalty, per row, by differences of gradients; (size, size)."""
    result = np.zeros((directions.size, directions.size))
    target = likelihood.target
    if directions.known or (target.prior is None and target.anchor is None):
        return result
    m, n, kind = directions.m, directions.n, target.kind
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


def _penalty_slopes(
    likelihood: Likelihood[Rows], numbers: np.ndarray, m: int, n: int
) -> np.ndarray:
    """The gradients of the penalty at the numbers of covariances of some mixtures; (S, size)."""
    target, S = likelihood.target, len(numbers)
    kind = target.kind
    if kind.common:  # each mixture has one covariance
        one = kind.coordinates(m, n)
        found = [one.pullback(x, target.penalty_gradients(one.decode(x))) for x in numbers]
        return np.array(found) / likelihood.rows.count
    together = kind.coordinates(S * m, n)  # numbers stand one component after the other
    flat = numbers.reshape(-1)
    gradients = target.penalty_gradients(together.decode(flat), S)
    return together.pullback(flat, gradients).reshape(S, -1) / likelihood.rows.count
