"""A table of results that grows by one row a job, and can be interrupted and gone on with."""

from __future__ import annotations

import csv
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import scipy
import sklearn
from tqdm.auto import tqdm

import momentmix


def commit() -> str:
    """The commit that is run, with "-dirty" if files differ from it; nothing outside git."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    folder = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return done.stdout.strip()


VERSIONS = {
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
    "momentmix": momentmix.__version__,
    "commit": commit(),
}

Row = dict[str, object]


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table; a last line that was cut off is left out."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if None not in row.values() and None not in row]


def run(path: Path, jobs: Iterable[Row], work: Callable[[Row], Row]) -> list[dict[str, str]]:
    """Rows for all jobs: those of the file, and those still to do, each written when done.

    A job is a row of settings, seeds included. ``work`` takes one and returns results.
    """
    jobs = list(jobs)
    done = {_key(row, jobs[0]): row for row in read(path)}
    todo = [job for job in jobs if _key(job, job) not in done]
    _rewrite(path, done.values())
    for job in tqdm(todo, desc=path.stem, unit="job", initial=len(jobs) - len(todo), disable=None):
        start = time.perf_counter()
        result = work(job)
        result = {**job, **result, "total_seconds": round(time.perf_counter() - start, 3)}
        _append(path, {k: text(v) for k, v in (result | VERSIONS).items()})
    done = {_key(row, jobs[0]): row for row in read(path)}
    return [done[_key(job, job)] for job in jobs]


def _key(row: Row | dict[str, str], names: Row) -> str:
    return json.dumps([text(row[name]) for name in names])


def text(value: object) -> str:
    return f"{value:.8g}" if isinstance(value, float | np.floating) else str(value)


def _rewrite(path: Path, rows: Iterable[dict[str, str]]) -> None:
    """The file without what an interrupted run left half written."""
    rows = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not rows:
        path.unlink(missing_ok=True)
        return
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(path)


def _append(path: Path, row: dict[str, str]) -> None:
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def markdown(header: list[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join(["---"] * len(header)) + " |"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"
