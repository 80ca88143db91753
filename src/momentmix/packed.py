"""Packed Gaussian moments: the distinct entries of all orders 0..d, and their derivatives.

For few features the distinct moments are few, and a fit by them is an ordinary nonlinear
least-squares problem. Entries of order k follow from those of orders k-1 and k-2 (Isserlis, one
index at a time), and so do their derivatives: for a multi-index I that contains a c_a times,
    M_I = μ_a M_{I-a} + Σ_b Σ_ab c_b(I-a) M_{I-a-b},       a the last index of I,
    ∂M_I/∂μ_a = c_a M_{I-a},   ∂M_I/∂Σ_ab = c_a c_b M_{I-a-b} (a≠b),  c_a(c_a-1)/2 M_{I-a-a}.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial, prod, sqrt
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from momentmix.atoms import Atoms
from momentmix.dense import packed_indices, packed_multiplicities, packed_size


class Tables(NamedTuple):
    """Places and counts for orders 0..d in n features; every order starts at ``starts[k]``."""

    starts: np.ndarray  # (d + 2,)
    orders: np.ndarray  # (N,) the order of each entry
    multiplicities: np.ndarray  # (N,)
    last: np.ndarray  # (N,) the last index a of I
    without_last: np.ndarray  # (N,) place of I - a
    lower: np.ndarray  # (N, n) place of I - a, or 0
    counts: np.ndarray  # (N, n) c_a
    lower_twice: np.ndarray  # (N, n, n) place of I - a - b, or 0
    half_pairs: np.ndarray  # (N, n, n) c_a(I) c_b(I - a) / 2


@lru_cache(maxsize=8)
def tables(n: int, d: int) -> Tables:
    sizes = [packed_size(n, k) for k in range(d + 1)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    N = int(starts[-1])
    counts = np.zeros((N, n), dtype=np.int64)
    lower = np.zeros((N, n), dtype=np.int64)
    last = np.zeros(N, dtype=np.int64)
    place = {(): 0}
    for k in range(1, d + 1):
        here = {}
        for i, index in enumerate(map(tuple, packed_indices(n, k).tolist())):
            at = int(starts[k]) + i
            here[index] = at
            last[at] = index[-1]
            for a in set(index):
                counts[at, a] = index.count(a)
                j = index.index(a)
                lower[at, a] = place[index[:j] + index[j + 1 :]]
        place = here
    multiplicities = np.concatenate([packed_multiplicities(n, k) for k in range(d + 1)])
    orders = np.repeat(np.arange(d + 1), sizes)
    without_last = lower[np.arange(N), last]
    twice, pairs = lower[lower], 0.5 * counts[:, :, None] * counts[lower]
    return Tables(starts, orders, multiplicities, last, without_last, lower, counts, twice, pairs)


def gaussian_moments(means: np.ndarray, matrices: np.ndarray, d: int) -> np.ndarray:
    """Moments of m Gaussians, means (m, n) and covariances (m, n, n); (m, N). O(mNn)."""
    m, n = means.shape
    t = tables(n, d)
    M = np.zeros((m, len(t.orders)))
    M[:, 0] = 1
    for k in range(1, d + 1):
        rows = slice(t.starts[k], t.starts[k + 1])
        a, rest = t.last[rows], t.without_last[rows]
        total = means[:, a] * M[:, rest]
        if k > 1:
            for b in range(n):
                total += matrices[:, a, b] * (t.counts[rest, b] * M[:, t.lower[rest, b]])
        M[:, rows] = total
    return M


def moment_jacobian(M: np.ndarray, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """∂M/∂μ (m, N, n) and ∂M/∂Σ (m, N, n, n), the latter symmetric so that dM = ⟨·, dΣ⟩."""
    t = tables(n, d)
    # Pairs are halved because each a≠b stands twice in a symmetric dΣ.
    return t.counts * M[:, t.lower], t.half_pairs * M[:, t.lower_twice]


@lru_cache(maxsize=8)
def hermite_factor(n: int, d: int) -> csr_array:
    """Sparse F (N, N) with FᵀF = S⁻¹, S the covariance of the moments of N(0, I).

    F r holds the errors of the means of the Hermite polynomials He_I / √(I!), which are
    uncorrelated under N(0, I). In whitened coordinates it is close to the optimal weight of the
    method of moments, needs no data, and makes high orders as well conditioned as low ones.
    He_I = Π_a He_{i_a}, and He_k(x) = Σ_j (-1)^j k! / (j! (k-2j)! 2^j) x^(k-2j).
    Order 0 is kept as it is.
    """
    t = tables(n, d)
    place = {tuple(c): i for i, c in enumerate(t.counts.tolist())}
    rows: list[int] = []
    columns: list[int] = []
    entries: list[float] = []
    for i, exponents in enumerate(t.counts.tolist()):
        terms: dict[tuple, float] = {(): 1.0}
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
    return csr_array((entries, (rows, columns)), shape=(len(place), len(place)))


def sample_moments(X: np.ndarray, weights: np.ndarray | None, d: int) -> np.ndarray:
    """Moments of weighted points (p, n) of orders 0..d; (N,). One pass in blocks of rows."""
    p, n = X.shape
    t = tables(n, d)
    total = np.zeros(len(t.orders))
    step = max(1, (8 << 20) // (8 * len(t.orders)))
    for start in range(0, p, step):
        rows = X[start : start + step].T
        features = np.empty((len(t.orders), rows.shape[1]))
        features[0] = 1
        for k in range(1, d + 1):
            here = slice(t.starts[k], t.starts[k + 1])
            np.multiply(rows[t.last[here]], features[t.without_last[here]], out=features[here])
        if weights is None:
            total += features.sum(axis=1)
        else:
            total += features @ weights[start : start + step]
    return total / p if weights is None else total


def atom_moments(atoms: Atoms, d: int) -> np.ndarray:
    """Moments of weighted atoms, of orders 0..d; (N,)."""
    if atoms.covariance.zero:
        weights = None if isinstance(atoms.weights, float) else atoms.weights
        return sample_moments(np.asarray(atoms.means), weights, d)
    m, n = atoms.means.shape
    matrices = np.broadcast_to(atoms.covariance.matrices(), (m, n, n))
    weights = np.asarray(atoms.column)[:, 0]
    total = np.zeros(len(tables(n, d).orders))
    for start in range(0, m, 4096):
        rows = slice(start, start + 4096)
        total += weights[rows] @ gaussian_moments(atoms.means[rows], matrices[rows], d)
    return total
