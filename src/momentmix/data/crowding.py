"""Rows that have neighbours, and rows that stand alone: a first guess of which are outliers.

The density at a row is about k / (p d^n), d being the distance to its k-th nearest neighbour. Among
p rows of a Gaussian none is much less dense than the row at the distance that is exceeded once in
p. What is beyond stands alone. Nothing is decided by that: it is where a fit that may set outliers
aside takes its coordinates from, and where it starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2
from sklearn.neighbors import NearestNeighbors

from momentmix.covariance import Full, Kind
from momentmix.data.content import DIGITS, by_distance
from momentmix.data.frame import Frame
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData

#: The neighbour whose distance is taken, and rows that are looked at.
NEIGHBOUR, MOST_ROWS = 10, 1000
#: Features up to which a tree finds neighbours sooner than all distances do.
TREE = 5
#: Nats of density by which clusters may differ before the wider one seems to stand alone.
SLACK = 2.0
#: Times that coordinates are taken from the rows that are left.
ROUNDS = 5


class Crowding(NamedTuple):
    """How lonely rows are, of large data a sample of them."""

    places: np.ndarray  # of the rows; (q,)
    loneliness: np.ndarray  # nats by which they are less dense than the last of a Gaussian; (q,)

    @classmethod
    def of(cls, X: np.ndarray, counts: np.ndarray | None = None) -> Crowding:
        """That of rows X (p, n) without gaps; ``counts`` (p,) are how often each counts.

        Distances are taken where the rows that are left are centred and white, so that units do
        not matter.
        """
        counts = np.ones(len(X)) if counts is None else counts
        places = np.arange(len(X))
        if len(X) > MOST_ROWS:
            order = by_distance((X - np.median(X, axis=0)) / _spreads(X))
            places = order[np.linspace(0, len(X) - 1, MOST_ROWS).astype(int)]
            X, counts = X[places], counts[places]
        left, found = np.arange(len(X)), cls(places, np.zeros(len(X)))
        for _ in range(ROUNDS):
            frame = Frame.of_samples(Full, X[left], counts[left] / counts[left].sum())
            found = cls(places, _loneliness(frame.apply(X), counts))
            before, left = left, np.flatnonzero(found._crowded)
            if len(left) == len(before):
                break
        return found

    def at(self, places: np.ndarray) -> Crowding:
        """The same rows at other places: row i at ``places[i]``."""
        return Crowding(places[self.places], self.loneliness)

    @property
    def _crowded(self) -> np.ndarray:
        return self.loneliness <= max(0.0, float(np.median(self.loneliness)))

    def crowded(self) -> np.ndarray:
        """The places of rows that do not stand alone, at least half of them."""
        return np.sort(self.places[self._crowded])

    def densest(self, share: float) -> np.ndarray:
        """The places of a share of the rows, those with the nearest neighbours."""
        order = np.lexsort((self.places, self.loneliness))
        return np.sort(self.places[order[: max(int(np.ceil(share * len(order))), 1)]])


def _loneliness(Z: np.ndarray, counts: np.ndarray) -> np.ndarray:
    p, n = Z.shape
    k = min(NEIGHBOUR, max(p // 10, 2), p)
    search = NearestNeighbors(n_neighbors=k, algorithm="kd_tree" if n <= TREE else "brute")
    distances, neighbours = search.fit(Z).kneighbors(Z)
    enough = np.cumsum(counts[neighbours], axis=1) >= k  # a row may count as its own neighbours
    place = np.where(enough.any(axis=1), enough.argmax(axis=1), k - 1)
    reach = distances[np.arange(p), place]
    if not np.any(reach > 0):
        return np.full(p, -1.0)
    logs = n * np.log(np.maximum(reach, reach[reach > 0].min()))
    usual = (chi2.isf(1 / max(p, 2), n) - chi2.median(n)) / 2
    # Of rounded rows many are as lonely as the median, and must not differ from it by rounding.
    return np.round(logs - np.median(logs) - usual - SLACK, DIGITS)


def _spreads(X: np.ndarray) -> np.ndarray:
    low, high = np.quantile(X, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)


def sheltered_frame(data: AtomData | ObservedData, kind: Kind) -> tuple[Frame, Crowding]:
    """Coordinates in which rows with neighbours are centred and scaled, whatever the others are.

    With them which rows these are.
    """
    if isinstance(data, AtomData):
        weights = data.weights
        crowding = Crowding.of(data.X, None if weights is None else weights * data.count)
        kept = crowding.crowded()
        shares = None if weights is None else weights[kept] / weights[kept].sum()
        return AtomData.of_rows(data.X[kept], shares).frame(kind), crowding
    filled = data.within(data.frame(kind)).X
    crowding = Crowding.of(filled, data.shares * data.count)
    kept = crowding.crowded()
    shares = data.shares[kept]
    part = ObservedData(data.table.take(kept), shares / shares.sum(), data.count * shares.sum())
    return part.frame(kind), crowding
