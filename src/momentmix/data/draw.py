"""A sample of rows that lie elsewhere, drawn where they are and put together like any other sum.

Every row gets a random number, exponential with the row's weight for its rate, and the rows of the
lowest numbers are drawn. So draws from parts of the rows make a draw from all of them, in whatever
sequence they are put together. A row of weight w is drawn with the chance π = 1 - exp(-w t), t
being the lowest number that was left out, and counts for w/π rows: sums over the draw are then
right on average (Cohen and Kaplan, 2007). Where all rows are drawn, each counts for w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix.blocks.rows import Block
from momentmix.covariance import Covariance, Diagonal, Full
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.support.array import ArrayLike, foreign, index_array, namespace, to_numpy

#: Numbers in the rows of a draw, and rows at least and at most.
DRAWN_NUMBERS, LEAST_ROWS, MOST_ROWS = 1_000_000, 2000, 100_000
#: Times its share of all rows that a block gives at most, and so many more; and times as many rows
#: as are asked for that may wait to be sorted out.
GENEROUS, FEW_ROWS, WAITING = 2, 20, 2


def draw_size(n: int) -> int:
    """How many rows of n features are drawn."""
    return max(LEAST_ROWS, min(DRAWN_NUMBERS // n, MOST_ROWS))


@dataclass(frozen=True)
class Draw:
    """Rows drawn from some blocks: all whose numbers are below ``limit``.

    They are about ``most``; ``lowest`` leaves no more of them.
    """

    most: int
    limit: float  # ∞ where all rows are here
    numbers: np.ndarray  # (k,)
    rows: ObservedRows
    weights: np.ndarray  # (k,), as given

    def __add__(self, other: Draw) -> Draw:
        limit = min(self.limit, other.limit)
        both = [one.below(limit) for one in (self, other)]
        rows = ObservedRows(
            np.concatenate([one.rows.X for one in both]), _joined(*(one.rows for one in both))
        )
        numbers, weights = (
            np.concatenate([getattr(one, name) for one in both]) for name in ("numbers", "weights")
        )
        found = Draw(self.most, limit, numbers, rows, weights)
        # Some more may wait, so that not every sum has to look for the lowest.
        return found if len(numbers) <= WAITING * self.most else found.lowest(self.most)

    def below(self, limit: float) -> Draw:
        """The rows whose numbers are below a limit."""
        if limit >= self.limit:
            return self
        kept = np.flatnonzero(self.numbers < limit)
        return Draw(self.most, limit, self.numbers[kept], self.rows.take(kept), self.weights[kept])

    def lowest(self, count: int) -> Draw:
        """The rows of the lowest numbers, so many at most."""
        if len(self.numbers) <= count:
            return self
        limit = float(np.partition(self.numbers, count)[count])
        return self.below(limit)

    def __reduce__(self) -> tuple[type[Draw], tuple[object, ...]]:
        found = self.lowest(self.most)  # no more of them than were asked for travel
        parts = found.most, found.limit, found.numbers, found.rows, found.weights
        return Draw, parts

    @property
    def whole(self) -> bool:
        """Whether all rows are here."""
        return bool(np.isinf(self.limit))

    @property
    def counts(self) -> np.ndarray:
        """How many rows each row counts for; (k,)."""
        if self.whole:
            return self.weights
        return np.asarray(self.weights / -np.expm1(-self.weights * self.limit))


def _joined(a: ObservedRows, b: ObservedRows) -> Covariance | None:
    """The noise of some rows and of some more: common to all if it is, else one for each."""
    known = [rows.noise for rows in (a, b) if rows.noise is not None]
    if len(a) == 0 or len(b) == 0 or not known:
        return b.noise if len(a) == 0 else a.noise
    alike = len(known) == 2 and all(one.shared for one in known)
    if alike and np.array_equal(known[0].array, known[1].array):
        return known[0]
    diagonal, parts = all(one.diagonal for one in known), []
    for rows in (a, b):
        array = np.zeros((1, a.n) if diagonal else (1, a.n, a.n))
        if rows.noise is not None:
            array = to_numpy(rows.noise.variances() if diagonal else rows.noise.matrices())
        parts.append(np.broadcast_to(array, (len(rows), *array.shape[1:])))
    return (Diagonal if diagonal else Full)(np.concatenate(parts), a.n)


def drawn(
    X: np.ndarray,
    weights: np.ndarray | None,
    most: int,
    block: Block,
    noise_covariance: ArrayLike | None = None,
) -> Draw:
    """The draw from one block (p, n), of so many rows at most.

    Rows without weight and rows without any value are left out. The random numbers follow from the
    number of the block alone, so that a block that is read again gives the same rows.
    """
    w = np.ones(X.shape[0]) if weights is None else to_numpy(weights)
    numbers = np.random.default_rng([block.number, 0]).exponential(1.0, (X.shape[0],))
    limit = np.inf
    if weights is not None:
        numbers = np.divide(numbers, w, out=np.full(len(w), np.inf), where=w > 0)
    if foreign(X):  # only rows that are drawn come here from a device
        kept = np.arange(len(w))
        if len(w) > most:
            limit = float(np.partition(numbers, most)[most])
            kept = np.flatnonzero(numbers < limit)
        rows_there = namespace(X).take(X, index_array(kept, X), axis=0)
        X, numbers, w = to_numpy(rows_there).astype(np.float64), numbers[kept], w[kept]
    told = ~np.isnan(X[:, 0]) | ~np.isnan(X).all(axis=1)
    if weights is not None:
        told &= w > 0
    noise = noise_of_rows(noise_covariance, X) if len(X) else None
    rows = ObservedRows(X, noise)
    if not np.all(told):
        kept = np.flatnonzero(told)
        rows, numbers, w = rows.take(kept), numbers[kept], w[kept]
    found = Draw(most, limit, numbers, rows, w)
    if block.of is None:
        return found
    # Of many blocks each gives little more than its share, so that little travels.
    return found.lowest(min(most, GENEROUS * most // block.of + FEW_ROWS))
