"""What does a user wait for? Ratios over scikit-learn or a bare pass, one thread, in one run.

    make bench-time                            # every part, about twenty minutes
    python benchmarks/waiting.py small command # some parts, each below six minutes
    python benchmarks/waiting.py --quick       # two small tables, nothing written

Times are processor times, so that other work on the machine counts less; the jobs take turns, and
each line has the median over seeds of the best of a few calls. Only ``threads`` has wall times,
which say little on a busy machine. The command is timed as a process, beside a Python that imports
scikit-learn's mixtures. Results go to benchmarks/results/time.json, where parts that are not run
keep their lines, each with the commit and the machine that it was measured on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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

import momentmix.estimators.base as base
from deconvolution import noisy_rows, simulated
from default import easy_jobs
from machine import machine
from momentmix import GaussianMixture, MomentMixture, MomentTensors, select
from real import FRESH, TUNED
from tensors import mean_error, mixture
from timing import best_in_turn

RESULTS = Path(__file__).parent / "results" / "time.json"
SUITES = Path(__file__).parents[2] / "shared" / "suites" / "clusters"
SMALL = ("iris", "wine", "diabetes", "athletes", "digits 0-3")
WHOLE = ("wine", "olive")


class Line(NamedTuple):
    job: str
    peer: str
    ratio: float
    seconds: float  # of our job
    goal: float


def cpu(job: Callable[[int], object], seed: int, calls: int = 3) -> float:
    """The least processor time of a few calls."""
    times = []
    for _ in range(calls):
        start = time.process_time()
        job(seed)
        times.append(time.process_time() - start)
    return min(times)


def medians(*jobs: Callable[[int], object], seeds: int, calls: int = 3) -> list[float]:
    """The median time of each job over seeds, which take turns."""
    for job in jobs:
        job(0)
    times = [[cpu(job, seed, calls) for job in jobs] for seed in range(seeds)]
    return [float(one) for one in np.median(times, axis=0)]


def line(job: str, peer: str, times: list[float], goal: float) -> Line:
    return Line(job, peer, times[0] / times[1], times[0], goal)


def of_fits(X: np.ndarray, m: int, kind: str, seeds: int, n_init: int, calls: int = 3) -> list:
    """Seconds of a default fit, and of scikit-learn's with so many starts."""
    settings = {"max_iter": 100} if n_init > 1 else {"tol": 1e-6, "max_iter": 5000}

    def ours(seed: int) -> object:
        return GaussianMixture(m, covariance_type=kind, random_state=seed, n_jobs=1).fit(X)

    def peer(seed: int) -> object:
        fit = Peer(m, covariance_type=kind, n_init=n_init, random_state=seed, **settings)
        return fit.fit(X)

    return medians(ours, peer, seeds=seeds, calls=calls)


def small(seeds: int = 5, names: tuple[str, ...] = SMALL) -> Iterator[Line]:
    ratios = []
    for name in names:
        table = (TUNED | FRESH)[name]()
        found = line(
            f"default fit of {name}", "n_init=10", of_fits(table.X, table.m, "full", seeds, 10), 2
        )
        ratios.append(found.ratio)
        yield found
    yield Line("the median of these", "n_init=10", float(np.median(ratios)), np.nan, 1)


def whole() -> Iterator[Line]:
    for name in WHOLE:
        table = (TUNED | FRESH)[name]()
        times = of_fits(table.X, table.m, "full", 5, 1)
        yield line(f"default fit of {name}", "one run, tol=1e-6", times, 5)


def easy() -> Iterator[Line]:
    for name, (X, m, kind) in list(easy_jobs().items())[:4]:  # the others are above
        times = of_fits(X, m, kind, 3, 1, calls=1)
        yield line(f"default fit of {name}", "one run, tol=1e-6", times, 1)


def suites() -> Iterator[Line]:
    """The sets of ../shared/suites, at the reference number."""
    if not SUITES.is_dir():
        print(f"the cluster suites are not there ({SUITES.name}/ beside the project); left out")
        return
    times = []
    for path in sorted(SUITES.glob("*/*.npz")):
        with np.load(path) as data:
            X, labels = data["X"].astype(float), data["labels0"]
        m = len(set(labels[labels > 0].tolist()))
        times.append(of_fits(X, m, "full", 1, 10, calls=1))
    ours, theirs = np.array(times).T
    what = f"{len(times)} sets of the cluster suites"
    yield Line(f"{what}, all", "n_init=10", ours.sum() / theirs.sum(), ours.sum(), 1)
    yield Line(f"{what}, median", "n_init=10", float(np.median(ours / theirs)), np.nan, 1)


def sweep() -> Iterator[Line]:
    X = load_iris().data

    def peer(seed: int) -> object:
        return [Peer(m, random_state=seed).fit(X) for m in range(1, 11)]

    def ours(seed: int) -> object:
        return select(X, range(1, 11), random_state=seed, n_jobs=1)

    times = medians(ours, peer, seeds=3, calls=1)
    yield line("sweep of 1 to 10 on iris", "n_init=1, each number", times, 1.5)


def command() -> Iterator[Line]:
    """The command as a process, over a Python that imports scikit-learn's mixtures."""

    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def process(words: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True, env=kept)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "iris.csv"
        np.savetxt(path, load_iris().data, delimiter=",", header="a,b,c,d", comments="")
        program, bare = ["-m", "momentmix"], ["-c", "import sklearn.mixture"]
        jobs = {"fit --help": ["fit", "--help"], "fit of iris": ["fit", str(path), "-k", "3"]}
        for name, words in jobs.items():
            times = np.array([[process([*program, *words]), process(bare)] for _ in range(8)])
            best = times.min(axis=0).tolist()
            if name == "fit --help":
                yield Line(f"momentmix {name}", "seconds of CPU", best[0], best[0], 0.3)
            else:
                yield line(f"momentmix {name}", "import sklearn.mixture", best, 1.2)


def overhead() -> Iterator[Line]:
    """What the estimator adds to the solve, on 150 rows."""
    X, inside, solve = load_iris().data, [], base.solve

    def timed(*arguments: object, **named: object) -> object:
        start = time.process_time()
        result = solve(*arguments, **named)
        inside.append(time.process_time() - start)
        return result

    base.solve = timed
    outside = []
    try:
        for seed in range(21):
            start = time.process_time()
            GaussianMixture(3, random_state=seed % 3, n_jobs=1).fit(X)
            outside.append(time.process_time() - start)
    finally:
        base.solve = solve
    within = float(np.median(inside))
    added = float(np.median(np.subtract(outside, inside)))
    yield line("what the estimator adds to the solve of iris", "the solve", [added, within], 0.2)


def moments() -> Iterator[Line]:
    """The solve of pure moments of a million rows, over the pass that makes them."""
    truth = mixture(20)
    X, _ = truth.sample(1_000_000, 0)
    tensors = MomentTensors.from_samples(X, 4)

    def ours(seed: int) -> MomentMixture:
        return MomentMixture(5, order=4, random_state=seed).fit_moments(tensors)

    times = medians(ours, lambda _: MomentTensors.from_samples(X, 4), seeds=3, calls=1)
    yield line("solve of moments up to order 4, 10⁶ × 10", "one pass for them", times, 10)
    print(f"        (mean error of the means {mean_error(ours(0).means_, truth):.4f})")


def files() -> Iterator[Line]:
    """A pass of moments over a file of 2·10⁶ rows and ten columns, over reading it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.random.default_rng(0).normal(size=(2_000_000, 10)))

        def read(_: int) -> float:
            return float(np.load(path).max())

        def ours(_: int) -> object:
            total = MomentTensors(10, 4)
            for block in np.array_split(np.load(path, mmap_mode="r"), 40):
                total.update(block)
            return total

        times = medians(ours, read, seeds=3, calls=2)
        yield line("moments of a file, order 4, 2·10⁶ × 10", "reading it", times, 5)


def threads() -> Iterator[Line]:
    """Rows with errors of their own: wall time on two threads over one."""
    X, noise = noisy_rows(simulated(5, 5, 4.0, 0), 20_000, 1)

    def fit(n_jobs: int) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = {"n_init": 1, "max_iter": 3, "random_state": 0}
            return GaussianMixture(5, n_jobs=n_jobs, **start).fit(X, noise_covariance=noise)

    one, two = best_in_turn(lambda: fit(1), lambda: fit(2), rounds=3)
    yield Line("rows with errors, one thread over two (wall)", "two threads", one / two, one, 1.6)


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "small": small,
    "whole": whole,
    "easy": easy,
    "sweep": sweep,
    "overhead": overhead,
    "command": command,
    "moments": moments,
    "files": files,
    "threads": threads,
    "suites": suites,
}


def keep(run: dict[str, object], part: str, lines: list[Line]) -> None:
    """Put the lines of a part in the place of those before, with the run that they are from."""
    known = {"runs": [], "rows": []}
    if RESULTS.exists():
        known = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = [row for row in known["rows"] if row["part"] != part]
    runs = [*known["runs"], run] if run not in known["runs"] else known["runs"]
    for one in lines:
        row = {"run": runs.index(run), "part": part, **one._asdict()}
        row |= {name: float(f"{row[name]:.3g}") for name in ("ratio", "seconds")}
        rows.append(row | ({"seconds": None} if np.isnan(one.seconds) else {}))
    used = sorted({row["run"] for row in rows})
    for row in rows:
        row["run"] = used.index(row["run"])
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    of_runs = ",\n".join(json.dumps(runs[i], ensure_ascii=False) for i in used)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(f'{{\n"runs": [\n{of_runs}\n],\n"rows": [\n{text}\n]\n}}\n', "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="two small tables alone, no file")
    asked = parser.parse_args()
    if strange := set(asked.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(strange))}")
    warnings.simplefilter("ignore")
    print(machine())
    if asked.quick:
        for one in small(1, SMALL[:2]):
            print(f"{one.ratio:6.2f}  {one.job}, over {one.peer}")
        return
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    run = {
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "command": " ".join(["python benchmarks/waiting.py", *asked.parts]),
    }
    for name in asked.parts or PARTS:
        lines = []
        for one in PARTS[name]():
            lines.append(one)
            print(f"{one.ratio:6.2f}  {one.job}, over {one.peer} (goal {one.goal:g})", flush=True)
        keep(run, name, lines)
    print(f"written: {RESULTS.name}")


if __name__ == "__main__":
    main()
