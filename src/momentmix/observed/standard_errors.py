"""Standard errors of the values of a table, as densities want them."""

from __future__ import annotations

import numpy as np


def noise_of_errors(errors: np.ndarray) -> np.ndarray:
    """Standard errors (p, n) as a ``noise_covariance`` with one covariance for each row.

    These are variances (p, n), unless p is n: an (n, n) array would be one matrix for all rows, so
    that each row then has a matrix of its own.
    """
    variances = np.square(errors)
    p, n = variances.shape
    return np.asarray(variances[:, :, None] * np.eye(n)) if p == n else variances
