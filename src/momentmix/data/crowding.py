"""Rows that have neighbours, and rows that stand alone: a first guess of which are outliers.

The density at a row is about k / (p d^n), d being the distance to its k-th nearest neighbour. Among
p rows of a Gaussian none is much less dense than the row at the distance that is exceeded once in
p. What is beyond stands alone. Nothing is decided by that: it is where a fit that may set outliers
aside takes its coordinates from, and where it starts.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2
from sklearn.neighbors import NearestNeighbors

from momentmix.covariance import Full
from momentmix.data.content import by_distance
from momentmix.data.frame import Frame

#: The neighbour whose distance is taken, and rows that are looked at.
NEIGHBOUR, MOST_ROWS = 10, 5000
#: Nats of density by which clusters may differ before the wider one seems to stand alone.
SLACK = 2.0
#: Times that coordinates are taken from the rows that are left.
ROUNDS = 5


def crowded_rows(X: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """The places of rows with neighbours, at least half of those looked at; of large data a sample.

    X (p, n) without gaps; ``counts`` (p,) are how often rows count, by default once. Distances are
    taken where the rows that are left are centred and white, so units do not matter.
    """
    counts = np.ones(len(X)) if counts is None else counts
    looked_at = np.arange(len(X))
    if len(X) > MOST_ROWS:
        order = by_distance((X - np.median(X, axis=0)) / _spreads(X))
        looked_at = order[np.linspace(0, len(X) - 1, MOST_ROWS).astype(int)]
        X, counts = X[looked_at], counts[looked_at]
    left = np.arange(len(X))
    for _ in range(ROUNDS):
        frame = Frame.of_samples(Full, X[left], counts[left] / counts[left].sum())
        alone = _loneliness(frame.apply(X), counts)
        before, left = left, np.flatnonzero(alone <= max(0.0, float(np.median(alone))))
        if len(left) == len(before):
            break
    return looked_at[left]


def _loneliness(Z: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How many nats less dense than is usual each row's place is, above 0 for one that is alone."""
    p, n = Z.shape
    k = min(NEIGHBOUR, max(p // 10, 2), p)
    distances, neighbours = NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(Z)
    enough = np.cumsum(counts[neighbours], axis=1) >= k
    place = np.where(enough.any(axis=1), enough.argmax(axis=1), k - 1)
    reach = distances[np.arange(p), place]
    if not np.any(reach > 0):
        return np.full(p, -1.0)
    logs = n * np.log(np.maximum(reach, reach[reach > 0].min()))
    usual = (chi2.isf(1 / max(p, 2), n) - chi2.median(n)) / 2
    return np.asarray(logs - np.median(logs) - usual - SLACK)


def _spreads(X: np.ndarray) -> np.ndarray:
    low, high = np.quantile(X, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)
