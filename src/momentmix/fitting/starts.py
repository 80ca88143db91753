"""Starts of EM without moments: the clusters of k-means, and random rows.

K-means asks which rows are near each other, and that depends on the coordinates. No coordinates are
best for all data: whitening hides clusters that single features show, standardising hides clusters
that stand out in common units, and a user's units may mean nothing. So the first starts run
k-means in several kinds of coordinates in turn.

One of them are the directions in which rows fall apart. Whitened rows have the same variance in
every direction, so variances do not show clusters. Fourth moments do: E (aᵀz)⁴ is 3 if z is
Gaussian, and less if it has two clusters side by side, down to 1 for two points. They depend
neither on units nor on axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import TypeAlias

import numpy as np

from momentmix.fit import DIGITS, Parameters
from momentmix.fitting.em import LikelihoodHere, from_responsibilities, part_of
from momentmix.fitting.plan import InitParams
from momentmix.rows.memory import MemoryRows, random_points, spread_points

#: The number of starts of the descent for one direction, and its most steps. In 59 of 60 data sets
#: with 20 and 40 features, eight starts of 40 steps found a direction that separates the clusters.
DESCENTS, STEPS = 8, 40
#: Fourth moments are those of about this many rows. Their standard error is then √(96/3000) = 0.18
#: for Gaussian rows, small beside the difference of 2 that clusters can make. It limits time.
MOST_ROWS = 3000


def flattest_directions(X: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray:
    """Directions of least fourth moment, each uncorrelated with those before it; (count, n).

    X (p, n) with weights (p,) of sum 1. X @ result.T has variances of 1 and no correlations; there
    are fewer directions than asked for if X varies in fewer. O(count · STEPS · DESCENTS · n p).
    """
    step = max(1, len(X) // MOST_ROWS)
    X, weights = X[::step], weights[::step] / weights[::step].sum()
    X = X - weights @ X
    whitener = whitener_of(X, weights)
    Z = X @ whitener
    # E ‖z‖² zzᵀ has them as eigenvectors where clusters are far apart and features are few.
    squares = np.einsum("ij,ij->i", Z, Z)
    starts = np.linalg.eigh((Z * (weights * squares)[:, None]).T @ Z)[1].T[:DESCENTS]
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


#: The largest share of a feature's variance that is put down to two clusters. A column with two
#: values has the share 1, which would divide by zero. This is a round number that was not tuned.
MOST_BETWEEN = 0.9
#: K-means runs on about CLUSTERED rows, or ROWS_EACH per cluster if that is more. These are round
#: numbers that were not tuned; they limit time, and EM uses all rows afterwards.
CLUSTERED, ROWS_EACH = 2000, 100
#: The most rounds of k-means, as in scikit-learn; they seldom come near it.
MOST_ROUNDS = 300
#: K-means runs in at most this many directions of least fourth moment, because many directions
#: hide clusters just as all features do. This is a round number that was not tuned.
MOST_DIRECTIONS = 4
#: If some rows may be outliers, every second start uses only this share of the rows, the densest.
#: This is a round number that was not tuned; larger shares of outliers get into those starts.
DENSE = 0.75


def plain_starts(
    likelihood: LikelihoodHere,
    m: int,
    rng: np.random.Generator,
    init: InitParams = "auto",
    sheltered: bool = False,
) -> Iterator[Parameters]:
    """Endless starts of EM of one kind; "auto" is k-means in each view, then random rows.

    If some rows may belong to no component (or if ``sheltered``), starts leave out probable
    outliers. They use the denser part of the rows and all rows with neighbours in turn.
    """
    sheltered = sheltered or likelihood.target.box is not None
    parts = without_lonely_rows(likelihood) if sheltered else [likelihood]
    views = [views_of(part.rows, m) for part in parts]
    for i in count():
        part, seen = parts[i % len(parts)], views[i % len(parts)]
        turn = i // len(parts)
        kind = ("kmeans" if turn < len(seen) else "random_from_data") if init == "auto" else init
        yield STARTS[kind](part, seen[turn % len(seen)](), m, rng)


def without_lonely_rows(likelihood: LikelihoodHere) -> list[LikelihoodHere]:
    """The likelihoods of rows that are probably no outliers, by two guesses of their share."""
    rows, parts = likelihood.rows, []
    closed = replace(likelihood, target=replace(likelihood.target, box=None))
    for places in (rows.crowding.densest(DENSE), rows.crowding.in_a_crowd()):
        share = float(rows.weights[places].sum())
        parts.append(part_of(closed, places, rows.weights[places] / share, share))
    return parts


def views_of(rows: MemoryRows, m: int) -> list[Callable[[], np.ndarray]]:
    """The rows in several kinds of coordinates, each made when it is first used; (p, any).

    They are features in units of their standard deviations; the directions of least fourth moment,
    of which m clusters need m - 1; features in units of the deviation within each of two clusters;
    and the coordinates of the fit, if they differ. If the distance of two clusters makes up the
    share r of a variance, the fourth moment is 3 - 2r², which gives r.
    """

    def features() -> np.ndarray:
        A = rows.to_features
        return rows.X if A is None else rows.X @ A

    def standardised() -> np.ndarray:
        U = features()
        spread = np.sqrt(rows.weights @ (U - rows.weights @ U) ** 2)
        return np.asarray(U / np.where(spread > 0, spread, 1.0))

    def unfolded() -> np.ndarray:
        U = standardised()
        fourths = rows.weights @ (U - rows.weights @ U) ** 4
        between = np.sqrt(np.clip((3 - fourths) / 2, 0, MOST_BETWEEN**2))
        return np.asarray(U / np.sqrt(1 - between))

    def flat() -> np.ndarray:
        A = flattest_directions(rows.X, rows.weights, min(m - 1, MOST_DIRECTIONS))
        return rows.X @ A.T

    views: list[Callable[[], np.ndarray]] = [standardised]
    if rows.X.shape[1] > 1:
        views += [flat] if m > 1 else []
        views += [unfolded]
        views += [lambda: rows.X] if rows.to_features is not None else []
    return [cache(lambda view=view: np.round(view(), DIGITS)) for view in views]


def cluster_start(
    likelihood: LikelihoodHere, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """One M-step from the clusters of k-means: where scikit-learn's EM starts."""
    p = likelihood.rows.weights
    uniform = bool(np.all(p == p[0]))
    return from_responsibilities(likelihood, kmeans_labels(X, None if uniform else p, m, rng))


def spread_start(
    likelihood: LikelihoodHere, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """A start around rows that k-means++ draws far from each other."""
    return nearest_start(likelihood, X, spread_points(X, likelihood.rows.weights, m, rng))


def random_row_start(
    likelihood: LikelihoodHere, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """A start around rows drawn at random."""
    return nearest_start(likelihood, X, random_points(X, likelihood.rows.weights, m, rng))


def random_start(
    likelihood: LikelihoodHere, X: np.ndarray, m: int, rng: np.random.Generator
) -> Parameters:
    """One M-step from random responsibilities, after which the means are moved apart.

    At first the means differ by about 1/√p, so EM would gain next to nothing and stop. They are
    scaled to have the spread of the rows, which is 1.
    """
    R = rng.uniform(size=(len(X), m))
    start = from_responsibilities(likelihood, R / R.sum(axis=1, keepdims=True))
    apart = start.means - start.means.mean(axis=0)
    size = np.sqrt(np.mean(apart**2))
    return start._replace(means=start.means + apart * (1 / size - 1 if size > 0 else 0.0))


#: Makes a start from rows X (p, n), which are those of the likelihood in some coordinates.
PlainStart: TypeAlias = Callable[[LikelihoodHere, np.ndarray, int, np.random.Generator], Parameters]
STARTS: dict[InitParams, PlainStart] = {
    "kmeans": cluster_start,
    "k-means++": spread_start,
    "random": random_start,
    "random_from_data": random_row_start,
}
INIT_PARAMS: tuple[InitParams, ...] = ("auto", *STARTS, "moments")


def nearest(X: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which of the points is nearest to each row, as responsibilities (p, m)."""
    square = np.einsum("ij,ij->i", points, points) - 2 * (X @ points.T)
    labels = np.argmin(np.round(square, DIGITS), axis=1)
    return (labels[:, None] == np.arange(len(points))).astype(float)


def nearest_start(likelihood: LikelihoodHere, X: np.ndarray, points: np.ndarray) -> Parameters:
    """One M-step from the rows nearest to each of some points."""
    return from_responsibilities(likelihood, nearest(X, points))


def kmeans_labels(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Clusters of one run of k-means, as responsibilities (p, m).

    It fits the centres to a part of the rows if they are many; EM uses all of them afterwards.
    Lloyd's steps from the points of k-means++ end when at most one row in a thousand moves.
    """
    if len(X) <= m:  # one cluster for each row; the rest stay empty
        return np.eye(len(X), m)
    step = max(1, len(X) // max(CLUSTERED, ROWS_EACH * m))
    some, own = X[::step], np.ones(len(X[::step])) if weights is None else weights[::step]
    R = nearest(some, spread_points(some, own, m, rng))
    for _ in range(MOST_ROUNDS):
        counts = own @ R
        means = (R.T @ (some * own[:, None])) / np.maximum(counts, 1e-300)[:, None]
        if not counts.all():  # an empty cluster begins anew at a row far from its own mean
            apart = some - R @ means
            far = np.argsort(-np.round(np.einsum("ij,ij->i", apart, apart), DIGITS), kind="stable")
            means[counts == 0] = some[far[: np.count_nonzero(counts == 0)]]
        before, R = R, nearest(some, means)
        if np.count_nonzero(before != R) <= 2 * (len(R) // 1000):
            break
    return R if step == 1 else nearest(X, means)
