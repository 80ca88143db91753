"""Complete Bell polynomials: moments from cumulants (§2.4 of Pereira–Kileel–Kolda)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from momentmix._array import Array

#: κ_1..κ_d, one array of pairs for each; None stands for a cumulant that is zero for every pair.
Cumulants = Sequence[Array | None]


def bell_polynomials(kappa: Cumulants) -> list[Array | None]:
    """B_1..B_d of the cumulants κ_1..κ_d.

    B_k = Σ_{i<k} C(k-1, i) B_i κ_{k-i} with B_0 = 1, Eq. (2.4) of Pereira–Kileel–Kolda. The entry
    of κ_i stands at ``kappa[i - 1]``, that of B_k at ``result[k - 1]``; None is a zero. With κ_3
    and higher zero, this is the three-term recursion of Thms. 3.5, 4.3 and 5.2. O(d²) passes over
    arrays of the size of one κ.
    """
    bell: list[Array | None] = []
    for k in range(1, len(kappa) + 1):
        total = kappa[k - 1]  # i = 0, where B_0 = 1
        for i in range(1, k):
            x, b = kappa[k - i - 1], bell[i - 1]
            if x is None or b is None:
                continue
            binomial = math.comb(k - 1, i)
            term = x * b if binomial == 1 else (binomial * x) * b
            total = term if total is None else total + term
        bell.append(total)
    return bell


def bell_derivatives(
    bell: Sequence[Array | None], weights: Sequence[float]
) -> list[Array | float]:
    """∂F/∂κ_1..∂F/∂κ_d of F = Σ_k weights[k] B_k.

    ∂B_k/∂κ_i = C(k, i) B_{k-i}, Eq. (2.5) of Pereira–Kileel–Kolda. An entry that depends on no κ
    is a plain number.
    """
    return [
        weighted_bell(bell, [math.comb(k, i) * weights[k] for k in range(i, len(weights))])
        for i in range(1, len(weights))
    ]


def weighted_bell(bell: Sequence[Array | None], weights: Sequence[float]) -> Array | float:
    """Σ_k weights[k] B_k, with B_0 = 1."""
    total: Array | float = weights[0]
    for weight, b in zip(weights[1:], bell, strict=False):
        if weight != 0 and b is not None:
            term = b if weight == 1 else weight * b
            total = term if isinstance(total, float) and total == 0 else total + term
    return total
