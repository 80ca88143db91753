"""Rows that lie elsewhere, in the form a fit needs; each question costs one pass over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from momentmix.blocks.rows import EACH, Block, BlockRows
from momentmix.covariance import Kind, Zero
from momentmix.data.draw import Draw, draw_from, draw_size
from momentmix.data.frame import Frame
from momentmix.data.gaps import tensors_with_gaps
from momentmix.data.sources import Place, TensorData
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.support.array import Array, ArrayLike, as_like, foreign, to_numpy

#: The number of rows assumed for a source that does not know its own. A round number that was not
#: tuned: with so many rows, forming the moments once beats reading the rows again and again.
MANY_ROWS = 10_000_000


@dataclass(frozen=True)
class FirstPass:
    """The result of one pass: the moments of the rows and, if asked for, a sample of the rows.

    The pass also finds out whether there are gaps.
    """

    tensors: MomentTensors
    draw: Draw | None = None

    def __add__(self, other: FirstPass) -> FirstPass:
        draw = self.draw
        if draw is not None and other.draw is not None:
            draw = draw + other.draw
        return FirstPass(self.tensors + other.tensors, draw)

    @property
    def gaps(self) -> float:
        """The share of the cells that are gaps, by the weights of the rows."""
        return 1 - float(np.mean(self.tensors.presence))


class BlockData:
    """Rows elsewhere; sources.py explains what each method is for."""

    passes = 1
    order = None
    place: Place = "elsewhere"
    count = np.inf  # unknown until a pass has been made

    def __init__(self, rows: BlockRows, frame: Frame | None = None, weight: float = 1.0) -> None:
        """Take rows, the frame for their coordinates (if any), and the sum of their weights."""
        self.elsewhere, self.n, self._frame, self._weight = rows, rows.n, frame, weight
        self.rows = MANY_ROWS if rows.p is None else rows.p
        self._second: np.ndarray | None = None

    def first_pass(self, order: int, draw: bool) -> FirstPass:
        """The moments of all rows up to an order and, if asked for, a sample of the rows."""
        most = draw_size(self.n) if draw else 0
        found = self.elsewhere.total(_add_up_first_pass, order, most, block=EACH)
        self._weight = found.tensors.weight
        return found if found.draw is None else replace(found, draw=found.draw.lowest(most))

    def frame(self, kind: Kind) -> Frame:
        tensors = self.first_pass(2, draw=False).tensors
        return Frame(kind, tensors.mean, tensors.covariance)

    def within(self, frame: Frame) -> BlockData:
        return BlockData(self.elsewhere, frame, self._weight)

    @property
    def _coordinates(self) -> Frame:
        assert self._frame is not None  # callers ask for moments only within a frame
        return self._frame

    def moments(self, order: int) -> np.ndarray:
        if order == 2 and self._second is not None:
            return self._second
        moments = self.elsewhere.total(_tensors_within, self._coordinates, order).about(
            np.zeros(self.n)
        )
        if order == 2:
            self._second = moments
        return moments

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        arguments = self._coordinates, P, list(weights), gradient
        values, means, covariances = self.elsewhere.total(_inner_products, *arguments)
        return InnerProducts(
            values / self._weight,
            None if means is None else means / self._weight,
            None if covariances is None else covariances / self._weight,
        )

    def compress(self, basis: np.ndarray, order: int) -> TensorData:
        return TensorData(self.elsewhere.total(_compress, self._coordinates, basis, order))


def _add_up_first_pass(
    X: np.ndarray,
    weights: np.ndarray | None,
    order: int,
    most: int,
    block: Block,
    noise_covariance: ArrayLike | None = None,
) -> FirstPass:
    noise = noise_covariance if X.shape[0] else None
    tensors = tensors_with_gaps(X, order, weights, noise)  # pairwise if there are gaps
    return FirstPass(tensors, draw_from(X, weights, most, block, noise) if most else None)


def _within(X: np.ndarray, frame: Frame) -> Array:
    """The rows in a frame's coordinates, in the library and on the device of X."""
    return frame.on(X)(X) if foreign(X) else frame.apply(X)


def _tensors_within(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, order: int
) -> MomentTensors:
    return MomentTensors.from_samples(_within(X, frame), order, weights)


def _compress(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, basis: np.ndarray, order: int
) -> MomentTensors:
    Z = _within(X, frame)
    return MomentTensors.from_samples(Z @ as_like(basis, Z), order, weights)


def _inner_products(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    P: Atoms,
    order_weights: list[float],
    gradient: bool,
) -> InnerProducts:
    if X.shape[0] == 0:
        values = np.zeros(len(P))
        if not gradient:
            return InnerProducts(values, None, None)
        covariances = None if P.covariance.zero else np.zeros_like(to_numpy(P.covariance.array))
        return InnerProducts(values, np.zeros_like(to_numpy(P.means)), covariances)
    Z, w = _within(X, frame), 1.0 if weights is None else weights
    Q = Atoms(w, Z, Zero(X.shape[1]))
    if not foreign(Z):
        return bilinear(P, Q, order_weights, gradient)
    there = bilinear(P.on(Z), Q, order_weights, gradient)
    return InnerProducts(
        to_numpy(there.values),
        None if there.means is None else to_numpy(there.means),
        None if there.covariances is None else to_numpy(there.covariances),
    )
