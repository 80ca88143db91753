"""A table of numbers in a file: what all formats share.

A ``Table`` yields pieces of rows, each with the place where the next begins, so that an interrupted
reader can resume. Its head shows what the columns hold before some are chosen, and each cell of
text is a number, a gap, a date, a code, true or false, or a word. Options say how to read a file in
place of automatic detection. Every problem with a file is a ``TableError`` that names the file and
the row.
"""

from __future__ import annotations

import codecs
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about the form of a table; None means that it is detected.

    ``gaps`` are words that stand for a missing number besides the usual ones. ``header`` tells
    whether the first line names the columns. ``sheet`` is the name of a sheet in a workbook.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    gaps: tuple[str, ...] = ()
    header: bool | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\n\r'):
            raise ValueError(f"a separator is one character, got {self.separator!r}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"the decimal mark is '.' or ',', got {self.decimal!r}")
        if self.encoding is not None:
            try:
                "".encode(codecs.lookup(self.encoding).name)
            except (LookupError, ValueError) as error:
                raise ValueError(f"there is no encoding {self.encoding!r} of text") from error


FIND_OUT = ReadOptions()

#: The kind of the cells of a column.
CellKind: TypeAlias = Literal[
    "numbers", "numbers and words", "words", "dates", "codes", "true or false", "empty"
]

#: The words for a missing number in text, in lower case.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none", "missing", "?", "-", "--", ".")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?([T ]\d{1,2}:\d{2}.*)?|\d{4}/\d{1,2}/\d{1,2}.*|"
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2}.*)?"
)
#: The numbers that pyarrow reads, with a decimal point. Python alone also reads 1_000 and 0x10.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
#: Numbers with marks between thousands: 1,234,567.8 or 1 234 or 1'234; a blank may be a thin one.
#: In India the last three digits stand together, and before them pairs: 12,34,567.8.
_GROUPED = re.compile(
    r"([+-]?[1-9]\d{0,2})((?P<mark>[,.'\u2019 \u00a0\u2009\u202f])\d{3}(?:(?P=mark)\d{3})*"
    r"|(?P<comma>,)(?:\d{2},)+\d{3})((?!\d).*)"
)
SIGNS = "$€£¥₹%"
#: Words among numbers are read as gaps if at most this share of the cells are words; with more of
#: them, the column is left out. A round number: one cell in 50.
FEW_WORDS = 0.02
#: Digits that begin with 0 are a code, such as a postal code, a telephone or a product number.
_CODE = re.compile(r"0\d+")


def is_gap(cell: str, more: Sequence[str] = ()) -> bool:
    """Whether a cell has no value; ``more`` are further words for a gap."""
    return cell.strip().lower() in GAPS or cell.strip() in more


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a plain number, without currency signs or thousands separators."""
    return _plain(cell.strip(), decimal) is not None


def as_number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, also in $1,234.50, 45 % or (0.5), which is negative; NaN if none."""
    cell = cell.strip().replace("\u2212", "-")  # the minus sign of typesetters
    value = _plain(cell, decimal)
    if value is not None:
        return value
    negative = cell.startswith("(") and cell.endswith(")")
    bare = cell[1:-1] if negative else cell
    sign, bare = ("-", bare[1:]) if bare.startswith("-") else ("", bare)
    bare = sign + bare.strip(SIGNS + " \u00a0\u2009\u202f")
    found = _GROUPED.fullmatch(bare)
    if found is not None and (found["mark"] or found["comma"]) != decimal:
        bare = found[1] + re.sub(r"\D", "", found[2]) + found[5]
    value = _plain(bare, decimal)
    if value is None:
        return np.nan
    return -value if negative else value


def _plain(cell: str, decimal: str) -> float | None:
    if decimal != ".":
        if "." in cell:
            return None
        cell = cell.replace(decimal, ".")
    return float(cell) if cell.isascii() and _NUMBER.fullmatch(cell) else None


def gap_forms(more: Sequence[str] = ()) -> list[str]:
    """Every spelling of a gap, for pyarrow, which compares cells exactly."""
    words = {form for gap in GAPS for form in (gap, gap.upper(), gap.title())} | {"NaN", *more}
    return sorted({f"{a}{word}{b}" for word in words for a in ("", " ") for b in ("", " ")})


def kind_of(cells: Sequence[str], decimal: str = ".", more: Sequence[str] = ()) -> CellKind:
    """The kind of a column: "numbers" if all but a few of its cells are, or half with words."""
    filled = [cell.strip() for cell in cells if not is_gap(cell, more)]
    if not filled:
        return "empty"
    if all(cell.isdecimal() for cell in filled) and any(map(_CODE.fullmatch, filled)):
        return "codes"
    numbers = sum(not np.isnan(as_number(cell, decimal)) for cell in filled)
    if len(filled) - numbers <= FEW_WORDS * len(filled):
        return "numbers"
    if 2 * numbers >= len(filled):
        return "numbers and words"
    if all(cell.lower() in _TRUTHS for cell in filled):
        return "true or false"
    if all(_DATE.fullmatch(cell) for cell in filled):
        return "dates"
    return "words"


#: The size of one piece in memory, in bytes of float64. It affects memory and speed only.
PIECE_BYTES = 16 << 20
#: Rows that decide what columns hold and which are chosen. A round number: more would take longer
#: and miss fewer late surprises.
HEAD_ROWS = 1000
#: Tables with more columns are refused. A round number that bounds memory.
MOST_COLUMNS = 1_000_000
_MEND = "leave the row out, or mend it"


class TableError(ValueError):
    """A file that cannot be read as a table of numbers."""


class Column(NamedTuple):
    """A column as the head of a table shows it."""

    name: str
    kind: CellKind
    values: np.ndarray  # its first numbers, NaN for gaps; empty if it holds no numbers
    has_name: bool = True
    partition: bool = False  # whether its value comes from the path of the file


class Place(NamedTuple):
    """Where a piece begins: rows before it and, for text, bytes and lines before it."""

    rows: int = 0
    offset: int = 0
    lines: int = 0


BEGINNING = Place()


class Piece(NamedTuple):
    """Some consecutive rows of a table, and where they lie."""

    rows: np.ndarray  # (k, n) float64
    first: Place
    next: Place
    share: float  # of the bytes of the file that have been read


class Table(ABC):
    """One file. ``columns`` are the names to read, in this order; None for all.

    ``label`` is what errors call it, by default its path. If no column has a name, ``names`` is
    None and columns are called by their positions from 0. ``partitions`` are columns whose value
    comes from the path. ``lasting`` says whether the rows are sure to be the same when read again.
    """

    partitions: frozenset[str] = frozenset()
    lasting = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        label: str | None = None,
        options: ReadOptions = FIND_OUT,
    ) -> None:
        self.path = Path(path)
        self.label = str(path) if label is None else label
        self.options = options
        self.size = self._size()
        self.said: list[str] = []  # notes for the user on how the file is read
        found = self._names()
        if self._width() > MOST_COLUMNS:
            raise TableError(f"{self.label}: {self._width():,} columns are more than can be read")
        self.names = None if found is None or not any(found) else _all_different(found)
        # If no column has a name, positions count as names.
        self._named = [self.names is None or bool(name) for name in found or self.known]
        self.columns: list[str] | None = None
        self.choose(columns)

    def _size(self) -> int:
        """Its size in bytes, for progress."""
        return self.path.stat().st_size

    @property
    def identity(self) -> str:
        """A text that distinguishes it from other tables."""
        return str(self.path.resolve())

    @property
    def title(self) -> str:
        """A short name."""
        return Path(self.label).name

    def modified_at(self) -> int:
        """When it was last written, in nanoseconds."""
        return self.path.stat().st_mtime_ns

    @property
    def known(self) -> list[str]:
        """A name for every column of the file."""
        return self.names or [str(i) for i in range(self._width())]

    @property
    def listing(self) -> str:
        """Its columns, for an error."""
        if self.names is None:
            return f"none with a name, but positions 0 to {self._width() - 1}"
        return ", ".join(self.names[:30]) + ", …" * (len(self.names) > 30)

    def choose(self, columns: Sequence[str] | None) -> None:
        """Read these columns from now on."""
        known = set(self.known)
        absent = [name for name in columns or () if name not in known]
        if absent:
            raise TableError(f"{self.label}: no column {', '.join(absent)}; it has {self.listing}")
        self.columns = self.names if columns is None else list(columns)
        self.width = len(self.columns) if self.columns is not None else self._width()
        if self.width == 0:
            raise TableError(f"{self.label}: no columns")

    def head(self) -> list[Column]:
        """Every column of the file as its first rows show it."""
        columns = self._head_columns()
        return [
            Column(name, kind, self._without_gaps(values), named, name in self.partitions)
            for name, named, (kind, values) in zip(self.known, self._named, columns, strict=True)
        ]

    @property
    @abstractmethod
    def head_is_all(self) -> bool:
        """Whether the head holds all rows of the file."""

    @abstractmethod
    def _names(self) -> list[str] | None:
        """The names of all columns, "" for one without. It may keep what it reads on the way."""

    @abstractmethod
    def _width(self) -> int:
        """The number of all columns."""

    @abstractmethod
    def _head_columns(self) -> list[tuple[CellKind, np.ndarray]]:
        """The kind and the first numbers of each column."""

    @abstractmethod
    def _pieces(self, start: Place) -> Iterator[Piece]: ...

    @abstractmethod
    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        """All cells of some columns, which need not be numbers: an array for each."""

    def pieces(self, start: Place = BEGINNING) -> Iterator[Piece]:
        """Pieces of rows from a place on; errors name the file, and rows from 0."""
        try:
            for piece in self._pieces(start):
                yield piece._replace(rows=self._without_gaps(piece.rows))
        except (TableError, MemoryError):
            raise
        except Exception as error:  # a reader of files can raise anything
            raise TableError(f"{self.label}: {error}") from error

    def _without_gaps(self, values: np.ndarray) -> np.ndarray:
        """NaN in place of numbers that stand for gaps, such as -999."""
        marks = [as_number(word) for word in self.options.gaps]
        marks = [mark for mark in marks if not np.isnan(mark)]
        return np.where(np.isin(values, marks), np.nan, values) if marks else values

    @property
    def _step(self) -> int:
        return max(1, PIECE_BYTES // (8 * self.width))

    def row_name(self, piece: Piece, row: int) -> str:
        return f"row {piece.first.rows + row}"

    def column_name(self, column: int) -> str:
        return str(column) if self.columns is None else self.columns[column]

    def refuse_gaps(
        self, piece: Piece, missing: bool, hint: str = "use --missing drop, or fill it"
    ) -> None:
        """Raise for the first entry that is not finite; NaN passes where ``missing`` is allowed."""
        bad = np.isinf(piece.rows) if missing else ~np.isfinite(piece.rows)
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            value = piece.rows[row, column]
            raise self.refusal(piece, row, column, hint if np.isnan(value) else _MEND)

    def refusal(self, piece: Piece, row: int, column: int, hint: str) -> TableError:
        """The error for one cell of a piece, with its place, its value and advice."""
        value = piece.rows[row, column]
        return TableError(
            f"{self.label}, {self.row_name(piece, row)}, column {self.column_name(column)}: "
            f"{'no value' if np.isnan(value) else value} ({hint})"
        )


def _all_different(names: list[str]) -> list[str]:
    """Unique names: unnamed_3 for a column without one, and .1, .2 after repeated ones."""
    result: dict[str, None] = {}  # a dict keeps the order
    given = set(names)
    for i, name in enumerate(names):
        name = base = name or f"unnamed_{i}"
        again = 0
        while name in result or (again and name in given):
            again += 1
            name = f"{base}.{again}"
        result[name] = None
    return list(result)
