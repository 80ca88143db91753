"""Spherical covariances: one variance for each component, the same in all directions."""

from __future__ import annotations

import numpy as np

from momentmix.covariance.base import Bound, Covariance, optimism_of
from momentmix.covariance.diagonal import Diagonal
from momentmix.covariance.prior import LogNormalPrior, PullOfVariances
from momentmix.covariance.tangent import VarianceTangent
from momentmix.covariance.variances import Variances
from momentmix.support.array import Array, namespace


class Spherical(Variances):
    """Σ_i = s_i I; array (g,). Its only feature is ‖x‖²."""

    name = "spherical"
    one_unit = True

    def variances(self) -> Array:
        xp = namespace(self.array)
        return xp.broadcast_to(self.array[:, None], (self.array.shape[0], self.n_features))

    def times(self, A: Array) -> Array:
        return A * self.array[0]

    def flat(self) -> Array:
        return self.array[:, None]

    def collect_flat(self, G: Array) -> Array:
        return G[:, 0]

    def collect_variances(self, weights: Array, G: Array) -> Array:
        return namespace(G).sum(self._pool(weights, G), axis=1)

    def half_log_determinants(self) -> Array:
        return 0.5 * self.n_features * namespace(self.array).log(self.array)

    def marginal(self, features: Array) -> Spherical:
        return Spherical(self.array, features.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return Spherical(self.array, basis.shape[1])

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
    def outer(difference: np.ndarray) -> np.ndarray:
        return np.asarray(np.mean(difference**2))

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The optimism of n means and one variance, which uses n values of each sample."""
        return optimism_of(n + 1, n * counts, n + 2)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior:
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

    @staticmethod
    def tangent(n: int) -> VarianceTangent:
        return VarianceTangent(np.ones((n, 1)))
