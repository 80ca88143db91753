"""The figures of section 7 in docs/experiments.md, written from the results: ``make paper``.

``--check`` changes nothing, and fails if the page says something else than the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmarks")]

import accuracy
import comparison
import table

PAGE = HERE.parent / "docs" / "experiments.md"


def rates(folder: Path) -> str:
    """The slopes of the errors of moments."""
    rows = []
    for kind, section in accuracy.KINDS.items():
        found = table.read(folder / f"accuracy-{kind}.csv")
        sets = len({row["seed"] for row in found})
        largest = max(int(row["p"]) for row in found)
        slope = f"{accuracy.slope(found):.3f}"
        rows.append((section, f"the {kind} third moment", sets, f"{largest:,}", slope, "−1/2"))
    header = ["section", "error of", "data sets", "largest p", "slope of log error", "theory"]
    return table.markdown(header, rows).strip()


def where(folder: Path, name: str) -> str:
    """The machine and the commits of a result."""
    machine = (folder / f"{name}.md").read_text(encoding="utf-8").splitlines()[2]
    return f"Made on {machine}."


def written(text: str, folder: Path) -> str:
    """The page with its marked parts made anew."""
    parts = {
        "accuracy": f"{rates(folder)}\n\n{where(folder, 'accuracy')}",
        "comparison": f"{comparison.page(folder)}\n\n{where(folder, 'comparison')}",
    }
    for name, part in parts.items():
        begin, end = f"<!-- {name}: from the results -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise SystemExit(f"{PAGE} has no part between {begin} and {end}")
        text = f"{before}{begin}\n\n{part}\n\n{end}{after}"
    return text


def main() -> None:
    folder, text = HERE / "results", PAGE.read_text(encoding="utf-8")
    new = written(text, folder)
    if "--check" in sys.argv[1:]:
        if new != text:
            raise SystemExit(f"{PAGE} differs from the results; run experiments/page.py")
        return
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
