"""A first look at rows: which values were rounded, which rows dominate, which stand alone.

Values may have been rounded when they were recorded, such as to 0.1 cm or whole years. Rows that
share a rounded value look as if they had no spread at all, and the likelihood of a component on
them is unbounded. Rounding to a step δ hides a variance of δ²/12. The same holds for a single value
that many rows share, such as a zero or a cap, in a column that is otherwise on no grid.

A few rows may dominate the fourth moments, so that a moment fit would follow them alone.

Rows that have no neighbours are a first guess of outliers. The density at a row is about
k / (p d^n), where d is the distance to its k-th nearest neighbour. In p rows of a Gaussian, hardly
any has a lower density than at the radius that one row in p exceeds. A row with a lower density
stands alone. This decides nothing: it only gives a fit with ``outliers`` its coordinates and its
start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from momentmix.covariance import Diagonal, Full
from momentmix.fit import DIGITS
from momentmix.rows.frame import Frame, by_distance
from momentmix.support.messages import OutlierWarning, warn_user

#: About how many rows are looked at, evenly spaced through the table. A round number, not tuned.
COUNTED_ROWS = 5000
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
#: A column repeats a value if at least SHARING rows share one, in units of how often rows of the
#: table usually occur. No row that is drawn with replacement from fewer than ten million comes so
#: often (Poisson's distribution). Of more than MOST_SORTED rows, that many are looked at, evenly
#: spaced; this bounds the time alone.
SHARING, MOST_SORTED = 10, 200_000


def rounding_variances(
    X: np.ndarray, weights: np.ndarray | None = None, count: float | None = None
) -> np.ndarray:
    """δ²/12 for each column of X (p, n), where δ is the step between its values; 0 if not rounded.

    NaN is a gap. The weights have sum 1; the rows count for ``count`` rows together, by default p.
    """
    step = max(1, len(X) // COUNTED_ROWS)
    w = np.full(len(X), 1 / len(X)) if weights is None else weights
    w, seen = w[::step] * (len(X) if count is None else count), ~np.isnan(X[::step])
    return np.array(
        [
            _rounding_step(column[here], float(w[here].sum())) ** 2 / 12
            for column, here in zip(X[::step].T, seen.T, strict=True)
        ]
    )


def repeating_columns(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Whether many rows share a value, for each column of X (p, n); NaN is a gap.

    Equal rows are one row with a weight. O(np log p).
    """
    step = -(-len(X) // MOST_SORTED)
    w = np.ones(len(X)) if weights is None else weights / np.median(weights)
    X, w = X[::step], w[::step]
    found = []
    for column in X.T:
        order = np.argsort(column)  # gaps come last
        ordered = column[order]
        first = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
        shared = np.add.reduceat(w[order], first)[~np.isnan(ordered[first])]
        found.append(float(shared.max(initial=0.0)) >= SHARING)
    return np.array(found)


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


#: Pairs of a share of the rows and the share of Σ ‖z‖⁴ that they must exceed to count as dominant.
#: In a single Gaussian, the farthest 1 % of the rows contribute at most a quarter of the sum and
#: the farthest 5 % at most 60 %. A mixture in which one row in ten comes from a component five
#: times as wide as the others stays below the limits too. Their exact values were not tuned.
DECIDING = ((0.01, 0.95), (0.05, 0.998))


class Dominance(NamedTuple):
    """How many rows dominate the fourth moments, and by how much."""

    rows: int
    share: float  # their share of the sum of ‖z‖⁴


def dominance(X: np.ndarray, weights: np.ndarray | None) -> Dominance | None:
    """The few rows, if any, that make up nearly all of the sum of ‖z‖⁴.

    X (p, n); ``weights`` (p,) are those of the rows, equal by default. z is x centred, with each
    feature scaled by its own standard deviation: in white coordinates, a few rows in many features
    would not stand out. O(np + p log p).
    """
    Z = Frame.of_samples(Diagonal, X, weights).apply(X)
    squares = np.einsum("ij,ij->i", Z, Z)
    order = np.argsort(-squares, kind="stable")
    weights = np.ones(len(Z)) if weights is None else weights[order]
    counted, sums = np.cumsum(weights), np.cumsum(weights * squares[order] ** 2)
    for few, most in DECIDING:
        rows = int(np.searchsorted(counted, few * (1 + 1e-9) * counted[-1], side="right"))
        if rows > 0 and sums[rows - 1] > most * sums[-1]:
            return Dominance(rows, float(sums[rows - 1] / sums[-1]))
    return None


def warn_of_dominance(X: np.ndarray, weights: np.ndarray | None) -> None:
    """Warn if a moment fit would follow a few rows alone."""
    found = dominance(X, weights)
    if found is not None:
        are = "row, the farthest, makes" if found.rows == 1 else "rows, the farthest, make"
        warn_user(
            f"{found.rows} of {len(X)} {are} up {100 * found.share:.1f} % of the fourth moments "
            "and would dominate a fit of moments: look at these rows, or use "
            "GaussianMixture(outliers='auto')",
            OutlierWarning,
        )


#: Which neighbour's distance is used, and how many rows of a larger table are looked at (a sample
#: keeps the O(p²) distances cheap). Round numbers that were not tuned.
NEIGHBOUR, MOST_ROWS = 10, 1000
#: With at most this many features, neighbours are found with a tree instead of all distances. The
#: value was not tuned and affects only speed.
TREE = 5
#: How many nats lower than usual the log density of a cluster may be before its rows count as
#: standing alone. A round number, not tuned; it affects only coordinates and starts of fits.
SLACK = 2.0
#: How often, at most, the coordinates are computed anew from the rows that do not stand alone. A
#: round number: it bounds a loop that usually ends by itself.
ROUNDS = 5


class Crowding(NamedTuple):
    """How lonely rows are; for large data, a sample of the rows."""

    places: np.ndarray  # positions of the rows; (q,)
    loneliness: np.ndarray  # nats by which their density is below a Gaussian's outermost row; (q,)

    @classmethod
    def of(cls, X: np.ndarray, counts: np.ndarray | None = None) -> Crowding:
        """Compute it for rows X (p, n) without gaps; ``counts`` (p,) are how often each counts.

        Distances are measured in coordinates in which the rows that do not stand alone are centred
        and white, so units do not matter.
        """
        counts = np.ones(len(X)) if counts is None else counts
        places = np.arange(len(X))
        if len(X) > MOST_ROWS:
            order = by_distance((X - np.median(X, axis=0)) / _spreads(X))
            places = order[np.linspace(0, len(X) - 1, MOST_ROWS).astype(int)]
            X, counts = X[places], counts[places]
        left, found = np.arange(len(X)), cls(places, np.zeros(len(X)))
        for _ in range(ROUNDS):
            frame = Frame.of_samples(Full, X[left], counts[left] / counts[left].sum())
            found = cls(places, _loneliness(frame.apply(X), counts))
            before, left = left, np.flatnonzero(found._crowded)
            if len(left) == len(before):
                break
        return found

    def at(self, places: np.ndarray) -> Crowding:
        """The same rows at other places: row i at ``places[i]``."""
        return Crowding(places[self.places], self.loneliness)

    @property
    def _crowded(self) -> np.ndarray:
        return self.loneliness <= max(0.0, float(np.median(self.loneliness)))

    def in_a_crowd(self) -> np.ndarray:
        """The positions of the rows that do not stand alone; at least half of all rows."""
        return np.sort(self.places[self._crowded])

    def densest(self, share: float) -> np.ndarray:
        """The positions of the given share of rows that have the nearest neighbours."""
        order = np.lexsort((self.places, self.loneliness))
        return np.sort(self.places[order[: max(int(np.ceil(share * len(order))), 1)]])


def _loneliness(Z: np.ndarray, counts: np.ndarray) -> np.ndarray:
    p, n = Z.shape
    k = min(NEIGHBOUR, max(p // 10, 2), p)
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=k, algorithm="kd_tree" if n <= TREE else "brute")
    distances, neighbours = search.fit(Z).kneighbors(Z)
    enough = np.cumsum(counts[neighbours], axis=1) >= k  # a row may count as its own neighbours
    place = np.where(enough.any(axis=1), enough.argmax(axis=1), k - 1)
    reach = distances[np.arange(p), place]
    if not np.any(reach > 0):
        return np.full(p, -1.0)
    logs = n * np.log(np.maximum(reach, reach[reach > 0].min()))
    usual = (chi2.isf(1 / max(p, 2), n) - chi2.median(n)) / 2
    # Of rounded rows many are as lonely as the median, and must not differ from it by rounding.
    return np.round(logs - np.median(logs) - usual - SLACK, DIGITS)


def _spreads(X: np.ndarray) -> np.ndarray:
    low, high = np.quantile(X, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)
