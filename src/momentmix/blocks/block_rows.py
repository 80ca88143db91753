"""Rows that lie elsewhere, in blocks: on a cluster, in files, in a database, in a stream.

They have a single operation, ``BlockRows.total``: run a function where each block is, and add up
its results. Only sums and parameters travel, never rows. ``BatchRows`` are rows that come in
batches to this machine. The next batch is read while the last one is processed, so at most three
are in memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from momentmix.support.array import Array
from momentmix.support.stopping import breakable

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
#: The result for a block: numbers, arrays, moments, anything with +, or a tuple of these.
Summand: TypeAlias = Any
#: A function of the rows and weights (or None) of one block, and of parameters common to all.
BlockFunction: TypeAlias = Callable[Concatenate[np.ndarray, np.ndarray | None, Parameters], Result]


class Block(NamedTuple):
    """The number of a block among all blocks."""

    number: int
    of: int | None = None  # how many blocks there are, if known before they are read


class BlockRows:
    """Rows (p, n) in blocks, and their weights; ``n_passes`` counts how often they were read.

    ``names`` are the names of the columns, if they have any. ``noisy`` says whether the rows have
    known noise, and ``again`` whether they can be read more than once. For blocks on a device,
    ``device`` is an empty array there.
    """

    n: int
    names: Sequence[str] | np.ndarray | None = None
    noisy: bool = False
    device: Array | None = None
    p: int | None = None  # the number of rows, if known before they are read
    again: bool = True
    n_passes: int = 0

    def total(
        self,
        function: BlockFunction[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Σ function(X, weights, *arguments, **named) over the blocks; one pass.

        ``function`` returns something that can be added, or a tuple of such things. It runs where
        the block is. If the rows have noise, it gets that of the block as ``noise_covariance``. A
        named argument ``EACH`` is replaced by the ``Block`` in question.
        """
        self.n_passes += 1
        with breakable():
            result: Result = self._sum(Work(function, arguments, named))
        return result

    def _sum(self, work: Work) -> Summand:
        """The sum of what the work makes of each block."""
        raise NotImplementedError


#: A placeholder that each call replaces by its ``Block``.
EACH = Block(-1)


class Work(NamedTuple):
    """A function of blocks with the arguments that are common to all."""

    function: Callable[..., Summand]
    arguments: tuple[object, ...]
    named: dict[str, Any]

    def __call__(self, X: Array, weights: Array | None, block: Block, **more: object) -> Summand:
        """What the function makes of one block, with EACH replaced."""
        # Compared by value, because a worker gets a copy of EACH.
        named = {
            name: block if isinstance(value, Block) and value == EACH else value
            for name, value in self.named.items()
        }
        return self.function(X, weights, *self.arguments, **named, **more)


def plus(a: Summand, b: Summand) -> Summand:
    """a + b, part by part where they are tuples; None stays None."""
    if isinstance(a, tuple):
        return tuple(plus(x, y) for x, y in zip(a, b, strict=True))
    return None if a is None else a + b


def add_up(parts: Iterable[Summand]) -> Summand | None:
    """The sum of all parts, None if there are none. Only one part is held beside the sum."""
    total = None
    for part in parts:
        total = part if total is None else plus(total, part)
    return total


#: Batches of fewer bytes than the first number are joined, so that the cost of each call does not
#: matter, and batches of more than the second are cut. Round numbers that affect memory and speed.
SMALL, LARGE = 8 << 20, 16 << 20


class Batch(NamedTuple):
    """Some rows and their weights."""

    rows: np.ndarray  # (p, n) float64, NaN for gaps
    weights: np.ndarray | None = None  # (p,)


@dataclass(eq=False)
class BatchRows(BlockRows):
    """Rows in batches; each call of ``read`` starts from the first batch, if ``again`` is true.

    With ``ahead`` they are read in a separate thread, which suits engines. Code of users may have
    to stay in the thread that created it, like connections of sqlite3. ``held`` says that all rows
    are in memory already.
    """

    read: Callable[[], Iterable[Batch]]
    n: int
    names: Sequence[str] | None = None
    again: bool = True
    ahead: bool = True
    held: bool = False

    def _sum(self, work: Work) -> Summand:
        if self.n_passes > 1 and not self.again:
            raise ValueError(
                "these batches can be read once only; give a function that begins them anew, such "
                "as fit_batches(lambda: read_batches())"
            )
        # Close it also after an error, whose traceback would keep the thread alive.
        with closing(read_ahead(self.read) if self.ahead else _each(self.read)) as batches:
            total = add_up(work(*batch, Block(i)) for i, batch in enumerate(batches))
        if total is None:
            raise ValueError(
                "no rows: the source gave no batch with a row"
                if self.n_passes == 1
                else f"no rows in pass {self.n_passes} over the source, though there were some "
                "before; a function that gives batches must begin them anew whenever it is called"
            )
        return total


def in_pieces(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same rows in batches of moderate size: large ones are cut, small ones are joined."""
    waiting: list[Batch] = []
    size = 0
    for batch in batches:
        if len(batch.rows) == 0:
            continue
        if batch.rows.nbytes >= SMALL:
            if waiting:
                yield _join(waiting)
                waiting, size = [], 0
            yield from cut(batch)
            continue
        waiting.append(batch)
        size += batch.rows.nbytes
        if size >= SMALL:
            yield _join(waiting)
            waiting, size = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    weights = [batch.weights for batch in batches if batch.weights is not None]
    rows = np.concatenate([batch.rows for batch in batches])
    return Batch(rows, np.concatenate(weights) if weights else None)


def cut(batch: Batch) -> Iterator[Batch]:
    """A batch, on any device, in even pieces of at most LARGE bytes; one piece if it is empty."""
    (rows, weights), (p, n) = batch, batch.rows.shape
    step = max(1, -(-p // max(1, -(-8 * p * n // LARGE))))
    for a in range(0, max(p, 1), step):
        some = slice(a, min(a + step, p))
        yield Batch(rows[some, :], None if weights is None else weights[some])


def _each(read: Callable[[], Iterable[Batch]]) -> Generator[Batch, None, None]:
    yield from read()


def read_ahead(read: Callable[[], Iterable[Batch]]) -> Generator[Batch, None, None]:
    """The batches of a source; a thread reads the next one meanwhile."""
    ahead: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=1)
    ended = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
        while not ended.is_set():
            try:
                return ahead.put(item, timeout=0.1)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for batch in read():
                put(batch)
                if ended.is_set():
                    return
            put(None)
        except BaseException as error:  # which is raised where the batches are used
            put(error)

    reader = threading.Thread(target=run, name="momentmix-reader", daemon=True)
    reader.start()
    try:
        while (item := ahead.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        ended.set()
        reader.join()
