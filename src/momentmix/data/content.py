"""Identify and order rows by their content, so that equal tables get equal fits.

The search draws rows at random. If it drew them by position, reordering the table, or repeating a
row instead of giving it weight 2, would change the draw. So equal rows are merged into one that
counts for all of them, and rows are ordered by their distance from the centre, which depends
neither on the units nor on a rotation of the features.
"""

from __future__ import annotations

import numpy as np

#: With more entries of X than this, rows are neither merged nor reordered, and the search uses a
#: sample of them. A round number that was not tuned; fits of larger tables depend on it slightly.
LARGE_DATA = 2_000_000
#: Decimal places that count when numbers of about 1 are compared. Later places may be rounding
#: errors, which must not break ties, and whole-numbered data have many ties. float64 has 16 digits;
#: 9 leaves a wide margin on both sides and was not tuned.
DIGITS = 9


def distinct_rows(X: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The position of one copy of each distinct row, and how much it counts.

    The result is not in the order of the table. ``counts`` (p,) are ones by default.
    O(np + p log p).
    """
    counts = np.ones(len(X)) if counts is None else counts
    marks = _marks(X)
    order = np.lexsort((counts, marks))  # by count too: makes sums reproducible
    first = np.flatnonzero(np.diff(marks[order], prepend=~marks[order[:1]]))
    return order[first], np.add.reduceat(counts[order], first)


def _marks(X: np.ndarray) -> np.ndarray:
    """A hash of each row: equal rows have the same one, and different rows practically never do.

    It sums the scrambled bits of all entries modulo 2⁶⁴. Among a million different rows, two share
    a hash in about one of 10⁷ tables.
    """
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0.0 is 0.0
    rng = np.random.default_rng(0)
    marks = np.zeros(len(X), dtype=np.uint64)
    for column in bits.T:
        odd, more = rng.integers(2**63, size=2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        mixed = column * odd
        mixed ^= mixed >> np.uint64(31)
        mixed *= more
        mixed ^= mixed >> np.uint64(29)
        marks += mixed * odd
    return marks


def by_distance(Z: np.ndarray) -> np.ndarray:
    """The positions of rows from the nearest to the farthest, in centred and scaled coordinates.

    Rows at the same distance are ordered by their projection on a fixed direction.
    """
    with np.errstate(divide="ignore"):
        distances = np.log(np.einsum("ij,ij->i", Z, Z))
    along = Z @ np.cos(np.arange(Z.shape[1]))
    return np.lexsort((np.round(along, DIGITS), np.round(distances, DIGITS)))
