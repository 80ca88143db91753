"""Hermite polynomials of rows: their means are moments that a normal distribution has none of."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial

import numpy as np

from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import entry_orders, multiplicities, removed

#: Numbers of a block of rows with all their polynomials.
_BLOCK = 1 << 21


def hermite_features(Z: np.ndarray, d: int) -> np.ndarray:
    """Hermite polynomials of orders 0..d of each row, of unit variance; (p, N).

    He_{I+a}(z) = z_a He_I(z) - Σ_{b∈I} [a=b] He_{I∖b}(z). Under N(0, I) the mean of each is nought,
    and none correlate. They are packed, and scaled by √(multiplicity / k!), so that squared lengths
    are those of the full tensors over k!. O(p N d).
    """
    p, n = Z.shape
    columns = np.ascontiguousarray(Z.T)  # polynomials are rows here, which are gathered faster
    orders = [np.ones((1, p))]
    for k in range(1, d + 1):
        indices, without = packed_indices(n, k), removed(n, k)[:, k - 1]
        last = indices[:, k - 1]
        here = orders[k - 1][without] * columns[last]
        for s in range(k - 1):
            same = np.flatnonzero(indices[:, s] == last)
            here[same] -= orders[k - 2][removed(n, k - 1)[without[same], s]]
        orders.append(here)
    sizes = np.array([factorial(k) for k in range(d + 1)], dtype=float)
    units = np.sqrt(multiplicities(n, d) / sizes[entry_orders(n, d)])
    result = np.concatenate(orders)
    result *= units[:, None]
    return result.T


def blocks_of_rows(p: int, width: int) -> Iterator[slice]:
    """Runs of rows, of which so many numbers each fit into the memory that is near."""
    step = max(64, _BLOCK // width)
    for start in range(0, p, step):
        yield slice(start, min(start + step, p))
