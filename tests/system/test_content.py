"""What rows hold decides a fit: not their order, their units, nor whether they repeat or weigh."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from momentmix import GaussianMixture, KnownCovarianceMixture, MomentMixture
from momentmix.rows import data, memory
from momentmix.rows.frame import by_distance, distinct_rows

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import grid

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


def test_distinct_rows_are_those_of_numpy(rng):
    X = rng.integers(-1, 2, size=(60, 3)) * 0.1
    X[X == 0] *= -1  # zeros of both signs
    counts = rng.integers(1, 4, size=60).astype(float)
    places, totals = distinct_rows(X, counts)
    rows = X[places]
    want, place = np.unique(X, axis=0, return_inverse=True)
    order = np.lexsort(rows.T[::-1])
    np.testing.assert_array_equal(rows[order], want)
    np.testing.assert_array_equal(totals[order], np.bincount(place.reshape(-1), counts))


def test_distinct_rows_come_in_an_order_of_their_own(rng):
    X, counts = rng.normal(size=(50, 3)), rng.uniform(size=50)
    X = np.concatenate([X, X[:20]])
    counts = np.concatenate([counts, counts[20:40]])
    order = rng.permutation(len(X))
    one, other = distinct_rows(X, counts), distinct_rows(X[order], counts[order])
    np.testing.assert_array_equal(X[one[0]], X[order][other[0]])
    np.testing.assert_array_equal(one[1], other[1])


def test_the_order_by_distance_does_not_know_the_axes(rng):
    Z = rng.normal(size=(200, 4))
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    np.testing.assert_array_equal(by_distance(Z), by_distance(Z @ Q))
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])  # all at one distance
    np.testing.assert_array_equal(
        corners[by_distance(corners)], corners[::-1][by_distance(corners[::-1])]
    )


def clusters(seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0, 0], [6, 0, 0], [0, 6, 0]])
    labels = np.repeat([0, 1, 2], 80)
    return centres[labels] + rng.normal(size=(240, 3)), labels


@pytest.mark.parametrize("kind", TYPES)
def test_one_heavy_row(kind):
    """A row that counts twenty times is twenty rows, and no other component dies of it."""
    X, labels = clusters()
    weights = np.ones(240)
    weights[7] = 20
    weighted = GaussianMixture(3, covariance_type=kind, random_state=0).fit(
        X, sample_weight=weights
    )
    repeated = np.repeat(X, weights.astype(int), axis=0)
    other = GaussianMixture(3, covariance_type=kind, random_state=0).fit(repeated)
    assert adjusted_rand_score(labels, weighted.predict(X)) > 0.97
    assert abs(weighted.log_posterior_ - other.log_posterior_) < 1e-8
    np.testing.assert_allclose(weighted.means_, other.means_, rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_very_uneven_weights(seed):
    X, labels = clusters(seed)
    weights = np.random.default_rng(seed).lognormal(sigma=1.5, size=240)
    fit = GaussianMixture(3, covariance_type="tied", random_state=seed)
    fit.fit(X, sample_weight=weights * 240 / weights.sum())
    assert adjusted_rand_score(labels, fit.predict(X)) > 0.97


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        *(GaussianMixture(2, covariance_type=kind) for kind in TYPES),
        *(GaussianMixture(2, covariance_type=kind, prior=None) for kind in ("full", "diag")),
        GaussianMixture(2, n_init=3),
        MomentMixture(2, covariance_type="diag"),
        KnownCovarianceMixture(2, 1.0),
        KnownCovarianceMixture(2, "estimate"),
    ],
    ids=str,
)
def test_scikit_learns_check_of_weights(estimator):
    check_sample_weight_equivalence_on_dense_data("it", estimator.set_params(random_state=0))


def test_large_data_are_drawn_by_content(rng, monkeypatch):
    """The sample that the search looks at does not depend on order, nor on repeats or weights."""
    monkeypatch.setattr(data, "LARGE_DATA", 1_000)
    monkeypatch.setattr(memory, "LARGE_DATA", 1_000)
    X, _ = clusters()
    X = np.concatenate([X, X + np.array([0, 0, 9.0])])
    counts = rng.integers(1, 4, size=len(X))
    fits = []
    repeated = np.repeat(X, counts, axis=0)
    for rows, weights in ((X, counts), (X[::-1], counts[::-1]), (repeated, None)):
        fits.append(GaussianMixture(4, random_state=0).fit(rows, sample_weight=weights))
    for fit in fits[1:]:
        assert abs(fit.log_posterior_ - fits[0].log_posterior_) < 1e-5


SMALL = [number for number in range(40) if grid.case(number).shape[1] <= 4]


@pytest.mark.parametrize("number", SMALL[:15])
def test_the_grid_of_cases(number):
    """A quick form of benchmarks/grid.py. Rotations are apart: features are seen one by one too."""
    faults = [fault for fault in grid.judged(grid.case(number)) if not fault.startswith("rotation")]
    assert faults == []


def test_a_fit_that_cannot_be_scored_is_refused_and_changes_nothing():
    """Heavy tails without a prior: a covariance that float64 cannot factor in the units of X."""
    case = grid.case(737)
    X, weights = grid.rows_of(case)
    settings = case.settings | {"covariance_type": case.kind, "random_state": 0}
    fit = GaussianMixture(case.shape[2], **settings).fit(np.vander(np.arange(20.0), 3))
    before = fit.means_.copy()
    with pytest.raises(ValueError, match="singular"):
        fit.fit(X, sample_weight=weights)
    np.testing.assert_array_equal(fit.means_, before)


def rounded(seed):
    """Two groups and rows far off, rounded, of which a tenth of the values are gaps."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(29, 4)), 1.5 * rng.normal(size=(30, 4)) + 3])
    X[::9] = rng.uniform(-12, 14, size=X[::9].shape)
    X = np.round(X, 1)
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def heavy(seed, digits):
    """Rows of heavy tails, rounded."""
    return np.round(np.random.default_rng(seed).standard_t(2, size=(59, 4)), digits)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("X", "m", "settings"),
    [
        (rounded(1), 2, {}),
        (rounded(4), 2, {}),
        (rounded(7), 2, {"outliers": "auto"}),
        (heavy(12, 1), 2, {"outliers": "auto", "covariance_type": "spherical"}),
        (heavy(39, 1), 2, {"outliers": "auto", "covariance_type": "tied"}),
        (heavy(48, 1), 3, {"outliers": "auto"}),
    ],
)
def test_gaps_and_a_background_know_neither_order_nor_origin(X, m, settings):
    def fitted(rows):
        return GaussianMixture(m, random_state=0, **settings).fit(rows)

    rng = np.random.default_rng(0)
    want = fitted(X)
    others = X[:, rng.permutation(4)], X[rng.permutation(59)], X + 3.0, X - 1.0
    for rows in others:
        found = fitted(rows)
        np.testing.assert_allclose(found.log_posterior_, want.log_posterior_, atol=1e-5)
        np.testing.assert_allclose(found.weights_, want.weights_, atol=1e-3)
