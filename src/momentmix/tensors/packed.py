"""Symmetric tensors of all orders 0..d packed into one vector of their distinct entries.

With a constant feature 1 in front, the moments of orders 0..d are the distinct entries of one
symmetric tensor of order d: the monomial 1^(d-k) x_{i_1} ··· x_{i_k} is an entry of order k.
Lexicographic order of the multi-indices of (1, x) lists the entries of order 0, then those of order
1, and so on, each in the order of ``packed_indices``: N = C(n+d, d) numbers. The functions here
take and return such vectors, and form no tensor of n^d entries. Index tables are made once for each
n and d and kept, so they are read-only. From a vector of moments also follows the moment matrix
E[φφᵀ] of all monomials φ up to a degree, which is semidefinite for any distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from momentmix.support.array import read_only
from momentmix.tensors.dense import packed_indices, packed_multiplicities, packed_size

#: Stands for all larger numbers of moments, because computing some of them exactly takes minutes.
#: It fits int64, is below 2⁶⁰, which ``total_size`` relies on, and is beyond any memory.
COUNTLESS = 10**18


def total_size(n: int, d: int) -> int:
    """C(n+d, d), the number of distinct moments of orders 0..d; at most ``COUNTLESS``."""
    least = min(n, d)
    if least >= 60:  # C(n+d, d) ≥ 2^least
        return COUNTLESS
    return min(math.comb(n + d, least), COUNTLESS)


def size_in_words(size: int) -> str:
    return f"over {size:,}" if size == COUNTLESS else f"{size:,}"


@lru_cache(maxsize=32)
def order_starts(n: int, d: int) -> np.ndarray:
    """Where each order begins, and the end; (d + 2,)."""
    sizes = [packed_size(n, k) for k in range(d + 1)]
    return read_only(np.concatenate([[0], np.cumsum(sizes)]))


def order_slice(n: int, k: int) -> slice:
    """The entries of order k."""
    return slice(total_size(n, k - 1) if k else 0, total_size(n, k))


@lru_cache(maxsize=32)
def entry_orders(n: int, d: int) -> np.ndarray:
    """The order of each entry; (N,)."""
    return read_only(np.repeat(np.arange(d + 1), np.diff(order_starts(n, d))))


@lru_cache(maxsize=32)
def multiplicities(n: int, d: int) -> np.ndarray:
    """How many entries of its full tensor each entry stands for; (N,)."""
    by_order = [packed_multiplicities(n, k) for k in range(d + 1)]
    return read_only(np.concatenate(by_order).astype(float))


def weighted_dot(a: np.ndarray, b: np.ndarray, n: int, weights: Sequence[float]) -> float:
    """Σ_k w_k ⟨A_k, B_k⟩ of the full tensors that a and b (N,) stand for. O(N)."""
    d = len(weights) - 1
    scale = np.asarray(weights)[entry_orders(n, d)] * multiplicities(n, d)
    return float(np.sum(scale * a * b))


def places(indices: np.ndarray, n: int) -> np.ndarray:
    """Lexicographic rank of sorted multi-indices (…, k) among all of order k in n features.

    The multi-indices before I agree with it before some position t and have a smaller index u at t.
    There are C(n-u+k-t-2, k-t-1) of them for each t and each u from i_{t-1} to i_t - 1.
    """
    k = indices.shape[-1]
    rank = np.zeros(indices.shape[:-1], dtype=np.int64)
    before: np.ndarray | int = 0
    for t in range(k):
        tails = [packed_size(n - u, k - t - 1) for u in range(n)]
        below = np.concatenate([[0], np.cumsum(tails, dtype=np.int64)])
        rank += below[indices[..., t]] - below[before]
        before = indices[..., t]
    return rank


@lru_cache(maxsize=32)
def removal_table(n: int, k: int) -> np.ndarray:
    """The position of I without its s-th index, among order k-1; (N_k, k)."""
    indices = packed_indices(n, k)
    without = [places(np.delete(indices, s, axis=1), n) for s in range(k)]
    return read_only(np.column_stack(without))


@lru_cache(maxsize=32)
def extension_table(n: int, k: int) -> np.ndarray:
    """The position of I with the index a added, among order k+1; (N_k, n)."""
    indices = packed_indices(n, k)
    result = np.empty((len(indices), n), dtype=np.int64)
    for a in range(n):
        longer = np.column_stack([indices, np.full(len(indices), a)])
        result[:, a] = places(np.sort(longer, axis=1), n)
    return read_only(result)


def product_places(n: int, i: int, j: int) -> np.ndarray:
    """The position of the product of a monomial of order i and one of order j; (N_i, N_j)."""
    right = packed_indices(n, j)
    place = np.repeat(np.arange(packed_size(n, i))[:, None], len(right), axis=1)
    for s in range(j):  # append the indices of the right monomial one by one
        place = extension_table(n, i + s)[place, right[:, s]]
    return place


@lru_cache(maxsize=32)
def square_places(n: int) -> np.ndarray:
    """The positions of the entries x_a² among orders 0..d ≥ 2; (n,)."""
    features = np.arange(n)
    squares = places(np.column_stack([features, features]), n)
    return read_only(order_slice(n, 2).start + squares)


def plus_gaussian(
    S: np.ndarray, n: int, shift: np.ndarray | None = None, covariance: np.ndarray | None = None
) -> np.ndarray:
    """Turn moments (…, N) of X into those of X + G, with independent G ~ N(shift, covariance).

    A shift moves the centre, and minus a noise covariance debiases (Thm. 5.1 of
    Pereira–Kileel–Kolda, in which covariances may be negative). Both are exact: with
        (D S)_I = Σ_s shift_{i_s} S_{I∖s} + Σ_{s<t} covariance_{i_s i_t} S_{I∖{s,t}}
    the result is exp(D) S, a finite sum because D raises the order.
    """
    d = _highest_order(S.shape[-1], n)
    result, term = S.copy(), S
    for j in range(1, d + 1):
        term = _lift(term, n, d, shift, covariance) / j
        result += term
    return result


def _lift(
    S: np.ndarray, n: int, d: int, shift: np.ndarray | None, covariance: np.ndarray | None
) -> np.ndarray:
    lifted = np.zeros_like(S)
    for k in range(1, d + 1):
        indices, without = packed_indices(n, k), removal_table(n, k)
        here = lifted[..., order_slice(n, k)]
        below = S[..., order_slice(n, k - 1)]
        if shift is not None:
            for s in range(k):
                here += shift[indices[:, s]] * below[..., without[:, s]]
        if covariance is not None and k > 1:
            two_below, twice = S[..., order_slice(n, k - 2)], removal_table(n, k - 1)
            for t in range(k):
                for s in range(t):
                    pair = covariance[indices[:, s], indices[:, t]]
                    here += pair * two_below[..., twice[without[:, t], s]]
    return lifted


def linear_map(S: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Turn moments (N,) of x in n features into those of A x, A (n', n); (N',).

    Indices are mapped one by one; the mapped and the unmapped ones stay packed. O(n' n^d) for order
    d, with a fraction 1/⌊d/2⌋!⌈d/2⌉! of it in memory.
    """
    n_new, n = A.shape
    parts = []
    for k in range(_highest_order(len(S), n) + 1):
        W = S[None, order_slice(n, k)]  # (mapped indices, indices still to map), both packed
        for j in range(k):
            W = W[:, extension_table(n, k - j - 1)] @ A.T
            last = packed_indices(n_new, j)[:, -1] if j else np.zeros(1, dtype=np.int64)
            first = np.repeat(np.arange(len(last)), n_new - last)
            W = W[first, :, packed_indices(n_new, j + 1)[:, -1]]
        parts.append(W[:, 0])
    return np.concatenate(parts)


def _highest_order(size: int, n: int) -> int:
    d = 0
    while total_size(n, d) < size:
        d += 1
    return d


def moment_matrix(packed: np.ndarray, n: int, degree: int) -> np.ndarray:
    """E[φ_α φ_β] = M_{α+β}, from packed moments of orders up to 2 ``degree`` at least; (K, K).

    K = C(n + degree, degree), the monomials in the packed order. O(K² degree).
    """
    rows = []
    for a in range(degree + 1):
        row = []
        for b in range(degree + 1):
            first, second = packed_indices(n, a), packed_indices(n, b)
            shape = len(first), len(second)
            pairs = np.concatenate(
                [
                    np.broadcast_to(first[:, None, :], (*shape, a)),
                    np.broadcast_to(second[None, :, :], (*shape, b)),
                ],
                axis=2,
            )
            row.append(packed[order_slice(n, a + b)][places(np.sort(pairs, axis=2), n)])
        rows.append(row)
    return np.block(rows)


def least_eigenvalue(matrix: np.ndarray) -> float:
    """The least eigenvalue of a moment matrix after its monomials are scaled to mean square 1.

    A monomial whose mean square is not positive must vanish. If it does not, the matrix is not
    semidefinite in any scale.
    """
    squares = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    return float(np.linalg.eigvalsh(matrix * np.outer(scale, scale))[0])
