"""Diagonal covariances: a variance for each feature of each component."""

from __future__ import annotations

import numpy as np

from momentmix.covariance.base import Bound, Covariance, optimism_of
from momentmix.covariance.full import Full
from momentmix.covariance.prior import LogNormalPrior, PullOfVariances
from momentmix.covariance.tangent import VarianceTangent
from momentmix.covariance.variances import Variances
from momentmix.support.array import Array, namespace


class Diagonal(Variances):
    """Σ_i = diag(s_i); array (g, n). Its features are the squares x ∗ x."""

    name = "diag"
    by_feature = True

    def variances(self) -> Array:
        return self.array

    def times(self, A: Array) -> Array:
        return A * self.array[0, :]

    def flat(self) -> Array:
        return self.array

    def collect_flat(self, G: Array) -> Array:
        return G

    def collect_variances(self, weights: Array, G: Array) -> Array:
        return self._pool(weights, G)

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        return 0.5 * xp.sum(xp.log(self.array), axis=1)

    def marginal(self, features: Array) -> Diagonal:
        xp = namespace(self.array)
        return Diagonal(xp.take(self.array, features, axis=1), features.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return Full(self.matrices(), self.n_features).project(basis)

    def without(self, noise: Covariance) -> Covariance:
        if noise.diagonal:
            variances = np.asarray(self.array) - noise.variances()
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
    def outer(difference: np.ndarray) -> np.ndarray:
        return np.asarray(difference**2)

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The sum over features of the optimism of a full covariance of one feature."""
        return optimism_of(2 * n, counts, 3)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior:
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

    @staticmethod
    def tangent(n: int) -> VarianceTangent:
        return VarianceTangent(np.eye(n))
