"""The tables behind one name: a file, a pattern such as ``part-*.parquet``, a folder, a query."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from momentmix.files.columns import is_pattern
from momentmix.files.options import FIND_OUT, ReadOptions
from momentmix.files.partition_table import PartitionTable, partition_keys
from momentmix.files.query_table import QueryTable, is_query
from momentmix.files.table import Table, TableError
from momentmix.files.tables import open_table

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
        if output is not None and _is_behind(output, name):
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


def _files_behind(name: str) -> Iterable[str | Path | int]:
    """What is read for a name: files, by their paths, or 0 for standard input."""
    if is_query(name):  # its database, and what it has in quotes
        quoted = re.findall(r"""['"]([^'"]+)['"]""", name)
        return [name.split(":")[1], *(file for text in quoted for file in _files_behind(text))]
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
