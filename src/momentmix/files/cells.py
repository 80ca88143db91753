"""What a cell of text is: a number, a gap, a date, a code, true or false, or a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

#: What the cells of a column are.
Kind: TypeAlias = Literal["numbers", "words", "dates", "codes", "true or false", "empty"]

#: What stands for a missing number in text, in small letters.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none", "missing", "?", "-", "--", ".")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?([T ]\d{1,2}:\d{2}.*)?|\d{4}/\d{1,2}/\d{1,2}.*|"
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2}.*)?"
)
#: As pyarrow reads them, with a decimal point; 1_000 and 0x10 are numbers to Python alone.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
#: 1,234,567.8 or 1 234 or 1'234, with a decimal point; also with blanks that are thin.
_GROUPED = re.compile(
    r"([+-]?[1-9]\d{0,2})((?P<mark>[,.'\u2019 \u00a0\u2009\u202f])\d{3}(?:(?P=mark)\d{3})*)"
    r"((?!\d).*)"
)
SIGNS = "$€£¥₹%"
#: A whole number that begins with nought is a code: of a place, a telephone, a product.
_CODE = re.compile(r"0\d+")


def is_gap(cell: str, more: Sequence[str] = ()) -> bool:
    """Whether a cell has no value; ``more`` are words that say so in this file."""
    return cell.strip().lower() in GAPS or cell.strip() in more


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number without signs of money and marks between thousands."""
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
    """Every way to write a gap, for a reader that compares letter by letter."""
    words = {form for gap in GAPS for form in (gap, gap.upper(), gap.title())} | {"NaN", *more}
    return sorted({f"{a}{word}{b}" for word in words for a in ("", " ") for b in ("", " ")})


def kind_of(cells: Sequence[str], decimal: str = ".", more: Sequence[str] = ()) -> Kind:
    """What the cells of a column are, by what half of them are."""
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
