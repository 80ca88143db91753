"""A tied covariance: one matrix for all components."""

from __future__ import annotations

import numpy as np

from momentmix.covariance.base import Covariance
from momentmix.covariance.full import Full
from momentmix.covariance.matrices import Matrices
from momentmix.support.array import Array


class Tied(Matrices):
    """One Σ for all atoms; array (n, n). It does not change if a component is removed."""

    name = "tied"
    common = True

    @property
    def shared(self) -> bool:
        return True

    def matrices(self) -> Array:
        return self.array[None, :, :]

    @staticmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        return (n, n)

    @staticmethod
    def free_parameters(m: int, n: int) -> int:
        return n * (n + 1) // 2

    @staticmethod
    def estimate(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        matrices = Full.estimate(shares, means, seconds)
        return np.asarray(np.tensordot(shares / shares.sum(), matrices, axes=1))

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The optimism of the means alone, because the covariance rests on all samples."""
        return np.full(len(counts), float(n))

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> None:
        return None  # there is only one covariance

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.array(matrix, order="C")

    @classmethod
    def take_components(cls, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return array  # shared by all components

    @classmethod
    def replace_components(cls, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
        return array

    @classmethod
    def stack(cls, first: np.ndarray, second: np.ndarray, m: int, n: int) -> Covariance:
        arrays = [np.broadcast_to(array, (m, n, n)) for array in (first, second)]
        return Full(np.concatenate(arrays), n)

    @staticmethod
    def pool_coupling(coupling: np.ndarray, n: int) -> np.ndarray:
        return np.array([[coupling.sum()]])

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.tensordot(weights, G, axes=1)
