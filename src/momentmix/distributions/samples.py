"""Samples: an empirical distribution, with weights and a known noise to take out."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance, Zero
from momentmix.covariance import noise_covariance as checked_noise
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.distribution import AtomDistribution
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    as_float_array,
    frozen_copy,
    like,
    namespace,
    read_only_view,
    to_numpy,
)
from momentmix.tensors.dense import dense_moment


class Samples(AtomDistribution):
    """The empirical distribution of the rows of X.

    Its moments are (1/p) Σ_i x_i^{⊗d}. With ``noise_covariance=N`` they are the debiased moments
    of Thm. 5.1 of Pereira–Kileel–Kolda: where X = Y + N(0, N) with independent noise, their
    expectation is the moment of Y. The atoms are then (1/p, x_i, -N).

    Parameters
    ----------
    X : array of shape (p, n)
        Rows are samples. Not copied: do not change it while this object is in use.
    weights : array of shape (p,), optional
        Not negative, with sum 1. Equal weights by default.
    noise_covariance : scalar or array, optional
        Noise common to all samples: a scalar (variance), (n,) (variances) or (n, n); or one for
        each sample: (p,), (p, n) or (p, n, n). Where p = n, one- and two-dimensional arrays are
        read as common noise.

    Examples
    --------
    >>> from momentmix import Samples
    >>> Samples([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], noise_covariance=0.5)
    Samples(3 × 2, float64, noise_covariance=spherical)
    """

    def __init__(
        self,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        noise_covariance: ArrayLike | None = None,
    ) -> None:
        X = as_float_array(X, "X", (2,))
        p, n = (int(k) for k in X.shape)
        if p == 0 or n == 0:
            raise ValueError(f"X must have at least one row and one column, got shape {(p, n)}")
        if not all_finite(X):
            raise ValueError("X must be finite, but holds NaN or infinity; drop or fill those rows")
        self.X = read_only_view(X)
        self.weights: Array | None = None
        if weights is not None:
            weights = as_float_array(like(weights, X), "weights", (1,))
            namespace(X, weights)
            self.weights = frozen_copy(check_weights(weights, p, "samples"))
        covariance: Covariance = Zero(n)
        if noise_covariance is not None:
            covariance = checked_noise(like(noise_covariance, X), p, n)
            namespace(X, covariance.array)
        self._noise = covariance
        self._atoms = Atoms(
            1.0 / p if self.weights is None else self.weights, self.X, covariance.negative()
        )

    @property
    def n_samples(self) -> int:
        return int(self.X.shape[0])

    @property
    def noise_covariance(self) -> Array | None:
        """The noise covariance in one of the shapes spherical (1 or p,), diag (1 or p, n), tied
        (n, n) or full (p, n, n), or None.
        """
        array: Array | None = self._noise.array
        return array

    def moment(self, order: int) -> Array:
        """The dense moment tensor of one order; see :func:`momentmix.dense_moment`."""
        return dense_moment(self, order)

    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        return Gradient(weights, means, None if covariances is None else -covariances)

    def __repr__(self) -> str:
        parts = [f"{self.n_samples} × {self.n_features}", str(self.X.dtype).rpartition(".")[2]]
        if self.weights is not None:
            w = to_numpy(self.weights)
            parts.append(f"weighted, effective size {1 / float(np.sum(w * w)):.1f}")
        if not self._noise.zero:
            parts.append(f"noise_covariance={self._noise.name}")
        return f"Samples({', '.join(parts)})"


def debiased_moment(X: ArrayLike, covariance: ArrayLike, order: int) -> Array:
    """The dense T̂, unbiased for E Y^{⊗d} where X = Y + N(0, covariance), independent noise.

    T̂ = (1/p) Σ_i Σ_k C_{d,k} (-1)^k sym(x_i^{⊗d-2k} ⊗ Σ^{⊗k}), Thm. 5.1 of Pereira–Kileel–Kolda.
    It is the moment of ``Samples(X, noise_covariance=covariance)``, which says what shapes the
    covariance may have.

    Parameters
    ----------
    X : array of shape (p, n)
    covariance : scalar or array
    order : int

    Returns
    -------
    array of shape (n,) * order
    """
    return dense_moment(Samples(X, noise_covariance=covariance), order)


def check_weights(weights: Array, count: int, what: str) -> Array:
    """``weights`` (count,), finite, not negative, and summing to 1 up to rounding."""
    xp = namespace(weights)
    if tuple(weights.shape) != (count,):
        raise ValueError(
            f"weights must have shape ({count},), one for each of the {count} {what}, "
            f"but have shape {tuple(weights.shape)}"
        )
    if not all_finite(weights):
        raise ValueError("weights must be finite, but hold NaN or infinity")
    if bool(xp.any(weights < 0)):
        raise ValueError(
            f"weights must not be negative, but the least is {float(xp.min(weights)):g}"
        )
    total = float(xp.sum(weights))
    eps = float(xp.finfo(weights.dtype).eps)
    if abs(total - 1) > max(1e-8, (10 + count) * eps):
        raise ValueError(
            f"weights must sum to 1, but sum to {total:.10g}; divide them by their sum"
        )
    return weights
