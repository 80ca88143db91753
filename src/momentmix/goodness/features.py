"""Hermite polynomials of rows: their means are moments that a normal distribution has none of."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial

import numpy as np

from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import entry_orders, multiplicities, plus_gaussian, removed

#: Numbers of a block of rows with all their polynomials.
_BLOCK = 1 << 21


def hermite_features(Z: np.ndarray, covariance: np.ndarray, d: int) -> np.ndarray:
    """Hermite polynomials of orders 0..d of each row, each of about unit variance; (p, N).

    With C the covariance (n, n), He_{I+a}(z) = z_a He_I(z) - Σ_{b∈I} C_ab He_{I∖b}(z). Under
    N(0, C) the mean of each is nought, and orders do not correlate. They are packed, and scaled by
    √(multiplicity / k!), so that squared lengths are those of the full tensors over k!. O(p N d).
    """
    p, n = Z.shape
    orders = [np.ones((p, 1))]
    for k in range(1, d + 1):
        indices, without = packed_indices(n, k), removed(n, k)[:, k - 1]
        last = indices[:, k - 1]
        here = orders[k - 1][:, without] * Z[:, last]
        for s in range(k - 1):
            twice = removed(n, k - 1)[without, s]
            here -= orders[k - 2][:, twice] * covariance[indices[:, s], last]
        orders.append(here)
    return np.concatenate(orders, axis=1) * _units(n, d)


def hermite_moments(moments: np.ndarray, covariance: np.ndarray, d: int) -> np.ndarray:
    """The means of these polynomials under a distribution with packed moments (N,); (N,).

    They are its moments with a normal distribution of the covariance taken out.
    """
    n = len(covariance)
    return plus_gaussian(moments, n, covariance=-covariance) * _units(n, d)


def blocks_of_rows(p: int, width: int) -> Iterator[slice]:
    """Runs of rows, of which so many numbers each fit into the memory that is near."""
    step = max(64, _BLOCK // width)
    for start in range(0, p, step):
        yield slice(start, min(start + step, p))


def _units(n: int, d: int) -> np.ndarray:
    sizes = np.array([factorial(k) for k in range(d + 1)], dtype=float)
    return np.sqrt(multiplicities(n, d) / sizes[entry_orders(n, d)])
