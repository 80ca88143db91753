"""Ratios of times measured side by side in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits


def best_of(*jobs: Callable[[], object], rounds: int = 7) -> list[float]:
    """The shortest time of each job. The jobs take turns, so that a slow spell meets them all.

    A turn is a pause (the threads of a BLAS spin for a while after their last product, and would
    take a core from the next job), calls to warm up for 50 ms (the kernel spreads the threads of a
    job over idle cores only after a while), and three calls that count.
    """
    times = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for j, job in enumerate(jobs):
            time.sleep(0.1)
            start = time.perf_counter()
            while time.perf_counter() < start + 0.05:
                job()
            for _ in range(3):
                start = time.perf_counter()
                job()
                times[j] = min(times[j], time.perf_counter() - start)
    return times


def best_in_turn(*jobs: Callable[[], object], rounds: int = 15) -> list[float]:
    """The shortest time of each job, called in turn with no pause and no warm-up in between."""
    for job in jobs:
        job()
    times = [float("inf")] * len(jobs)
    for _ in range(rounds):
        for j, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            times[j] = min(times[j], time.perf_counter() - start)
    return times


def best_cpu(*jobs: Callable[[], object], rounds: int = 7) -> list[float]:
    """The least CPU time of each job, called in turn on one thread; other work does not count."""
    counts, times = [], [float("inf")] * len(jobs)
    for job in jobs:
        job()
        start = time.process_time()
        job()
        counts.append(max(1, int(0.02 / max(time.process_time() - start, 1e-6))))
    with threadpool_limits(1):
        for _ in range(rounds):
            for j, job in enumerate(jobs):
                start = time.process_time()
                for _ in range(counts[j]):
                    job()
                times[j] = min(times[j], (time.process_time() - start) / counts[j])
    return times


def exponent(sizes: list[int], times: list[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
