"""Moments of rows with gaps: each averages over different rows, so together they may make no sense.

With gaps in different rows, the moments of pairs can contradict each other: a correlates with b, b
with c, and a with the opposite of c, each in rows of its own. No distribution has such moments, and
a mixture fitted to them means nothing.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from momentmix.blocks.dask_rows import DaskRows, DaskTable, DaskWeights, is_dask
from momentmix.blocks.rows import BlockRows
from momentmix.distributions.centred_sums import GapsError, Missing
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.support.array import Array, ArrayLike
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.moment_matrix import least_eigenvalue, moment_matrix
from momentmix.tensors.packed import total_size

#: The largest moment matrix whose eigenvalues are computed; with more monomials, the check uses a
#: lower degree. A round number that was not tuned: it bounds the cost, O(K³).
MOST_MONOMIALS = 1000
#: A negative eigenvalue below this share of the trace counts as rounding. A round number between
#: float64's 1e-16 and eigenvalues that would matter; it was not tuned.
ROUNDING = 1e-9


def tensors_with_gaps(
    X: ArrayLike | DaskTable | BlockRows,
    order: int,
    weights: ArrayLike | DaskWeights | None = None,
    noise_covariance: ArrayLike | None = None,
) -> MomentTensors:
    """The moments of rows, pairwise if there turn out to be gaps.

    Rows in blocks need one pass, and blocks without gaps cost no more than usual.
    """
    if is_dask(X):
        X = DaskRows(X, weights, noise_covariance)
    if isinstance(X, BlockRows):
        return X.total(_of_block, order)
    return _of_block(X, weights, order, noise_covariance)


def _of_block(
    X: ArrayLike,
    weights: ArrayLike | None,
    order: int,
    noise_covariance: ArrayLike | None = None,
) -> MomentTensors:
    def made(missing: Missing) -> MomentTensors:
        noise = noise_covariance if cast(Array, X).shape[0] else None
        return MomentTensors.from_samples(
            X, order, weights, noise_covariance=noise, missing=missing
        )

    try:
        return made("error")
    except GapsError:
        return made("pairwise")


def check_gaps(moments: MomentTensors) -> None:
    """Refuse moments that no distribution has; only rows with gaps can have such moments.

    E[φφᵀ] must be positive semidefinite for the monomials φ up to half the order, in centred and
    scaled coordinates. If these are too many, the check takes a lower degree, at least the first,
    which is the covariance.
    """
    if moments.missing == "error" or np.all(moments.presence >= 1):
        return
    n, degree = moments.n_features, moments.order // 2
    while degree > 1 and total_size(n, degree) > MOST_MONOMIALS:
        degree -= 1
    matrix = moment_matrix(_scale(moments, 2 * degree), n, degree)
    lowest = least_eigenvalue(matrix)
    if lowest >= -ROUNDING * len(matrix):
        return
    at = int(np.argmin(moments.presence))
    name = f"column {at}" if moments.feature_names is None else repr(moments.feature_names[at])
    raise ValueError(
        "these moments are averages over different rows, because of gaps, and no distribution has "
        f"them: the matrix of scaled moments up to order {2 * degree} has the eigenvalue "
        f"{lowest:.3g}, where none may be negative. There are too many gaps, or they are too "
        f"uneven. Leave out the rows with gaps, or {name}, which has a value in "
        f"{100 * moments.presence[at]:.3g} % of the rows; or fit rows in memory with "
        "GaussianMixture, which needs no moments"
    )


def _scale(moments: MomentTensors, order: int) -> np.ndarray:
    """Packed moments up to an order about the mean, with features of variance 1."""
    n, centre = moments.n_features, moments.mean
    packed = moments.about(centre)[: total_size(n, order)]
    if order < 2:
        return packed
    variances = np.diag(moments.covariance)
    factors = 1 / np.sqrt(np.where(variances > 0, variances, 1.0))
    scale = [np.prod(factors[packed_indices(n, k)], axis=1) for k in range(order + 1)]
    return packed * np.concatenate(scale)
