"""The likelihood of rows elsewhere: each step is one pass.

Each block of rows makes its sums where it is, as rows in memory do, and the sums are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Concatenate

import numpy as np

from momentmix.blocks.batches import Batch, cut
from momentmix.blocks.rows import BlockRows, plus
from momentmix.covariance import Anchor, Bound, Kind, LogNormalPrior
from momentmix.data.frame import Frame
from momentmix.data.observed import CompletedRows, shifts_of_gaps
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Density, Sums
from momentmix.likelihood.device import device_sums
from momentmix.likelihood.em import Arguments, Likelihood
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.support.array import ArrayLike, foreign, to_numpy


class BlockLikelihood(Likelihood):
    """The likelihood of rows whose sums are made where they are; gaps or noise if ``observed``."""

    def __init__(
        self,
        rows: BlockRows,
        frame: Frame,
        kind: Kind,
        floor: Bound,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        observed: bool = False,
        anchor: Anchor | None = None,
        count: float = np.inf,
        some: RowLikelihood | None = None,
    ) -> None:
        super().__init__(kind, floor, variance, prior, count, anchor)
        self.rows, self.frame, self.observed, self.some = rows, frame, observed, some

    @property
    def in_memory(self) -> RowLikelihood | None:
        return self.some

    @property
    def complete(self) -> bool:
        return not self.observed

    def sample(self, rng: np.random.Generator) -> RowLikelihood:
        if self.some is None:
            raise NotImplementedError("no rows were drawn from these")
        return self.some

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        if self.rows.device is None or self.observed:
            return Sums(*self.total(_sums, parameters, groups))
        density = Density.of(self.kind, parameters, groups)
        weight, *sums = self.rows.total(_sums_there, self.kind, density, self.frame)
        self.count = float(weight)
        return Sums(*(part / weight for part in sums))

    def total(
        self,
        function: Callable[Concatenate[RowLikelihood, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        block = self.frame, self.kind, self.observed
        weight, *sums = self.rows.total(_total, block, function, arguments, named)
        self.count = float(weight)
        return tuple(part / weight for part in sums)


def _sums(rows: RowLikelihood, parameters: Parameters, groups: int) -> Sums:
    return rows.sums(parameters, groups)  # as rows of their kind do


def _sums_there(
    X: np.ndarray, weights: np.ndarray | None, kind: Kind, density: Density, frame: Frame
) -> tuple[np.ndarray, ...]:
    """The weight of the rows of a block on a device, and then its sums, which are made there."""
    sums = device_sums(X, weights, kind, density, frame)
    # Responsibilities of a row sum to 1 in each mixture.
    weight = X.shape[0] if weights is None else sums.shares.sum() / density.groups
    return (np.asarray(float(weight)), *sums)


def _total(
    X: np.ndarray,
    weights: np.ndarray | None,
    block: tuple[Frame, Kind, bool],
    function: Callable[..., tuple[np.ndarray, ...]],
    arguments: tuple[object, ...],
    named: dict[str, Any],
    noise_covariance: ArrayLike | None = None,
) -> tuple[np.ndarray, ...]:
    """The weight of the rows of a block, and then the sums that a function makes of them.

    Rows on a device are copied here in pieces: only the sums of complete rows are made there.
    """
    if foreign(X):
        pieces = (
            (to_numpy(rows), None if w is None else to_numpy(w))
            for rows, w in cut(Batch(X, weights))
        )
        return reduce(plus, (_total(*piece, block, function, arguments, named) for piece in pieces))
    rows = _rows(X.astype(np.float64, copy=False), weights, *block, noise_covariance)
    return (np.asarray(rows.weights.sum()), *function(rows, *arguments, **named))


def _rows(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    kind: Kind,
    observed: bool,
    noise_covariance: ArrayLike | None,
) -> RowLikelihood:
    """The rows of a block that have any value, with weights of any sum."""
    w = np.ones(len(X)) if weights is None else weights
    told = ~np.all(np.isnan(X), axis=1)
    if not np.any(told):  # a row of no weight stands for none
        X, w, told, noise_covariance = frame.centre[None], np.zeros(1), np.ones(1, bool), None
    if not observed:
        rows = RowLikelihood(frame.apply(X), w, kind, 0.0)
        rows.passes.keeps = False  # the block is gone after this
        return rows
    table = ObservedRows(X, noise_of_rows(noise_covariance, X)).take(np.flatnonzero(told))
    table = table.scale(frame.centre, frame.units)
    # Where the rows lie does not matter for sums, so nothing stands in for them.
    completed = CompletedRows(table, np.empty(table.X.shape), shifts_of_gaps(table, frame))
    return ObservedLikelihood(completed, w[told], kind, 0.0, to_features=frame.to_features)
