"""Standard errors of the values of a table, as densities want them."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import one_for_each_row


def noise_of_errors(errors: np.ndarray) -> np.ndarray:
    """Standard errors (p, n) as a ``noise_covariance`` with one covariance for each row."""
    return one_for_each_row(np.square(errors), errors.shape[1])
