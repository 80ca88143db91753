"""Check the rows that users pass for sums, with their weights and their noise."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance, Zero
from momentmix.covariance import noise_covariance as checked_noise
from momentmix.moments.atoms import Atoms
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    as_float_array,
    can_be_written,
    like,
    namespace,
    on_accelerator,
)


def row_atoms(
    X: ArrayLike, weights: ArrayLike | None, noise_covariance: ArrayLike | None, n: int
) -> Atoms:
    """Rows (p, n) as atoms with weights 1.0 or (p,) and minus the noise as their covariance."""
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
