"""Anything that users pass as rows, recognised by its methods without importing its library.

The one function is ``block_rows``. A new engine that offers Arrow's C stream works without change;
docs/design.md says what any other needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, cast

from momentmix.blocks import arrow_rows
from momentmix.blocks.block_rows import SMALL, Batch, BatchRows, BlockRows, in_pieces
from momentmix.blocks.dask_rows import table_rows
from momentmix.blocks.device_rows import DeviceRows, through_device
from momentmix.blocks.engines import (
    is_arrow,
    is_dask,
    is_duckdb,
    is_lazy,
    is_reader,
    is_relation,
    is_spark,
    is_table,
)
from momentmix.blocks.layout import Given, Layout
from momentmix.blocks.spark_rows import SparkRows
from momentmix.support.array import (
    Array,
    array_device,
    as_float_array,
    on_accelerator,
    refuse_graph,
)
from momentmix.support.device import device_named

#: A table elsewhere, a stream, batches, or a function that returns one of these.
Source: TypeAlias = Any
#: Columns to read, or None for all of them.
Columns: TypeAlias = Sequence[Hashable] | None


def block_rows(
    source: Source,
    columns: Columns = None,
    weights: Hashable | None = None,
    *,
    once: bool = True,
    device: str | None = None,
) -> BlockRows:
    """The rows of a source, copied to the named device if there is one.

    ``columns`` names the columns of tables that are features, by default all but ``weights``, which
    names the column of weights. With ``once=False``, a source that can be read only once is refused
    before anything of it is read. Looking at the columns of a source loses none of its rows.
    """
    there = None if device is None else device_named(device)
    if columns is None and weights is None and _stays(source, there):
        refuse_graph("estimators", source)
        X = as_float_array(source, "X", (2,))
        if 0 in X.shape:
            raise ValueError(f"no rows: the source is an array of shape {tuple(X.shape)}")
        return DeviceRows(X)
    if there is not None:
        return through_device(block_rows(source, columns, weights, once=once), there)
    if isinstance(source, BlockRows):
        return source
    if is_dask(source):
        return table_rows(source, columns, weights)
    if is_spark(source):
        return SparkRows(source, columns, weights)
    if callable(source):
        return _call_anew(source, columns, weights)
    opened = _open(source)
    if not (opened.again or once):
        raise ValueError(
            f"a {type(source).__name__} can be read once, but this fit reads its rows again and "
            "again. MomentMixture fits the moments of one pass; or give a function that begins the "
            "batches anew, such as fit_batches(lambda: read_batches())"
        )
    layout = Layout.of(opened.head(), columns, weights)

    def read() -> Iterator[Batch]:
        return in_pieces(layout.batches(opened.batches(layout.wanted)))

    names, again, ahead = layout.names, opened.again, opened.ahead
    return BatchRows(read, layout.width, names, again, ahead, opened.held)


def _stays(source: Source, there: Array | None) -> bool:
    """Whether the rows are on a device already and no other one is asked for."""
    if not on_accelerator(source):
        return False
    return there is None or array_device(source) == array_device(there)


@dataclass
class _OpenSource:
    """A recognised source of which nothing has been read yet.

    ``head`` returns a batch with all columns and possibly no rows. ``batches`` returns all batches,
    possibly without the columns that are not wanted.
    """

    head: Callable[[], Given]
    batches: Callable[[Columns], Iterable[Given]]
    again: bool = True
    ahead: bool = True
    held: bool = False  # in memory


def _open(source: Source) -> _OpenSource:
    if isinstance(source, str | bytes | dict):
        raise TypeError(
            f"cannot read batches from {type(source).__name__}; of files, give for instance "
            "pyarrow.dataset.dataset(path), polars.scan_parquet(path) or duckdb.read_csv(path)"
        )
    if is_lazy(source):
        return _OpenSource(
            lambda: source.head(0).collect(),  # all columns, without reading a row
            lambda wanted: arrow_rows.lazy_batches(source, _texts(wanted), _rows_each(wanted)),
        )
    if is_duckdb(source):
        if not is_relation(source):
            return _of_reader(lambda: arrow_rows.open_result(source, _rows_each(None)))
        return _OpenSource(
            lambda: arrow_rows.open_result(source.limit(0), 1).read_all(),
            lambda wanted: arrow_rows.relation_batches(source, _texts(wanted), _rows_each(wanted)),
        )
    if is_table(source) and not is_reader(source):
        return _OpenSource(lambda: source, lambda wanted: [source], ahead=False, held=True)
    if is_arrow(source):
        return _of_reader(lambda: arrow_rows.open_stream(source))
    if hasattr(source, "to_batches"):
        schema = source.schema if hasattr(source, "schema") else source.projected_schema
        return _OpenSource(
            schema.empty_table,
            lambda wanted: arrow_rows.dataset_batches(source, _texts(wanted)),
        )
    if hasattr(source, "to_reader"):  # of Arrow Flight
        return _of_reader(source.to_reader)
    if getattr(source, "ndim", None) == 2:
        return _OpenSource(lambda: source, lambda wanted: [source], ahead=False, held=True)
    if isinstance(source, Iterable):
        return _of_iterable(source)
    raise TypeError(
        f"cannot read batches from {type(source).__name__}; give a table, something with an Arrow "
        "stream, batches in a list or a generator, or a function that gives one of these"
    )


def _of_reader(begin: Callable[[], Any]) -> _OpenSource:
    """A source with a reader of Arrow batches, which is created once and knows its columns."""
    kept: list[Any] = []

    def reader() -> Any:
        if not kept:
            kept.append(begin())
        return kept[0]

    return _OpenSource(lambda: reader().schema.empty_table(), lambda wanted: reader(), again=False)


def _of_iterable(source: Iterable[Given]) -> _OpenSource:
    """A source of batches in a list or a generator; the first one shows the columns."""
    begun: list[Iterator[Given]] = []

    def head() -> Given:
        batches = iter(source)
        for first in batches:
            begun.append(chain([first], batches))
            return first
        raise ValueError("no rows: the source has no batches")

    def batches(wanted: Columns) -> Iterable[Given]:
        return begun.pop() if begun else source

    # An iterator can be read only once.
    return _OpenSource(head, batches, again=not hasattr(source, "__next__"), ahead=False)


def _call_anew(
    function: Callable[[], Source], columns: Columns, weights: Hashable | None
) -> BlockRows:
    """The rows of what a function returns; it is called once for each pass."""
    first = block_rows(function(), columns, weights)
    if not isinstance(first, BatchRows):
        return first
    begun, names = [first], first.names

    def read() -> Iterable[Batch]:
        rows = begun.pop() if begun else block_rows(function(), columns, weights)
        if not isinstance(rows, BatchRows) or (rows.n, rows.names) != (first.n, names):
            raise ValueError(
                "the function that gives the batches gave other columns than the first time"
            )
        return rows.read()

    # ``held`` stays false, so that the function is never called in the thread that copies ahead.
    return BatchRows(read, first.n, names, ahead=first.ahead)


def _texts(columns: Columns) -> list[str] | None:
    return None if columns is None else cast("list[str]", list(columns))


def _rows_each(columns: Columns) -> int:
    """How many rows make a batch that is neither small nor large."""
    return SMALL // 8 // max(len(columns or ()), 8)
