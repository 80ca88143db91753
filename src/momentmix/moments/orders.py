"""An order d, or weights over the orders 0..d."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

Order = int | Sequence[float]
#: The highest order whose factorial, and with it the weight 1/k!, is a floating-point number.
#: Powers beyond it overflow or vanish as well, but for numbers near 1.
MOST_ORDER = 170


def order_weights(order: Any) -> list[float]:
    """Weights w[0..d] over the orders: a whole number d stands for order d alone."""
    if isinstance(order, str | bytes | bool):
        raise TypeError(f"order must be a whole number or weights over orders, got {order!r}")
    try:
        d = operator.index(order)
    except TypeError:
        return _checked_weights(order)
    if d < 0:
        raise ValueError(f"order must be at least 0, got {d}")
    return [0.0] * d + [1.0]


def _checked_weights(order: Any) -> list[float]:
    try:
        weights = [float(w) for w in order]
    except (TypeError, ValueError) as error:
        raise TypeError(
            "order must be a whole number d, or a sequence of d+1 numbers that weight the orders "
            f"0..d; got {order!r}"
        ) from error
    if not weights:
        raise ValueError("order is an empty sequence; give at least the weight of order 0")
    if not all(math.isfinite(w) for w in weights):
        raise ValueError(f"order holds a weight that is not finite: {weights}")
    return weights


def is_single(weights: Sequence[float]) -> bool:
    """Whether weights over the orders 0..d are those of order d alone."""
    return not any(weights[:-1])


def whole_order(order: Any) -> int:
    """A single order, for what has no meaning over several (a dense tensor)."""
    if isinstance(order, bool):
        raise TypeError(f"order must be a whole number, got {order!r}")
    try:
        d = operator.index(order)
    except TypeError as error:
        raise TypeError(
            f"order must be a whole number here, got {order!r}; a tensor has one order"
        ) from error
    if d < 0:
        raise ValueError(f"order must be at least 0, got {d}")
    return d


def augmented_weights(order: int, omega: float) -> np.ndarray:
    """Weights over orders of the augmented system, C(d, k) ω^(2(d-k)) for k = 0..d.

    Appending the constant ω to every point turns order d of the longer points into all orders
    0..d of the given ones, because E(⟨X, Y⟩ + ω²)^d expands binomially (§4.3 of
    Pereira–Kileel–Kolda). Give the result as ``order`` to any function of this package.

    Parameters
    ----------
    order : int
        d, the highest order.
    omega : float
        ω, the appended constant.

    Returns
    -------
    ndarray of shape (order + 1,)
    """
    d = whole_order(order)
    omega = float(omega)
    if not math.isfinite(omega):
        raise ValueError(f"omega must be finite, got {omega}")
    return np.array([math.comb(d, k) * omega ** (2 * (d - k)) for k in range(d + 1)])
