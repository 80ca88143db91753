"""Tables in .npy files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from momentmix.files.arrays import read_header
from momentmix.files.cells import Kind
from momentmix.files.table import HEAD_ROWS, Piece, Place, Table, TableError


class NpyTable(Table):
    """A two-dimensional array saved by NumPy, read in pieces so that memory stays flat.

    It is not memory-mapped: if a mapped file is truncated, the process is killed.
    """

    def _names(self) -> None:
        try:
            with open(self.path, "rb") as file:
                self._header, self._start = read_header(file), file.tell()
        except Exception as error:  # a damaged header can raise anything
            raise TableError(f"{self.label} is not a .npy file of numbers: {error}") from error
        shape, _, dtype = self._header
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise TableError(f"{self.label} holds {dtype} of shape {shape}, not a table of numbers")
        if self._start + self._header.nbytes > self.size:
            raise self._cut_short()

    def _width(self) -> int:
        return int(self._header.shape[1])

    @property
    def head_is_all(self) -> bool:
        return self._header.shape[0] <= HEAD_ROWS

    def _head_columns(self) -> list[tuple[Kind, np.ndarray]]:
        with open(self.path, "rb", buffering=0) as file:
            rows = self._rows(file, 0, min(HEAD_ROWS, self._header.shape[0]))
        return [("numbers", column) for column in rows.astype(np.float64).T]

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

    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        with open(self.path, "rb", buffering=0) as file:
            rows = self._rows(file, 0, self._header.shape[0])
        return [rows[:, int(position)] for position in columns]

    def _rows(self, file: BinaryIO, first: int, last: int) -> np.ndarray:
        count, n = self._header.shape
        if not self._header.fortran:
            return self._run(file, first * n, (last - first) * n).reshape(-1, n)
        columns = [self._run(file, count * i + first, last - first) for i in range(n)]
        return np.column_stack(columns)

    def _run(self, file: BinaryIO, at: int, count: int) -> np.ndarray:
        """Consecutive numbers of the file."""
        dtype = self._header.dtype
        file.seek(self._start + at * dtype.itemsize)
        numbers = np.fromfile(file, dtype, count)
        if len(numbers) < count:
            raise self._cut_short()
        return numbers
