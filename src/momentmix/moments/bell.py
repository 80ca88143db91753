"""Complete Bell polynomials: moments from cumulants (§2.4 of Pereira–Kileel–Kolda).

Cumulants and polynomials are lists of arrays over pairs of atoms. κ_i is ``kappa[i - 1]``, or None
if it is zero for every pair. B_k is ``bell[k - 1]``; B_0 = 1 is left out. κ_1 is never None and
covers all pairs; the others may have a single row or column if its entries are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from momentmix.support.array import Array, plus_multiple, plus_product

Cumulants: TypeAlias = "Sequence[Array | None]"
#: ∂F/∂κ_1..∂F/∂κ_d: a number if it is the same for all pairs, and None if κ_i is None.
Derivatives: TypeAlias = "list[Array | float | None]"


def bell_polynomials(kappa: Cumulants) -> list[Array]:
    """B_1..B_d of κ_1..κ_d by B_k = Σ_{i<k} C(k-1, i) B_i κ_{k-i}, Eq. (2.4).

    With κ_3 and higher zero, this is the three-term recursion of Thms. 3.5, 4.3 and 5.2. O(d²)
    passes over arrays of the size of κ_1.
    """
    if not kappa:
        return []
    first = kappa[0]
    assert first is not None
    bell = [first]
    for k in range(2, len(kappa) + 1):
        total = first * bell[-1]  # i = k-1; a new array, to which the rest is added in place
        for i in range(k - 2, 0, -1):
            x = kappa[k - i - 1]
            if x is not None:
                total = plus_product(total, math.comb(k - 1, i), x, bell[i - 1])
        last = kappa[k - 1]  # i = 0
        if last is not None:
            total += last
        bell.append(total)
    return bell


def bell_derivatives(
    kappa: Cumulants, bell: Sequence[Array], weights: Sequence[float]
) -> Derivatives:
    """∂F/∂κ_1..∂F/∂κ_d of F = Σ_k weights[k] B_k, where ∂B_k/∂κ_i = C(k, i) B_{k-i}, Eq. (2.5)."""
    return [
        None
        if x is None
        else _combination(bell, [math.comb(k, i) * weights[k] for k in range(i, len(weights))])
        for i, x in enumerate(kappa, 1)
    ]


def _combination(bell: Sequence[Array], weights: Sequence[float]) -> Array | float:
    """Σ_k weights[k] B_k."""
    total: Array | float = float(weights[0])
    for weight, b in zip(weights[1:], bell, strict=False):
        if weight != 0:
            nothing = isinstance(total, float) and total == 0
            total = weight * b if nothing else plus_multiple(total, weight, b)
    return total
