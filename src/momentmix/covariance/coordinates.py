"""Covariances as vectors of unconstrained numbers, for optimisation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy.linalg import block_diag

from momentmix.covariance.eigen import eigen


class Coordinates(ABC):
    """Covariances of one type as a vector of unconstrained numbers.

    Without a floor the numbers are the entries themselves (off-diagonal ones times √2, so that
    lengths are Frobenius norms): smooth and well scaled, but a covariance may come out indefinite.
    With a floor they are entries of a factor, Σ = floor I + L Lᵀ: always valid, less well scaled.
    ``shape`` is that of the covariances, ``entries`` that of their numbers. ``variances`` (shape)
    is true for the entries of a covariance that are variances. ``units`` (size,) are the entries
    that numbers of 1 stand for, without a floor.
    """

    variances: np.ndarray
    units: np.ndarray

    def __init__(
        self, shape: tuple[int, ...], entries: tuple[int, ...], floor: float | None
    ) -> None:
        self.shape, self.entries, self.floor = shape, entries, floor
        self.size = math.prod(entries)

    @abstractmethod
    def encode(self, array: np.ndarray) -> np.ndarray:
        """The numbers that represent covariances; (size,)."""

    @abstractmethod
    def names(self, features: Sequence[str]) -> list[str]:
        """A name for the entry that each number stands for."""

    @abstractmethod
    def decode(self, x: np.ndarray) -> np.ndarray:
        """The covariances that numbers represent."""

    @abstractmethod
    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Turn gradients (…, own shape) in the covariances into gradients (…, size) in x."""

    @abstractmethod
    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        """Second derivatives (size, size) that the factors add to a cost of gradient G in Σ.

        d²(L Lᵀ) = 2 dL dLᵀ, so they are 2⟨G, dL dLᵀ⟩; only the positive part of G is used. If a
        variance is pressed against the floor, its factor goes to 0 and so does 2JᵀJ. This term
        remains and makes sensible steps there. None without a floor.
        """

    def scale(self, x: np.ndarray) -> np.ndarray:
        """Roughly how far Σ moves if a number changes by 1; (entries)."""
        if self.floor is None:
            return np.ones(self.entries)
        moved = 2 * np.abs(x.reshape(self.entries))
        return np.asarray(np.maximum(moved, 0.05 * moved.mean() + 1e-12))


class VarianceCoordinates(Coordinates):
    """Coordinates of variances: each is one number, the variance or its root above the floor."""

    def __init__(self, shape: tuple[int, ...], floor: float | None) -> None:
        super().__init__(shape, shape, floor)
        self.variances, self.units = np.ones(shape, dtype=bool), np.ones(self.size)

    def names(self, features: Sequence[str]) -> list[str]:
        if len(self.shape) == 1:
            return [f"variance {j}" for j in range(self.size)]
        return [f"variance {j} {name}" for j in range(self.shape[0]) for name in features]

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self.shape)
        if self.floor is None:
            return array.reshape(-1)
        return np.asarray(np.sqrt(np.maximum(array - self.floor, 1e-3 * self.floor)).reshape(-1))

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.shape)
        return np.array(x) if self.floor is None else self.floor + x * x

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        lead = G.shape[: G.ndim - len(self.shape)]
        g = G if self.floor is None else 2 * x.reshape(self.shape) * G
        return np.asarray(g.reshape(*lead, self.size))

    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        return None if self.floor is None else np.diag(2 * np.maximum(G, 0).reshape(-1))


class MatrixCoordinates(Coordinates):
    """Coordinates of symmetric matrices (…, n, n): the lower triangle of each, or of its factor."""

    def __init__(self, shape: tuple[int, ...], floor: float | None) -> None:
        n = shape[-1]
        self._stack = (math.prod(shape[:-2]), n, n)
        self._rows, self._columns = np.tril_indices(n)
        self._unit = np.where(self._rows == self._columns, 1.0, np.sqrt(0.5))
        super().__init__(shape, (self._stack[0], len(self._rows)), floor)
        self.variances = np.broadcast_to(np.eye(n, dtype=bool), shape)
        self.units = np.tile(self._unit, self._stack[0])

    def names(self, features: Sequence[str]) -> list[str]:
        numbers = [""] if len(self.shape) == 2 else [f" {j}" for j in range(self.shape[0])]
        return [
            f"variance{j} {features[a]}" if a == b else f"covariance{j} {features[b]} {features[a]}"
            for j in numbers
            for a, b in zip(self._rows.tolist(), self._columns.tolist(), strict=True)
        ]

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self._stack)
        if self.floor is None:
            return np.asarray((array[:, self._rows, self._columns] / self._unit).reshape(-1))
        values, vectors = eigen(array)
        values = np.maximum(values - self.floor, 1e-3 * self.floor)
        raised = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
        return np.asarray(np.linalg.cholesky(raised)[:, self._rows, self._columns].reshape(-1))

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.entries)
        if self.floor is None:
            array = np.empty(self._stack)
            array[:, self._rows, self._columns] = x * self._unit
            array[:, self._columns, self._rows] = x * self._unit
        else:
            L = self._factor(x)
            array = L @ L.swapaxes(1, 2) + self.floor * np.eye(self.shape[-1])
        return array.reshape(self.shape)

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        lead = G.shape[: G.ndim - len(self.shape)]
        G = G.reshape(*lead, *self._stack)
        if self.floor is None:
            g = G[..., self._rows, self._columns] / self._unit
        else:
            L = self._factor(x.reshape(self.entries))
            g = 2 * (G @ L)[..., self._rows, self._columns]
        return np.asarray(g.reshape(*lead, self.size))

    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        if self.floor is None:
            return None
        G = G.reshape(self._stack)
        values, vectors = eigen((G + G.swapaxes(1, 2)) / 2)
        positive = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.swapaxes(1, 2)
        same_column = self._columns[:, None] == self._columns
        blocks = 2 * positive[:, self._rows[:, None], self._rows] * same_column
        return np.asarray(block_diag(*blocks))

    def _factor(self, x: np.ndarray) -> np.ndarray:
        L = np.zeros(self._stack)
        L[:, self._rows, self._columns] = x
        return L
