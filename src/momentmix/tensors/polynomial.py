"""A moment as a polynomial, and its expectation under Gaussians.

Packed moments T_k with weights w_k over the orders make the polynomial
    f(x) = Σ_k w_k ⟨T_k, x^{⊗k}⟩
(the map Φ of §2.3 of Pereira–Kileel–Kolda), and Σ_k w_k ⟨T_k, M_k⟩ for the moments of a Gaussian is
the expectation of f under it. Its derivatives are expectations again:
    ∂/∂μ E f = E ∇f,     ∂/∂Σ E f = ½ E ∇²f,
and because each part f_k is homogeneous, Euler's identity and Gaussian integration by parts give
    k E f_k = E xᵀ∇f_k = μᵀ E ∇f_k + ⟨Σ, E ∇²f_k⟩,
so that only Gaussian moments up to order d-1 are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts
from momentmix.support.array import Array, array_device, refuse_graph, to_numpy
from momentmix.tensors.isserlis import gaussian_moments
from momentmix.tensors.packed import extension_table, multiplicities, order_slice


class Polynomial:
    """f from packed moments (N,) of orders 0..d, and weights w_0..w_d."""

    def __init__(self, moments: np.ndarray, n: int, weights: Sequence[float]) -> None:
        self.moments, self.n = moments, n
        self.weights = [float(w) for w in weights]
        self.d = len(self.weights) - 1

    @cached_property
    def first(self) -> Sequence[np.ndarray | None]:
        """For each order k ≥ 1 the matrix (N_{k-1}, n) that takes M_{k-1} to E ∇f_k."""
        return [None] + [
            self.weights[k]
            * k
            * self._scale(k - 1)
            * self._order(k)[extension_table(self.n, k - 1)]
            if self.weights[k]
            else None
            for k in range(1, self.d + 1)
        ]

    @cached_property
    def diagonal(self) -> Sequence[np.ndarray | None]:
        """For each order k ≥ 2 the matrix (N_{k-2}, n) that takes M_{k-2} to diag ½E ∇²f_k."""
        features = np.arange(self.n)

        def at(k: int) -> np.ndarray:
            once = extension_table(self.n, k - 2)
            return extension_table(self.n, k - 1)[once, features]

        return self._second(at)

    @cached_property
    def square(self) -> Sequence[np.ndarray | None]:
        """For each order k ≥ 2 the matrix (N_{k-2}, n²) that takes M_{k-2} to ½E ∇²f_k."""

        def at(k: int) -> np.ndarray:
            once = extension_table(self.n, k - 2)
            return extension_table(self.n, k - 1)[once].reshape(len(once), -1)

        return self._second(at)

    def _second(self, at: Callable[[int], np.ndarray]) -> Sequence[np.ndarray | None]:
        return [None, None] + [
            self.weights[k] * (k * (k - 1) / 2) * self._scale(k - 2) * self._order(k)[at(k)]
            if self.weights[k]
            else None
            for k in range(2, self.d + 1)
        ]

    def _order(self, k: int) -> np.ndarray:
        return self.moments[order_slice(self.n, k)]

    def _scale(self, k: int) -> np.ndarray:
        return multiplicities(self.n, k)[order_slice(self.n, k), None]

    def expected(self, P: Atoms, gradient: bool) -> InnerProducts:
        """E f under each atom of P and, if asked, the gradient of Σ_i λ_i E_i f in P.

        O(m (n N_{d-1} + N_d d)) for m atoms, whatever the number of rows the moments come from.
        """
        own = None if P.covariance.zero else P.covariance.array
        refuse_graph("MomentTensors (through Samples and Mixture they do)", P.means, own)
        step = max(1, (1 << 22) // max(1, len(self.moments)))
        parts = [
            self._expected(P.take(slice(a, min(a + step, len(P))))) for a in range(0, len(P), step)
        ]
        values = np.concatenate([part[0] for part in parts])
        if not gradient:
            return InnerProducts(_like(values, P), None, None)
        means = np.concatenate([part[1] for part in parts])
        column = to_numpy(P.column).astype(np.float64)
        covariance: Array | None = None
        if not P.covariance.zero:
            seconds = _like(np.concatenate([part[2] for part in parts]), P)
            collect = (
                P.covariance.collect_variances
                if P.covariance.diagonal
                else P.covariance.collect_matrices
            )
            covariance = collect(P.column[:, 0], seconds)
        return InnerProducts(_like(values, P), _like(column * means, P), covariance)

    def _expected(self, P: Atoms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E f, E ∇f and ½E ∇²f under each atom; the last (m, n) where Σ is diagonal, or zero."""
        m, n = len(P), self.n
        means = to_numpy(P.means).astype(np.float64)
        zero, diagonal = P.covariance.zero, P.covariance.diagonal
        shape = (n,) if diagonal else (n, n)
        matrices = np.zeros((1, n, n))
        entries = np.zeros((1, *shape))  # the entries of Σ for which ½E ∇²f is needed
        if not zero:
            matrices = to_numpy(P.covariance.matrices()).astype(np.float64)
            entries = to_numpy(P.covariance.variances()) if diagonal else matrices
        M = gaussian_moments(means, matrices, max(self.d - 1, 0))
        values = np.full(m, self.weights[0] * self.moments[0])
        slopes, seconds = np.zeros((m, n)), np.zeros((m, *shape))
        axes = tuple(range(1, 1 + len(shape)))
        for k in range(1, self.d + 1):
            first = self.first[k]
            if first is None:
                continue
            slope = M[:, order_slice(n, k - 1)] @ first
            values += np.sum(means * slope, axis=1) / k
            slopes += slope
            second = None if zero or k < 2 else (self.diagonal if diagonal else self.square)[k]
            if second is not None:
                half = (M[:, order_slice(n, k - 2)] @ second).reshape(m, *shape)
                values += 2 * np.sum(entries * half, axis=axes) / k
                seconds += half
        return values, slopes, seconds


def _like(x: np.ndarray, P: Atoms) -> Array:
    return P.xp.asarray(x, dtype=P.means.dtype, device=array_device(P.means))
