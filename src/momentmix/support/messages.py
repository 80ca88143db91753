"""What users are told: warnings, and the progress of long work.

A warning points at the user's own line, however deep in the package it arises.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Protocol


class CollapseWarning(UserWarning):
    """A component of a fit rests on almost no data: a few rows, or a direction without width."""


class SharedValueWarning(CollapseWarning):
    """Rows share a value of a column, or columns repeat each other, and a fit has to do with it."""


class OutlierWarning(UserWarning):
    """A few rows are so far from the others that they dominate the result of a fit."""


class UncertaintyWarning(UserWarning):
    """A standard error is not reliable, because the data hardly determine its parameter."""


class NoStandardErrors(ValueError):
    """A fit has no standard errors; the message says why."""


#: The folder of the package, ending in a separator so that a folder such as ``momentmix2`` differs.
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn_user(message: str, category: type[Warning] | None = None) -> None:
    """Warn (of convergence by default), and blame the innermost line outside the package."""
    if category is None:
        from sklearn.exceptions import ConvergenceWarning as category
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class Bar(Protocol):
    """The part of tqdm's interface that is used."""

    def update(self, n: int) -> object: ...
    def set_postfix(self, shown: dict[str, str], *, refresh: bool) -> None: ...
    def close(self) -> None: ...


def _bar(total: int, what: str) -> Bar:
    """A widget in a notebook that can show one, and otherwise a line of text.

    A notebook without ipywidgets also gets the line of text, without tqdm's warning about it.
    """
    from tqdm import TqdmWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.autonotebook import tqdm
    bar: Bar = tqdm(total=total, desc=what)
    return bar


class Progress:
    """Shows how many starts are done, the last moment cost and the best likelihood."""

    def __init__(self, verbose: int, total: int, what: str = "starts") -> None:
        self._bar = _bar(total, what) if verbose else None
        self._best = -float("inf")
        self._shown: dict[str, str] = {}

    def start(self, what: str, value: float) -> None:
        """Report that one start has matched its moments, or that its likelihood is known."""
        if what == "moments":
            self._shown["objective"] = f"{value:.5g}"
        else:
            self._best = max(self._best, value)
            self._shown["scaled log-likelihood"] = f"{self._best:.5f}"
        self._show(self._shown, done=1)

    def step(self, i: int, value: float) -> None:
        """Report a step of EM."""
        self.start("likelihood", value)

    def iteration(self, i: int, value: float) -> None:
        """Report an iteration of a solver."""
        self._show({"iteration": str(i), "objective": f"{value:.6g}"}, done=int(i == 1))

    def done(self) -> None:
        """Report that one more item is done."""
        self._show({}, done=1)

    def _show(self, shown: dict[str, str], done: int) -> None:
        if self._bar is not None:
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update(done)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
