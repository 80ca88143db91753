"""Rows with gaps and with known noise, as data of a fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind, Zero
from momentmix.data.frame import Frame
from momentmix.data.gaps import check_gaps, tensors_with_gaps
from momentmix.data.sources import AtomData, Place, TensorData
from momentmix.moments.atoms import Atoms
from momentmix.observed import Gaussians, ObservedRows
from momentmix.observed.single import one_gaussian


class CompletedRows(NamedTuple):
    """Rows as observed, and complete rows that stand in for them where positions are needed."""

    observed: ObservedRows  # in the units of their features
    X: np.ndarray  # (p, n), in the coordinates of a fit: gaps are filled and noise is shrunk
    shifts: np.ndarray  # (p,), from log densities in those units to log densities in a frame
    one: Gaussians | None = None  # one Gaussian fitted to all rows; None before that is done

    def take(self, rows: np.ndarray) -> CompletedRows:
        """Some of the rows, without the single Gaussian, which may differ for them."""
        return CompletedRows(self.observed.take(rows), self.X[rows], self.shifts[rows])


class ObservedData:
    """Rows in memory as observed, with weights of sum 1; together they count for ``count`` rows."""

    place: Place = "memory"
    order = None

    def __init__(self, table: ObservedRows, weights: np.ndarray | None, count: float) -> None:
        self.table, self.weights, self.count = table, weights, count
        self.n, self.rows = table.n, len(table)

    @property
    def shares(self) -> np.ndarray:
        """The weight of each row; (p,)."""
        return np.full(self.rows, 1 / self.rows) if self.weights is None else self.weights

    def frame(self, kind: Kind) -> Frame:
        """Coordinates in which the rows without their noise and gaps are centred and scaled."""
        mean, covariance = one_gaussian(self.table, self.shares, self.count, kind.diagonal)
        matrix = covariance[0] if covariance.ndim == 3 else np.diag(covariance[0])
        return Frame(kind, mean[0], matrix)

    def within(self, frame: Frame) -> CompletedRows:
        """The rows in the units of their features, and the complete rows for them in a frame."""
        observed = self.table.scale(frame.centre, frame.units)
        one = one_gaussian(observed, self.shares, self.count, frame.kind.diagonal)
        X = observed.expected(one)
        if frame.to_features is not None:
            X = np.linalg.solve(frame.to_features.T, X.T).T
        return CompletedRows(observed, X, shifts_of_gaps(self.table, frame), one)

    @property
    def gaps(self) -> bool:
        """Whether any row has one."""
        return not bool(self.table.seen.all())

    @property
    def share(self) -> float:
        """The share of cells that are gaps, by the weights of the rows."""
        return 1 - float(self.shares @ self.table.seen.mean(axis=1)) if self.gaps else 0.0

    @property
    def whole(self) -> float:
        """How many rows have no gap."""
        return self.count * float(self.shares @ self.table.seen.all(axis=1))

    def moments(self, order: int, tensors: bool) -> AtomData | TensorData:
        """The moments of the rows without their noise.

        With gaps, each moment averages over the rows that have its values (pairwise). Without gaps
        the result keeps the rows, unless ``tensors`` are asked for.
        """
        if not self.gaps and not tensors:
            return self.debias()
        noise = self.table.noise_array()
        found = tensors_with_gaps(self.table.X, order, self.weights, noise)
        if noise is None:  # after noise is subtracted, moments may contradict each other by chance
            check_gaps(found)
        return TensorData(found, self.count)

    def debias(self) -> AtomData:
        """Complete rows with their noise taken out of all moments."""
        noise, p = self.table.noise, self.rows
        covariance = Zero(self.n) if noise is None else noise.negative()
        weights = 1 / p if self.weights is None else self.weights
        return AtomData(Atoms(weights, self.table.X, covariance, np), self.count)


def shifts_of_gaps(rows: ObservedRows, frame: Frame) -> np.ndarray:
    """What to add to log densities in the units of features to get those in a frame; (p,).

    In a frame all features count, so the way back to X is the same for every row.
    """
    logs = np.log(frame.units)
    return np.asarray(~rows.seen @ logs + frame.log_volume - float(np.sum(logs)))
