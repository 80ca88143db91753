"""The form of a text table, found from its first lines: separator, decimal mark, header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from momentmix.files.table import (
    HEAD_ROWS,
    SIGNS,
    ReadOptions,
    TableError,
    as_number,
    is_gap,
    is_number,
    kind_of,
)

#: In the order of preference if several fit equally well. A blank means any run of blanks and tabs.
SEPARATORS = (",", ";", "\t", "|", " ")
_ANY_SEPARATOR = ",;\t|"
#: Separators are tried on this many lines. A round number that affects the speed of opening only,
#: unless the first lines differ from the rest.
_TRIED = 200
#: A cell of these alone is a part of a number, as in -€ 5.
_SIGNS_ALONE = set(SIGNS + "-")
_BOM = b"\xef\xbb\xbf"
_COMMENT = re.compile(rb"(?m)^[ \t]*#[^\n]*(?:\n|\Z)")
_BLANKS, _ENDS = re.compile(rb"[ \t]+"), re.compile(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)")


@dataclass(frozen=True)
class Dialect:
    """The form of a text table, and its first rows."""

    separator: str
    decimal: str
    names: list[str] | None  # of the columns, "" for one without a name
    cells: int  # in a line
    offset: int  # of the first row, in bytes of UTF-8
    lines: int  # before it
    rows: list[list[str]]  # the first ones, cell by cell
    whole: bool  # whether these are all
    said: list[str]  # notes for the user

    def clean(self, block: bytes) -> bytes:
        """Whole lines without comments; if blanks separate cells, runs of them become one."""
        if b"#" in block:
            block = _COMMENT.sub(lambda line: line[0] if self._is_row(line[0]) else b"", block)
        return _single_blanks(block) if self.separator == " " else block

    def _is_row(self, line: bytes) -> bool:
        """Whether a line that begins with # has as many cells as a row, and so is a row."""
        return _is_row(line.decode("utf-8", "replace").rstrip("\r\n"), self.separator, self.cells)


def find_dialect(head: bytes, whole: bool, label: str, options: ReadOptions) -> Dialect:
    """The dialect of a text that begins with ``head``; ``whole`` says that nothing follows."""
    lines = _lines(head, whole)
    table = [line for line in lines if line.text.strip() and not line.hash]
    if not table:
        held = any(line.hash for line in lines)
        raise TableError(f"{label}: the file {'holds only comments' if held else 'is empty'}")
    try:
        (separator, decimal), rival = _separator(table[:_TRIED], options)
        found = _Head(lines, separator, decimal, label, options)
        if rival is not None:
            found.said.append(
                f"{label}: cells are separated by {separator!r}, and {rival[0]!r} is as likely; "
                "--sep chooses"
            )
        return found.dialect(whole)
    except csv.Error as error:
        raise TableError(f"{label}: a line cannot be split into cells: {error}") from error


def split_cells(text: str, separator: str) -> list[str]:
    """The cells of one line."""
    if separator == " ":
        text = _single_blanks(text.encode()).decode()
    if text and not any(mark in text for mark in '"\r\n'):  # of any length, unlike those of csv
        return [cell.strip() for cell in text.split(separator)]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return [cell.strip() for cell in next(reader, [])]


def _is_row(text: str, separator: str, cells: int) -> bool:
    try:
        return cells > 1 and len(split_cells(text, separator)) == cells
    except csv.Error:
        return False


def _single_blanks(block: bytes) -> bytes:
    return _BLANKS.sub(b" ", _ENDS.sub(b"", block))


class _Line:
    """A line of the head: its text, and how many lines and bytes come before it."""

    def __init__(self, number: int, start: int, data: bytes) -> None:
        self.number, self.start, self.end = number, start, start + len(data)
        if start == 0 and data.startswith(_BOM):
            self.start, data = len(_BOM), data[len(_BOM) :]
        self.text = data.decode("utf-8", "replace").rstrip("\r\n")
        self.hash = self.text.lstrip().startswith("#")


def _lines(head: bytes, whole: bool) -> list[_Line]:
    """The first lines, without the last one if it may be cut off."""
    found: list[_Line] = []
    start = 0
    for number, line in logical_lines(head, _ANY_SEPARATOR):
        found.append(_Line(number, start, line))
        start += len(line)
        if len(found) == 2 * HEAD_ROWS:
            return found
    cut_off = not whole and len(found) > 1 and not head.endswith(b"\n")
    return found[:-1] if cut_off else found


def logical_lines(text: bytes, separators: str) -> Iterator[tuple[int, bytes]]:
    """Lines, numbered from 0; a line break inside quotes does not end a line."""
    begin = rb"(?:^|[" + re.escape(separators.encode()) + rb"])[ ]*"
    closed = re.compile(begin + rb'"(?:[^"]|"")*"')
    opened = re.compile(begin + rb'"')
    pieces = text.splitlines(keepends=True)
    number, line = 0, b""
    for i, piece in enumerate(pieces):
        line += piece
        within = b'"' in line and opened.search(closed.sub(b"x", line)) is not None
        if within and any(b'"' in later for later in pieces[i + 1 : i + 50]):
            continue
        yield number, line
        number, line = i + 1, b""


def _separator(
    lines: Sequence[_Line], options: ReadOptions
) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """The separator and decimal mark that give lines of equal length and the most numbers.

    Beside them, another pair that is equally good, if there is one.
    """
    separators = SEPARATORS if options.separator is None else (options.separator,)
    decimals = (".", ",") if options.decimal is None else (options.decimal,)

    # Where every line has another mark, commas and blanks are within its cells.
    mixed = all(any(mark in line.text.strip() for mark in ";\t|") for line in lines)

    def score(form: tuple[str, str]) -> tuple[bool, bool, float, float]:
        separator, decimal = form
        top, *rows = [split_cells(line.text, separator) for line in lines]
        rows = rows or [top]
        width, often = Counter(map(len, rows)).most_common(1)[0]
        below = len(top) == width or len(top) < width - 1  # names, numbers or a title
        if len(top) == width - 1:  # rows have names, or end with a separator
            below = separator in "\t " or not any(row[-1] for row in rows)
            below |= len(rows[0]) == width and not any(as_number(x) < np.inf for x in rows[0])
        below &= not any('"' in cell for cell in top)  # it would cut what quotes hold together
        if width == 1 and separator != ",":
            below &= decimal == "." or "," not in top[0]
        filled = [cell for row in rows for cell in row if not is_gap(cell, options.gaps)]
        if separator == " ":  # which also stands between a sign and its number
            below &= not any(set(cell) <= _SIGNS_ALONE for cell in filled)
        values = [as_number(cell, decimal) for cell in filled]
        plain = sum(is_number(cell, decimal) for cell in filled)
        other = len(values) - np.isnan(values).sum() - plain
        numbers = (plain + 0.9 * other) / max(1, len(filled))
        if decimal == "," and _are_thousands(rows, separator):
            numbers *= 0.8
        if separator in ", " and mixed:
            numbers *= 0.6
        if len(top) < width - 1:  # a title, if it is not a line whose numbers have no such marks
            numbers *= 0.8
        even = width > 1 and often >= 0.9 * len(rows)
        return below, even, round(numbers, 2), often / len(rows)

    scores = {form: score(form) for form in product(separators, decimals)}
    best = max(scores, key=lambda form: scores[form])  # the first of equally good ones
    equal = [form for form in scores if form[0] != best[0] and scores[form] == scores[best]]
    return best, equal[0] if equal and scores[best][1] and scores[best][2] else None


def _are_thousands(rows: list[list[str]], separator: str) -> bool:
    """Whether commas separate thousands: each has three digits after it, small numbers none."""
    commas = [cell for row in rows for cell in row if "," in cell and as_number(cell, ",") < np.inf]
    if not commas or not all(re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", cell) for cell in commas):
        return False
    even = [row for row in rows if len(row) == len(rows[0])]
    columns = [set(column) for column in zip(*even, strict=True)]
    return separator == "," or any(
        column & set(commas) and any(cell.isdecimal() for cell in column) for column in columns
    )


class _Head:
    """The first lines of a table with a known separator; finds the line with the names."""

    def __init__(
        self,
        lines: list[_Line],
        separator: str,
        decimal: str,
        label: str,
        options: ReadOptions,
    ) -> None:
        self.separator, self.decimal, self.label, self.options = separator, decimal, label, options
        self.said: list[str] = []
        self.comments = {line.end: line.text for line in lines if line.hash}
        table = [line for line in lines if line.text.strip() and not line.hash]
        widths = [len(split_cells(line.text, separator)) for line in table]
        counts = Counter(widths[1:] or widths)
        self.cells = max(counts, key=lambda count: (counts[count], count))
        below = lines[lines.index(table[0]) :]
        table = [  # below the first line, one with a # may be a row
            line
            for line in below
            if line.text.strip() and not (line.hash and not self._is_row(line))
        ]
        rows = [split_cells(line.text, separator) for line in table]
        titles = 0  # lines above the table
        while titles < len(rows) - 1 and self._is_title(rows[titles], rows[titles + 1]):
            titles += 1
        if titles:
            self.said.append(
                f"{label}: the lines above the table were skipped ({table[0].text.strip()[:40]!r})"
            )
        self.lines, self.rows = table[titles:], rows[titles:]
        self._say_what_else()

    def _say_what_else(self) -> None:
        """What else the lines can mean: one number each, or marks between thousands."""
        # A name may have blanks, so that as many names as cells prove nothing then.
        names = len(self.rows[0]) != self.cells or self.separator == " "
        below = [line.text for line in self.lines[names:]]
        whole = [d for d in ".," if below and all(as_number(t, d) < np.inf for t in below)]
        if self.options.separator is None and self.cells > 1 and whole:
            self.said.append(
                f"{self.label}: the lines were split into {self.cells} columns "
                f"({below[0].strip()!r}); --sep ';' --decimal '{whole[-1]}' takes each for one "
                "number"
            )
        if self.options.decimal is None and (cell := self._perhaps_thousands()):
            self.said.append(
                f"{self.label}: {cell!r} and numbers like it are read as "
                f"{as_number(cell, self.decimal):.10g}; --decimal {'.,'[self.decimal == '.']} "
                "reads them as thousands"
            )

    def _perhaps_thousands(self) -> str | None:
        """A number whose decimal mark may be one of thousands.

        If it is a comma, all such numbers have three digits after it. If it is a point, those of a
        column do, and the others there are whole and have at most three digits.
        """
        mark = self.decimal
        short = re.compile(rf"[+-]?(0|[1-9]\d{{0,2}}(\{mark}\d{{3}})?)")
        rows = [row for row in self.rows if len(row) == self.cells]
        columns = zip(*rows, strict=True) if mark == "." else [[c for row in rows for c in row]]
        for column in columns:
            numbers = [c for c in column if is_number(c, mark) and (mark == "." or mark in c)]
            marked = [cell for cell in numbers if mark in cell]
            mixed = mark == "," or len(marked) < len(numbers)
            if marked and mixed and all(map(short.fullmatch, numbers)):
                return marked[0]
        return None

    def dialect(self, whole: bool) -> Dialect:
        names, first = None, 0
        if self.options.header or (self.options.header is None and self._first_line_is_header()):
            names, first = self.rows[0], 1
        elif self.options.header is None:
            names = self._names_in_comment()
        rows = self.rows[first:]
        if first < len(self.lines):
            offset, before = self.lines[first].start, self.lines[first].number
        else:  # nothing follows the header
            offset, before = self.lines[0].end, self.lines[0].number + 1
        return Dialect(
            self.separator,
            self.decimal,
            None if names is None else self._one_a_cell(names, rows),
            self.cells,
            offset,
            before,
            [row for row in rows[:HEAD_ROWS] if len(row) == self.cells],
            whole and len(rows) <= HEAD_ROWS,
            self.said,
        )

    def _is_title(self, row: list[str], below: list[str]) -> bool:
        """Whether a line is a title above the table: shorter than its lines, or one filled cell.

        A line of names may have one cell fewer than the rows below it.
        """
        filled = [cell for cell in row if cell]
        alone = len(filled) == 1 and not self._is_number(filled[0])
        names_follow = len(below) == self.cells and not any(map(self._is_number, below))
        short = len(row) < self.cells - (0 if names_follow else 1)
        return (self.cells > 2 or names_follow) and (short or alone)

    def _is_row(self, line: _Line) -> bool:
        return _is_row(line.text, self.separator, self.cells)

    def _is_number(self, cell: str) -> bool:
        return not np.isnan(as_number(cell, self.decimal))

    def _numbers_on_top(self) -> list[int]:
        """Where the first line has numbers; with a sign such as %, only above others with it."""
        rows = [row for row in self.rows[1:] if len(row) == self.cells]
        return [
            i
            for i, cell in enumerate(self.rows[0])
            if self._is_number(cell)
            and all(any(c in row[i] for row in rows) for c in cell if c in SIGNS and i < self.cells)
        ]

    def _first_line_is_header(self) -> bool:
        top = self.rows[0]
        numbers = [top[i] for i in self._numbers_on_top()]
        words = self._words_over_numbers()
        if not numbers:
            if not words:
                self._say_header()
            return not all(is_gap(cell, self.options.gaps) for cell in top)
        values = [as_number(cell, self.decimal) for cell in numbers]
        counting = len(values) > 1 and _counts(values) and all(c.isdigit() for c in numbers)
        years = values[0] >= 1800 and values[-1] <= 2200
        positions = values[0] == 0 and len(values) > 2  # pandas numbers columns that have no names
        counted = counting and (years or positions or words) and not self._rows_count_too()
        if counted or self._is_far_off():
            self._say_header()
            return True
        if words:
            raise TableError(
                f"{self.label}, row 0 (line {self.lines[0].number + 1}): {words[0]!r} stands among "
                "numbers; --header yes says that this line names the columns, and "
                f"--na '{words[0]}' that this is a gap"
            )
        return False

    def _say_header(self) -> None:
        top = self.rows[0]
        self.said.append(
            f"{self.label}: the first line ({', '.join(top[:4])}{', …' * (len(top) > 4)}) was "
            "taken for the names of the columns; --header no makes it a row of numbers"
        )

    def _is_far_off(self) -> bool:
        """Whether the numbers of the first line lie far outside the range of those below."""
        first = self.rows[0][: self.cells]  # it may be longer than the rows below
        columns = [
            [as_number(row[i], self.decimal) for row in self.rows[1:] if len(row) == self.cells]
            for i, cell in enumerate(first)
            if self._is_number(cell)
        ]
        top = [as_number(cell, self.decimal) for cell in first if self._is_number(cell)]
        for value, column in zip(top, columns, strict=True):
            below = np.array(column)[~np.isnan(column)]
            if len(below) < 5 or not value.is_integer():
                return False
            low, high = below.min(), below.max()
            if low - (high - low) <= value <= high + (high - low):
                return False
        return True

    def _words_over_numbers(self) -> list[str]:
        """The words of the first line above columns of numbers."""
        gaps = self.options.gaps
        columns = zip(*(row for row in self.rows[1:] if len(row) == self.cells), strict=False)
        kinds = [kind_of(column, self.decimal, gaps) for column in columns]
        return [
            cell
            for cell, kind in zip(self.rows[0], kinds or ["empty"] * self.cells, strict=False)
            if kind in ("numbers", "numbers and words", "empty")
            and not self._is_number(cell)
            and not is_gap(cell, gaps)
        ]

    def _rows_count_too(self) -> bool:
        """Whether the rows below count up by one too, so that the first line is a row like them."""
        at = [i for i, cell in enumerate(self.rows[0]) if self._is_number(cell)]
        below = [row for row in self.rows[1:4] if len(row) > max(at)]
        return bool(below) and all(
            _counts([as_number(row[i], self.decimal) for i in at]) for row in below
        )

    def _names_in_comment(self) -> list[str] | None:
        """The names in the comment right above the table, as NumPy writes them; "#" may be one."""
        text = self.comments.get(self.lines[0].start, "").lstrip()
        if split_cells(text, self.separator)[:1] != ["#"] or self.separator == " ":
            text = text.removeprefix("#")
        names = split_cells(text, self.separator)
        fit = len(names) == self.cells and not any(map(self._is_number, names))
        return names if fit else None

    def _one_a_cell(self, names: list[str], rows: list[list[str]]) -> list[str]:
        """One name for each cell, also if lines end with a separator or begin with a row name."""
        if len(names) == self.cells - 1:
            trailing = not any(row[-1] for row in rows if len(row) == self.cells)
            return [*names, ""] if trailing else ["", *names]
        if len(names) == self.cells + 1 and not names[-1]:
            return names[:-1]
        if len(names) != self.cells:
            raise TableError(
                f"{self.label}: there are {len(names)} names in the first line, but {self.cells} "
                "cells in the lines below"
            )
        return names


def _counts(values: Sequence[float]) -> bool:
    return all(b - a == 1 for a, b in pairwise(values))
