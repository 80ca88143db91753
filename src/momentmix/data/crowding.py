"""Rows that have neighbours, and rows that stand alone: a first guess of which are outliers.

The density at a row is about k / (p d^n), where d is the distance to its k-th nearest neighbour. In
p rows of a Gaussian, hardly any has a lower density than at the radius that one row in p exceeds.
A row with a lower density stands alone. This decides nothing: it only gives a fit with
``outliers`` its coordinates and its start.
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

#: Which neighbour's distance is used, and how many rows of a larger table are looked at (a sample
#: keeps the O(p²) distances cheap). Round numbers that were not tuned.
NEIGHBOUR, MOST_ROWS = 10, 1000
#: With at most this many features, neighbours are found with a tree instead of all distances. The
#: value was not tuned and affects only speed.
TREE = 5
#: How many nats lower than usual the log density of a cluster may be before its rows count as
#: standing alone. A round number, not tuned; it affects only coordinates and starts of fits.
SLACK = 2.0
#: How often, at most, the coordinates are computed anew from the rows that do not stand alone. A
#: round number: it bounds a loop that usually ends by itself.
ROUNDS = 5


class Crowding(NamedTuple):
    """How lonely rows are; for large data, a sample of the rows."""

    places: np.ndarray  # positions of the rows; (q,)
    loneliness: np.ndarray  # nats by which their density is below a Gaussian's outermost row; (q,)

    @classmethod
    def of(cls, X: np.ndarray, counts: np.ndarray | None = None) -> Crowding:
        """Compute it for rows X (p, n) without gaps; ``counts`` (p,) are how often each counts.

        Distances are measured in coordinates in which the rows that do not stand alone are centred
        and white, so units do not matter.
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

    def in_a_crowd(self) -> np.ndarray:
        """The positions of the rows that do not stand alone; at least half of all rows."""
        return np.sort(self.places[self._crowded])

    def densest(self, share: float) -> np.ndarray:
        """The positions of the given share of rows that have the nearest neighbours."""
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


def frame_without_outliers(data: AtomData | ObservedData, kind: Kind) -> tuple[Frame, Crowding]:
    """Coordinates that centre and scale the rows with neighbours, wherever the other rows lie.

    The second result says which rows these are.
    """
    if isinstance(data, AtomData):
        weights = data.weights
        crowding = Crowding.of(data.X, None if weights is None else weights * data.count)
        kept = crowding.in_a_crowd()
        shares = None if weights is None else weights[kept] / weights[kept].sum()
        return AtomData.of_rows(data.X[kept], shares).frame(kind), crowding
    filled = data.within(data.frame(kind)).X
    crowding = Crowding.of(filled, data.shares * data.count)
    kept = crowding.in_a_crowd()
    shares = data.shares[kept]
    part = ObservedData(data.table.take(kept), shares / shares.sum(), data.count * shares.sum())
    return part.frame(kind), crowding
