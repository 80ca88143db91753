"""Noise of known covariance: its variance if that must be estimated, and coordinates for it.

In these coordinates the noise is spherical, and a fit needs only its variance.
"""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance, Spherical
from momentmix.data.frame import Frame
from momentmix.support.array import to_numpy
from momentmix.support.warnings import warn_user


def trailing_variance(covariance: np.ndarray, r: int, p: float) -> float:
    """The variance of spherical noise, from the directions in which the means do not differ.

    The r leading directions are fitted to the means, so the others have (n - r)(p - 1 - r) degrees
    of freedom.
    """
    # A constant feature has no noise, and tells nothing about that of the others.
    varying = np.diag(covariance) > 0
    covariance = covariance[np.ix_(varying, varying)]
    n = len(covariance)
    if n <= r:
        raise ValueError(
            f"covariance='estimate' needs more features than n_components - 1 = {r}, and {n} vary: "
            "noise shows where the means do not differ; give covariance as a number"
        )
    if p <= r + 2:
        raise ValueError(
            f"covariance='estimate' needs more than n_components + 1 = {r + 2} samples, got {p:.0f}"
        )
    values = np.linalg.eigvalsh(covariance)
    trailing = float(np.sum(values[: n - r]))
    if trailing <= 1e-14 * n * values[-1]:
        raise ValueError(
            "covariance='estimate' found no noise: the data lie in the subspace of their means; "
            "give covariance as a number"
        )
    correction = 1.0 if np.isinf(p) else p / (p - 1 - r)
    return trailing * correction / (n - r)


def check_size(noise: Covariance, covariance: np.ndarray, p: float) -> None:
    """Warn if the given noise has a larger variance than the data."""
    own, said = np.diag(covariance), np.diag(to_numpy(noise.matrices())[0])
    ratios = own[said > 0] / said[said > 0]
    sampling = 0.0 if np.isinf(p) else 6 * np.sqrt(2 / p)
    if len(ratios) and np.min(ratios) < 1 - sampling:
        warn_user(
            "the covariance of the noise is larger than that of the data: one feature has only "
            f"{np.min(ratios):.3g} times the variance of its noise; is it a variance, not a "
            "standard deviation, and in the unit of the data?",
            UserWarning,
        )


def noise_frame(
    noise: Covariance, definite: bool, centre: np.ndarray, covariance: np.ndarray
) -> tuple[Frame, float]:
    """Centred coordinates in which the noise is spherical, and its variance there.

    The unit is such that the data have variance 1 on average. Singular noise is left as it is, and
    the variance that is returned has no meaning.
    """
    if not definite:
        return Frame(Spherical, centre, covariance), 0.0
    matrix = to_numpy(noise.matrices())[0]
    ratio = float(np.mean(np.diag(covariance) / np.diag(matrix)))
    ratio = max(ratio, 1e-3)  # data can hardly vary less than their noise
    return Frame(noise.kind, centre, ratio * matrix), 1 / ratio
