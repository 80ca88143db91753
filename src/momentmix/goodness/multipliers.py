"""The null distribution of squared lengths of mean residuals, by random signs.

Under the null hypothesis the residuals e_i have mean 0, and Σ ε_i e_i with random signs ε_i is
distributed about like Σ e_i. The signs keep the size of each residual, so rows far out count as
much in the null distribution as in the statistic. A test of skewness is therefore not misled by
heavy tails, nor by a wrong variance of a moment under the mixture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from momentmix.goodness.features import blocks_of_rows
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import order_slice, total_size

#: Rows are summed with random signs into groups before the draws: as many groups as make 128 MiB of
#: numbers, but between 1,000 and 20,000. Round numbers that bound memory and time and were not
#: tuned; fewer groups make the null distribution a little coarser.
_MOST_NUMBERS, _LEAST_GROUPS, _MOST_GROUPS = 1 << 24, 1000, 20_000
#: Draws that are made in one matrix product. It affects memory and speed only.
_DRAWS = 128


def mean_residual(
    residuals: Callable[[slice], np.ndarray], counts: np.ndarray, width: int
) -> np.ndarray:
    """Σ c_i e_i / Σ c_i over all rows, block by block; (N,)."""
    total = np.zeros(width)
    for block in blocks_of_rows(len(counts), width):
        total += counts[block] @ residuals(block)
    return total / counts.sum()


def null_draws(
    residuals: Callable[[slice], np.ndarray],
    counts: np.ndarray,
    mean: np.ndarray,
    n: int,
    order: int,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """‖Σ_i √c_i ε_i (e_i - mean)‖² / Σ c_i of each order; (n_draws, order + 1).

    The root is there because a row that counts c times is c rows, each with its own sign.
    """
    width, p = total_size(n, order), len(counts)
    groups = min(p, max(_LEAST_GROUPS, min(_MOST_GROUPS, _MOST_NUMBERS // width)))
    roots = np.sqrt(counts / counts.sum())
    group_of = rng.permutation(p) % groups if groups < p else np.arange(p)
    signed = roots * rng.choice([-1.0, 1.0], size=p)
    sums = np.zeros((groups, width))
    for block in blocks_of_rows(p, width):
        np.add.at(sums, group_of[block], signed[block, None] * (residuals(block) - mean))
    draws = np.empty((n_draws, order + 1))
    for start in range(0, n_draws, _DRAWS):
        stop = min(start + _DRAWS, n_draws)
        means = rng.choice([-1.0, 1.0], size=(stop - start, groups)) @ sums
        draws[start:stop] = lengths(means, n, order)
    return draws


def lengths(means: np.ndarray, n: int, order: int) -> np.ndarray:
    """Squared lengths (…, order + 1) of packed residuals (…, N), order by order."""
    squares = means * means
    parts = [np.sum(squares[..., order_slice(n, k)], axis=-1) for k in range(order + 1)]
    return np.stack(parts, axis=-1)


def excess(mean: np.ndarray, n: int) -> float:
    """The mean of the Hermite polynomial of ‖z‖⁴, from packed mean residuals of orders 0..4.

    It is positive if rows lie far out more often than they should.
    """
    a, b, c, d = packed_indices(n, 4).T
    paired = (a == b) & (c == d)
    times = np.where(b == c, 1.0, 2.0 / np.sqrt(6))  # zzzz once, zzww twice
    return float(np.sum(mean[order_slice(n, 4)][paired] * times[paired]))
