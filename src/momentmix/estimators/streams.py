"""Streams: the moments of all batches so far, and one batch more."""

from __future__ import annotations

import numpy as np

from momentmix.blocks.dask_rows import is_dask
from momentmix.data.gaps import tensors_with_gaps
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.rows import Table
from momentmix.support.array import Array, as_like, foreign, namespace, to_numpy
from momentmix.support.checks import positive


def with_batch(
    stream: MomentTensors | None,
    X: Table,
    order: int,
    weights: Table,
    noise: Table,
    half_life: float | None,
) -> MomentTensors:
    """The moments of a stream, if there is one yet, and of the rows of one batch; a new object.

    With a half-life h, a row that k rows have followed weighs 2^(-k/h), within the batch as before
    it, so it does not matter how rows were cut into batches. How many rows of a cluster follow
    which of them nobody knows: there, all rows of a batch are as old as its last.
    """
    if stream is not None and stream.order != order:
        raise ValueError(
            f"the settings now need order {order}, but the stream was begun with order "
            f"{stream.order}; call partial_fit of a new estimator"
        )
    if half_life is not None:
        positive("half_life", half_life)
        if not is_dask(X):
            fading: Array = np.exp2(-np.arange(X.shape[0])[::-1] / half_life)
            if foreign(X):
                fading = as_like(to_numpy(fading), X, namespace(X).float64)
            weights = fading if weights is None else weights * fading
    batch = tensors_with_gaps(X, order, weights, noise)
    if stream is None:
        return batch
    if half_life is not None:
        stream = stream.copy().decay(float(np.exp2(-batch.count / half_life)))
    return stream + batch
