"""Rows by what they hold, not by where they stand, so that equal tables get equal fits.

A search draws rows at random. Drawn by place, another order of the rows would be another draw, and
so would a row that stands twice where it could count twice. Here rows that are equal become one
that counts for all of them, and the rows get an order that follows from the data: by their distance
from the centre, which neither the units nor a rotation of the features changes.
"""

from __future__ import annotations

import numpy as np

#: Entries of X beyond which rows are taken as they stand: a search then looks at a sample of them.
LARGE_DATA = 2_000_000
#: Digits of numbers of about 1 to which decisions are made; the rest may be rounding, and ties, of
#: which whole-numbered data have many, must not be decided by that.
DIGITS = 9


def distinct_rows(X: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The place of one row for each that is different, and how much it counts.

    They are in an order of their own. ``counts`` (p,) are ones by default. O(np + p log p).
    """
    counts = np.ones(len(X)) if counts is None else counts
    marks = _marks(X)
    order = np.lexsort((counts, marks))  # by count too: sums are then the same to the last bit
    first = np.flatnonzero(np.diff(marks[order], prepend=~marks[order[:1]]))
    return order[first], np.add.reduceat(counts[order], first)


def _marks(X: np.ndarray) -> np.ndarray:
    """A whole number for each row, the same for rows that are equal and for no others.

    Sums of the bits of all entries, scrambled, modulo 2⁶⁴; two rows out of a million that differ
    have the same number once in 10⁷ tables.
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
    """The places of rows from the nearest to the farthest, in centred and scaled coordinates.

    Rows at one distance come by where they lie along some direction.
    """
    with np.errstate(divide="ignore"):
        distances = np.log(np.einsum("ij,ij->i", Z, Z))
    along = Z @ np.cos(np.arange(Z.shape[1]))
    return np.lexsort((np.round(along, DIGITS), np.round(distances, DIGITS)))
