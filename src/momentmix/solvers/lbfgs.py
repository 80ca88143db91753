"""SciPy's L-BFGS, the first-order method of the paper's experiments, kept as a baseline."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from momentmix.solvers.solution import Callback, Problem, Solution


def lbfgs(
    problem: Problem,
    x: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-8,
    callback: Callback | None = None,
) -> Solution:
    """Minimise ``problem`` from ``x``; ``tol`` is SciPy's ftol, relative to the value."""
    history: list[float] = []
    best = np.inf, x, np.full_like(x, np.nan)  # value, point, gradient
    evaluations = 0

    def cost(y: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, evaluations
        evaluations += 1
        value, gradient = problem.value_and_gradient(y)
        if value < best[0]:
            best = value, y.copy(), gradient
        return value, gradient

    def report(y: np.ndarray) -> None:
        history.append(best[0])
        if callback is not None:
            callback(len(history), best[0])

    reason, converged, interrupted = "interrupted", False, True
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": tol, "gtol": 0, "maxcor": 20}
    try:
        result = minimize(cost, x, jac=True, method="L-BFGS-B", callback=report, options=options)
        # Status 2: no step along the line lowers the cost, because rounding hides the descent.
        reason, converged, interrupted = str(result.message), result.status in (0, 2), False
    except KeyboardInterrupt:
        pass
    value, x, gradient = best
    norm = float(np.linalg.norm(gradient))
    return Solution(
        x, value, norm, len(history), evaluations, reason, converged, interrupted, history
    )
