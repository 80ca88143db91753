"""Sums of all monomials of degree up to d over the rows of an array, in one pass.

Moments of orders 0..d of x are one order-d moment of y = (1, x - centre). An entry with sorted
indices i_1 ≤ … ≤ i_d is a product of a left half (i_1 … i_h) and a right half, so the sums are
matrix products of left halves and right halves. The last index of a left half never exceeds the
first of its right half, so most of the products that a symmetric matrix product would form twice
are never formed. Left halves are sorted by their last index and right halves by their first, so
that every set needed is a contiguous range of rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from momentmix.support.array import (
    Array,
    Namespace,
    array_device,
    multiply_into,
    namespace,
    on_accelerator,
    read_only,
    subtract_into,
    to_numpy,
)
from momentmix.support.device import block_bytes
from momentmix.support.parallel import parallel_map, worker_count
from momentmix.tensors.dense import packed_indices, packed_size
from momentmix.tensors.packed import places

#: Bytes for the halves of one block of rows: so large that threads seldom wait for Python's lock,
#: and small enough for the caches. A round number without a recorded benchmark; only speed depends
#: on it.
_BLOCK_BYTES = 8 << 20
#: Rows in one matrix product inside a block. With 512 and few features, the BLAS uses its kernel
#: for small matrices, up to four times as fast. On a device many products run at once, and 8192
#: rows make their results small beside their factors. How they compare with other values is not
#: recorded; only speed depends on them.
_SLAB, _SLAB_ON_DEVICE = 512, 8192
#: The fewest left halves in one product on a device, because matrix kernels of GPUs work on tiles
#: of about this height. Not tuned; only speed depends on it.
_TILE_ON_DEVICE = 64


class Products(NamedTuple):
    """Which left halves are multiplied with which right halves, and where each sum is found."""

    left: int  # indices in a left half
    right: int  # indices in a right half
    cuts: list[tuple[int, int, int]]  # for each product: first and end left row, first right row
    gather: np.ndarray  # (N,) positions in the products, flattened one after the other


@lru_cache(maxsize=16)
def _plan(n: int, d: int, least: int | None = None) -> Products:
    """The plan for n features and order d, with at least ``least`` left halves in a product."""
    symbols, left = n + 1, d // 2
    right = d - left

    def left_start(b: int) -> int:  # left halves whose last index is below b
        return packed_size(b, left) if left else min(b, 1)

    def right_start(a: int) -> int:  # right halves whose first index is below a
        return packed_size(symbols, right) - packed_size(symbols - a, right)

    # Narrow cuts form fewer useless products, but a BLAS is slow with few rows. Its kernel for
    # small matrices needs fewer.
    if least is None:
        least = 8 if packed_size(symbols, right) <= 256 else 24
    edges = [0]
    for b in range(1, symbols + 1):
        if b == symbols or left_start(b) - left_start(edges[-1]) >= least:
            edges.append(b)
    cuts = [(left_start(a), left_start(b), right_start(a)) for a, b in pairwise(edges)]
    cuts = [cut for cut in cuts if cut[1] > cut[0]]
    width = packed_size(symbols, right)
    offsets = np.cumsum([0, *((stop - start) * (width - r) for start, stop, r in cuts)])
    indices = packed_indices(symbols, d)
    rows = np.zeros(len(indices), dtype=np.int64)
    for t in range(left):  # rank by last index, then by the one before it, and so on
        ranks = np.array([math.comb(i + t, t + 1) for i in range(symbols)], dtype=np.int64)
        rows += ranks[indices[:, t]]
    columns = places(indices[:, left:], symbols)
    group = np.searchsorted([start for start, _, _ in cuts], rows, side="right") - 1
    starts, firsts = (np.array([cut[i] for cut in cuts]) for i in (0, 2))
    gather = offsets[group] + (rows - starts[group]) * (width - firsts[group])
    return Products(left, right, cuts, read_only(gather + columns - firsts[group]))


def row_sums(X: Array, centre: np.ndarray, weights: Array | None, d: int) -> np.ndarray:
    """Σ_i w_i Π_{a∈I} (x_i - centre)_a for all multi-indices I of orders 0..d; (N,) float64.

    X is (p, n); weights are (p,), or None for ones. Takes about p N multiplications and additions
    in matrix products, N = C(n+d, d), on all cores or on the device of X.
    """
    p, n = X.shape
    xp = namespace(X)
    if d == 0:
        return np.array([float(p) if weights is None else float(xp.sum(weights))])
    there = on_accelerator(X)
    plan, slab = _plan(n, d, _TILE_ON_DEVICE if there else None), _SLAB
    height = packed_size(n + 1, plan.left) + packed_size(n + 1, plan.right) + n + 1
    if there:
        step, slab = max(256, block_bytes(X) // (8 * height)), _SLAB_ON_DEVICE
    else:
        step = int(np.clip(_BLOCK_BYTES // (8 * height), 64, 16 * _SLAB))
    if step > slab:
        step -= step % slab
    step = min(step, p)
    origin = xp.asarray(centre, dtype=xp.float64, device=array_device(X))
    starts = list(range(0, p, step))
    workers = worker_count(xp)
    run = len(starts) if there else -(-len(starts) // (2 * workers))
    jobs = [starts[i : i + run] for i in range(0, len(starts), run)]

    def work(job: list[int]) -> list[Array]:
        buffers = _Buffers(xp, plan, n, step, slab, X)
        total: list[Array] = []
        for start in job:
            rows = slice(start, min(start + step, p))
            products = buffers.products(
                X[rows, :], origin, None if weights is None else weights[rows]
            )
            if total and total[0].shape != products[0].shape:  # the last block is shorter
                total, products = (
                    [xp.sum(a, axis=0, keepdims=True) for a in x] for x in (total, products)
                )
            total = [a + b for a, b in zip(total, products, strict=True)] if total else products
        return total

    sums = np.zeros(1)
    for part in parallel_map(work, jobs, workers):
        flat = [xp.reshape(xp.sum(block, axis=0), (-1,)) for block in part]
        sums = sums + to_numpy(xp.concat(flat))  # a single copy from a device
    return sums[plan.gather]


class _Buffers:
    """Memory for the halves of one block of rows, reused for the next block."""

    def __init__(
        self, xp: Namespace, plan: Products, n: int, step: int, slab: int, like: Array
    ) -> None:
        self.xp, self.plan, self.symbols, self.slab = xp, plan, n + 1, slab
        device = array_device(like)

        def memory(rows: int) -> Array:
            return xp.empty((rows, step), dtype=xp.float64, device=device)

        self.ones = xp.ones((1, step), dtype=xp.float64, device=device)
        self.y = memory(n + 1)
        self.y[0, :] = self.ones[0, :]
        self.lefts = [memory(packed_size(n + 1, k)) for k in range(1, plan.left + 1)]
        self.rights = [memory(packed_size(n + 1, k)) for k in range(2, plan.right + 1)]

    def products(self, X: Array, centre: Array, weights: Array | None) -> list[Array]:
        """Σ of left halves times right halves over the rows of a block; one array for each cut."""
        xp, symbols, length = self.xp, self.symbols, X.shape[0]
        y = self.y[:, :length]
        subtract_into(y[1:, :], X.mT, centre[:, None])
        left = self.ones[:, :length]
        if weights is not None:
            left = xp.astype(weights, xp.float64, copy=False)[None, :]
        for k, buffer in enumerate(self.lefts, start=1):
            out, at = buffer[:, :length], 0
            for b in range(symbols):  # last index b: y_b times shorter halves with indices up to b
                count = packed_size(b + 1, k - 1)
                multiply_into(out[at : at + count, :], left[:count, :], y[b, :])
                at += count
            left = out
        right = y
        for k, buffer in enumerate(self.rights, start=2):
            out, at = buffer[:, :length], 0
            for a in range(symbols):  # first index a: y_a times shorter halves with indices from a
                count = packed_size(symbols - a, k - 1)
                multiply_into(out[at : at + count, :], right[right.shape[0] - count :, :], y[a, :])
                at += count
            right = out
        left, right = (_slabs(xp, half, self.slab) for half in (left, right))
        cuts = self.plan.cuts
        return [left[:, start:stop, :] @ right[:, first:, :].mT for start, stop, first in cuts]


def _slabs(xp: Namespace, half: Array, slab: int) -> Array:
    """(r, b) as (b / slab, r, slab) without a copy, or (1, r, b)."""
    rows, length = half.shape
    if length % slab:
        return half[None, :, :]
    return xp.permute_dims(xp.reshape(half, (rows, -1, slab)), (1, 0, 2))
