"""Rows that come in batches to this machine: from files, a database, a stream, a generator.

The next batch is read while the last one is processed, so at most three are in memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from momentmix.blocks.rows import (
    Block,
    BlockFunction,
    BlockRows,
    Parameters,
    Result,
    of_block,
    plus,
)

#: Batches of fewer bytes than the first number are joined, so that the cost of each call does not
#: matter, and batches of more than the second are cut. Round numbers that affect memory and speed.
SMALL, LARGE = 8 << 20, 16 << 20


class Batch(NamedTuple):
    """Some rows and their weights."""

    rows: np.ndarray  # (p, n) float64, NaN for gaps
    weights: np.ndarray | None = None  # (p,)


class BatchRows(BlockRows):
    """Rows in batches; each call of ``read`` starts from the first batch, if ``again`` is true.

    With ``ahead`` they are read in a separate thread, which suits engines. Code of users may have
    to stay in the thread that created it, like connections of sqlite3. ``held`` says that all rows
    are in memory already.
    """

    names: Sequence[str] | None
    held: bool = False

    def __init__(
        self,
        read: Callable[[], Iterable[Batch]],
        n: int,
        names: Sequence[str] | None = None,
        again: bool = True,
        ahead: bool = True,
    ) -> None:
        self.read, self.n, self.names, self.again, self.ahead = read, n, names, again, ahead

    def total(
        self,
        function: BlockFunction[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        if self.n_passes and not self.again:
            raise ValueError(
                "these batches can be read once only; give a function that begins them anew, such "
                "as fit_batches(lambda: read_batches())"
            )
        self.n_passes += 1
        found: list[Result] = []
        # Close it also after an error, whose traceback would keep the thread alive.
        with closing(read_ahead(self.read) if self.ahead else _each(self.read)) as batches:
            for i, (X, weights) in enumerate(batches):
                part = function(X, weights, *arguments, **of_block(named, Block(i)))
                found[:] = [plus(found[0], part) if found else part]
        if not found:
            raise ValueError(
                "no rows: the source gave no batch with a row"
                if self.n_passes == 1
                else f"no rows in pass {self.n_passes} over the source, though there were some "
                "before; a function that gives batches must begin them anew whenever it is called"
            )
        return found[0]


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
