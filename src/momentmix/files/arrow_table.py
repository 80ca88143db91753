"""Tables in Parquet and Arrow files; pyarrow is imported only where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from momentmix.files.table import NOT_A_NUMBER, Piece, Place, Table, TableError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    Source: TypeAlias = ParquetFile | pyarrow.RecordBatchFileReader | pyarrow.RecordBatchReader


class ArrowTable(Table):
    """Parquet, or Arrow's own file and stream formats, in batches, one of them in memory.

    They are not mapped into memory, where a file that gets shorter kills the process.
    """

    def _names(self) -> list[str]:
        import_pyarrow(self.path, self.label)
        try:
            with self._open() as source:
                schema = source.schema_arrow if hasattr(source, "schema_arrow") else source.schema
                self._types = {field.name: field.type for field in schema}
                return [field.name for field in schema]
        except Exception as error:  # whatever a damaged file can raise
            raise TableError(f"{self.label} cannot be read: {error}") from error

    def _width(self) -> int:
        return len(self._types)

    def _open(self) -> Source:
        pa = import_pyarrow(self.path, self.label)
        if self.path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet

            return parquet.ParquetFile(self.path)
        source = pa.OSFile(str(self.path))
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source.get_stream(0, self.size))

    def _pieces(self, start: Place) -> Iterator[Piece]:
        pa = import_pyarrow(self.path, self.label)
        for name in self.columns or []:
            kind = self._types[name]
            if not (
                pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
            ):
                raise TableError(f"{self.label}, column {name}: {kind} {NOT_A_NUMBER}")
        with self._open() as source:
            for batch, first, share in self._batches(source, start.rows):
                batch.validate()  # buffers as long as the batch says
                skip = max(0, start.rows - first)
                for a in range(skip, len(batch), self._step):
                    part = batch.slice(a, min(self._step, len(batch) - a))
                    after = first + a + len(part)
                    rows = columns_as_rows(part.select(self.columns))
                    yield Piece(rows, Place(first + a), Place(after), share)

    def _batches(
        self, source: Source, start: int
    ) -> Iterator[tuple[pyarrow.RecordBatch, int, float]]:
        """Batches that end after row ``start``, the row each begins at, and the share read."""
        pa = import_pyarrow(self.path, self.label)
        done = 0
        try:
            if hasattr(source, "iter_batches"):  # a row group at a time, or it reads far ahead
                total = max(source.metadata.num_rows, 1)
                for group in range(source.num_row_groups):
                    count = source.metadata.row_group(group).num_rows
                    if done + count <= start:
                        done += count
                        continue
                    options = {"row_groups": [group], "columns": self.columns}
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
            raise TableError(f"{self.label} is damaged after row {done}: {error}") from error


def columns_as_rows(table: pyarrow.Table | pyarrow.RecordBatch) -> np.ndarray:
    """The columns of a pyarrow table or batch as (k, n) float64, empty cells as NaN."""
    columns = [column.to_numpy(zero_copy_only=False) for column in table.columns]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def import_pyarrow(path: Path, label: str) -> ModuleType:
    """pyarrow, or a TableError that says how to get it."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise TableError(
            f"{label}: reading {path.suffix} files needs pyarrow: pip install 'momentmix[files]'"
        ) from error
    module: ModuleType = pyarrow
    return module
