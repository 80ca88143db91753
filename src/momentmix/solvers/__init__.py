"""Least-squares solvers, which take callables and know nothing of mixtures."""

from momentmix.solvers.gauss_newton import gauss_newton
from momentmix.solvers.lbfgs import lbfgs
from momentmix.solvers.solution import Callback, Problem, Solution

__all__ = ["Callback", "Problem", "Solution", "gauss_newton", "lbfgs"]
