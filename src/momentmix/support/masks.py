"""What stands for an absent number in tables, made NaN; and dates, which are none, refused."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

#: Whatever users give as numbers: arrays, lists, tables.
Given: TypeAlias = Any
#: Dates, times and durations among objects; pandas's are subclasses of the last two.
DATES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
#: Types of dates, times and durations, as NumPy, pandas, Arrow and Polars name them.
_DATES = re.compile(r"[<>]?(date|time|duration|period|m8)", re.IGNORECASE)


def without_masks(value: Given, name: str) -> Given:
    """``value`` with NaN where a mask of NumPy, or an NA among objects of pandas, hides it.

    Dates and durations are refused: NumPy would read them as numbers of an arbitrary unit, and NaT
    as the least of them. Anything else stays as it is.
    """
    value = filled(value)
    kinds = getattr(value, "dtypes", getattr(getattr(value, "schema", None), "types", None))
    if kinds is None and isinstance(value, np.ndarray | list | tuple):
        kinds = [np.asarray(value).dtype]
    kinds = list(kinds) if isinstance(kinds, Iterable) else [kinds]
    dates = [str(kind) for kind in kinds if _DATES.match(str(kind))]
    if not dates and any(str(kind) == "object" for kind in kinds):
        dates = sorted({type(cell).__name__ for cell in _cells(value) if isinstance(cell, DATES)})
    if dates:
        raise TypeError(
            f"{name} holds dates or durations ({dates[0]}), which have no unit as numbers; give "
            "numbers, such as days since the first of the dates"
        )
    if hasattr(value, "notna") and any(kind == np.dtype(object) for kind in kinds):
        value = value.where(value.notna(), np.nan)
    return value


def _cells(value: Given) -> Iterable[object]:
    """The cells of an array, of lists, or of those columns of a table that hold objects."""
    if hasattr(value, "select_dtypes"):
        value = value.select_dtypes(object)
    return np.asarray(value, dtype=object).flat


def filled(value: Given) -> Given:
    """A masked array, or a list of some, with NaN where it is masked; anything else as it is."""
    if isinstance(value, list | tuple) and any(isinstance(x, np.ma.MaskedArray) for x in value):
        value = np.ma.array(value)
    if not isinstance(value, np.ma.MaskedArray) or value.dtype.kind in "cmM":
        return value
    kind = value.dtype if value.dtype.kind == "f" else np.dtype(float)
    return np.ma.filled(value.astype(kind), np.nan)
