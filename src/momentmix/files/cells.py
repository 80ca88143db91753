"""What a cell of text is: a number, a gap, a date, true or false, or a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

#: What the cells of a column are.
Kind: TypeAlias = Literal["numbers", "words", "dates", "true or false", "empty"]

#: What stands for a missing number in text, in small letters.
GAPS = ("", "na", "nan", "null", "n/a", "#n/a", "none", "missing", "?", "-", "--", ".")
_TRUTHS = {"true", "false", "yes", "no", "t", "f", "y", "n"}
_DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?([T ]\d{1,2}:\d{2}.*)?|\d{4}/\d{1,2}/\d{1,2}.*|"
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2}.*)?"
)
#: As pyarrow reads them, with a decimal point; 1_000 and 0x10 are numbers to Python alone.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)


def is_gap(cell: str, more: Sequence[str] = ()) -> bool:
    """Whether a cell has no value; ``more`` are words that say so in this file."""
    return cell.strip().lower() in GAPS or cell.strip() in more


def is_number(cell: str, decimal: str = ".") -> bool:
    cell = cell.strip()
    if decimal != ".":
        if "." in cell:
            return False
        cell = cell.replace(decimal, ".")
    return _NUMBER.fullmatch(cell) is not None and cell.isascii()


def as_number(cell: str, decimal: str = ".") -> float:
    """The number in a cell; NaN if there is none."""
    return float(cell.strip().replace(decimal, ".")) if is_number(cell, decimal) else np.nan


def gap_forms(more: Sequence[str] = ()) -> list[str]:
    """Every way to write a gap, for a reader that compares letter by letter."""
    words = {form for gap in GAPS for form in (gap, gap.upper(), gap.title())} | {"NaN", *more}
    return sorted({f"{a}{word}{b}" for word in words for a in ("", " ") for b in ("", " ")})


def kind_of(cells: Sequence[str], decimal: str = ".", more: Sequence[str] = ()) -> Kind:
    """What the cells of a column are, by what half of them are."""
    filled = [cell.strip() for cell in cells if not is_gap(cell, more)]
    if not filled:
        return "empty"
    numbers = sum(is_number(cell, decimal) for cell in filled)
    if 2 * numbers >= len(filled):
        return "numbers"
    if all(cell.lower() in _TRUTHS for cell in filled):
        return "true or false"
    if all(_DATE.fullmatch(cell) for cell in filled):
        return "dates"
    return "words"
