"""Counts, numbers and lists as people write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def counted(count: int, what: str) -> str:
    """A count and its noun, in the plural where it is not one: "1 row", "3 rows"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def readable(value: float, digits: int = 4) -> str:
    """A number as people write it: no exponent for everyday sizes, a true minus sign."""
    if not np.isfinite(value):
        return "—"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e7:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    decimals = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size > 0 else 0
    text = f"{value:,.{min(decimals, 10)}f}"
    return text.replace("-", "−")


def mean_and_deviation(mean: float, deviation: float) -> tuple[str, str]:
    """A mean, rounded to the second significant digit of its deviation: "554.7", "5.2"."""
    if not (1e-4 <= deviation < 1e7 and abs(mean) < 1e7):
        return readable(mean), readable(deviation, 2)
    decimals = max(0, 1 - int(np.floor(np.log10(deviation))))
    shown = f"{mean:,.{decimals}f}"
    if not any(digit in shown for digit in "123456789"):
        shown = shown.removeprefix("-")  # zero has no sign
    return shown.replace("-", "−"), f"{deviation:,.{decimals}f}"


def percent(share: float) -> str:
    """A share in whole percent; only exact zeros and ones become 0 % and 100 %."""
    whole = round(100 * share)
    if share > 0 and whole == 0:
        return "less than 1 %"
    if share < 1 and whole == 100:
        return "more than 99 %"
    return f"{whole} %"


def fine_percent(share: float) -> str:
    """A share in percent with two significant digits, for shares that may be small: "0.6 %"."""
    return f"{100 * share:.2g} %" if share < 0.995 else percent(share)


def listed(items: Sequence[object], most: int = 12) -> str:
    """Items as a sentence lists them: "3, 5 and 7"; the rest beyond ``most`` is counted."""
    words = [str(item) for item in items[:most]]
    if len(items) > most:
        words.append(f"{len(items) - most:,} more")
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
