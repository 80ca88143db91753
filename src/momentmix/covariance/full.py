"""Full covariances: a matrix for each component."""

from __future__ import annotations

import numpy as np

from momentmix.covariance.base import optimism_of
from momentmix.covariance.matrices import Matrices, packing
from momentmix.covariance.prior import LogNormalPrior, PullOfMatrices
from momentmix.support.array import Array


class Full(Matrices):
    """Any symmetric Σ_i; array (g, n, n)."""

    name = "full"

    def matrices(self) -> Array:
        return self.array

    @staticmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        return (m, n, n)

    @staticmethod
    def free_parameters(m: int, n: int) -> int:
        return m * (n * (n + 1) // 2)

    @staticmethod
    def estimate(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        n = means.shape[1]
        matrices = seconds[:, packing(n)[1]].reshape(-1, n, n)
        return np.asarray(matrices - means[:, :, None] * means[:, None, :])

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        return optimism_of(n * (n + 3) / 2, counts, n + 2)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior:
        return LogNormalPrior(PullOfMatrices, rows)

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.tile(matrix, (m, 1, 1))

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.moveaxis(weights[:, None, None, None] * G, 0, 1)
