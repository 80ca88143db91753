"""Rows on a cluster as a moment fit asks for them, one pass a question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.cluster.rows import DaskRows
from momentmix.covariance import Kind, Zero
from momentmix.data.frame import Frame
from momentmix.data.sources import TensorData
from momentmix.distributions.moment_tensors import MomentTensors, tensors_on_cluster
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts, bilinear


class ClusterData:
    """The rows of a cluster; see sources.py for what each question means."""

    passes = 1

    def __init__(self, rows: DaskRows, frame: Frame | None = None, weight: float = 1.0) -> None:
        self.rows, self.n, self._frame, self._weight = rows, rows.n, frame, weight
        self._second: np.ndarray | None = None

    def frame(self, kind: Kind) -> Frame:
        tensors = tensors_on_cluster(self.rows, 2)
        self._weight = tensors.weight
        return Frame(kind, tensors.mean, tensors.covariance)

    def within(self, frame: Frame) -> ClusterData:
        return ClusterData(self.rows, frame, self._weight)

    def moments(self, order: int) -> np.ndarray:
        if order == 2 and self._second is not None:
            return self._second
        moments = self.rows.total(_tensors_within, self._frame, order).about(np.zeros(self.n))
        if order == 2:
            self._second = moments
        return moments

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        parts = self.rows.total(_form, self._frame, P, list(weights), gradient)
        return InnerProducts(*(None if part is None else part / self._weight for part in parts))

    def compressed(self, basis: np.ndarray, order: int) -> TensorData:
        return TensorData(self.rows.total(_compressed, self._frame, basis, order))


def _tensors_within(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, order: int
) -> MomentTensors:
    return MomentTensors.from_samples(frame.apply(X), order, weights)


def _compressed(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, basis: np.ndarray, order: int
) -> MomentTensors:
    return MomentTensors.from_samples(frame.apply(X) @ basis, order, weights)


def _form(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    P: Atoms,
    order_weights: list[float],
    gradient: bool,
) -> tuple:
    if len(X) == 0:
        shapes = (P.weights, P.means, P.covariance.array) if gradient else (P.weights, None, None)
        return tuple(None if a is None else np.zeros_like(a) for a in shapes)
    Q = Atoms(1.0 if weights is None else weights, frame.apply(X), Zero(X.shape[1]), np)
    return tuple(bilinear(P, Q, order_weights, gradient))
