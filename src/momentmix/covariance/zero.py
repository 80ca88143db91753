"""The zero covariance of points: samples, and the terms of a decomposition."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from momentmix.covariance.base import Bound, Covariance
from momentmix.covariance.coordinates import VarianceTangent
from momentmix.covariance.variances import Diagonal, Spherical, Variances
from momentmix.support.array import Array


def _refuse(*args: object, **settings: object) -> NoReturn:
    raise TypeError("points have no covariance to speak of, and no density")


class Zero(Variances):
    """Σ_i = 0: nothing is stored; during a fit of points, the array is empty, (m, 0).

    Formulas check ``zero`` first and leave out the terms that vanish. The methods that would return
    zeros raise an error, because there is no array to tell the library and device.
    """

    name = "zero"
    zero = True
    one_unit = True

    def __init__(self, n_features: int) -> None:
        super().__init__(None, n_features)

    @classmethod
    def of(cls, array: Array | None, n: int) -> Zero:
        return cls(n)

    @property
    def shared(self) -> bool:
        return True

    def negative(self) -> Zero:
        return self

    variances = matrices = times = flat = features_vjp = _refuse
    collect_flat = collect_variances = collect_matrices = _refuse
    root = whitener = apply = half_log_determinants = condition = _refuse

    def is_definite(self) -> bool:
        return False

    def marginal(self, features: Array) -> Zero:
        return Zero(features.shape[0])

    def project(self, basis: np.ndarray) -> Covariance:
        return Zero(basis.shape[1])

    def without(self, noise: Covariance) -> Covariance:
        return noise.negative()

    @staticmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        return (m, 0)

    @staticmethod
    def width(n: int) -> int:
        return 0

    @staticmethod
    def features(X: Array) -> Array:
        return X[:, :0]

    @staticmethod
    def free_parameters(m: int, n: int) -> int:
        return 0

    check = log_density_coefficients = precision_cholesky = staticmethod(_refuse)
    whitened_squares = estimate = features_of_seconds = staticmethod(_refuse)

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        return np.full(len(counts), float(n))

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> None:
        return None

    @staticmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        return np.empty((m, 0))

    @staticmethod
    def transform(array: np.ndarray, A: Bound) -> np.ndarray:
        return array

    bound = staticmethod(Spherical.bound)

    @staticmethod
    def pool_coupling(coupling: np.ndarray, n: int) -> np.ndarray:
        return np.empty((0, 0))

    @staticmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        return Diagonal.gradient_of_matrices(weights, G)[..., :0]

    @staticmethod
    def tangent(n: int) -> VarianceTangent:
        return VarianceTangent(np.empty((n, 0)))
