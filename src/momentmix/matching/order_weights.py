"""The default weight of each order in the cost: the inverse of its sampling noise."""

from __future__ import annotations

import math

import numpy as np


def gaussian_weights(order: int) -> list[float]:
    """1/k!: the inverse sampling variance of an entry of order k under N(0, I)."""
    return [1 / math.factorial(k) for k in range(order + 1)]


def sampling_weights(X: np.ndarray, weights: np.ndarray | None, order: int) -> list[float]:
    """1/k! times the ratio of normal sampling noise to that of the data, order by order.

    The noise of order k is the trace of the covariance of x^{⊗k}, E‖x‖^2k - ‖M_k‖², whose second
    term is small and left out. Under N(0, I) it is n (n+2) ··· (n+2k-2). Heavy tails make the ratio
    small for high orders.
    """
    n = X.shape[1]
    squares = np.sum(X * X, axis=1)
    result, normal, power = [1.0], 1.0, np.ones(len(X))
    for k in range(1, order + 1):
        normal *= n + 2 * (k - 1)
        power = power * squares
        noise = float(np.average(power, weights=weights))
        ratio = normal / noise if noise > 0 and math.isfinite(noise) else 1.0
        result.append(ratio / math.factorial(k))
    return result
