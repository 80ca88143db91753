"""Which order a model needs, and how to weight the orders against each other."""

from __future__ import annotations

import math

import numpy as np

from momentmix.covariance import free_parameters
from momentmix.dense import packed_size

#: Beyond this order, moments of samples say little that rounding and outliers leave standing.
HIGHEST_ORDER = 12
MARGIN = 1.2


def parameter_count(kind: str, m: int, n: int) -> int:
    return m - 1 + m * n + free_parameters(kind, m, n)


def _equations_and_unknowns(kind: str, m: int, n: int, order: int) -> tuple[int, int]:
    if kind == "tied":
        # One covariance for all takes up the second moment. What is left, the means about their
        # centre, lives in m-1 dimensions and must follow from orders 3 and above there.
        r = max(1, min(n, m - 1))
        return sum(packed_size(r, k) for k in range(3, order + 1)), (m - 1) * (r + 1)
    return sum(packed_size(n, k) for k in range(1, order + 1)), parameter_count(kind, m, n)


def is_enough(kind: str, m: int, n: int, order: int, margin: float = 1.0) -> bool:
    """Whether the distinct moments up to ``order`` outnumber the parameters."""
    if m == 1:
        return order >= 2
    equations, unknowns = _equations_and_unknowns(kind, m, n, order)
    return equations >= margin * unknowns


def needed_order(kind: str, m: int, n: int) -> int:
    """The smallest order ≥ 3 whose moments can determine the parameters, with margin."""
    order = 3
    while not is_enough(kind, m, n, order, MARGIN):
        order += 1
    return order


def check_order(kind: str, m: int, n: int, order: int) -> None:
    if not is_enough(kind, m, n, order):
        equations, unknowns = _equations_and_unknowns(kind, m, n, order)
        raise ValueError(
            f"order={order} is too low for {m} {kind} components in {n} feature(s): it gives "
            f"{equations} equations for {unknowns} unknowns; use order={needed_order(kind, m, n)} "
            "or more, or order='auto'"
        )


def gaussian_weights(order: int) -> list[float]:
    """1/k!: the inverse sampling variance of an entry of order k under N(0, I)."""
    return [1 / math.factorial(k) for k in range(order + 1)]


def sampling_weights(
    X: np.ndarray, weights: np.ndarray | None, order: int, rng: np.random.Generator
) -> list[float]:
    """w_k = tr S_kk / Σ_k' ‖S_kk'‖²_F, S the covariance of the sample moments of orders 1..d.

    The scalars that make Σ_k w_k ‖·‖² closest to the optimal weight S⁻¹. The traces are means over
    points, the norms means over pairs of distinct points of a subsample, through the centred Gram
    matrices of x^{⊗k}: entry (x, y) is ⟨x, y⟩^k. No tensor is formed.
    """
    q = min(len(X), 1000)
    if q < 4:
        return gaussian_weights(order)
    p = None if weights is None else weights / weights.sum()
    rows = X[rng.choice(len(X), q, replace=weights is not None, p=p)]
    gram = rows @ rows.T
    # Heavy tails make high powers overflow; the median keeps them in range and drops out again.
    unit = float(np.median(np.diag(gram))) or 1.0
    centred, traces = [], []
    power = np.ones_like(gram)
    for _ in range(order):
        power = power * (gram / unit)
        K = power - power.mean(axis=0) - power.mean(axis=1)[:, None] + power.mean()
        traces.append(float(np.mean(np.diag(K))) * q / (q - 1))
        centred.append(K - np.diag(np.diag(K)))
    pairs = q * (q - 1)
    norms = [[float(np.sum(a * b)) / pairs for b in centred] for a in centred]
    result = [1.0]
    for k in range(1, order + 1):
        scaled = sum(max(c, 0) * unit ** (j + 1) for j, c in enumerate(norms[k - 1]))
        value = traces[k - 1] / scaled if scaled > 0 else 0.0
        result.append(value if math.isfinite(value) and value > 0 else 1 / math.factorial(k))
    return result
