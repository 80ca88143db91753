"""Which form of the moments is cheaper: explicit or implicit, tensors or rows."""

from __future__ import annotations

from momentmix.covariance import Kind
from momentmix.matching.identifiability import parameter_count
from momentmix.tensors.packed import total_size

#: With at most so many distinct moments and parameters, a fit holds the moments and their Jacobian.
#: 3,100 has room for order 4 of 14 features (3,060) and order 5 of 10 (3,003), and the Jacobian
#: takes 17 MB at most. The numbers decide time and the order that "auto" takes; neither was tuned.
EXPLICIT_MOMENTS, EXPLICIT_PARAMETERS = 3100, 700
#: The most distinct moments that are formed in a pass over the data: they take 128 MiB. This is a
#: round number that was not tuned; more moments would take more memory.
MOST_MOMENTS = 1 << 24
#: The number of evaluations of the cost in a fit, as it is assumed to compare the times with and
#: without moment tensors. This is a round number. benchmarks/README.md, "Moments or samples", shows
#: that the choice is wrong only where the times hardly differ.
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
