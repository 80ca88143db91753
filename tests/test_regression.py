"""MixtureRegressor: scikit-learn's manners, and predictions that follow from the joint density."""

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid, trapezoid
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from momentmix import Mixture, MixtureRegressor

JOINT = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0, 0.0], [3.0, 1.0, 4.0], [0.0, 3.0, -4.0]],
    [
        [[1.0, 0.3, 0.8], [0.3, 1.0, 0.1], [0.8, 0.1, 1.0]],
        [[1.0, 0.0, -0.6], [0.0, 0.5, 0.2], [-0.6, 0.2, 1.5]],
        [[0.7, 0.2, 0.0], [0.2, 0.9, 0.5], [0.0, 0.5, 0.6]],
    ],
)


@parametrize_with_checks([MixtureRegressor(max_components=1)])
@pytest.mark.filterwarnings("ignore")  # the checks fit a handful of rows
def test_sklearn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows():
    return JOINT.sample(2000, random_state=0)[0]


@pytest.fixture(scope="module")
def model(rows):
    return MixtureRegressor(random_state=0).fit(rows[:, :2], rows[:, 2])


def test_one_component_is_linear_regression(rows, rng):
    X, y, weights = rows[:, :2], rows[:, 2], rng.uniform(size=len(rows))
    for w in (None, weights):
        ours = MixtureRegressor(1).fit(X, y, w).predict(X)
        np.testing.assert_allclose(ours, LinearRegression().fit(X, y, w).predict(X), atol=1e-8)


def test_predictions_follow_from_the_joint_density(model, rows):
    """Against integrals over y of the density, on a grid."""
    assert model.estimator_.n_components == 3
    X = rows[::200, :2]
    mean, std = model.predict(X, return_std=True)
    low, high = model.predict_interval(X, level=0.8)
    y = np.linspace(-12, 12, 20_001)
    for i, x in enumerate(X):
        points = np.column_stack([np.tile(x, (len(y), 1)), y])
        density = np.exp(model.estimator_.score_samples(points))
        density /= trapezoid(density, y)
        centre = trapezoid(density * y, y)
        np.testing.assert_allclose(mean[i], centre, atol=1e-6)
        spread = np.sqrt(trapezoid(density * (y - centre) ** 2, y))
        np.testing.assert_allclose(std[i], spread, atol=1e-6)
        below = cumulative_trapezoid(density, y, initial=0)
        np.testing.assert_allclose(np.interp([low[i], high[i]], y, below), [0.1, 0.9], atol=1e-5)


def test_predictions_are_those_of_the_conditional_mixture(model, rows):
    """Also where x has a gap: the other value is all that is known."""
    X = rows[:20, :2].copy()
    X[::3, 0] = np.nan
    X[1::3, 1] = np.nan
    X[3] = np.nan
    mean, std = model.predict(X, return_std=True)
    mixture = model.estimator_.mixture_
    for i, x in enumerate(X):
        seen = np.flatnonzero(~np.isnan(x))
        given = mixture.condition(seen, x[seen]) if len(seen) else mixture
        y = given.marginal([given.n_features - 1])
        centre = y.weights @ y.means[:, 0]
        variance = y.weights @ (y.covariances[:, 0, 0] + y.means[:, 0] ** 2) - centre**2
        np.testing.assert_allclose([mean[i], std[i]], [centre, np.sqrt(variance)], rtol=1e-8)


def test_intervals_hold_as_many_new_rows_as_they_say(model):
    new = JOINT.sample(4000, random_state=1)[0]
    low, high = model.predict_interval(new[:, :2])
    inside = np.mean((low < new[:, 2]) & (new[:, 2] < high))
    assert abs(inside - 0.9) < 0.015  # three standard errors
    linear = LinearRegression().fit(new[:, :2], new[:, 2]).score(new[:, :2], new[:, 2])
    assert model.score(new[:, :2], new[:, 2]) > linear + 0.1


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_several_columns(rows, kind):
    """Each has the mean and the interval that it would have in the same mixture alone."""
    X, Y = rows[:, :1], rows[:, 1:]
    model = MixtureRegressor(3, covariance_type=kind, random_state=0).fit(X, Y)
    mean, std = model.predict(X[:50], return_std=True)
    low, high = model.predict_interval(X[:50])
    assert mean.shape == std.shape == low.shape == high.shape == (50, 2)
    assert model.score(X, Y) > 0.1
    given = model.estimator_.mixture_.condition([0], X[0])
    np.testing.assert_allclose(mean[0], given.weights @ given.means, rtol=1e-8)
    for column in range(2):
        drawn = np.sort(given.sample(20_000, random_state=0)[0][:, column])
        reached = np.searchsorted(drawn, [low[0, column], high[0, column]]) / len(drawn)
        np.testing.assert_allclose(reached, [0.05, 0.95], atol=0.006)


def test_gaps_and_weights_in_the_fit(rows, rng):
    X, y = rows[:, :2].copy(), rows[:, 2]
    whole = MixtureRegressor(3, random_state=0).fit(X, y).score(X, y)
    X[rng.random(X.shape) < 0.1] = np.nan
    gappy = MixtureRegressor(3, random_state=0).fit(X, y)
    assert gappy.score(rows[:, :2], y) > whole - 0.02
    halves = MixtureRegressor(random_state=0).fit(rows[::4, :2], y[::4], np.full(500, 4.0))
    again = MixtureRegressor(random_state=0).fit(np.repeat(rows[::4, :2], 4, 0), y[::4].repeat(4))
    assert halves.estimator_.n_components == again.estimator_.n_components
    np.testing.assert_allclose(halves.predict(X), again.predict(X), rtol=1e-6)


def test_precision_and_errors(model, rows):
    narrow = rows.astype(np.float32)
    short = MixtureRegressor(1).fit(narrow[:, :2], narrow[:, 2])
    assert short.predict(narrow[:, :2]).dtype == np.float32
    assert short.predict(rows[:, :2]).dtype == np.float64
    with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
        model.predict_interval(rows[:, :2], level=95)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        MixtureRegressor().fit(rows[:, :2], np.where(rows[:, 2] > 0, np.nan, rows[:, 2]))
    for name, value in (("n_components", 0), ("max_components", 0), ("covariance_type", "round")):
        with pytest.raises(ValueError, match=f"{name} must be"):
            MixtureRegressor(**{name: value}).fit(rows[:, :2], rows[:, 2])
