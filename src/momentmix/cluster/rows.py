"""Sums over the rows of a Dask cluster; Dask is imported only when it is used.

Everything here is one operation: a function of a block of rows, run where the block is, and its
results added up in a tree (``DaskRows.total``). What travels are sums and parameters, never rows.
Blocks that are lost with a worker are made again by Dask, and the sum comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from momentmix.support.array import Array, ArrayLike

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame, Series

#: Rows on a cluster, and their weights: one for each row, in the blocks of the rows.
DaskTable: TypeAlias = "DaskArray | DataFrame"
DaskWeights: TypeAlias = "DaskArray | Series | ArrayLike"

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
Model = TypeVar("Model")
#: What a block may give: numbers, arrays, moments, whatever has a +; or a tuple of such things.
Summand: TypeAlias = Any
#: A function of the rows and weights (or None) of one block, and of parameters common to all.
BlockFunction: TypeAlias = Callable[Concatenate[np.ndarray, np.ndarray | None, Parameters], Result]

#: Results of blocks that are added in one task.
_BRANCHES = 8


def is_dask(X: object) -> TypeGuard[DaskTable]:
    """Whether X is a Dask array or DataFrame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


class DaskRows:
    """The rows of a Dask array or DataFrame (p, n), and their weights.

    ``weights`` is a Dask array or Series with the blocks of X, or None. ``n_passes`` counts how
    often the rows were read.
    """

    def __init__(self, X: DaskTable, weights: DaskWeights | None = None) -> None:
        rows = as_dask_array(X)
        self.n, self.n_passes = int(rows.shape[1]), 0
        self._arrays = [rows]
        if weights is not None:
            self._arrays.append(_weights_like(weights, rows)[:, None])

    def total(
        self,
        function: BlockFunction[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Σ function(X, weights, *arguments, **named) over the blocks; one pass.

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
            # As tasks of their own, arguments would keep the others from fusing.
            arguments=arguments,
            named=named,
            chunks=((1,) * X.numblocks[0], (1,)),
            dtype=object,
            meta=np.empty((0, 0), dtype=object),
        )
        add = dask.delayed(_sum)
        level = list(results.to_delayed()[:, 0])
        while len(level) > 1:
            level = [add(level[i : i + _BRANCHES]) for i in range(0, len(level), _BRANCHES)]
        self.n_passes += 1
        total: Result = dask.compute(level[0])[0][0, 0]
        return total


def as_dask_array(X: DaskTable) -> DaskArray:
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


def feature_names(X: object) -> np.ndarray | None:
    """The names of the columns, where they have some and all are text."""
    names = list(getattr(X, "columns", []))
    return (
        np.array(names, dtype=object) if names and all(isinstance(c, str) for c in names) else None
    )


def map_rows(
    X: DaskTable,
    function: Callable[[Model, np.ndarray], Array],
    model: Model,
    width: int | None,
    dtype: npt.DTypeLike,
) -> DaskArray:
    """A lazy Dask array of function(model, block) for the blocks of X.

    ``width`` is the number of columns of the results, None where they have one dimension.
    """
    rows = as_dask_array(X)
    if width is None:
        meta = np.empty((0,), dtype=dtype)
        return rows.map_blocks(_apply, function, model, dtype=dtype, meta=meta, drop_axis=1)
    meta, chunks = np.empty((0, width), dtype=dtype), (rows.chunks[0], (width,))
    return rows.map_blocks(_apply, function, model, dtype=dtype, meta=meta, chunks=chunks)


# Functions of one block. They run on the workers, so they are plain functions of plain arrays.


def _apply(X: np.ndarray, function: Callable[[Model, np.ndarray], Array], model: Model) -> Array:
    if len(X) == 0:  # of the right shape and dtype, from one row that is dropped again
        return function(model, np.zeros((1, X.shape[1])))[:0]
    return function(model, X)


def _on_block(
    X: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    function: Callable[..., object],
    arguments: tuple[object, ...],
    named: dict[str, object],
    block_info: Mapping[int, Mapping[str, Sequence[int]]],  # from Dask
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
        result[0, 0] = function(np.asarray(X), weights, *arguments, **named)
    except ValueError as error:
        raise ValueError(f"block {i} of X: {error}") from error
    return result


def _sum(parts: list[np.ndarray]) -> np.ndarray:
    total = np.empty((1, 1), dtype=object)
    total[0, 0] = parts[0][0, 0]
    for part in parts[1:]:
        total[0, 0] = plus(total[0, 0], part[0, 0])
    return total


def plus(a: Summand, b: Summand) -> Summand:
    """a + b, part by part where they are tuples; None stays None."""
    if isinstance(a, tuple):
        return tuple(plus(x, y) for x, y in zip(a, b, strict=True))
    return None if a is None else a + b


def _weights_like(weights: DaskWeights, X: DaskArray) -> DaskArray:
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
