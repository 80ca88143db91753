"""Ctrl-C ends long work at its next step, with the best so far.

Whoever starts the work opens ``stoppable``. Within it Ctrl-C raises nothing: it is noted, and loops
ask ``stopped`` after each step. So a step is done whole or not at all, wherever Ctrl-C came, and
what was found is kept. A second Ctrl-C raises KeyboardInterrupt at once, as does the first one in a
pass over rows that are elsewhere (``breakable``), which may take minutes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_asked = False  # whether Ctrl-C came
_breakable = 0  # how many ``breakable`` are open
_open = False  # whether a ``stoppable`` is open


def stopped() -> bool:
    """Whether Ctrl-C has asked the work in progress to stop."""
    return _asked


@contextmanager
def stoppable() -> Iterator[None]:
    """Let Ctrl-C stop the work within at its next step.

    Within another one it does nothing: the outermost work is stopped as a whole. It also does
    nothing outside the main thread, which no signal reaches. Whoever handled Ctrl-C before, such as
    Spark, still does, and decides whether it interrupts.
    """
    global _asked, _open
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if _open or not main or not callable(before):
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        global _asked
        try:
            before(number, frame)
        except KeyboardInterrupt:
            again, _asked = _asked, True
            if again or _breakable:
                raise

    _open = True
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _open = _asked = False


@contextmanager
def breakable() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within, for a step that takes too long to wait for."""
    global _breakable
    _breakable += 1
    try:
        yield
    finally:
        _breakable -= 1
