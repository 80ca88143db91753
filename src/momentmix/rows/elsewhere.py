"""Rows that lie elsewhere, in the form a fit needs; each question costs one pass over them.

The first pass brings moments and a sample. Each block draws its own, and the draws add up like
sums: every row gets an exponential random number whose rate is the row's weight, and the rows with
the lowest numbers are drawn. So draws from parts of the rows combine to a draw from all of them, in
any order. If t is the lowest number that was left out, a row of weight w was drawn with probability
π = 1 - exp(-w t), and it counts for w/π rows, which makes sums over the draw unbiased (Cohen and
Kaplan, 2007). If all rows are drawn, each counts for w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Concatenate

import numpy as np

from momentmix.blocks.block_rows import EACH, Batch, Block, BlockRows, cut, plus
from momentmix.covariance import Covariance, Diagonal, Full, Kind, Zero
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.fit import Parameters
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.rows.data import Place, TensorData
from momentmix.rows.device import device_sums
from momentmix.rows.frame import Frame
from momentmix.rows.incomplete import (
    CompletedRows,
    IncompleteRows,
    check_gaps,
    shifts_of_gaps,
    tensors_with_gaps,
)
from momentmix.rows.memory import Arguments, Box, Density, MemoryRows, Rows, Sums
from momentmix.support.array import (
    Array,
    ArrayLike,
    as_like,
    foreign,
    index_array,
    namespace,
    to_numpy,
)

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


#: The number of rows assumed for a source that does not know its own. A round number that was not
#: tuned: with so many rows, forming the moments once beats reading the rows again and again.
MANY_ROWS = 10_000_000


class BlockData:
    """Rows elsewhere; data.py explains what each method is for."""

    passes = 1
    order = None
    place: Place = "elsewhere"
    count = np.inf  # unknown until a pass has been made

    def __init__(self, rows: BlockRows, frame: Frame | None = None, weight: float = 1.0) -> None:
        """Take rows, the frame for their coordinates (if any), and the sum of their weights."""
        self.elsewhere, self.n, self._frame, self._weight = rows, rows.n, frame, weight
        self.rows = MANY_ROWS if rows.p is None else rows.p
        self._second: np.ndarray | None = None

    def look(self, order: int) -> tuple[MomentTensors, Draw]:
        """The moments of all rows up to an order and a sample of the rows: one pass."""
        most = draw_size(self.n)
        tensors, draw = self.elsewhere.total(_look_at, order, most, block=EACH)
        self._weight = tensors.weight
        return tensors, draw.lowest(most)

    def frame(self, kind: Kind) -> Frame:
        tensors = self._sum_up(2)
        return Frame(kind, tensors.mean, tensors.covariance)

    def matched(self, order: int, tensors: bool) -> BlockData | TensorData:
        """The rows themselves, read again and again, or their tensors from one pass.

        Rows with noise are always summed up as tensors.
        """
        if not tensors and not self.elsewhere.noisy:
            return self
        found = self._sum_up(order)
        if not self.elsewhere.noisy:  # moments of noisy rows may be inconsistent by chance
            check_gaps(found)
        return TensorData(found, found.weight)

    def _sum_up(self, order: int) -> MomentTensors:
        tensors = tensors_with_gaps(self.elsewhere, order)
        self._weight = tensors.weight
        return tensors

    def within(self, frame: Frame) -> BlockData:
        return BlockData(self.elsewhere, frame, self._weight)

    @property
    def _coordinates(self) -> Frame:
        assert self._frame is not None  # callers ask for moments only within a frame
        return self._frame

    def moments(self, order: int) -> np.ndarray:
        if order == 2 and self._second is not None:
            return self._second
        moments = self.elsewhere.total(_tensors_within, self._coordinates, order).about(
            np.zeros(self.n)
        )
        if order == 2:
            self._second = moments
        return moments

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        arguments = self._coordinates, P, list(weights), gradient
        total = InnerProducts(*self.elsewhere.total(_inner_products, *arguments))
        return total.each(lambda x: x / self._weight)

    def compress(self, basis: np.ndarray, order: int) -> TensorData:
        return TensorData(self.elsewhere.total(_compress, self._coordinates, basis, order))


def _look_at(
    X: np.ndarray,
    weights: np.ndarray | None,
    order: int,
    most: int,
    block: Block,
    noise_covariance: ArrayLike | None = None,
) -> tuple[MomentTensors, Draw]:
    noise = noise_covariance if X.shape[0] else None
    tensors = tensors_with_gaps(X, order, weights, noise)  # pairwise if there are gaps
    return tensors, draw_from(X, weights, most, block, noise)


def _within(X: np.ndarray, frame: Frame) -> Array:
    """The rows in a frame's coordinates, in the library and on the device of X."""
    return frame.on(X)(X) if foreign(X) else frame.apply(X)


def _tensors_within(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, order: int
) -> MomentTensors:
    return MomentTensors.from_samples(_within(X, frame), order, weights)


def _compress(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, basis: np.ndarray, order: int
) -> MomentTensors:
    Z = _within(X, frame)
    return MomentTensors.from_samples(Z @ as_like(basis, Z), order, weights)


def _inner_products(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    P: Atoms,
    order_weights: list[float],
    gradient: bool,
) -> InnerProducts:
    if X.shape[0] == 0:
        values = np.zeros(len(P))
        if not gradient:
            return InnerProducts(values, None, None)
        covariances = None if P.covariance.zero else np.zeros_like(to_numpy(P.covariance.array))
        return InnerProducts(values, np.zeros_like(to_numpy(P.means)), covariances)
    Z, w = _within(X, frame), 1.0 if weights is None else weights
    Q = Atoms(w, Z, Zero(X.shape[1]))
    if not foreign(Z):
        return bilinear(P, Q, order_weights, gradient)
    return bilinear(P.on(Z), Q, order_weights, gradient).each(to_numpy)


class ElsewhereRows(Rows):
    """Rows whose sums are made where they are, in the coordinates of a frame.

    ``drawn`` are some of them in memory. If they are ``incomplete``, there are gaps or errors.
    """

    def __init__(
        self,
        rows: BlockRows,
        frame: Frame,
        kind: Kind,
        count: float,
        incomplete: bool = False,
        drawn: MemoryRows | None = None,
    ) -> None:
        self.rows, self.frame, self.kind, self.count = rows, frame, kind, count
        self.complete, self.drawn = not incomplete, drawn

    @property
    def here(self) -> MemoryRows | None:
        return self.drawn

    def sums(
        self,
        parameters: Parameters,
        groups: int = 1,
        box: Box | None = None,
        sharpness: float = 1.0,
    ) -> Sums:
        if self.rows.device is None or not self.complete or box is not None:
            return Sums(*self.total(_sums, parameters, groups, box, sharpness))
        density = Density.of(self.kind, parameters, groups, sharpness)
        return Sums(*_mean(self.rows.total(_sums_there, self.kind, density, self.frame)))

    def total(
        self,
        function: Callable[Concatenate[MemoryRows, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        block = self.frame, self.kind, not self.complete
        return _mean(self.rows.total(_total, block, function, arguments, named))


def _mean(totals: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Sums over rows of total weight 1, from the weight of the rows and their sums."""
    weight, *sums = totals
    return tuple(part / weight for part in sums)


def _sums(
    rows: MemoryRows, parameters: Parameters, groups: int, box: Box | None, sharpness: float
) -> Sums:
    return rows.sums(parameters, groups, box, sharpness)  # as rows of their kind do


def _sums_there(
    X: np.ndarray, weights: np.ndarray | None, kind: Kind, density: Density, frame: Frame
) -> tuple[np.ndarray, ...]:
    """The weight of the rows of a block on a device, and then its sums, which are made there."""
    sums = device_sums(X, weights, kind, density, frame)
    # Responsibilities of a row sum to 1 in each mixture.
    weight = X.shape[0] if weights is None else sums.shares.sum() / density.groups
    return (np.asarray(float(weight)), *sums)


def _total(
    X: np.ndarray,
    weights: np.ndarray | None,
    block: tuple[Frame, Kind, bool],
    function: Callable[..., tuple[np.ndarray, ...]],
    arguments: tuple[object, ...],
    named: dict[str, Any],
    noise_covariance: ArrayLike | None = None,
) -> tuple[np.ndarray, ...]:
    """The weight of the rows of a block, and then the sums that a function makes of them.

    Rows on a device are copied here in pieces: only the sums of complete rows are made there.
    """
    if foreign(X):
        pieces = (
            (to_numpy(rows), None if w is None else to_numpy(w))
            for rows, w in cut(Batch(X, weights))
        )
        return reduce(plus, (_total(*piece, block, function, arguments, named) for piece in pieces))
    rows = _rows(X.astype(np.float64, copy=False), weights, *block, noise_covariance)
    return (np.asarray(rows.weights.sum()), *function(rows, *arguments, **named))


def _rows(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    kind: Kind,
    observed: bool,
    noise_covariance: ArrayLike | None,
) -> MemoryRows:
    """The rows of a block that have any value, with weights of any sum."""
    w = np.ones(len(X)) if weights is None else weights
    told = ~np.all(np.isnan(X), axis=1)
    if not np.any(told):  # a row of no weight stands for none
        X, w, told, noise_covariance = frame.centre[None], np.zeros(1), np.ones(1, bool), None
    if not observed:
        rows = MemoryRows(frame.apply(X), w, kind)
        rows.passes.keeps = False  # the block is gone after this
        return rows
    table = ObservedRows(X, noise_of_rows(noise_covariance, X)).take(np.flatnonzero(told))
    table = table.scale(frame.centre, frame.units)
    # Where the rows lie does not matter for sums, so nothing stands in for them.
    completed = CompletedRows(table, np.empty(table.X.shape), shifts_of_gaps(table, frame))
    return IncompleteRows(completed, w[told], kind, to_features=frame.to_features)
