"""Error bars of the values of a table, as the noise covariances that densities take."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import one_for_each_row


def noise_of_errors(errors: np.ndarray) -> np.ndarray:
    """Error bars (p, n), which are standard deviations, as a ``noise_covariance`` of each row."""
    return one_for_each_row(np.square(errors), errors.shape[1])
