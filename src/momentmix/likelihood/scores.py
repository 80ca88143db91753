"""Scores: derivatives of the log-likelihood of each row in all parameters of a mixture.

By Fisher's identity the score of a row is the expectation of the score that it would have if its
component were known, Σ_j r_ij ∂ log λ_j N(x_i; μ_j, Σ_j). The derivatives are in the coordinates of
covariance/tangent.py, in which every component is the standard Gaussian, and the weights are
λ ∝ exp η, where a background has η = 0:

    ∂/∂η_j = r_j - λ_j,   ∂/∂a_j = r_j z_j,   ∂/∂s_j = r_j ½ tr E(z_j z_jᵀ - I).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from momentmix.covariance import Kind, Zero
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import Expectations, RowLikelihood


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
    def of(cls, likelihood: Likelihood, parameters: Parameters) -> Directions:
        """The directions in which a likelihood is free to move."""
        return cls(likelihood.kind, parameters, known=likelihood.variance is not None)

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
    likelihood: RowLikelihood,
    directions: Directions,
    change: Callable[[Expectations], Expectations] = lambda behind: behind,
) -> np.ndarray:
    """The score of each row; (p, size). ``change`` can replace the expectations of each block."""
    result = np.empty((len(likelihood.X), directions.size))

    def block(rows: slice | np.ndarray, behind: Expectations) -> None:
        result[rows] = directions.scores(change(behind))

    likelihood.each(directions.parameters, block)
    return result
