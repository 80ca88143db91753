"""Blocks of rows on a thread per core, with the BLAS inside each thread held to one thread."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from momentmix.support.array import Namespace, is_numpy_namespace

if TYPE_CHECKING:
    from threadpoolctl import _ThreadpoolLimiter

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_depth = 0  # how many calls hold the BLAS to one thread now
_allowed = 1  # threads that the BLAS could use before it was held to one
_limit: _ThreadpoolLimiter | None = None
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_inside = threading.local()


def _forget_threads() -> None:
    # Threads, and a lock that one of them may hold, do not survive a fork.
    global _lock, _depth, _limit, _pool, _pool_size
    _lock, _depth, _limit, _pool, _pool_size = threading.Lock(), 0, None, None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@cache
def _blas() -> ThreadpoolController:
    # glibc gives memory back to the system at every free of a block's temporaries and faults
    # it in again for the next block, at the price of the arithmetic itself. Freeing one large
    # piece raises its thresholds (they adapt to the largest piece freed so far).
    np.empty(16 << 20, dtype=np.uint8)
    return ThreadpoolController().select(user_api="blas")


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def worker_count(xp: Namespace) -> int:
    """Threads for a NumPy job: as many as its BLAS may use (so that the user's limits hold)."""
    if not is_numpy_namespace(xp) or getattr(_inside, "worker", False):
        return 1
    with _lock:
        allowed = _allowed if _depth else _allowed_now()
    limit = getattr(_inside, "limit", None)
    return allowed if limit is None else max(1, min(allowed, limit))


@contextmanager
def thread_limit(n_jobs: int | None) -> Iterator[None]:
    """Let this thread's jobs use at most ``n_jobs`` threads; None and negative: all there are."""
    outer = getattr(_inside, "limit", None)
    _inside.limit = n_jobs if n_jobs is not None and n_jobs > 0 else None
    try:
        yield
    finally:
        _inside.limit = outer


def _allowed_now() -> int:
    of_libraries: list[int] = [library["num_threads"] for library in _blas().info()]
    return max(1, min([_cores(), *of_libraries]))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold the BLAS to one thread; calls from several threads may overlap in any order."""
    global _depth, _limit, _allowed
    with _lock:
        _depth += 1
        if _depth == 1:
            _allowed = _allowed_now()
            _limit = _blas().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


def single_threaded_openmp() -> AbstractContextManager[object]:
    """Hold OpenMP, which k-means uses, to one thread: with more, a process forked later hangs."""
    limit: AbstractContextManager[object] = _openmp().limit(limits=1)
    return limit


@cache
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")


def parallel_map(function: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """``[function(item) for item in items]`` on ``workers`` threads, the caller's among them.

    The first error stops the rest and is raised here, Ctrl-C included.
    """
    items = list(items)
    if workers == 1 or len(items) < 2:
        return [function(item) for item in items]
    waiting = deque(range(len(items)))
    results: dict[int, R] = {}

    def work() -> None:
        outer, _inside.worker = getattr(_inside, "worker", False), True
        try:
            while waiting:
                try:
                    i = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                results[i] = function(items[i])
        except BaseException:
            waiting.clear()
            raise
        finally:
            _inside.worker = outer

    with single_threaded_blas():
        helpers = []
        with suppress(RuntimeError):  # there are no more threads to be had: the caller's does it
            for _ in range(min(workers, len(items)) - 1):
                helpers.append(_threads(workers).submit(work))
        try:
            work()
        finally:
            wait(helpers)
    for helper in helpers:
        helper.result()
    return [results[i] for i in range(len(items))]


def _threads(workers: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < workers:
            _pool, _pool_size = ThreadPoolExecutor(workers, "momentmix"), workers
        return _pool
