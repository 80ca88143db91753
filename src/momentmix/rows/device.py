"""Passes over complete rows on a device: log densities, and the sums that an EM step needs.

The formulas are those of memory.py, in the array API. Rows are processed in blocks whose size
suits the device. The sums of a pass come back in one piece after the last block was sent, so the
device never waits in between. All arithmetic is float64, whatever the dtype of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.rows.frame import Frame
from momentmix.rows.memory import Density, Passes, Sums
from momentmix.support.array import Array, Namespace, as_like, index_array, namespace, to_numpy
from momentmix.support.device import block_bytes

#: With fewer numbers in X than this, passes stay in main memory, where they take less time than the
#: calls to a device. This is a round number that was not tuned; it affects speed alone.
LEAST_NUMBERS = 200_000


def device_passes(X: np.ndarray, kind: Kind, device: Array) -> Passes:
    """Passes over rows in main memory, on a device if there are many."""
    if X.size < LEAST_NUMBERS:
        return Passes(X, kind)
    return DevicePasses(X, kind, as_like(X, device, namespace(device).float64))


class DevicePasses(Passes):
    """Rows in memory with a copy on a device (``there``), where passes are made."""

    def __init__(self, X: np.ndarray, kind: Kind, there: Array) -> None:
        super().__init__(X, kind)
        self.there = there
        self._weights: tuple[np.ndarray, Array] | None = None  # here, and a copy there

    def part(self, rows: np.ndarray) -> Passes:
        if len(rows) * self.X.shape[1] < LEAST_NUMBERS:
            return super().part(rows)
        there = namespace(self.there).take(self.there, index_array(rows, self.there), axis=0)
        return DevicePasses(self.X[rows], self.kind, there)

    @cached_property
    def _squares(self) -> Array | None:
        """Quadratic features of all rows, if they fit into the memory of one block."""
        p, n = self.X.shape
        if 8 * p * self.kind.width(n) > block_bytes(self.there):
            return None
        return self.kind.features(self.there)

    def _blocks(self, m: int) -> Iterator[RowBlock]:
        return _blocks(self.there, self.kind, m, squares=self._squares)

    def log_joint(self, density: Density) -> np.ndarray:
        there = DeviceDensity.of(density, self.kind, self.there)
        blocks = self._blocks(len(density.parameters.weights))
        parts = [there.log_joint(Z, squares).mT for _, Z, squares in blocks]
        return to_numpy(namespace(self.there).concat(parts))

    def sums(
        self,
        density: Density,
        weights: np.ndarray,
        background: np.ndarray | None = None,
    ) -> Sums:
        beyond = None if background is None else as_like(background, self.there)
        there = DeviceDensity.of(density, self.kind, self.there)
        return there.sums(
            self._blocks(len(density.parameters.weights)), self._copied(weights), beyond
        )

    def weighted_sums(self, R: np.ndarray, weights: np.ndarray) -> Sums:
        weighted = as_like(R * weights[:, None], self.there).mT
        xp, m, total = namespace(self.there), R.shape[1], _Total(namespace(self.there))
        for rows, Z, squares in self._blocks(m):
            part = weighted[:, rows]
            total.add(xp.zeros_like(part[0, :1]), xp.sum(part, axis=1), part @ Z, part @ squares)
        return total.sums(1, m, self.X.shape[1])

    def _copied(self, weights: np.ndarray) -> Array:
        """The weights on the device, copied only when they change."""
        if self._weights is None or self._weights[0] is not weights:
            self._weights = weights, as_like(weights, self.there)
        return self._weights[1]


def device_sums(
    X: Array, weights: Array | None, kind: Kind, density: Density, frame: Frame | None = None
) -> Sums:
    """The sums of EM steps over rows X (p, n) on a device: one pass.

    If there is a frame, ``density`` is in its coordinates. ``weights`` (p,) are ones by default.
    O(p m (n + width)) in matrix products.
    """
    there = DeviceDensity.of(density, kind, X)
    return there.sums(_blocks(X, kind, len(density.parameters.weights), frame), weights)


class RowBlock(NamedTuple):
    """A range of rows, and all that a step needs of them."""

    rows: slice
    Z: Array  # points in the coordinates of a fit; (B, n)
    squares: Array  # the quadratic features of these; (B, width)


def _blocks(
    X: Array, kind: Kind, m: int, frame: Frame | None = None, squares: Array | None = None
) -> Iterator[RowBlock]:
    """All rows in a few blocks, for mixtures of m components; in a frame if there is one.

    Their quadratic features are computed here unless they are given.
    """
    xp, (p, n) = namespace(X), X.shape
    # A block holds its points twice, its features twice while they are made, and four arrays of
    # rows by components.
    step = max(64, block_bytes(X) // (8 * (2 * n + 2 * kind.width(n) + 4 * m)))
    apply = None if frame is None else frame.on(X)
    for start in range(0, p, step):
        rows = slice(start, min(start + step, p))
        Z = xp.astype(X[rows, :], xp.float64, copy=False) if apply is None else apply(X[rows, :])
        yield RowBlock(rows, Z, kind.features(Z) if squares is None else squares[rows, :])


class DeviceDensity(NamedTuple):
    """The coefficients of a ``Density`` of S mixtures on a device, in float64."""

    constant: Array  # (S m, 1)
    linear: Array  # (S m, n)
    quadratic: Array  # (S m or 1, width)
    peaks: list[tuple[int, float, Array, Array]]  # component, constant, mean and factor of each
    diagonal: bool
    groups: int  # S
    sharpness: float  # γ of ``softmax`` in memory.py

    @classmethod
    def of(cls, density: Density, kind: Kind, like: Array) -> DeviceDensity:
        double = namespace(like).float64

        def there(value: np.ndarray) -> Array:
            return as_like(value, like, double)

        constant, linear, quadratic = density.coefficients
        found = [] if density.peaks is None else density.peaks.one_by_one()
        peaks = [(j, level, there(mean), there(U)) for j, level, mean, U in found]
        return cls(
            there(constant[:, None]),
            there(linear),
            there(quadratic),
            peaks,
            kind.diagonal,
            density.groups,
            density.sharpness,
        )

    def log_joint(self, Z: Array, squares: Array) -> Array:
        """(S m, B)"""
        L = self.linear @ Z.mT
        L += self.quadratic @ squares.mT
        L += self.constant
        xp = namespace(Z)
        for j, constant, mean, factor in self.peaks:
            D = Z - mean
            Y = D * factor if self.diagonal else D @ factor
            L[j, :] = constant - xp.sum(Y * Y, axis=1) / 2
        return L

    def sums(
        self, blocks: Iterable[RowBlock], weights: Array | None, background: Array | None = None
    ) -> Sums:
        """The sums of an EM step over blocks of rows with weights (p,), or of weight 1 each.

        ``background`` (S, 1, p) is that of ``softmax`` in memory.py.
        """
        m, n = self.linear.shape
        xp, total = namespace(self.linear), _Total(namespace(self.linear))
        for rows, Z, squares in blocks:
            L = xp.reshape(self.log_joint(Z, squares), (self.groups, -1, Z.shape[0]))
            rest = None if background is None else background[:, :, rows]
            if self.sharpness != 1:  # a kernel that an ordinary fit does not need
                L *= self.sharpness
                rest = None if rest is None else self.sharpness * rest
            R, logs = _softmax(L, rest, xp)
            if weights is None:
                values = xp.sum(logs, axis=1)
            else:
                w = xp.astype(weights[..., rows], xp.float64, copy=False)
                each = w.ndim == 1  # the same for all mixtures
                R, values = (R * w, logs @ w) if each else (R * w[:, None], xp.vecdot(logs, w))
            R = xp.reshape(R, (m, -1))
            total.add(values, xp.sum(R, axis=1), R @ Z, R @ squares)
        found = total.sums(self.groups, m, n)
        return found._replace(log_likelihoods=found.log_likelihoods / self.sharpness)


def _softmax(L: Array, background: Array | None, xp: Namespace) -> tuple[Array, Array]:
    """Like ``softmax`` of memory.py, along the second axis of (S, m, B); L is overwritten."""
    highest = xp.max(L, axis=1, keepdims=True)
    if background is not None:
        highest = xp.where(background > highest, background, highest)
    L -= highest
    R = xp.exp(L)
    total = xp.sum(R, axis=1, keepdims=True)
    if background is not None:
        total += xp.exp(background - highest)
    R /= total
    return R, (highest + xp.log(total))[:, 0, :]


class _Total:
    """Sums over blocks, which stay on the device as one array until they are needed."""

    def __init__(self, xp: Namespace) -> None:
        self.xp = xp
        self.flat: Array | None = None

    def add(self, *parts: Array) -> None:
        flat = self.xp.concat([self.xp.reshape(part, (-1,)) for part in parts])
        self.flat = flat if self.flat is None else self.flat + flat

    def sums(self, groups: int, m: int, n: int) -> Sums:
        assert self.flat is not None
        flat = to_numpy(self.flat)
        values, shares, firsts, seconds = np.split(flat, np.cumsum([groups, m, m * n]))
        return Sums(values, shares, firsts.reshape(m, n), seconds.reshape(m, -1))
