"""The bilinear form Σ_k w_k ⟨M_P^(k), M_Q^(k)⟩ for each atom of P, in tiles that fit a cache.

Every quantity of Pereira–Kileel–Kolda is this form or a derivative of it. For an atom of P,
    u_i = Σ_j λ̃_j Σ_k w_k B_k(κ^(ij)_1, …, κ^(ij)_k),
and the whole form is Σ_i λ_i u_i. The pairs (i, j) are processed in tiles with small temporaries,
so memory does not grow with the number of atoms on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

from momentmix.moments.atoms import Atoms
from momentmix.moments.bell import Derivatives, bell_derivatives, bell_polynomials
from momentmix.moments.cumulants import FEATURE_BLOCK, cumulants
from momentmix.support.array import Array, array_device, on_accelerator
from momentmix.support.device import block_bytes
from momentmix.support.parallel import parallel_map, worker_count

#: Bytes for the temporaries of one tile, about what a core's cache holds; a device gets what it has
#: room for. Doubled to 8 MiB when tiles moved to threads, with benchmarks/core.py; the comparison
#: is not recorded. It affects only memory and speed.
TILE_BYTES = 8 << 20


class InnerProducts(NamedTuple):
    """u_i = Σ_k w_k ⟨M_i^(k), M^(k)⟩ of each atom i of P with a distribution of moments M.

    ``values`` (m,) are the u_i. ``means`` and ``covariances`` are the gradients of Σ_i λ_i u_i with
    respect to P, each in the shape of its parameter. They are None if no gradient was asked for,
    and ``covariances`` also if P are points.
    """

    values: Array
    means: Array | None
    covariances: Array | None

    def each(self, function: Callable[[Array], Array]) -> InnerProducts:
        """What a function makes of each of the three."""
        return InnerProducts(
            function(self.values), *(None if x is None else function(x) for x in self[1:])
        )


def bilinear(P: Atoms, Q: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
    """u_i for each atom of P and, if asked, the gradient in the means and covariances of P."""
    if Q.are_points:
        Q = Q.as_points()
    if not gradient and P.are_points:
        P = P.as_points()
    # So few pairs are a tile for any covariances, and finding its size would take as long.
    if 8 * len(weights) * len(P) * len(Q) * P.n_features**2 < TILE_BYTES:
        return _tile(P, Q, weights, gradient)
    workers = worker_count(P.xp)
    p_step, q_step = _tile_shape(P, Q, len(weights) - 1, workers)
    rows = _splits(len(P), p_step, workers)
    columns = _splits(len(Q), q_step, workers if len(rows) == 1 else 1)
    # A task sums the tiles of one block of rows over a run of columns. Runs are few, so that their
    # partial sums take little memory however many columns there are.
    runs = _group(columns, -(-4 * workers // len(rows)))
    tasks = [(i, run) for i in range(len(rows)) for run in runs]

    def work(task: tuple[int, list[slice]]) -> InnerProducts:
        part = P.take(rows[task[0]])
        return reduce(_plus, (_tile(part, Q.take(c), weights, gradient) for c in task[1]))

    sums = parallel_map(work, tasks, workers)
    blocks = [reduce(_plus, sums[i : i + len(runs)]) for i in range(0, len(sums), len(runs))]
    return _join(blocks, P)


def _tile(P: Atoms, Q: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
    """The inner products for one tile of pairs, with all temporaries in memory at once."""
    xp = P.xp
    kappa, pullback = cumulants(P, Q, len(weights) - 1)
    bell = bell_polynomials(kappa)
    column = Q.column[:, 0]
    parts = [w * (b @ column) for w, b in zip(weights[1:], bell, strict=True) if w != 0]
    if weights[0] != 0 or not parts:
        parts.append(_order_zero(P, Q, weights[0]))
    values = reduce(add, parts)
    if not gradient:
        return InnerProducts(values, None, None)
    if not kappa:
        zero = None if P.covariance.zero else xp.zeros_like(P.covariance.array)
        return InnerProducts(values, xp.zeros_like(P.means), zero)
    derivatives: Derivatives
    if isinstance(Q.weights, float):
        derivatives = bell_derivatives(kappa, bell, [w * Q.weights for w in weights])
    else:
        row, plain = Q.weights[None, :], bell_derivatives(kappa, bell, weights)
        derivatives = [None if g is None else row * g for g in plain]
    return InnerProducts(values, *pullback(derivatives))


def _order_zero(P: Atoms, Q: Atoms, weight: float) -> Array:
    """The order-0 term, which is the total weight of Q; (m,)."""
    xp = P.xp
    dtype = xp.result_type(P.means, Q.means)
    ones = xp.ones(len(P), dtype=dtype, device=array_device(P.means))
    total = len(Q) * Q.weights if isinstance(Q.weights, float) else xp.sum(Q.weights)
    return ones * (weight * total)


def _tile_shape(P: Atoms, Q: Atoms, d: int, workers: int) -> tuple[int, int]:
    """How many atoms of P and of Q make a tile whose temporaries fit the budget."""
    n = P.means.shape[1]
    number = 8  # bytes of a float64
    budget = block_bytes(P.means) if on_accelerator(P.means) else TILE_BYTES
    # Bytes that the kernel in ``cumulants`` keeps for each pair, each atom of P and each of Q.
    pair = number * (d + 5)
    per_p = per_q = number * 2 * n
    points = Q.covariance.zero or P.are_points
    thin = P.covariance.thin and Q.covariance.thin
    a, b = P.covariance.rank + 1, Q.covariance.rank + 1
    diagonal = points or (thin and a + b == 2)
    if points:
        per_q += number * (P.covariance.width(n) + 3 * P.covariance.rank * len(P))
        if not Q.covariance.shared:
            per_p += number * Q.covariance.width(n) * (1 if Q.covariance.thin else n)
            per_p += number * 3 * Q.covariance.rank * len(Q)
        budget *= 8 if a + b > 2 else 1  # each tile copies the loadings
    elif diagonal:
        per_p = per_q = number * 3 * d * min(n, FEATURE_BLOCK)
        budget *= 8
    elif thin:
        per_p, per_q = (number * 3 * k * k * min(n, FEATURE_BLOCK) for k in (a, b))
        pair += number * 4 * d * (a + b) ** 2
        budget *= 8
    else:
        budget *= 2
        vectors, matrices = number * 3 * d * n, number * (1 + d // 2) * n * n
        pair += vectors
        if Q.covariance.shared or P.covariance.shared:
            per_p += 0 if P.covariance.shared else matrices
            per_q += 0 if Q.covariance.shared else matrices
        else:
            pair += matrices
    too_little_to_share = len(P) * len(Q) * n**3 < 10**7
    most = len(P) if diagonal or too_little_to_share else -(-len(P) // workers)
    p_step = max(1, min(most, 256, budget // 2 // (per_p + min(len(Q), 16) * pair)))
    q_step = max(1, min(len(Q), (budget - p_step * per_p) // (per_q + p_step * pair)))
    return p_step, q_step


def _splits(length: int, step: int, workers: int) -> list[slice]:
    """Even slices of about ``step``; if there are several, their number divides by ``workers``.

    Long slices are multiples of 64, so that the products inside can be cut into even slabs.
    """
    count = max(1, -(-length // step))
    if count > 1:
        count = min(length, -(-count // workers) * workers)
    grain = 64 if length // count > 256 else 1
    edges = [round(length * i / count / grain) * grain for i in range(count)] + [length]
    return [slice(a, b) for a, b in pairwise(edges)]


def _group(slices: list[slice], groups: int) -> list[list[slice]]:
    groups = min(groups, len(slices))
    edges = [len(slices) * i // groups for i in range(groups + 1)]
    return [slices[a:b] for a, b in pairwise(edges)]


def _plus(a: InnerProducts, b: InnerProducts) -> InnerProducts:
    """Add the inner products with two sets of atoms."""

    def plus(x: Array | None, y: Array | None) -> Array | None:
        return None if x is None or y is None else x + y

    return InnerProducts(
        a.values + b.values, plus(a.means, b.means), plus(a.covariances, b.covariances)
    )


def _join(parts: list[InnerProducts], P: Atoms) -> InnerProducts:
    """Join the inner products of consecutive blocks of P's atoms."""
    if len(parts) == 1:
        return parts[0]
    values = P.xp.concat([part.values for part in parts])
    means = [part.means for part in parts if part.means is not None]
    covariances = [part.covariances for part in parts if part.covariances is not None]
    if not means:
        return InnerProducts(values, None, None)
    if not covariances:
        return InnerProducts(values, P.xp.concat(means), None)
    # The gradient in a shared covariance is the sum over blocks; others are concatenated.
    joined = reduce(add, covariances) if P.covariance.shared else P.xp.concat(covariances)
    return InnerProducts(values, P.xp.concat(means), joined)
