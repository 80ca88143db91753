"""Values that were rounded before anybody saw them: 0.1 cm, whole years.

Rows that share a rounded value look as if they had no spread at all, and a component that sits on
them has an unbounded likelihood. What rounding to a step δ has hidden is a variance of δ²/12.
"""

from __future__ import annotations

import numpy as np

#: Rows that are looked at, in even steps through the data.
MOST_ROWS = 5000
#: A column counts as rounded if it has fewer distinct values than this share of the rows, but so
#: many at least: two or three values are kinds, not measurements.
FEW_VALUES, SEVERAL = 0.8, 5


def rounding_variances(X: np.ndarray) -> np.ndarray:
    """δ²/12 for each column of X (p, n), δ the least gap between its values; 0 if not rounded."""
    rows = X[:: max(1, len(X) // MOST_ROWS)]
    ordered = np.sort(rows, axis=0)
    gaps = np.diff(ordered, axis=0)
    # A value that arithmetic has touched differs from its equals in the last digits.
    size = np.max(np.abs(ordered), axis=0, initial=0)
    span = ordered[-1] - ordered[0]
    distinct = gaps > np.maximum(1e-9 * span, 16 * np.finfo(float).eps * size)
    values = 1 + distinct.sum(axis=0)
    rounded = (values >= SEVERAL) & (values < FEW_VALUES * len(rows))
    steps = np.min(np.where(distinct, gaps, np.inf), axis=0, initial=np.inf)
    return np.where(rounded & np.isfinite(steps), np.minimum(steps, span) ** 2 / 12, 0.0)
