"""Easy and ordinary rows: ``make bench-ordinary``. Are groups found, and outliers told?

Each part prints one table: ``python benchmarks/ordinary.py PART…``. Everything that is compared is
fitted in this one run, on the same rows, on one thread. sk10 is scikit-learn's
``GaussianMixture(n_init=10)`` with its other defaults. The tables of outliers are public ones that
are not part of this repository: they are read from the folder that MOMENTMIX_SUITES names.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import sklearn.mixture
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from fit import timed
from machine import machine
from momentmix import GaussianMixture
from momentmix.fitting import search, starts

#: Difference of the ARI from which one fit is better than another.
CLEARLY = 0.05
SUITES = Path(os.environ.get("MOMENTMIX_SUITES", Path(__file__).parents[2] / "shared" / "suites"))


def balls(m: int, n: int, sheared: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """1,500 rows of m unit balls, and their groups.

    Each lies in a direction of its own: 3 from the first in up to ten columns, 4.5 in more. Sheared
    ones are multiplied by a random matrix, so that units tell nothing.
    """
    rng = np.random.default_rng([m, n, sheared, seed])
    labels, X = rng.integers(m, size=1500), rng.standard_normal((1500, n))
    centres = np.zeros((m, n))
    centres[range(1, m), range(m - 1)] = 3.0 if n <= 10 else 4.5
    X += centres[labels]
    return (X @ rng.standard_normal((n, n)) if sheared else X), labels


def settings(seeds: int) -> Iterator[tuple[str, int, int, bool, int]]:
    for kind in ("full", "tied"):
        for m in (2, 3, 4):
            for n in (5, 10, 20, 40):
                for sheared in (False, True):
                    for seed in range(seeds):
                        yield kind, m, n, sheared, seed


def ours(m: int, kind: str, seed: int, **more: object) -> GaussianMixture:
    return GaussianMixture(m, covariance_type=kind, random_state=seed, **more)


def sk10(m: int, kind: str, seed: int) -> sklearn.mixture.GaussianMixture:
    return sklearn.mixture.GaussianMixture(m, n_init=10, covariance_type=kind, random_state=seed)


def found(m: int, kind: str, seed: int, X: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The ARI of a default fit, and its time."""
    fit, seconds = timed(lambda: ours(m, kind, seed).fit(X))
    return adjusted_rand_score(labels, fit.predict(X)), seconds


def groups(seeds: int) -> None:
    print("\n## Balls that anyone would tell apart\n")
    print(
        "2 to 4 unit balls in 5 to 40 columns, raw and sheared, 1,500 rows. Worse and better:\n"
        f"the ARI differs from sk10's by more than {CLEARLY}. Times are over sk10's, in all.\n"
    )
    print("| type | settings | worse | better | mean ARI | sk10 | time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    results: dict[str, list[tuple[float, ...]]] = {}
    for kind, m, n, sheared, seed in settings(seeds):
        X, labels = balls(m, n, sheared, seed)
        a, t = found(m, kind, seed, X, labels)
        fit, u = timed(lambda m=m, k=kind, s=seed, X=X: sk10(m, k, s).fit(X))
        b = adjusted_rand_score(labels, fit.predict(X))
        results.setdefault(kind, []).append((a, b, t, u))
    for kind, values in results.items():
        a, b, t, u = np.array(values).T
        worse, better = np.sum(a < b - CLEARLY), np.sum(a > b + CLEARLY)
        print(
            f"| {kind} | {len(a)} | {worse} | {better} | {a.mean():.3f} | {b.mean():.3f} | "
            f"{t.sum() / u.sum():.2f} |",
            flush=True,
        )


def ablation(seeds: int) -> None:
    """One part of the search left out at a time."""
    print("\n## Which start finds them\n")
    print(
        "The same settings with one part of the search left out: how many are worse than with all\n"
        f"parts by more than {CLEARLY}, the mean ARI, and the time over that with all.\n"
    )
    print("| search | worse | mean ARI | time |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    views_of, move = starts.views_of, search.split_and_merge

    def keep(*places: int) -> Callable:
        return lambda *a: [view for i, view in enumerate(views_of(*a)) if i in places]

    parts = {
        "all": (views_of, move),
        "without directions of least fourth moment": (keep(0, 2, 3), move),
        "without features in units of their clusters": (keep(0, 1, 3), move),
        "without both": (keep(0, 3), move),
        "without whitened coordinates": (keep(0, 1, 2), move),
        "without repairs": (views_of, lambda likelihood, fit, *a, **k: fit),
    }
    base = np.empty(0)
    base_time = 1.0
    for name, (views, moves) in parts.items():
        starts.views_of, search.split_and_merge = views, moves
        try:
            values = np.array(
                [
                    found(m, kind, seed, *balls(m, n, sheared, seed))
                    for kind, m, n, sheared, seed in settings(seeds)
                ]
            )
        finally:
            starts.views_of, search.split_and_merge = views_of, move
        if name == "all":
            base, base_time = values[:, 0], values[:, 1].sum()
        worse = np.sum(values[:, 0] < base - CLEARLY)
        print(
            f"| {name} | {worse} of {len(base)} | {values[:, 0].mean():.3f} | "
            f"{values[:, 1].sum() / base_time:.2f} |",
            flush=True,
        )


def constant_columns() -> None:
    print("\n## Columns that are constant, or nearly, in the fitted rows\n")
    print(
        "Half of scikit-learn's digits (64 columns) fitted with ten components, the other half\n"
        "scored: nats a row, of the worst row, and the ARI with the digits.\n"
    )
    print("| type | held out | worst row | ARI | sk10: held out | ARI |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    X, y = load_digits(return_X_y=True)
    a, b = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    for kind in ("full", "tied", "diag", "spherical"):
        fit, rival = ours(10, kind, 0).fit(X[a]), sk10(10, kind, 0).fit(X[a])
        cells = [
            f"{fit.score(X[b]):.1f}",
            f"{fit.score_samples(X[b]).min():.0f}",
            f"{adjusted_rand_score(y[b], fit.predict(X[b])):.2f}",
            f"{rival.score(X[b]):.1f}",
            f"{adjusted_rand_score(y[b], rival.predict(X[b])):.2f}",
        ]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def outlier_tables() -> None:
    print("\n## Outliers of public tables\n")
    files = sorted((SUITES / "outliers").glob("*.npz"))
    if not files:
        print(f"There are none in {SUITES}: set MOMENTMIX_SUITES to the folder that has them.")
        return
    print(
        "AUROC of -score_samples of a plain fit with three components, of outlier_score after a\n"
        "fit with outliers='auto', and of an isolation forest; time over that of the plain fit.\n"
    )
    print("| table | rows × columns | plain | outlier_score | forest | share | time |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    values = []
    for path in files:
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"].astype(float), file["y"]
        plain, t = timed(lambda X=X: ours(3, "full", 0).fit(X))
        robust, u = timed(lambda X=X: ours(3, "full", 0, outliers="auto").fit(X))
        forest = IsolationForest(random_state=0).fit(X)
        areas = [
            roc_auc_score(y, scores)
            for scores in (
                -plain.score_samples(X),
                robust.outlier_score(X),
                -forest.score_samples(X),
            )
        ]
        values.append([*areas, t, u])
        shown = " | ".join(f"{area:.3f}" for area in areas)
        print(
            f"| {path.stem} | {len(X):,} × {X.shape[1]} | {shown} | "
            f"{robust.outlier_share_:.3f} | {u / t:.1f} |",
            flush=True,
        )
    mean = np.mean(values, axis=0)
    shown = " | ".join(f"{area:.3f}" for area in mean[:3])
    print(f"| all | | {shown} | | {mean[4] / mean[3]:.2f} |", flush=True)


def clean_rows(repeats: int) -> None:
    print("\n## Outliers that are none\n")
    print(f"Of {repeats} data sets of one Gaussian, those in which outliers='auto' finds any.\n")
    print("| rows × columns | full | tied | diag | full, 2 components |")
    print("| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for p, n in ((50, 5), (80, 10), (150, 12), (300, 10), (40, 8), (60, 2)):
        cells = []
        for kind, m in (("full", 1), ("tied", 1), ("diag", 1), ("full", 2)):
            any_found = 0
            for seed in range(repeats):
                X = np.random.default_rng([seed, p, n]).normal(size=(p, n))
                any_found += ours(m, kind, seed, outliers="auto").fit(X).outlier_share_ > 0
            cells.append(str(any_found))
        print(f"| {p} × {n} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="some of the parts; all if none is named")
    parser.add_argument("--quick", action="store_true", help="one small part of each")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    quick = arguments.quick
    parts: dict[str, Callable[[], None]] = {
        "groups": lambda: groups(1 if quick else 3),
        "ablation": lambda: ablation(1 if quick else 3),
        "constant": constant_columns,
        "outliers": outlier_tables,
        "clean": lambda: clean_rows(5 if quick else 100),
    }
    chosen: Iterable[str] = arguments.parts or parts
    for name in chosen:
        parts[name]()


if __name__ == "__main__":
    main()
