"""Cholesky factors of many small matrices at once, laid out along rows.

A matrix a row is kept as arrays over the rows, one for each of its entries: T (k, k, …). Loops run
over the entries and vectors over the rows, so nothing is called for each row.
"""

from __future__ import annotations

import numpy as np

#: Roots of pivots of which the product is taken before its logarithm, if none is beyond a bound.
TOGETHER, MODEST = 8, 1e30


def inverse_factors(T: np.ndarray) -> np.ndarray:
    """L⁻¹ in the place of T = LLᵀ, of which the lower triangle is read; log det T / 2 is returned.

    T (k, k, …); some k³/2 multiplications a matrix in 8k operations on arrays: few calls, so that
    threads need not wait for each other, and no array of products in between.
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
    """Σ_a log pivots_a along the first axis: few logarithms, which are dear, without overflow."""
    if len(pivots) == 0:
        return np.zeros(pivots.shape[1:])
    modest = pivots.max(initial=0.0) < MODEST and pivots.min(initial=1.0) > 1 / MODEST
    step = TOGETHER if modest else 1
    products = (pivots[a : a + step].prod(axis=0) for a in range(0, len(pivots), step))
    return np.asarray(sum(np.log(product) for product in products))


def inverse(factors: np.ndarray) -> np.ndarray:
    """L⁻ᵀL⁻¹ = T⁻¹ from L⁻¹; (k, k, …), of which the lower triangle is made."""
    result = np.empty_like(factors)
    for a in range(len(factors)):
        np.einsum("c...,cb...->b...", factors[a:, a], factors[a:, : a + 1], out=result[a, : a + 1])
    return result
