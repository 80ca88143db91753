"""Whether a few rows make up the fourth moments of all, so that a moment fit is one to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Diagonal
from momentmix.data.frame import Frame
from momentmix.support.warnings import OutlierWarning, warn_user

#: Shares of the rows, and of the sum of ‖z‖⁴ that they have to make up to decide it. Of a single
#: Gaussian the farthest 1 % make up a quarter at most, and the farthest 5 % make up 60 %. One row
#: in ten from a component five times as wide as the others stays below too.
DECIDING = ((0.01, 0.95), (0.05, 0.998))


class Dominance(NamedTuple):
    """Rows that decide fourth moments."""

    rows: int  # how many they are
    share: float  # of the sum of ‖z‖⁴


def dominance(X: np.ndarray, weights: np.ndarray | None) -> Dominance | None:
    """The few rows, if any, that make up nearly all of the sum of ‖z‖⁴.

    X (p, n); ``weights`` (p,) are those of the rows, equal by default. z is centred and has the
    unit of each feature: in white coordinates a few rows in many features would not stand out.
    O(np + p log p).
    """
    Z = Frame.of_samples(Diagonal, X, weights).apply(X)
    squares = np.einsum("ij,ij->i", Z, Z)
    order = np.argsort(-squares, kind="stable")
    weights = np.ones(len(Z)) if weights is None else weights[order]
    counted, sums = np.cumsum(weights), np.cumsum(weights * squares[order] ** 2)
    for few, most in DECIDING:
        rows = int(np.searchsorted(counted, few * (1 + 1e-9) * counted[-1], side="right"))
        if rows > 0 and sums[rows - 1] > most * sums[-1]:
            return Dominance(rows, float(sums[rows - 1] / sums[-1]))
    return None


def warn_of_dominance(X: np.ndarray, weights: np.ndarray | None) -> None:
    """Warn where a moment fit would be one to a few rows."""
    found = dominance(X, weights)
    if found is not None:
        are = "row, the farthest, makes" if found.rows == 1 else "rows, the farthest, make"
        warn_user(
            f"{found.rows} of {len(X)} {are} up {100 * found.share:.1f} % of the fourth moments, "
            "which a fit of moments follows: look at these rows, or fit with outliers='auto'",
            OutlierWarning,
        )
