"""Which columns of a table are used: those that the user names, or all that hold measurements.

Other columns are left out, with a reason: words, dates, columns without any number, constant
columns, and numbers that only identify rows or files or say when they were written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from momentmix.files.table import Column, Table, TableError

#: In tables with at least this many rows, a column that counts up or down by one is taken for row
#: numbers, whatever its name. A round number, at which chance hardly makes such a column.
LEAST_ROWS = 10
#: Columns are chosen after a look at no more than this many files, evenly spaced. A round number
#: that bounds the time before reading begins.
MOST_HEADS = 64
_IDENTIFIER = re.compile(
    r".*id|(.*[\s_.-])?(ids|index|key|row|row[\s_.-]?names?|rowid|uuid|no|nr|num|number|code|serial|"
    r"acct|account|phone|timestamp|__index_level_\d+__|unnamed: \d+)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(.*[\s_.-])?(year|years|yr)([\s_.-].*)?", re.IGNORECASE)
_CAMEL_CASE_ID = re.compile(r".*[a-z](I[dD]|No|Nr|Number|Code|Key)")


class Wanted(NamedTuple):
    """The columns that the user wants: names, patterns with * and ?, positions from 0."""

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    keep_all: bool = False  # whether to keep every column of numbers
    by: str = "--columns"  # what errors name as the source of ``columns``


EVERY_NUMBER = Wanted()


class ChosenColumns(NamedTuple):
    """The columns to read, None for all of a table without names; and those left out, and why."""

    columns: list[str] | None
    left_out: list[tuple[str, str]]


def choose_columns(tables: Sequence[Table], wanted: Wanted) -> ChosenColumns:
    """Choose the columns of tables that share them, by a look at their first rows."""
    first = tables[0]
    known = first.known
    excluded = set(matching_columns(first, wanted.exclude, "--exclude"))
    candidates = (
        known if wanted.columns is None else matching_columns(first, wanted.columns, wanted.by)
    )
    candidates = [name for name in candidates if name not in excluded]
    looked_at = tables[:: -(-len(tables) // MOST_HEADS)]
    heads = [{column.name: column for column in table.head()} for table in looked_at]
    is_all = len(looked_at) == len(tables) and all(table.head_is_all for table in tables)
    reasons = {
        name: _reason([head[name] for head in heads if name in head], name == known[0], is_all)
        for name in candidates
    }
    each = set(known)
    by_name = [text for text in wanted.columns or () if text in each or not is_pattern(text)]
    exact = set(matching_columns(first, by_name, wanted.by))
    numbers = [name for name in candidates if name in exact or reasons[name] not in _NO_NUMBERS]
    chosen = numbers
    if wanted.columns is None and not wanted.keep_all:
        # Columns with a reason against them are left out, unless there are no others.
        chosen = [name for name in numbers if reasons[name] is None] or numbers
    # Words among numbers are refused where they stand, if there is nothing else to read.
    chosen = chosen or [name for name in candidates if reasons[name] == "numbers and words"]
    if not chosen:
        held = ", ".join(f"{name} ({reasons.get(name, 'excluded')})" for name in known[:6])
        raise TableError(f"{first.label}: no column of numbers is left; it has {held}")
    kept = set(chosen)
    left_out = [(name, reasons[name] or "") for name in candidates if name not in kept]
    return ChosenColumns(None if first.names is None and chosen == known else chosen, left_out)


#: Reasons to leave out a column of numbers.
NUMBERS = {"no name", "running numbers", "identifiers", "years", "constant", "partition"}
_NO_NUMBERS = ("numbers and words", "words", "dates", "codes", "true or false", "empty")


def is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def matching_columns(table: Table, texts: Sequence[str], option: str) -> list[str]:
    """The columns that match names, patterns or positions, in the order of these."""
    known = table.known
    each, found = set(known), dict[str, None]()  # a dict keeps the order
    absent: list[str] = []
    for text in texts:
        if text in each:
            names = [text]
        elif is_pattern(text):
            names = [name for name in known if fnmatchcase(name, text)]
        else:
            names = [known[int(text)]] if text.isdecimal() and int(text) < len(known) else []
        absent += [text] * (not names)
        found |= dict.fromkeys(names)
    if absent:
        raise TableError(
            f"{table.label}: no column {', '.join(absent)} for {option}; it has {table.listing}"
        )
    return list(found)


def _reason(columns: Sequence[Column], is_first: bool, is_all: bool) -> str | None:
    """The reason to leave out a column, seen in several tables; None if there is none."""
    kinds = [column.kind for column in columns]
    other = next((kind for kind in kinds if kind not in ("numbers", "empty")), None)
    if other is not None:
        return other
    if columns[0].partition:
        return "partition"
    if all(kind == "empty" for kind in kinds):
        return "empty" if is_all else None
    if is_first and not columns[0].has_name and all(_tells_rows_apart(c) for c in columns):
        return "no name"
    if all(_counts_rows(column) for column in columns):
        return "running numbers"
    values = np.concatenate([column.values for column in columns])
    values = values[~np.isnan(values)]
    if _is_identifier(columns[0].name) and all(_tells_rows_apart(column) for column in columns):
        return "identifiers"
    if len(values) and _YEAR.fullmatch(columns[0].name) and _are_years(values):
        return "years"
    return "constant" if is_all and len(values) > 1 and np.all(values == values[0]) else None


def _is_identifier(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) or _CAMEL_CASE_ID.fullmatch(name))


def _are_years(values: np.ndarray) -> bool:
    return bool(np.all((values == np.floor(values)) & (values >= 1800) & (values <= 2200)))


def _counts_rows(column: Column) -> bool:
    steps = np.diff(column.values)
    counts = bool(np.all(steps == 1) or np.all(steps == -1))
    return len(steps) + 1 >= LEAST_ROWS and counts


def _tells_rows_apart(column: Column) -> bool:
    """Whether it holds whole numbers that differ in every row."""
    x = column.values[~np.isnan(column.values)]
    return len(x) > 1 and bool(np.all(x == np.floor(x)) and len(np.unique(x)) == len(x))
