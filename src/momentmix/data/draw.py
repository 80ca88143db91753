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
    p, rng = X.shape[0], np.random.default_rng([block.number, 0])
    # Of many blocks each gives little more than its share, so that little travels.
    share = most if block.of is None else min(most, GENEROUS * most // block.of + FEW_ROWS)
    limit, kept = np.inf, None  # where all rows may be drawn
    if weights is None and p > share:
        numbers, kept, limit = _lowest_of(p, share, rng)
        w = np.ones(share)
    else:
        w = np.ones(p) if weights is None else to_numpy(weights)
        numbers = np.divide(rng.exponential(1.0, (p,)), w, out=np.full(p, np.inf), where=w > 0)
        if p > share and (foreign(X) or block.of is not None):
            limit = float(np.partition(numbers, share)[share])
            kept = np.flatnonzero(numbers < limit)
            numbers, w = numbers[kept], w[kept]
    noise = noise_of_rows(noise_covariance, X) if p else None
    if foreign(X):  # only rows that are drawn come here from a device
        chosen = X if kept is None else namespace(X).take(X, index_array(kept, X), axis=0)
        rows = ObservedRows(to_numpy(chosen).astype(np.float64), noise)
    else:
        rows = ObservedRows(X, noise)
        rows = rows if kept is None else rows.take(kept)
    told = rows.seen.any(axis=1) & np.isfinite(numbers)
    if not np.all(told):
        some = np.flatnonzero(told)
        rows, numbers, w = rows.take(some), numbers[some], w[some]
    return Draw(most, limit, numbers, rows, w)


def _lowest_of(
    p: int, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """The lowest of p exponential random numbers of rate 1, whose they are, and the next.

    The k-th is 1/(p - k + 1) times such a number above the one before it (Rényi). O(count).
    """
    above = rng.exponential(1.0, (count + 1,)) / (p - np.arange(count + 1))
    numbers = np.cumsum(above)
    owners = rng.choice(p, count, replace=False)
    order = np.argsort(owners)
    return numbers[:count][order], owners[order], float(numbers[count])
