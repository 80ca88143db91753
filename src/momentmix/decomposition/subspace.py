"""Few dimensions that hold the moments of data in many, and how many terms the moments have there.

The range of a moment tensor is that of its terms, so a decomposition can be found in as many
dimensions as it has terms; what the data are there is small.
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

#: Directions beyond those wanted, which a random sketch needs to hold them well.
MORE = 8
#: Rounds of subspace iteration, each of which reads the data once.
ROUNDS = 5
#: Entries of a flattened tensor up to which its singular values are taken as they are.
FLATTENED = 1 << 22
#: Samples below which they may be the terms themselves, ways to halve the others, and how far a
#: term must stand out.
FEW, SPLITS, MARGIN = 50, 3, 1.5


def slopes(data: Data, points: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """Σ_k w_k k T_k(·, x, …, x), a combination of the data, for each row x of points; (q, n)."""
    form = data.inner_with(Atoms(1.0, points, Zero(data.n), np), weights, gradient=True)
    return np.asarray(form.means)


def leading_subspace(
    data: Data, weights: Sequence[float], r: int, rng: np.random.Generator
) -> np.ndarray:
    """An orthonormal basis (n, r) of where the weighted moments are largest, nearly.

    Subspace iteration: the moments are contracted with random vectors of the last subspace, at
    first the second moment with any. Each round reads the data once, O(p n r).
    """
    q = min(data.n, r + MORE)
    basis = rng.normal(size=(data.n, q))
    for k in range(ROUNDS):
        if k < 2:
            sketch = slopes(data, basis.T, [0.0, 0.0, 1.0])
        else:
            sketch = slopes(data, rng.normal(size=(3 * q, q)) @ basis.T, weights)
        # Rows differ in length by the power of chance; as directions they count alike.
        sketch /= np.maximum(np.linalg.norm(sketch, axis=1, keepdims=True), 1e-300)
        basis = np.linalg.svd(sketch, full_matrices=False)[2][:q].T
    return basis[:, :r]


def augmented(moments: np.ndarray, n: int, weights: Sequence[float]) -> np.ndarray:
    """What to decompose, of moments of orders 0..d: order d alone, or all of them.

    Together they are the entries of one tensor of order d in n + 1 dimensions, that of (1, x).
    """
    return moments[order_slice(n, len(weights) - 1)] if is_single(weights) else moments


def estimated_rank(data: Data, weights: Sequence[float], rng: np.random.Generator) -> int:
    """How many terms the moments have that stand out from sampling noise.

    The singular values of the flattened tensor are compared with those of noise alone, which the
    difference of two halves of the samples shows, outside the terms already counted. Where there
    are no samples, or so few that they are the terms themselves, the widest gap between singular
    values tells.
    """
    noise: list[Data] = []
    if isinstance(data, AtomData) and len(data.atoms) >= FEW:
        noise = [data.halved(rng) for _ in range(SPLITS)]
    r = min(data.n, 32)
    while True:
        (flat, *others), most, complete = _flattened([data, *noise], weights, r, rng)
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


def _flattened(
    parts: list[Data], weights: Sequence[float], r: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], int, bool]:
    """The moments of some data as matrices, in one subspace where they are large.

    With the highest rank they can show, and whether all dimensions are there.
    """
    d, n = len(weights) - 1, parts[0].n
    rows, columns = (packed_size(n + 1, k) for k in halves(d))
    complete = rows * columns <= FLATTENED or 2 * r >= n
    if not complete:
        parts = parts[:2]
        bases = [leading_subspace(x, weights, r, rng) for x in parts]
        basis = np.linalg.qr(np.column_stack(bases))[0]
        parts = [x.compressed(basis, d) for x in parts]
        n = parts[0].n
    tensors = [augmented(x.moments(d), n, weights) for x in parts]
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
