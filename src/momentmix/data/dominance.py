"""Whether a few rows dominate the fourth moments, so that a moment fit would follow them alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Diagonal
from momentmix.data.frame import Frame
from momentmix.support.warnings import OutlierWarning, warn_user

#: Pairs of a share of the rows and the share of Σ ‖z‖⁴ that they must exceed to count as dominant.
#: In a single Gaussian, the farthest 1 % of the rows contribute at most a quarter of the sum and
#: the farthest 5 % at most 60 %. A mixture in which one row in ten comes from a component five
#: times as wide as the others stays below the limits too. Their exact values were not tuned.
DECIDING = ((0.01, 0.95), (0.05, 0.998))


class Dominance(NamedTuple):
    """How many rows dominate the fourth moments, and by how much."""

    rows: int
    share: float  # their share of the sum of ‖z‖⁴


def dominance(X: np.ndarray, weights: np.ndarray | None) -> Dominance | None:
    """The few rows, if any, that make up nearly all of the sum of ‖z‖⁴.

    X (p, n); ``weights`` (p,) are those of the rows, equal by default. z is x centred, with each
    feature scaled by its own standard deviation: in white coordinates, a few rows in many features
    would not stand out. O(np + p log p).
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
    """Warn if a moment fit would follow a few rows alone."""
    found = dominance(X, weights)
    if found is not None:
        are = "row, the farthest, makes" if found.rows == 1 else "rows, the farthest, make"
        warn_user(
            f"{found.rows} of {len(X)} {are} up {100 * found.share:.1f} % of the fourth moments "
            "and would dominate a fit of moments: look at these rows, or fit with outliers='auto'",
            OutlierWarning,
        )
