"""Sample rows that lie elsewhere: each block draws its own, and the draws add up like sums.

Every row gets an exponential random number whose rate is the row's weight, and the rows with the
lowest numbers are drawn. So draws from parts of the rows combine to a draw from all of them, in any
order. If t is the lowest number that was left out, a row of weight w was drawn with probability
π = 1 - exp(-w t), and it counts for w/π rows, which makes sums over the draw unbiased (Cohen and
Kaplan, 2007). If all rows are drawn, each counts for w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix.blocks.rows import Block
from momentmix.covariance import Covariance, Diagonal, Full
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.support.array import ArrayLike, foreign, index_array, namespace, to_numpy

#: The size of a draw: this many numbers in all (8 MB), but at least and at most so many rows. Round
#: numbers that were not tuned; the search works on these rows, so more make it slower and surer.
DRAWN_NUMBERS, LEAST_ROWS, MOST_ROWS = 1_000_000, 2000, 100_000
#: A block gives at most GENEROUS times its share of the draw, and FEW_ROWS more. Chance practically
#: never asks for more, since the number of rows drawn from a block varies like a Poisson number.
#: WAITING times the rows asked for may pile up before they are cut down, which affects only cost.
GENEROUS, FEW_ROWS, WAITING = 2, 20, 2


def draw_size(n: int) -> int:
    """How many rows of n features are drawn."""
    return max(LEAST_ROWS, min(DRAWN_NUMBERS // n, MOST_ROWS))


@dataclass(frozen=True)
class Draw:
    """Rows drawn from some blocks: all whose random numbers are below ``limit``.

    There may be somewhat more than ``most`` of them; ``lowest`` cuts them down.
    """

    most: int
    limit: float  # ∞ if all rows were drawn
    numbers: np.ndarray  # (k,)
    rows: ObservedRows
    weights: np.ndarray  # (k,), as given

    def __add__(self, other: Draw) -> Draw:
        limit = min(self.limit, other.limit)
        both = [one.below(limit) for one in (self, other)]
        rows = ObservedRows(
            np.concatenate([one.rows.X for one in both]), _join(*(one.rows for one in both))
        )
        numbers, weights = (
            np.concatenate([getattr(one, name) for one in both]) for name in ("numbers", "weights")
        )
        found = Draw(self.most, limit, numbers, rows, weights)
        # A surplus may pile up, so that not every addition has to partition the numbers.
        return found if len(numbers) <= WAITING * self.most else found.lowest(self.most)

    def below(self, limit: float) -> Draw:
        """The rows whose random numbers are below a limit."""
        if limit >= self.limit:
            return self
        kept = np.flatnonzero(self.numbers < limit)
        return Draw(self.most, limit, self.numbers[kept], self.rows.take(kept), self.weights[kept])

    def lowest(self, count: int) -> Draw:
        """At most ``count`` rows, those with the lowest random numbers."""
        if len(self.numbers) <= count:
            return self
        limit = float(np.partition(self.numbers, count)[count])
        return self.below(limit)

    def __reduce__(self) -> tuple[type[Draw], tuple[object, ...]]:
        found = self.lowest(self.most)  # send no more rows than were asked for
        parts = found.most, found.limit, found.numbers, found.rows, found.weights
        return Draw, parts

    @property
    def whole(self) -> bool:
        """Whether all rows were drawn."""
        return bool(np.isinf(self.limit))

    @property
    def counts(self) -> np.ndarray:
        """How many rows each row counts for; (k,)."""
        if self.whole:
            return self.weights
        return np.asarray(self.weights / -np.expm1(-self.weights * self.limit))


def _join(a: ObservedRows, b: ObservedRows) -> Covariance | None:
    """The noise of two sets of rows: one covariance if they share it, else one for each row."""
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


def draw_from(
    X: np.ndarray,
    weights: np.ndarray | None,
    most: int,
    block: Block,
    noise_covariance: ArrayLike | None = None,
) -> Draw:
    """Draw rows from one block (p, n), at most ``most`` of them.

    Rows without weight and rows without any value are left out. The number of the block is the
    seed, so reading a block again gives the same rows.
    """
    p, rng = X.shape[0], np.random.default_rng([block.number, 0])
    # Each of many blocks gives little more than its share, so that little data is sent.
    share = most if block.of is None else min(most, GENEROUS * most // block.of + FEW_ROWS)
    limit, kept = np.inf, None  # as if all rows were drawn
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
    if foreign(X):  # copy only the drawn rows from the device
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
    """The lowest of p exponential random numbers of rate 1, their rows, and the next number.

    The k-th exceeds the one before it by such a number divided by p - k + 1 (Rényi). O(count).
    """
    above = rng.exponential(1.0, (count + 1,)) / (p - np.arange(count + 1))
    numbers = np.cumsum(above)
    owners = rng.choice(p, count, replace=False)
    order = np.argsort(owners)
    return numbers[:count][order], owners[order], float(numbers[count])
