"""Rows on a device, and rows copied there in batches; their sums are computed there."""

from __future__ import annotations

from collections.abc import Iterator

from momentmix.blocks.block_rows import Batch, BatchRows, Block, BlockRows, Summand, Work, add_up
from momentmix.support.array import Array, empty_like_rows
from momentmix.support.device import Copying, block_bytes


class DeviceRows(BlockRows):
    """The rows (p, n) of an array on a device, and their weights (p,), also there.

    Functions get them in long blocks, so that a copy of a block in other coordinates takes little
    of the device's memory.
    """

    p: int

    def __init__(self, X: Array, weights: Array | None = None) -> None:
        self.X, self.weights = X, weights
        self.p, self.n = X.shape
        self.device = empty_like_rows(X)

    def _sum(self, work: Work) -> Summand:
        step = max(1, block_bytes(self.X) // (8 * self.n))
        blocks = range(0, self.p, step)

        def part(i: int, start: int) -> Summand:
            rows = slice(start, min(start + step, self.p))
            weights = None if self.weights is None else self.weights[rows]
            return work(self.X[rows, :], weights, Block(i, len(blocks)))

        return add_up(part(i, start) for i, start in enumerate(blocks))


def through_device(rows: BlockRows, like: Array) -> BlockRows:
    """Rows in batches, each of which is copied to the device of ``like`` before it is used.

    The next batch is read and copied meanwhile, so rows need not fit on the device.
    """
    if not isinstance(rows, BatchRows):
        raise TypeError(
            "rows of a cluster cannot be brought to a device here; leave device out, and their "
            "sums are made on the cluster"
        )

    copying = Copying(like)

    def read() -> Iterator[Batch]:
        for X, weights in rows.read():
            there = copying.there(X)
            yield Batch(there, None if weights is None else copying.there(weights))  # type: ignore[arg-type]

    found = BatchRows(read, rows.n, rows.names, rows.again, rows.ahead or rows.held)
    found.device = like
    return found
