"""Scores: derivatives of the log-likelihood of each row, in all parameters of a mixture.

By Fisher's identity the score of a row is what is expected of the score that it would have if its
component were known, Σ_j r_ij ∂ log λ_j N(x_i; μ_j, Σ_j): responsibilities times derivatives of one
Gaussian. These are taken in the coordinates of covariance/tangent.py, in which every component is
the standard one, with the weights as λ ∝ exp η (a background has the share of η = 0):

    ∂/∂η_j = r_j - λ_j,   ∂/∂a_j = r_j z_j,   ∂/∂s_j = r_j ½ tr E(z_j z_jᵀ - I).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from momentmix.covariance import Kind, Zero
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import Behind, RowLikelihood


class Directions:
    """The ways in which a mixture can change: (η, a, s), a vector of ``size`` numbers.

    With ``known`` covariances there is no s. ``own[j]`` are the places of η_j, a_j and s_j; a
    covariance that all components share has one s for all of them.
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
        """Those in which a likelihood is free to move."""
        return cls(likelihood.kind, parameters, known=likelihood.variance is not None)

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal directions without the one that changes nothing, all η alike; (size, P).

        With a background all η alike make it more or less, and there is no such direction.
        """
        if outlier_share(self.parameters.weights):
            return np.eye(self.size)
        # A reflection that takes the first axis to the diagonal: its other columns sum to zero.
        v = np.full(self.m, 1 / np.sqrt(self.m))
        v[0] += 1
        reflected = np.eye(self.m) - 2 * np.outer(v, v) / (v @ v)
        return block_diagonal([reflected[:, 1:], np.eye(self.size - self.m)])

    def reordered(self, order: np.ndarray) -> np.ndarray:
        """Where the numbers stand here that components in another order would have; (size,)."""
        own, n = [self.own[j] for j in order], self.n
        spreads = self.own[:1] if self.common else own
        return np.concatenate(
            [
                [places[0] for places in own],
                *(places[1 : n + 1] for places in own),
                *(places[n + 1 :] for places in spreads),
            ]
        ).astype(np.intp)

    def features(self, j: int, behind: Behind) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The scores (1, z, ½ tr E(zzᵀ - I)) of rows if they are component j's; z; and C."""
        root, C = self.roots[j], None
        Z = self.tangent.whitened(root, behind.deviations[j])
        if behind.covariances is not None:
            C = self.tangent.whitened_twice(root, behind.covariances[j])
        return np.hstack([np.ones((len(Z), 1)), Z, self.tangent.features(Z, C)]), Z, C

    def scores(self, behind: Behind) -> np.ndarray:
        """Of some rows; (B, size)."""
        R = behind.responsibilities
        result = np.zeros((R.shape[1], self.size))
        for j in range(self.m):
            result[:, self.own[j]] += R[j][:, None] * self.features(j, behind)[0]
        result[:, : self.m] -= self.parameters.weights
        return result

    def natural(self, factor: float | np.ndarray = 1.0) -> np.ndarray:
        """From (η, a, s) to weights, means and numbers of covariances; (…, size).

        Weights are shares of the rows that belong to a component. The rest is as in
        ``Parametrisation`` with free weights, in coordinates in which points are
        ``factor`` times what they are here (a number, a vector or a matrix) and shifted.
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
    """Matrices one after the other on the diagonal; SciPy's does more, and takes its time."""
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
    change: Callable[[Behind], Behind] = lambda behind: behind,
) -> np.ndarray:
    """The score of each row; (p, size). ``change`` has what lies behind a block taken otherwise."""
    result = np.empty((len(likelihood.X), directions.size))

    def block(rows: slice | np.ndarray, behind: Behind) -> None:
        result[rows] = directions.scores(change(behind))

    likelihood.each(directions.parameters, block)
    return result
