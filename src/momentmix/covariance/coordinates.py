"""Covariances as free numbers, for optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import block_diag

from momentmix.covariance.classes import DIAGONAL_TYPES, Zero, make_covariance

#: Multiple of the floor up to which a variance counts as being on it.
NEAR_FLOOR = 1.01


class Coordinates:
    """Covariances of one type as a vector of free numbers, for optimisation.

    Without a floor the numbers are the entries themselves (off-diagonal ones times √2, so that
    lengths are Frobenius norms): smooth and well scaled, but a covariance may come out indefinite.
    With a floor they are entries of a factor, Σ = floor I + L Lᵀ: always valid, less well scaled.
    The zero of points is a diagonal type with no numbers at all.
    """

    def __init__(self, kind: str, m: int, n: int, floor: float | None = None) -> None:
        self.kind, self.n, self.floor = kind, n, floor
        self.shape: tuple[int, ...] = {
            "zero": (m, 0),
            "spherical": (m,),
            "diag": (m, n),
            "tied": (1, n, n),
            "full": (m, n, n),
        }[kind]
        self.square = kind in ("full", "tied")
        self.common = kind == "tied"  # one covariance for all components
        lower = np.tril_indices(n)
        self._rows, self._columns = lower
        self._unit = np.where(lower[0] == lower[1], 1.0, np.sqrt(0.5))
        entries = (self.shape[0], len(self._rows)) if self.square else self.shape
        self.entries, self.size = entries, int(np.prod(entries))

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self.shape)
        if self.floor is None:
            if self.square:
                array = array[:, self._rows, self._columns] / self._unit
            return array.reshape(-1)
        tiny = 1e-3 * self.floor
        if not self.square:
            return np.sqrt(np.maximum(array - self.floor, tiny)).reshape(-1)
        values, vectors = np.linalg.eigh(array)
        values = np.maximum(values - self.floor, tiny)
        raised = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
        return np.linalg.cholesky(raised)[:, self._rows, self._columns].reshape(-1)

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.entries)
        if not self.square:
            return x.copy() if self.floor is None else self.floor + x * x
        if self.floor is None:
            array = np.empty(self.shape)
            array[:, self._rows, self._columns] = x * self._unit
            array[:, self._columns, self._rows] = x * self._unit
        else:
            L = self._factor(x)
            array = L @ L.swapaxes(1, 2) + self.floor * np.eye(self.n)
        return array[0] if self.kind == "tied" else array

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """From gradients (…, own shape) in the covariances to gradients (…, size) in x."""
        lead = G.shape[: G.ndim - len(self.shape) + (self.kind == "tied")]
        G = G.reshape(*lead, *self.shape)
        x = x.reshape(self.entries)
        if not self.square:
            g = G if self.floor is None else 2 * x * G
        elif self.floor is None:
            g = G[..., self._rows, self._columns] / self._unit
        else:
            g = 2 * (G @ self._factor(x))[..., self._rows, self._columns]
        return g.reshape(*lead, self.size)

    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        """Second derivatives (size, size) that the factors add to a cost of gradient G in Σ.

        d²(L Lᵀ) = 2 dL dLᵀ, so they are 2⟨G, dL dLᵀ⟩, of which the positive part of G is taken.
        Where a variance is pressed against the floor its factor goes to 0, and 2JᵀJ with it; this
        is what remains, and makes steps that lead there. None without a floor.
        """
        if self.floor is None:
            return None
        G = G.reshape(self.shape)
        if not self.square:
            return np.diag(2 * np.maximum(G, 0).reshape(-1))
        values, vectors = np.linalg.eigh((G + G.swapaxes(1, 2)) / 2)
        positive = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.swapaxes(1, 2)
        same_column = self._columns[:, None] == self._columns
        blocks = 2 * positive[:, self._rows[:, None], self._rows] * same_column
        return block_diag(*blocks)

    def _factor(self, x: np.ndarray) -> np.ndarray:
        L = np.zeros(self.shape)
        L[:, self._rows, self._columns] = x
        return L

    def scale(self, x: np.ndarray) -> np.ndarray:
        """How far Σ moves for a unit of each number, roughly; (entries)."""
        if self.floor is None:
            return np.ones(self.entries)
        moved = 2 * np.abs(x.reshape(self.entries))
        return np.maximum(moved, 0.05 * moved.mean() + 1e-12)


def stacked(kind: str, first: np.ndarray, second: np.ndarray, m: int, n: int) -> Any:
    """The covariances of two mixtures of m components one after the other; a tied one repeats."""
    if kind == "zero":
        return Zero(n)
    if kind == "tied":
        arrays = [np.broadcast_to(a, (m, n, n)) for a in (first, second)]
        return make_covariance("full", np.concatenate(arrays), n)
    return make_covariance(kind, np.concatenate([first, second]), n)


def pooled_coupling(kind: str, coupling: np.ndarray, n: int) -> np.ndarray:
    """A matrix (m, m) that couples the entries of covariances, as it couples their numbers."""
    if kind == "zero":
        return np.empty((0, 0))
    if kind == "tied":
        return np.array([[coupling.sum()]])
    return coupling * n if kind == "spherical" else coupling


def restricted(kind: str, weights: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Gradients (m, N, n, n) in each atom's matrix as gradients (N, own shape) of the mixture."""
    if kind == "tied":
        return np.tensordot(weights, G, axes=1)
    G = np.moveaxis(weights[:, None, None, None] * G, 0, 1)
    if kind == "full":
        return G
    diagonals = np.diagonal(G, axis1=2, axis2=3)
    return diagonals if kind == "diag" else diagonals.sum(axis=2)


def raised_to_floor(kind: str, array: np.ndarray, floor: Any) -> np.ndarray:
    """The covariances with no variance, or eigenvalue relative to the floor, below it.

    The floor is a number, variances (n,), or for matrices a positive definite matrix F (n, n). Of
    all Σ ⪰ F, the result S gives samples of covariance Σ the highest likelihood: it minimises
    log|S| + tr ΣS⁻¹.
    """
    if kind in DIAGONAL_TYPES:
        return np.maximum(array, floor)
    n = array.shape[-1]
    floor = floor * np.eye(n) if np.ndim(floor) == 0 else floor
    try:
        np.linalg.cholesky(array - floor)
        return array
    except np.linalg.LinAlgError:
        root = np.linalg.cholesky(floor)
        relative = np.linalg.solve(root, np.linalg.solve(root, array).swapaxes(-1, -2))
        values, vectors = np.linalg.eigh((relative + relative.swapaxes(-1, -2)) / 2)
        side = root @ vectors
        raised = (side * np.maximum(values, 1.0)[..., None, :]) @ side.swapaxes(-1, -2)
        return (raised + raised.swapaxes(-1, -2)) / 2


def on_floor(kind: str, array: np.ndarray, floor: Any) -> np.ndarray:
    """Which of the covariances have no more extent in some direction than the floor; (m or 1,)."""
    if kind in DIAGONAL_TYPES:
        low = np.asarray(array <= NEAR_FLOOR * np.asarray(floor))
        return low if kind == "spherical" else np.any(low, axis=1)
    n = array.shape[-1]
    root = np.linalg.cholesky(floor * np.eye(n) if np.ndim(floor) == 0 else floor)
    array = array.reshape(-1, n, n)
    relative = np.linalg.solve(root, np.linalg.solve(root, array).swapaxes(-1, -2))
    lowest = np.linalg.eigvalsh((relative + relative.swapaxes(-1, -2)) / 2)[:, 0]
    return np.asarray(lowest <= NEAR_FLOOR, dtype=bool)


def smallest_variance(kind: str, array: np.ndarray) -> float:
    """The least variance, or eigenvalue, of all components."""
    values = array if kind in DIAGONAL_TYPES else np.linalg.eigvalsh(array)
    return float(np.min(values, initial=np.inf))
