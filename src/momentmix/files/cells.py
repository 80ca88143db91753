"""The kinds of cells of text: number, gap, date, code, true or false, or word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

#: The kind of the cells of a column.
Kind: TypeAlias = Literal["numbers", "words", "dates", "codes", "true or false", "empty"]

#: The words for a missing number in text, in lower case.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none", "missing", "?", "-", "--", ".")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?([T ]\d{1,2}:\d{2}.*)?|\d{4}/\d{1,2}/\d{1,2}.*|"
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2}.*)?"
)
#: The numbers that pyarrow reads, with a decimal point. Python alone also reads 1_000 and 0x10.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
#: Numbers with marks between thousands: 1,234,567.8 or 1 234 or 1'234; a blank may be a thin one.
_GROUPED = re.compile(
    r"([+-]?[1-9]\d{0,2})((?P<mark>[,.'\u2019 \u00a0\u2009\u202f])\d{3}(?:(?P=mark)\d{3})*)"
    r"((?!\d).*)"
)
SIGNS = "$€£¥₹%"
#: Digits that begin with 0 are a code, such as a postal code, a telephone or a product number.
_CODE = re.compile(r"0\d+")


def is_gap(cell: str, more: Sequence[str] = ()) -> bool:
    """Whether a cell has no value; ``more`` are further words for a gap."""
    return cell.strip().lower() in GAPS or cell.strip() in more


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a plain number, without currency signs or thousands separators."""
    return _plain(cell.strip(), decimal) is not None


def as_number(cell: str, decimal: str = ".") -> float:
    """The number in a cell, also in $1,234.50, 45 % or (0.5), which is negative; NaN if none."""
    cell = cell.strip()
    value = _plain(cell, decimal)
    if value is not None:
        return value
    negative = cell.startswith("(") and cell.endswith(")")
    bare = cell[1:-1] if negative else cell
    sign, bare = ("-", bare[1:]) if bare.startswith("-") else ("", bare)
    bare = sign + bare.strip(SIGNS + " \u00a0\u2009\u202f")
    found = _GROUPED.fullmatch(bare)
    if found is not None and found["mark"] != decimal:
        bare = found[1] + re.sub(r"\D", "", found[2]) + found[4]
    value = _plain(bare, decimal)
    if value is None:
        return np.nan
    return -value if negative else value


def _plain(cell: str, decimal: str) -> float | None:
    if decimal != ".":
        if "." in cell:
            return None
        cell = cell.replace(decimal, ".")
    return float(cell) if cell.isascii() and _NUMBER.fullmatch(cell) else None


def gap_forms(more: Sequence[str] = ()) -> list[str]:
    """Every spelling of a gap, for pyarrow, which compares cells exactly."""
    words = {form for gap in GAPS for form in (gap, gap.upper(), gap.title())} | {"NaN", *more}
    return sorted({f"{a}{word}{b}" for word in words for a in ("", " ") for b in ("", " ")})


def kind_of(cells: Sequence[str], decimal: str = ".", more: Sequence[str] = ()) -> Kind:
    """The kind of a column; it is "numbers" if at least half of its cells are."""
    filled = [cell.strip() for cell in cells if not is_gap(cell, more)]
    if not filled:
        return "empty"
    if all(cell.isdecimal() for cell in filled) and any(map(_CODE.fullmatch, filled)):
        return "codes"
    numbers = sum(not np.isnan(as_number(cell, decimal)) for cell in filled)
    if 2 * numbers >= len(filled):
        return "numbers"
    if all(cell.lower() in _TRUTHS for cell in filled):
        return "true or false"
    if all(_DATE.fullmatch(cell) for cell in filled):
        return "dates"
    return "words"
