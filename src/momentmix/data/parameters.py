"""The parameters of a mixture while it is being fitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Parameters(NamedTuple):
    """Weights (m,), means (m, n) and covariances of a mixture while it is being fitted.

    Several mixtures of m components are S m components one after the other.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
