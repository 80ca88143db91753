"""Arrow tables and streams of any library; pyarrow is imported only when it is used.

Arrow's C stream (``__arrow_c_stream__``) is what engines have in common: pyarrow, Polars, DuckDB,
pandas, ADBC, nanoarrow and others provide it. Nothing here depends on which of them it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from momentmix.files.arrow_table import columns_as_rows

if TYPE_CHECKING:
    import pyarrow

    ArrowBatch: TypeAlias = "pyarrow.Table | pyarrow.RecordBatch"

#: Attributes that only readers have; unlike tables, they give each row once.
_OF_READERS = ("__next__", "read_next_batch", "read_next", "read_all", "get_next")
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


def is_arrow(source: object) -> bool:
    """Whether an object provides an Arrow table, batch or stream."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def is_reader(source: object) -> bool:
    """Whether an object gives its rows only once."""
    return any(hasattr(source, name) for name in _OF_READERS)


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
