"""Ratios of times measured side by side in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


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


def exponent(sizes: list[int], times: list[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
