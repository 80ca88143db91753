"""Merged components, against overlaps summed row by row, and where the answer is known."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from momentmix import GaussianMixture, Mixture, merge_components
from momentmix.distributions.mixture import Background

#: Two clusters far apart, of two and of three components.
BENT = Mixture(
    [0.25, 0.15, 0.2, 0.25, 0.15],
    [[0, 0], [1.8, 0.4], [20, 0], [21.5, 1.0], [22, 2.8]],
    [[[1, 0.2], [0.2, 0.5]], [[0.6, 0], [0, 0.9]], [[1, 0.3], [0.3, 0.7]], [[0.5, 0], [0, 0.5]],
     [[0.4, -0.1], [-0.1, 1.0]]],
)  # fmt: skip
X = BENT.sample(800, random_state=0)[0]


def probabilities(mixture, rows):
    """Of each component for each row, by scipy's densities."""
    joint = np.array([[w * multivariate_normal(mu, S).pdf(x)
                       for w, mu, S in zip(mixture.weights, mixture.means, mixture.covariances,
                                           strict=True)] for x in rows])  # fmt: skip
    return joint / joint.sum(axis=1, keepdims=True)


def overlap_by_rows(R, a, b):
    """The cosine of the probabilities of two sets of components, summed row by row."""
    both = one = other = 0.0
    for r in R:
        p, q = sum(r[k] for k in a), sum(r[k] for k in b)
        both, one, other = both + p * q, one + p * p, other + q * q
    return both / np.sqrt(one * other)


def test_the_tree_merges_what_overlaps_most():
    merged, R = merge_components(BENT, X), probabilities(BENT, X)
    clusters = [(k,) for k in range(5)]
    for merge in merged.tree:
        overlaps = {
            frozenset(pair): overlap_by_rows(R, *pair) for pair in combinations(clusters, 2)
        }
        pair = frozenset((merge.first, merge.second))
        assert max(overlaps, key=overlaps.get) == pair
        assert merge.overlap == pytest.approx(overlaps[pair], rel=1e-9)
        clusters = [c for c in clusters if c not in pair] + [merge.first + merge.second]
    assert len(clusters) == 1


def test_two_clusters_of_five_components():
    merged = merge_components(BENT, X)
    assert merged.n_clusters_ == 2
    # The largest cluster comes first.
    np.testing.assert_array_equal(merged.clusters_, [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(merged.labels_, np.where(X[:, 0] > 10, 0, 1))
    assert merged.members(0) == [2, 3, 4]
    assert "0: 2, 3, 4" in repr(merged)


def test_predictions_add_the_probabilities_of_components_up():
    merged, new = merge_components(BENT, X, 3), BENT.sample(50, random_state=1)[0]
    R = probabilities(BENT, new)
    wanted = np.stack([R[:, merged.members(c)].sum(axis=1) for c in range(3)], axis=1)
    np.testing.assert_allclose(merged.predict_proba(new), wanted, atol=1e-12)
    np.testing.assert_array_equal(merged.predict(new), wanted.argmax(axis=1))
    np.testing.assert_array_equal(merged.predict(X), merged.labels_)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_number_of_clusters_is_kept(number):
    merged = merge_components(BENT, X, number)
    assert merged.n_clusters_ == number == len(set(merged.labels_))
    sizes = np.bincount(merged.labels_)
    assert np.all(sizes[:-1] >= sizes[1:] * 0.8)  # by probabilities, which labels follow roughly


def test_coarser_clusters_are_unions_of_finer_ones():
    finer = merge_components(BENT, X, 4).clusters_
    for number in (3, 2, 1):
        coarser = merge_components(BENT, X, number).clusters_
        for cluster in set(finer):
            assert len(set(coarser[finer == cluster])) == 1
        finer = coarser


def test_order_and_units_do_not_matter():
    merged = merge_components(BENT, X)
    order = np.array([3, 0, 4, 2, 1])
    A = np.array([[1e3, 2.0], [0.0, 1e-3]])
    other = Mixture(BENT.weights[order], BENT.means[order] @ A.T + 7,
                    A @ BENT.covariances[order] @ A.T)  # fmt: skip
    again = merge_components(other, X @ A.T + 7)
    np.testing.assert_array_equal(again.labels_, merged.labels_)
    np.testing.assert_array_equal(again.clusters_, merged.clusters_[order])
    for one, two in zip(merged.tree, again.tree, strict=True):
        assert one.overlap == pytest.approx(two.overlap, rel=1e-6)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.97, 0.03)])
def test_components_in_one_place_are_one_cluster(weights):
    """Equal components, and a core with its halo, whatever their shares and what else there is."""
    same = Mixture(weights, np.ones((2, 2)), [1.0, 1.0], "spherical")
    merged = merge_components(same, same.sample(200, random_state=0)[0])
    assert merged.tree[0].overlap == pytest.approx(1.0)
    assert merged.n_clusters_ == 1
    a, b = weights
    means = [[0, 0], [0, 0], [30, 0], [0, 30]]
    halo = Mixture([a / 2, b / 2, 0.3, 0.2], means, [1.0, 6.0, 1.0, 1.0], "spherical")
    found = merge_components(halo, halo.sample(1000, random_state=0)[0]).clusters_
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_overlapping_balls_stay_two_clusters():
    """Nothing tells that they are one, since there is no other overlap to compare theirs with."""
    balls = Mixture([0.5, 0.5], [[0, 0], [3, 0]], [1.0, 1.0], "spherical")
    assert merge_components(balls, balls.sample(500, random_state=0)[0]).n_clusters_ == 2


@pytest.mark.parametrize(("apart", "clusters"), [(3.0, 2), (4.2, 3)])
def test_one_merge_alone_needs_more_overlap(apart, clusters):
    """Beside a third group far away, two that touch stay two, and two that run together are one."""
    means = [[0, 0], [apart, 0], [40, 0]]
    three = Mixture([0.3, 0.3, 0.4], means, [1.0, 1.0, 1.0], "spherical")
    merged = merge_components(three, three.sample(2000, random_state=0)[0])
    assert merged.tree[0].overlap > 20 * merged.tree[1].overlap
    assert merged.n_clusters_ == clusters


def test_one_component_is_one_cluster():
    one = Mixture([1.0], [[0.0, 0.0]], [1.0], "spherical")
    merged = merge_components(one, X)
    assert merged.tree == ()
    assert merged.n_clusters_ == 1
    assert set(merged.labels_) == {0}


def test_moons():
    rows, truth = make_moons(500, noise=0.05, random_state=0)
    gm = GaussianMixture("auto", random_state=0).fit(rows)
    merged = merge_components(gm, rows)
    assert gm.n_components_ > 2 == merged.n_clusters_
    assert adjusted_rand_score(truth, merged.labels_) == 1.0


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, len(X))
    weighted = merge_components(BENT, X, sample_weight=counts)
    repeated = merge_components(BENT, np.repeat(X, counts, axis=0))
    for one, two in zip(weighted.tree, repeated.tree, strict=True):
        assert (one.first, one.second) == (two.first, two.second)
        assert one.overlap == pytest.approx(two.overlap, rel=1e-9)


def test_gaps_leave_the_clusters():
    """A gap leaves some rows in doubt between clusters that are far apart; they stay so."""
    rows = X.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    rows[0] = np.nan
    merged = merge_components(BENT, rows)
    np.testing.assert_array_equal(merged.clusters_, [1, 1, 0, 0, 0])
    seen = ~np.isnan(rows[:, 0])
    np.testing.assert_array_equal(merged.labels_[seen], np.where(rows[seen, 0] > 10, 0, 1))
    # What is filled for a gap is drawn with a seed of its own.
    assert merge_components(BENT, rows).tree == merged.tree


def test_outliers_stay_outliers_and_do_not_count():
    mixture = Mixture(BENT.weights, BENT.means, BENT.covariances,
                      background=Background(0.05, [200.0, 200.0]))  # fmt: skip
    far = np.random.default_rng(0).uniform(50, 100, (40, 2))
    merged = merge_components(mixture, np.vstack([X, far]))
    assert set(merged.labels_[-40:]) == {-1}
    assert set(merged.predict(far)) == {-1}
    inside = merged.labels_[:-40] >= 0
    alone = merge_components(mixture, X[inside])
    for one, two in zip(merged.tree, alone.tree, strict=True):
        assert one.overlap == pytest.approx(two.overlap, rel=1e-9)


def test_known_errors_count():
    noisy = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
    merged = merge_components(BENT, noisy, 5, noise_covariance=0.25)
    wider = Mixture(BENT.weights, BENT.means, BENT.covariances + 0.25 * np.eye(2))
    same = merge_components(wider, noisy, 5)
    np.testing.assert_array_equal(merged.labels_, same.labels_)
    assert merged.tree[0].overlap == pytest.approx(same.tree[0].overlap, rel=1e-9)


@pytest.mark.parametrize(
    ("number", "message"),
    [(0, "n_clusters must be a whole number of at least 1"), ("three", "or 'auto', got 'three'"),
     (6, "n_clusters=6 is more than the 5 components of the fit")],
)  # fmt: skip
def test_numbers_that_make_no_sense(number, message):
    with pytest.raises(ValueError, match=message):
        merge_components(BENT, X, number)


def test_columns_are_checked_by_the_fit():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b"])
    gm = GaussianMixture(4, random_state=0).fit(table)
    assert merge_components(gm, table, 2).n_clusters_ == 2
    with pytest.raises(ValueError, match="feature names"):
        merge_components(gm, table[["b", "a"]], 2)


def test_the_picture_of_the_tree():
    pytest.importorskip("matplotlib").use("Agg")
    merged = merge_components(BENT, X)
    ax = merged.plot()
    lines = [line.get_xydata() for line in ax.get_lines()]
    branches = [line for line in lines if len(line) == 4]
    for line, merge in zip(branches, merged.tree[:-1], strict=False):
        assert line[1, 1] == line[2, 1] == pytest.approx(merge.overlap)
    assert branches[-1][1, 1] == pytest.approx(0.0005)  # less than that is drawn there
    names = [int(label.get_text()) for label in ax.get_xticklabels()]
    assert sorted(names) == list(range(5))
    assert set(names[:2]) in ({0, 1}, {2, 3}, {2, 4}, {3, 4})
    height = next(line[0, 1] for line in lines if len(line) == 2)  # the dashed line
    assert merged.tree[2].overlap > height > merged.tree[3].overlap
    # Each component stands in the colour of its cluster.
    dots = {round(line.get_xdata()[0]): line.get_color() for line in ax.get_lines()
            if len(line.get_xdata()) == 1}  # fmt: skip
    assert [dots[names.index(k)] for k in range(5)] == [
        dots[names.index(merged.members(c)[0])] for c in merged.clusters_
    ]
    assert len(set(dots.values())) == 2
    assert merge_components(BENT, X, 5).plot(ax.figure.subplots()) is not ax
