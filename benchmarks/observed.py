"""Rows with gaps and with known errors: ``make bench-observed``. How fast, and how good?

Each part prints its tables: ``python benchmarks/observed.py PART…``. Everything that is compared is
measured in this one run, on the same rows. astroML's XDGMM and pygmmis are in it where they are
installed (``pip install astroML pygmmis``, best in an environment of their own).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from deconvolution import deconvolution, noisy_rows, simulated
from machine import machine
from momentmix import GaussianMixture, MomentMixture
from momentmix.covariance import Full
from momentmix.fit import Parameters
from momentmix.fitting.em import Likelihood, LikelihoodHere, Target
from momentmix.observed import ObservedRows
from momentmix.rows.incomplete import CompletedRows, IncompleteRows
from momentmix.rows.memory import MemoryRows
from momentmix.support.parallel import thread_limit
from observed_gaps import gaps
from timing import best_in_turn


def with_noise(X: np.ndarray, noise: np.ndarray | None, prior: str | None) -> LikelihoodHere:
    """The likelihood of rows in their own units, which needs no coordinates of a fit."""
    p, n = X.shape
    rows = ObservedRows(X, None if noise is None else Full(noise, n))
    filled = np.where(np.isnan(X), 0.0, X)
    completed = CompletedRows(rows, filled, np.zeros(p))
    target = Target(Full, 1e-9, prior=Full.prior(n, prior)).beside(p)
    return Likelihood(IncompleteRows(completed, None, Full), target)


def xdgmm() -> type | None:
    """astroML's class, or None with a line that says so."""
    try:
        from astroML.density_estimation import XDGMM
    except ImportError:
        print("astroML is not installed, and its column is left out.\n")
        return None
    return XDGMM


def cpu_times(*jobs: Callable[[], object], rounds: int) -> list[float]:
    """The least processor time of each job, called in turn: other work on the machine counts less.

    On one thread that is the time on a machine that does nothing else. Of wall times, a busy
    machine would give short jobs the better ones.
    """
    times = [np.inf] * len(jobs)
    for _ in range(rounds):
        for j, job in enumerate(jobs):
            begin = time.process_time()
            job()
            times[j] = min(times[j], time.process_time() - begin)
    return times


def thread_gain(job: Callable[[], object], rounds: int) -> float:
    """The wall time of a job on one thread over that on two, in turn, the best of each."""

    def alone() -> None:
        with thread_limit(1):
            job()

    def together() -> None:
        with thread_limit(2):
            job()

    one, two = best_in_turn(alone, together, rounds=rounds)
    return one / two


class TheirStep:
    """A step of XDGMM from given parameters, and what came of it."""

    def __init__(self, kind: type, X: np.ndarray, noise: np.ndarray, at: Parameters) -> None:
        self.model, self.data, self.at = kind(len(at.weights)), (X, noise), at

    def reset(self) -> None:
        self.model.alpha, self.model.mu, self.model.V = (np.array(part) for part in self.at)

    def __call__(self) -> None:
        self.reset()
        self.model._EMstep(*self.data)

    def difference(self, ours: LikelihoodHere) -> float:
        """The largest difference to the log-likelihood of ours, and to its parameters after."""
        self.reset()
        value = self.model.logL(*self.data) / len(self.data[0])
        step = ours.step(self.at)
        self()
        theirs = self.model.alpha, self.model.mu, self.model.V
        away = [float(np.max(np.abs(a - b))) for a, b in zip(step.after, theirs, strict=True)]
        return max(abs(float(step.log_likelihood[0]) - value), *away)


def error_steps(quick: bool) -> None:
    p, m, rounds = (500, 5, 1) if quick else (20_000, 5, 5)
    print("\n## An EM step with an error covariance a row\n")
    print(
        f"m={m}, {p:,} rows, full covariances, a full error covariance in each row. The step\n"
        "has the default prior. The ratio is the processor time of a step of astroML's XDGMM\n"
        f"over that of a step of momentmix, both on one thread, in turn, the best of {rounds}.\n"
        "'Difference': the largest one of the mean log-likelihoods of the two, and of their\n"
        "parameters after a step without a prior. 'Two threads': wall time on one over that on\n"
        "two, which says little if the machine has other work.\n"
    )
    theirs = xdgmm()
    print("| n | astroML over momentmix | difference | prior=None over default | two threads |")
    print("| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for n in (2, 5) if quick else (2, 5, 10):
        truth = simulated(n, m, 4.0, 0)
        X, noise = noisy_rows(truth, p, 1)
        at = Parameters(truth.weights, truth.means, truth.covariances)
        ours, pure = with_noise(X, noise, "auto"), with_noise(X, noise, None)
        jobs: list[Callable[[], object]] = [partial(ours.step, at), partial(pure.step, at)]
        difference = ratio = "—"
        if theirs is not None:
            jobs.append(TheirStep(theirs, X, noise, at))
            difference = f"{jobs[2].difference(pure):.0e}"
        with threadpool_limits(1), thread_limit(1):
            times = cpu_times(*jobs, rounds=rounds)
        if theirs is not None:
            ratio = f"{times[2] / times[0]:.0f}"
        gain = thread_gain(jobs[0], 3 * rounds)
        print(
            f"| {n} | {ratio} | {difference} | {times[1] / times[0]:.2f} | {gain:.2f} |",
            flush=True,
        )


def gap_steps(quick: bool) -> None:
    p, n, m, share = 1000 if quick else 5000, 13, 3, 0.3
    print("\n## An EM step with gaps\n")
    print(
        f"{p:,} rows × {n}, m={m}, full, {100 * share:.0f} % of the cells missing at random,\n"
        "with the default prior, on one thread, best processor time of 15. 'Over complete rows':\n"
        "the time over that of a step on the same rows without gaps.\n"
    )
    truth = simulated(n, m, 4.0, 0)
    X, _ = truth.sample(p, 1)
    holes = np.where(np.random.default_rng(2).random(X.shape) < share, np.nan, X)
    at = Parameters(truth.weights, truth.means, truth.covariances)
    seen = partial(with_noise(holes, None, "auto").step, at)
    target = Target(Full, 1e-9, prior=Full.prior(n, "auto")).beside(p)
    whole = partial(Likelihood(MemoryRows(X, None, Full), target).step, at)
    with threadpool_limits(1), thread_limit(1):
        ours, base = cpu_times(seen, whole, rounds=15)
    patterns = len(np.unique(np.isnan(holes), axis=0))
    print("| patterns of gaps | over complete rows | two threads |")
    print("| ---: | ---: | ---: |")
    print(f"| {patterns:,} | {ours / base:.1f} | {thread_gain(seen, 15):.2f} |", flush=True)


def steps(quick: bool) -> None:
    error_steps(quick)
    gap_steps(quick)


def large_rows(p: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows × 10 of five components, and the same with a fifth of the cells missing."""
    truth = simulated(10, 5, 4.0, 0)
    X, _ = truth.sample(p, 1)
    return X, np.where(np.random.default_rng(2).random(X.shape) < 0.2, np.nan, X)


def job(name: str, p: int) -> None:
    """One fit in a process of its own: seconds, peak memory in MiB, and the score of the rows."""
    X, holes = large_rows(p)
    rows = X if name == "complete" else holes
    fit = (MomentMixture if name == "moments" else GaussianMixture)(5, random_state=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    fit.fit(rows)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(seconds, peak / 1024, before / 1024, fit.score(X[:20_000]))


def large(quick: bool) -> None:
    p = 5000 if quick else 1_000_000
    print("\n## Many rows\n")
    print(
        f"{p:,} rows × 10, 20 % of the cells missing at random, m=5, full; each fit once, in a\n"
        f"process of its own, on all threads. The rows have {p * 80 / 2**20:.0f} MiB. 'Peak': of\n"
        "the resident memory in the fit. 'Before': the same before it, with the rows complete and\n"
        "with gaps. Nats: the mean log-likelihood of the first 20,000 complete rows above that of\n"
        "the fit to complete rows.\n"
    )
    print("| fit | seconds | time over complete rows | peak, MiB | before, MiB | nats |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    base = None
    names = {"complete": "complete rows", "default": "gaps", "moments": "gaps, MomentMixture"}
    if quick:
        names = {"default": names["default"]}
    for name, title in names.items():
        command = [sys.executable, __file__, "--job", name, "--rows", str(p)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"| {title} | failed: {done.stderr.strip().splitlines()[-1]} | | | | |")
            continue
        seconds, peak, before, score = (float(v) for v in done.stdout.split())
        base = base or (seconds, score)
        print(
            f"| {title} | {seconds:.1f} | {seconds / base[0]:.1f} | {peak:.0f} | {before:.0f} | "
            f"{score - base[1]:+.4f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="some of the parts; all if none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures mean little")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.job:
        job(arguments.job, arguments.rows)
        return
    print(machine())
    print(f"Load average of the last minute: {os.getloadavg()[0]:.1f}.")
    quick = arguments.quick
    parts: dict[str, Callable[[], None]] = {
        "steps": lambda: steps(quick),
        "deconvolution": lambda: deconvolution(quick),
        "gaps": lambda: gaps(quick),
        "large": lambda: large(quick),
    }
    chosen: Iterable[str] = arguments.parts or parts
    for name in chosen:
        parts[name]()


if __name__ == "__main__":
    main()
