"""momentmix and its peers on the same data, in fresh processes: ``make bench-peers``.

Prints one table a job and writes them into benchmarks/results/peers.md. A peer that fails, or runs
out of the stated time, is in the table as such.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from fitters import PEERS
from sklearn.datasets import make_blobs, make_moons

from fit import tables
from machine import machine
from momentmix import Mixture
from momentmix.datasets import paper_mixture
from tensors import mean_error, mixture

#: Gain in mean log-likelihood at which all stop; how near to the best likelihood counts as it.
TOL, NEAR = 1e-6, 2e-3
#: Runs of each peer, with seeds from 0, unless its fits take more than so many seconds in all;
#: seconds after which one run is given up.
RUNS, SECONDS, LIMIT = 5, 20, 300


@dataclass
class Job:
    name: str
    X: np.ndarray
    m: int
    kind: str
    truth: Mixture | None = None
    runs: int = RUNS


@dataclass
class Runs:
    """What one peer did on one job."""

    seconds: list[float] = field(default_factory=list)
    likelihoods: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    failure: str = ""

    def to_the_best(self, best: float) -> float:
        """Seconds of runs for one that ends near the best likelihood of all peers; ∞ if none did.

        If a share s of runs gets there, restarts need 1/s of them on average.
        """
        there = np.sum(np.array(self.likelihoods) > best - NEAR)
        return float(np.sum(self.seconds) / there) if there else np.inf


def jobs(quick: bool) -> list[Job]:
    if quick:
        truth = Mixture([0.3, 0.7], [[0.0, 0.0], [2.0, 1.0]], np.ones((2, 2)), "diag")
        return [Job("quick", truth.sample(1000, 0)[0], 2, "diag", truth)]
    paper, tall = paper_mixture(0.1, 0), mixture(0)
    rng = np.random.default_rng(0)
    wide = Mixture(
        rng.dirichlet(np.full(10, 5.0)),
        0.4 * rng.normal(size=(10, 50)),
        rng.uniform(0.3, 1.7, (10, 50)),
        "diag",
    )
    blobs = make_blobs(2000, centers=5, cluster_std=[0.5, 1, 1.5, 2, 2.5], random_state=3)[0]
    moons = make_moons(2000, noise=0.08, random_state=0)[0]
    result = [
        Job(
            "the paper's problem, 8,000 × 100, m=20, diag",
            paper.sample(8000, 1000)[0],
            20,
            "diag",
            paper,
            runs=2 * RUNS,  # where restarts matter most
        ),
        Job("1,000,000 × 10, m=5, full", tall.sample(1_000_000, 1)[0], 5, "full", tall),
        Job("100,000 × 50, m=10, diag", wide.sample(100_000, 1)[0], 10, "diag", wide),
        Job("blobs, 2,000 × 2, m=5, full", blobs, 5, "full"),
        Job("moons, 2,000 × 2, m=8, full", moons, 8, "full"),
    ]
    for name, (X, m) in tables(quick).items():
        result.append(Job(f"{name}, {len(X)} × {X.shape[1]}, m={m}, full", X, m, "full"))
    return result


def measure(job: Job, peer: str, data: Path, quick: bool) -> Runs:
    runs = Runs()
    for seed in range(1 if quick else job.runs):
        out = data.with_name("result.npz")
        settings = [peer, str(data), str(job.m), job.kind, str(TOL), str(seed), str(out)]
        command = [sys.executable, str(HERE / "fitters.py"), *settings]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            runs.failure = f"not done in {LIMIT} s"
            break
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            runs.failure = lines[-1][:80]
            break
        with np.load(out) as file:
            fit = Mixture(
                file["weights"] / file["weights"].sum(),
                file["means"],
                file["covariances"],
                job.kind,
            )
            runs.seconds.append(float(file["seconds"]))
            runs.passes.append(int(file["passes"]))
            runs.peaks.append(float(file["peak"]))
        runs.likelihoods.append(float(np.mean(fit.log_prob(job.X))))
        if job.truth is not None:
            runs.errors.append(mean_error(fit.means, job.truth))
        if sum(runs.seconds) > SECONDS:
            break
    return runs


def table(job: Job, results: dict[str, Runs]) -> str:
    best = max((max(r.likelihoods) for r in results.values() if r.likelihoods), default=np.nan)
    ours = results["momentmix"]
    lines = [
        f"\n## {job.name}\n",
        "| | time of a run | to the best likelihood | log-likelihood − best: best, median | "
        "mean error | passes | MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for peer, runs in results.items():
        if not runs.seconds:
            lines.append(f"| {peer} | {runs.failure} | | | | | |")
            continue
        reach, reach_ours = runs.to_the_best(best), ours.to_the_best(best)
        ratio = f"{reach / reach_ours:.2g}" if np.isfinite(reach) else "never"
        values = np.array(runs.likelihoods) - best
        error = f"{np.median(runs.errors):.3f}" if runs.errors else "—"
        lines.append(
            f"| {peer} ({len(runs.seconds)} run{'s' * (len(runs.seconds) != 1)}) | "
            f"{np.median(runs.seconds) / np.median(ours.seconds):.2g} | {ratio} | "
            f"{values.max():+.4f}, {np.median(values):+.4f} | {error} | "
            f"{np.median(runs.passes):.0f} | {np.max(runs.peaks):.0f} |"
            + (f" {runs.failure}" if runs.failure else "")
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small job, for a smoke test")
    parser.add_argument("--peers", help="a text with the names of some; by default all")
    parser.add_argument("--only", help="jobs whose names contain this; then nothing is written")
    parser.add_argument("--first", type=int, help="so many jobs only; then nothing is written")
    arguments = parser.parse_args()
    peers = [peer for peer in PEERS if arguments.peers is None or peer in arguments.peers]
    text = (
        "# Against peers\n\n`make bench-peers` writes this anew. " + machine() + ".\n\n"
        f"Same data, fresh processes, two cores each, EM stopped at a gain of {TOL:g} nats a "
        f"sample or 500 steps. Up to {RUNS} runs (the paper's problem: {2 * RUNS}) with seeds "
        f"0, 1, … of each peer, or {SECONDS} s of fitting; a run that takes over {LIMIT} s is "
        "given up. Times are over momentmix's: the median of a run, after a small fit that loads "
        "and compiles; and the time of all runs over the number that ended within "
        f"{NEAR:g} nats of the best likelihood that anyone found, which is what restarts take on "
        "average to get there. "
        "pomegranate and gmmx compute in single precision; memory is that of the process and its "
        "children.\n"
    )
    print(text)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npy"
        for job in jobs(arguments.quick)[: arguments.first]:
            if arguments.only is not None and arguments.only not in job.name:
                continue
            np.save(data, job.X)
            results = {peer: measure(job, peer, data, arguments.quick) for peer in peers}
            part = table(job, results)
            print(part, flush=True)
            text += part + "\n"
    whole = arguments.first is None and arguments.only is None and peers == list(PEERS)
    if whole and not arguments.quick:
        (HERE.parent / "results" / "peers.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
