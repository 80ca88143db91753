"""Rows that come in batches to this machine: from files, a database, a stream, a generator.

The next batch is read while the one before it is worked at, so at most three are in memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
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


class Batch(NamedTuple):
    """Some rows, and how much each counts."""

    rows: np.ndarray  # (p, n) float64, NaN for gaps
    weights: np.ndarray | None = None  # (p,)


class BatchRows(BlockRows):
    """Rows in batches, which ``read`` begins anew each time it is called, if it can (``again``)."""

    def __init__(
        self,
        read: Callable[[], Iterable[Batch]],
        n: int,
        names: Sequence[str] | None = None,
        again: bool = True,
    ) -> None:
        self.read, self.n, self.names, self.again = read, n, names, again

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
        for i, (X, weights) in enumerate(read_ahead(self.read)):
            part = function(X, weights, *arguments, **of_block(named, Block(i)))
            found[:] = [plus(found[0], part) if found else part]
        if not found:
            raise ValueError("no rows: there was no batch")
        return found[0]


def read_ahead(read: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
    """The batches of a source, the next of which is read in a thread of its own meanwhile."""
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
        except BaseException as error:  # which belongs to whoever asked for the batches
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
