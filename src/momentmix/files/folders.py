"""The tables behind one name: a file, a pattern such as ``part-*.parquet``, a folder, a query.

Several files are one table. Each ``name=value`` in the path of a partitioned table, such as
``year=2024/part-0.parquet``, becomes a constant column of its file.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from momentmix.files.columns import is_pattern
from momentmix.files.opening import open_table
from momentmix.files.query_table import QueryTable, is_query
from momentmix.files.table import FIND_OUT, CellKind, Piece, Place, ReadOptions, Table, TableError

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

    def _head_columns(self) -> list[tuple[CellKind, np.ndarray]]:
        own = self.table._head_columns()
        kinds: list[tuple[CellKind, np.ndarray]] = []
        for name, value in self._keys.items():
            number = _number(value)
            kind: CellKind = "words" if number is None else "numbers"
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


#: The endings of tables that are read in a folder, and the kind of each.
_KINDS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".arrows": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".npy": "NumPy",
    ".csv": "text",
    ".tsv": "text",
    ".xlsx": "Excel",
}
_PACKED = (".gz", ".bz2", ".xz", ".zip")


def open_all(name: str, options: ReadOptions = FIND_OUT) -> list[Table]:
    """The tables behind a name, sorted by their paths where there are several."""
    if is_query(name):
        return [QueryTable(name, options=options)]
    path = Path(name)
    if path.is_dir():
        return _open_parts(_in_folder(path), options)
    if is_pattern(name) and not path.exists():
        return _open_parts(_match(name), options)
    return [open_table(path, options=options)]


def refuse_input(output: Path | None, names: Iterable[str]) -> None:
    """Refuse an output that is read, or that would be one of the tables behind a name.

    Without a path it is standard output, which may go into a file, as - may come from one.
    """
    target, shown = (1, "standard output") if output is None else (output, output)
    for name in names:
        with suppress(OSError, TableError):  # those who read it say what is wrong with it
            if any(_are_one(file, target) for file in _files_behind(name)):
                raise ValueError(f"{shown}: this file is read ({name}); write to another one")
        if output is not None and is_query(name) and _holds_what_queries_read(output):
            raise ValueError(
                f"{output} is there already, and a query may read it by way of a view or of a name "
                "that it works out; write to a new file, or remove this one first"
            )
        patterns = [name, *(_quoted(name) if is_query(name) else ())]
        if output is not None and any(_is_behind(output, pattern) for pattern in patterns):
            raise ValueError(
                f"{output} would be one of the tables that {name} stands for; write it elsewhere"
            )


def _holds_what_queries_read(output: Path) -> bool:
    """Whether a file is there that DuckDB can read, other than a model of ours."""
    with suppress(OSError):
        with open(output, "rb") as file:
            head = file.read(200)
        readable = output.suffix.lower() in (".csv", ".parquet", ".arrow", ".json")
        return readable and b'"momentmix-mixture"' not in head
    return False


def _quoted(query: str) -> list[str]:
    """What stands in quotes in a query, as the names of files do."""
    return re.findall(r"""['"]([^'"]+)['"]""", query)


def _files_behind(name: str) -> Iterable[str | Path | int]:
    """What is read for a name: files, by their paths, or 0 for standard input."""
    if is_query(name):  # its database, and what it has in quotes
        return [name.split(":")[1], *(f for text in _quoted(name) for f in _files_behind(text))]
    if Path(name).is_dir():
        return _in_folder(Path(name))
    if is_pattern(name) and not Path(name).exists():
        return _match(name)
    return [0 if name == "-" else name]


def _are_one(a: str | Path | int, b: str | Path | int) -> bool:
    """Whether both are the same file, whatever it is called, and no terminal or pipe."""
    with suppress(OSError, ValueError):
        return os.path.samestat(os.stat(a), os.stat(b)) and os.path.isfile(a)
    return False


def _is_behind(output: Path, name: str) -> bool:
    """Whether a file, once it is there, is in the folder or matches the pattern of this name."""
    pattern, places = Path(name), set[Path]()
    if pattern.is_dir():
        folders = _real([name])
    elif is_pattern(name) and not pattern.exists() and not is_query(name):
        folders = _real(filter(os.path.isdir, glob.glob(name, recursive=True)))
        places = _real(glob.glob(os.path.dirname(name) or os.curdir, recursive=True))
        places |= folders if pattern.name == "**" else set()
    else:
        return False
    for file in (Path(os.path.realpath(output)), output.parent.resolve() / output.name):
        matches = file.parent in places and fnmatchcase(file.name, pattern.name)
        inside = _kind(file.name) is not None and not folders.isdisjoint(file.parents)
        if _shown(file.name) and (matches or inside):
            return True
    return False


def _real(paths: Iterable[str | Path]) -> set[Path]:
    return {Path(os.path.realpath(path)) for path in paths}


def _open_parts(paths: list[Path], options: ReadOptions) -> list[Table]:
    found: list[Table] = []
    for path in paths:
        table, keys = open_table(path, options=options), partition_keys(path)
        found.append(PartitionTable(table, keys) if keys else table)
    return found


def _match(pattern: str) -> list[Path]:
    """The files that match a pattern, and the tables in folders that match it."""
    found = [Path(match) for match in glob.glob(pattern, recursive=True)]
    found = [path for path in found if _shown(path.name) or not _shown(Path(pattern).name)]
    if not found:
        raise TableError(
            f"{pattern}: no file matches; * stands for any letters, ? for one, and ** for folders "
            "within folders"
        )
    if "**" in pattern:  # which matches folders and also the files in them
        found = [path for path in found if path.is_file()]
    parts = [_in_folder(path) if path.is_dir() else [path] for path in found]
    return sorted({path for some in parts for path in some})


def _in_folder(folder: Path) -> list[Path]:
    """The tables in a folder and its subfolders, which must be of one kind."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _shown(name)]
        found += [Path(place) / name for name in names if _shown(name) and _kind(name)]
    endings = ", ".join(_KINDS)
    if not found:
        raise TableError(f"{folder} is a folder without tables; those end with {endings}")
    kinds = sorted({str(_kind(path.name)) for path in found})
    if len(kinds) > 1:
        raise TableError(
            f"{folder} is a folder with tables of several kinds ({', '.join(kinds)}), which may be "
            f"the same rows twice; name those that you mean, such as '{folder / '*.csv'}'"
        )
    return sorted(found)


def _shown(name: str) -> bool:
    """Whether a file may hold rows; _SUCCESS and .part.crc are only about a table."""
    return not name.startswith(("_", "."))


def _kind(name: str) -> str | None:
    path = Path(name.lower())
    return _KINDS.get(Path(path.stem).suffix if path.suffix in _PACKED else path.suffix)
