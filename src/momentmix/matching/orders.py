"""Which moments a fit matches: those that determine the parameters, in the cheapest form, weighted.

The order follows from the parameters that it must determine. Moments are explicit or implicit, and
of tensors or of rows, whichever is cheaper. By default each order is weighted by the inverse of its
sampling noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from momentmix.covariance import Kind
from momentmix.matching.model import Weighting
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


#: With at most so many distinct moments and parameters, a fit holds the moments and their Jacobian.
#: 3,100 has room for order 4 of 14 features (3,060) and order 5 of 10 (3,003), and the Jacobian
#: takes 17 MB at most. The numbers decide time and the order that "auto" takes; neither was tuned.
EXPLICIT_MOMENTS, EXPLICIT_PARAMETERS = 3100, 700
#: The most distinct moments that are formed in a pass over the data: they take 128 MiB. This is a
#: round number that was not tuned; more moments would take more memory.
MOST_MOMENTS = 1 << 24
#: The number of evaluations of the cost in a fit, as it is assumed to compare the times with and
#: without moment tensors. This is a round number; `make bench-tensors`
#: ("Moments or samples") shows that the choice is wrong only where the times hardly differ.
EVALUATIONS = 200


def is_explicit(kind: Kind, m: int, n: int, order: int) -> bool:
    """Whether a fit is an ordinary least-squares problem of moderate size."""
    few = total_size(n, order) <= EXPLICIT_MOMENTS
    return few and parameter_count(kind, m, n) <= EXPLICIT_PARAMETERS


def tensors_pay(p: int, kind: Kind, m: int, n: int, order: int) -> bool:
    """Whether one pass that makes moments is cheaper than a pass for each evaluation of the cost.

    Costs are in multiplications, with factors measured by benchmarks/tensors.py. A pass that makes
    moments takes N = C(n+d, d) per row. An evaluation from rows takes about 2 (n + q) + 12 d per
    row and component, for q numbers in a covariance. One from moments takes about
    2 n C(n+d-1, d-1) per component.
    """
    if is_explicit(kind, m, n, order):
        return True
    if total_size(n, order) > MOST_MOMENTS:
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


#: An order is ample if it gives AMPLE moments per parameter. From order 5 on 2.8 are enough,
#: because higher moments need many rows. Orders are tried up to AMPLE_ORDER, a round number. For
#: many rows, errors are in theory 1.15 to 1.4 times those of maximum likelihood then (`make
#: bench-tensors`, "passes to the maximum").
AMPLE, AMPLE_AFTER, AMPLE_ORDER = 4.0, (5, 2.8), 8
#: If moments are not explicit, order 4 is taken if it has at most this many distinct moments, which
#: is up to 68 features. This is a round number (8 MiB) that was not tuned; more would cost time.
AFFORDABLE = 1 << 20
#: With at most this many distinct moments, their inverse covariance is the weight of a fit. It has
#: the value of EXPLICIT_MOMENTS; inverting the matrix takes time that grows as the cube of it.
OPTIMAL_MOMENTS = 3100


def customary_order(kind: Kind, m: int, n: int, start: bool = False) -> int:
    """The order that "auto" takes: one with ample moments, if they are few enough to be explicit.

    It is at least 4 for up to some 70 features, because errors with order 3 are up to 20 times
    those with order 4 (benchmarks/default.py). If moments are not explicit, diagonal covariances
    take 3. A ``start`` of EM may have larger errors, and takes lower orders. Of one component the
    mean and the covariance are all there is.
    """
    if m == 1:
        return 2
    least = needed_order(kind, m, n)
    wanted = least if start and kind.diagonal else max(least, 4)
    if not kind.common:  # for tied covariances, only the means follow from the higher orders
        last, few = AMPLE_AFTER
        while wanted < max(least, AMPLE_ORDER):
            ample = TELLING if start else AMPLE if wanted < last else few
            if is_enough(kind, m, n, wanted, ample):
                break
            wanted += 1
    for order in range(min(wanted, HIGHEST_ORDER), 2 if kind.diagonal else 3, -1):
        if is_explicit(kind, m, n, order) and is_enough(kind, m, n, order):
            return order
    affordable = total_size(n, 4) <= AFFORDABLE and is_enough(kind, m, n, 4)
    return 4 if affordable and not kind.diagonal else least


def choose_order(
    kind: Kind,
    m: int,
    n: int,
    order: int | None = None,
    *,
    known: int | None = None,
    check: bool = True,
    start: bool = False,
) -> int:
    """The order to match; with ``check`` it must be able to determine the parameters.

    By default it is the customary order, of the moments up to the order ``known``. A ``start`` need
    not determine the parameters well.
    """
    if order is None:
        order = min(customary_order(kind, m, n, start), HIGHEST_ORDER)
        if known is not None and is_enough(kind, m, n, known):
            order = min(order, known)
    if check:
        check_order(kind, m, n, order)
    if known is not None and order > known:
        raise ValueError(
            f"{m} {kind.name} components in {n} feature(s) need moments of order {order}, but "
            f"these were kept up to order {known}; accumulate with order={order}"
        )
    return order


def check_order_weights(given: object, omega: float | None, order: int) -> tuple[float, ...]:
    """``order_weights`` over the orders; none if they are to be derived, or if ω is given."""
    if isinstance(given, str):
        return ()
    if omega is not None:
        raise ValueError(
            f"omega={omega!r} and order_weights both weight the orders; give one of them"
        )
    try:
        weights = tuple(float(w) for w in cast(Sequence[float], given))
    except (TypeError, ValueError):
        weights = ()
    if len(weights) != order + 1 or min(weights) < 0 or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"order_weights must be 'auto' or {order + 1} numbers that are not negative, "
            f"one for each order 0..{order}; got {given!r}"
        )
    return weights


def choose_weighting(
    explicit: bool, count: int, asked: str = "auto", rough: bool = False
) -> Weighting:
    """How the differences of ``count`` moments are weighted; a rough fit is only a start of EM."""
    few = explicit and count <= OPTIMAL_MOMENTS
    if asked == "optimal" and not few:
        raise ValueError(
            f"weighting='optimal' needs the inverse of a matrix of all {count} moments; it "
            f"serves up to {OPTIMAL_MOMENTS} of them and {EXPLICIT_PARAMETERS} parameters. "
            "Use weighting='auto' or 'orders'"
        )
    if asked == "orders" or not explicit:
        return "orders"
    return "optimal" if few and not rough else "hermite"  # starts of EM need not be efficient
