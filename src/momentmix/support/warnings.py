"""Warnings that point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning


class CollapseWarning(UserWarning):
    """A component of a fit rests on next to nothing: a few rows, or one value that rows share."""


_HERE = str(Path(__file__).parents[1])


def warn_user(message: str, category: type[Warning] = ConvergenceWarning) -> None:
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
