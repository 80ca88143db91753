"""Sums over the rows of a Dask cluster; Dask is imported only when it is used.

The results of blocks are added up in a tree. If a worker is lost, Dask computes its blocks again,
and the sum is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from momentmix.blocks.block_rows import Block, BlockRows, Summand, Work, add_up
from momentmix.blocks.engines import DaskTable, DaskWeights, is_dask
from momentmix.blocks.layout import chosen_labels
from momentmix.covariance import one_for_each_row
from momentmix.support.array import Array, to_numpy
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    from dask.array import Array as DaskArray


Model = TypeVar("Model")

#: Results of blocks that one task adds up. A round number; it affects the speed of sums only.
_BRANCHES = 8


class DaskRows(BlockRows):
    """The rows of a Dask array or DataFrame (p, n), and their weights.

    ``weights`` is a Dask array or Series with the blocks of X, or None. ``noise`` is the covariance
    of the noise: one for all rows, or one for each row, in the blocks of X.
    """

    def __init__(
        self,
        X: DaskTable,
        weights: DaskWeights | None = None,
        noise: DaskWeights | DaskTable | None = None,
    ) -> None:
        rows = as_dask_array(X)
        self.n, self.names = int(rows.shape[1]), feature_names(X)
        self.noisy = noise is not None
        self._arrays = [rows, None, None]
        if weights is not None:
            self._arrays[1] = _weights_like(weights, rows)[:, None]
        self._common, self._arrays[2], self._noise_shape = _noise_like(noise, rows)

    def _sum(self, work: Work) -> Summand:
        import dask
        import dask.array as da

        X = self._arrays[0]
        results = da.map_blocks(
            _on_block,
            *self._arrays,
            common=self._common,
            noise_shape=self._noise_shape if self.noisy else None,
            # Not as a delayed object: that would be a task, which keeps other tasks from fusing.
            work=work,
            of=int(X.numblocks[0]),
            chunks=((1,) * X.numblocks[0], (1,)),
            dtype=object,
            meta=np.empty((0, 0), dtype=object),
        )
        add = dask.delayed(_sum)
        level = list(results.to_delayed()[:, 0])
        while len(level) > 1:
            level = [add(level[i : i + _BRANCHES]) for i in range(0, len(level), _BRANCHES)]
        return dask.compute(level[0])[0][0, 0]


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
    """The names of the columns, if all of them are text; else None."""
    names = list(getattr(X, "columns", []))
    return (
        np.array(names, dtype=object) if names and all(isinstance(c, str) for c in names) else None
    )


def table_rows(
    X: DaskTable, columns: Sequence[Hashable] | None, weights: Hashable | None
) -> DaskRows:
    """The rows of some columns of a DataFrame, and the weights in another of its columns."""
    if columns is None and weights is None:
        return DaskRows(X)
    if not hasattr(X, "to_dask_array"):
        raise ValueError(
            "columns= and weights= name columns of tables, and a Dask array has no names; give "
            "X[:, columns]"
        )
    chosen = X[chosen_labels(list(X.columns), columns, weights)]
    return DaskRows(chosen, None if weights is None else X[weights])


def map_rows(
    X: DaskTable,
    function: Callable[[Model, np.ndarray, object], Array],
    model: Model,
    width: int | None,
    dtype: npt.DTypeLike,
    noise: DaskWeights | DaskTable | None = None,
) -> DaskArray:
    """A lazy Dask array of function(model, block, its noise or None) for the blocks of X.

    ``width`` is the number of columns of the results, None if they are one-dimensional.
    """
    import dask.array as da

    rows = as_dask_array(X)
    common, own, shape = _noise_like(noise, rows)
    given = {"function": function, "model": model, "common": common, "noise_shape": shape}
    if width is None:
        meta = np.empty((0,), dtype=dtype)
        return da.map_blocks(_apply, rows, own, dtype=dtype, meta=meta, drop_axis=1, **given)
    meta, chunks = np.empty((0, width), dtype=dtype), (rows.chunks[0], (width,))
    return da.map_blocks(_apply, rows, own, dtype=dtype, meta=meta, chunks=chunks, **given)


# Functions of one block. They run on the workers, so they are plain functions of NumPy arrays.


def _apply(
    X: np.ndarray,
    own: np.ndarray | None,
    *,
    function: Callable[[Model, np.ndarray, object], Array],
    model: Model,
    common: np.ndarray | None,
    noise_shape: tuple[int, ...],
) -> Array:
    if len(X) == 0:  # shape and dtype come from a row that is dropped again
        return function(model, np.zeros((1, X.shape[1])), None)[:0]
    return function(model, X, _noise_of_block(X, common, own, noise_shape))


def _on_block(
    X: np.ndarray,
    weights: np.ndarray | None,
    own: np.ndarray | None,
    *,
    common: np.ndarray | None,
    noise_shape: tuple[int, ...] | None,
    work: Work,
    of: int,
    block_info: Mapping[int, Mapping[str, Sequence[int]]],  # from Dask
) -> np.ndarray:
    """The result for one block, in an array of one object, because Dask's blocks are arrays."""
    result = np.empty((1, 1), dtype=object)
    i = block_info[0]["chunk-location"][0]
    for what, array in (("weights", weights), ("noise covariances", own)):
        if array is not None and len(array) != len(X):
            raise ValueError(
                f"block {i}: {len(array)} {what} for {len(X)} rows; give both the same blocks"
            )
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)[:, 0]
    more: dict[str, object] = {}
    if noise_shape is not None:
        more["noise_covariance"] = _noise_of_block(X, common, own, noise_shape)
    try:
        with thread_limit(1):  # the cluster works on other blocks in parallel
            result[0, 0] = work(to_numpy(X), weights, Block(i, of), **more)
    except ValueError as error:
        kind = type(error) if type(error).__init__ is ValueError.__init__ else ValueError
        raise kind(f"block {i} of X: {error}") from error
    return result


def _noise_of_block(
    X: np.ndarray, common: np.ndarray | None, own: np.ndarray | None, shape: tuple[int, ...]
) -> np.ndarray | None:
    return common if own is None else one_for_each_row(own.reshape(-1, *shape), X.shape[1])


def _sum(parts: list[np.ndarray]) -> np.ndarray:
    total = np.empty((1, 1), dtype=object)
    total[0, 0] = add_up(part[0, 0] for part in parts)
    return total


def _weights_like(weights: DaskWeights, X: DaskArray) -> DaskArray:
    """Weights as a Dask array with the blocks of X."""
    weights = _in_blocks(weights, X, "weights")
    if weights.ndim != 1 or weights.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"weights must be one-dimensional with the {X.numblocks[0]} blocks of X, got shape "
            f"{weights.shape} in {weights.numblocks} blocks"
        )
    return weights


def _noise_like(
    noise: DaskWeights | DaskTable | None, X: DaskArray
) -> tuple[np.ndarray | None, DaskArray | None, tuple[int, ...]]:
    """The noise of all rows, or that of each row (p, width) in the blocks of X, and its shape.

    The shape is that of one row's noise: (), (n,) or (n, n).
    """
    if noise is None:
        return None, None, ()
    n = X.shape[1]
    if not is_dask(noise):
        noise = np.asarray(noise, dtype=np.float64)
        if noise.shape in ((), (1,), (n,), (n, n), (1, n), (1, n, n)):
            return noise, None, ()
    own = _in_blocks(noise, X, "noise_covariance")
    if own.numblocks[0] != X.numblocks[0] or own.shape[1:] not in ((), (n,), (n, n)):
        raise ValueError(
            f"noise_covariance must have the {X.numblocks[0]} blocks of X and one entry of shape "
            f"(), ({n},) or ({n}, {n}) for each row, got shape {own.shape} in {own.numblocks[0]} "
            "blocks"
        )
    shape = tuple(int(k) for k in own.shape[1:])
    flat = own.rechunk(dict.fromkeys(range(1, own.ndim), -1))
    width = int(np.prod(shape))
    flat = flat.map_blocks(
        _flatten,
        chunks=(own.chunks[0], (width,)),
        dtype=np.float64,
        meta=np.empty((0, width)),
        drop_axis=list(range(1, own.ndim)),
        new_axis=1,
    )
    return None, flat, shape


def _flatten(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, dtype=np.float64).reshape(len(array), -1)


def _in_blocks(array: DaskWeights | DaskTable, X: DaskArray, name: str) -> DaskArray:
    """An array with an entry for each row of X, as a Dask array with its blocks."""
    if hasattr(array, "to_dask_array"):
        array = array.to_dask_array()
    if is_dask(array):
        return array
    import dask.array as da

    array = np.asarray(array, dtype=np.float64)
    if any(np.isnan(length) for length in X.chunks[0]):
        raise ValueError(
            f"{name} in memory need a Dask array of known block lengths; give "
            f"X.to_dask_array(lengths=True), or {name} as a Dask array or Series"
        )
    if array.ndim == 0 or len(array) != X.shape[0]:
        raise ValueError(f"{name} has shape {array.shape} for {X.shape[0]} rows of X")
    return da.from_array(array, chunks=(X.chunks[0], *((k,) for k in array.shape[1:])))
