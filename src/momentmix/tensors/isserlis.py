"""Packed moments of Gaussians: all orders 0..d, their derivatives, and their own covariance.

Entries of order k follow from those of orders k-1 and k-2 (Isserlis, one index at a time), and so
do their derivatives. For a multi-index I with last index a, in which a occurs c_a(I) times,
    M_I = μ_a M_{I∖a} + Σ_{b∈I∖a} Σ_ab M_{I∖{a,b}},
    ∂M_I/∂μ_a = c_a M_{I∖a},   ∂M_I/∂Σ_ab = c_a c_b M_{I∖{a,b}} (a≠b),  c_a(c_a-1)/2 M_{I∖{a,a}}.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial, prod, sqrt
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from momentmix.moments.atoms import Atoms
from momentmix.support.array import Array, read_only, to_numpy
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import (
    order_slice,
    order_starts,
    plus_gaussian,
    product_places,
    removal_table,
    total_size,
)
from momentmix.tensors.rowsums import row_sums


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
