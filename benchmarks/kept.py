"""Results that are kept, so that a long benchmark can be interrupted and go on where it ended."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from machine import machine

FOLDER = Path(__file__).parent / "results"


def commit() -> str:
    """Short, with a plus if the package differs from it."""

    def git(*words: str) -> str:
        asked = ["git", "-C", str(FOLDER.parent), *words]
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain", "src"))


class Kept:
    """The rows of a results file, and the runs that they come from.

    Without a ``path`` nothing is kept. With ``seconds``, the program ends before the first
    measurement after so many. ``again`` measures anew what another commit has measured.
    """

    def __init__(
        self, path: Path | None, seconds: float | None = None, again: bool = False
    ) -> None:
        self.path, self.again, self.until = path, again, None
        if seconds is not None:
            self.until = time.monotonic() + seconds
        text = '{"runs": [], "rows": []}'
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8")
        self.runs, self.rows = json.loads(text).values()
        script = Path(sys.argv[0]).name
        self.run = {
            "commit": commit(), "date": str(date.today()), "machine": machine(),
            "command": shlex.join(["python", f"benchmarks/{script}", *sys.argv[1:]]),
        }  # fmt: skip

    def row(self, key: dict[str, object], make: Callable[[], dict[str, object]]) -> dict:
        """The row of a key, measured if it is not there, and kept at once."""
        there = next((row for row in self.rows if key.items() <= row.items()), None)
        old = there is not None and self.runs[there["run"]]["commit"] != self.run["commit"]
        if there is not None and not (self.again and old):
            return there
        if self.until is not None and time.monotonic() > self.until:
            sys.exit("the time is over; the same command goes on from here")
        measured = make()
        if self.run not in self.runs:
            self.runs.append(self.run)
        row = {"run": self.runs.index(self.run)} | key | measured
        self.rows = [one for one in self.rows if one is not there] + [row]
        self.write()
        return row

    def used(self) -> list[dict]:
        """The runs that rows come from."""
        return [self.runs[i] for i in sorted({row["run"] for row in self.rows})]

    def values_of(self, name: str) -> list[tuple[dict, set]]:
        """The runs, each with the values that a key has in its rows; equal commits count as one."""
        found: dict[str, tuple[dict, set]] = {}
        for row in self.rows:
            run = self.runs[row["run"]]
            found.setdefault(run["commit"], (run, set()))[1].add(row[name])
        return list(found.values())

    def write(self) -> None:
        """One line a run and a row, so that changes can be read."""
        if self.path is None:
            return
        parts = {"runs": self.runs, "rows": self.rows}
        lines = {key: ",\n".join(map(json.dumps, part)) for key, part in parts.items()}
        text = ",\n".join(f'"{key}": [\n{part}\n]' for key, part in lines.items())
        self.path.parent.mkdir(exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
        beside.replace(self.path)
