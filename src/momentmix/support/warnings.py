"""Warnings that point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning


class CollapseWarning(UserWarning):
    """A component of a fit rests on almost no data: a few rows, or one value that rows share."""


class OutlierWarning(UserWarning):
    """A few rows are so far from the others that they dominate the result of a fit."""


class UncertaintyWarning(UserWarning):
    """A standard error is not reliable, because the data hardly determine its parameter."""


#: The folder of the package, ending in a separator so that a folder such as ``momentmix2`` differs.
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn_user(message: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn, and blame the innermost line outside the package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
