"""Text files whose values are known, in the ways in which people and programs write them."""

from typing import NamedTuple

import numpy as np

SEPARATORS = ",;\t| "
THOUSANDS = ("", "", ",", ".", " ", "\u2009", "\u202f", "\u00a0", "'")
GAPS = ("", "NA", "NaN", "null", "-", "n/a", "?")
NAMES = ("price", "Total amount", "x1", "höhe", "weight (kg)", "b", "Lat.")
WORDS = ("red", "green", "Ann Lee", "north-west", "ok")


class Written(NamedTuple):
    """A file, what is in it, and how it was made."""

    data: bytes
    names: list[str] | None  # of the columns of numbers
    values: np.ndarray  # of these columns (p, n), NaN where there is a gap
    how: dict[str, object]


def write_numbers(x, decimal, thousands, digits, sign):
    """A number as it is written in a country: 1,234.50 or 1.234,50 or 1 234,50 €."""
    text = f"{x:,.{digits}f}".replace(",", "T").replace(".", "D")
    text = text.replace("T", thousands).replace("D", decimal)
    if sign == "%":
        return f"{text} %" if digits else f"{text}%"
    if sign == "€":
        return f"{text} €"
    return f"-${text[1:]}" if sign and text.startswith("-") else f"{sign}{text}"


def draw_file(rng):
    """One file; every property of it is drawn by itself, where it can be with the others."""
    pick = lambda options: options[int(rng.integers(len(options)))]  # noqa: E731
    one_in = lambda k: rng.integers(k) == 0  # noqa: E731
    separator, decimal = pick(SEPARATORS), pick("..,")
    thousands = pick([mark for mark in THOUSANDS if mark != decimal])
    rows, width = int(pick([2, 3, 4, 5, 6, 6, 20, 40])), int(pick([1, 2, 2, 3, 4]))
    quoting = pick(["needed", "needed", "all"])
    sign = pick(["", "", "", "", "$", "€", "%"])
    how = {
        **{"separator": separator, "decimal": decimal, "thousands": thousands, "rows": rows},
        **{"width": width, "quoting": quoting, "sign": sign},
    }
    columns, texts = [], []
    gap = pick(GAPS) if one_in(4) else None
    if gap is not None and (width == 1 or (separator == " " and not gap)):
        gap = None  # a blank line, or one that has no cell there
    for i in range(width):
        digits, size = pick([0, 1, 2, 2, 3, 3, 4]), 10.0 ** pick([0, 1, 2, 4, 5, 7])
        x = np.round(rng.normal(size=rows) * size, digits) + 0.0
        x = np.abs(x) if one_in(2) else x
        cells = [write_numbers(v, decimal, thousands, digits, sign if i == 0 else "") for v in x]
        if gap is not None and rows > 3 and i == width - 1:
            at = int(rng.integers(rows))
            x[at], cells[at] = np.nan, gap
        columns.append(x)
        texts.append(cells)
    how["gap"] = gap
    names = list(rng.permutation(NAMES)[:width])
    header = pick(["words", "words", "none", "years"])
    if header == "years" and width > 1:
        names = [str(1990 + i) for i in range(width)]
    elif header == "years":
        header = "words"
    numbers = [True] * width
    extra = pick([None, None, "words", "dates", "index"])
    if extra is not None:
        cells = {
            "words": [pick(WORDS) for _ in range(rows)],
            "dates": [f"2024-0{1 + i % 9}-{10 + i % 19}" for i in range(rows)],
            "index": [str(i) for i in range(rows)],
        }[extra]
        texts.insert(0, cells)
        if extra == "index":
            columns.insert(0, np.arange(rows) + 0.0)
        names.insert(0, "" if extra == "index" and separator != " " else extra)
        numbers.insert(0, extra == "index")
        if header == "years":
            names[0] = extra
    how |= {"header": header, "extra": extra}

    def line(cells):
        quoted = [
            f'"{cell}"' if quoting == "all" or separator in cell or '"' in cell else cell
            for cell in cells
        ]
        return separator.join(quoted) + tail

    tail = separator if separator in ";," and one_in(12) and len(names) > 1 else ""
    lines = [] if header == "none" else [line(names)]
    lines += [line(cells) for cells in zip(*texts, strict=True)]
    before = []
    if one_in(6):
        before = ["# made by a program", "# on a day"][: 1 + int(one_in(2))]
    elif one_in(8) and header == "words" and len(names) > 1:
        before = ["Report of the year"] + [""] * int(one_in(2))
    if one_in(8):
        lines.insert(int(rng.integers(len(lines) + 1)), "")
    end, encoding = pick(["\n", "\n", "\r\n", "\r"]), "utf-8"
    text = end.join([*before, *lines]) + (end if one_in(2) else "")
    encoding = pick(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:  # a thin space in that of Windows
        encoding, data = "utf-8", text.encode()
    how |= {"tail": tail, "before": before, "end": end, "encoding": encoding}
    named = [name for name, kept in zip(names, numbers, strict=True) if kept]
    return Written(data, None if header == "none" else named, np.column_stack(columns), how)
