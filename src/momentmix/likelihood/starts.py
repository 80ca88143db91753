"""Where EM starts without moments: at the clusters of k-means, and around random rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from momentmix.data.content import DIGITS
from momentmix.data.parameters import Parameters
from momentmix.likelihood.rows import RowLikelihood
from momentmix.matching.starts import random_points, spread_points
from momentmix.support.parallel import single_threaded_openmp

#: Which starts there are to be: several kinds, or one by the name that scikit-learn gives it.
InitParams: TypeAlias = Literal["auto", "kmeans", "k-means++", "random", "random_from_data"]


def plain_starts(
    likelihood: RowLikelihood,
    m: int,
    rng: np.random.Generator,
    init: InitParams = "auto",
    sheltered: bool = False,
) -> Iterator[Parameters]:
    """Starts of EM without end, of one kind; for "auto" k-means twice, then around random rows.

    Distances are taken in the features' own units and in those of the fit, in turn: a full
    covariance makes all directions alike, and hides clusters that the features show. Where some
    rows may belong to no component (or ``sheltered``), starts are made from the others: by turns
    from all that have neighbours, and from the denser part of the rows.
    """
    sheltered = sheltered or likelihood.background is not None
    parts = likelihood.crowds if sheltered else [likelihood]
    views = [_views(part) for part in parts]
    for i in count():
        kind = ("kmeans" if i < 2 else "random_from_data") if init == "auto" else init
        part, seen = parts[i % len(parts)], views[i % len(parts)]
        yield STARTS[kind](part, seen[(i // len(parts)) % len(seen)], m, rng)


def _views(likelihood: RowLikelihood) -> list[np.ndarray]:
    views = [likelihood.X]
    if likelihood.to_features is not None:
        views.insert(0, likelihood.X @ likelihood.to_features)
    return [np.round(view, DIGITS) for view in views]


def cluster_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """One M-step from the clusters of k-means: where scikit-learn's EM starts."""
    p = likelihood.weights
    uniform = bool(np.all(p == p[0]))
    return likelihood.from_responsibilities(kmeans_labels(X, None if uniform else p, m, rng))


def spread_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """Around rows that k-means++ has drawn, far from each other."""
    return nearest_start(likelihood, X, spread_points(X, likelihood.weights, m, rng))


def random_row_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """Around rows drawn at random."""
    return nearest_start(likelihood, X, random_points(X, likelihood.weights, m, rng))


def random_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """One M-step from random responsibilities, the means then moved apart.

    They differ by 1/√p at first, where EM gains next to nothing and would stop; so their spread is
    made that of the rows, which is 1.
    """
    R = rng.uniform(size=(len(X), m))
    start = likelihood.from_responsibilities(R / R.sum(axis=1, keepdims=True))
    apart = start.means - start.means.mean(axis=0)
    size = np.sqrt(np.mean(apart**2))
    return start._replace(means=start.means + apart * (1 / size - 1 if size > 0 else 0.0))


#: A start from rows X (p, n), which are the likelihood's own in some units.
PlainStart: TypeAlias = Callable[[RowLikelihood, np.ndarray, int, np.random.Generator], Parameters]
STARTS: dict[InitParams, PlainStart] = {
    "kmeans": cluster_start,
    "k-means++": spread_start,
    "random": random_start,
    "random_from_data": random_row_start,
}
INIT_PARAMS: tuple[InitParams, ...] = ("auto", *STARTS)


def nearest_start(likelihood: RowLikelihood, X: np.ndarray, points: np.ndarray) -> Parameters:
    """One M-step from the rows nearest to each of some points."""
    square = np.sum(points * points, axis=1) - 2 * (X @ points.T)
    nearest = np.argmin(np.round(square, DIGITS), axis=1)
    R = (nearest[:, None] == np.arange(len(points))).astype(float)
    return likelihood.from_responsibilities(R)


def kmeans_labels(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Clusters of one run of k-means, as responsibilities (p, m)."""
    seed = int(rng.integers(2**31))
    if len(X) <= m:  # a cluster each, and none for the rest
        return np.eye(len(X), m)
    with warnings.catch_warnings(), single_threaded_openmp():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        labels = KMeans(m, n_init=1, random_state=seed).fit(X, sample_weight=weights).labels_
    return (labels[:, None] == np.arange(m)).astype(float)
