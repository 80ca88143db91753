"""Tables that commands write: to a file, by the ending of its name, or as CSV to a pipe."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from momentmix.cli.console import STANDARD_OUTPUT, in_csv
from momentmix.files.folders import refuse_input
from momentmix.files.writing import check_writable, name_in_errors, written_whole

if TYPE_CHECKING:
    import pyarrow

#: Some rows, column by column.
Columns: TypeAlias = Mapping[str, np.ndarray]
ENDINGS = (".csv", ".npy", ".parquet", ".arrow")
#: Rows are collected into groups of at least this many for Parquet and Arrow files. A round number
#: of usual size; it affects the size of files and the speed of reading.
_ROWS_TOGETHER = 1 << 17


def check_output(
    path: Path | None, inputs: Iterable[object], endings: Sequence[str] = ENDINGS
) -> None:
    """Raise now any error that writing to the path would raise after the work.

    An output that is one of the inputs is refused, because it would be written over.
    """
    if path is None:
        refuse_input(path, map(str, inputs))
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(endings)}")
    check_writable(path)
    refuse_input(path, map(str, inputs))
    if path.suffix.lower() in (".parquet", ".arrow"):
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"{path}: writing {path.suffix} files needs pyarrow: pip install 'momentmix[files]'"
            ) from error


def write_table(path: Path | None, columns: Columns) -> None:
    """Write columns of numbers or objects; to standard output if there is no path.

    Masked cells stay empty, or become NaN in .npy files, which hold numbers alone.
    """
    with table_writer(path) as write:
        write(columns)


@contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[Columns], None]]:
    """Give a function that appends rows; the format is that of ``write_table``.

    A file appears only when all is written. Standard output gets each piece at once.
    """
    if path is None:
        shown = _CsvPieces(sys.stdout.buffer, in_csv)

        def write(columns: Columns) -> None:
            with name_in_errors(STANDARD_OUTPUT):
                shown.write({name: _harmless(column) for name, column in columns.items()})
                sys.stdout.flush()

        yield write
        return
    ending = path.suffix.lower()
    with written_whole(path) as file:
        pieces: _CsvPieces | _NpyPieces | _ArrowPieces
        if ending == ".csv":
            pieces = _CsvPieces(file)
        elif ending == ".npy":
            pieces = _NpyPieces(file)
        else:
            pieces = _ArrowPieces(file, parquet=ending == ".parquet")
        yield pieces.write
        pieces.close()


class _CsvPieces:
    """Writes CSV in which every float reads back exactly."""

    def __init__(self, file: BinaryIO, name: Callable[[str], str] = str) -> None:
        self._file, self._name, self._begun = file, name, False

    def write(self, columns: Columns) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._begun:
            writer.writerow(map(self._name, columns))
            self._begun = True
        length = max(map(len, columns.values()))
        for start in range(0, length, 10_000):
            parts = [column[start : start + 10_000].tolist() for column in columns.values()]
            writer.writerows(zip(*parts, strict=True))
            self._file.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
        self._file.write(text.getvalue().encode())

    def close(self) -> None:
        pass


class _NpyPieces:
    """Writes rows of one array; the header, with their number, is rewritten at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._rows = file, 0
        self._header: dict[str, object] = {}

    def write(self, columns: Columns) -> None:
        part = np.column_stack([*map(_with_nan, columns.values())])
        if not self._header:
            self._header = {"descr": part.dtype.str, "fortran_order": False}
            self._shape = part.shape[1:]
            self._write_header()
        self._rows += len(part)
        self._file.write(np.ascontiguousarray(part, dtype=str(self._header["descr"])).data)

    def _write_header(self) -> None:
        # NumPy pads the header with room for any number of rows.
        header = self._header | {"shape": (self._rows, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.seek(0, os.SEEK_END)


class _ArrowPieces:
    """Writes a Parquet or Arrow file, joining short pieces."""

    def __init__(self, file: BinaryIO, parquet: bool) -> None:
        self._file, self._parquet = file, parquet
        self._writer: Any = None
        self._waiting: list[pyarrow.Table] = []

    def write(self, columns: Columns) -> None:
        import pyarrow as pa

        arrays = [
            pa.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))
            for column in columns.values()
        ]
        self._waiting.append(pa.table(arrays, names=[*columns]))
        if sum(map(len, self._waiting)) >= _ROWS_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = []
        if self._writer is None:
            make = parquet.ParquetWriter if self._parquet else pa.ipc.new_file
            self._writer = make(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()


def _harmless(column: np.ndarray) -> np.ndarray:
    """A column for standard output, without control sequences of the terminal."""
    if column.dtype.kind != "O":
        return column
    cells = [in_csv(cell) if isinstance(cell, str) else cell for cell in column]
    return np.array([*cells, None], dtype=object)[:-1]


def _with_nan(column: np.ndarray) -> np.ndarray:
    if not np.ma.getmaskarray(column).any():
        return np.ma.getdata(column)
    return np.where(np.ma.getmaskarray(column), np.nan, np.ma.getdata(column))
