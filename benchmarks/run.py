"""Print a table of ratios, best of several, measured in this run: ``make bench``."""

from __future__ import annotations

import argparse

import core
from machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes; the figures mean nothing"
    )
    quick = parser.parse_args().quick
    print(f"{machine()}\n")
    print("| what | figure | unit | bound | |\n| --- | ---: | --- | ---: | --- |", flush=True)
    for what, unit, figure, bound in core.rows(quick):
        verdict = "" if bound is None else "ok" if figure <= bound else "above the bound"
        print(f"| {what} | {figure:.2f} | {unit} | {bound} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
