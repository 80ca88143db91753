"""What does a user wait for? Times over scikit-learn's, one thread on both sides, in one run.

    make bench-time            # about ten minutes; writes benchmarks/results/time.csv
    python benchmarks/waiting.py --quick

Each line is a ratio of medians over seeds, and the seeds take turns, so that a slow spell meets
both sides. The command is timed as a process, beside a Python that imports scikit-learn's mixtures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as Peer

from default import easy_jobs
from machine import machine
from momentmix import GaussianMixture, select
from momentmix.fitting import solve as solve_module
from real import FRESH, TUNED

RESULTS = Path(__file__).parent / "results" / "time.csv"
SUITES = Path(__file__).parents[2] / "shared" / "suites" / "clusters"
SMALL = ("iris", "wine", "diabetes", "athletes", "digits 0-3")
WHOLE = ("wine", "olive")


class Line(NamedTuple):
    job: str
    ours: float  # seconds
    theirs: float
    peer: str

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def medians(*jobs: Callable[[int], object], seeds: int) -> list[float]:
    """The median time of each job over seeds, which take turns."""
    times = np.empty((len(jobs), seeds))
    for job in jobs:
        job(0)
    for seed in range(seeds):
        for i, job in enumerate(jobs):
            start = time.perf_counter()
            job(seed)
            times[i, seed] = time.perf_counter() - start
    return [float(one) for one in np.median(times, axis=1)]


def of_fits(X: np.ndarray, m: int, kind: str, seeds: int, n_init: int) -> tuple[float, float]:
    """Seconds of a default fit, and of scikit-learn's with so many starts."""
    settings = {"max_iter": 100} if n_init > 1 else {"tol": 1e-6, "max_iter": 5000}

    def ours(seed: int) -> object:
        return GaussianMixture(m, covariance_type=kind, random_state=seed, n_jobs=1).fit(X)

    def peer(seed: int) -> object:
        fit = Peer(m, covariance_type=kind, n_init=n_init, random_state=seed, **settings)
        return fit.fit(X)

    ours_s, peer_s = medians(ours, peer, seeds=seeds)
    return ours_s, peer_s


def fits(seeds: int, quick: bool) -> Iterator[Line]:
    known = TUNED | FRESH
    for name in SMALL[:2] if quick else SMALL:
        table = known[name]()
        yield Line(
            f"default fit of {name}", *of_fits(table.X, table.m, "full", seeds, 10), "n_init=10"
        )
    if quick:
        return
    for name in WHOLE:
        table = known[name]()
        yield Line(
            f"default fit of {name}",
            *of_fits(table.X, table.m, "full", seeds, 1),
            "one run, tol=1e-6",
        )
    for name, (X, m, kind) in list(easy_jobs().items())[:4]:  # the others are above
        yield Line(f"default fit of {name}", *of_fits(X, m, kind, 3, 1), "one run, tol=1e-6")


def suites() -> Iterator[Line]:
    """The sets of ../shared/suites, at the reference number."""
    if not SUITES.is_dir():
        print(f"the cluster suites are not there ({SUITES.name}/ beside the project); left out")
        return
    ratios, ours, theirs = [], 0.0, 0.0
    for path in sorted(SUITES.glob("*/*.npz")):
        with np.load(path) as data:
            X, labels = data["X"].astype(float), data["labels0"]
        m = len(set(labels[labels > 0].tolist()))
        one, other = of_fits(X, m, "full", 1, 10)
        ratios.append(one / other)
        ours, theirs = ours + one, theirs + other
    yield Line("51 sets of the cluster suites, all", ours, theirs, "n_init=10")
    yield Line("51 sets of the cluster suites, median", float(np.median(ratios)), 1.0, "n_init=10")


def sweep(seeds: int) -> Iterator[Line]:
    X = load_iris().data

    def peer(seed: int) -> object:
        return [Peer(m, random_state=seed).fit(X) for m in range(1, 11)]

    def ours(seed: int) -> object:
        return select(X, range(1, 11), random_state=seed, n_jobs=1)

    yield Line(
        "sweep of 1 to 10 on iris", *medians(ours, peer, seeds=seeds), "n_init=1, each number"
    )


def command() -> Iterator[Line]:
    """The command as a process, over a Python that imports scikit-learn's mixtures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "iris.csv"
        np.savetxt(path, load_iris().data, delimiter=",", header="a,b,c,d", comments="")
        program = [sys.executable, "-m", "momentmix"]
        bare = [sys.executable, "-c", "import sklearn.mixture"]
        jobs = {"fit --help": ["fit", "--help"], "fit of iris": ["fit", str(path), "-k", "3"]}
        for name, words in jobs.items():
            both = medians(
                lambda _, words=words: subprocess.run(
                    [*program, *words], capture_output=True, check=True
                ),
                lambda _: subprocess.run(bare, check=True),
                seeds=5,
            )
            yield Line(f"momentmix {name}", *both, "import sklearn.mixture")


def overhead(seeds: int) -> Iterator[Line]:
    """What the estimator adds to the solve, on 150 rows."""
    X, inside = load_iris().data, [0.0]
    solve = solve_module.solve

    def timed(*arguments: object, **named: object) -> object:
        start = time.perf_counter()
        result = solve(*arguments, **named)
        inside.append(time.perf_counter() - start)
        return result

    import momentmix.estimators.base as base

    base.solve = timed
    try:
        outside = medians(
            lambda seed: GaussianMixture(3, random_state=seed, n_jobs=1).fit(X), seeds=seeds
        )[0]
    finally:
        base.solve = solve
    within = float(np.median(inside[2:]))
    yield Line(
        "what the estimator adds to the solve of iris", outside - within, within, "the solve"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small tables alone, no file")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    print(machine())
    lines = []
    parts = [fits(5, quick)]
    if not quick:
        parts += [sweep(5), overhead(9), command(), suites()]
    for part in parts:
        for line in part:
            lines.append(line)
            print(f"{line.ratio:6.2f}  {line.job}, over {line.peer}", flush=True)
    if quick:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", encoding="utf-8") as file:
        file.write(
            f"# make bench-time; commit {commit}; {time.strftime('%Y-%m-%d')}; {machine()}\n"
        )
        file.write("job,over,ratio,seconds\n")
        for line in lines:
            file.write(f'"{line.job}","{line.peer}",{line.ratio:.3g},{line.ours:.3g}\n')
    print(f"written: {RESULTS.name}")


if __name__ == "__main__":
    main()
