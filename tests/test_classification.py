"""MixtureClassifier: scikit-learn's manners, and discriminant analysis where it is that."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import logm
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from momentmix import CollapseWarning, GaussianMixture, Mixture, MixtureClassifier

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, GRAPE = load_wine(return_X_y=True)


@parametrize_with_checks([MixtureClassifier(random_state=0)])
@pytest.mark.filterwarnings("ignore")  # the checks fit a handful of rows
def test_sklearn_conventions(estimator, check):
    check(estimator)


def test_one_full_component_is_quadratic_discriminant_analysis():
    ours = MixtureClassifier(prior=None).fit(IRIS, SPECIES)
    theirs = QuadraticDiscriminantAnalysis().fit(IRIS, SPECIES)
    # Some of its releases divide covariances by one less than the number of rows.
    totals = [IRIS[k == SPECIES].var(axis=0).sum() for k in range(3)]
    variances = zip(totals, theirs.scalings_, strict=True)
    theirs.scalings_ = [total * scale / scale.sum() for total, scale in variances]
    logs = ours.predict_log_proba(IRIS)
    np.testing.assert_allclose(logs, theirs.predict_log_proba(IRIS), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(IRIS), theirs.predict(IRIS))


def test_one_tied_component_is_linear_discriminant_analysis():
    ours = MixtureClassifier(covariance_type="tied", priors=[0.2, 0.3, 0.5]).fit(IRIS, SPECIES)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.2, 0.3, 0.5]).fit(IRIS, SPECIES)
    # Its covariance weights the classes by their priors, which are not the shares of the rows.
    shares = LinearDiscriminantAnalysis(solver="lsqr").fit(IRIS, SPECIES)
    theirs.coef_ = shares.coef_
    theirs.intercept_ = shares.intercept_ + np.log([0.6, 0.9, 1.5])
    np.testing.assert_allclose(ours.predict_proba(IRIS), theirs.predict_proba(IRIS), atol=1e-6)


def test_one_diagonal_component_is_naive_bayes_with_weights(rng):
    weights = rng.uniform(0.5, 2, len(IRIS)) * (rng.random(len(IRIS)) < 0.8)
    ours = MixtureClassifier(covariance_type="diag", prior=None).fit(IRIS, SPECIES, weights)
    theirs = GaussianNB(var_smoothing=0).fit(IRIS, SPECIES, weights)
    np.testing.assert_allclose(ours.predict_proba(IRIS), theirs.predict_proba(IRIS), atol=1e-8)
    np.testing.assert_allclose(ours.priors_, theirs.class_prior_)
    two = ours.set_params(n_components=1).fit(IRIS[:100], SPECIES[:100])
    decided = two.decision_function(IRIS[:100]) > 0
    np.testing.assert_array_equal(decided, two.predict(IRIS[:100]) == 1)


def test_the_prior_holds_classes_together():
    """The covariances are where the penalised likelihood is largest, in whitened coordinates."""
    nu = 11.0
    Z = np.linalg.solve(np.linalg.cholesky(np.cov(IRIS.T, bias=True)), (IRIS - IRIS.mean(0)).T).T
    fits = MixtureClassifier(prior=nu).fit(Z, SPECIES).mixtures_
    sigmas = np.array([fit.covariances[0] for fit in fits])
    scatter = [np.cov(Z[k == SPECIES].T, bias=True) for k in range(3)]

    def objective(sigmas):
        logs = np.array([logm(s) for s in sigmas])
        fit = [np.linalg.slogdet(s)[1] + np.trace(np.linalg.solve(s, c))
               for s, c in zip(sigmas, scatter, strict=True)]  # fmt: skip
        return -25 * np.sum(fit) - nu / 4 * np.sum((logs - logs.mean(axis=0)) ** 2)

    rng, best = np.random.default_rng(0), objective(sigmas)
    for _ in range(20):
        E = rng.normal(size=sigmas.shape)
        E = 0.005 * (sigmas @ E + E.swapaxes(1, 2) @ sigmas)
        up, down = objective(sigmas + E), objective(sigmas - E)
        assert max(up, down) < best
        assert abs(up - down) < 0.1 * (2 * best - up - down)  # the top is where the fit is
    # A firm prior leaves what all classes share.
    firm = MixtureClassifier(prior=1e5).fit(Z, SPECIES).mixtures_
    np.testing.assert_allclose(firm[0].covariances, firm[1].covariances, rtol=0.01, atol=0.01)


def test_without_a_prior_classes_stand_alone(rng):
    X = rng.normal(size=(400, 2)) * rng.uniform(0.5, 2, 2) + rng.choice([0, 4], (400, 1))
    y = np.arange(400) % 2
    model = MixtureClassifier(2, prior=None, random_state=0).fit(X, y)
    for k, mixture in enumerate(model.mixtures_):
        alone = GaussianMixture(2, prior=None, random_state=0, tol=1e-9).fit(X[k::2])
        assert abs(np.mean(mixture.log_prob(X[k::2])) - alone.score(X[k::2])) < 1e-4


def test_tied_components_share_one_covariance():
    """That of all rows about the means of their class, each by its responsibilities."""
    model = MixtureClassifier({0: 1, 1: 2, 2: 2}, covariance_type="tied", random_state=0)
    total = np.zeros((4, 4))
    for k, mixture in enumerate(model.fit(IRIS, SPECIES).mixtures_):
        assert mixture.n_components == min(k + 1, 2)
        rows = IRIS[k == SPECIES]
        R = np.exp(mixture.log_joint(rows) - mixture.log_prob(rows)[:, None])
        for j, mean in enumerate(mixture.means):
            total += ((rows - mean) * R[:, [j]]).T @ (rows - mean)
        np.testing.assert_array_equal(mixture.covariances, model.mixtures_[0].covariances)
    np.testing.assert_allclose(total / 150, model.mixtures_[0].covariances, rtol=0.02, atol=1e-3)


def test_the_number_of_components_is_found(rng):
    corners = rng.normal(size=(300, 2)) + np.repeat([[-6, 0], [6, 0], [0, 6]], 100, axis=0)
    X, y = np.vstack([rng.normal(size=(200, 2)), corners]), ["in"] * 200 + ["out"] * 300
    model = MixtureClassifier("auto", random_state=0).fit(X, y)
    assert [mixture.n_components for mixture in model.mixtures_] == [1, 3]
    assert model.score(X, y) > 0.98
    weighted = clone(model).fit(X, y, (X[:, 0] < 1).astype(float))
    assert [mixture.n_components for mixture in weighted.mixtures_] == [1, 2]


def test_gaps(rng):
    X = IRIS.copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    X[0] = np.nan
    model = MixtureClassifier().fit(X, SPECIES)
    assert model.score(X, SPECIES) > 0.9
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], model.priors_)
    row = np.array([[np.nan, 3.0, np.nan, 1.2]])
    density = [
        np.exp(mixture.marginal([1, 3]).log_prob([[3.0, 1.2]])) for mixture in model.mixtures_
    ]
    expected = model.priors_ * np.ravel(density)
    np.testing.assert_allclose(model.predict_proba(row)[0], expected / expected.sum())


def test_few_rows_borrow_from_other_classes():
    """Seven rows of one class, in thirteen features."""
    X = StandardScaler().fit_transform(WINE)
    few = np.r_[0:59:2, 59:130:11, 130:178:2]
    rest = np.setdiff1d(np.arange(len(X)), few)
    model = MixtureClassifier().fit(X[few], GRAPE[few])
    assert model.score(X[rest], GRAPE[rest]) > 0.85
    with pytest.warns(CollapseWarning, match="of class 1 have no extent"):
        alone = MixtureClassifier(prior=None).fit(X[few], GRAPE[few])
    assert alone.score(X[rest], GRAPE[rest]) < 0.5
    one = np.r_[0:59:2, 60, 130:178:2]  # a single row has a mean
    alone = MixtureClassifier("auto", random_state=0).fit(X[one], GRAPE[one])
    np.testing.assert_allclose(alone.mixtures_[1].means[0], X[60])


def test_names_and_precision():
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    words = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
    model = MixtureClassifier().fit(frame, words)
    assert model.mixtures_[0].feature_names == tuple("abcd")
    assert set(model.predict(frame)) == set(words)
    narrow = MixtureClassifier().fit(IRIS.astype(np.float32), SPECIES)
    assert narrow.predict_proba(IRIS.astype(np.float32)).dtype == np.float32
    assert narrow.predict_proba(IRIS).dtype == np.float64
    far = model.predict_proba(frame * 1e200)
    np.testing.assert_allclose(far.sum(axis=1), 1)
    assert cross_val_score(MixtureClassifier(), IRIS, SPECIES, cv=5).mean() > 0.95


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": 51}, "class 0: Expected n_samples >= n_components"),
        ({"n_components": {0: 1, 1: 2}}, "a number for each of the classes"),
        ({"n_components": {0: 1, 1: 2, 2: "many"}}, r"n_components\[2\] must be"),
        ({"covariance_type": "round"}, "covariance_type must be one of"),
        ({"priors": [0.5, 0.5]}, "priors must have the shape"),
        ({"priors": [0.5, 0.5, 0.5]}, "sum to 1"),
        ({"prior": -1}, "prior must be"),
        ({"max_components": 0}, "max_components must be"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        MixtureClassifier(**settings).fit(IRIS, SPECIES)


def test_errors_about_rows():
    with pytest.raises(ValueError, match="class 2 has no row with a positive sample_weight"):
        MixtureClassifier().fit(IRIS, SPECIES, (SPECIES < 2).astype(float))
    X = IRIS.copy()
    X[SPECIES == 1, 3] = np.nan
    with pytest.raises(ValueError, match="class 1: column 3 of X has no value"):
        MixtureClassifier().fit(X, SPECIES)


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_a_class_of_equal_rows(kind):
    """It has one component, whatever number is asked for, if its rows are many enough."""
    X = np.concatenate([np.ones((10, 2)), np.random.default_rng(0).normal(size=(30, 2)) + 5])
    y = np.repeat([0, 1], [10, 30])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        model = MixtureClassifier(2, covariance_type=kind, random_state=0).fit(X, y)
        once = MixtureClassifier(2, covariance_type=kind, random_state=0)
        once.fit(X[9:], y[9:], sample_weight=[10.0] + [1.0] * 30)
    assert [len(mixture.weights) for mixture in model.mixtures_] == [1, 2]
    np.testing.assert_allclose(model.mixtures_[0].means, [[1.0, 1.0]])
    assert np.array_equal(model.predict(X), y)
    np.testing.assert_allclose(once.predict_proba(X), model.predict_proba(X), rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="class 0: Expected n_samples >= n_components"):
        MixtureClassifier(11, covariance_type=kind).fit(X, y)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_weights_are_repetitions_to_scikit_learn(kind):
    model = MixtureClassifier(2, covariance_type=kind, random_state=0)
    check_sample_weight_equivalence_on_dense_data("MixtureClassifier", model)


def test_classes_of_rows_far_out(rng):
    """With one covariance for all, a column in which the classes agree tells nothing."""
    X = rng.normal(size=(400, 2))
    X[:200, 0] += 2
    model = MixtureClassifier(covariance_type="tied").fit(X, np.repeat([0, 1], 200))
    parts = [Mixture([1.0], [[mean, 0.0]], np.eye(2), "tied") for mean in (2.0, 0.0)]
    model.mixtures_ = parts
    near, far = model.predict_proba([[0.9, 0.0]]), model.predict_proba([[0.9, 1e20]])
    np.testing.assert_allclose(far, near, rtol=1e-12)
