import signal

import numpy as np
import pytest

from momentmix.matching.objective import DirectEquations
from momentmix.solvers import gauss_newton, lbfgs
from momentmix.support.stopping import stoppable, stopped


class Rosenbrock:
    """(1 - a)² + 100 (b - a²)² as a sum of squares; the minimum is at (1, 1)."""

    def __init__(self, interrupt_after=None):
        self.evaluations, self.interrupt_after = 0, interrupt_after

    def value_and_gradient(self, x, most=np.inf):
        self.evaluations += 1
        if self.evaluations == self.interrupt_after:
            signal.raise_signal(signal.SIGINT)
        r, J = self.residual(x)
        return float(r @ r), 2 * r @ J

    @staticmethod
    def residual(x):
        r = np.array([1 - x[0], 10 * (x[1] - x[0] ** 2)])
        return r, np.array([[-1.0, 0.0], [-20 * x[0], 10.0]])

    def normal_equations(self, x):
        J = self.residual(x)[1]
        return DirectEquations(2 * J.T @ J)


@pytest.mark.parametrize("solver", [gauss_newton, lbfgs])
def test_finds_the_minimum(solver):
    problem, seen = Rosenbrock(), []
    solution = solver(
        problem, np.array([-1.2, 1.0]), tol=1e-16, callback=lambda i, v: seen.append((i, v))
    )
    np.testing.assert_allclose(solution.x, 1, atol=1e-5)
    assert solution.converged
    assert solution.n_passes == problem.evaluations
    assert solution.n_iter == len(seen)
    assert all(a >= b for a, b in zip(solution.history, solution.history[1:], strict=False))


@pytest.mark.parametrize("solver", [gauss_newton, lbfgs])
def test_interruption_returns_the_best_so_far(solver):
    start = np.array([-1.2, 1.0])
    first = Rosenbrock().value_and_gradient(start)[0]
    problem = Rosenbrock(interrupt_after=5)
    with stoppable():
        solution = solver(problem, start)
        assert stopped()
    assert problem.evaluations < 12
    assert not solution.converged
    assert solution.value < first
    assert Rosenbrock().value_and_gradient(solution.x)[0] == pytest.approx(solution.value)


def test_iteration_limit():
    solution = gauss_newton(Rosenbrock(), np.array([-1.2, 1.0]), max_iter=2, tol=0)
    assert solution.n_iter == 2
    assert not solution.converged


def test_a_minimum_is_left_alone():
    solution = gauss_newton(Rosenbrock(), np.array([1.0, 1.0]))
    assert solution.converged
    assert solution.value == 0
