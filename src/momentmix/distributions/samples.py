"""Samples: rows as a distribution of equal or weighted points.

Known noise can be taken out of it. The rows that users pass for sums are checked here, with their
weights and their noise.
"""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance, Zero
from momentmix.covariance import noise_covariance as checked_noise
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.functions import AtomDistribution
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    as_float_array,
    can_be_written,
    frozen_copy,
    like,
    namespace,
    on_accelerator,
    read_only_view,
    refuse_graph,
    to_numpy,
)
from momentmix.tensors.dense import dense_moment


def row_atoms(
    X: ArrayLike, weights: ArrayLike | None, noise_covariance: ArrayLike | None, n: int
) -> Atoms:
    """Rows (p, n) as atoms with weights 1.0 or (p,) and minus the noise as their covariance."""
    refuse_graph("MomentTensors (through Samples they do)", X, weights, noise_covariance)
    rows = as_float_array(X, "X", (2,))
    if rows.shape[1] != n:
        raise ValueError(f"X has {rows.shape[1]} column(s), but these moments have {n} features")
    row_weights: Array | float = 1.0
    if weights is not None:
        row_weights = _check_weights(like(weights, rows), rows)
    noise: Covariance = Zero(n)
    if noise_covariance is not None:
        noise = checked_noise(like(noise_covariance, rows), int(rows.shape[0]), n).negative()
    atoms = Atoms(row_weights, rows, noise)
    # Sums are made in memory that is used again, which takes writes.
    return atoms if can_be_written(rows) or on_accelerator(rows) else atoms.on(np.empty(0))


def _check_weights(weights: ArrayLike, X: Array) -> Array:
    checked = as_float_array(weights, "weights", (1,))
    xp = namespace(X, checked)
    if checked.shape[0] != X.shape[0]:
        raise ValueError(f"weights has {checked.shape[0]} entries for {X.shape[0]} rows of X")
    if not all_finite(checked) or bool(xp.any(checked < 0)):
        raise ValueError("weights must be finite and not negative")
    return checked


class Samples(AtomDistribution):
    """The empirical distribution of the rows of X, with optional weights and known noise.

    Give it to :func:`momentmix.inner` and the other functions of moments, to compare data with a
    mixture or with other data. Its moment of order d is the mean of x_i^{⊗d} over the rows.

    Parameters
    ----------
    X : array of shape (p, n)
        The rows are samples. X is not copied: do not change it while this object is in use.
    weights : array of shape (p,), optional
        The share of each row: not negative, with sum 1. By default all rows count alike.
    noise_covariance : scalar or array, optional
        The covariance of Gaussian noise in the rows, which is then taken out of all moments. Noise
        common to all rows is a scalar (one variance), n variances, or an (n, n) matrix. One for
        each row has the shape (p,), (p, n) or (p, n, n). Where p = n, arrays of one or two
        dimensions are read as common noise.

    See Also
    --------
    MomentTensors : The moments of rows that are not kept.
    debiased_moment : The moment tensor with the noise taken out.

    Notes
    -----
    If X = Y + noise, with independent noise of covariance N, the moments with
    ``noise_covariance=N`` have the moments of Y as their expectation: Theorem 5.1 of Pereira,
    Kileel and Kolda (arXiv:2202.06930). In formulas the rows are then Gaussians of covariance -N.

    Examples
    --------
    >>> from momentmix import Samples
    >>> Samples([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], noise_covariance=0.5)
    Samples(3 × 2, float64, noise_covariance=spherical)
    """

    def __init__(
        self,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        noise_covariance: ArrayLike | None = None,
    ) -> None:
        X = as_float_array(X, "X", (2,))
        p, n = (int(k) for k in X.shape)
        if p == 0 or n == 0:
            raise ValueError(f"X must have at least one row and one column, got shape {(p, n)}")
        if not all_finite(X):
            raise ValueError("X must be finite, but holds NaN or infinity; drop or fill those rows")
        self.X = read_only_view(X)
        self.weights: Array | None = None
        if weights is not None:
            weights = as_float_array(like(weights, X), "weights", (1,))
            namespace(X, weights)
            self.weights = frozen_copy(check_weights(weights, p, "samples"))
        covariance: Covariance = Zero(n)
        if noise_covariance is not None:
            covariance = checked_noise(like(noise_covariance, X), p, n)
            namespace(X, covariance.array)
        self._noise = covariance
        self._atoms = Atoms(
            1.0 / p if self.weights is None else self.weights, self.X, covariance.negative()
        )

    @property
    def n_samples(self) -> int:
        """The number of rows, p."""
        return int(self.X.shape[0])

    @property
    def noise_covariance(self) -> Array | None:
        """The noise covariance, or None.

        Its shape is spherical (1 or p,), diag (1 or p, n), tied (n, n) or full (p, n, n).
        """
        array: Array | None = self._noise.array
        return array

    def moment(self, order: int) -> Array:
        """The moment tensor of one order, as an array of shape (n,) * order.

        See :func:`momentmix.dense_moment`.
        """
        return dense_moment(self, order)

    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        """Label the derivatives by parameter: weights, X, noise covariance."""
        return Gradient(weights, means, None if covariances is None else -covariances)

    def __repr__(self) -> str:
        parts = [f"{self.n_samples} × {self.n_features}", str(self.X.dtype).rpartition(".")[2]]
        if self.weights is not None:
            w = to_numpy(self.weights)
            parts.append(f"weighted, effective size {1 / float(np.sum(w * w)):.1f}")
        if not self._noise.zero:
            parts.append(f"noise_covariance={self._noise.name}")
        return f"Samples({', '.join(parts)})"


def debiased_moment(X: ArrayLike, covariance: ArrayLike, order: int) -> Array:
    """The moment tensor of signals that are seen through Gaussian noise of known covariance.

    If X = Y + noise, the result estimates the moment of Y without bias, from X alone.

    Parameters
    ----------
    X : array of shape (p, n)
        The rows are noisy samples.
    covariance : scalar or array
        The covariance of the noise, in any shape that ``noise_covariance`` of :class:`Samples`
        takes.
    order : int
        The order d of the moment.

    Returns
    -------
    array of shape (n,) * order

    See Also
    --------
    Samples : ``Samples(X, noise_covariance=covariance)`` has this moment without forming it.
    symmetric_cp : Decomposes such a moment into vectors.

    Notes
    -----
    T̂ = (1/p) Σ_i Σ_k C_{d,k} (-1)^k sym(x_i^{⊗d-2k} ⊗ Σ^{⊗k}), Theorem 5.1 of Pereira, Kileel and
    Kolda (arXiv:2202.06930).

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import debiased_moment
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))  # noise of variance 1, and no signal
    >>> bool(np.all(np.abs(debiased_moment(X, 1.0, 2)) < 0.2))
    True
    """
    return dense_moment(Samples(X, noise_covariance=covariance), order)


def check_weights(weights: Array, count: int, what: str) -> Array:
    """Check that weights (count,) are finite, not negative, and sum to 1 up to rounding."""
    xp = namespace(weights)
    if tuple(weights.shape) != (count,):
        raise ValueError(
            f"weights must have shape ({count},), one for each of the {count} {what}, "
            f"but have shape {tuple(weights.shape)}"
        )
    if not all_finite(weights):
        raise ValueError("weights must be finite, but hold NaN or infinity")
    if bool(xp.any(weights < 0)):
        raise ValueError(
            f"weights must not be negative, but the least is {float(xp.min(weights)):g}"
        )
    total = float(xp.sum(weights))
    eps = float(xp.finfo(weights.dtype).eps)
    if abs(total - 1) > max(1e-8, (10 + count) * eps):
        raise ValueError(
            f"weights must sum to 1, but sum to {total:.10g}; divide them by their sum"
        )
    return weights
