"""Work on blocks of rows with one thread per core, while the BLAS uses one thread inside each."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
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
_depth = 0  # how many calls hold the BLAS to one thread at the moment
_allowed = 1  # how many threads the BLAS could use before it was held to one
_limit: _ThreadpoolLimiter | None = None
_pool: ThreadPoolExecutor | None = None
_pool_size = 0  # threads in _pool
_inside = threading.local()


def _forget_threads() -> None:
    # Threads do not survive a fork, and one of them may have held the lock.
    global _lock, _depth, _limit, _pool, _pool_size
    _lock, _depth, _limit, _pool, _pool_size = threading.Lock(), 0, None, None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@cache
def _blas() -> ThreadpoolController:
    # glibc returns a block's temporaries to the system whenever they are freed and has to fault the
    # memory in again for the next block, which can take as long as the arithmetic. Its thresholds
    # adapt to the largest piece freed so far, so freeing one large piece (16 MiB) prevents that.
    np.empty(16 << 20, dtype=np.uint8)
    return ThreadpoolController().select(user_api="blas")


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def worker_count(xp: Namespace) -> int:
    """How many threads a NumPy job gets: as many as its BLAS may use, so users' limits hold."""
    if not is_numpy_namespace(xp) or getattr(_inside, "worker", False):
        return 1
    with _lock:
        allowed = _allowed if _depth else _allowed_cores()
    limit = getattr(_inside, "limit", None)
    return allowed if limit is None else max(1, min(allowed, limit))


@contextmanager
def thread_limit(n_jobs: int | None) -> Iterator[None]:
    """Let this thread's jobs use at most ``n_jobs`` threads; None or negative means all."""
    outer = getattr(_inside, "limit", None)
    _inside.limit = n_jobs if n_jobs is not None and n_jobs > 0 else None
    try:
        yield
    finally:
        _inside.limit = outer


def _allowed_cores() -> int:
    of_libraries: list[int] = [library["num_threads"] for library in _blas().info()]
    return max(1, min([_cores(), *of_libraries]))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold the BLAS to one thread; calls from several threads may overlap in any order."""
    global _depth, _limit, _allowed
    with _lock:
        _depth += 1
        if _depth == 1:
            _allowed = _allowed_cores()
            _limit = _blas().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


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
        with suppress(RuntimeError):  # no more threads: the caller works alone
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
