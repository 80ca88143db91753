"""An order d, or weights over the orders 0..d."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from momentmix.support.array import refuse_graph

Order: TypeAlias = "int | Sequence[float] | np.ndarray"
#: The highest order that is allowed. 170! is the largest factorial that float64 can hold, and
#: orders are weighted by 1/k!. Higher powers overflow or vanish too, except for numbers near 1.
MOST_ORDER = 170


def order_weights(order: Order) -> list[float]:
    """Weights w[0..d] over the orders: a whole number d stands for order d alone."""
    if isinstance(order, str | bytes | bool):
        raise TypeError(f"order must be a whole number or weights over orders, got {order!r}")
    refuse_graph("weights over orders", *(order if isinstance(order, list | tuple) else [order]))
    d = _whole_number(order)
    return _check_weights(order) if d is None else [0.0] * _not_negative(d) + [1.0]


def refuse_overflow(d: int) -> None:
    """Refuse an order whose factorials, by which covariances enter moments, overflow."""
    if d > MOST_ORDER:
        raise ValueError(
            f"order {d} is too high for distributions that both have covariances: it takes {d}!, "
            f"which overflows; give at most {MOST_ORDER}"
        )


def _whole_number(value: object) -> int | None:
    try:
        return operator.index(value)  # type: ignore[arg-type]  # this tests whether it is one
    except TypeError:
        return None


def _not_negative(d: int) -> int:
    if d < 0:
        raise ValueError(f"order must be at least 0, got {d}")
    return d


def _check_weights(order: object) -> list[float]:
    try:
        weights = [float(w) for w in order] if isinstance(order, Iterable) else None
    except (TypeError, ValueError):
        weights = None
    if weights is None:
        raise TypeError(
            "order must be a whole number d, or a sequence of d+1 numbers that weight the orders "
            f"0..d; got {order!r}"
        )
    if not weights:
        raise ValueError("order is an empty sequence; give at least the weight of order 0")
    if not all(math.isfinite(w) for w in weights):
        raise ValueError(f"order holds a weight that is not finite: {weights}")
    return weights


def is_single(weights: Sequence[float]) -> bool:
    """Whether weights over the orders 0..d are those of order d alone."""
    return not any(weights[:-1])


def whole_order(order: Order) -> int:
    """Check a single order, for results that cannot combine several, such as a dense tensor."""
    if isinstance(order, bool):
        raise TypeError(f"order must be a whole number, got {order!r}")
    d = _whole_number(order)
    if d is None:
        raise TypeError(f"order must be a whole number here, got {order!r}; a tensor has one order")
    return _not_negative(d)


def augmented_weights(order: int, omega: float) -> np.ndarray:
    """The weights by which the paper combines all orders up to d in one cost.

    Give the result as ``order`` to :func:`momentmix.inner` and the other functions of this package.

    Parameters
    ----------
    order : int
        The highest order, d.
    omega : float
        The constant ω. A larger one gives lower orders more weight.

    Returns
    -------
    ndarray of shape (order + 1,)
        C(d, k) ω^(2(d-k)) for k = 0 to d.

    Notes
    -----
    Append the constant ω to every point. Then order d of the longer points contains all orders 0 to
    d of the given ones, because E(⟨X, Y⟩ + ω²)^d expands by the binomial theorem. This is the
    augmented system of §4.3 of Pereira, Kileel and Kolda (arXiv:2202.06930).

    Examples
    --------
    >>> from momentmix import augmented_weights
    >>> augmented_weights(2, 1.0)
    array([1., 2., 1.])
    """
    d = whole_order(order)
    refuse_graph("weights over orders", omega)
    omega = float(omega)
    if not math.isfinite(omega):
        raise ValueError(f"omega must be finite, got {omega}")
    return np.array([math.comb(d, k) * omega ** (2 * (d - k)) for k in range(d + 1)])
