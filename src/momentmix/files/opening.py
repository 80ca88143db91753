"""Tables of numbers in files, read in pieces. The first bytes of a file tell its format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from momentmix.files.arrays import NpyTable
from momentmix.files.arrow_table import ArrowTable
from momentmix.files.columns import EVERY_NUMBER, ChosenColumns, Wanted, choose_columns
from momentmix.files.excel_table import ExcelTable, is_workbook
from momentmix.files.streams import packing
from momentmix.files.table import BEGINNING as BEGINNING
from momentmix.files.table import FIND_OUT, ReadOptions
from momentmix.files.table import Piece as Piece
from momentmix.files.table import Place as Place
from momentmix.files.table import Table as Table
from momentmix.files.table import TableError as TableError
from momentmix.files.text_table import TextTable

_MARKS: dict[bytes, type[Table]] = {
    b"\x93NUMPY": NpyTable,
    b"PAR1": ArrowTable,
    b"ARROW1": ArrowTable,
    b"\xff\xff\xff\xff": ArrowTable,
}
#: The format by ending, for files whose first bytes are damaged.
_ENDINGS: dict[str, type[Table]] = {
    ".npy": NpyTable,
    **dict.fromkeys((".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"), ArrowTable),
}


def open_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    label: str | None = None,
    options: ReadOptions = FIND_OUT,
) -> Table:
    """The table in a file, whatever its name ends with."""
    path, name = Path(path), str(path) if label is None else label
    if path.is_dir():
        raise TableError(f"{name} is a folder; name the tables in it, such as {path / '*.csv'}")
    if not path.exists():
        raise TableError(f"{name}: there is no such file")
    if not path.is_file():
        raise TableError(f"{name} is not a plain file; - reads standard input")
    return _format(path)(path, columns, label, options)


def _format(path: Path) -> type[Table]:
    with open(path, "rb") as file:
        first = file.read(8)
        if packing(first) == "zip" and is_workbook(file):
            return ExcelTable
    by_mark = next((kind for mark, kind in _MARKS.items() if first.startswith(mark)), None)
    return by_mark or _ENDINGS.get(path.suffix.lower(), TextTable)


def choose_from(tables: Sequence[Table], wanted: Wanted = EVERY_NUMBER) -> ChosenColumns:
    """Choose the wanted columns, which every table must have; returns also those left out."""
    first = tables[0]
    for table in tables[1:]:
        alike = (table.names is None) == (first.names is None)
        if not alike or (wanted.columns is None and sorted(table.known) != sorted(first.known)):
            raise TableError(
                f"{table.label} has {_shown(table)}, but {first.label} has {_shown(first)}; choose "
                "common columns with --columns"
            )
    choice = choose_columns(tables, wanted)
    for table in tables:
        table.choose(choice.columns)
    return choice


def _shown(table: Table) -> str:
    if table.names is None:
        return f"{len(table.known)} columns without names"
    return f"the columns {', '.join(table.names)}"
