"""A file of a partitioned table, with the values in its path: ``year=2024/part-0.parquet``.

Each ``name=value`` of the path becomes a constant column of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from momentmix.files.cells import Kind
from momentmix.files.table import Piece, Place, Table, TableError

#: What Hive and Spark write for a missing value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def partition_keys(path: Path) -> dict[str, str]:
    """The names and values of folders called ``name=value`` in the path of a file."""
    pairs = [folder.partition("=") for folder in path.parts[:-1]]
    return {unquote(name): unquote(value) for name, equals, value in pairs if name and equals}


class PartitionTable(Table):
    """A table whose own columns are followed by those of its path.

    If the file has such a column itself, the values of the file are used.
    """

    def __init__(self, table: Table, keys: Mapping[str, str]) -> None:
        self.table, self.partitions = table, frozenset(keys)
        self._keys = {name: value for name, value in keys.items() if name not in table.known}
        super().__init__(table.path, None, table.label, table.options)
        self.said = table.said
        self._named = [*table._named, *(True for _ in self._keys)]

    @property
    def head_is_all(self) -> bool:
        return self.table.head_is_all

    def _names(self) -> list[str]:
        return [*self.table.known, *self._keys]

    def _width(self) -> int:
        return len(self.table.known) + len(self._keys)

    def _head_columns(self) -> list[tuple[Kind, np.ndarray]]:
        own = self.table._head_columns()
        kinds: list[tuple[Kind, np.ndarray]] = []
        for name, value in self._keys.items():
            number = _number(value)
            kind: Kind = "words" if number is None else "numbers"
            kinds.append(("empty" if value == _NO_VALUE else kind, np.array([self._value(name)])))
        return own + kinds

    def choose(self, columns: Sequence[str] | None) -> None:
        super().choose(columns)
        own = [name for name in self.columns or () if name not in self._keys]
        if not own:  # one column is needed to count the rows
            own = [column.name for column in self.table.head() if column.kind == "numbers"][:1]
        if not own:
            raise TableError(f"{self.label}: it has no column of numbers of its own")
        self.table.choose(own)

    def _value(self, name: str) -> float:
        number = _number(self._keys[name])
        return np.nan if number is None else number

    def _pieces(self, start: Place) -> Iterator[Piece]:
        words = [name for name in self.columns or () if self._is_word(name)]
        if words:
            value = self._keys[words[0]]
            raise TableError(f"{self.label}, column {words[0]}: {value!r} is not a number")
        places = {name: i for i, name in enumerate(self.table.columns or ())}
        for piece in self.table._pieces(start):
            rows = np.empty((len(piece.rows), self.width))
            for i, name in enumerate(self.columns or ()):
                rows[:, i] = (
                    self._value(name) if name in self._keys else piece.rows[:, places[name]]
                )
            yield piece._replace(rows=rows)

    def _is_word(self, name: str) -> bool:
        value = self._keys.get(name, _NO_VALUE)
        return value != _NO_VALUE and _number(value) is None

    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        own = [name for name in columns if name not in self._keys] or self.table.known[:1]
        found = dict(zip(own, self.table.cells(own), strict=True))
        length = len(found[own[0]])
        for name, value in self._keys.items():
            number = _number(value)
            if number is not None:
                whole = number == np.floor(number) and abs(number) < 2**53
                found[name] = np.full(length, int(number) if whole else number)
            else:
                found[name] = np.full(length, None if value == _NO_VALUE else value, dtype=object)
        return [found[name] for name in columns]

    def row_name(self, piece: Piece, row: int) -> str:
        return self.table.row_name(piece, row)


def _number(value: str) -> float | None:
    """The value as a number, or None."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in value else None
