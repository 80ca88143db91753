"""Moments of Gaussians by Isserlis' theorem: packed moments, and polynomials under Gaussians.

Packed moments hold all orders 0..d. Entries of order k follow from those of orders k-1 and k-2
(one index at a time), and so do their derivatives. For a multi-index I with last index a, in which
a occurs c_a(I) times,
    M_I = μ_a M_{I∖a} + Σ_{b∈I∖a} Σ_ab M_{I∖{a,b}},
    ∂M_I/∂μ_a = c_a M_{I∖a},   ∂M_I/∂Σ_ab = c_a c_b M_{I∖{a,b}} (a≠b),  c_a(c_a-1)/2 M_{I∖{a,a}}.

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
from functools import cached_property, lru_cache
from math import factorial, prod, sqrt
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts
from momentmix.support.array import Array, array_device, read_only, to_numpy
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import (
    extension_table,
    multiplicities,
    order_slice,
    order_starts,
    plus_gaussian,
    product_places,
    removal_table,
    total_size,
)
from momentmix.tensors.rowsums import row_sums


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
        step = max(1, (1 << 22) // max(1, len(self.moments)))
        parts = [
            self._expected(P.take(slice(a, min(a + step, len(P))))) for a in range(0, len(P), step)
        ]
        values = np.concatenate([part[0] for part in parts])
        if not gradient:
            return InnerProducts(_like(values, P), None, None)
        means = np.concatenate([part[1] for part in parts])
        covariance: Array | None = None
        if not P.covariance.zero:
            seconds = _like(np.concatenate([part[2] for part in parts]), P)
            collect = (
                P.covariance.collect_variances
                if P.covariance.diagonal
                else P.covariance.collect_matrices
            )
            covariance = collect(P.column[:, 0], seconds)
        return InnerProducts(_like(values, P), P.column * _like(means, P), covariance)

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


def gaussian_moments(means: np.ndarray, matrices: np.ndarray | None, d: int) -> np.ndarray:
    """Moments of m Gaussians, means (m, n) and covariances (m or 1, n, n); (m, N). O(mNd).

    ``matrices`` is None for points, whose moments are powers.
    """
    m, n = means.shape
    M = np.empty((m, total_size(n, d)))
    M[:, 0] = 1
    for k in range(1, d + 1):
        indices, without = packed_indices(n, k), removal_table(n, k)[:, -1]
        last = indices[:, -1]
        total = means[:, last] * M[:, order_slice(n, k - 1)][:, without]
        if k > 1 and matrices is not None:
            below, twice = M[:, order_slice(n, k - 2)], removal_table(n, k - 1)[without]
            for s in range(k - 1):
                total += matrices[:, last, indices[:, s]] * below[:, twice[:, s]]
        M[:, order_slice(n, k)] = total
    return M


class DerivativeTables(NamedTuple):
    """For each multi-index I and each index a: the position of I∖a, and how often a is in I.

    Both are (N, n), so only for few moments; read-only.
    """

    lower: np.ndarray  # the position of I∖a among orders 0..d; 0 if a is not in I
    counts: np.ndarray  # c_a(I)


@lru_cache(maxsize=8)
def derivative_tables(n: int, d: int) -> DerivativeTables:
    N, starts = total_size(n, d), order_starts(n, d)
    counts, lower = np.zeros((2, N, n), dtype=np.int64)
    for k in range(1, d + 1):
        rows = np.arange(starts[k], starts[k + 1])
        for s in range(k):
            a = packed_indices(n, k)[:, s]
            counts[rows, a] += 1
            lower[rows, a] = starts[k - 1] + removal_table(n, k)[:, s]
    return DerivativeTables(read_only(lower), read_only(counts))


@lru_cache(maxsize=8)
def pair_tables(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The position of I∖{a, b}, or 0, and c_a(I) c_b(I∖a) / 2; (N, n, n) each, read-only.

    The factor 1/2 is there because each a≠b occurs twice in a symmetric dΣ.
    """
    lower, counts = derivative_tables(n, d)
    return read_only(lower[lower]), read_only(0.5 * counts[:, :, None] * counts[lower])


def mean_jacobian(M: np.ndarray, n: int, d: int) -> np.ndarray:
    """∂M/∂μ (m, N, n), M (m, N)."""
    lower, counts = derivative_tables(n, d)
    return counts * M[:, lower]


def covariance_jacobian(M: np.ndarray, n: int, d: int) -> np.ndarray:
    """∂M/∂Σ (m, N, n, n), symmetric so that dM = ⟨·, dΣ⟩."""
    lower_twice, half_pairs = pair_tables(n, d)
    return half_pairs * M[:, lower_twice]


@lru_cache(maxsize=8)
def hermite_factor(n: int, d: int) -> csr_array:
    """Sparse F (N, N) with FᵀF = S⁻¹, where S is the covariance of the moments of N(0, I).

    F r are the deviations of the means of the Hermite polynomials He_I / √(I!), which are
    uncorrelated under N(0, I). In whitened coordinates it is close to the optimal weight of the
    method of moments, needs no data, and makes high orders as well conditioned as low ones.
    He_I = Π_a He_{i_a}, and He_k(x) = Σ_j (-1)^j k! / (j! (k-2j)! 2^j) x^(k-2j).
    Order 0 is kept as it is.
    """
    counts = derivative_tables(n, d).counts.tolist()
    place = {tuple(c): i for i, c in enumerate(counts)}
    rows: list[int] = []
    columns: list[int] = []
    entries: list[float] = []
    for i, exponents in enumerate(counts):
        terms: dict[tuple[int, ...], float] = {(): 1.0}
        for k in exponents:
            series = [
                (k - 2 * j, (-1) ** j * factorial(k) / (factorial(j) * factorial(k - 2 * j) * 2**j))
                for j in range(k // 2 + 1)
            ]
            terms = {(*e, p): c * h for e, c in terms.items() for p, h in series}
        norm = sqrt(prod(factorial(k) for k in exponents))
        rows += [i] * len(terms)
        columns += [place[e] for e in terms]
        entries += [c / norm for c in terms.values()]
    factor = csr_array((entries, (rows, columns)), shape=(len(place), len(place)))
    read_only(factor.data)
    return factor


@lru_cache(maxsize=4)
def _product_places(n: int, d: int) -> np.ndarray:
    """The position of the product of two monomials up to degree d among those up to 2d; (N, N)."""
    starts = order_starts(n, 2 * d)
    orders = range(d + 1)
    return read_only(
        np.block([[starts[i + j] + product_places(n, i, j) for j in orders] for i in orders])
    )


def moment_covariance(
    weights: np.ndarray, means: np.ndarray, matrices: np.ndarray, d: int
) -> np.ndarray:
    """Covariance of the monomials of orders 0..d under a mixture, from its moments up to 2d.

    S_IJ = M_{I+J} - M_I M_J, exactly; (N, N). Divided by the number of samples, it is the
    covariance of the empirical moments.
    """
    n = means.shape[1]
    M = weights @ gaussian_moments(means, matrices, 2 * d)
    first = M[: total_size(n, d)]
    return M[_product_places(n, d)] - np.outer(first, first)


def atom_sums(atoms: Atoms, centre: np.ndarray, d: int) -> np.ndarray:
    """Moments of weighted atoms about ``centre``, of orders 0..d, not divided by weights; (N,).

    Points take one pass of matrix products; a shared covariance is added at the end. Orders below 2
    do not depend on covariances.
    """
    covariance = atoms.covariance
    if covariance.shared or d < 2:
        if isinstance(atoms.weights, float):
            sums = atoms.weights * row_sums(atoms.means, centre, None, d)
        else:
            sums = row_sums(atoms.means, centre, atoms.weights, d)
        if covariance.zero or d < 2:  # order 1 does not need covariances, which may be large
            return sums
        return plus_gaussian(sums, len(centre), covariance=_numpy(covariance.matrices())[0])
    total = np.zeros(total_size(len(centre), d))
    step = max(1, (1 << 22) // len(total))
    for start in range(0, len(atoms), step):
        part = atoms.take(slice(start, min(start + step, len(atoms))))
        means = _numpy(part.means) - centre
        matrices = None if d < 2 else _numpy(part.covariance.matrices())
        M = gaussian_moments(means, matrices, d)
        total += _numpy(part.column)[:, 0] @ M
    return total


def _numpy(x: Array) -> np.ndarray:
    return to_numpy(x).astype(np.float64)
