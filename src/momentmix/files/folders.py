"""The tables behind one name: a file, a pattern such as ``part-*.parquet``, a folder, a query."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from momentmix.files.columns import is_pattern
from momentmix.files.options import FIND_OUT, ReadOptions
from momentmix.files.partition_table import PartitionTable, partition_keys
from momentmix.files.query_table import QueryTable, is_query
from momentmix.files.table import Table, TableError
from momentmix.files.tables import open_table

#: What tables in a folder end with, and which endings are of one kind.
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
        return _open_parts(_matching(name), options)
    return [open_table(path, options=options)]


def _open_parts(paths: list[Path], options: ReadOptions) -> list[Table]:
    found: list[Table] = []
    for path in paths:
        table, keys = open_table(path, options=options), partition_keys(path)
        found.append(PartitionTable(table, keys) if keys else table)
    return found


def _matching(pattern: str) -> list[Path]:
    """The files that a pattern stands for, and those in folders that it stands for."""
    found = [Path(match) for match in glob.glob(pattern, recursive=True)]
    found = [path for path in found if _shown(path.name) or not _shown(Path(pattern).name)]
    if not found:
        raise TableError(
            f"{pattern}: no file matches; * stands for any letters, ? for one, and ** for folders "
            "within folders"
        )
    if "**" in pattern:  # folders match too, and what is in them as well
        found = [path for path in found if path.is_file()]
    parts = [_in_folder(path) if path.is_dir() else [path] for path in found]
    return sorted({path for some in parts for path in some})


def _in_folder(folder: Path) -> list[Path]:
    """The tables in a folder and in the folders within it, all of one kind."""
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
    """Files such as _SUCCESS and .part.crc are about a table, and not of it."""
    return not name.startswith(("_", "."))


def _kind(name: str) -> str | None:
    path = Path(name.lower())
    return _KINDS.get(Path(path.stem).suffix if path.suffix in _PACKED else path.suffix)
