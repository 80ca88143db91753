"""What moments determine: the orders that a mixture needs, and the terms that a tensor can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from momentmix.covariance import Kind
from momentmix.moments.orders import MOST_ORDER
from momentmix.tensors.dense import packed_size
from momentmix.tensors.packed import COUNTLESS, total_size

#: The highest order that "auto" takes, because rounding and outliers spoil higher moments of
#: samples. This is a round number that was not tuned; few mixtures need so high an order.
HIGHEST_ORDER = 12
#: With this many moments per parameter, fits find the right minimum of the cost, and more moments
#: add only precision. How this number was found is not recorded.
TELLING = 2.1
#: The order that parameters need has at least this many moments per parameter, a little more than
#: counting requires. This is a round number that was not tuned; a smaller one gives lower orders.
MARGIN = 1.2


def parameter_count(kind: Kind, m: int, n: int) -> int:
    """Free parameters of m components in n features."""
    return m - 1 + m * n + kind.free_parameters(m, n)


def _equations_and_unknowns(kind: Kind, m: int, n: int, order: int) -> tuple[int, int]:
    if kind.common:
        # The shared covariance absorbs the second moment. So the centred means, which span m-1
        # dimensions, must follow from orders 3 and above there.
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


def check_order(kind: Kind, m: int, n: int, order: int) -> None:
    """Refuse an order that is too low for the parameters, or too high to be matched."""
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


#: The (n, d, rank) below the generic rank at which tensors have more than one decomposition: the
#: defective cases of Alexander and Hirschowitz, and those of Chiantini, Ottaviani and
#: Vannieuwenhoven (2017).
SEVERAL = {(5, 3, 7), (3, 4, 5), (4, 4, 9), (5, 4, 14), (3, 6, 9), (6, 3, 9)}
#: The (n, d, rank) at the generic rank at which tensors still have only one decomposition (Galuppi
#: and Mella), apart from n = 2.
UNIQUE = {(4, 3, 5), (3, 5, 7)}


def is_identifiable(rank: int, n: int, d: int) -> bool:
    """Whether a generic symmetric tensor of that rank has one decomposition only, for d ≥ 3."""
    entries = packed_size(n, d)
    if rank == 1 or (n, d, rank) in UNIQUE or (n == 2 and 2 * rank == d + 1):
        return True
    return rank * n < entries and (n, d, rank) not in SEVERAL


def check_rank(rank: object, n: int, d: int, single: bool, name: str = "rank") -> int:
    """The rank as a whole number, if order d, or all orders up to d, can tell its terms apart.

    All orders up to d in n features are the same as order d in n + 1 features.
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
