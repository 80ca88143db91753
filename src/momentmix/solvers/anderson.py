"""Anderson's mixing: a fixed-point iteration x ← g(x) that remembers its last few steps."""

from __future__ import annotations

from collections import deque

import numpy as np

#: Share of their own squares that is added to those of the differences.
RIDGE = 1e-10


class Anderson:
    """Guesses of where x = g(x), from the last ``depth`` + 1 pairs of x and g(x).

    Where g is linear, as it is near its fixed point, the combination of the g(x) with coefficients
    of sum 1 that makes that of the residuals g(x) - x least is the fixed point of g in the span.
    """

    def __init__(self, depth: int = 5) -> None:
        self._points: deque[np.ndarray] = deque(maxlen=depth + 1)
        self._residuals: deque[np.ndarray] = deque(maxlen=depth + 1)

    @property
    def begun(self) -> bool:
        return bool(self._points)

    def forget(self) -> None:
        self._points.clear()
        self._residuals.clear()

    def guess(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The next point after x with the image g."""
        self._points.append(g)
        self._residuals.append(g - x)
        if len(self._points) < 2:
            return g
        F = np.diff(np.stack(self._residuals, axis=1), axis=1)
        G = np.diff(np.stack(self._points, axis=1), axis=1)
        size = np.maximum(np.linalg.norm(F, axis=0), 1e-300)
        F, G = F / size, G / size
        # A little on the diagonal leaves out what rounding cannot tell apart.
        gram = F.T @ F + RIDGE * np.eye(F.shape[1])
        return g - G @ np.linalg.solve(gram, F.T @ self._residuals[-1])
