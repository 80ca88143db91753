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

#: The size of a block of rows, and the size up to which products of pairs of features are kept, in
#: bytes. These are round numbers: results do not depend on them, only memory and speed do.
_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20
T = TypeVar("T")


class Passes:
    """Rows X (p, n), and the passes over them for mixtures of one covariance type.

    If ``keeps``, products of pairs of features are kept for later passes if they fit.
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
        """Quadratic features of all rows, or None if each block makes its own.

        Squares of features are cheap and made again; products of pairs are kept if they fit.
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
        """function(rows) for all rows in blocks, of at most about ``most`` rows each."""
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
        """The sums of EM steps over the rows; ``rest(rows)`` is the background for ``softmax``."""

        def block(rows: slice) -> Sums:
            return density.step_sums(self.X[rows], self.quadratic(rows), weights[rows], rest(rows))

        return add_up(self.over_blocks(block))

    def weighted_sums(self, R: np.ndarray, weights: np.ndarray) -> Sums:
        """The sums with responsibilities R (p, m) that are given."""

        def block(rows: slice) -> Sums:
            weighted = (R[rows] * weights[rows, None]).T
            firsts, seconds = weighted @ self.X[rows], weighted @ self.quadratic(rows)
            return Sums(np.zeros(1), weighted.sum(axis=1), firsts, seconds)

        return add_up(self.over_blocks(block))


def add_up(parts: list[Sums]) -> Sums:
    """Add the sums over parts of the rows."""
    if len(parts) == 1:
        return parts[0]
    return Sums(*(sum(part, start=np.zeros(())) for part in zip(*parts, strict=True)))
