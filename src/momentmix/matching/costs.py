"""Which form of the moments is cheaper: explicit or implicit, tensors or rows."""

from __future__ import annotations

from momentmix.covariance import Kind
from momentmix.matching.identifiability import parameter_count
from momentmix.tensors.packed import total_size

#: Distinct moments and parameters up to which a fit holds the moments and their Jacobian.
EXPLICIT_MOMENTS, EXPLICIT_PARAMETERS = 3100, 700
#: Distinct moments up to which a pass over the data is spent on them (128 MiB).
MOST_MOMENTS = 1 << 24
#: Evaluations of the cost in a fit, for comparing ways to do it.
EVALUATIONS = 200


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
    if total_size(n, order) > MOST_MOMENTS:
        return False
    width = kind.width(n)
    from_rows = EVALUATIONS * p * m * (2.0 * (n + width) + 12 * order)
    each = 2.0 * n * total_size(n, order - 1) + 4.0 * total_size(n, order - 2) * width
    from_tensors = 2.0 * p * total_size(n, order) + EVALUATIONS * m * each
    return from_tensors < from_rows
