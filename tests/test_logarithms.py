"""Logarithms of columns, against scipy's lognormal distribution and finite differences."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import lognorm, norm
from sklearn.exceptions import SkipTestWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from momentmix import GaussianMixture, LogColumns, Mixture
from momentmix.distributions.units import Units, grid_step, rounded_like
from momentmix.logarithms import gain_of_logs, skewed_columns


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": np.exp(rng.normal(9, 1, 600)),
            "cars": np.maximum(np.round(np.exp(rng.normal(1, 0.7, 600))) - 1, 0),
            "age": rng.normal(45, 6, 600),
        }
    )


def test_is_a_transformer_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(LogColumns())


def test_densities_come_back_with_the_jacobian(table):
    table = table.drop(columns="cars")
    fit = GaussianMixture(1, covariance_type="diag", prior=None)
    pipe = make_pipeline(LogColumns(["income"]), fit).fit(table)
    z = np.log(table["income"].to_numpy())
    want = lognorm.logpdf(table["income"], z.std(), scale=np.exp(z.mean()))
    want = want + norm.logpdf(table["age"], table["age"].mean(), table["age"].to_numpy().std())
    found = pipe.score_samples(table) + pipe[0].log_jacobian(table)
    np.testing.assert_allclose(found, want, rtol=1e-9)


def test_the_jacobian_of_log1p_is_its_derivative():
    logs = LogColumns([0]).fit([[0.0], [3.0]])
    assert logs.get_feature_names_out().tolist() == ["log1p(x0)"]
    x, h = np.array([[0.0], [0.5], [80.0]]), 1e-6
    slope = (logs.transform(x + h) - logs.transform(x))[:, 0] / h
    np.testing.assert_allclose(np.exp(logs.log_jacobian(x)), slope, rtol=1e-5)


def test_means_intervals_and_samples_come_back(table):
    logs = LogColumns(["cars", "income"]).set_output(transform="pandas")
    Z = logs.fit_transform(table)
    assert list(Z) == ["log(income)", "log1p(cars)", "age"]
    np.testing.assert_allclose(logs.inverse_transform(Z), table, rtol=1e-12, atol=1e-12)
    fit = GaussianMixture(1).fit(Z)
    mean = logs.inverse_transform(fit.means_)[0]
    assert mean[0] == pytest.approx(np.exp(np.log(table["income"]).mean()), rel=1e-9)
    drawn = logs.inverse_transform(fit.sample(500)[0], like=table)
    assert np.all(drawn[:, 1] == np.round(drawn[:, 1]))
    assert np.all((drawn >= table.min().to_numpy()) & (drawn <= table.max().to_numpy()))


def test_gaps_stay_and_add_nothing():
    X = np.array([[1.0, 2.0], [np.nan, 5.0], [3.0, np.nan]])
    logs = LogColumns([0, 1]).fit(X)
    assert np.isnan(logs.transform(X)).tolist() == np.isnan(X).tolist()
    assert logs.log_jacobian(X)[1] == pytest.approx(-np.log(5))


def test_auto_takes_skewed_columns_alone(table):
    logs = LogColumns().fit(table.assign(debt=-table["income"], spike=table["income"] * 0))
    assert logs.columns_.tolist() == [0]
    assert skewed_columns(np.abs(np.random.default_rng(1).normal(100, 9, (3000, 3)))) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["height"], "there is no column 'height'; X has income, cars, age"),
        ("income", "columns must be 'auto' or a list, got 'income'"),
        ([7], "there is no column 7"),
    ],
)
def test_what_is_no_column_is_refused(table, columns, message):
    with pytest.raises(ValueError, match=message):
        LogColumns(columns).fit(table)


def test_numbers_without_a_logarithm_are_refused(table):
    with pytest.raises(ValueError, match=r"column age reaches -.*, and numbers below zero"):
        LogColumns(["age"]).fit(-table)
    logs = LogColumns(["income"]).fit(table)
    with pytest.raises(ValueError, match=r"row 3 has 0 in column income, which has no log.income."):
        logs.transform(table.assign(income=[1, 1, 1, 0, *[1] * 596]))
    with pytest.raises(ValueError, match=r"there is a column log.income. already"):
        LogColumns(["income"]).fit(table.assign(**{"log(income)": 1.0}))


def test_logarithms_are_suggested_where_they_raise_the_held_out_likelihood():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 1500)
    Z = rng.normal(size=(1500, 2)) + 6 * labels[:, None]
    skewed = np.column_stack([np.exp(Z[:, 0] / 2), Z[:, 1] + 20])
    gain = gain_of_logs(GaussianMixture(2, random_state=0).fit(skewed).mixture_, skewed)
    assert gain.columns == [0]
    assert gain.nats > 0.1
    plain = Z + 30
    assert gain_of_logs(GaussianMixture(2, random_state=0).fit(plain).mixture_, plain) is None
    logged = LogColumns([0]).set_output(transform="pandas").fit_transform(pd.DataFrame(skewed))
    again = GaussianMixture(2, random_state=0).fit(logged)
    assert gain_of_logs(again.mixture_, logged.to_numpy()) is None


def test_units_are_in_the_names():
    units = Units.of_features(["log(a(b))", "log1p(c)", "logs", "log(d)"], known=["log(d)"])
    assert units.columns == ["a(b)", "c", "logs", "log(d)"]
    assert units.logged.tolist() == [True, True, False, False]
    assert not Units.of_features(["x0", "x1"])


@given(
    st.sampled_from([1, 25, 0.01, 0.5, 0.125]),
    st.lists(st.integers(-400, 400), min_size=2, max_size=30, unique=True),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # both are absolute times
def test_the_grid_of_a_column_is_found(step, places):
    values = np.round(np.array(places) * step, 6)
    found = grid_step(values)
    assert found == pytest.approx(step * np.gcd.reduce(np.diff(np.sort(places))))
    drawn = rounded_like(np.linspace(-500, 500, 40)[:, None] * step, values[:, None])[:, 0]
    assert drawn.min() == values.min()
    assert drawn.max() == values.max()
    off = (drawn - values[0]) / found
    np.testing.assert_allclose(off, np.rint(off), atol=1e-4)


def test_measured_numbers_are_not_rounded():
    X = np.random.default_rng(0).normal(size=(50, 1))
    assert grid_step(X[:, 0]) == 0
    drawn = np.array([[0.123456789], [99.0]])
    np.testing.assert_array_equal(rounded_like(drawn, X), [[0.123456789], [X.max()]])


def test_samples_like_the_data():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.poisson(2, 400), 25 * rng.integers(0, 9, 400), rng.normal(size=400)])
    X[0, 1] = np.nan
    fit = GaussianMixture(2, random_state=0).fit(X)
    for drawn, _ in (fit.sample(300, like=X), fit.mixture_.sample(300, 0, like=X)):
        assert np.all(drawn[:, 0] == np.round(drawn[:, 0]))
        assert np.all(drawn[:, 1] % 25 == 0)
        assert drawn[:, 0].min() >= 0
        assert len(np.unique(drawn[:, 2])) > 280
    plain = Mixture([1.0], [[0.0]], [[[1.0]]]).sample(3, 0)[0]
    assert np.all(plain != np.round(plain))
