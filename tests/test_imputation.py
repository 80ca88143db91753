"""MixtureImputer: scikit-learn's manners, and fillings that are those of the mixture."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from momentmix import GaussianMixture, MixtureImputer

IRIS, SPECIES = load_iris(return_X_y=True)


@parametrize_with_checks([MixtureImputer(2, random_state=0)])
@pytest.mark.filterwarnings("ignore")  # the checks fit a handful of rows
def test_sklearn_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def gappy(rng):
    X = IRIS.copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def test_gaps_are_filled_as_the_mixture_says(gappy):
    imputer = MixtureImputer(3, random_state=0).fit(gappy)
    mixture = GaussianMixture(3, random_state=0).fit(gappy)
    np.testing.assert_array_equal(imputer.transform(gappy), mixture.impute(gappy))
    gaps = np.isnan(gappy)
    error = np.mean((imputer.transform(gappy) - IRIS)[gaps] ** 2)
    assert error < 0.25 * np.mean((SimpleImputer().fit_transform(gappy) - IRIS)[gaps] ** 2)


def test_the_number_of_components_is_found(rng):
    X = rng.normal(size=(400, 2)) + np.repeat([[0.0, 0.0], [8.0, 8.0]], 200, axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    assert MixtureImputer(random_state=0).fit(X).estimator_.n_components == 2
    assert MixtureImputer(max_components=1).fit(X).estimator_.n_components == 1


def test_a_pipeline(gappy):
    model = make_pipeline(MixtureImputer(2, random_state=0), LogisticRegression(max_iter=1000))
    assert cross_val_score(clone(model), gappy, SPECIES, cv=3).mean() > 0.8


def test_random_fillings_and_indicators(gappy):
    frame = pd.DataFrame(gappy, columns=list("abcd"))
    imputer = MixtureImputer(1, sample_posterior=True, add_indicator=True, random_state=0)
    imputer.set_output(transform="pandas")
    table = imputer.fit_transform(frame)
    added = [f"missingindicator_{name}" for name in "abcd"]
    assert list(table.columns) == [*"abcd", *added]
    np.testing.assert_array_equal(table[added], frame.isna())
    pd.testing.assert_frame_equal(table, imputer.transform(frame))  # a seed is a seed
    other = imputer.set_params(random_state=1).transform(frame)
    assert not np.allclose(table[list("abcd")], other[list("abcd")])


def test_an_empty_column_is_left_out(gappy):
    frame = pd.DataFrame(gappy, columns=list("abcd")).assign(e=np.nan)
    with pytest.warns(UserWarning, match="no value in e; left out"):
        imputer = MixtureImputer(1).fit(frame)
    assert list(imputer.get_feature_names_out()) == list("abcd")
    assert imputer.transform(frame).shape == (150, 4)
    with pytest.raises(ValueError, match="no value at all"):
        MixtureImputer(1).fit(np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="n_components must be"):
        MixtureImputer(0).fit(gappy)
