import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn.mixture
from scipy import stats
from scipy.special import logsumexp
from sklearn.datasets import load_iris

from likelihoods import row_likelihood
from momentmix.covariance import Full, Spherical, covariance_type, fitted_type
from momentmix.fit import DIGITS, Parameters
from momentmix.fitting import moves, search
from momentmix.fitting.em import Likelihood, from_responsibilities, responsibilities
from momentmix.fitting.moves import (
    _ranked,
    drop_losses,
    merge_losses,
    relocations,
    split_and_merge,
)
from momentmix.rows import memory as passes
from momentmix.rows.memory import WIDE, MemoryRows, blunted, softmax
from momentmix.support.stopping import stoppable, stopped

pytestmark = pytest.mark.usefixtures("passes_everywhere")

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
IRIS = load_iris().data
IRIS = (IRIS - IRIS.mean(axis=0)) / IRIS.std(axis=0)


def sklearn_start(kind, X=IRIS, m=3):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = kind.removeprefix("tied-")
        gm = sklearn.mixture.GaussianMixture(
            m, covariance_type=free, random_state=0, max_iter=1
        ).fit(X)
    pooled = np.tensordot(gm.weights_, gm.covariances_, axes=1) if free != kind else None
    return Parameters(gm.weights_, gm.means_, gm.covariances_ if pooled is None else pooled)


@pytest.mark.parametrize("kind", ["tied-diag", "tied-spherical"])
def test_same_fit_as_by_hand(kind):
    """EM with densities of SciPy, and the variances of all rows about their components' means."""
    weights, means, variances = start = sklearn_start(kind)
    for _ in range(400):
        logs = stats.norm.logpdf(IRIS[:, None], means, np.sqrt(variances)).sum(axis=2)
        joint = np.exp(logs) * weights
        R = joint / joint.sum(axis=1, keepdims=True)
        weights = R.mean(axis=0)
        means = R.T @ IRIS / R.sum(axis=0)[:, None]
        variances = np.einsum("pj,pji->i", R, (IRIS[:, None] - means) ** 2) / len(IRIS)
        if kind == "tied-spherical":
            variances = variances.mean()
    found = row_likelihood(IRIS, None, covariance_type(kind), 1e-6).fit(
        start, tol=1e-12, max_iter=1000
    )
    assert np.shape(found.parameters.covariances) == np.shape(variances)
    np.testing.assert_allclose(found.log_likelihood, np.log(joint.sum(axis=1)).mean(), rtol=1e-9)
    np.testing.assert_allclose(found.parameters.means, means, atol=1e-4)
    np.testing.assert_allclose(found.parameters.covariances, variances, rtol=1e-4)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_same_steps_as_sklearn(kind):
    start = sklearn_start(kind)
    result = row_likelihood(IRIS, None, covariance_type(kind), 1e-6).fit(
        start, tol=1e-9, max_iter=1000
    )
    gm = sklearn.mixture.GaussianMixture(
        3, covariance_type=kind, random_state=0, tol=1e-9, max_iter=1000
    ).fit(IRIS)
    assert result.converged
    np.testing.assert_allclose(result.log_likelihood, gm.score(IRIS), atol=1e-7)
    np.testing.assert_allclose(result.parameters.means, gm.means_, atol=1e-4)


@pytest.mark.parametrize("kind", TYPES)
def test_log_density_is_scipys(kind):
    parameters = sklearn_start(kind)
    likelihood = row_likelihood(IRIS, None, covariance_type(kind), 1e-6)
    C = covariance_type(kind).of(parameters.covariances, 4).matrices()
    want = np.column_stack(
        [
            np.log(w) + stats.multivariate_normal(mu, c).logpdf(IRIS)
            for w, mu, c in zip(
                parameters.weights, parameters.means, np.broadcast_to(C, (3, 4, 4)), strict=True
            )
        ]
    )
    np.testing.assert_allclose(likelihood.rows.log_joint(parameters), want, rtol=1e-9)
    R, log_density = responsibilities(likelihood, parameters)
    np.testing.assert_allclose(R.sum(axis=1), 1)
    np.testing.assert_allclose(log_density, np.logaddexp.reduce(want, axis=1), rtol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_whole_weights_are_repeated_rows(kind, rng):
    counts = rng.integers(0, 4, len(IRIS))
    repeated = np.repeat(IRIS, counts, axis=0)
    weights = counts / counts.sum()
    start = sklearn_start(kind)
    own, count = covariance_type(kind), float(counts.sum())
    prior = own.prior(4, "auto")
    one = row_likelihood(IRIS, weights, own, 1e-6, prior=prior, count=count).step(start)
    two = row_likelihood(repeated, None, own, 1e-6, prior=prior).step(start)
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(one.log_posterior, two.log_posterior, rtol=1e-12)
    for a, b in zip(one.after, two.after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_blocks_do_not_change_a_step(kind, monkeypatch, rng):
    X = rng.normal(size=(3000, 4))
    start = sklearn_start(kind, X)
    whole = row_likelihood(X, None, covariance_type(kind), 1e-6).step(start)
    monkeypatch.setattr(passes, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(passes, "_CACHE_BYTES", 0)
    blocks = row_likelihood(X, None, covariance_type(kind), 1e-6)
    assert len(blocks.rows.passes.over_blocks(lambda rows: rows)) > 5
    split = blocks.step(start)
    np.testing.assert_allclose(split[0], whole[0], rtol=1e-12)
    for a, b in zip(whole[1], split[1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_likelihood_never_falls(kind):
    values = []
    row_likelihood(IRIS, None, covariance_type(kind), 1e-6).fit(
        sklearn_start(kind), tol=0, max_iter=40, callback=lambda i, v: values.append(v)
    )
    assert np.min(np.diff(values)) > -1e-9


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_a_dead_component_comes_back(kind):
    start = sklearn_start(kind)
    means = start.means.copy()
    means[2] = 1000.0
    dead = start._replace(means=means)
    result = row_likelihood(IRIS, None, covariance_type(kind), 1e-6).fit(
        dead, tol=1e-6, max_iter=300
    )
    assert result.parameters.weights.min() > 1 / 300
    assert all(np.all(np.isfinite(a)) for a in result.parameters)


def test_interruption_keeps_the_parameters(monkeypatch):
    likelihood = row_likelihood(IRIS, None, Full, 1e-6)
    steps = iter(range(100))
    original = Likelihood.step

    def step(self, parameters, groups=1):
        if next(steps) == 3:
            signal.raise_signal(signal.SIGINT)
        return original(self, parameters, groups)

    monkeypatch.setattr(Likelihood, "step", step)
    with stoppable():
        fit = likelihood.fit(sklearn_start("full"), tol=0, max_iter=100)
        assert stopped()
    assert fit.n_iter == 4
    assert np.isfinite(fit.log_likelihood)


def three_clusters(rng):
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [9.0, 0.0]])
    return np.concatenate([c + rng.normal(size=(200, 2)) for c in centres]), centres


def test_drop_losses_are_what_is_lost(rng):
    X, centres = three_clusters(rng)
    likelihood = row_likelihood(X, None, Spherical, 1e-6)
    parameters = Parameters(np.array([0.3, 0.3, 0.4]), centres, np.ones(3))
    value = likelihood.rows.weights @ responsibilities(likelihood, parameters)[1]
    losses = drop_losses(likelihood, parameters)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        kept = parameters.weights[rest] / parameters.weights[rest].sum()
        fewer = Parameters(kept, centres[rest], np.ones(2))
        lost = value - likelihood.rows.weights @ responsibilities(likelihood, fewer)[1]
        np.testing.assert_allclose(losses[i], lost, rtol=1e-9)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_merge_losses_hold_for_separate_components(kind, rng):
    X, centres = three_clusters(rng)
    X = X * [1.0, 1.0] + np.array([[0.0, 0.0]])
    labels = np.argmin(((X[:, None] - centres) ** 2).sum(axis=2), axis=1)
    far = X + 100 * labels[:, None] * np.array([1.0, 0.0])
    likelihood = row_likelihood(far, None, covariance_type(kind), 1e-9)
    R = (labels[:, None] == np.arange(3)).astype(float)
    three = from_responsibilities(likelihood, R)
    losses = merge_losses(covariance_type(kind), three)
    value = likelihood.rows.weights @ responsibilities(likelihood, three)[1]
    merged = np.column_stack([R[:, 0], R[:, 1] + R[:, 2]])
    two = from_responsibilities(likelihood, merged)
    lost = value - likelihood.rows.weights @ responsibilities(likelihood, two)[1]
    np.testing.assert_allclose(losses[1, 2], lost, rtol=1e-3)
    # A prior with a fixed centre asks for the logarithms of all three, and then of both.
    centre = {"full": np.zeros((2, 2)), "diag": np.zeros(2), "spherical": 0.0}[kind]
    prior = covariance_type(kind).prior_of_rows(2, 5.0).about(np.asarray(centre))

    def penalty(covariances):
        full = covariance_type(kind).of(covariances, 2).matrices()
        return 5 / 4 * sum(np.sum(np.log(np.linalg.eigvalsh(one)) ** 2) for one in full) / 600

    lost += penalty(two.covariances) - penalty(three.covariances)
    losses = merge_losses(covariance_type(kind), three, prior, 600)
    np.testing.assert_allclose(losses[1, 2], lost, rtol=1e-3)


@pytest.mark.parametrize("kind", ["full", "tied", "VVE"])
@pytest.mark.parametrize("sharpness", [1.0, 1.5])
def test_sums_of_many_columns_are_those_of_their_features(kind, sharpness, rng):
    """Products of rows in place of features, and none where one matrix serves all components."""
    own, n = fitted_type(kind), WIDE + 3
    X, means = rng.normal(size=(150, n)), rng.normal(size=(3, n))
    weights = rng.dirichlet(np.ones(150))
    A = rng.normal(size=(3, n, n)) / n
    matrices = A @ A.swapaxes(1, 2) + np.eye(n)
    parameters = Parameters(
        np.array([0.2, 0.3, 0.5]), means, matrices[0] if own.common else matrices
    )
    sums = MemoryRows(X, weights, own).sums(parameters, sharpness=sharpness)
    S = np.broadcast_to(parameters.covariances, matrices.shape)
    logs = [
        stats.multivariate_normal(mean, one).logpdf(X) for mean, one in zip(means, S, strict=True)
    ]
    joint = np.log(blunted(parameters, sharpness).weights)[:, None] + logs
    total = logsumexp(sharpness * joint, axis=0)
    R = np.exp(sharpness * joint - total) * weights
    np.testing.assert_allclose(sums.log_likelihoods, [weights @ total / sharpness], rtol=1e-10)
    np.testing.assert_allclose(sums.shares, R.sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(sums.firsts, R @ X, rtol=1e-7, atol=1e-10)
    seconds = np.stack([(X * r[:, None]).T @ X for r in R])
    found, want = own.plain().features_of_seconds(seconds), sums.seconds
    if own.common:  # only the sum over components is asked for
        found, want = found.sum(axis=0), want.sum(axis=0)
    np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical", "tied", "tied-diag"])
def test_split_and_merge_repairs_a_planted_defect(kind, rng):
    X, _ = three_clusters(rng)
    X = np.concatenate([X, np.array([0.0, 20.0]) + rng.normal(size=(200, 2))])
    labels = np.repeat([0, 1, 1, 2], 200)
    labels[600:700] = 3  # the far cluster cut in two, the near ones taken as one
    likelihood = row_likelihood(X, None, covariance_type(kind), 1e-6)
    start = from_responsibilities(likelihood, (labels[:, None] == np.arange(4)).astype(float))
    stuck = likelihood.fit(start, tol=1e-8, max_iter=300)
    truth = np.repeat(np.eye(4), 200, axis=0)
    best = likelihood.fit(from_responsibilities(likelihood, truth), tol=1e-8, max_iter=300)
    repaired = split_and_merge(likelihood, stuck, rng, tol=1e-8, max_iter=300)
    assert stuck.log_likelihood < best.log_likelihood - 0.01
    assert repaired.log_likelihood > best.log_likelihood - 1e-4


@pytest.mark.parametrize("kind", ["full", "diag"])
@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_splits_at_once_are_the_splits_one_by_one(kind, sharpness, rng, monkeypatch):
    """With weights of their own for all rows, several fits of a part of the rows are one."""
    X, _ = three_clusters(rng)
    counts = rng.integers(1, 4, len(X)) / 3
    likelihood = row_likelihood(X, counts / counts.sum(), covariance_type(kind), 1e-6)
    prior = covariance_type(kind).prior_of_rows(2, 5.0)
    target = replace(likelihood.target, prior=prior, sharpness=sharpness)
    likelihood = replace(likelihood, target=target)
    labels = np.repeat([0, 1, 1], 200)[:, None] == np.arange(2)
    two = likelihood.fit(from_responsibilities(likelihood, labels.astype(float)), tol=0, max_iter=3)
    found = []
    for most in (moves.SMALL_DATA, 0):
        monkeypatch.setattr(moves, "SMALL_DATA", most)
        R, _ = responsibilities(likelihood, two.parameters)
        found.append(moves._splits(likelihood, two.parameters, R, prior, np.random.default_rng(0)))
    assert [*found[0]] == [*found[1]] == [0, 1]
    for one, other in zip(found[0].values(), found[1].values(), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def without_the_small_cluster(rng):
    """Three clusters and a small tight one; a fit that cuts a large one in place of the latter."""
    X, _ = three_clusters(rng)
    X = np.concatenate([X, [0.5, 0.5] + 0.01 * rng.normal(size=(12, 2))])
    likelihood = row_likelihood(X, None, Full, 1e-6)

    def fitted(labels):
        start = from_responsibilities(likelihood, (labels[:, None] == np.arange(4)).astype(float))
        return likelihood.fit(start, tol=1e-10, max_iter=2000)

    stuck = fitted(np.repeat([0, 1, 2, 3, 0], [200, 200, 100, 100, 12]))
    best = fitted(np.repeat([0, 1, 2, 3], [200, 200, 200, 12]))
    assert best.log_posterior > stuck.log_posterior + 0.08
    return likelihood, stuck, best


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_relocation_finds_a_small_tight_cluster(seed):
    rng = np.random.default_rng(seed)
    likelihood, stuck, best = without_the_small_cluster(rng)
    starts = relocations(likelihood, stuck.parameters, rng, 100)
    assert len(starts) == 100
    for start in starts:  # one of the four is elsewhere, on rows of its own
        apart = np.linalg.norm(start.means[:, None] - stuck.parameters.means, axis=2).min(axis=1)
        assert apart.max() > 1e-3
        np.testing.assert_allclose(start.weights.sum(), 1)
    # Steps from where the fit was lead nowhere; from one of these, to the best there is.
    (stayed,) = likelihood.try_steps([stuck.parameters], 30)
    assert stayed.log_posterior < stuck.log_posterior + 1e-6
    moved = max(likelihood.try_steps(starts, 30), key=lambda trial: trial.log_posterior)
    np.testing.assert_allclose(moved.log_posterior, best.log_posterior, atol=1e-3)
    i = np.argmin(moved.parameters.weights)
    np.testing.assert_allclose(moved.parameters.weights[i], 12 / 612, rtol=0.01)
    np.testing.assert_allclose(moved.parameters.means[i], [0.5, 0.5], atol=0.02)


def test_a_rugged_search_relocates_the_best(rng, monkeypatch):
    """Without a prior the last starts are those of relocations: here the only ones that gain."""
    likelihood, stuck, best = without_the_small_cluster(rng)
    monkeypatch.setattr(search, "plain_starts", lambda *_: iter(lambda: stuck.parameters, None))
    looking = search.LikelihoodSearch(likelihood, rng, 1e-6, 500, lambda *_: None)
    looking.run(looking.promising_starts(4), repair=False)
    np.testing.assert_allclose(looking.best.log_posterior, best.log_posterior, atol=1e-3)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("prior", "n"), [("auto", 4), (None, 4), ("auto", 60)])
def test_steps_of_several_mixtures_at_once_are_those_of_each(kind, prior, n, rng):
    own = covariance_type(kind)
    X = IRIS if n == 4 else rng.normal(size=(300, n))
    likelihood = row_likelihood(X, None, own, 1e-6, prior=own.prior(n, prior))
    starts = [from_responsibilities(likelihood, rng.dirichlet(np.ones(3), len(X))) for _ in "1234"]
    for start, result in zip(starts, likelihood.try_steps(starts, 7), strict=True):
        alone = start
        for i in range(6):  # the seventh tells the value
            alone = likelihood.step(alone, rough=kind == "full" and n == 60 and i < 5).after
        for a, b in zip(result.parameters, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            result.log_posterior, likelihood.step(alone).log_posterior[0], rtol=1e-10
        )


def test_softmax_of_large_numbers():
    R, total = softmax(np.array([[1e4, 0.0], [-1e4, -1e4]]))
    np.testing.assert_allclose(R, [[1, 0], [0.5, 0.5]])
    np.testing.assert_allclose(total, [1e4, -1e4 + np.log(2)])


@pytest.mark.parametrize(("kind", "N"), [("full", 12), ("diag", 8), ("spherical", 5)])
def test_optimism_is_that_of_new_samples(kind, N, rng):
    """E[log-likelihood of N samples - that of N new ones] of a Gaussian fitted to the former."""
    n, trials = 3, 20_000
    X = rng.normal(size=(trials, N, n))
    means = X.mean(axis=1)
    centred = X - means[:, None]
    S = centred.swapaxes(1, 2) @ centred / N
    if kind != "full":
        S = S * np.eye(n)
    if kind == "spherical":
        S = np.trace(S, axis1=1, axis2=2)[:, None, None] / n * np.eye(n)
    inverse = np.linalg.inv(S)
    # The quadratic forms of the samples themselves sum to N n; new ones are expected to have
    # tr S⁻¹ + mᵀS⁻¹m each. Determinants cancel.
    new = np.trace(inverse, axis1=1, axis2=2) + np.einsum("ti,tij,tj->t", means, inverse, means)
    gap = N * (new - n) / 2
    error = gap.std() / np.sqrt(trials)
    assert abs(gap.mean() - covariance_type(kind).optimism(np.array([N]), n)[0]) < 4 * error


def test_optimism_of_many_and_of_few():
    for kind, parameters in (("full", 9), ("diag", 6), ("spherical", 4)):
        values = covariance_type(kind).optimism(np.array([0.0, 1.0, 4.0, 50.0, 1e9]), 3)
        assert np.all(np.diff(values) <= 0)
        assert np.all(np.isfinite(values))
        np.testing.assert_allclose(values[-1], parameters, rtol=1e-7)


@pytest.mark.parametrize("m", [2, 3, 7, 30])
def test_exchanges_in_order(m, rng):
    """All that splits and sacrifices allow, by their gains, then by their components."""
    gains = {
        k: float(gain) for k, gain in enumerate(rng.normal(size=m).round(1)) if k < 2 or gain > 0
    }
    losses = rng.integers(0, 9, size=(m, m)) / 8
    i, j = np.triu_indices(m)
    found = _ranked(gains, losses[i, j], i, j)
    expected = sorted(
        (-(gain - losses[a, b]), k, a, b)
        for k, gain in gains.items()
        for a in range(m)
        for b in range(a, m)
        if k not in (a, b)
    )
    assert [tuple(exchange[1:]) for exchange in found] == [
        tuple(each[1:])
        for each in sorted(expected, key=lambda each: (round(each[0], DIGITS), *each[1:]))
    ]
    assert np.allclose([exchange.gain for exchange in found], [-each[0] for each in expected])
