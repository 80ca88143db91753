"""Directions in which rows fall apart: those of least fourth moment.

Whitened rows have the same variance in every direction, so variances do not show clusters. Fourth
moments do: E (aᵀz)⁴ is 3 if z is Gaussian, and less if it has two clusters side by side, down to 1
for two points. They depend neither on units nor on axes.
"""

from __future__ import annotations

import numpy as np

from momentmix.data.content import DIGITS

#: The number of starts of the descent for one direction, and its most steps. In 59 of 60 data sets
#: with 20 and 40 features, eight starts of 40 steps found a direction that separates the clusters.
STARTS, STEPS = 8, 40
#: Fourth moments are those of about this many rows. Their standard error is then √(96/3000) = 0.18
#: for Gaussian rows, small beside the difference of 2 that clusters can make. It limits time.
MOST_ROWS = 3000


def flattest_directions(X: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Directions of least fourth moment, each uncorrelated with those before it; (count, n).

    X (p, n) with weights (p,) of sum 1. X @ result.T has variances of 1 and no correlations; there
    are fewer directions than asked for if X varies in fewer. O(count · STEPS · STARTS · n p).
    """
    step = max(1, len(X) // MOST_ROWS)
    X, weights = X[::step], weights[::step] / weights[::step].sum()
    X = X - weights @ X
    whitener = whitener_of(X, weights)
    Z = X @ whitener
    # E ‖z‖² zzᵀ has them as eigenvectors where clusters are far apart and features are few.
    squares = np.einsum("ij,ij->i", Z, Z)
    starts = np.linalg.eigh((Z * (weights * squares)[:, None]).T @ Z)[1].T[:STARTS]
    found = np.zeros((0, Z.shape[1]))
    for _ in range(min(count, Z.shape[1])):
        found = np.vstack([found, _flattest(Z, weights, starts, found)])
    return np.asarray(found @ whitener.T)


def whitener_of(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A matrix (n, r) with which centred rows are uncorrelated, in the r directions they have."""
    if len(X) < X.shape[1]:  # without a matrix of all features by all
        _, roots, across = np.linalg.svd(X * np.sqrt(weights)[:, None], full_matrices=False)
        values, vectors = roots[::-1] ** 2, across[::-1].T
    else:
        values, vectors = np.linalg.eigh((X * weights[:, None]).T @ X)
    kept = values > 1e-9 * max(values[-1], 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _flattest(
    Z: np.ndarray, weights: np.ndarray, starts: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """The unit vector a of least E (aᵀz)⁴ that descents from some starts find; (n,).

    It is orthogonal to those before. A step goes down the gradient on the sphere, from which the
    Gaussian part is subtracted: a - (E (aᵀz)³ z - 3a), normalised.
    """
    A = starts - starts @ before.T @ before
    sizes = np.linalg.norm(A, axis=1, keepdims=True)
    A = A[sizes[:, 0] > 1e-6] / sizes[sizes[:, 0] > 1e-6]
    for _ in range(STEPS):
        P = Z @ A.T
        cubes = P * P
        cubes *= P
        step = 4 * A - (cubes * weights[:, None]).T @ Z
        step -= step @ before.T @ before
        size = np.linalg.norm(step, axis=1, keepdims=True)
        last, A = A, np.where(size > 1e-9, step / np.maximum(size, 1e-300), A)
        if np.max(np.abs(A - last)) < 1e-3:
            break
    fourths = weights @ (Z @ A.T) ** 4
    return np.asarray(A[np.argmin(np.round(fourths, DIGITS))])
