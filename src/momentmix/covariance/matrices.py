"""Full covariances: a matrix for each component.

``Matrices`` is what all types with correlations share: packing, definiteness, factors. ``Full``
has one matrix for each component, ``Tied``, in tied.py, one for all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dtrtri

from momentmix.covariance.base import NEAR_FLOOR, Bound, Covariance, optimism_of, refuse_degenerate
from momentmix.covariance.coordinates import MatrixCoordinates, MatrixTangent, eigen
from momentmix.covariance.prior import Anchor, LogNormalPrior, PullOfMatrices, anchor_rows
from momentmix.support.array import (
    Array,
    array_device,
    can_be_written,
    index_array,
    multiply_into,
    namespace,
    read_only,
)


def symmetrise(array: Array, name: str) -> Array:
    """Matrices (…, n, n) without the rounding errors by which they differ from their transpose."""
    xp = namespace(array)
    size = float(xp.max(xp.abs(array)))
    skew = float(xp.max(xp.abs(array - array.mT)))
    if skew > 1e4 * xp.finfo(array.dtype).eps * size:
        raise ValueError(
            f"{name} must be symmetric, but differ from their transpose by {skew:g}; "
            "symmetrise them with (S + S.T) / 2 if that is what they mean"
        )
    return (array + array.mT) / 2


class Matrices(Covariance):
    """Any symmetric Σ; the array is (g, n, n) or (n, n). Its features are x_a x_b, a ≤ b."""

    diagonal: ClassVar[bool] = False

    def variances(self) -> Array:
        raise TypeError("these covariances are not diagonal")

    def times(self, A: Array) -> Array:
        return A @ self.matrices()[0, :, :]

    def flat(self) -> Array:
        xp = namespace(self.array)
        upper, _, times = packing(self.n_features)
        square = xp.reshape(self.matrices(), (-1, self.n_features**2))
        packed = xp.take(square, index_array(upper, square), axis=1)
        return packed * xp.astype(index_array(times, square), packed.dtype)

    def features_vjp(self, X: Array, W: Array) -> Array:
        # W multiplies each product x_a x_b once, so the matrix with W off the diagonal is halved
        # there: Σ_{a≤b} W_ab x_a x_b = xᵀ (half of W mirrored, W on the diagonal) x.
        xp, n = namespace(X), self.n_features
        _, mirror, times = packing(n)
        halved = W / xp.astype(index_array(times, X), X.dtype)
        M = xp.reshape(xp.take(halved, index_array(mirror, X), axis=1), (-1, n, n))
        return 2 * xp.matmul(M, X[:, :, None])[:, :, 0]

    def collect_flat(self, G: Array) -> Array:
        mirror = index_array(packing(self.n_features)[1], G)
        return self._own_shape(namespace(G).take(G, mirror, axis=1), self.n_features)

    def collect_variances(self, weights: Array, G: Array) -> Array:
        raise TypeError("these covariances are not diagonal")

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return self._own_shape(self._pool(weights, G), self.n_features)

    def root(self) -> Array:
        xp = namespace(self.array)
        # Eigenvalues, not Cholesky, so that a semidefinite covariance can be sampled too.
        values, vectors = xp.linalg.eigh(self.matrices())
        values = xp.where(values > 0, values, xp.zeros_like(values))
        return vectors * xp.sqrt(values)[:, None, :]

    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        return Z @ factors[0 if self.common else i, :, :].mT

    def whitener(self) -> tuple[Array, Array]:
        xp = namespace(self.array)
        matrices = self.matrices()
        refuse_degenerate(_definite(matrices))
        L = xp.linalg.cholesky(matrices)
        return xp.linalg.inv(L), -self.half_log_determinants()

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        roots = xp.linalg.cholesky(self.matrices())
        return xp.sum(xp.log(xp.linalg.diagonal(roots)), axis=1)

    def is_definite(self) -> bool:
        matrices = np.asarray(self.matrices())
        deviations = np.sqrt(np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 0))
        if not np.all(deviations > 0):
            return False
        values = np.linalg.eigvalsh(matrices / (deviations[:, :, None] * deviations[:, None, :]))
        return bool(np.all(values[:, 0] > self.n_features * 1e-14))

    def marginal(self, features: Array) -> Covariance:
        xp = namespace(self.array)
        square = xp.take(xp.take(self.array, features, axis=-2), features, axis=-1)
        return self.of(square, features.shape[0])

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[Array, Covariance]:
        xp = namespace(self.array)
        S = self.matrices()
        S_g = xp.take(S, given, axis=1)
        S_gg, S_gk = xp.take(S_g, given, axis=2), xp.take(S_g, kept, axis=2)
        solved = xp.linalg.solve(S_gg, S_gk)
        S_kk = xp.take(xp.take(S, kept, axis=1), kept, axis=2)
        left = S_kk - xp.matmul(S_gk.mT, solved)
        left = (left + left.mT) / 2
        shift = xp.matmul(deltas[:, None, :], solved)[:, 0, :]
        return shift, self.of(self._own_shape(left, kept.shape[0]), kept.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return self.of(basis.T @ np.asarray(self.array) @ basis, basis.shape[1])

    def without(self, noise: Covariance) -> Covariance:
        return self.of(np.asarray(self.array) - noise.matrices()[0], self.n_features)

    @staticmethod
    def width(n: int) -> int:
        return n * (n + 1) // 2

    @staticmethod
    def features(X: Array) -> Array:
        xp, (p, n) = namespace(X), X.shape
        # Contiguous columns make the products below run along memory.
        rows = xp.stack([X[:, a] for a in range(n)])
        if not can_be_written(X):
            return xp.concat([rows[a : a + 1, :] * rows[a:, :] for a in range(n)]).mT
        products, at = xp.empty((n * (n + 1) // 2, p), dtype=X.dtype, device=array_device(X)), 0
        for a in range(n):
            multiply_into(products[at : at + n - a, :], rows[a, :], rows[a:, :])
            at += n - a
        return products.mT

    @staticmethod
    def features_of_seconds(seconds: np.ndarray) -> np.ndarray:
        m, n, _ = seconds.shape
        return np.asarray(seconds.reshape(m, n * n)[:, packing(n)[0]])

    @staticmethod
    def check(array: Array, name: str) -> Array:
        array = symmetrise(array, name)
        xp = namespace(array)
        eps = xp.finfo(array.dtype).eps
        values = xp.linalg.eigvalsh(array)
        lowest, highest = xp.min(values, axis=-1), xp.max(xp.abs(values), axis=-1)
        tolerance = 100 * array.shape[-1] * eps * highest
        if bool(xp.any(lowest < -tolerance)):
            raise ValueError(
                f"{name} must be positive semidefinite, but an eigenvalue is "
                f"{float(xp.min(lowest)):g}"
            )
        return array

    @staticmethod
    def log_density_coefficients(
        means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = means.shape[1]
        precision = np.linalg.inv(array)
        linear = (means[:, None, :] @ precision)[:, 0, :]
        logs = -np.linalg.slogdet(array)[1]
        constant = 0.5 * (logs - np.sum(means * linear, axis=1) - n * np.log(2 * np.pi))
        upper, _, times = packing(n)
        return constant, linear, precision.reshape(-1, n * n)[:, upper] * (-0.5 * times)

    @classmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factors = cls.precision_cholesky(array)[1]
        roots = np.diagonal(factors, axis1=-2, axis2=-1)
        Y = D @ factors
        logs = np.broadcast_to(np.log(roots), (len(D), D.shape[2])).sum(axis=1)
        return np.einsum("jpi,jpi->jp", Y, Y), -logs

    @staticmethod
    def precision_cholesky(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factors = np.linalg.cholesky(array).swapaxes(-1, -2)
        for matrix in factors.reshape(-1, *array.shape[-2:]) if array.ndim > 2 else [factors]:
            matrix[:] = dtrtri(matrix)[0]
        return factors @ factors.swapaxes(-1, -2), factors

    @staticmethod
    def customary_strength(n: int) -> float:
        return 3.0 * n - 1.0

    @staticmethod
    def anchor(n: int, share: float, whole: float) -> Anchor | None:
        return Anchor(anchor_rows(n, share, whole)) if share > 0 else None

    @staticmethod
    def transform(array: np.ndarray, A: Bound) -> np.ndarray:
        A = np.asarray(A)
        mapped = A @ array @ A.T
        return np.asarray((mapped + mapped.swapaxes(-1, -2)) / 2)

    @staticmethod
    def bound(least: float, variances: np.ndarray, inverse: Bound, n: int) -> Bound:
        inverse = np.asarray(inverse)
        return least * np.eye(n) + (inverse.T * variances) @ inverse

    @staticmethod
    def raise_to(array: np.ndarray, floor: Bound) -> np.ndarray:
        floor = _matrix(floor, array.shape[-1])
        try:
            np.linalg.cholesky(array - floor)
            return array
        except np.linalg.LinAlgError:
            root = np.linalg.cholesky(floor)
            values, vectors = eigen(_relative(array, root))
            side = root @ vectors
            raised = (side * np.maximum(values, 1.0)[..., None, :]) @ side.swapaxes(-1, -2)
            return np.asarray((raised + raised.swapaxes(-1, -2)) / 2)

    @staticmethod
    def on_floor(array: np.ndarray, floor: Bound) -> np.ndarray:
        n = array.shape[-1]
        relative = _relative(array.reshape(-1, n, n), np.linalg.cholesky(_matrix(floor, n)))
        return np.asarray(np.linalg.eigvalsh(relative)[:, 0] <= NEAR_FLOOR, dtype=bool)

    @staticmethod
    def smallest_variance(array: np.ndarray) -> float:
        return float(np.min(np.linalg.eigvalsh(array), initial=np.inf))

    @classmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> MatrixCoordinates:
        return MatrixCoordinates(cls.shape(m, n), floor)

    @staticmethod
    def tangent(n: int) -> MatrixTangent:
        return MatrixTangent(n)


@lru_cache(maxsize=32)
def packing(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Index tables between an n×n matrix and the products x_a x_b, a ≤ b, in row order.

    They are the flat position of each product in the matrix, the product at each position of the
    matrix, and how many positions hold each product (1 or 2).
    """
    a, b = np.triu_indices(n)
    upper = a * n + b
    mirror = np.empty((n, n), dtype=np.int64)
    mirror[a, b] = mirror[b, a] = np.arange(len(upper))
    times = 2 - (a == b).astype(np.int64)
    return read_only(upper), read_only(mirror.reshape(-1)), read_only(times)


def _definite(matrices: Array) -> Array:
    """Which of the matrices are safely invertible, whatever the units of the features."""
    xp = namespace(matrices)
    diagonals = xp.linalg.diagonal(matrices)
    scale = xp.sqrt(xp.where(diagonals > 0, diagonals, xp.ones_like(diagonals)))
    correlation = matrices / (scale[:, :, None] * scale[:, None, :])
    lowest = xp.min(xp.linalg.eigvalsh(correlation), axis=-1)
    return lowest > matrices.shape[-1] * xp.finfo(matrices.dtype).eps


def _matrix(floor: Bound, n: int) -> np.ndarray:
    """A floor as a matrix, also if it is a number."""
    return np.asarray(floor * np.eye(n) if np.ndim(floor) == 0 else floor)


def _relative(array: np.ndarray, root: np.ndarray) -> np.ndarray:
    """R⁻¹ΣR⁻ᵀ, symmetric, for a root R of a floor."""
    relative = np.linalg.solve(root, np.linalg.solve(root, array).swapaxes(-1, -2))
    return np.asarray((relative + relative.swapaxes(-1, -2)) / 2)


class Full(Matrices):
    """Any symmetric Σ_i; array (g, n, n)."""

    name = "full"

    def matrices(self) -> Array:
        return self.stacked

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
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        return LogNormalPrior(PullOfMatrices, rows)

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.tile(matrix, (m, 1, 1))

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.moveaxis(weights[:, None, None, None] * G, 0, 1)
