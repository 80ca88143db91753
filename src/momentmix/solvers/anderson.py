"""Anderson's mixing: a fixed-point iteration x ← g(x) that uses its last few steps."""

from __future__ import annotations

from collections import deque

import numpy as np

#: This is added to the diagonal of the Gram matrix of the normalised differences, so that it can be
#: inverted if they are nearly dependent. This is a round number that was not tuned.
RIDGE = 1e-10


class Anderson:
    """Guesses of where x = g(x), from the last ``depth`` + 1 pairs of x and g(x).

    Coefficients of sum 1 make the combination of the residuals g(x) - x as short as possible, and
    the guess is the same combination of the g(x). Near its fixed point g is nearly linear, and for
    a linear g this is the fixed point if it lies in the span.
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
        # The ridge leaves out directions that are lost in rounding.
        gram = F.T @ F + RIDGE * np.eye(F.shape[1])
        return g - G @ np.linalg.solve(gram, F.T @ self._residuals[-1])
