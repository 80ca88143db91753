"""The experiments of §7 of the paper, and beyond: ``make experiments``.

Results go to FOLDER as CSV, SVG and PNG, with a summary and the machine's description. An
interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmarks")]

import accuracy
import beyond
import comparison
import coverage
import goodness
import number
import outliers
from machine import machine
from table import commit

EXPERIMENTS = {
    "accuracy": (accuracy, "Accuracy of moments, §7.1 and §7.2"),
    "comparison": (comparison, "Comparison with EM, §7.3"),
    "beyond": (beyond, "Beyond the paper"),
    "coverage": (coverage, "Coverage of confidence intervals"),
    "goodness": (goodness, "Does it fit: level and power of the tests"),
    "number": (number, "The number of components"),
    "outliers": (outliers, "Outliers and heavy tails"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke test")
    parser.add_argument("--folder", type=Path, default=HERE / "results")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(
            f"no experiment {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}"
        )
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or EXPERIMENTS:
        module, title = EXPERIMENTS[name]
        where = f"{machine()}, at commit {commit()}"
        text = f"# {title}\n\n{where}\n\n" + module.main(arguments.folder, arguments.quick)
        (arguments.folder / f"{name}.md").write_text(text, encoding="utf-8")
        print("\n" + text, flush=True)


if __name__ == "__main__":
    main()
