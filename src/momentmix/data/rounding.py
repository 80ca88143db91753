"""Values that were rounded when they were recorded, such as to 0.1 cm or whole years.

Rows that share a rounded value look as if they had no spread at all, and the likelihood of a
component on them is unbounded. Rounding to a step δ hides a variance of δ²/12.
"""

from __future__ import annotations

import numpy as np

#: About how many rows are looked at, evenly spaced through the table. A round number, not tuned.
MOST_ROWS = 5000
#: A column can count as rounded only if its distinct values number less than FEW_VALUES of the
#: rows. With at least SEVERAL values, the gaps between them give the step; with fewer, their
#: decimal places do. Plausible values that were not tuned.
FEW_VALUES, SEVERAL = 0.8, 5
#: For constant columns. A value with more than MOST_DIGITS digits is taken for a result of
#: arithmetic and not for a recorded value. The step is at most MOST_UNITS units of the other
#: columns, so that float64 can hold both. Round numbers that were not tuned.
MOST_DIGITS, MOST_UNITS = 7, 1000
#: The step is the smallest gap or, as a few values may be recorded more finely, the smallest after
#: leaving out this share of the gaps. A round number that was not tuned.
FINER = 0.05
#: Values lie on a grid if the gaps are whole multiples of the step, within NEAR of a step, with
#: exceptions for at most UNEVEN of the values. Values that merely repeat, as in rows drawn with
#: replacement, fail this. Round numbers that were not tuned.
UNEVEN, NEAR = 0.2, 0.05


def rounding_variances(
    X: np.ndarray, weights: np.ndarray | None = None, count: float | None = None
) -> np.ndarray:
    """δ²/12 for each column of X (p, n), where δ is the step between its values; 0 if not rounded.

    NaN is a gap. The weights have sum 1; the rows count for ``count`` rows together, by default p.
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
    """The positions of columns whose values are all the same up to rounding; NaN is a gap."""
    size = np.nanmax(np.abs(X), axis=0)
    spread = np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    return np.flatnonzero(spread <= 16 * np.finfo(float).eps * size)


def constant_variances(values: np.ndarray, steps: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The least variances of columns that are constant, so that new values have bounded densities.

    A value such as 273.15 was rounded to a step of 0.01, which hides 0.01²/12. Two kinds of values
    say nothing about their step: 0 takes the step of the other columns, if they all have the same
    one, and values with more digits than anybody writes, like all others, take ``units``.

    Parameters
    ----------
    values, units : (n,)
        The values, and the units to use for columns that have none of their own.
    steps : (q,)
        The steps of all rounded columns.
    """
    common = float(steps[0]) if len(steps) and np.ptp(steps) <= 1e-9 * steps[0] else 0.0
    own = np.array([common if value == 0 else _written_step(value) for value in values])
    widths = np.where(own > 0, np.minimum(own / np.sqrt(12), MOST_UNITS * units), units)
    return np.asarray(widths**2)


def _written_step(value: float) -> float:
    """The decimal place of the last digit, at most 1; 0 if there are too many digits to write."""
    digits, exponent = f"{abs(value):.15e}".split("e")
    written = digits.replace(".", "").rstrip("0")
    step = 10.0 ** min(int(exponent) - len(written) + 1, 0)
    return step if step > 10.0**-MOST_DIGITS * abs(value) else 0.0


def least_variances(X: np.ndarray) -> np.ndarray:
    """The variances that rounding to float64 alone hides; (n,)."""
    return np.spacing(np.nanmax(np.abs(X), axis=0)) ** 2 / 12


def _rounding_step(column: np.ndarray, rows: float) -> float:
    ordered = np.sort(column)
    gaps, span = np.diff(ordered), ordered[-1] - ordered[0]
    # Arithmetic makes equal values differ in the last digits.
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
