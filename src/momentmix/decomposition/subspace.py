"""The subspace of a symmetric tensor, and its components by eigenvectors.

The terms of a moment tensor span its range, so a decomposition can be found in as many dimensions
as it has terms, where tensors are small. This file finds that subspace and the number of terms, and
decomposes the small tensor there.

A tensor T = Σ_j λ_j a_j^{⊗d} written as a matrix, half of its indices for the rows and the rest for
the columns, is Σ_j λ_j u(a_j) w(a_j)ᵀ with u(a) = a^{⊗⌈d/2⌉} and w(a) = a^{⊗⌊d/2⌋}. Its rank is the
number of terms, and its columns span the u(a_j). The unit vectors x whose power u(x) lies in that
span are the a_j (for generic a_j, up to a limit on their number), and they maximise the length of
u(x) projected onto it. Each one that is found is removed, which lowers the rank by one. This is
the subspace power method of Kileel and Pereira (arXiv 1912.04007).

Matrices are in packed coordinates: entries are multiplied by the root of their multiplicity, so
that lengths and angles are those of the full tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import svds

from momentmix.covariance import Zero
from momentmix.moments.atoms import Atoms
from momentmix.moments.orders import is_single
from momentmix.rows.data import AtomData, MomentData
from momentmix.support.array import read_only
from momentmix.tensors.dense import packed_indices, packed_multiplicities, packed_size
from momentmix.tensors.packed import extension_table, order_slice, product_places

#: The directions of a random sketch beyond those wanted, which make it accurate. Between 5 and 10
#: are customary (Halko, Martinsson and Tropp, 2011).
MORE = 8
#: The rounds of subspace iteration, each of which reads the data once. This is a round number that
#: was not tuned; more rounds cost passes and find the subspace better.
ROUNDS = 5
#: A flattened tensor of at most FLATTENED entries (2 MiB) is decomposed in all dimensions. Larger
#: ones are decomposed in the FIRST dimensions in which the data are largest, twice as many whenever
#: their terms fill these, beside 2 FIRST in which the noise is largest. With fewer of the latter,
#: the noise came out too small in 500 dimensions, and terms were counted that are not there; with
#: three times as many, weak terms were lost.
FLATTENED, FIRST = 1 << 18, 8
#: How the rank is estimated. With fewer than FEW samples, each may be a term itself. Others are
#: halved in SPLITS ways, and a term must exceed the noise of all by MARGIN. These are round numbers
#: that were not tuned; a smaller MARGIN counts more terms.
FEW, SPLITS, MARGIN = 50, 3, 1.5


def slopes(data: MomentData, points: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """Σ_k w_k k T_k(·, x, …, x) for each row x of points; (q, n)."""
    form = data.inner_with(Atoms(1.0, points, Zero(data.n), np), weights, gradient=True)
    return np.asarray(form.means)


def leading_subspace(
    data: MomentData, weights: Sequence[float], r: int, rng: np.random.Generator
) -> np.ndarray:
    """An orthonormal basis (n, r) of nearly the subspace in which the weighted moments are largest.

    It is found by subspace iteration: the moments are contracted with random vectors of the last
    subspace. The first two rounds use the second moment. Each round reads the data once, O(p n r).
    """
    q = min(data.n, r + MORE)
    basis = rng.normal(size=(data.n, q))
    for k in range(ROUNDS):
        if k < 2:
            sketch = slopes(data, basis.T, [0.0, 0.0, 1.0])
        else:
            sketch = slopes(data, rng.normal(size=(3 * q, q)) @ basis.T, weights)
        # The lengths of rows differ by chance, so only their directions count.
        sketch /= np.maximum(np.linalg.norm(sketch, axis=1, keepdims=True), 1e-300)
        basis = np.linalg.svd(sketch, full_matrices=False)[2][:q].T
    return basis[:, :r]


def augment(moments: np.ndarray, n: int, weights: Sequence[float]) -> np.ndarray:
    """The tensor to decompose, from moments of orders 0..d: order d alone, or all of them.

    Together they are the entries of one tensor of order d in n + 1 dimensions, that of (1, x).
    """
    return moments[order_slice(n, len(weights) - 1)] if is_single(weights) else moments


def estimate_rank(data: MomentData, weights: Sequence[float], rng: np.random.Generator) -> int:
    """The number of terms of the moments that stand out from sampling noise.

    The singular values of the flattened tensor are compared with those of noise, which is the
    difference of two halves of the samples outside the terms already counted. Without samples, or
    with so few that they may be the terms themselves, the widest gap between singular values
    decides.
    """
    noise: list[MomentData] = []
    if isinstance(data, AtomData) and len(data.atoms) >= FEW:
        noise = [data.halve(rng) for _ in range(SPLITS)]
    d, n = len(weights) - 1, data.n
    rows, columns = (packed_size(n + 1, k) for k in halves(d))
    whole, r, noisy = rows * columns <= FLATTENED, FIRST, np.empty((n, 0))
    while True:
        complete, parts = whole or 2 * r >= n, [data, *noise]
        if not complete:
            if noise and not noisy.size:
                noisy = leading_subspace(noise[0], weights, 2 * FIRST, rng)
            signal = leading_subspace(data, weights, r, rng)
            basis = np.linalg.qr(np.column_stack([signal, noisy]))[0]
            parts = [x.compress(basis, d) for x in parts[:2]]
        dimensions = parts[0].n + (not is_single(weights))
        flat, *others = (
            flattening(augment(x.moments(d), x.n, weights), dimensions, d) for x in parts
        )
        most = highest_rank(dimensions, d)
        U, values, Vt = np.linalg.svd(flat, full_matrices=False)
        if values[0] == 0:
            return 0
        exact = int(np.sum(values > 1e-10 * values[0])) < len(values)
        rank = _before_the_gap(values, most)
        if noise and not exact:
            rank = _above_noise(U, values, Vt, others, rng)
        if rank < r or complete:
            return min(rank, most)
        r = 2 * r


def _before_the_gap(values: np.ndarray, most: int) -> int:
    logs = np.log(np.maximum(values[: most + 1], 1e-12 * values[0]))
    return int(np.argmax(logs[:-1] - logs[1:])) + 1 if len(logs) > 1 else 1


def _above_noise(
    U: np.ndarray,
    values: np.ndarray,
    Vt: np.ndarray,
    noise: list[np.ndarray],
    rng: np.random.Generator,
) -> int:
    """The first k whose singular value is below MARGIN times the noise outside the first k terms.

    That noise only falls as k grows. So all values above the noise at one k are passed over at
    once, and a few norms are enough.
    """
    k, rank = -1, 0
    while rank > k:
        k = rank
        outside = [A - U[:, :k] @ (U[:, :k].T @ A) for A in noise]
        outside = [A - (A @ Vt[:k].T) @ Vt[:k] for A in outside]
        level = MARGIN * max(_spectral_norm(A, rng) for A in outside)
        rank = max(k, int(np.sum(values >= level)))
    return rank


def _spectral_norm(A: np.ndarray, rng: np.random.Generator) -> float:
    """The largest singular value, by Lanczos iterations if the matrix is not small."""
    if min(A.shape) < 64:
        return float(np.linalg.norm(A, 2))
    start = rng.normal(size=min(A.shape))
    return float(svds(A, k=1, v0=start, tol=1e-6, return_singular_vectors=False)[0])


def second_moment(data: MomentData, basis: np.ndarray) -> float:
    """E‖Bᵀx‖² of the data along a basis B (n, r)."""
    points = Atoms(1.0, np.ascontiguousarray(basis.T), Zero(data.n), np)
    products = data.inner_with(points, [0.0, 0.0, 1.0], gradient=False)
    return float(np.sum(np.asarray(products.values)))


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
