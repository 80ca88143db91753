"""Tables with all their columns, numbers or not, for writing them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from momentmix.files.table import Table, TableError


class WholeTable(NamedTuple):
    """The columns of concatenated tables, apart from those that were read as numbers."""

    names: list[str]  # of all columns, in the order of the first table
    used: list[str]  # the columns that were read as numbers, in this order
    others: dict[str, np.ndarray]  # arrays of numbers or of objects


def whole_table(tables: Sequence[Table], used: Sequence[str], rows: int) -> WholeTable:
    """The columns that all tables share besides the used ones, each with ``rows`` cells.

    A column that some table lacks is left out.
    """
    for table in tables:
        if not table.lasting:
            raise TableError(
                f"{table.label}: its columns are read one after the other, and a query may answer "
                "otherwise the next time; write what it answers to a file first"
            )
    common = [set(table.known) for table in tables]
    names = [name for name in tables[0].known if all(name in known for known in common)]
    others = [name for name in names if name not in used]
    parts = [dict(zip(others, table.cells(others), strict=True)) for table in tables]
    found = {name: _join([part[name] for part in parts]) for name in others}
    short = [name for name, column in found.items() if len(column) != rows]
    if short:
        raise TableError(
            f"{tables[0].label}: column {short[0]} has {len(found[short[0]]):,} cells in "
            f"{rows:,} rows"
        )
    return WholeTable(names, list(used), found)


def _join(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One array of numbers or of objects; objects of different kinds become words."""
    if all(column.dtype.kind != "O" for column in columns):
        return np.concatenate(columns)
    found = np.concatenate([_as_objects(column) for column in columns])
    kinds = {type(cell) for cell in found if cell is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        words = [None if cell is None else str(cell) for cell in found]
        return np.array([*words, None], dtype=object)[:-1]  # None forces an array of objects
    return found


def _as_objects(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "O":
        return column
    found = column.astype(object)
    found[np.isnan(column)] = None
    return found
