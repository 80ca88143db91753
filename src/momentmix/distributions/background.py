"""The background of a mixture: a constant density, for rows that belong to no component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Background:
    """A density that is the same everywhere: 1 over the product of some widths.

    It is the density of rows spread evenly over a box of those widths; the position of the box does
    not matter. For rows with gaps, only the observed features count.

    Parameters
    ----------
    share : float
        The share of the rows that belong to no component: at least 0, and less than 1.
    widths : array of shape (n,)
        The extent in each feature, positive.
    """

    share: float
    widths: np.ndarray

    def __post_init__(self) -> None:
        widths = np.array(self.widths, dtype=np.float64)
        if widths.ndim != 1 or not np.all(np.isfinite(widths)) or np.any(widths <= 0):
            raise ValueError("the widths of a background must be positive numbers, one per feature")
        if not 0 <= self.share < 1:
            raise ValueError(
                f"the share of a background must be at least 0 and less than 1, got {self.share!r}"
            )
        widths.setflags(write=False)
        object.__setattr__(self, "widths", widths)

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """The log of share times density at rows X (p, n), in which NaN is a gap; (p,)."""
        logs = np.log(self.widths)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.share) - ~np.isnan(X) @ logs)

    def marginal(self, features: np.ndarray) -> Background:
        """The background of some of the features alone."""
        return Background(self.share, self.widths[features])
