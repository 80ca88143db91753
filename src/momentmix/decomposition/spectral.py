"""Spectral decomposition of a symmetric tensor: flattening, subspace power iteration, deflation.

A tensor T = Σ_j λ_j a_j^{⊗d} written as a matrix, half of its indices for the rows and the rest for
the columns, is Σ_j λ_j u(a_j) w(a_j)ᵀ with u(a) = a^{⊗⌈d/2⌉} and w(a) = a^{⊗⌊d/2⌋}. Its rank is the
number of terms, and its columns span the u(a_j). The unit vectors x whose power u(x) lies in that
span are the a_j (for generic a_j, up to a limit on their number), and they maximise the length of
u(x) projected onto it. Each one that is found is removed, which lowers the rank by one. This is
the subspace power method of Kileel and Pereira (arXiv 1912.04007).

Matrices are in packed coordinates: entries are multiplied by the root of their multiplicity, so
that lengths and angles are those of the full tensors. Everything here is for few dimensions n.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from momentmix.support.array import read_only
from momentmix.tensors.dense import packed_indices, packed_multiplicities, packed_size
from momentmix.tensors.packed import extension_table, product_places

#: The power iterations that run side by side for each component, and the most steps of each. These
#: are round numbers that were not tuned; fewer starts may miss the longest projection.
STARTS, STEPS = 12, 300


def halves(d: int) -> tuple[int, int]:
    """How many indices go to the rows and how many to the columns."""
    return -(-d // 2), d // 2


def flattening(T: np.ndarray, n: int, d: int) -> np.ndarray:
    """The packed tensor (N_d,) as a matrix (N_⌈d/2⌉, N_⌊d/2⌋) of the same Frobenius norm."""
    left, right = halves(d)
    return T[_places(n, d)] * np.outer(_roots(n, left), _roots(n, right))


def highest_rank(n: int, d: int) -> int:
    """The most terms that the decomposition can tell apart.

    The matrix needs at least as many columns as there are terms, and the span of its columns must
    contain no powers u(x) except those of the terms. So the span must leave out n dimensions (the
    trisecant lemma), or one if n = 2, where the powers form a curve.
    """
    left, right = halves(d)
    room = 1 if n == 2 else n
    return max(1, min(packed_size(n, left) - room, packed_size(n, right)))


def power(X: np.ndarray, k: int) -> np.ndarray:
    """x^{⊗k} for rows x of X, packed so that its length is ‖x‖^k; (…, N_k)."""
    n = X.shape[-1]
    return np.prod(X[..., packed_indices(n, k)], axis=-1) * _roots(n, k)


def decompose(T: np.ndarray, n: int, d: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (rank, n) of a symmetric decomposition of a packed tensor (N_d,) of order ≥ 3.

    It is exact if T has that rank and the rank is at most ``highest_rank``. If T is close to such a
    tensor, it is a start for least squares.
    """
    A = flattening(T, n, d)
    left, right = halves(d)
    found = []
    for r in range(rank, 0, -1):
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        U, s, Vt = U[:, :r], np.maximum(s[:r], 1e-300), Vt[:r]
        x = _longest_projection(U, n, left, rng)
        found.append(x)
        u, w = power(x, left), power(x, right)
        # Wedderburn: the multiple of u wᵀ whose removal lowers the rank by one.
        inverse = (Vt @ w) @ ((U.T @ u) / s)
        if abs(inverse) > 1e-300:
            A = (U * s) @ Vt - np.outer(u, w) / inverse
    return np.array(found)


def _longest_projection(U: np.ndarray, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """The unit vector x whose power x^{⊗k} is longest in the span of orthonormal columns U.

    Power iteration x ← x + ∇F/2k of F(x) = ‖Uᵀ x^{⊗k}‖², normalised, from several starts. The term
    x itself makes F rise at every step.
    """
    shift = np.sqrt((k - 1) / k)
    x = _unit(rng.normal(size=(STARTS, n)))
    for _ in range(STEPS):
        coordinates = power(x, k) @ U
        new = _unit(_contract(coordinates @ U.T, x, k) + shift * x)
        moved = np.max(np.abs(new - x))
        x = new
        if moved < 1e-12:
            break
    lengths = np.linalg.norm(power(x, k) @ U, axis=1)
    return x[np.argmax(lengths)]


def _contract(S: np.ndarray, X: np.ndarray, k: int) -> np.ndarray:
    """Symmetric tensors S (…, N_k) in the coordinates of ``power``, times k-1 vectors x; (…, n)."""
    n = X.shape[-1]
    entries = (S / _roots(n, k))[..., extension_table(n, k - 1)]
    lower = power(X, k - 1) * _roots(n, k - 1)
    return (lower[..., None, :] @ entries)[..., 0, :]


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1e-300)


@lru_cache(maxsize=32)
def _roots(n: int, k: int) -> np.ndarray:
    return read_only(np.sqrt(packed_multiplicities(n, k)))


@lru_cache(maxsize=8)
def _places(n: int, d: int) -> np.ndarray:
    return read_only(product_places(n, *halves(d)))
