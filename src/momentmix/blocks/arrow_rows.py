"""Rows in Arrow's streams, and how DuckDB and Polars become such streams.

Arrow's C stream (``__arrow_c_stream__``) is what engines have in common: pyarrow, Polars, DuckDB,
pandas, ADBC, nanoarrow and others provide it. Nothing here depends on which of them it is, and
pyarrow is imported only when it is used.

DuckDB's relations and results are streamed as Arrow batches by its own readers, because before
DuckDB 2 its Arrow stream builds the whole result first. Lazy frames of Polars are streamed in
batches, and its data frames are Arrow tables. Neither library is imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from momentmix.blocks.engines import DUCKDB_READERS
from momentmix.files.arrow_table import columns_as_rows

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from polars import DataFrame, LazyFrame

    ArrowBatch: TypeAlias = "pyarrow.Table | pyarrow.RecordBatch"

#: How far a dataset reads ahead: batches within a file, and files. Small numbers, because Arrow's
#: defaults hold many batches in memory; they affect memory and speed only.
_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}


def import_pyarrow() -> ModuleType:
    """pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("reading this needs pyarrow: pip install 'momentmix[files]'") from error
    module: ModuleType = pyarrow
    return module


def as_arrow(batch: object) -> ArrowBatch:
    """A table or batch of any library as one of pyarrow, with columns not copied."""
    pa = import_pyarrow()
    return batch if isinstance(batch, pa.Table | pa.RecordBatch) else pa.table(batch)


def open_stream(source: object) -> pyarrow.RecordBatchReader:
    """A reader of an Arrow stream; a reader is returned as it is."""
    pa = import_pyarrow()
    if isinstance(source, pa.RecordBatchReader):
        return source
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source)
    return pa.table(source).to_reader()


def dataset_batches(
    source: pyarrow.dataset.Dataset | pyarrow.dataset.Scanner, columns: Sequence[str] | None
) -> Iterator[pyarrow.RecordBatch]:
    """The batches of a dataset, of some columns if it can select them, read a little ahead."""
    if not hasattr(source, "scanner"):  # it is a scanner, with its own settings
        yield from source.to_batches()
        return
    chosen = None if columns is None else list(columns)
    if getattr(getattr(source, "format", None), "default_extname", None) != "parquet":
        yield from source.to_batches(columns=chosen, **_AHEAD)
        return
    from pyarrow.dataset import ParquetFragmentScanOptions

    # Buffered data stay in memory until the end of the file, so nothing is buffered beforehand.
    options = {"fragment_scan_options": ParquetFragmentScanOptions(pre_buffer=False), **_AHEAD}
    names = source.schema.names if chosen is None else chosen
    try:
        files = source.get_fragments()
    except ValueError:  # it has a filter and does not list its files
        yield from source.to_batches(columns=chosen, **options)
        return
    for file in files:
        for group in file.split_by_row_group():  # over a whole file it reads far ahead
            yield from group.to_batches(schema=source.schema, columns=names, **options)


def words_among(batch: ArrowBatch, columns: Sequence[Hashable]) -> list[Hashable]:
    """Those columns that do not hold numbers."""
    from pyarrow import types

    kinds = types.is_floating, types.is_integer, types.is_decimal, types.is_boolean, types.is_null
    fields = [(name, batch.schema.field(name).type) for name in columns]
    return [name for name, kind in fields if not any(holds(kind) for holds in kinds)]


def matrix(batch: ArrowBatch, columns: Sequence[Hashable]) -> np.ndarray:
    """Columns as rows (p, n) of float64, with NaN for null."""
    from pyarrow import types

    chosen = batch.select(list(columns))
    if any(types.is_decimal(kind) for kind in chosen.schema.types):  # each would become an object
        pa = import_pyarrow()
        kinds = [pa.float64() if types.is_decimal(kind) else kind for kind in chosen.schema.types]
        names = chosen.schema.names
        chosen = chosen.cast(pa.schema(list(zip(names, kinds, strict=True))))
    return columns_as_rows(chosen)


def relation_batches(
    source: DuckDBPyRelation, columns: Sequence[str] | None, rows: int
) -> Iterator[pyarrow.RecordBatch]:
    """The relation in batches of about ``rows`` rows."""
    if columns is not None:
        source = source.project(", ".join(_quote(name) for name in columns))
    # An open result blocks its connection for other queries.
    with open_result(source, rows) as reader:
        yield from reader


def open_result(
    source: DuckDBPyRelation | DuckDBPyConnection, rows: int
) -> pyarrow.RecordBatchReader:
    """A reader of a result in batches of about ``rows`` rows."""
    name = next(name for name in DUCKDB_READERS if hasattr(source, name))
    return getattr(source, name)(rows)


def _quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


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
