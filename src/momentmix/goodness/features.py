"""Hermite polynomials of rows, whose means are zero under a standard normal distribution."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial

import numpy as np
from scipy.special import comb
from scipy.stats import chi2

from momentmix.tensors.dense import packed_indices
from momentmix.tensors.isserlis import gaussian_moments
from momentmix.tensors.packed import entry_orders, multiplicities, removal_table

#: Rows farther out than all but this share of a standard normal are pulled in to that distance, so
#: that no single row dominates a test. A round number that was not tuned; the
#: tests keep their level with it (docs/does-it-fit.md).
FAR_OUT = 0.01
#: Numbers in a block of rows with all their polynomials, 16 MiB. It affects memory and speed only.
_BLOCK = 1 << 21


def hermite_features(Z: np.ndarray, d: int) -> np.ndarray:
    """Hermite polynomials of orders 0..d of each row, of unit variance; (p, N).

    He_{I+a}(z) = z_a He_I(z) - Σ_{b∈I} [a=b] He_{I∖b}(z). Under N(0, I) each has mean 0,
    and they are uncorrelated. They are packed, and scaled by √(multiplicity / k!), so that squared
    lengths are those of the full tensors over k!. O(p N d).
    """
    p, n = Z.shape
    columns = np.ascontiguousarray(Z.T)  # polynomials are rows here, for faster gathering
    orders = [np.ones((1, p))]
    for k in range(1, d + 1):
        indices, without = packed_indices(n, k), removal_table(n, k)[:, k - 1]
        last = indices[:, k - 1]
        here = orders[k - 1][without] * columns[last]
        for s in range(k - 1):
            same = np.flatnonzero(indices[:, s] == last)
            here[same] -= orders[k - 2][removal_table(n, k - 1)[without[same], s]]
        orders.append(here)
    result = np.concatenate(orders)
    result *= _units(n, d)[:, None]
    return result.T


def _units(n: int, d: int) -> np.ndarray:
    sizes = np.array([factorial(k) for k in range(d + 1)], dtype=float)
    return np.sqrt(multiplicities(n, d) / sizes[entry_orders(n, d)])


def drawn_in(n: int, d: int) -> tuple[float, float, np.ndarray]:
    """How far rows are pulled in, and the means of their polynomials after that.

    With x from N(0, I), z = t x min(1, c / |x|) lies within tc of the mean and has variance 1 like
    x. Returns c, t, and E He(z) of orders 0..d, (N,), with 0 for the constant. With
    q_j = E |z|^2j / (n (n + 2) ⋯ (n + 2j - 2)), which is 1 for x, E He_I(z) of even order k is
    E x^I times Σ_j C(k/2, j) (-1)^(k/2 - j) q_j. It is 0 for odd orders and for order 2.
    """
    square, halves = float(chi2.isf(FAR_OUT, n)), np.arange(max(d // 2, 1) + 1)
    products = np.cumprod([1.0, *(n + 2.0 * halves[:-1])])
    q = chi2.cdf(square, n + 2 * halves) + FAR_OUT * square**halves / products
    variance = q[1]
    q /= variance**halves
    factors = np.zeros(d + 1)
    for k in range(2, d + 1, 2):
        j = np.arange(k // 2 + 1)
        factors[k] = np.sum(comb(k // 2, j) * (-1.0) ** (k // 2 - j) * q[: len(j)])
    expected = _units(n, d) * gaussian_moments(np.zeros((1, n)), np.eye(n)[None], d)[0]
    return float(np.sqrt(square)), float(variance**-0.5), expected * factors[entry_orders(n, d)]


def blocks_of_rows(p: int, width: int) -> Iterator[slice]:
    """Slices of consecutive rows, short enough that ``width`` numbers for each fit into a block."""
    step = max(64, _BLOCK // width)
    for start in range(0, p, step):
        yield slice(start, min(start + step, p))
