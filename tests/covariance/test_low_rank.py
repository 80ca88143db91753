"""Low rank plus diagonal: against dense matrices, and fits against densities of SciPy."""

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import momentmix as mm
from momentmix.covariance import Factors, LowRank, join
from momentmix.covariance.low_rank import of_rank
from momentmix.fitting.em import Likelihood, Target
from momentmix.moments import cumulants
from momentmix.rows.memory import MemoryRows
from momentmix.support.messages import NoStandardErrors


def example(rng, m=3, n=7, q=2):
    covariances = Factors(rng.normal(size=(m, n, q)), rng.uniform(0.3, 1.0, size=(m, n)))
    return mm.Mixture(np.array([0.5, 0.3, 0.2]), rng.normal(size=(m, n)), covariances, "low-rank")


def dense(mixture):
    W, s = mixture.covariances
    matrices = np.array([w @ w.T + np.diag(v) for w, v in zip(W, s, strict=True)])
    return mm.Mixture(mixture.weights, mixture.means, matrices)


@pytest.mark.parametrize("block", [3, 1024])
@pytest.mark.parametrize("d", [3, 4, 5])
def test_moments_are_those_of_dense_matrices(block, d, rng, monkeypatch):
    monkeypatch.setattr(cumulants, "FEATURE_BLOCK", block)
    P, n = example(rng, n=11), 11
    D = mm.Mixture(P.weights, P.means, np.asarray(P.covariances.variances), "diag")
    for Q, same in ((P, dense(P)), (example(rng, n=n, q=4),) * 2, (D, D)):
        same = dense(Q) if Q.covariance_type == "low-rank" else same
        value, gradient = mm.inner_grad(P, Q, d)
        want, known = mm.inner_grad(dense(P), same, d)
        np.testing.assert_allclose(value, want, rtol=1e-12)
        G, W = known.covariances, P.covariances.loadings
        parts = (gradient.means, gradient.covariances.loadings, gradient.covariances.variances)
        wanted = (known.means, 2 * G @ W, np.diagonal(G, axis1=1, axis2=2))
        for got, expected in zip(parts, wanted, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-12 * np.abs(expected).max())


def test_densities_marginals_and_conditionals_are_those_of_dense_matrices(rng):
    P, X = example(rng), 3 * rng.normal(size=(20, 7))
    same = dense(P)
    np.testing.assert_allclose(P.log_prob(X), same.log_prob(X), rtol=1e-12)
    np.testing.assert_allclose(P.log_odds(1e9 * X)[:, 0] * 0, 0)
    np.testing.assert_array_equal(P.predict(1e9 * X), same.predict(1e9 * X))
    some = [4, 0, 2]
    np.testing.assert_allclose(
        P.marginal(some).log_prob(X[:, :3]), same.marginal(some).log_prob(X[:, :3]), rtol=1e-12
    )
    given, known = (one.condition(some, [0.5, -1.0, 2.0]) for one in (P, same))
    assert given.covariance_type == "low-rank"
    np.testing.assert_allclose(given.covariances.matrices(), known.covariances, atol=1e-12)
    np.testing.assert_allclose(given.means, known.means, rtol=1e-10)
    np.testing.assert_allclose(given.log_prob(X[:, :4]), known.log_prob(X[:, :4]), rtol=1e-10)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    np.testing.assert_allclose(P.log_prob(gaps), same.log_prob(gaps), rtol=1e-10)


def test_rows_that_are_drawn_have_the_covariance(rng):
    one = mm.Mixture([1.0], np.zeros((1, 3)), ([[[2.0], [1], [0]]], [[0, 1.0, 4]]), "low-rank")
    X, _ = one.sample(20_000, 0)
    np.testing.assert_allclose(np.cov(X.T), one.covariances.matrices()[0], atol=0.15)
    np.testing.assert_array_equal(one.covariances.matrices()[0][:2], [[4, 2, 0], [2, 2, 0]])


def test_it_travels(rng, tmp_path):
    P = example(rng)
    P.save(tmp_path / "model.json")
    for again in (mm.Mixture.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(P))):
        np.testing.assert_array_equal(join(again.covariances), join(P.covariances))
        assert again.atoms.covariance.kind is P.atoms.covariance.kind is of_rank(2)
    with pytest.raises(ValueError, match="the variances of covariances must not be negative"):
        mm.Mixture(P.weights, P.means, Factors(P.covariances[0], -P.covariances[1]), "low-rank")
    with pytest.raises(ValueError, match="covariances must have shape"):
        mm.Mixture(P.weights, P.means, P.covariances.variances, "low-rank")


def log_likelihood(X, parameters):
    weights, means, array = parameters
    W, s = array[..., :-1], array[..., -1]
    parts = [
        w * multivariate_normal.pdf(X, mu, L @ L.T + np.diag(v))
        for w, mu, L, v in zip(weights, means, W, s, strict=True)
    ]
    return float(np.mean(np.log(np.sum(parts, axis=0))))


@pytest.mark.parametrize("strength", [None, 5.0])
def test_a_step_of_em_never_loses(strength, rng):
    X, _ = example(rng, q=3).sample(150, 1)
    kind = of_rank(2)
    target = Target(kind, 1e-6, None, kind.prior(7, strength))
    likelihood = Likelihood(MemoryRows(X, None, kind), target)
    at = target.at_points(np.full(3, 1 / 3), X[:3], X.var(axis=0))
    values = []
    for _ in range(25):
        step = likelihood.step(at)
        np.testing.assert_allclose(step.log_likelihood[0], log_likelihood(X, at), rtol=1e-10)
        values.append(float(step.log_posterior[0]))
        at = step.after
    assert np.all(np.diff(values) > -1e-12)
    assert values[-1] > values[0] + 0.1


def test_one_component_is_factor_analysis(rng):
    from sklearn.decomposition import FactorAnalysis

    X, _ = example(rng, q=2).sample(300, 1)
    gm = mm.GaussianMixture(1, covariance_type="low-rank", rank=2, prior=None, tol=1e-9,
                            max_iter=500).fit(X)  # fmt: skip
    known = FactorAnalysis(2, tol=1e-10, max_iter=5000, svd_method="lapack").fit(X)
    np.testing.assert_allclose(gm.score(X), known.score(X), rtol=1e-6)
    np.testing.assert_allclose(gm.covariances_.matrices()[0], known.get_covariance(), atol=2e-3)


def test_a_fit_finds_groups_and_factors(rng):
    W = 2 * rng.normal(size=(2, 12, 2))
    truth = mm.Mixture([0.6, 0.4], np.stack([np.zeros(12), np.full(12, 1.5)]),
                       Factors(W, np.full((2, 12), 0.5)), "low-rank")  # fmt: skip
    X, y = truth.sample(400, 0)
    gm = mm.GaussianMixture(2, covariance_type="low-rank", random_state=0).fit(X)
    assert gm.rank_ == 2
    assert np.mean(gm.predict(X) == y) > 0.98
    fixed = mm.GaussianMixture(2, covariance_type="low-rank", rank=2, random_state=0).fit(X)
    np.testing.assert_allclose(fixed.score(X), gm.score(X), atol=1e-4)
    free = 2 * (12 * 2 + 12 - 1) + 2 * 12 + 1
    np.testing.assert_allclose(gm.bic(X), -2 * 400 * gm.score(X) + free * np.log(400))
    assert gm.precisions_ is None
    start = {"means_init": gm.means_, "covariances_init": gm.covariances_}
    settings = {"covariance_type": "low-rank", "rank": 2, "random_state": 0}
    start |= {"weights_init": gm.weights_, "prior": gm.prior_strength_}
    again = mm.GaussianMixture(2, **start, **settings).fit(X)
    np.testing.assert_allclose(again.score(X), gm.score(X), atol=1e-4)
    units = 10.0 ** rng.integers(-3, 4, 12)
    scaled = mm.GaussianMixture(2, **settings).fit(X * units)
    np.testing.assert_array_equal(scaled.predict(X * units), fixed.predict(X))


def test_more_features_than_rows(rng):
    X, _ = example(rng, n=300).sample(90, 0)
    gm = mm.GaussianMixture(3, covariance_type="low-rank", rank=1, random_state=0).fit(X)
    assert np.all(np.isfinite(gm.score_samples(X)))
    assert np.mean(gm.covariances_.variances > 0) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 7}, "rank must be less than the number of features, 7"),
        ({"method": "newton"}, "is fitted by EM to rows in memory"),
        ({"init_params": "moments"}, "is fitted by EM to rows in memory"),
        ({"precisions_init": np.ones((3, 7, 2))}, "has no precisions_init; give covariances_init"),
        ({"covariances_init": np.ones((3, 7, 4))}, "has rank 3, but rank=1 is to be fitted"),
        ({"rank": "auto", "max_iter": 0}, "rank='auto' compares likelihoods of rows in memory"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(settings, words, rng):
    X, _ = example(rng).sample(60, 0)
    settings = {"covariance_type": "low-rank", "rank": 1, **settings}
    with pytest.raises(ValueError, match=words):
        mm.GaussianMixture(3, **settings).fit(X)


def test_gaps_errors_and_standard_errors_are_refused_in_words(rng):
    X, _ = example(rng).sample(60, 0)
    gm = mm.GaussianMixture(2, covariance_type="low-rank", rank=1, random_state=0).fit(X)
    with pytest.raises(NoStandardErrors, match="use bootstrap"):
        gm.standard_errors(X)
    with pytest.raises(ValueError, match="fitted to complete rows"):
        gm.fit(X, noise_covariance=0.1)
    X[3, 4] = np.nan
    with pytest.raises(ValueError, match="fitted to complete rows"):
        gm.fit(X)
    with pytest.raises(ValueError, match="covariance_type"):
        mm.MomentMixture(2, covariance_type="low-rank").fit(X)


def test_a_pair_of_other_shapes_is_refused():
    with pytest.raises(ValueError, match=r"loadings must be \(m, n, q\) and variances \(m, n\)"):
        mm.Mixture([1.0], np.zeros((1, 3)), (np.ones((1, 3, 2)), np.ones((1, 2))), "low-rank")


def test_a_merge_keeps_the_variances_of_features(rng):
    P = example(rng, q=3)
    array, apart = np.asarray(join(P.covariances)), rng.normal(size=7)
    merged = LowRank.of(of_rank(3).merge((0.3, 0.7), array[0], array[1], apart)[None], 7)
    S = P.covariances.matrices()
    wanted = 0.3 * S[0] + 0.7 * S[1] + 0.21 * np.outer(apart, apart)
    np.testing.assert_allclose(np.asarray(merged.spread())[0], np.diag(wanted))
