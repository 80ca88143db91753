"""Tables of numbers in files, read in pieces: .npy, .csv, .parquet and Arrow.

A ``Table`` yields pieces of rows with the place where the next one begins, so that a reader that
stopped can go on. Whatever is wrong with a file is a ``TableError`` that names the file and the
row. pyarrow is imported only where it is used.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from momentmix.files.arrays import read_header

#: Size of one piece in memory, in bytes of float64.
PIECE_BYTES = 16 << 20
_CSV_BLOCK, _LONGEST_LINE = 8 << 20, 64 << 20


class TableError(ValueError):
    """A file that cannot be read as a table of numbers."""


class Place(NamedTuple):
    """Where a piece begins: rows before it and, for text, bytes and lines before it."""

    rows: int = 0
    offset: int = 0
    lines: int = 0


BEGINNING = Place()


class Piece(NamedTuple):
    rows: np.ndarray  # (k, n) float64
    first: Place
    next: Place
    share: float  # of the file that has been read, by its bytes


class Table:
    """One file. ``columns`` are the names to read, in this order; None for all.

    ``label`` is what errors call it, if not by its path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        label: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.label = str(path) if label is None else label
        if not self.path.is_file():
            raise TableError(f"{self.label}: there is no such file")
        self.size = self.path.stat().st_size
        self.names = self._names()
        if columns is not None:
            known = self.names or [str(i) for i in range(self._width())]
            absent = [name for name in columns if name not in known]
            if absent:
                have = ", ".join(known)
                if self.names is None:
                    have = f"none with a name, but positions 0 to {len(known) - 1}"
                raise TableError(f"{self.label}: no column {', '.join(absent)}; it has {have}")
        self.columns = self.names if columns is None else list(columns)
        self.width = len(self.columns) if self.columns is not None else self._width()
        if self.width == 0:
            raise TableError(f"{self.label}: no columns")

    def _names(self) -> list[str] | None:
        raise NotImplementedError

    def _width(self) -> int:
        raise NotImplementedError

    def _pieces(self, start: Place) -> Iterator[Piece]:
        raise NotImplementedError

    def pieces(self, start: Place = BEGINNING) -> Iterator[Piece]:
        """Pieces of rows from a place on; errors name the file, and rows from 0."""
        try:
            yield from self._pieces(start)
        except (TableError, MemoryError):
            raise
        except Exception as error:  # whatever a reader of files can raise
            raise TableError(f"{self.label}: {error}") from error

    @property
    def _step(self) -> int:
        return max(1, PIECE_BYTES // (8 * self.width))

    def row_name(self, piece: Piece, row: int) -> str:
        return f"row {piece.first.rows + row}"

    def column_name(self, column: int) -> str:
        return str(column) if self.columns is None else self.columns[column]

    def refuse_gaps(
        self, piece: Piece, missing: bool, hint: str = "use --missing pairwise, or fill it"
    ) -> None:
        """Raise for the first entry that is not finite; NaN passes where ``missing`` is allowed."""
        bad = np.isinf(piece.rows) if missing else ~np.isfinite(piece.rows)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            value = piece.rows[row, column]
            hint = f" ({hint})" if np.isnan(value) else " (leave the row out, or mend it)"
            raise TableError(
                f"{self.label}, {self.row_name(piece, row)}, column {self.column_name(column)}: "
                f"{'no value' if np.isnan(value) else value}{hint}"
            )


class NpyTable(Table):
    """A two-dimensional array saved by NumPy, read piece by piece so that memory stays flat.

    It is not mapped into memory, where a file that gets shorter kills the process that reads it.
    """

    def _names(self) -> None:
        try:
            with open(self.path, "rb") as file:
                self._header, self._start = read_header(file), file.tell()
        except Exception as error:  # whatever a damaged header can raise
            raise TableError(f"{self.label} is not a .npy file of numbers: {error}") from error
        shape, _, dtype = self._header
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise TableError(f"{self.label} holds {dtype} of shape {shape}, not a table of numbers")
        if self._start + self._header.nbytes > self.size:
            raise self._cut_short()

    def _width(self) -> int:
        return int(self._header.shape[1])

    def _cut_short(self) -> TableError:
        return TableError(f"{self.label} is not a whole .npy file: its end is missing")

    def _pieces(self, start: Place) -> Iterator[Piece]:
        count = self._header.shape[0]
        with open(self.path, "rb", buffering=0) as file:
            for first in range(start.rows, count, self._step):
                last = min(first + self._step, count)
                part = self._rows(file, first, last)
                if self.columns is not None:
                    part = part[:, [int(position) for position in self.columns]]
                yield Piece(part.astype(np.float64), Place(first), Place(last), last / count)

    def _rows(self, file: BinaryIO, first: int, last: int) -> np.ndarray:
        count, n = self._header.shape
        if not self._header.fortran:
            return self._run(file, first * n, (last - first) * n).reshape(-1, n)
        columns = [self._run(file, count * i + first, last - first) for i in range(n)]
        return np.column_stack(columns)

    def _run(self, file: BinaryIO, at: int, count: int) -> np.ndarray:
        """Numbers that follow each other in the file."""
        dtype = self._header.dtype
        file.seek(self._start + at * dtype.itemsize)
        numbers = np.fromfile(file, dtype, count)
        if len(numbers) < count:
            raise self._cut_short()
        return numbers


class CsvTable(Table):
    """Text with commas. A first line that is not all numbers names the columns."""

    def _names(self) -> list[str] | None:
        _pyarrow(self.path, self.label)
        with open(self.path, "rb") as file:
            line = file.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise self._too_long(0)
        try:
            text = line.decode("utf-8-sig")
            cells = next(csv.reader([text]), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise TableError(f"{self.label}: the first line is not text: {error}") from error
        if not text.strip() or not cells:
            raise TableError(f"{self.label}: the first line is empty")
        other = next((mark for mark in ";\t" if mark in cells[0]), None)
        if len(cells) == 1 and other is not None:
            raise TableError(
                f"{self.label}, line 1: columns seem to be separated by {other!r}; write the file "
                "with commas"
            )
        self._cells = len(cells)
        self._body = BEGINNING
        names = [cell.strip() for cell in cells]
        numbers = [name for name in names if _is_number(name)]
        if numbers:
            # A line of data: with gaps perhaps, but a word in it is a mistake and no name.
            words = [name for name in names if not _is_number(name) and name.lower() not in GAPS]
            if words:
                raise TableError(
                    f"{self.label}, row 0 (line 1): {words[0]!r} stands among numbers; the first "
                    "line must be all names, or all numbers and gaps"
                )
            return None
        if len(set(names)) < len(names):
            raise TableError(f"{self.label}: two columns have the same name in the first line")
        self._body = Place(0, len(line), 1)
        return names

    def _width(self) -> int:
        return self._cells

    def _too_long(self, lines: int) -> TableError:
        return TableError(f"{self.label}, line {lines + 1}: longer than 64 MiB")

    def row_name(self, piece: Piece, row: int) -> str:
        return f"row {piece.first.rows + row} (about line {piece.first.lines + row + 1})"

    def _pieces(self, start: Place) -> Iterator[Piece]:
        place = max(start, self._body, key=lambda p: p.offset)
        with open(self.path, "rb") as file:
            file.seek(place.offset)
            rest = b""
            while True:
                # As long as it was when it was opened, though rows may have been added since.
                left = self.size - place.offset - len(rest)
                read = file.read(min(_CSV_BLOCK, left))
                if left > 0 and not read:
                    raise TableError(f"{self.label} became shorter while it was read")
                block = rest + read
                if not block:
                    return
                cut = len(block) if not read else _end_of_last_line(block)
                block, rest = block[:cut], block[cut:]
                if not block:
                    if len(rest) > _LONGEST_LINE:
                        raise self._too_long(place.lines)
                    continue
                rows = self._parsed(block, place)
                after = Place(
                    place.rows + len(rows), place.offset + cut, place.lines + block.count(b"\n")
                )
                yield Piece(rows, place, after, after.offset / self.size)
                place = after

    def _parsed(self, block: bytes, place: Place) -> np.ndarray:
        pa = _pyarrow(self.path, self.label)
        from pyarrow import csv as arrow_csv

        names = self.names or [str(i) for i in range(self._cells)]
        wanted = self.columns or names
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                read_options=arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=wanted,
                    column_types={name: pa.float64() for name in wanted},
                    null_values=_GAP_WORDS,
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._first_bad_line(block, place, wanted, error) from error
        return _numbers(table)

    def _first_bad_line(
        self, block: bytes, place: Place, wanted: list[str], error: Exception
    ) -> TableError:
        names = self.names or [str(i) for i in range(self._cells)]
        row = place.rows
        for i, line in enumerate(block.split(b"\n")):
            text = line.decode("utf-8", errors="replace").rstrip("\r")
            if not text:
                continue
            where = f"{self.label}, row {row} (line {place.lines + i + 1})"
            cells = next(csv.reader([text]), [])
            if len(cells) != len(names):
                return TableError(f"{where}: {len(cells)} cells where {len(names)} belong")
            for name in wanted:
                cell = cells[names.index(name)].strip()
                if cell and not _is_number(cell) and cell.lower() not in GAPS:
                    return TableError(f"{where}, column {name}: {cell!r} is not a number{_LEAVE}")
            row += 1
        return TableError(f"{self.label}, rows {place.rows} to {row}: {error}")


class ArrowTable(Table):
    """Parquet, or Arrow's own file and stream formats, in batches, one of them in memory.

    They are not mapped into memory, where a file that gets shorter kills the process.
    """

    def _names(self) -> list[str]:
        _pyarrow(self.path, self.label)
        try:
            with self._open() as source:
                schema = source.schema_arrow if hasattr(source, "schema_arrow") else source.schema
                self._types = {field.name: field.type for field in schema}
                return [field.name for field in schema]
        except Exception as error:  # whatever a damaged file can raise
            raise TableError(f"{self.label} cannot be read: {error}") from error

    def _open(self) -> Any:
        pa = _pyarrow(self.path, self.label)
        if self.path.suffix.lower() in (".parquet", ".pq"):
            from pyarrow import parquet

            return parquet.ParquetFile(self.path)
        source = pa.OSFile(str(self.path))
        try:
            return pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source.get_stream(0, self.size))

    def _pieces(self, start: Place) -> Iterator[Piece]:
        pa = _pyarrow(self.path, self.label)
        for name in self.columns or []:
            kind = self._types[name]
            if not (
                pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
            ):
                raise TableError(f"{self.label}, column {name}: {kind} is not a number{_LEAVE}")
        with self._open() as source:
            for batch, first, share in self._batches(source, start.rows):
                batch.validate()  # buffers as long as the batch says
                skip = max(0, start.rows - first)
                for a in range(skip, len(batch), self._step):
                    part = batch.slice(a, min(self._step, len(batch) - a))
                    after = first + a + len(part)
                    rows = _numbers(part.select(self.columns))
                    yield Piece(rows, Place(first + a), Place(after), share)

    def _batches(self, source: Any, start: int) -> Iterator[tuple[Any, int, float]]:
        """Batches that end after row ``start``, the row each begins at, and the share read."""
        pa = _pyarrow(self.path, self.label)
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


_KINDS: dict[str, type[Table]] = {
    ".npy": NpyTable,
    ".csv": CsvTable,
    ".parquet": ArrowTable,
    ".pq": ArrowTable,
    ".arrow": ArrowTable,
    ".arrows": ArrowTable,
    ".feather": ArrowTable,
    ".ipc": ArrowTable,
}
_LEAVE = " (choose columns of numbers with --columns)"
#: What stands for a missing number in text, in small letters.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none")
_GAP_WORDS = [form for gap in GAPS for form in {gap, gap.upper(), gap.title(), "NaN", "N/A"}]


def open_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    label: str | None = None,
) -> Table:
    """The table in a file, by the ending of its name."""
    ending = Path(path).suffix.lower()
    if ending not in _KINDS:
        raise TableError(f"{path}: unknown ending {ending!r}; known are {', '.join(_KINDS)}")
    return _KINDS[ending](path, columns, label)


def ending_of(first: bytes) -> str:
    """The ending that a file with these first bytes should have; text is CSV."""
    known = {b"\x93NUMPY": ".npy", b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff" * 4: ".arrows"}
    return next((ending for mark, ending in known.items() if first.startswith(mark)), ".csv")


def _numbers(table: Any) -> np.ndarray:
    """The columns of a pyarrow table or batch as (k, n) float64, empty cells as NaN."""
    columns = [
        np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        if not hasattr(column, "chunks")
        else np.asarray(column.to_numpy(), dtype=np.float64)
        for column in table.columns
    ]
    return np.column_stack(columns)


def _end_of_last_line(block: bytes) -> int:
    """After the last line end that is not inside quotes; 0 if there is none."""
    cut = block.rfind(b"\n") + 1
    while cut and block.count(b'"', 0, cut) % 2:
        cut = block.rfind(b"\n", 0, cut - 1) + 1
    return cut


def _is_number(text: str) -> bool:
    if "_" in text:  # 1_000 is a number to Python alone
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pyarrow(path: Path, label: str) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise TableError(
            f"{label}: reading {path.suffix} files needs pyarrow: pip install 'momentmix[files]'"
        ) from error
    return pyarrow
