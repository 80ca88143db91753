"""Tables in text, in any compression and encoding; pyarrow reads the numbers."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from momentmix.files.arrow_table import columns_as_rows, import_pyarrow
from momentmix.files.dialect import find_dialect, logical_lines, split_cells
from momentmix.files.streams import TextStream, encoding_of, packing
from momentmix.files.table import (
    FEW_WORDS,
    CellKind,
    Piece,
    Place,
    Table,
    TableError,
    as_number,
    gap_forms,
    is_gap,
    is_number,
    kind_of,
)
from momentmix.support.messages import warn_user

if TYPE_CHECKING:
    import pyarrow

#: Bytes that are read at a time, which affects memory and speed only; and the longest line, which
#: bounds memory. Round numbers.
_BLOCK, _LONGEST_LINE = 8 << 20, 64 << 20
#: Bytes at the beginning from which the form of the text is found. A round number, enough for
#: HEAD_ROWS lines of 1,000 characters.
_HEAD_BYTES = 1 << 20
#: The first bytes of files that are not text, and what errors say of them.
_NO_TEXT = {
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls); save it as .xlsx or .csv",
    b"%PDF": "a PDF document",
    b"SQLite": "a database",
    b"\x89HDF": "an HDF5 file; save the table as .parquet or .csv",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
    b"RDX": "an R workspace; save the table with write.csv",
    b"\x89PNG": "a picture",
}


class TextTable(Table):
    """A text file whose encoding, separator, decimal mark and header are detected."""

    def _names(self) -> list[str] | None:
        import_pyarrow(self.path, self.label)
        self._encoding, self._old_mac = "utf-8", False  # so that the first read gives the bytes
        with self._text() as stream:
            first = stream.read(_HEAD_BYTES)
        _refuse_what_is_no_text(first, self.label)
        self._encoding = self.options.encoding or encoding_of(first)
        head, whole = self._first_lines()
        if b"\r" in head and b"\n" not in head:
            self._old_mac = True
            head, whole = self._first_lines()
        if b"\x00" in head:
            raise TableError(f"{self.label}: this is neither text nor a table of a known kind")
        self._dialect = find_dialect(head, whole, self.label, self.options)
        self.said += self._dialect.said
        self._start = Place(0, self._dialect.offset, self._dialect.lines)
        return self._dialect.names

    def _first_lines(self) -> tuple[bytes, bool]:
        """The beginning of the text, at least two lines, and whether it is the whole text."""
        parts, size, lines = list[bytes](), 0, 0
        with self._text() as stream:
            while read := stream.read(_HEAD_BYTES):
                parts.append(read)
                size, lines = size + len(read), lines + read.count(b"\n") + read.count(b"\r")
                if size > _LONGEST_LINE and lines < 2:
                    raise self._too_long(lines)
                if size >= _HEAD_BYTES and lines > 1:
                    return b"".join(parts), False
        return b"".join(parts), True

    def _text(self, skip: int = 0) -> TextStream:
        file = open(self.path, "rb")  # noqa: SIM115  (the stream closes it)
        return TextStream(file, self.label, self.size, self._encoding, self._old_mac, skip)

    def _width(self) -> int:
        return self._dialect.cells

    @property
    def head_is_all(self) -> bool:
        return self._dialect.whole

    def _head_columns(self) -> list[tuple[CellKind, np.ndarray]]:
        decimal, gaps = self._dialect.decimal, self.options.gaps
        if not self._dialect.rows:
            return [("numbers", np.empty(0))] * self._dialect.cells
        columns = zip(*self._dialect.rows, strict=True)
        found: list[tuple[CellKind, np.ndarray]] = []
        for cells in columns:
            kind = kind_of(cells, decimal, gaps)
            held = kind in ("numbers", "numbers and words")
            numbers = [as_number(cell, decimal) for cell in cells] if held else []
            found.append((kind, np.array(numbers)))
            self._say_how(cells, numbers)
        return found

    def _say_how(self, cells: Sequence[str], numbers: Sequence[float]) -> None:
        """Add a note if numbers have currency signs or thousands separators."""
        for cell, number in zip(cells, numbers, strict=False):
            if not np.isnan(number) and not is_number(cell, self._dialect.decimal):
                line = f"{self.label}: {cell!r} and numbers like it are read as {number:.10g}"
                if not any("and numbers like it" in said for said in self.said):
                    self.said.append(line)
                return

    def _too_long(self, lines: int) -> TableError:
        return TableError(f"{self.label}, line {lines + 1}: longer than 64 MiB")

    def row_name(self, piece: Piece, row: int) -> str:
        return f"row {piece.first.rows + row} (about line {piece.first.lines + row + 1})"

    def _pieces(self, start: Place) -> Iterator[Piece]:
        place = max(start, self._start, key=lambda p: p.offset)
        words = Counter[str]()
        for block, share in self._blocks(place):
            rows = self._parse(block, place, words)
            after = Place(
                place.rows + len(rows),
                place.offset + len(block),
                place.lines + block.count(b"\n"),
            )
            yield Piece(rows, place, after, share)
            place = after

    def _blocks(self, place: Place) -> Iterator[tuple[bytes, float]]:
        """Blocks of whole lines from a place on, and the share of the file read so far."""
        lines = place.lines
        with self._text(place.offset) as stream:
            rest = b""
            while True:
                read = stream.read(_BLOCK)
                block = rest + read
                if not block:
                    return
                cut = len(block) if not read else _end_of_last_line(block)
                block, rest = block[:cut], block[cut:]
                if not block:
                    if len(rest) > _LONGEST_LINE:
                        raise self._too_long(lines)
                    continue
                lines += block.count(b"\n")
                yield block, stream.share if rest or read else 1.0

    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        kinds = {
            name: kind for name, (kind, _) in zip(self.known, self._head_columns(), strict=True)
        }
        found: dict[str, list[str]] = {name: [] for name in columns}
        for block, _ in self._blocks(self._start):
            for name, part in zip(columns, self._words(block, columns), strict=True):
                found[name] += part
        return [self._as_column(cells, kinds[name]) for name, cells in found.items()]

    def _words(self, block: bytes, columns: Sequence[str]) -> list[list[str]]:
        """The cells of some columns of a block, as text."""
        pa = import_pyarrow(self.path, self.label)
        text = self._dialect.clean(block)
        if not text.strip():
            return [[] for _ in columns]
        try:
            table = self._read(text, columns, pa.string())
            return [table[name].to_pylist() for name in columns]
        except pa.ArrowInvalid:
            places = [self.known.index(name) for name in columns]
            rows = [cells for _, cells in self._lines_of_cells(block, Place())]
            return [[cells[at] for cells in rows] for at in places]

    def _as_column(self, cells: list[str], kind: CellKind) -> np.ndarray:
        """An array of numbers if every cell is a number or a gap, else of words."""
        if kind == "numbers":
            decimal = self._dialect.decimal
            numbers = np.array([as_number(cell, decimal) for cell in cells])
            gaps = self.options.gaps
            if all(is_gap(cells[i], gaps) for i in np.flatnonzero(np.isnan(numbers))):
                whole = np.all((numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53))
                return numbers.astype(np.int64) if whole else numbers
        return np.array(cells, dtype=object)

    def _parse(self, block: bytes, place: Place, words: Counter[str]) -> np.ndarray:
        pa = import_pyarrow(self.path, self.label)
        text = self._dialect.clean(block)
        if not text.strip():
            return np.empty((0, self.width))
        try:
            return columns_as_rows(self._read(text, self.columns or self.known, pa.float64()))
        except pa.ArrowInvalid as error:
            return self._cell_by_cell(block, place, words, error)

    def _read(
        self, text: bytes, columns: Sequence[str], cell_type: pyarrow.DataType
    ) -> pyarrow.Table:
        """Some columns of lines of text, all read as one type."""
        pa = import_pyarrow(self.path, self.label)
        from pyarrow import csv as arrow_csv

        return arrow_csv.read_csv(
            pa.BufferReader(text),
            # Without threads, because pyarrow's sometimes abort a process that exits soon after.
            read_options=arrow_csv.ReadOptions(
                column_names=self.known, block_size=len(text) + 1, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._dialect.separator, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, cell_type),
                null_values=gap_forms(self.options.gaps),
                decimal_point=self._dialect.decimal,
            ),
        )

    def _cell_by_cell(
        self, block: bytes, place: Place, words: Counter[str], error: Exception
    ) -> np.ndarray:
        """Read cells that pyarrow cannot, such as $1,000, and take a few words for gaps.

        ``words`` counts them in each column. If they are more than FEW_WORDS of the rows so far,
        the first of them is an error.
        """
        known = self.known
        rows: list[list[float]] = []
        wanted = [known.index(name) for name in self.columns or known]
        first: dict[str, tuple[str, str]] = {}  # the first word of each column, and its place
        new = {known[at] for at in wanted if not words[known[at]]}
        for where, cells in self._lines_of_cells(block, place):
            values = [as_number(cells[at], self._dialect.decimal) for at in wanted]
            for at, value in zip(wanted, values, strict=True):
                if np.isnan(value) and not is_gap(cells[at], self.options.gaps):
                    cell = cells[at] if len(cells[at]) < 60 else f"{cells[at][:57]}…"
                    first.setdefault(known[at], (f"{where}, column {known[at]}", cell))
                    words[known[at]] += 1
            rows.append(values)
        for name, (there, word) in first.items():
            if words[name] > FEW_WORDS * (place.rows + len(rows)):
                raise TableError(
                    f"{there}: {word!r} is not a number (--na '{word}' takes it for a gap, "
                    "--exclude leaves the column out)"
                ) from error
            if name in new:
                few = f"words that are at most {100 * FEW_WORDS:g} % of a column are read as gaps"
                text = f"{there}: {word!r} is not a number; {few}, --exclude leaves the column out"
                warn_user(text, UserWarning)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(wanted))

    def _lines_of_cells(self, block: bytes, place: Place) -> Iterator[tuple[str, list[str]]]:
        """The cells of each row of a block, and the place of the row for errors."""
        rows, width = 0, len(self.known)
        for i, line in logical_lines(block, self._dialect.separator):
            text = self._dialect.clean(line).decode("utf-8", errors="replace").rstrip("\r\n")
            if not text.strip():
                continue
            where = f"{self.label}, row {place.rows + rows} (line {place.lines + i + 1})"
            try:
                cells = split_cells(text, self._dialect.separator)
            except csv.Error as failure:
                raise TableError(f"{where}: {failure}") from failure
            if len(cells) != width:
                raise TableError(f"{where}: {len(cells)} cells where {width} belong")
            yield where, cells
            rows += 1


def _refuse_what_is_no_text(head: bytes, label: str) -> None:
    if not head:
        raise TableError(f"{label}: the file is empty")
    what = next((what for mark, what in _NO_TEXT.items() if head.startswith(mark)), None)
    if what is None and head.lstrip().startswith((b"{", b"<")):
        what = "no table but JSON, HTML or XML; save the table as CSV"
        if b'"momentmix-mixture"' in head[:200]:
            what = "a model and no table; momentmix show prints it"
    if what is None and packing(head) is not None:
        what = "packed twice; unpack it first"
    if what is None and head.startswith((b"PAR1", b"ARROW1", b"\x93NUMPY")):
        what = "a binary table inside of a packed file; unpack it first"
    if what is not None:
        raise TableError(f"{label}: this is {what}")


def _end_of_last_line(block: bytes) -> int:
    """The position after the last line end outside quotes; 0 if there is none."""
    cut = block.rfind(b"\n") + 1
    while cut and block.count(b'"', 0, cut) % 2:
        cut = block.rfind(b"\n", 0, cut - 1) + 1
    return cut
