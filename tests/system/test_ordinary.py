"""Easy and ordinary rows: groups that anyone sees, columns with one value, outliers or none."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from likelihoods import row_likelihood
from momentmix import CollapseWarning, GaussianMixture, Mixture
from momentmix.covariance import covariance_type
from momentmix.estimators.predictions import log_prob_by_feature
from momentmix.fit import Agreement, Parameters
from momentmix.fitting.background import misfit_of_distances
from momentmix.fitting.em import from_responsibilities, single
from momentmix.fitting.moves import split_and_merge
from momentmix.fitting.search import same_groups
from momentmix.fitting.starts import flattest_directions, views_of
from momentmix.rows.memory import Box
from momentmix.rows.screening import constant_columns, constant_variances, rounding_variances
from momentmix.summary import FitSummary

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from ordinary import balls

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


# Groups


def two_balls(n, apart):
    rng = np.random.default_rng(31)
    y = rng.integers(2, size=1500)
    X = rng.standard_normal((1500, n))
    X[:, 0] += apart * y
    return X, y


@pytest.mark.parametrize(("n", "apart", "least"), [(10, 3, 0.7), (20, 4.5, 0.9), (40, 4.5, 0.9)])
@pytest.mark.parametrize("kind", TYPES)
def test_two_balls_are_found_from_every_seed(kind, n, apart, least):
    X, y = two_balls(n, apart)
    for seed in range(3):
        fit = GaussianMixture(2, covariance_type=kind, random_state=seed).fit(X)
        assert adjusted_rand_score(y, fit.predict(X)) > least


@pytest.mark.parametrize("kind", ["full", "tied"])
@pytest.mark.parametrize(("m", "n"), [(2, 40), (3, 20), (4, 10)])
def test_units_need_not_tell_the_groups(kind, m, n):
    X, y = balls(m, n, True, 0)
    fit = GaussianMixture(m, covariance_type=kind, random_state=0).fit(X)
    assert adjusted_rand_score(y, fit.predict(X)) > (0.9 if n > 10 else 0.65)


def test_the_directions_of_least_fourth_moment(rng):
    """They are those in which clusters lie apart, whatever the shear; and unit and uncorrelated."""
    X, y = balls(3, 20, True, 0)
    weights = np.full(len(X), 1 / len(X))
    A = flattest_directions(X, weights, 2)
    Z = (X - X.mean(axis=0)) @ A.T
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(2), atol=1e-9)
    centres = np.array([Z[y == k].mean(axis=0) for k in range(3)])
    within = np.mean([Z[y == k].var(axis=0) for k in range(3)], axis=0)
    assert np.all(within < 0.45)  # of a variance of 1
    assert np.linalg.matrix_rank(centres - centres.mean(axis=0), tol=0.3) == 2
    fourths = np.mean(Z**4, axis=0)
    others = X @ np.linalg.inv(np.linalg.cholesky(np.cov(X.T))).T @ rng.normal(size=(20, 200))
    others = (others - others.mean(axis=0)) / others.std(axis=0)
    assert fourths.max() < np.mean(others**4, axis=0).min()


def test_directions_of_rows_that_vary_in_few(rng):
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 5))
    assert flattest_directions(X, np.full(100, 0.01), 4).shape == (2, 5)


def test_features_in_units_of_their_clusters():
    """A column of two balls at ±2.25 gets the unit of one ball, and others stay as they are."""
    X, y = two_balls(3, 4.5)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    likelihood = row_likelihood(Z, None, covariance_type("diag"), 1e-6)
    unfolded = views_of(likelihood.rows, 2)[2]()
    within = np.mean([unfolded[y == k].std(axis=0) for k in (0, 1)], axis=0)
    np.testing.assert_allclose(within, 1, atol=0.2)


def test_a_tied_fit_is_repaired(rng):
    """Two components share a cluster and one covers two: EM stays there, an exchange does not."""
    centres = np.array([[0.0, 0], [8, 0], [0, 8], [8, 8]])
    X = centres[np.repeat(range(4), 150)] + rng.normal(size=(600, 2))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    tied = covariance_type("tied")
    likelihood = row_likelihood(X, None, tied, 1e-6)
    R = np.zeros((600, 4))
    R[:150, 0] = X[:150, 0] > np.median(X[:150, 0])
    R[:150, 1] = 1 - R[:150, 0]
    R[150:450, 2] = 1
    R[450:, 3] = 1
    stuck = likelihood.fit(from_responsibilities(likelihood, R), tol=1e-6, max_iter=500)
    repaired = split_and_merge(likelihood, stuck, rng, tol=1e-6, max_iter=500)
    assert repaired.log_posterior > stuck.log_posterior + 0.1
    np.testing.assert_allclose(repaired.parameters.weights, 0.25, atol=0.02)


def test_groups_are_the_same_whatever_their_numbers():
    one = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2] * 4)
    weights = np.full(40, 1 / 40)
    assert same_groups(one, (one + 1) % 3, 3, weights)
    assert not same_groups(one, np.where(one == 2, 1, one), 3, weights)
    other = one.copy()
    other[:2] = 1  # two rows of twelve in one group, and of fourteen in the other
    assert not same_groups(one, other, 3, weights)
    weights[:2] = 0
    assert same_groups(one, other, 3, weights)


def test_starts_that_agree_are_told():
    X, _ = two_balls(10, 3)
    fit = GaussianMixture(2, random_state=0).fit(X)
    assert fit.agreement_.starts >= fit.agreement_.agreeing >= 2
    assert len(fit.lower_bounds_) == fit.agreement_.starts
    assert not any("starts" in remark for remark in FitSummary.from_estimator(fit, X).remarks)
    assert GaussianMixture(1).fit(X).agreement_ is None
    assert GaussianMixture(2, means_init=fit.means_).fit(X).agreement_ is None


def test_starts_that_disagree_are_told():
    """Of one Gaussian in many columns five components are found anew by each start."""
    X = np.random.default_rng(0).normal(size=(600, 20))
    fit = GaussianMixture(5, prior=59.0, random_state=0).fit(X)
    assert fit.agreement_.agreeing == 1 < fit.agreement_.starts
    assert 0 < fit.agreement_.gap < 5
    remark = FitSummary.from_estimator(fit, X).remarks[-1]
    assert remark.startswith("The starts disagree")
    assert "n_init" in remark


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (Agreement(2, 2, np.inf), "Both starts agree"),
        (Agreement(4, 4, np.inf), "All 4 starts agree"),
        (Agreement(10, 9, 0.25), "9 of 10 starts agree on the groups; the next best is 0.25 nats"),
        (Agreement(3, 1, 0.01), "The starts disagree: one of 3"),
        (Agreement(1, 1, np.inf), "ask for more with n_init"),
    ],
)
def test_agreement_in_words(agreement, words):
    assert words in agreement.sentence


# Columns with one value


@pytest.mark.parametrize("kind", TYPES)
def test_rows_held_out_have_a_density_where_columns_were_constant(kind):
    X = load_digits().data
    a, b = np.array_split(np.random.default_rng(0).permutation(len(X)), 2)
    with pytest.warns(CollapseWarning, match="columns 0, .* constant"):
        fit = GaussianMixture(4, covariance_type=kind, random_state=0, tol=1e-3).fit(X[a][:300])
    assert fit.score(X[b]) > -300
    assert fit.score_samples(X[b]).min() > -3000


def test_constant_columns_are_named_once_and_collapse_nothing(rng):
    X = np.column_stack([rng.normal(size=(200, 2)), np.full(200, 0.1)])
    names = ["height", "weight", "site"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        import pandas

        fit = GaussianMixture(1).fit(pandas.DataFrame(X, columns=names))
    assert len(said) == 1
    assert "column site is constant" in str(said[0].message)
    assert len(fit.collapsed_) == 0


def test_what_a_constant_value_tells():
    found = constant_variances(
        np.array([0.1, 273.15, 5.0, 1 / 3, 0.0]), np.array([]), np.full(5, 2.0)
    )
    np.testing.assert_allclose(found, [0.01 / 12, 1e-4 / 12, 1 / 12, 4.0, 4.0])
    pixels = constant_variances(np.zeros(1), np.array([1.0, 1.0]), np.array([4.0]))
    np.testing.assert_allclose(pixels, 1 / 12)  # in a table of whole numbers
    mixed = constant_variances(np.zeros(1), np.array([1.0, 0.1]), np.array([4.0]))
    np.testing.assert_allclose(mixed, 16)
    assert constant_columns(np.array([[0.1, 1], [0.1, np.nan], [0.1, 2]])).tolist() == [0]


def test_a_few_values_have_the_step_they_are_written_with():
    few = np.arange(300) % 50 == 0
    X = np.column_stack([np.arange(300) % 2, 7.0 * few, 1 + 9.0 * few, 0.25 * few, few / 3])
    np.testing.assert_allclose(
        rounding_variances(X), [1 / 12, 1 / 12, 1 / 12, 0.01**2 / 12, 0], rtol=1e-9
    )


# Outliers


def ordinary_table(rng, p=400):
    """Numbers, a yes or no, a column that is nearly constant, and one that is a sum of others."""
    X = rng.normal(size=(p, 6))
    X[:, 2] = rng.integers(0, 2, p)
    X[:, 3] = np.where(rng.uniform(size=p) < 0.01, 3.0, 0.0)
    X[:, 5] = X[:, 0] + 2 * X[:, 1]
    X[:10, :2] *= 12
    X[:10, 5] = X[:10, 0] + 2 * X[:10, 1]
    return X


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("outliers", ["auto", 0.05])
def test_ordinary_tables_are_fitted(kind, outliers, rng):
    X = ordinary_table(rng)
    fit = GaussianMixture(3, covariance_type=kind, outliers=outliers, random_state=0).fit(X)
    assert np.isfinite(fit.score(X))
    assert np.all(np.isfinite(fit.outlier_score(X)))


def test_ten_rows_with_a_constant_column():
    X = np.c_[np.full(10, 0.1), np.random.default_rng(6).normal(size=(10, 2))]
    fit = GaussianMixture(1, outliers="auto").fit(X)
    assert np.isfinite(fit.score(X))


def test_a_fit_with_outliers_ends():
    """Fits that used to widen the background without end; a bound on passes shows that they do."""
    rows = [[1, 1], [2, 2], [np.nan, 3], [4, 1], [5, 5], [6, 2]]
    fit = GaussianMixture(2, covariance_type="diag", outliers="auto", random_state=0).fit(rows)
    assert fit.n_passes_ < 3000
    X = ordinary_table(np.random.default_rng(3), 900)
    for seed in range(3):
        fit = GaussianMixture(3, covariance_type="tied", outliers=0.1, random_state=seed).fit(X)
        assert fit.n_passes_ < 3000
        probabilities = fit.predict_proba(X, outliers=True)[:, -1]
        assert probabilities.mean() <= 0.1 + 2e-3


@pytest.mark.parametrize(("p", "n"), [(50, 5), (80, 10), (150, 12), (300, 10)])
def test_clean_rows_have_no_outliers(p, n):
    found = [
        GaussianMixture(1, outliers="auto", random_state=seed)
        .fit(np.random.default_rng([seed, p, n]).normal(size=(p, n)))
        .outlier_share_
        > 0
        for seed in range(15)
    ]
    assert sum(found) <= 1


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_distances_of_few_gaussian_rows_are_no_misfit(kind, rng):
    """Those of rows from their own mean and covariance: by χ² they would be."""
    sizes = []
    for _ in range(20):
        X = rng.normal(size=(60, 12))
        likelihood = row_likelihood(X, None, covariance_type(kind), 1e-9)
        sizes.append(misfit_of_distances(likelihood, single(likelihood)))
    assert np.mean(sizes) < 1 / np.sqrt(60)


def test_the_score_orders_rows_where_nobody_is_an_outlier(rng):
    X = np.concatenate([rng.normal(size=(300, 3)), rng.normal([9, 0, 0], size=(300, 3))])
    fit = GaussianMixture(2, outliers="auto", random_state=0).fit(X)
    assert fit.outlier_share_ == 0
    score = fit.outlier_score(X)
    assert len(np.unique(score)) == len(X)
    odd = np.array([[4.5, 0, 0], [0, 6, 0], [0.0, 0, 0]])
    between, far, central = fit.outlier_score(odd)
    assert min(between, far) > np.quantile(score, 0.999) > central
    plain = GaussianMixture(2, random_state=0).fit(X)
    mixed = np.concatenate([X, rng.uniform(-4, 13, (60, 3))])
    labels = np.repeat([0, 1], [600, 60])
    ours = roc_auc_score(labels, plain.outlier_score(mixed))
    assert ours > roc_auc_score(labels, -plain.score_samples(mixed)) - 0.02


@pytest.mark.parametrize("kind", TYPES)
def test_densities_of_values_one_by_one(kind, rng):
    A = rng.normal(size=(2, 3, 3))
    matrices = A @ A.swapaxes(1, 2) + np.eye(3)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": matrices[:, range(3), range(3)],
        "spherical": matrices[:, 0, 0],
        "tied-diag": np.diag(matrices[0]),
        "tied-spherical": matrices[0, 0, 0],
    }[kind]
    mixture = Mixture([0.3, 0.7], rng.normal(size=(2, 3)), covariances, kind)
    X = rng.normal(size=(5, 3))
    X[1, 2] = np.nan
    noise = np.array([0.1, 0.2, 0.3])
    full = np.array(
        [
            np.diag(np.broadcast_to(c, 3)) if np.ndim(c) < 2 else c
            for c in ([covariances] * 2 if kind.startswith("tied") else mixture.covariances)
        ]
    )
    want = np.zeros(5)
    for a in range(3):
        density = sum(
            w * norm(mu[a], np.sqrt(S[a, a] + noise[a])).pdf(X[:, a])
            for w, mu, S in zip(mixture.weights, mixture.means, full, strict=True)
        )
        want += np.where(np.isnan(X[:, a]), 0, np.log(density))
    np.testing.assert_allclose(log_prob_by_feature(mixture, X, noise), want)


def test_the_gaps_of_an_outlier_are_filled_with_what_is_usual(rng):
    X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 8])
    X[:, 1] += 0.9 * X[:, 0]
    X = np.concatenate([X, rng.uniform(-40, 40, (20, 2))])
    fit = GaussianMixture(2, outliers="auto", random_state=0).fit(X)
    usual = float(fit.weights_ @ fit.means_[:, 1])
    filled = fit.impute([[1e6, np.nan], [8.0, np.nan]])
    assert filled[0, 1] == pytest.approx(usual)
    assert filled[1, 1] == pytest.approx(fit.means_[:, 1].max(), abs=1)
    drawn = fit.mixture_.impute([[1e6, np.nan]], 200, random_state=0)[:, 0, 1]
    assert abs(drawn.mean() - usual) < 2
    assert drawn.std() == pytest.approx(X[:600, 1].std(), rel=0.2)


def test_one_more_reading_of_parameters():
    """Components that no row belongs to leave finite weights."""
    likelihood = row_likelihood(np.eye(3), None, covariance_type("diag"), 1e-6)
    box = Box(np.full(3, np.exp(200 / 3)), 0.0, 0.5)  # so wide that its log density is -200
    likelihood = replace(likelihood, target=replace(likelihood.target, box=box))
    far = Parameters(np.array([0.6]), np.full((1, 3), 1e8), np.ones((1, 3)))
    after = likelihood.step(far).after
    assert np.all(np.isfinite(after.weights))
