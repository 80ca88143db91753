"""What diagonal types share: their arrays hold variances, and all formulas are entrywise.

``Spherical`` has one variance for each component, ``Diagonal`` one for each feature of each, and
``Zero`` none.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from momentmix.covariance.base import NEAR_FLOOR, Bound, Covariance, refuse_degenerate
from momentmix.covariance.coordinates import VarianceCoordinates
from momentmix.support.array import Array, array_device, namespace


class Variances(Covariance):
    """Σ_i is the diagonal matrix of variances; the array is (g,) or (g, n)."""

    diagonal: ClassVar[bool] = True

    def matrices(self) -> Array:
        xp = namespace(self.array)
        like = {"dtype": self.array.dtype, "device": array_device(self.array)}
        return self.variances()[:, None, :] * xp.eye(self.n_features, **like)

    def features_vjp(self, X: Array, W: Array) -> Array:
        return 2 * X * W

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return self.collect_variances(weights, namespace(G).linalg.diagonal(G))

    def root(self) -> Array:
        return namespace(self.array).sqrt(self.array)

    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        return Z * factors[i, ...]

    def whitener(self) -> tuple[Array, Array]:
        xp = namespace(self.array)
        refuse_degenerate(xp.all(xp.reshape(self.array > 0, (self.array.shape[0], -1)), axis=1))
        return 1 / xp.sqrt(self.array), -self.half_log_determinants()

    def is_definite(self) -> bool:
        return bool(namespace(self.array).min(self.array) > 0)

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[float, Covariance]:
        return 0.0, self.marginal(kept)  # features are independent

    @staticmethod
    def check(array: Array, name: str) -> Array:
        xp = namespace(array)
        if bool(xp.any(array < 0)):
            raise ValueError(
                f"{name} must not be negative, but the smallest variance is "
                f"{float(xp.min(array)):g}; give variances, not precisions or logarithms"
            )
        return array

    @staticmethod
    def log_density_coefficients(
        means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        precision = (1 / array).reshape(len(array), -1)
        linear = means * precision
        logs = np.broadcast_to(np.log(precision), means.shape).sum(axis=1)
        size = means.shape[1] * np.log(2 * np.pi)
        return 0.5 * (logs - np.sum(means * linear, axis=1) - size), linear, -0.5 * precision

    @classmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        roots = cls.precision_cholesky(array)[1].reshape(len(D), -1)
        Y = D * roots[:, None, :]
        logs = np.broadcast_to(np.log(roots), (len(D), D.shape[2])).sum(axis=1)
        return np.einsum("jpi,jpi->jp", Y, Y), -logs

    @staticmethod
    def precision_cholesky(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if np.min(array) <= 0:
            raise np.linalg.LinAlgError("a variance is zero")
        return 1 / array, 1 / np.sqrt(array)

    @staticmethod
    def customary_strength(n: int) -> float:
        return 2.0

    @staticmethod
    def anchor(n: int, share: float, whole: float) -> None:
        return None  # every observed value tells about its variance

    @staticmethod
    def transform(array: np.ndarray, A: Bound) -> np.ndarray:
        return np.asarray(array * A**2)

    @staticmethod
    def raise_to(array: np.ndarray, floor: Bound) -> np.ndarray:
        return np.asarray(np.maximum(array, floor))

    @staticmethod
    def on_floor(array: np.ndarray, floor: Bound) -> np.ndarray:
        low = np.asarray(array <= NEAR_FLOOR * np.asarray(floor))
        return np.asarray(np.any(low.reshape(len(low), -1), axis=1))

    @staticmethod
    def smallest_variance(array: np.ndarray) -> float:
        return float(np.min(array, initial=np.inf))

    @classmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> VarianceCoordinates:
        return VarianceCoordinates(cls.shape(m, n), floor)
