"""Which orders of moments a fit matches, and how they are weighted."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Kind, common_noise, covariance_type
from momentmix.fitting.asked import CommonSettings, KnownNoiseSettings, MixtureSettings, Sizes
from momentmix.matching.costs import EXPLICIT_PARAMETERS, is_explicit
from momentmix.matching.identifiability import (
    HIGHEST_ORDER,
    TELLING,
    check_order,
    check_rank,
    is_enough,
    needed_order,
)
from momentmix.matching.matching import Weighting
from momentmix.tensors.packed import total_size

#: How many times as many moments as parameters make an estimate nearly as good as maximum
#: likelihood: errors then are at most 1.3 times as large for many rows (benchmarks/tensors.py).
#: From the second order on fewer have to do, since high moments need many rows; and up to which
#: order they are sought.
AMPLE, AMPLE_AFTER, AMPLE_ORDER = 4.0, (5, 2.8), 8
#: Distinct moments of order 4 up to which that order is taken where moments are not explicit.
AFFORDABLE = 1 << 20
#: Distinct moments up to which their inverse covariance is the weight of a fit.
OPTIMAL_MOMENTS = 3100


def customary_order(kind: Kind, m: int, n: int, start: bool = False) -> int:
    """The order that "auto" takes: ample moments, where they are few enough to be explicit.

    It is at least 4, up to some 70 features: errors with order 3 are up to 20 times those with
    order 4 (benchmarks/default.py). Where moments are not explicit, 3 has to do for variances. A
    ``start`` of something better may have larger errors, and takes lower orders.
    """
    least = needed_order(kind, m, n)
    wanted = least if start and kind.diagonal else max(least, 4)
    if not kind.common:  # where the means alone must follow from the higher orders
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


def mixture_order(s: MixtureSettings, sizes: Sizes, check: bool = True, start: bool = False) -> int:
    """The order to match, with ``check`` one that can determine the parameters.

    A ``start`` need not determine them well.
    """
    kind = covariance_type(s.covariance_type)
    m, n, known = int(s.n_components), sizes.n, sizes.order
    start = start or not _is_efficient(s)
    if s.order == "auto":
        order = min(customary_order(kind, m, n, start), HIGHEST_ORDER)
        if known is not None and is_enough(kind, m, n, known):
            order = min(order, known)
    else:
        order = int(s.order)
    if check:
        check_order(kind, m, n, order)
    if known is not None and order > known:
        raise ValueError(
            f"{m} {kind.name} components in {n} feature(s) need moments of order {order}, but "
            f"these were kept up to order {known}; accumulate with order={order}"
        )
    return order


def _is_efficient(s: MixtureSettings) -> bool:
    """Whether moments may have the efficient weight, without which higher orders do not pay."""
    given = s.omega is not None or not isinstance(s.order_weights, str)
    return not given and s.weighting != "orders" and s.moments != "samples"


def known_noise_order(s: KnownNoiseSettings, sizes: Sizes) -> int:
    """The order to match, one that can tell the means apart."""
    order = s.order
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 3:
        raise ValueError(
            f"order must be a whole number of at least 3, got {order!r}: means and weights do "
            "not follow from the first two moments"
        )
    order = int(order)
    check_rank(s.n_components, sizes.n, order, single=False, name="n_components")
    if not isinstance(s.covariance, str):
        common_noise(s.covariance, sizes.n)  # a bad one is refused before any pass
    weights = given_order_weights(s, order)
    if weights is not None and (weights[-1] == 0 or not any(weights[1:-1])):
        raise ValueError(
            "order_weights must not be 0 for the highest order, nor for all others: one order "
            f"alone does not tell means from weights; got {s.order_weights!r}"
        )
    if sizes.order is not None and order > sizes.order:
        raise ValueError(
            f"order={order} is asked for, but these moments were kept up to order {sizes.order}; "
            f"accumulate with order={order}"
        )
    return order


def given_order_weights(s: CommonSettings, order: int) -> tuple[float, ...] | None:
    """Weights over the orders as given; None where they are to be derived, or ω is given."""
    if s.omega is not None or isinstance(s.order_weights, str):
        return None
    try:
        weights = tuple(float(w) for w in s.order_weights)
    except (TypeError, ValueError):
        weights = ()
    if len(weights) != order + 1 or min(weights) < 0 or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"order_weights must be 'auto' or {order + 1} numbers that are not negative, "
            f"one for each order 0..{order}; got {s.order_weights!r}"
        )
    return weights


def weighting(s: MixtureSettings, explicit: bool, count: int, rough: bool) -> Weighting:
    """How residuals of ``count`` moments are weighted, if neither ω nor weights are given."""
    if s.omega is not None or not isinstance(s.order_weights, str):
        return "orders"
    few = explicit and count <= OPTIMAL_MOMENTS
    if s.weighting == "optimal" and not few:
        raise ValueError(
            f"weighting='optimal' needs the inverse of a matrix of all {count} moments; it "
            f"serves up to {OPTIMAL_MOMENTS} of them and {EXPLICIT_PARAMETERS} parameters. "
            "Use weighting='auto' or 'orders'"
        )
    if s.weighting == "orders" or not explicit:
        return "orders"
    return "optimal" if few and not rough else "hermite"  # starts of EM need not be efficient
