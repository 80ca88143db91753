"""Fits whose goal are clusters: the sharpened likelihood, its EM, and what fits say of it."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from likelihoods import row_likelihood
from momentmix import GaussianMixture, Mixture
from momentmix.covariance import covariance_type
from momentmix.estimators.gaussian_mixture import SHARPNESS
from momentmix.fit import Parameters
from momentmix.fitting.em import Likelihood, from_responsibilities, responsibilities
from momentmix.fitting.moves import drop_losses
from momentmix.rows.memory import RHO, Box
from momentmix.support.messages import NoStandardErrors

TYPES = ("full", "tied", "diag", "spherical")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 2)) + 3 * rng.integers(0, 2, (200, 1))


def joint(mixture, X, rho=1.0):
    """log λ_k^ρ f_k by SciPy; (p, m)."""
    n, C = mixture.n_features, np.asarray(mixture.covariances)
    C = [C] * mixture.n_components if mixture.covariance_type == "tied" else C
    C = [c * np.eye(n) if np.ndim(c) < 2 else c for c in C]
    parts = zip(mixture.weights, mixture.means, C, strict=True)
    return np.column_stack(
        [rho * np.log(w) + multivariate_normal(m, c).logpdf(X) for w, m, c in parts]
    )


def rho_of(sharpness):
    return 1.0 if sharpness == 1 else RHO


def sharpened(mixture, X, sharpness):
    L = sharpness * joint(mixture, X, rho_of(sharpness))
    return float(np.mean(logsumexp(L, axis=1) / sharpness))


def likelihood_of(X, kind, sharpness, box=None):
    own = covariance_type(kind)
    plain = row_likelihood(X, None, own, 1e-6)
    target = plain.target.__class__(own, 1e-6, box=box, sharpness=sharpness)
    return Likelihood(plain.rows, target)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("sharpness", [1.0, 2.5])
def test_the_objective_and_its_responsibilities_by_hand(X, kind, sharpness):
    likelihood = likelihood_of(X, kind, sharpness)
    start = from_responsibilities(likelihood, np.random.default_rng(1).dirichlet(np.ones(3), 200))
    mixture = Mixture(*start, kind)
    rho = rho_of(sharpness)
    L = joint(mixture, X, rho)
    expected = sharpened(mixture, X, sharpness)
    np.testing.assert_allclose(likelihood.value(start), expected, rtol=1e-10)
    np.testing.assert_allclose(likelihood.step(start).log_likelihood, expected, rtol=1e-10)
    R = np.exp(sharpness * L - logsumexp(sharpness * L, axis=1, keepdims=True))
    np.testing.assert_allclose(responsibilities(likelihood, start)[0], R, atol=1e-10)
    after = likelihood.step(start).after
    np.testing.assert_allclose(after.weights, R.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(after.means, R.T @ X / R.sum(axis=0)[:, None], rtol=1e-8, atol=1e-9)
    # Several mixtures at once take the same steps.
    if kind != "tied":
        two = Parameters(*(np.concatenate([part, part]) for part in start))
        np.testing.assert_allclose(
            likelihood.step(two, 2).log_likelihood, [expected] * 2, rtol=1e-10
        )
    losses = drop_losses(likelihood, start)
    for k in range(3):
        kept = np.delete(np.arange(3), k)
        weights = start.weights[kept] / start.weights[kept].sum()
        shares = rho * np.log(weights / start.weights[kept])
        without = logsumexp(sharpness * (L[:, kept] + shares), axis=1) / sharpness
        np.testing.assert_allclose(losses[k], expected - np.mean(without), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", TYPES)
def test_em_climbs_the_sharpened_likelihood(X, kind):
    likelihood = likelihood_of(X, kind, 3.0)
    at = from_responsibilities(likelihood, np.eye(3)[np.digitize(X[:, 0], [1.0, 4.0])])
    values = []
    for _ in range(25):
        values.append(sharpened(Mixture(*at, kind), X, 3.0))
        at = likelihood.step(at).after
    assert np.all(np.diff(values) > -1e-12)
    assert values[-1] > values[0] + 0.01


def test_a_background_is_one_more_term(X):
    box = Box(np.array([20.0, 10.0]), 0.0, 0.5)
    likelihood = likelihood_of(X, "full", 2.0, box)
    start = from_responsibilities(likelihood, 0.9 * np.eye(2)[(X[:, 0] > 1.5).astype(int)])
    beyond = np.full(200, RHO * np.log(1 - start.weights.sum()) - np.log(200.0))
    bare = Mixture(start.weights / start.weights.sum(), *start[1:])
    L = joint(bare, X, RHO) + RHO * np.log(start.weights.sum())
    expected = np.mean(logsumexp(2 * np.column_stack([L, beyond]), axis=1) / 2)
    np.testing.assert_allclose(likelihood.value(start), expected, rtol=1e-9)


def overlapping():
    """Four round clusters that overlap and have heavy tails."""
    rng = np.random.default_rng(4)
    centres = 3.1 * np.array([[0, 0], [1, 0], [0.5, 0.87], [1.5, 0.87]])
    labels = np.repeat(np.arange(4), 300)
    return centres[labels] + rng.standard_t(5, size=(1200, 2)), labels


def test_each_goal_is_best_at_its_own_objective():
    X, labels = overlapping()
    dense = GaussianMixture(4, random_state=0).fit(X)
    grouped = GaussianMixture(4, goal="clusters", random_state=0).fit(X)
    assert dense.score(X) >= grouped.score(X) - 1e-3
    ours, theirs = (sharpened(f.mixture_, X, SHARPNESS) for f in (grouped, dense))
    assert ours > theirs
    found = [adjusted_rand_score(labels, f.predict(X)) for f in (grouped, dense)]
    assert found[0] > found[1] + 0.1
    # What is said of the fit is said of its parameters.
    for fit in (dense, grouped):
        expected = float(np.mean(logsumexp(joint(fit.mixture_, X), axis=1)))
        np.testing.assert_allclose([fit.lower_bound_, fit.score(X)], expected, rtol=1e-9)
        assert fit.log_posterior_ < fit.lower_bound_


def test_clusters_with_gaps_weights_outliers_and_auto():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 3)) + 7 * np.eye(3)[labels]
    gaps = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    odd = np.concatenate([X, rng.uniform(-30, 30, (20, 3))])
    fits = [
        GaussianMixture(3, goal="clusters", random_state=0).fit(gaps),
        GaussianMixture(3, goal="clusters", outliers="auto", random_state=0).fit(odd),
        GaussianMixture("auto", goal="clusters", random_state=0).fit(X),
        GaussianMixture(3, goal="clusters", covariance_type="auto", random_state=0).fit(X),
        GaussianMixture(3, goal="clusters", random_state=0).fit(X, sample_weight=np.full(400, 2)),
    ]
    for fit in fits:
        assert fit.n_components_ == 3
        assert adjusted_rand_score(labels, fit.predict(X)) > 0.95


def test_what_goes_only_with_a_density_is_refused(X):
    with pytest.raises(ValueError, match="method='newton'"):
        GaussianMixture(2, goal="clusters", method="newton").fit(X)
    with pytest.raises(ValueError, match="goal"):
        GaussianMixture(2, goal="groups").fit(X)
    fit = GaussianMixture(2, goal="clusters", random_state=0).fit(X)
    with pytest.raises(NoStandardErrors, match="goal='density'"):
        fit.standard_errors(X)
    with pytest.raises(NoStandardErrors, match="goal='density'"):
        fit.bootstrap(X, n_boot=2)
