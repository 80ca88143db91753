"""What a solver is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

#: Called after each iteration with its number, from 1, and the cost.
Callback: TypeAlias = "Callable[[int, float], None]"


class NormalEquations(Protocol):
    """JᵀJ at one point, for steps of the damped Gauss–Newton method."""

    def step(self, gradient: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        """s with (2JᵀJ + damping D) s ≈ -gradient, and the decrease that the model predicts."""


class Problem(Protocol):
    """A sum of squares to minimise."""

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]: ...

    def normal_equations(self, x: np.ndarray) -> NormalEquations: ...


@dataclass
class Solution:
    """The best point found and how it was found."""

    x: np.ndarray
    value: float
    gradient_norm: float
    n_iter: int
    n_passes: int
    reason: str
    converged: bool
    interrupted: bool = False
    history: list[float] = field(default_factory=list, repr=False)

    def after(self, first: Solution) -> Solution:
        """This solution, with the iterations of an earlier one added."""
        return replace(
            self,
            n_iter=first.n_iter + self.n_iter,
            n_passes=first.n_passes + self.n_passes,
            history=first.history + self.history,
        )
