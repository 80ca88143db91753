"""Passes over complete rows in memory, in blocks on a thread per core.

The rows of a search may be on a device as well; device.py makes the same passes there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np

from momentmix.covariance import Kind
from momentmix.likelihood.density import Density, Sums
from momentmix.support.array import to_numpy
from momentmix.support.parallel import parallel_map, worker_count

#: Bytes of a block of rows, and up to which the products of pairs of features are kept.
_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20
T = TypeVar("T")


class Passes:
    """Rows X (p, n), and what mixtures of a kind make of them.

    ``keeps`` tells whether products of pairs of features, if they fit, are kept for later passes.
    """

    def __init__(self, X: np.ndarray, kind: Kind, keeps: bool = True) -> None:
        self.X, self.kind, self.keeps = X, kind, keeps
        n = X.shape[1]
        self._step = max(256, _BLOCK_BYTES // (8 * (2 * n + kind.width(n))))

    def part(self, rows: np.ndarray) -> Passes:
        """The same for some of the rows."""
        return Passes(self.X[rows], self.kind)

    @cached_property
    def _features(self) -> np.ndarray | None:
        """Quadratic features of all rows, or None where each block makes its own.

        Squares are made again in each block; products of pairs of features are kept if they fit.
        """
        p, n = self.X.shape
        fit = 8 * p * self.kind.width(n) <= _CACHE_BYTES
        keep = self.keeps and fit and not self.kind.diagonal
        if not keep and p > self._step:
            return None
        return np.ascontiguousarray(to_numpy(self.kind.features(self.X)))

    def quadratic(self, rows: slice) -> np.ndarray:
        """The quadratic features of a block of rows."""
        if self._features is not None:
            return self._features[rows]
        return to_numpy(self.kind.features(self.X[rows]))

    def over_blocks(self, function: Callable[[slice], T], most: int | None = None) -> list[T]:
        """function(rows) for all rows in blocks, each of at most about so many rows."""
        step = self._step if most is None else max(256, min(most, self._step))
        blocks = [slice(a, a + step) for a in range(0, len(self.X), step)]
        if len(blocks) == 1:
            return [function(blocks[0])]
        return parallel_map(function, blocks, worker_count(np))

    def log_joint(self, density: Density) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""

        def block(rows: slice) -> np.ndarray:
            return density.log_joint(self.X[rows], self.quadratic(rows)).T

        return np.concatenate(self.over_blocks(block))

    def sums(
        self,
        density: Density,
        weights: np.ndarray,
        rest: Callable[[slice], np.ndarray | None],
    ) -> Sums:
        """What EM steps need of the rows; ``rest(rows)`` is the background, as softmax takes it."""

        def block(rows: slice) -> Sums:
            return density.step_sums(self.X[rows], self.quadratic(rows), weights[rows], rest(rows))

        return summed(self.over_blocks(block))

    def weighted_sums(self, R: np.ndarray, weights: np.ndarray) -> Sums:
        """The sums with responsibilities R (p, m) that are given."""

        def block(rows: slice) -> Sums:
            weighted = (R[rows] * weights[rows, None]).T
            firsts, seconds = weighted @ self.X[rows], weighted @ self.quadratic(rows)
            return Sums(np.zeros(1), weighted.sum(axis=1), firsts, seconds)

        return summed(self.over_blocks(block))


def summed(parts: list[Sums]) -> Sums:
    """Sums over all rows from those over some."""
    if len(parts) == 1:
        return parts[0]
    return Sums(*(sum(part, start=np.zeros(())) for part in zip(*parts, strict=True)))
