"""Lazy frames of Polars, streamed in batches; Polars is never imported here.

Data frames of Polars are treated as Arrow tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame


def is_lazy(source: object) -> TypeGuard[LazyFrame]:
    """Whether a source is a lazy frame of Polars."""
    return type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "collect")


def lazy_head(source: LazyFrame) -> DataFrame:
    """All columns, without reading a row."""
    return source.head(0).collect()


def lazy_batches(
    source: LazyFrame, columns: Sequence[str] | None, rows: int
) -> Iterator[DataFrame]:
    """The frame in batches of ``rows`` rows; the query runs once, and its result is streamed."""
    if not hasattr(source, "collect_batches"):
        raise ImportError(
            "streaming a LazyFrame needs Polars 1.34 or newer: pip install 'momentmix[polars]'; "
            "or collect() it first, if it fits into memory"
        )
    chosen = source if columns is None else source.select(list(columns))
    batches = chosen.collect_batches(chunk_size=rows, maintain_order=True)
    try:
        yield from batches
    finally:
        if hasattr(batches, "stop"):  # or the query runs on although its results are not used
            batches.stop()
