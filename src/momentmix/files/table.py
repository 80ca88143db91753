"""A table of numbers in a file: what all formats share.

A ``Table`` yields pieces of rows with the place where the next one begins, so that a reader that
stopped can go on. Whatever is wrong with a file is a ``TableError`` that names the file and the
row.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

#: Size of one piece in memory, in bytes of float64.
PIECE_BYTES = 16 << 20
#: What is wrong with a column of words, and what to do.
NOT_A_NUMBER = "is not a number (choose columns of numbers with --columns)"


class TableError(ValueError):
    """A file that cannot be read as a table of numbers."""


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
    share: float  # of the file that has been read, by its bytes


class Table(ABC):
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

    @abstractmethod
    def _names(self) -> list[str] | None:
        """The names of all columns, or None; what else the head of the file says is kept."""

    @abstractmethod
    def _width(self) -> int:
        """The number of all columns."""

    @abstractmethod
    def _pieces(self, start: Place) -> Iterator[Piece]: ...

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
