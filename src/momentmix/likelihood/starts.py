"""Where EM starts without moments: at the clusters of k-means, and around random rows.

K-means asks which rows are near each other, and that depends on the coordinates. No coordinates are
best for all data: whitening hides clusters that single features show, standardising hides clusters
that stand out in common units, and a user's units may mean nothing. So the first starts run
k-means in several kinds of coordinates in turn, one of them the directions of least fourth moment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from momentmix.data.content import DIGITS
from momentmix.data.parameters import Parameters
from momentmix.likelihood.directions import flattest_directions
from momentmix.likelihood.rows import RowLikelihood
from momentmix.matching.starts import random_points, spread_points
from momentmix.support.parallel import single_threaded_openmp

#: The kind of start: "auto" for several, one by the name that scikit-learn gives it, or "moments",
#: which is not made here.
InitParams: TypeAlias = Literal[
    "auto", "kmeans", "k-means++", "random", "random_from_data", "moments"
]
#: The largest share of a feature's variance that is put down to two clusters. A column with two
#: values has the share 1, which would divide by zero. This is a round number that was not tuned.
MOST_BETWEEN = 0.9
#: K-means runs on about CLUSTERED rows, or ROWS_EACH per cluster if that is more. These are round
#: numbers that were not tuned; they limit time, and EM uses all rows afterwards.
CLUSTERED, ROWS_EACH = 2000, 100
#: K-means runs in at most this many directions of least fourth moment, because many directions
#: hide clusters just as all features do. This is a round number that was not tuned.
MOST_DIRECTIONS = 4


def plain_starts(
    likelihood: RowLikelihood,
    m: int,
    rng: np.random.Generator,
    init: InitParams = "auto",
    sheltered: bool = False,
) -> Iterator[Parameters]:
    """Endless starts of EM of one kind; "auto" is k-means in each view, then random rows.

    If some rows may belong to no component (or if ``sheltered``), starts leave out probable
    outliers. They use the denser part of the rows and all rows with neighbours in turn.
    """
    sheltered = sheltered or likelihood.background is not None
    parts = likelihood.crowds if sheltered else [likelihood]
    views = [views_of(part, m) for part in parts]
    for i in count():
        part, seen = parts[i % len(parts)], views[i % len(parts)]
        turn = i // len(parts)
        kind = ("kmeans" if turn < len(seen) else "random_from_data") if init == "auto" else init
        yield STARTS[kind](part, seen[turn % len(seen)](), m, rng)


def views_of(likelihood: RowLikelihood, m: int) -> list[Callable[[], np.ndarray]]:
    """The rows in several kinds of coordinates, each made when it is first used; (p, any).

    They are features in units of their standard deviations; the directions of least fourth moment,
    of which m clusters need m - 1; features in units of the deviation within each of two clusters;
    and the coordinates of the fit, if they differ. If the distance of two clusters makes up the
    share r of a variance, the fourth moment is 3 - 2r², which gives r.
    """

    def features() -> np.ndarray:
        A = likelihood.to_features
        return likelihood.X if A is None else likelihood.X @ A

    def standardised() -> np.ndarray:
        U = features()
        spread = np.sqrt(likelihood.weights @ (U - likelihood.weights @ U) ** 2)
        return np.asarray(U / np.where(spread > 0, spread, 1.0))

    def unfolded() -> np.ndarray:
        U = standardised()
        fourths = likelihood.weights @ (U - likelihood.weights @ U) ** 4
        between = np.sqrt(np.clip((3 - fourths) / 2, 0, MOST_BETWEEN**2))
        return np.asarray(U / np.sqrt(1 - between))

    def flat() -> np.ndarray:
        A = flattest_directions(likelihood.X, likelihood.weights, min(m - 1, MOST_DIRECTIONS))
        return likelihood.X @ A.T

    views: list[Callable[[], np.ndarray]] = [standardised]
    if likelihood.X.shape[1] > 1:
        views += [flat] if m > 1 else []
        views += [unfolded]
        views += [lambda: likelihood.X] if likelihood.to_features is not None else []
    return [cache(lambda view=view: np.round(view(), DIGITS)) for view in views]


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
    """A start around rows that k-means++ draws far from each other."""
    return nearest_start(likelihood, X, spread_points(X, likelihood.weights, m, rng))


def random_row_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """A start around rows drawn at random."""
    return nearest_start(likelihood, X, random_points(X, likelihood.weights, m, rng))


def random_start(
    likelihood: RowLikelihood, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """One M-step from random responsibilities, after which the means are moved apart.

    At first the means differ by about 1/√p, so EM would gain next to nothing and stop. They are
    scaled to have the spread of the rows, which is 1.
    """
    R = rng.uniform(size=(len(X), m))
    start = likelihood.from_responsibilities(R / R.sum(axis=1, keepdims=True))
    apart = start.means - start.means.mean(axis=0)
    size = np.sqrt(np.mean(apart**2))
    return start._replace(means=start.means + apart * (1 / size - 1 if size > 0 else 0.0))


#: Makes a start from rows X (p, n), which are those of the likelihood in some coordinates.
PlainStart: TypeAlias = Callable[[RowLikelihood, np.ndarray, int, np.random.Generator], Parameters]
STARTS: dict[InitParams, PlainStart] = {
    "kmeans": cluster_start,
    "k-means++": spread_start,
    "random": random_start,
    "random_from_data": random_row_start,
}
INIT_PARAMS: tuple[InitParams, ...] = ("auto", *STARTS, "moments")


def nearest_start(likelihood: RowLikelihood, X: np.ndarray, points: np.ndarray) -> Parameters:
    """One M-step from the rows nearest to each of some points."""
    square = np.sum(points * points, axis=1) - 2 * (X @ points.T)
    nearest = np.argmin(np.round(square, DIGITS), axis=1)
    R = (nearest[:, None] == np.arange(len(points))).astype(float)
    return likelihood.from_responsibilities(R)


def kmeans_labels(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Clusters of one run of k-means, as responsibilities (p, m).

    It fits the centres to a part of the rows if they are many; EM uses all of them afterwards.
    """
    seed = int(rng.integers(2**31))
    if len(X) <= m:  # one cluster for each row; the rest stay empty
        return np.eye(len(X), m)
    step = max(1, len(X) // max(CLUSTERED, ROWS_EACH * m))
    with warnings.catch_warnings(), single_threaded_openmp():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        some = None if weights is None else weights[::step]
        means = KMeans(m, n_init=1, random_state=seed).fit(X[::step], sample_weight=some)
        labels = means.predict(X) if step > 1 else means.labels_
    return (labels[:, None] == np.arange(m)).astype(float)
