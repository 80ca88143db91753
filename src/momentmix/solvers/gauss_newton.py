"""Levenberg–Marquardt: Gauss–Newton steps with a damping that adapts to their predictions."""

from __future__ import annotations

import numpy as np

from momentmix.solvers.solution import Callback, Problem, Solution

#: The solver stops after this many iterations in a row in which the cost changed only by rounding.
#: This is a round number that was not tuned; it matters for tol=0 alone.
LEVEL = 20


def gauss_newton(
    problem: Problem,
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
    reason, converged, interrupted = f"max_iter={max_iter} reached", False, False
    try:
        for _ in range(max_iter):
            equations = problem.normal_equations(x)
            while True:
                step, predicted = equations.step(gradient, damping)
                new_value, new_gradient = problem.value_and_gradient(x + step)
                passes += 1
                if new_value < value or _closer(value, gradient, new_value, new_gradient):
                    break
                nothing = predicted <= 1e-15 * abs(value)  # less than rounding
                if damping > 1e8 or nothing or not np.any(step):
                    return _solution(
                        x, value, gradient, history, passes, "no step lowers the cost", True
                    )
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
            if 0 <= value <= 1e-28 * history[0]:
                reason, converged = "the cost is zero to rounding", True
                break
            small = small + 1 if gain <= tol * abs(value) and not nearer else 0
            level = level + 1 if abs(gain) <= 1e-14 * abs(value) else 0
            if level == LEVEL:
                reason, converged = "the cost is level to rounding", True
                break
            if small == 2:
                reason, converged = f"gain below tol={tol:g} of the cost", True
                break
    except KeyboardInterrupt:
        reason, interrupted = "interrupted", True
    return _solution(x, value, gradient, history, passes, reason, converged, interrupted)


def _closer(value: float, gradient: np.ndarray, new: float, new_gradient: np.ndarray) -> bool:
    """Whether the gradient has shrunk and the cost has not risen by more than rounding."""
    level = new <= value + 1e-11 * abs(value)
    return level and bool(np.linalg.norm(new_gradient) < 0.8 * np.linalg.norm(gradient))


def _solution(
    x: np.ndarray,
    value: float,
    gradient: np.ndarray,
    history: list[float],
    passes: int,
    reason: str,
    converged: bool,
    interrupted: bool = False,
) -> Solution:
    norm = float(np.linalg.norm(gradient))
    n_iter = len(history) - 1
    return Solution(x, value, norm, n_iter, passes, reason, converged, interrupted, history)
