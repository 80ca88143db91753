"""Values that were rounded before anybody saw them: 0.1 cm, whole years.

Rows that share a rounded value look as if they had no spread at all, and a component that sits on
them has an unbounded likelihood. What rounding to a step δ has hidden is a variance of δ²/12.
"""

from __future__ import annotations

import numpy as np

#: Rows that are looked at, in even steps through the data.
MOST_ROWS = 5000
#: A column counts as rounded if it has fewer distinct values than this share of the rows. From so
#: many values on, gaps between them tell the step; of fewer, how they are written.
FEW_VALUES, SEVERAL = 0.8, 5
#: Digits of a constant column's value up to which it was written by hand, or measured; and the most
#: units of the other columns that its step can be, so that arithmetic can hold both.
MOST_DIGITS, MOST_UNITS = 7, 1000
#: The step is the least gap, or that but for this share of the gaps: a few values may be finer.
FINER = 0.05
#: All but a share of the gaps are whole numbers of steps, but for a share of a step. Gaps between
#: values that merely stand several times, as in rows drawn with replacement, are not.
UNEVEN, NEAR = 0.2, 0.05


def rounding_variances(
    X: np.ndarray, weights: np.ndarray | None = None, count: float | None = None
) -> np.ndarray:
    """δ²/12 for each column of X (p, n), δ the step between its values; 0 if not rounded.

    NaN is a gap.
    The weights have sum 1, and count for so many rows together; by default for p.
    """
    step = max(1, len(X) // MOST_ROWS)
    w = np.full(len(X), 1 / len(X)) if weights is None else weights
    w, seen = w[::step] * (len(X) if count is None else count), ~np.isnan(X[::step])
    return np.array(
        [
            _rounding_step(column[here], float(w[here].sum())) ** 2 / 12
            for column, here in zip(X[::step].T, seen.T, strict=True)
        ]
    )


def constant_columns(X: np.ndarray) -> np.ndarray:
    """The places of columns whose values are all the same but for rounding; NaN is a gap."""
    size = np.nanmax(np.abs(X), axis=0)
    spread = np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    return np.flatnonzero(spread <= 16 * np.finfo(float).eps * size)


def constant_variances(values: np.ndarray, steps: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The least variances of columns that are constant, so that new values have bounded densities.

    A value such as 273.15 was rounded to a step of 0.01, which hides 0.01²/12. Of 0, and of a value
    of more digits than anybody writes, the other columns tell: of 0 their step, if all have the
    same one, and else the middle of their units.

    Parameters
    ----------
    values, units : (n,)
        The values, and what stands for the units of columns that have none of their own.
    steps : (q,)
        The steps of all columns that are rounded.
    """
    common = float(steps[0]) if len(steps) and np.ptp(steps) <= 1e-9 * steps[0] else 0.0
    own = np.array([common if value == 0 else _written_step(value) for value in values])
    widths = np.where(own > 0, np.minimum(own / np.sqrt(12), MOST_UNITS * units), units)
    return np.asarray(widths**2)


def _written_step(value: float) -> float:
    """The place of the last digit of a number, 1 at most; 0 if nobody would write it."""
    digits, exponent = f"{abs(value):.15e}".split("e")
    written = digits.replace(".", "").rstrip("0")
    step = 10.0 ** min(int(exponent) - len(written) + 1, 0)
    return step if step > 10.0**-MOST_DIGITS * abs(value) else 0.0


def least_variances(X: np.ndarray) -> np.ndarray:
    """What rounding to float64 alone has hidden; (n,)."""
    return np.spacing(np.nanmax(np.abs(X), axis=0)) ** 2 / 12


def _rounding_step(column: np.ndarray, rows: float) -> float:
    ordered = np.sort(column)
    gaps, span = np.diff(ordered), ordered[-1] - ordered[0]
    # A value that arithmetic has touched differs from its equals in the last digits.
    size = np.max(np.abs(ordered[[0, -1]]))
    least = max(1e-9 * span, 16 * np.finfo(float).eps * size)
    gaps = gaps[gaps > least]
    values = len(gaps) + 1
    if not 2 <= values < FEW_VALUES * rows:
        return 0.0
    if values < SEVERAL:
        seen = ordered[np.append(True, np.diff(ordered) > least)]
        return min(_written_step(value) for value in seen if value != 0)
    for step in (np.min(gaps), np.quantile(gaps, FINER, method="lower")):
        counted = gaps / step
        if np.sum(np.abs(counted - np.round(counted)) > NEAR) < UNEVEN * values:
            return float(step)
    return 0.0
