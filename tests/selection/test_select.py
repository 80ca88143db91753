"""Comparisons of numbers and types: the table against independent computations, and the choice."""

import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import KFold

from momentmix import (
    GaussianMixture,
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
    select,
)
from momentmix.selection import Selection, best_choice

TRUTH = Mixture([0.45, 0.35, 0.2], [[0, 0], [6, 1], [1, 8]], [[1, 4], [4, 1], [0.5, 1]], "diag")
X, LABELS = TRUTH.sample(500, random_state=3)


@pytest.fixture(scope="module")
def selection():
    return select(X, range(1, 5), "auto", random_state=0)


def test_the_true_number_and_type(selection):
    assert (selection.best.n_components_, selection.best.covariance_type_) == (3, "diag")
    assert selection.best is selection.chosen.fit
    assert adjusted_rand_score(selection.best.predict(X), LABELS) > 0.9
    found = [(choice.covariance_type, choice.n_components) for choice in selection.table]
    types = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
    assert sorted(found) == sorted((name, m) for name in types for m in range(1, 5))


def test_the_table_by_hand(selection):
    """Every number again, from densities of SciPy and the definitions."""
    counts = {"full": 5, "tied": 5, "diag": 4, "spherical": 3, "tied-diag": 4, "tied-spherical": 3}
    for choice in selection.table:
        mixture, m = choice.fit.mixture_, choice.n_components
        R = np.column_stack(
            [
                weight * multivariate_normal(mean, covariance).pdf(X)
                for weight, mean, covariance in zip(
                    mixture.weights, mixture.means, full(mixture), strict=True
                )
            ]
        )
        total = np.log(R.sum(axis=1)).sum()
        R /= R.sum(axis=1, keepdims=True)
        entropy = -np.sum(np.where(R > 0, R * np.log(np.where(R > 0, R, 1)), 0))
        each = 2 if choice.covariance_type.startswith("tied") else counts[choice.covariance_type]
        parameters = counts[choice.covariance_type] + (m - 1) * (each + 1)
        bic = -2 * total + parameters * np.log(len(X))
        assert choice.n_parameters == parameters
        expected = [total, bic, bic + 2 * entropy, -2 * total + 2 * parameters]
        shown = [choice.log_likelihood, choice.bic, choice.icl, choice.aic]
        np.testing.assert_allclose(shown, expected, rtol=1e-9)
        relative = 1 if m == 1 else 1 - entropy / (len(X) * np.log(m))
        np.testing.assert_allclose(choice.relative_entropy, relative, rtol=1e-9)
        assert choice.smallest == np.bincount(R.argmax(axis=1), minlength=m).min()
        assert (choice.cv, choice.stability, choice.p_value) == (None, None, None)


def full(mixture):
    n, C = mixture.n_features, np.asarray(mixture.covariances)
    if mixture.covariance_type.startswith("tied"):
        C = [C] * mixture.n_components
    return [c * np.eye(n) if np.ndim(c) < 2 else c for c in C]


def test_the_best_of_each_type_is_as_good_as_a_fit_of_its_own(selection):
    for name in ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"):
        alike = [choice for choice in selection.table if choice.covariance_type == name]
        best = best_choice(alike)
        alone = GaussianMixture(best.n_components, covariance_type=name, random_state=1).fit(X)
        assert best.fit.log_posterior_ > alone.log_posterior_ - 1e-4
        assert (best.fit.n_components, best.fit.covariance_type) == (best.n_components, name)


def test_shown_as_text_html_table_and_picture(selection):
    text = str(selection)
    assert "best by bic: 3 components, diag covariances" in text
    assert len(text.splitlines()) == 26
    (marked,) = (line for line in text.splitlines()[1:-1] if line.endswith("*"))
    assert marked.split()[:2] == ["diag", "3"]
    assert "p_value" not in text
    html = selection._repr_html_()
    assert html.count("<tr") == 25
    assert html.count("bold") == 1
    frame = pd.DataFrame(selection.table)
    assert frame.loc[frame.bic.idxmin(), "covariance_type"] == "diag"
    pytest.importorskip("matplotlib").use("Agg")
    ax = selection.plot()
    lines = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    np.testing.assert_allclose(lines["diag"][:, 1], frame[frame.covariance_type == "diag"].bic)
    np.testing.assert_allclose(ax.get_lines()[-1].get_xydata(), [[3, selection.chosen.bic]])


def test_other_criteria(selection):
    """ICL and AIC from the same numbers; rows left out against folds of scikit-learn."""
    table = selection.table
    for name in ("icl", "aic"):
        assert best_choice(table, name) is min(table, key=lambda choice: getattr(choice, name))
    held = select(X, [1, 3], "diag", "cv", random_state=0)
    folds = KFold(5, shuffle=True, random_state=0)
    for choice in held.table:
        scores = []
        for train, test in folds.split(X):
            gm = GaussianMixture(choice.n_components, covariance_type="diag", random_state=0)
            scores.append(gm.fit(X[train]).score(X[test]))
        assert abs(choice.cv - np.mean(scores)) < 0.01  # by other folds
    assert held.chosen.n_components == 3
    assert "held out" in str(held)


def test_icl_finds_clusters_that_are_not_gaussian():
    rng = np.random.default_rng(5)
    centres = np.array([[0, 0], [6, 0], [3, 6]])
    Y = centres[rng.integers(3, size=900)] + rng.uniform(-2, 2, size=(900, 2))
    by_bic = select(Y, "auto", "spherical", random_state=0)
    by_icl = select(Y, range(1, 9), "spherical", "icl", random_state=0)
    assert by_icl.best.n_components_ == 3
    assert by_bic.best.n_components_ > 3


def test_stability_over_seeds():
    clear = select(X, [3], "full", seeds=3, random_state=0)
    assert clear.table[0].stability > 0.99
    chance = np.random.default_rng(0).normal(size=(300, 2))
    assert select(chance, [9], "full", seeds=3, random_state=0).table[0].stability < 0.9


def test_weights_count_rows():
    """A weight of two is a row twice, in fit, criteria and classes."""
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = np.repeat(X, weights, axis=0)
    one = select(X, [1, 2, 3], "full", sample_weight=weights, random_state=0)
    two = select(repeated, [1, 2, 3], "full", random_state=0)
    for a, b in zip(one.table, two.table, strict=True):
        np.testing.assert_allclose([a.bic, a.icl, a.smallest], [b.bic, b.icl, b.smallest], 1e-6)


def test_gaps_and_errors():
    rng = np.random.default_rng(1)
    Y = X + 0.5 * rng.normal(size=X.shape)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    found = select(Y, range(1, 5), "diag", noise_covariance=0.25, random_state=0)
    assert found.best.n_components_ == 3
    choice = found.chosen
    p = np.sum(~np.isnan(Y).all(axis=1))
    np.testing.assert_allclose(choice.bic, found.best.bic(Y, noise_covariance=0.25))
    np.testing.assert_allclose(
        choice.log_likelihood, p * found.best.score(Y, noise_covariance=0.25)
    )
    alone = GaussianMixture(3, covariance_type="diag", random_state=0).fit(Y, noise_covariance=0.25)
    assert found.best.log_posterior_ > alone.log_posterior_ - 1e-4


def test_starts_at_moments_are_fitted_one_by_one():
    moments = {"init_params": "moments", "random_state": 0}
    found = select(X, [1, 2, 3], "diag", **moments)
    alone = GaussianMixture(3, covariance_type="diag", **moments).fit(X)
    np.testing.assert_allclose(found.table[2].bic, alone.bic(X))
    with pytest.raises(ValueError, match="goes on from fits by EM"):
        select(X, [1, 2], "diag", "cv", **moments)


def test_large_data_are_looked_at_in_a_sample(monkeypatch):
    from momentmix.rows import memory

    Y, _ = TRUTH.sample(6000, random_state=0)
    monkeypatch.setattr(memory, "LARGE_DATA", 8000)
    found = select(Y, "auto", "diag", random_state=0)
    assert found.best.n_components_ == 3
    for choice in found.table:
        np.testing.assert_allclose(choice.bic, choice.fit.bic(Y))


def test_what_is_refused():
    for arguments, words in (
        ({"n_components": []}, "n_components is empty"),
        ({"n_components": [0, 1]}, "whole number of at least 1"),
        ({"n_components": "many"}, "n_components must be one of"),
        ({"covariance_types": []}, "covariance_types is empty"),
        ({"covariance_types": "round"}, "covariance_types must be one of"),
        ({"criterion": "luck"}, "criterion must be one of"),
        ({"seeds": 0}, "seeds must be a whole number"),
        ({"n_components": [600]}, "Expected n_samples >= n_components"),
    ):
        with pytest.raises(ValueError, match=words):
            select(X, **arguments)
    with pytest.raises(TypeError, match="Dask"):
        select(pytest.importorskip("dask.array").from_array(X))


def test_few_rows_limit_the_numbers():
    found = select(X[:20], range(1, 9), "full", random_state=0)
    assert max(choice.n_components for choice in found.table) == 2
    asked = select(X[:20], [5], "full", random_state=0)
    assert [choice.n_components for choice in asked.table] == [5]


def test_a_collapsed_fit_is_passed_over(selection):
    table = [choice._replace(collapsed=int(choice.n_components == 3)) for choice in selection.table]
    assert Selection(table).chosen.n_components != 3


def test_the_estimator_chooses_by_itself():
    auto = GaussianMixture("auto", covariance_type="auto", random_state=0).fit(X)
    assert (auto.n_components_, auto.covariance_type_) == (3, "diag")
    assert auto.covariances_.shape == (3, 2)
    assert (auto.n_components, auto.covariance_type) == ("auto", "auto")
    alone = GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    assert (alone.n_components_, alone.covariance_type_) == (3, "diag")
    np.testing.assert_allclose(auto.bic(X), alone.bic(X), rtol=1e-5)
    assert auto.predict_proba(X).shape == (500, 3)
    again = auto.set_params(warm_start=True).fit(X)
    assert again.n_components_ == 3
    five = GaussianMixture(5, covariance_type="auto", random_state=0).fit(X)
    assert five.n_components_ == 5
    weights = np.where(LABELS == 2, 0, 1)
    assert GaussianMixture("auto", random_state=0).fit(X, sample_weight=weights).n_components_ == 2


def test_where_auto_is_refused():
    auto, moments = GaussianMixture("auto"), MomentTensors.from_samples(X, 4)
    of_moments = MomentMixture("auto")
    for call in (
        lambda: of_moments.fit(X),
        lambda: of_moments.partial_fit(X),
        lambda: of_moments.fit_moments(moments),
    ):
        with pytest.raises(ValueError, match=r"n_components='auto' compares.*GaussianMixture"):
            call()
    with pytest.raises(ValueError, match="covariance_type='auto' compares"):
        GaussianMixture(2, covariance_type="auto", means_init=X[:2]).fit(X)
    with pytest.raises(ValueError, match="init_params='moments'"):
        GaussianMixture("auto", init_params="moments").fit(X)
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="elsewhere"):
        auto.fit(dask.from_array(X))
    with pytest.raises(
        ValueError, match="'n_components' parameter of KnownCovarianceMixture must be an int"
    ):
        KnownCovarianceMixture("auto", 1.0).fit(X)
    assert not hasattr(auto, "mixture_")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupted_it_keeps_what_there_is():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(2_000, 6)) + 3 * rng.integers(0, 3, size=(2_000, 1))
    seen = []

    def interrupt(choice):
        seen.append(choice)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = select(Y, range(1, 31), "full", callback=interrupt, random_state=0)
    assert 3 <= len(found.table) <= 4
    assert any(choice.fit.interrupted_ for choice in found.table)
    assert found.best.mixture_.n_features == 6
