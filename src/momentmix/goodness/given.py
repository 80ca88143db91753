"""What tests share: checks of their input, Hermite polynomials of rows, and lengths of means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import factorial
from typing import NamedTuple

import numpy as np
from scipy.special import comb
from scipy.stats import chi2

from momentmix.distributions.mixture import Mixture
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.support.array import ArrayLike, as_float_array, to_numpy
from momentmix.support.checks import whole_number
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.isserlis import gaussian_moments
from momentmix.tensors.packed import (
    entry_orders,
    multiplicities,
    order_slice,
    removal_table,
    size_in_words,
    total_size,
)

#: The fewest rows that are tested. A small number that was not tuned: tests of fewer rows would
#: find only the grossest differences.
LEAST_ROWS = 8
#: The most multiplications of a test whose order nobody asked for; beyond them the default order is
#: lowered. A round number that was not tuned; it affects which orders are tested by default.
TEST_WORK = 2e10


#: The most moments when an order is asked for; more raise an error. Where those up to order 2 are
#: more, as of some 2,000 features, only means are compared by default. A round number, not tuned.
MOST_ASKED_FOR = 2_000_000
#: The highest order whose multiplicities fit in 64-bit integers: 20! does, 21! does not.
HIGHEST_COMPARED = 20


class UntestableError(ValueError):
    """The mixture or the rows cannot be tested; the message says why."""


def tested_mixture(model: object) -> Mixture:
    """A mixture, or that of a fitted estimator, in NumPy and float64."""
    if isinstance(model, GaussianMixture | MomentMixture):
        found = getattr(model, "mixture_", None)
        if found is None:
            raise ValueError(f"the {type(model).__name__} is not fitted; call fit first")
        model = found
    if not isinstance(model, Mixture):
        raise TypeError(
            f"a Mixture, or a fitted GaussianMixture or MomentMixture, is needed, got "
            f"{type(model).__name__}; of another estimator give mixture_, "
            "with estimated=False"
        )
    if model.background is not None:
        raise UntestableError(
            "a test compares all rows with the components, and this mixture has a background for "
            "outliers; fit the rows that predict does not give -1, and test that fit"
        )
    return model.on(np.empty(0))


def check_rows(X: ArrayLike, name: str = "X", gaps: bool = False) -> np.ndarray:
    """Rows (p, n) in NumPy and float64, without gaps unless they are allowed."""
    array = to_numpy(as_float_array(X, name, (2,))).astype(np.float64, copy=False)
    if np.isinf(array).any():
        raise ValueError(f"{name} must not hold infinity")
    if not gaps and np.isnan(array).any():
        raise ValueError(f"{name} must not hold NaN here; fill the gaps, or drop those rows")
    return array


def rows_to_test(
    mixture: Mixture, X: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that have weight and some value, and how often each counts; (p, n) and (p,)."""
    rows = check_rows(X, gaps=True)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} feature(s), but the mixture has {mixture.n_features}"
        )
    counts = np.ones(len(rows))
    if sample_weight is not None:
        counts = to_numpy(as_float_array(sample_weight, "sample_weight", (1,))).astype(np.float64)
        if counts.shape != (len(rows),) or not np.all(counts >= 0) or np.isinf(counts).any():
            raise ValueError(
                f"sample_weight must be {len(rows)} numbers, one for each row and none of them "
                "negative"
            )
    told = (counts > 0) & ~np.isnan(rows).all(axis=1)
    if np.sum(told) < LEAST_ROWS:
        raise UntestableError(
            f"a test needs at least {LEAST_ROWS} rows, got {np.sum(told)}, not counting rows "
            "without weight or values"
        )
    return rows[told], counts[told]


class Work(NamedTuple):
    """The number of multiplications that a test takes, roughly."""

    each: float  # for each moment
    once: float  # for all of them together

    def of(self, n: int, order: int) -> float:
        """Of all moments of n features up to an order."""
        return total_size(n, order) * self.each + self.once


def check_order(order: int, n: int) -> None:
    """Raise an error if n features have too many moments of this order to compare."""
    if total_size(n, order) > MOST_ASKED_FOR:
        raise UntestableError(
            f"order {order} of {n} feature(s) has {size_in_words(total_size(n, order))} distinct "
            f"moments; up to {MOST_ASKED_FOR:,} are compared, so take fewer features"
        )
    if order > HIGHEST_COMPARED:
        raise ValueError(f"moments are compared up to order {HIGHEST_COMPARED}, got {order}")


def order_to_test(order: int | None, n: int, work: Work) -> int:
    """The highest order: the one asked for, or 4, or less where that would be costly."""
    if order is None:
        order = 4
        while order > 2 and work.of(n, order) > TEST_WORK:
            order -= 1
    whole_number("order", order, 1)
    check_order(order, n)
    return int(order)


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

    Under the null hypothesis the residuals e_i have mean 0, and Σ ε_i e_i with random signs ε_i is
    distributed about like Σ e_i. The signs keep the size of each residual, so rows far out count as
    much in the null distribution as in the statistic. A test of skewness is therefore not misled by
    heavy tails, nor by a wrong variance of a moment under the mixture. The root is there because a
    row that counts c times is c rows, each with its own sign.
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
