"""Tables in text with commas; pyarrow reads the numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import numpy as np

from momentmix.files.arrow_table import columns_as_rows, import_pyarrow
from momentmix.files.table import BEGINNING, NOT_A_NUMBER, Piece, Place, Table, TableError

_CSV_BLOCK, _LONGEST_LINE = 8 << 20, 64 << 20
#: What stands for a missing number in text, in small letters.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none")
_GAP_WORDS = [form for gap in GAPS for form in {gap, gap.upper(), gap.title(), "NaN", "N/A"}]


class CsvTable(Table):
    """Text with commas. A first line that is not all numbers names the columns."""

    def _names(self) -> list[str] | None:
        import_pyarrow(self.path, self.label)
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
        pa = import_pyarrow(self.path, self.label)
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
        return columns_as_rows(table)

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
                    return TableError(f"{where}, column {name}: {cell!r} {NOT_A_NUMBER}")
            row += 1
        return TableError(f"{self.label}, rows {place.rows} to {row}: {error}")


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
