"""Tables in Parquet and Arrow files; pyarrow is imported only where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from momentmix.files.table import HEAD_ROWS, CellKind, Piece, Place, Table, TableError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    Source: TypeAlias = ParquetFile | pyarrow.RecordBatchFileReader | pyarrow.RecordBatchReader


class ArrowTable(Table):
    """A Parquet file or one of Arrow's file and stream formats, read a batch at a time.

    It is not memory-mapped: if a mapped file is truncated, the process is killed.
    """

    #: What errors say of a table that cannot be read to its end.
    _broken = "is damaged"

    def _names(self) -> list[str]:
        import_pyarrow(self.path, self.label)
        try:
            with self._open() as source:
                schema = source.schema_arrow if hasattr(source, "schema_arrow") else source.schema
                self._fields = list(schema)
        except TableError:
            raise
        except Exception as error:  # a damaged file can raise anything
            raise TableError(f"{self.label} cannot be read: {error}") from error
        names = [field.name for field in self._fields]
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise TableError(f"{self.label}: two columns have the name {twice[0]!r}")
        return names

    def _width(self) -> int:
        return len(self._fields)

    def _field_names(self, columns: list[str]) -> list[str]:
        """The names of columns in the file, which may be empty."""
        return [self._fields[self.known.index(name)].name for name in columns]

    @property
    def head_is_all(self) -> bool:
        return len(self._first_rows[0]) <= HEAD_ROWS

    def _head_columns(self) -> list[tuple[CellKind, np.ndarray]]:
        rows, names = self._first_rows
        values = dict(zip(names, rows[:HEAD_ROWS].T, strict=True))
        found: list[tuple[CellKind, np.ndarray]] = []
        for field in self._fields:
            column = values.get(field.name, np.empty(0))
            empty = field.name in values and self.head_is_all and bool(np.isnan(column).all())
            found.append(("empty" if empty else _kind(field.type), column))
        return found

    @cached_property
    def _first_rows(self) -> tuple[np.ndarray, list[str]]:
        """The first HEAD_ROWS + 1 rows of all columns of numbers, and their names."""
        names = [field.name for field in self._fields if _kind(field.type) == "numbers"]
        parts, count = [np.empty((0, len(names)))], 0
        if names:
            with self._open() as source:
                for batch, _, _ in self._batches(source, 0, names):
                    batch.validate()
                    parts.append(columns_as_rows(batch.slice(0, HEAD_ROWS + 1).select(names)))
                    count += len(parts[-1])
                    if count > HEAD_ROWS:
                        break
        return np.concatenate(parts)[: HEAD_ROWS + 1], names

    def _open(self) -> AbstractContextManager[Source]:
        pa = import_pyarrow(self.path, self.label)
        with open(self.path, "rb") as file:
            first = file.read(4)
        if first == b"PAR1" or self.path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet

            return parquet.ParquetFile(self.path)
        source = pa.OSFile(str(self.path))
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source.get_stream(0, self.size))

    def _pieces(self, start: Place) -> Iterator[Piece]:
        columns = self._field_names(self.columns or self.known)
        for field in self._fields:
            if field.name in columns and _kind(field.type) not in ("numbers", "true or false"):
                raise TableError(
                    f"{self.label}, column {field.name}: it holds {field.type}, not numbers"
                )
        with self._open() as source:
            for batch, first, share in self._batches(source, start.rows, columns):
                batch.validate()  # check the lengths of its buffers
                skip = max(0, start.rows - first)
                for a in range(skip, len(batch), self._step):
                    part = batch.slice(a, min(self._step, len(batch) - a))
                    after = first + a + len(part)
                    rows = columns_as_rows(part.select(columns))
                    yield Piece(rows, Place(first + a), Place(after), share)

    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        names = self._field_names(list(columns))
        found: list[list[object]] = [[] for _ in names]
        if names:
            with self._open() as source:
                for batch, _, _ in self._batches(source, 0, names):
                    batch.validate()
                    for cells, name in zip(found, names, strict=True):
                        cells += batch.column(name).to_pylist()
        return [_objects(cells) for cells in found]

    def _batches(
        self, source: Source, start: int, columns: list[str]
    ) -> Iterator[tuple[pyarrow.RecordBatch, int, float]]:
        """Batches that end after row ``start``, the row each begins at, and the share read."""
        pa = import_pyarrow(self.path, self.label)
        done = 0
        try:
            if hasattr(source, "iter_batches"):  # one row group at a time
                total = max(source.metadata.num_rows, 1)
                for group in range(source.num_row_groups):
                    count = source.metadata.row_group(group).num_rows
                    if done + count <= start:
                        done += count
                        continue
                    options = {"row_groups": [group], "columns": columns}
                    for batch in source.iter_batches(batch_size=self._step, **options):
                        yield batch, done, (done + len(batch)) / total
                        done += len(batch)
                return
            known = getattr(source, "num_record_batches", None)
            batches = source if known is None else (source.get_batch(i) for i in range(known))
            for i, batch in enumerate(batches):
                if done + len(batch) > start:
                    yield batch, done, (i + 1) / known if known else 0.0
                done += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.label} {self._broken} after row {done}: {error}") from error


def _objects(cells: list[object]) -> np.ndarray:
    """An array of objects, even if they are lists."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def _kind(data_type: pyarrow.DataType) -> CellKind:
    """What a column of this type holds."""
    from pyarrow import types

    if types.is_floating(data_type) or types.is_integer(data_type) or types.is_decimal(data_type):
        return "numbers"
    if types.is_boolean(data_type):
        return "true or false"
    return "dates" if types.is_temporal(data_type) else "words"


def columns_as_rows(table: pyarrow.Table | pyarrow.RecordBatch) -> np.ndarray:
    """The columns of a pyarrow table or batch as (k, n) float64, empty cells as NaN."""
    columns = [column.to_numpy(zero_copy_only=False) for column in table.columns]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def import_pyarrow(path: Path, label: str, extra: str = "files") -> ModuleType:
    """pyarrow, or a TableError that says how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        kind = f"{path.suffix} files" if path.suffix else "this file"
        raise TableError(
            f"{label}: reading {kind} needs pyarrow: pip install 'momentmix[{extra}]'"
        ) from error
    module: ModuleType = pyarrow
    return module
