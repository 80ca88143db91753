"""Diagonal and spherical covariances: variances, and no correlations.

``Variances`` is what they share: their arrays hold variances, and all formulas are entrywise.
``Diagonal`` has a variance for each feature of each component, ``Spherical`` one for each
component, and ``Zero``, in zero.py, none. Those that all components share are in tied.py.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from momentmix.covariance.base import NEAR_FLOOR, Bound, Covariance, optimism_of, refuse_degenerate
from momentmix.covariance.coordinates import VarianceCoordinates, VarianceTangent
from momentmix.covariance.matrices import Full
from momentmix.covariance.prior import LogNormalPrior, PullOfVariances
from momentmix.support.array import Array, array_device, namespace


class Variances(Covariance):
    """Σ_i is the diagonal matrix of variances; the array is (g,) or (g, n), or one row of it."""

    diagonal: ClassVar[bool] = True
    thin = True

    def matrices(self) -> Array:
        xp = namespace(self.array)
        like = {"dtype": self.array.dtype, "device": array_device(self.array)}
        return self.variances()[:, None, :] * xp.eye(self.n_features, **like)

    def times(self, A: Array) -> Array:
        return A * self.variances()[0, :]

    def features_vjp(self, X: Array, W: Array) -> Array:
        return 2 * X * W

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return self.collect_variances(weights, namespace(G).linalg.diagonal(G))

    def root(self) -> Array:
        return namespace(self.array).sqrt(self.stacked)

    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        return Z * factors[0 if self.common else i, ...]

    def whitener(self) -> tuple[Array, Array]:
        xp, stacked = namespace(self.array), self.stacked
        refuse_degenerate(xp.all(xp.reshape(stacked > 0, (stacked.shape[0], -1)), axis=1))
        return 1 / xp.sqrt(stacked), -self.half_log_determinants()

    def is_definite(self) -> bool:
        return bool(namespace(self.array).min(self.array) > 0)

    def condition(
        self, kept: Array, given: Array, deltas: Array
    ) -> tuple[Array | float, Covariance]:
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

    @classmethod
    def _rows(cls, array: np.ndarray) -> np.ndarray:
        """What belongs to each covariance, one row each; (g, 1) or (g, n)."""
        return array.reshape(1 if cls.common else len(array), -1)

    @classmethod
    def log_density_coefficients(
        cls, means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        precision = cls._rows(1 / array)
        linear = means * precision
        logs = np.broadcast_to(np.log(precision), means.shape).sum(axis=1)
        size = means.shape[1] * np.log(2 * np.pi)
        return 0.5 * (logs - np.sum(means * linear, axis=1) - size), linear, -0.5 * precision

    @classmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        roots = cls._rows(cls.precision_cholesky(array)[1])
        Y = D * roots[:, None, :]
        logs = np.broadcast_to(np.log(roots), (len(D), D.shape[2])).sum(axis=1)
        return np.einsum("jpi,jpi->jp", Y, Y), -logs

    @staticmethod
    def precision_cholesky(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if np.min(array) <= 0:
            raise np.linalg.LinAlgError("a variance is zero")
        return np.asarray(1 / array), np.asarray(1 / np.sqrt(array))

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

    @classmethod
    def on_floor(cls, array: np.ndarray, floor: Bound) -> np.ndarray:
        low = np.asarray(array <= NEAR_FLOOR * np.asarray(floor))
        return np.asarray(np.any(cls._rows(low), axis=1))

    @staticmethod
    def smallest_variance(array: np.ndarray) -> float:
        return float(np.min(array, initial=np.inf))

    @classmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> VarianceCoordinates:
        return VarianceCoordinates(cls.shape(m, n), floor, by_feature=cls.by_feature)


class Diagonal(Variances):
    """Σ_i = diag(s_i); array (g, n). Its features are the squares x ∗ x."""

    name = "diag"
    by_feature = True

    def variances(self) -> Array:
        return self.stacked

    def flat(self) -> Array:
        return self.stacked

    def collect_flat(self, G: Array) -> Array:
        return self._own_shape(G, self.n_features)

    def collect_variances(self, weights: Array, G: Array) -> Array:
        return self._own_shape(self._pool(weights, G), self.n_features)

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        return 0.5 * xp.sum(xp.log(self.stacked), axis=1)

    def marginal(self, features: Array) -> Covariance:
        kept = namespace(self.array).take(self.array, features, axis=-1)
        return self.of(kept, features.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return Full(self.matrices(), self.n_features).project(basis)

    def without(self, noise: Covariance) -> Covariance:
        if noise.diagonal:
            variances = np.asarray(self.stacked) - noise.variances()
            return Diagonal(variances, self.n_features)
        return Full(self.matrices(), self.n_features).without(noise)

    @staticmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        return (m, n)

    @staticmethod
    def width(n: int) -> int:
        return n

    @staticmethod
    def features(X: Array) -> Array:
        return X * X

    @staticmethod
    def features_of_seconds(seconds: np.ndarray) -> np.ndarray:
        return seconds if seconds.ndim == 2 else np.diagonal(seconds, axis1=1, axis2=2)

    @staticmethod
    def free_parameters(m: int, n: int) -> int:
        return m * n

    @staticmethod
    def estimate(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(seconds - means * means, 0))

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The sum over features of the optimism of a full covariance of one feature."""
        return optimism_of(2 * n, counts, 3)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        return LogNormalPrior(PullOfVariances, rows)

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.tile(matrix if matrix.ndim == 1 else np.diag(matrix), (m, 1))

    @staticmethod
    def bound(least: float, variances: np.ndarray, inverse: Bound, n: int) -> Bound:
        return least + variances * inverse**2

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.diagonal(Full.gradient_of_matrices(weights, G), axis1=2, axis2=3)

    @classmethod
    def tangent(cls, n: int) -> VarianceTangent:
        return VarianceTangent(np.eye(n), common=cls.common)


class Spherical(Variances):
    """Σ_i = s_i I; array (g,). Its only feature is ‖x‖²."""

    name = "spherical"
    one_unit = True

    def variances(self) -> Array:
        flat = self.flat()
        return namespace(flat).broadcast_to(flat, (flat.shape[0], self.n_features))

    def flat(self) -> Array:
        return self.stacked[:, None]

    def collect_flat(self, G: Array) -> Array:
        return self._own_shape(G[:, 0], self.n_features)

    def collect_variances(self, weights: Array, G: Array) -> Array:
        sums = namespace(G).sum(self._pool(weights, G), axis=1)
        return self._own_shape(sums, self.n_features)

    def half_log_determinants(self) -> Array:
        return 0.5 * self.n_features * namespace(self.array).log(self.stacked)

    def marginal(self, features: Array) -> Covariance:
        return self.of(self.array, features.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return self.of(self.array, basis.shape[1])

    def without(self, noise: Covariance) -> Covariance:
        return Diagonal(self.variances(), self.n_features).without(noise)

    @staticmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        return (m,)

    @staticmethod
    def width(n: int) -> int:
        return 1

    @staticmethod
    def features(X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)[:, None]

    @staticmethod
    def features_of_seconds(seconds: np.ndarray) -> np.ndarray:
        return np.asarray(Diagonal.features_of_seconds(seconds).sum(axis=1, keepdims=True))

    @staticmethod
    def free_parameters(m: int, n: int) -> int:
        return m

    @staticmethod
    def estimate(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        squares = seconds[:, 0] - np.sum(means * means, axis=1)
        return np.asarray(np.maximum(squares, 0) / means.shape[1])

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The optimism of n means and one variance, which uses n values of each sample."""
        return optimism_of(n + 1, n * counts, n + 2)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        return LogNormalPrior(PullOfVariances, rows, times=n)

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.full(m, np.mean(Diagonal.repeat(1, matrix)))

    @staticmethod
    def bound(least: float, variances: np.ndarray, inverse: Bound, n: int) -> Bound:
        return least + float(np.mean(variances)) * inverse**2

    @staticmethod
    def pool_coupling(coupling: np.ndarray, n: int) -> np.ndarray:
        return coupling * n  # each variance occurs in n entries

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.asarray(Diagonal.gradient_of_matrices(weights, G).sum(axis=2))

    @classmethod
    def tangent(cls, n: int) -> VarianceTangent:
        return VarianceTangent(np.ones((n, 1)), common=cls.common)
