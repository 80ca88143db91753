"""The clusters of k-means that starts are made of, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine

from momentmix.fitting.starts import kmeans_labels
from momentmix.rows.memory import spread_points


def squares(X, R, weights=None):
    """The weighted sum of squared distances to the means of the clusters."""
    weights = np.ones(len(X)) if weights is None else weights
    return sum(
        np.sum(w[:, None] * (X - np.average(X, axis=0, weights=w)) ** 2)
        for w in (R * weights[:, None]).T
        if w.sum() > 0
    )


@pytest.mark.parametrize(
    ("X", "m"), [(load_iris().data, 3), (load_wine().data / load_wine().data.std(axis=0), 5)]
)
def test_clusters_are_as_tight_as_those_of_scikit_learn(X, m):
    """On average over forty runs of each, whose means differ by one percent."""
    own = [squares(X, kmeans_labels(X, None, m, np.random.default_rng(i))) for i in range(40)]
    theirs = [KMeans(m, n_init=1, random_state=i).fit(X).inertia_ for i in range(40)]
    assert np.mean(own) < 1.04 * np.mean(theirs)
    assert np.min(own) == pytest.approx(np.min(theirs), rel=0.01)


def test_every_row_is_in_the_cluster_of_the_nearest_mean():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(200, 3)), rng.uniform(0.5, 2, size=200)
    R = kmeans_labels(X, weights, 4, rng)
    means = (R * weights[:, None]).T @ X / (weights @ R)[:, None]
    apart = ((X[:, None] - means) ** 2).sum(axis=2)
    assert np.array_equal(np.argmin(apart, axis=1), np.argmax(R, axis=1))


def test_a_weight_counts_as_so_many_equal_rows():
    """Two far rows of weight 50 are clusters, and one of weight 0 draws no mean to it."""
    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 1)), [[20], [40], [900]]])
    weights = np.append(np.ones(60), [50, 50, 0])
    R = kmeans_labels(X, weights, 3, np.random.default_rng(0))
    assert R[:60].sum(axis=0).max() == 60
    assert len(set(np.argmax(R[[0, 60, 61]], axis=1))) == 3


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    R = kmeans_labels(X, None, 4, np.random.default_rng(0))
    assert np.array_equal(R.sum(axis=1), np.ones(20))
    assert squares(X, R) == 0
    assert len(spread_points(X, None, 4, np.random.default_rng(0))) == 4


def test_points_are_far_from_each_other():
    """Of five tight groups far apart, the first five points are in different ones."""
    rng = np.random.default_rng(0)
    X = np.repeat(100 * np.eye(5), 20, axis=0) + rng.normal(size=(100, 5))
    points = spread_points(X, None, 5, rng)
    assert sorted(np.argmax(points, axis=1)) == [0, 1, 2, 3, 4]
