"""Tables of numbers in files, read in pieces: .npy, .csv, .parquet and Arrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from momentmix.files.arrow_table import ArrowTable
from momentmix.files.csv_table import CsvTable
from momentmix.files.npy_table import NpyTable
from momentmix.files.table import BEGINNING, Piece, Place, Table, TableError

__all__ = ["BEGINNING", "Piece", "Place", "Table", "TableError", "ending_of", "open_table"]

_FORMATS: dict[str, type[Table]] = {
    ".npy": NpyTable,
    ".csv": CsvTable,
    ".parquet": ArrowTable,
    ".pq": ArrowTable,
    ".arrow": ArrowTable,
    ".arrows": ArrowTable,
    ".feather": ArrowTable,
    ".ipc": ArrowTable,
}


def open_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    label: str | None = None,
) -> Table:
    """The table in a file, by the ending of its name."""
    ending = Path(path).suffix.lower()
    if ending not in _FORMATS:
        raise TableError(f"{path}: unknown ending {ending!r}; known are {', '.join(_FORMATS)}")
    return _FORMATS[ending](path, columns, label)


def ending_of(first: bytes) -> str:
    """The ending that a file with these first bytes should have; text is CSV."""
    known = {b"\x93NUMPY": ".npy", b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff" * 4: ".arrows"}
    return next((ending for mark, ending in known.items() if first.startswith(mark)), ".csv")
