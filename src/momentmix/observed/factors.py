"""Cholesky factors of many small matrices at once, one matrix for each row of a table.

They are stored as T (k, k, …): each entry of the matrix is an array over the rows. Python loops
over the entries, and NumPy over the rows.
"""

from __future__ import annotations

import numpy as np

#: How many pivots are multiplied before a logarithm is taken, which saves logarithms, and how large
#: a pivot or its inverse may then be. The product of 8 numbers below 1e30 is at most 1e240, which
#: float64 can hold.
TOGETHER, MODEST = 8, 1e30


def inverse_factors(T: np.ndarray) -> np.ndarray:
    """Replace T = LLᵀ by L⁻¹ in place, and return log det T / 2.

    Only the lower triangle of T (k, k, …) is read. About k³/2 multiplications for each matrix, in
    8k array operations: so few calls that threads hardly wait for each other, and no temporary
    array of products.
    """
    k = len(T)
    for b in range(k):
        T[b, b + 1 :] = 0.0
        if b:
            T[b:, b] -= np.einsum("ae...,e...->a...", T[b:, :b], T[b, :b])
        np.sqrt(T[b, b], out=T[b, b])
        T[b + 1 :, b] /= T[b, b]
    half_log = log_of_product(T[np.arange(k), np.arange(k)])
    for a in range(k):
        np.divide(1.0, T[a, a], out=T[a, a])
        if a:
            total = np.einsum("c...,cb...->b...", T[a, :a], T[:a, :a])
            np.multiply(total, -T[a, a], out=T[a, :a])
    return half_log


def log_of_product(pivots: np.ndarray) -> np.ndarray:
    """Σ_a log pivots_a along the first axis, with few (expensive) logarithms and no overflow."""
    if len(pivots) == 0:
        return np.zeros(pivots.shape[1:])
    modest = pivots.max(initial=0.0) < MODEST and pivots.min(initial=1.0) > 1 / MODEST
    step = TOGETHER if modest else 1
    products = (pivots[a : a + step].prod(axis=0) for a in range(0, len(pivots), step))
    return np.asarray(sum(np.log(product) for product in products))


def inverse(factors: np.ndarray) -> np.ndarray:
    """The lower triangle of T⁻¹ = L⁻ᵀL⁻¹, from L⁻¹; (k, k, …)."""
    result = np.empty_like(factors)
    for a in range(len(factors)):
        np.einsum("c...,cb...->b...", factors[a:, a], factors[a:, : a + 1], out=result[a, : a + 1])
    return result
