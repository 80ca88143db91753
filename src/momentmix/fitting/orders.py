"""Which orders of moments a fit matches, and how they are weighted."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Kind, common_noise, covariance_type
from momentmix.fitting.asked import KnownNoiseSettings, MatchingSettings, MomentSettings, Sizes
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

#: An order is ample if it gives AMPLE moments per parameter. From order 5 on 2.8 are enough,
#: because higher moments need many rows. Orders are tried up to AMPLE_ORDER, a round number. For
#: many rows, errors are in theory 1.15 to 1.4 times those of maximum likelihood then ("passes to
#: the maximum" in benchmarks/README.md).
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
    take 3. A ``start`` of EM may have larger errors, and takes lower orders.
    """
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
    sizes: Sizes,
    order: int | None = None,
    *,
    check: bool = True,
    start: bool = False,
) -> int:
    """The order to match; with ``check`` it must be able to determine the parameters.

    By default it is the customary order. A ``start`` need not determine the parameters well.
    """
    n, known = sizes.n, sizes.order
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


def moment_order(s: MomentSettings, sizes: Sizes) -> int:
    """The order that MomentMixture matches.

    Higher orders pay only with the efficient weight.
    """
    given = s.omega is not None or not isinstance(s.order_weights, str)
    efficient = not given and s.weighting != "orders" and s.moments != "samples"
    order = None if s.order == "auto" else int(s.order)
    kind = covariance_type(s.covariance_type)
    return choose_order(kind, int(s.n_components), sizes, order, start=not efficient)


def known_noise_order(s: KnownNoiseSettings, sizes: Sizes) -> int:
    """The order to match, which must be able to tell the means apart."""
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
    weights = check_order_weights(s, order)
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


def check_order_weights(s: MatchingSettings, order: int) -> tuple[float, ...] | None:
    """The given weights over the orders; None if they are to be derived, or if ω is given."""
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
