"""Solvers that take callables and know nothing of mixtures.

Two minimise a cost: ``gauss_newton`` (Levenberg–Marquardt), whose damping adapts to how well its
predictions hold, and ``lbfgs``, SciPy's first-order method, kept as a baseline. ``Anderson`` makes
a fixed-point iteration x ← g(x) faster by its last few steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
from scipy.optimize import minimize

from momentmix.support.stopping import stopped

#: Called after each iteration with its number, from 1, and the cost.
Callback: TypeAlias = "Callable[[int, float], None]"


class NormalEquations(Protocol):
    """JᵀJ at one point, for steps of the damped Gauss–Newton method."""

    def step(self, gradient: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        """s with (2JᵀJ + damping D) s ≈ -gradient, and the decrease that the model predicts."""


class LeastSquares(Protocol):
    """A sum of squares to minimise."""

    def value_and_gradient(self, x: np.ndarray, most: float = np.inf) -> tuple[float, np.ndarray]:
        """The cost and its gradient, which may be left out if the cost is more than ``most``."""

    def normal_equations(self, x: np.ndarray) -> NormalEquations: ...


@dataclass
class Solution:
    """The best point found and how it was found."""

    x: np.ndarray
    value: float
    n_iter: int
    n_passes: int
    converged: bool
    history: list[float] = field(default_factory=list, repr=False)

    def after(self, first: Solution) -> Solution:
        """This solution, with the iterations of an earlier one added."""
        return replace(
            self,
            n_iter=first.n_iter + self.n_iter,
            n_passes=first.n_passes + self.n_passes,
            history=first.history + self.history,
        )


#: The solver stops after this many iterations in a row in which the cost changed only by rounding.
#: This is a round number that was not tuned; it matters for tol=0 alone.
LEVEL = 20
#: A cost counts as no higher if it is higher by at most this share of itself, which is rounding.
ROUNDED = 1e-11


def gauss_newton(
    problem: LeastSquares,
    x: np.ndarray,
    *,
    max_iter: int = 100,
    tol: float = 1e-8,
    damping: float = 1e-3,
    callback: Callback | None = None,
) -> Solution:
    """Minimise ``problem`` from ``x``.

    Stops when an iteration gains less than ``tol`` of the cost (twice running, so that one short
    step does not end it), when no damping helps, or after ``max_iter`` iterations. With ``tol=0``
    it goes on as long as the gradient shrinks, even if the cost changes only by rounding. Ctrl-C
    returns the best point so far.
    """
    value, gradient = problem.value_and_gradient(x)
    history, passes, small, level = [value], 1, 0, 0
    converged = False
    for _ in range(max_iter):
        equations = problem.normal_equations(x)
        while True:
            step, predicted = equations.step(gradient, damping)
            most = value + ROUNDED * abs(value)
            new_value, new_gradient = problem.value_and_gradient(x + step, most)
            passes += 1
            if new_value < value or _closer(value, gradient, new_value, new_gradient):
                break
            nothing = predicted <= 1e-15 * abs(value)  # less than rounding
            if damping > 1e8 or nothing or not np.any(step):
                return Solution(x, value, len(history) - 1, passes, True, history)
            damping *= 8
        ratio = (value - new_value) / max(predicted, 1e-300)
        x = x + step
        nearer = tol == 0 and _closer(value, gradient, new_value, new_gradient)
        gain, value, gradient = value - new_value, new_value, new_gradient
        history.append(value)
        if callback is not None:
            callback(len(history) - 1, value)
        if ratio > 0.7:
            damping = max(damping / 4, 1e-14)
        elif ratio < 0.25:
            damping *= 3
        small = small + 1 if gain <= tol * abs(value) and not nearer else 0
        level = level + 1 if abs(gain) <= 1e-14 * abs(value) else 0
        zero = 0 <= value <= 1e-28 * history[0]  # to rounding
        converged = zero or level == LEVEL or small == 2
        if converged or stopped():
            break
    return Solution(x, value, len(history) - 1, passes, converged, history)


def _closer(value: float, gradient: np.ndarray, new: float, new_gradient: np.ndarray) -> bool:
    """Whether the gradient has shrunk and the cost has not risen by more than rounding."""
    level = new <= value + ROUNDED * abs(value)
    return level and bool(np.linalg.norm(new_gradient) < 0.8 * np.linalg.norm(gradient))


def lbfgs(
    problem: LeastSquares,
    x: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-8,
    callback: Callback | None = None,
) -> Solution:
    """Minimise ``problem`` from ``x``; ``tol`` is SciPy's ftol, relative to the value."""
    history: list[float] = []
    best = np.inf, x
    evaluations = 0

    def cost(y: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, evaluations
        evaluations += 1
        value, gradient = problem.value_and_gradient(y)
        if value < best[0]:
            best = value, y.copy()
        return value, gradient

    def report(y: np.ndarray) -> None:
        history.append(best[0])
        if callback is not None:
            callback(len(history), best[0])
        if stopped():
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": tol, "gtol": 0, "maxcor": 20}
    result = minimize(cost, x, jac=True, method="L-BFGS-B", callback=report, options=options)
    # Status 2: no step along the line lowers the cost, because rounding hides the descent.
    converged = result.status in (0, 2)
    value, x = best
    return Solution(x, value, len(history), evaluations, converged, history)


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
