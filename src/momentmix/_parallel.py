"""Blocks of rows on a thread per core, with the BLAS inside each thread held to one thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from momentmix._array import is_numpy_namespace

T = TypeVar("T")
R = TypeVar("R")

_lock = threading.Lock()
_depth = 0
_controller: ThreadpoolController | None = None
_limit: Any = None
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_inside = threading.local()


def _forget_threads() -> None:
    # Threads, and a lock that one of them may hold, do not survive a fork.
    global _lock, _depth, _limit, _pool, _pool_size
    _lock, _depth, _limit, _pool, _pool_size = threading.Lock(), 0, None, None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _blas() -> ThreadpoolController:
    global _controller
    if _controller is None:
        _controller = ThreadpoolController().select(user_api="blas")
        # glibc gives memory back to the system at every free of a block's temporaries and faults
        # it in again for the next block, at the price of the arithmetic itself. Freeing one large
        # piece raises its thresholds (they adapt to the largest piece freed so far).
        np.empty(16 << 20, dtype=np.uint8)
    return _controller


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def worker_count(xp: Any) -> int:
    """Threads for a NumPy job: as many as its BLAS may use (so that the user's limits hold)."""
    if not is_numpy_namespace(xp) or getattr(_inside, "worker", False):
        return 1
    with _lock:
        if _depth:
            return max(1, _pool_size)
        counts = [library["num_threads"] for library in _blas().info()]
    return max(1, min([_cores(), *counts]))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold the BLAS to one thread; calls from several threads may overlap in any order."""
    global _depth, _limit
    with _lock:
        _depth += 1
        if _depth == 1:
            _limit = _blas().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _limit.restore_original_limits()
                _limit = None


def parallel_map(function: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """``[function(item) for item in items]``, on ``workers`` threads where that is more than one."""
    global _pool, _pool_size
    items = list(items)
    if workers == 1 or len(items) < 2:
        return [function(item) for item in items]
    with single_threaded_blas():
        with _lock:
            if _pool is None or _pool_size != workers:
                _pool = ThreadPoolExecutor(workers, "momentmix", initializer=_mark_worker)
                _pool_size = workers
            pool = _pool
        return list(pool.map(function, items))


def _mark_worker() -> None:
    _inside.worker = True
