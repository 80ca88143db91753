"""A subspace of few dimensions that holds the moments of data, and the number of terms there.

The terms of a moment tensor span its range, so a decomposition can be found in as many dimensions
as it has terms, where tensors are small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.covariance import Zero
from momentmix.data.sources import AtomData, Data
from momentmix.decomposition.spectral import flattening, halves, highest_rank
from momentmix.moments.atoms import Atoms
from momentmix.moments.orders import is_single
from momentmix.tensors.dense import packed_size
from momentmix.tensors.packed import order_slice

#: The directions of a random sketch beyond those wanted, which make it accurate. Between 5 and 10
#: are customary (Halko, Martinsson and Tropp, 2011).
MORE = 8
#: The rounds of subspace iteration, each of which reads the data once. This is a round number that
#: was not tuned; more rounds cost passes and find the subspace better.
ROUNDS = 5
#: A flattened tensor of at most this many entries (32 MiB) is decomposed in all dimensions. This is
#: a round number that was not tuned; larger ones take more time and memory.
FLATTENED = 1 << 22
#: How the rank is estimated. With fewer than FEW samples, each may be a term itself. Others are
#: halved in SPLITS ways, and a term must exceed the noise of all by MARGIN. These are round numbers
#: that were not tuned; a smaller MARGIN counts more terms.
FEW, SPLITS, MARGIN = 50, 3, 1.5


def slopes(data: Data, points: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """Σ_k w_k k T_k(·, x, …, x) for each row x of points; (q, n)."""
    form = data.inner_with(Atoms(1.0, points, Zero(data.n), np), weights, gradient=True)
    return np.asarray(form.means)


def leading_subspace(
    data: Data, weights: Sequence[float], r: int, rng: np.random.Generator
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


def estimate_rank(data: Data, weights: Sequence[float], rng: np.random.Generator) -> int:
    """The number of terms of the moments that stand out from sampling noise.

    The singular values of the flattened tensor are compared with those of noise, which is the
    difference of two halves of the samples outside the terms already counted. Without samples, or
    with so few that they may be the terms themselves, the widest gap between singular values
    decides.
    """
    noise: list[Data] = []
    if isinstance(data, AtomData) and len(data.atoms) >= FEW:
        noise = [data.halve(rng) for _ in range(SPLITS)]
    r = min(data.n, 32)
    while True:
        (flat, *others), most, complete = _flatten([data, *noise], weights, r, rng)
        U, values, Vt = np.linalg.svd(flat, full_matrices=False)
        if values[0] == 0:
            return 0
        exact = int(np.sum(values > 1e-10 * values[0])) < len(values)
        rank = _before_the_gap(values, most)
        if noise and not exact:
            rank = _above_noise(U, values, Vt, others)
        if rank < r or complete:
            return min(rank, most)
        r = min(data.n, 2 * r)


def _flatten(
    parts: list[Data], weights: Sequence[float], r: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], int, bool]:
    """The moments of some data as matrices, in one subspace where they are large.

    Also the highest rank that they can show, and whether the subspace is the whole space.
    """
    d, n = len(weights) - 1, parts[0].n
    rows, columns = (packed_size(n + 1, k) for k in halves(d))
    complete = rows * columns <= FLATTENED or 2 * r >= n
    if not complete:
        parts = parts[:2]
        bases = [leading_subspace(x, weights, r, rng) for x in parts]
        basis = np.linalg.qr(np.column_stack(bases))[0]
        parts = [x.compress(basis, d) for x in parts]
        n = parts[0].n
    tensors = [augment(x.moments(d), n, weights) for x in parts]
    n += not is_single(weights)
    return [flattening(T, n, d) for T in tensors], highest_rank(n, d), complete


def _before_the_gap(values: np.ndarray, most: int) -> int:
    logs = np.log(np.maximum(values[: most + 1], 1e-12 * values[0]))
    return int(np.argmax(logs[:-1] - logs[1:])) + 1 if len(logs) > 1 else 1


def _above_noise(U: np.ndarray, values: np.ndarray, Vt: np.ndarray, noise: list[np.ndarray]) -> int:
    for k, value in enumerate(values):
        outside = [A - U[:, :k] @ (U[:, :k].T @ A) for A in noise]
        outside = [A - (A @ Vt[:k].T) @ Vt[:k] for A in outside]
        if value < MARGIN * max(np.linalg.norm(A, 2) for A in outside):
            return k
    return len(values)


def second_moment(data: Data, basis: np.ndarray) -> float:
    """E‖Bᵀx‖² of the data along a basis B (n, r)."""
    points = Atoms(1.0, np.ascontiguousarray(basis.T), Zero(data.n), np)
    products = data.inner_with(points, [0.0, 0.0, 1.0], gradient=False)
    return float(np.sum(np.asarray(products.values)))
