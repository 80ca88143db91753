"""The figures that pages quote are those of the results: ``python tools/figures.py``.

Behind a number that comes from a benchmark or an experiment, a page has a comment that says where
it comes from. The file is in benchmarks/results or in experiments/results::

    0.81<!-- from crabs.json ari.momentmix.0 -->
    0.856<!-- from suites.json mean ari method="type auto" -->
    36<!-- from beyond.csv count verdict=win p=10000 -->
    94 %<!-- from coverage.csv min means separation=4 -->
    99 %<!-- from outliers.csv share ratio<1.2 method=auto -->
    3<!-- from suites.json ratio seconds method=default / method=sk10 -->
    70 of 70<!-- from number.md "Gaussian clusters" ours -->

That is a path of keys and positions within JSON; or what is made of one column of the rows that
agree with all conditions (=, <, > and !=), the share of them that agree with a first one, or the
ratio of two sums of a column, where rows are those of a CSV or "rows" of JSON; or the row and the
column of a cell in a summary that an experiment wrote. A number is rounded to the digits that it
has on the page. The command writes the numbers anew; ``--check`` changes nothing, and fails where a
page says something else than its results.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import statistics
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ROOT / "benchmarks" / "results", ROOT / "experiments" / "results"
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
FIGURE = re.compile(r"([+−-]?\d[\d,]*(?:\.\d+)?(?: of \d+)?)( ?%)?<!-- from (.*?) -->")
MAKE = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max, "sum": sum}
CONDITION = re.compile(r"([^=<>!]+)(!=|=|<|>)(.*)")


@cache
def read(name: str) -> object:
    """A results file; a CSV is a list of dicts of texts."""
    path = next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)
    if path is None:
        raise LookupError(f"there is no {name} in benchmarks/results or experiments/results")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return cells_of(text)
    return json.loads(text) if path.suffix == ".json" else list(csv.DictReader(text.splitlines()))


def cells_of(text: str) -> dict[str, dict[str, str]]:
    """The tables of a summary: by first cell, then by column; the first row of a name counts."""
    found: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        else:
            found.setdefault(cells[0], dict(zip(head, cells, strict=False)))
    return found


def agrees(row: dict, condition: str) -> bool:
    column, sign, value = CONDITION.fullmatch(condition).groups()
    cell = row[column]
    if sign in "<>":
        return float(cell) < float(value) if sign == "<" else float(cell) > float(value)
    try:
        same = float(cell) == float(value)
    except (TypeError, ValueError):
        same = str(cell) == value
    return same == (sign == "=")


def value_of(source: str) -> float | str:
    """The number that a comment asks for, or the text of a cell."""
    name, *words = shlex.split(source)
    found = read(name)
    if name.endswith(".md"):
        return found[words[0]][words[1]]
    if words[0] not in {*MAKE, "count", "share", "ratio"}:
        for key in words[0].split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        return float(found)
    rows = found if isinstance(found, list) else found["rows"]
    if words[0] == "ratio":
        middle = words.index("/")
        parts = [
            made("sum", rows, [words[1], *some]) for some in (words[2:middle], words[middle + 1 :])
        ]
        return parts[0] / parts[1]
    if words[0] == "share":
        return made("count", rows, words[1:]) / made("count", rows, words[2:])
    return made(words[0], rows, words[1:])


def made(how: str, rows: list[dict], words: list[str]) -> float:
    """What is made of the first word's column, of the rows that agree with the other words."""
    conditions = words if how == "count" else words[1:]
    rows = [row for row in rows if all(agrees(row, condition) for condition in conditions)]
    if how == "count":
        return float(len(rows))
    return float(
        MAKE[how]([float(row[words[0]]) for row in rows if row[words[0]] not in (None, "")])
    )


def written(figure: re.Match) -> str:
    """A figure with the number of its results, in the form that it has."""
    shown, percent, source = figure.groups()
    try:
        value = value_of(source)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise SystemExit(f"{figure.group()}: {error}") from error
    if isinstance(value, str):
        return f"{value}<!-- from {source} -->"
    digits = len(shown.partition(".")[2])
    sign = "+" if shown.startswith("+") else ""
    text = f"{value * (100 if percent else 1):{sign}{',' if value >= 1e3 else ''}.{digits}f}"
    text = text.replace("-", "−") if "−" in shown else text
    return f"{text}{percent or ''}<!-- from {source} -->"


def renewed(text: str) -> str:
    """A page with its figures made anew."""
    return FIGURE.sub(written, text)


def main() -> None:
    check, wrong = "--check" in sys.argv[1:], []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            wrong.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new, encoding="utf-8")
    if check and wrong:
        raise SystemExit(f"{', '.join(wrong)}: not the results; run python tools/figures.py")


if __name__ == "__main__":
    main()
