"""Which order a model needs, how to weight the orders, and which form of the moments is cheaper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from momentmix.covariance import Kind
from momentmix.moments.orders import MOST_ORDER
from momentmix.tensors.dense import packed_size
from momentmix.tensors.packed import COUNTLESS, total_size

#: Beyond this order, moments of samples say little that rounding and outliers leave standing.
HIGHEST_ORDER = 12
MARGIN = 1.2
#: How many times as many moments as parameters make an estimate nearly as good as maximum
#: likelihood, and the order up to which they are sought.
AMPLE, AMPLE_ORDER = 2.1, 8
#: Distinct moments of order 4 up to which that order is taken where moments are not explicit.
AFFORDABLE = 1 << 20

#: Distinct moments and parameters up to which a fit holds the moments and their Jacobian.
EXPLICIT_MOMENTS, EXPLICIT_PARAMETERS = 3000, 700
#: Distinct moments up to which their inverse covariance is the weight of a fit.
OPTIMAL_MOMENTS = 2000
#: Evaluations of the cost in a fit, for comparing ways to do it.
EVALUATIONS = 200


def parameter_count(kind: Kind, m: int, n: int) -> int:
    return m - 1 + m * n + kind.free_parameters(m, n)


def _equations_and_unknowns(kind: Kind, m: int, n: int, order: int) -> tuple[int, int]:
    if kind.common:
        # One covariance for all takes up the second moment. What is left, the means about their
        # centre, lives in m-1 dimensions and must follow from orders 3 and above there.
        r = max(1, min(n, m - 1))
        return max(0, total_size(r, order) - total_size(r, 2)), (m - 1) * (r + 1)
    return total_size(n, order) - 1, parameter_count(kind, m, n)


def is_enough(kind: Kind, m: int, n: int, order: int, margin: float = 1.0) -> bool:
    """Whether the distinct moments up to ``order`` outnumber the parameters."""
    if m == 1:
        return order >= 2
    equations, unknowns = _equations_and_unknowns(kind, m, n, order)
    return equations >= margin * unknowns


def needed_order(kind: Kind, m: int, n: int) -> int:
    """The smallest order ≥ 3 whose moments can determine the parameters, with margin."""
    if parameter_count(kind, m, n) > COUNTLESS / 2:
        raise ValueError(
            f"{m} components are more than any number of moments could determine; fit fewer"
        )
    return _lowest_order(3, lambda order: is_enough(kind, m, n, order, MARGIN))


def _lowest_order(least: int, enough: Callable[[int], bool]) -> int:
    """The lowest order from ``least`` on that is enough, by bisection."""
    low, high = least - 1, least
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def customary_order(kind: Kind, m: int, n: int) -> int:
    """The order that "auto" takes: ample moments, where they are few enough to be explicit.

    For covariance matrices at least 4, up to some 70 features: errors with order 3 are up to 20
    times those with order 4 (benchmarks/default.py). For variances alone 3 does as well where its
    moments are ample.
    """
    least = needed_order(kind, m, n)
    square = not kind.diagonal
    wanted = max(least, 4) if square else least
    if not kind.common:  # where the means alone must follow from the higher orders
        most = max(wanted, AMPLE_ORDER)
        while wanted < most and not is_enough(kind, m, n, wanted, AMPLE):
            wanted += 1
    for order in range(min(wanted, HIGHEST_ORDER), 3 if square else 2, -1):
        if is_explicit(kind, m, n, order) and is_enough(kind, m, n, order):
            return order
    affordable = square and total_size(n, 4) <= AFFORDABLE and is_enough(kind, m, n, 4)
    return 4 if affordable else least


def check_order(kind: Kind, m: int, n: int, order: int) -> None:
    if order > MOST_ORDER:
        raise ValueError(f"order={order} is too high: moments are matched up to {MOST_ORDER}")
    if not is_enough(kind, m, n, order):
        needed = needed_order(kind, m, n)
        equations, unknowns = _equations_and_unknowns(kind, m, n, order)
        remedy = f"use order={needed} or more, or order='auto'"
        if needed > HIGHEST_ORDER:
            remedy = f"they would need order {needed}; fit fewer components"
        raise ValueError(
            f"order={order} is too low for {m} {kind.name} components in {n} feature(s): it gives "
            f"{equations} equations for {unknowns} unknowns; {remedy}"
        )


#: (n, d, rank) below the generic rank where tensors have more than one decomposition: the defective
#: cases of Alexander and Hirschowitz, and those of Chiantini, Ottaviani and Vannieuwenhoven (2017).
SEVERAL = {(5, 3, 7), (3, 4, 5), (4, 4, 9), (5, 4, 14), (3, 6, 9), (6, 3, 9)}
#: At the generic rank itself, where they have one after all (Galuppi and Mella); n = 2 besides.
UNIQUE = {(4, 3, 5), (3, 5, 7)}


def is_identifiable(rank: int, n: int, d: int) -> bool:
    """Whether a generic symmetric tensor of that rank has one decomposition only, for d ≥ 3."""
    entries = packed_size(n, d)
    if rank == 1 or (n, d, rank) in UNIQUE or (n == 2 and 2 * rank == d + 1):
        return True
    return rank * n < entries and (n, d, rank) not in SEVERAL


def check_rank(rank: Any, n: int, d: int, single: bool, name: str = "rank") -> int:
    """The rank as a whole number, if order d, or all orders up to d, can tell its terms apart.

    All orders up to d in n features are order d in n + 1.
    """
    if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {rank!r}")
    rank = int(rank)
    dimensions = n if single else n + 1
    if not is_identifiable(rank, dimensions, d):
        most = min(rank, packed_size(dimensions, d) // dimensions + 1)
        while not is_identifiable(most, dimensions, d):
            most -= 1
        needed = d
        if dimensions > 1:
            needed = _lowest_order(d, lambda order: is_identifiable(rank, dimensions, order))
        order = f"order {d}" if single else f"moments up to order {d}"
        raise ValueError(
            f"{name}={rank} is more than {order} of {n} feature(s) can tell apart, which is {most}"
            + ("" if needed == d else f"; use order={needed} or more")
        )
    return rank


def is_explicit(kind: Kind, m: int, n: int, order: int) -> bool:
    """Whether a fit is an ordinary least-squares problem of moderate size."""
    few = total_size(n, order) <= EXPLICIT_MOMENTS
    return few and parameter_count(kind, m, n) <= EXPLICIT_PARAMETERS


def tensors_pay(p: int, kind: Kind, m: int, n: int, order: int) -> bool:
    """Whether one pass that makes moments is cheaper than a pass for each evaluation of the cost.

    In multiplications, with factors measured by benchmarks/tensors.py: a pass to the moments takes
    N = C(n+d, d) a row; an evaluation from rows about 2 (n + q) + 12 d a row and component, q the
    numbers of one covariance; one from moments about 2 n C(n+d-1, d-1) a component.
    """
    if is_explicit(kind, m, n, order):
        return True
    if total_size(n, order) > 1 << 24:  # 128 MiB
        return False
    width = kind.width(n)
    from_rows = EVALUATIONS * p * m * (2.0 * (n + width) + 12 * order)
    each = 2.0 * n * total_size(n, order - 1) + 4.0 * total_size(n, order - 2) * width
    from_tensors = 2.0 * p * total_size(n, order) + EVALUATIONS * m * each
    return from_tensors < from_rows


def gaussian_weights(order: int) -> list[float]:
    """1/k!: the inverse sampling variance of an entry of order k under N(0, I)."""
    return [1 / math.factorial(k) for k in range(order + 1)]


def sampling_weights(X: np.ndarray, weights: np.ndarray | None, order: int) -> list[float]:
    """1/k! times the ratio of normal sampling noise to that of the data, order by order.

    The noise of order k is tr S_kk, S the covariance of x^{⊗k}: E‖x‖^2k - ‖M_k‖², of which the
    second term is small and left out. Under N(0, I) it is n (n+2) ··· (n+2k-2). Heavy tails make
    the ratio small for high orders.
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
