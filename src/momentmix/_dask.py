"""Rows on a Dask cluster: the only file that names Dask, which is imported only when used.

Everything here is one operation: a function of a block of rows, run where the block is, and its
results added up in a tree (``DaskRows.total``). What travels are sums and parameters, never rows.
Blocks that are lost with a worker are made again by Dask, and the sum comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from momentmix._array import Array
from momentmix.atoms import Atoms
from momentmix.bilinear import Form, bilinear
from momentmix.covariance import LogNormalPrior, Zero, make_covariance
from momentmix.data import TensorData
from momentmix.em import EM, Density
from momentmix.frame import Frame
from momentmix.mixture import Mixture
from momentmix.tensors import MomentTensors

#: Results of blocks that are added in one task.
_BRANCHES = 8


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or DataFrame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


class DaskRows:
    """The rows of a Dask array or DataFrame (p, n), and their weights.

    ``weights`` is a Dask array or Series with the blocks of X, or None. ``n_passes`` counts how
    often the rows were read.
    """

    def __init__(self, X: Any, weights: Any = None) -> None:
        X = as_dask_array(X)
        self.n, self.n_passes = int(X.shape[1]), 0
        self._arrays = [X]
        if weights is not None:
            self._arrays.append(_weights_like(weights, X)[:, None])

    def total(self, function: Callable, *arguments: Any) -> Any:
        """Σ function(X, weights, *arguments) over the blocks; one pass.

        ``function`` returns something that can be added, or a tuple of such things. It runs in the
        task that makes the block, so that no block has to move.
        """
        import dask
        import dask.array as da

        X = self._arrays[0]
        results = da.map_blocks(
            _on_block,
            *self._arrays,
            function=function,
            arguments=arguments,  # as a task of their own they would keep the others from fusing
            chunks=((1,) * X.numblocks[0], (1,)),
            dtype=object,
            meta=np.empty((0, 0), dtype=object),
        )
        add = dask.delayed(_sum)
        level = list(results.to_delayed()[:, 0])
        while len(level) > 1:
            level = [add(level[i : i + _BRANCHES]) for i in range(0, len(level), _BRANCHES)]
        self.n_passes += 1
        return dask.compute(level[0])[0][0, 0]

    def tensors(self, order: int, noise_covariance: Any = None, missing: str = "error") -> Any:
        return self.total(_tensors, order, noise_covariance, missing)


class DaskData:
    """Rows on a cluster as a moment fit asks for them (see data.py), one pass a question."""

    passes = 1

    def __init__(self, rows: DaskRows, frame: Frame | None = None, weight: float = 1.0) -> None:
        self.rows, self.n, self._frame, self._weight = rows, rows.n, frame, weight
        self._second: np.ndarray | None = None

    def frame(self, kind: str) -> Frame:
        tensors = self.rows.tensors(2)
        self._weight = tensors.weight
        return Frame(kind, tensors.mean, tensors.covariance)

    def within(self, frame: Frame) -> DaskData:
        return DaskData(self.rows, frame, self._weight)

    def moments(self, order: int) -> np.ndarray:
        if order == 2 and self._second is not None:
            return self._second
        moments = self.rows.total(_tensors_within, self._frame, order).about(np.zeros(self.n))
        if order == 2:
            self._second = moments
        return moments

    def tested(self, P: Atoms, weights: Sequence[float], gradient: bool) -> Form:
        parts = self.rows.total(_form, self._frame, P, list(weights), gradient)
        return Form(*(None if part is None else part / self._weight for part in parts))

    def compressed(self, basis: np.ndarray, order: int) -> TensorData:
        return TensorData(self.rows.total(_compressed, self._frame, basis, order))


class DaskLikelihood(EM):
    """The polish on a cluster: one pass a step."""

    def __init__(
        self,
        rows: DaskRows,
        frame: Frame,
        kind: str,
        floor: float,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
    ) -> None:
        super().__init__(kind, floor, variance, prior)
        self.rows, self.frame = rows, frame

    def sums(self, density: Density) -> tuple:
        weight, *sums = self.rows.total(_em_sums, self.frame, self.kind, density)
        self.count = float(weight)
        return tuple(part / weight for part in sums)


def moment_tensors(
    X: Any, order: int, weights: Any, noise_covariance: Any, missing: str
) -> MomentTensors:
    return DaskRows(X, weights).tensors(order, noise_covariance, missing)


def as_dask_array(X: Any) -> Any:
    """X (p, n) with all columns in each block; a DataFrame must hold numbers."""
    if hasattr(X, "to_dask_array"):
        dtypes = dict(X.dtypes) if X.ndim == 2 else {}
        words = [str(name) for name, kind in dtypes.items() if kind.kind not in "biuf"]
        if words:
            raise ValueError(
                f"columns {', '.join(words)} do not hold numbers; drop or encode them first"
            )
        X = X.to_dask_array().astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X


def feature_names(X: Any) -> np.ndarray | None:
    names = list(getattr(X, "columns", []))
    return (
        np.array(names, dtype=object) if names and all(isinstance(c, str) for c in names) else None
    )


def map_rows(X: Any, function: Callable, mixture: Mixture, width: int | None, dtype: Any) -> Any:
    """A lazy Dask array of function(mixture, block) for the blocks of X."""
    X = as_dask_array(X)
    meta = np.empty((0,) if width is None else (0, width), dtype=dtype)
    options: dict[str, Any] = (
        {"drop_axis": 1} if width is None else {"chunks": (X.chunks[0], (width,))}
    )
    return X.map_blocks(_apply, function, mixture, dtype=dtype, meta=meta, **options)


def score_and_count(X: Any, mixture: Mixture) -> tuple[float, int]:
    """Total log density of the rows, and their number."""
    total, count = DaskRows(X).total(_score, mixture)
    return float(total), int(count)


# Functions of one block. They run on the workers, so they are plain functions of plain arrays.


def _apply(X: np.ndarray, function: Callable, mixture: Mixture) -> np.ndarray:
    if len(X) == 0:  # of the right shape and dtype, from one row that is dropped again
        return function(mixture, np.zeros((1, X.shape[1])))[:0]
    return function(mixture, X)


def _on_block(
    X: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    function: Callable,
    arguments: tuple,
    block_info: Any = None,
) -> np.ndarray:
    """The result for one block, in an array of one object, which is what a block must be."""
    result = np.empty((1, 1), dtype=object)
    i = block_info[0]["chunk-location"][0]
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)[:, 0]
        if len(weights) != len(X):
            raise ValueError(
                f"block {i}: {len(weights)} weights for {len(X)} rows; give both the same blocks"
            )
    try:
        result[0, 0] = function(np.asarray(X), weights, *arguments)
    except ValueError as error:
        raise ValueError(f"block {i} of X: {error}") from error
    return result


def _sum(parts: list[np.ndarray]) -> np.ndarray:
    total = np.empty((1, 1), dtype=object)
    total[0, 0] = parts[0][0, 0]
    for part in parts[1:]:
        total[0, 0] = _plus(total[0, 0], part[0, 0])
    return total


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_plus(x, y) for x, y in zip(a, b, strict=True))
    return None if a is None else a + b


def _tensors(
    X: np.ndarray, weights: np.ndarray | None, order: int, noise: Any, missing: str
) -> MomentTensors:
    return MomentTensors.from_samples(X, order, weights, noise_covariance=noise, missing=missing)


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


def _em_sums(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, kind: str, density: Density
) -> tuple:
    Z = frame.apply(X)
    w = np.ones(len(X)) if weights is None else weights
    quadratic = make_covariance(kind, np.empty((1, 1, 1)), Z.shape[1]).quadratic
    step = max(256, (4 << 20) // (8 * (2 * Z.shape[1] + density.quadratic.shape[1])))
    total: Any = None
    for a in range(0, max(len(Z), 1), step):
        rows = slice(a, a + step)
        sums = (np.sum(w[rows]), *density.step_sums(Z[rows], quadratic(Z[rows]), w[rows]))
        total = sums if total is None else _plus(total, sums)
    return total


def _score(X: np.ndarray, weights: Array, mixture: Mixture) -> tuple:
    return (float(np.sum(mixture.log_prob(X))) if len(X) else 0.0), len(X)


def _weights_like(weights: Any, X: Any) -> Any:
    """Weights as a Dask array with the blocks of X."""
    if hasattr(weights, "to_dask_array"):
        weights = weights.to_dask_array()
    if not is_dask(weights):
        import dask.array as da

        weights = np.asarray(weights, dtype=np.float64)
        if any(np.isnan(length) for length in X.chunks[0]):
            raise ValueError(
                "weights in memory need a Dask array of known block lengths; give "
                "X.to_dask_array(lengths=True), or the weights as a Dask array or Series"
            )
        weights = da.from_array(weights, chunks=(X.chunks[0],))
    if weights.ndim != 1 or weights.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"weights must be one-dimensional with the {X.numblocks[0]} blocks of X, got shape "
            f"{weights.shape} in {weights.numblocks} blocks"
        )
    return weights
