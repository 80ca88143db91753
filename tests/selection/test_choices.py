"""Choices on tables with shared values: one answer, as good as any fit, and nothing silent."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from commands import run
from momentmix import CollapseWarning, GaussianMixture, Mixture, SharedValueWarning, select
from momentmix.covariance import Full
from momentmix.rows.frame import Frame
from momentmix.rows.screening import repeating_columns
from momentmix.selection import Selection, blrt


def borrowers(rng, p=600):
    """Two groups of borrowers: one without a mortgage, and incomes on no grid."""
    owner = rng.uniform(size=p) < 0.4
    mortgage = np.where(owner, rng.lognormal(11, 0.3, p), 0.0)
    income = rng.normal(np.where(owner, 60.0, 40.0), 5.0)
    return pd.DataFrame({"income": income, "mortgage": mortgage}), owner


def test_a_group_that_is_exact_in_a_column_is_found_and_the_column_named(rng):
    X, owner = borrowers(rng)
    with pytest.warns(SharedValueWarning, match="in column mortgage a component has a single"):
        fit = GaussianMixture("auto", random_state=0).fit(X)
    assert fit.n_components_ >= 2
    assert len(fit.collapsed_) == 0
    exact = np.argmin(fit.covariances_[:, 1, 1])
    np.testing.assert_allclose(fit.weights_[exact], 1 - owner.mean(), atol=0.02)
    np.testing.assert_allclose(fit.means_[exact], [40, 0], atol=1)


def test_likelihoods_of_all_numbers_are_at_one_resolution(rng):
    """The floor of the exact column is the same for one component and for many."""
    X, _ = borrowers(rng)
    least = 1e-6 * X["mortgage"].var(ddof=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for m in (2, 3, 4):
            fit = GaussianMixture(m, random_state=0).fit(X)
            assert fit.covariances_[:, 1, 1].min() >= least
            own = [
                w * multivariate_normal(mu, S).pdf(X)
                for w, mu, S in zip(fit.weights_, fit.means_, fit.covariances_, strict=True)
            ]
            np.testing.assert_allclose(np.log(np.sum(own, axis=0)).mean(), fit.score(X), rtol=1e-6)


def test_columns_that_repeat_values(rng):
    X = rng.normal(size=(2000, 5))
    X[:300, 1] = 0.0  # a spike in a column that is otherwise on no grid
    X[:, 2] = rng.integers(0, 2, 2000) / 3
    X[:9, 3] = 1.0  # too few to say anything
    X[:1000, 4] = np.nan
    assert repeating_columns(X).tolist() == [False, True, True, False, False]
    drawn = np.bincount(rng.integers(0, 2000, 2000), minlength=2000)
    kept = drawn > 0
    assert repeating_columns(X[kept], drawn[kept] * 0.5).tolist()[0] is False
    assert repeating_columns(np.repeat(X, 3, axis=0)[:, :1], np.full(6000, 20.0)).tolist() == [
        False
    ]
    one = np.append(rng.normal(size=100), 0.0)[:, None]
    assert repeating_columns(one, np.append(np.ones(100), 60)).tolist() == [True]


def test_sums_and_copies_are_named_and_collapse_nothing(rng):
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["principal", "interest", "age"])
    X["total"] = X["principal"] + X["interest"]
    with pytest.warns(SharedValueWarning, match="columns principal, interest, total are copies or"):
        fit = GaussianMixture(2, random_state=0).fit(X)
    assert len(fit.collapsed_) == 0
    few = Frame.of_samples(Full, rng.normal(size=(5, 8)), None)
    assert few.null.shape == (8, 4)
    loans, _ = borrowers(rng)  # without a floor at the resolution of the column
    with pytest.warns(CollapseWarning, match="that of column mortgage"):
        GaussianMixture(2, prior=None, random_state=0).fit(loans)


@pytest.mark.parametrize("numbers", [range(1, 6), [4, 5], [5, 3]])
def test_each_entry_is_as_good_as_a_fit_of_its_number(numbers, rng):
    X = rng.normal(size=(200, 3)) + 3 * rng.integers(0, 2, (200, 3))
    for seed in (0, 1):
        for choice in select(X, numbers, random_state=seed).table:
            alone = GaussianMixture(choice.n_components, random_state=seed).fit(X)
            if choice.fit.prior_strength_ == alone.prior_strength_:
                assert choice.fit.log_posterior_ > alone.log_posterior_ - 1e-3


def test_one_answer_for_all_seeds_and_orders_beyond_ten_components(rng):
    means = 12 * np.array([[i, j] for i in range(4) for j in range(3)])
    X, _ = Mixture(np.full(12, 1 / 12), means, np.ones(12), "spherical").sample(600, 0)
    auto = [GaussianMixture("auto", random_state=s).fit(Y) for s, Y in ((0, X), (1, X[::-1]))]
    assert {fit.n_components_ for fit in auto} == {12}
    found = select(X, random_state=0)
    assert found.best.n_components_ == 12
    assert max(choice.n_components for choice in found.table) == 15
    np.testing.assert_allclose(found.best.log_posterior_, auto[0].log_posterior_, atol=1e-9)


def test_more_starts_are_no_worse_than_the_default(rng):
    X = rng.normal(size=(150, 3)) + 3 * rng.integers(0, 2, (150, 3))
    X[rng.uniform(size=X.shape) < 0.15] = np.nan
    for seed in range(3):
        auto, ten = (GaussianMixture(4, n_init=k, random_state=seed).fit(X) for k in ("auto", 10))
        assert ten.log_posterior_ >= auto.log_posterior_ - 1e-6


def test_p_values_go_on_as_asked(rng):
    X = np.concatenate([rng.normal(size=40), rng.normal(8, 1, 40)])[:, None]
    settings = {"covariance_type": "spherical", "random_state": 0}
    short, long = blrt(X, 1, **settings), blrt(X, 1, n_boot=399, **settings)
    assert short.rejected
    assert short.n_boot < 199
    assert (long.n_boot, long.p_value) == (399, 1 / 400)
    not_rejected = blrt(X, 2, n_boot=399, **settings)
    assert not not_rejected.rejected
    assert not_rejected.n_boot < 399


def test_a_choice_that_its_test_contradicts_says_why(rng):
    X = rng.normal(size=(100, 2)) + 8 * rng.integers(0, 2, (100, 1))
    one, two = select(X, [1, 2], random_state=0).table
    two.fit._why_collapsed = "component 1 rests on about 4 rows"
    table = [one._replace(p_value=0.005), two._replace(collapsed=1)]
    last = str(Selection(table, "blrt")).splitlines()[-1]
    assert "best by blrt: 1 components" in last
    assert "p = 0.005 rejects 1 against 2 components" in last
    assert "component 1 rests on about 4 rows" in last


def test_the_command_makes_the_same_choice_and_names_the_column(rng, tmp_path, monkeypatch):
    X, _ = borrowers(rng, 300)
    X.to_csv(tmp_path / "loans.csv", index=False)
    monkeypatch.chdir(tmp_path)
    X = pd.read_csv("loans.csv")
    m = GaussianMixture("auto", random_state=0).fit(X).n_components_
    out, _ = run("fit", "loans.csv", "-k", "auto", "--json")
    facts = json.loads(out)
    assert len(facts["mixture"]["weights"]) == m
    assert any("In column mortgage a component has a single value" in r for r in facts["remarks"])
    out, _ = run("select", "loans.csv", "--json")
    facts = json.loads(out)
    assert (facts["n_components"], facts["covariance_type"]) == (m, "full")
    assert sum("column mortgage" in remark for remark in facts["remarks"]) == 1
