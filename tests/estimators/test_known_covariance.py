"""KnownCovarianceMixture: exact moments, EM with the noise held fixed, streams, errors."""

import dask.array as da
import numpy as np
import pytest
import sklearn.mixture
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

from momentmix import KnownCovarianceMixture, Mixture, MomentTensors, Samples, symmetric_cp
from momentmix.fitting.known_noise import trailing_variance

pytestmark = pytest.mark.usefixtures("passes_everywhere")

KINDS = ("scalar", "diag", "full")


def noise_of(kind, n, size=0.5, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "scalar":
        return size
    if kind == "diag":
        return size * rng.uniform(0.5, 2, n)
    L = rng.normal(size=(n, n)) / np.sqrt(n)
    return size * (L @ L.T + 0.2 * np.eye(n))


def as_matrix(noise, n):
    noise = np.asarray(noise)
    return noise * np.eye(n) if noise.ndim == 0 else np.diag(noise) if noise.ndim == 1 else noise


def problem(n, m, p, kind="scalar", size=0.5, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    means, weights = spread * rng.normal(size=(m, n)), rng.dirichlet(10 * np.ones(m))
    noise = noise_of(kind, n, size)
    truth = Mixture(weights, means, as_matrix(noise, n), "tied")
    X, labels = truth.sample(p, seed)
    return truth, noise, X, labels


def paired(found, want):
    return linear_sum_assignment(np.linalg.norm(want[:, None] - found[None], axis=2))[1]


def mean_error(found, want):
    return np.linalg.norm(found[paired(found, want)] - want) / np.linalg.norm(want)


@parametrize_with_checks(
    [KnownCovarianceMixture(1, 0.01), KnownCovarianceMixture(2, 0.01, random_state=0)]
)
def test_sklearn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "keywords",
    [{}, {"augmentation": "post-processing"}, {"omega": 0.7}, {"solver": "lbfgs"}, {"order": 4}],
    ids=str,
)
@pytest.mark.parametrize(("n", "m"), [(2, 3), (6, 4), (30, 3)])
def test_exact_moments_give_the_mixture_back(n, m, kind, keywords):
    truth, noise, *_ = problem(n, m, 10, kind)
    fit = KnownCovarianceMixture(m, noise, random_state=0, **keywords).fit_moments(truth)
    order = paired(fit.means_, truth.means)
    bound = 1e-4 if "solver" in keywords else 1e-7
    np.testing.assert_allclose(fit.means_[order], truth.means, atol=bound)
    np.testing.assert_allclose(fit.weights_[order], truth.weights, atol=bound)
    matrices = fit.mixture_.atoms.covariance.matrices()
    np.testing.assert_allclose(matrices[0], as_matrix(noise, n), rtol=1e-12)
    np.testing.assert_allclose(fit.covariance_, noise)


@pytest.mark.parametrize("kind", KINDS)
def test_one_feature(kind):
    truth, *_ = problem(1, 2, 10)
    noise = {"scalar": 0.5, "diag": [0.5], "full": [[0.5]]}[kind]
    fit = KnownCovarianceMixture(2, noise, random_state=0).fit_moments(truth)
    assert mean_error(fit.means_, truth.means) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_polish_ends_at_a_fixed_point_of_em(kind):
    """One EM step written out with SciPy's densities changes nothing."""
    truth, noise, X, _ = problem(4, 3, 2000, kind, size=1.0)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(X))
    model = KnownCovarianceMixture(3, noise, tol=1e-12, max_iter=5000, random_state=0)
    fit = model.fit(X, sample_weight=weights)
    N = as_matrix(noise, 4)
    joint = np.column_stack(
        [
            np.log(w) + multivariate_normal(mu, N).logpdf(X)
            for w, mu in zip(fit.weights_, fit.means_, strict=True)
        ]
    )
    density = logsumexp(joint, axis=1)
    R = np.exp(joint - density[:, None]) * (weights / weights.sum())[:, None]
    np.testing.assert_allclose(fit.weights_, R.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(fit.means_, (R.T @ X) / R.sum(axis=0)[:, None], atol=1e-4)
    np.testing.assert_allclose(fit.lower_bound_, np.average(density, weights=weights), rtol=1e-9)
    np.testing.assert_allclose(fit.score_samples(X), density, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(X), joint.argmax(axis=1))
    assert fit.converged_
    assert mean_error(fit.means_, truth.means) < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_near_those_of_known_labels(kind):
    truth, noise, X, labels = problem(10, 5, 20_000, kind)
    known = np.array([X[labels == j].mean(axis=0) for j in range(5)])
    least = mean_error(known, truth.means)
    fit = KnownCovarianceMixture(5, noise, random_state=0).fit(X)
    pure = KnownCovarianceMixture(5, noise, polish=None, random_state=0).fit(X)
    assert mean_error(fit.means_, truth.means) < 1.1 * least
    assert mean_error(pure.means_, truth.means) < 2 * least
    assert fit.score(X) >= pure.score(X)


def test_signals_below_the_noise():
    """Where k-means and EM that must learn the covariance see nothing."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, 30)
    signals = np.array([np.sin(6 * t), np.sin(9 * t), 1 - 2 * t])
    X = signals[rng.choice(3, 60_000, p=[0.5, 0.3, 0.2])] + 2 * rng.normal(size=(60_000, 30))
    ours = KnownCovarianceMixture(3, 4.0, random_state=0).fit(X)
    clusters = KMeans(3, n_init=3, random_state=0).fit(X)
    theirs = sklearn.mixture.GaussianMixture(
        3, covariance_type="spherical", n_init=3, random_state=0
    ).fit(X)
    assert mean_error(ours.means_, signals) < 0.15
    assert mean_error(clusters.cluster_centers_, signals) > 3 * mean_error(ours.means_, signals)
    assert mean_error(theirs.means_, signals) > 2 * mean_error(ours.means_, signals)


def test_likelihood_is_never_below_that_of_plain_starts():
    _, noise, X, _ = problem(3, 6, 1500, size=0.3)
    ours = KnownCovarianceMixture(6, noise, order=4, random_state=0).fit(X)
    for seed in range(10):
        start = X[np.random.default_rng(seed).choice(len(X), 6, replace=False)]
        plain = KnownCovarianceMixture(6, noise, order=4, means_init=start, max_iter=5000).fit(X)
        assert ours.lower_bound_ > plain.lower_bound_ - 1e-3


def test_noise_is_estimated_without_bias():
    """Over many small data sets the mean of the estimates is the truth to its own error."""
    values = []
    for seed in range(60):
        truth, _, X, _ = problem(20, 3, 60, size=0.7, seed=seed, spread=2.0)
        S = np.cov(X.T, bias=True)
        values.append(trailing_variance(S, 2, len(X)))
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - 0.7) < 3 * error + 0.007
    truth, _, X, _ = problem(20, 3, 5000, size=0.7)
    fit = KnownCovarianceMixture(3, "estimate", random_state=0).fit(X)
    assert abs(fit.covariance_ - 0.7) < 0.01
    assert mean_error(fit.means_, truth.means) < 0.05
    known = KnownCovarianceMixture(3, 0.7, random_state=0).fit(X)
    assert np.isclose(fit.bic(X) - known.bic(X), np.log(5000), atol=2)


@pytest.mark.parametrize("kind", KINDS)
def test_units_and_origin_do_not_matter(kind):
    _, noise, X, _ = problem(4, 3, 2000, kind)
    fit = KnownCovarianceMixture(3, noise, random_state=0).fit(X)
    shift = np.array([5.0, -3.0, 100.0, 0.0])
    moved = KnownCovarianceMixture(3, np.asarray(noise) * 1e-6, random_state=0)
    moved.fit(1e-3 * X + shift)
    np.testing.assert_allclose((moved.means_ - shift) * 1e3, fit.means_, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_equal_the_whole(kind):
    _, noise, X, _ = problem(4, 3, 3000, kind)
    whole = KnownCovarianceMixture(3, noise, polish=None, random_state=0).fit(X)
    stream = KnownCovarianceMixture(3, noise, polish=None, random_state=0)
    for batch in np.array_split(X, 7):
        stream.partial_fit(batch)
    order = paired(stream.means_, whole.means_)
    np.testing.assert_allclose(stream.means_[order], whole.means_, atol=1e-6)
    moments = MomentTensors.from_samples(X, 3)
    other = KnownCovarianceMixture(3, noise, random_state=0, polish=None).fit_moments(moments)
    np.testing.assert_allclose(
        other.means_[paired(other.means_, whole.means_)], whole.means_, atol=1e-6
    )
    samples = KnownCovarianceMixture(3, noise, random_state=0, polish=None)
    samples.fit_moments(Samples(X))
    np.testing.assert_allclose(
        samples.means_[paired(samples.means_, whole.means_)], whole.means_, atol=1e-6
    )


def test_dask_rows():
    _, noise, X, _ = problem(4, 3, 6000, "full", size=0.3)
    blocks = da.from_array(X, chunks=(1500, 4))
    there = KnownCovarianceMixture(3, noise, random_state=0, tol=1e-9).fit(blocks)
    here = KnownCovarianceMixture(3, noise, random_state=0, tol=1e-9).fit(X)
    order = paired(there.means_, here.means_)
    np.testing.assert_allclose(there.means_[order], here.means_, atol=1e-3)
    assert np.isclose(there.score(blocks), here.score(X), atol=1e-6)
    with pytest.raises(ValueError, match="too many moments of order 3"):
        KnownCovarianceMixture(2, 1.0).fit(da.ones((10, 500), chunks=(5, 500)))


def test_singular_noise():
    """A feature without noise: the moments do not mind, the likelihood does not exist."""
    truth, *_ = problem(3, 3, 10)
    noise = np.array([0.5, 0.5, 0.0])
    noisy = Mixture(truth.weights, truth.means, np.diag(noise), "tied")
    fit = KnownCovarianceMixture(3, noise, polish=None, random_state=0).fit_moments(noisy)
    assert mean_error(fit.means_, truth.means) < 1e-7
    assert fit.precisions_ is None
    X = noisy.sample(500, 0)[0]
    with pytest.raises(ValueError, match="singular, so there is no likelihood"):
        KnownCovarianceMixture(3, noise).fit(X)
    clean = Mixture(truth.weights, truth.means, np.zeros(3), "spherical")
    none = KnownCovarianceMixture(3, 0.0, random_state=0).fit_moments(clean)
    assert mean_error(none.means_, truth.means) < 1e-7
    exact = KnownCovarianceMixture(3, 0.0, polish=None, random_state=0).fit(truth.means)
    assert mean_error(exact.means_, truth.means) < 1e-7


def test_a_start_of_ones_own_and_a_warm_one():
    truth, noise, X, _ = problem(4, 3, 2000)
    first = KnownCovarianceMixture(3, noise, means_init=truth.means, warm_start=True).fit(X)
    before = first.n_iter_
    first.fit(X)
    assert first.n_iter_ < before
    pure = KnownCovarianceMixture(3, noise, means_init=truth.means, polish=None).fit(X)
    free = KnownCovarianceMixture(3, noise, polish=None, random_state=0).fit(X)
    np.testing.assert_allclose(
        pure.means_, free.means_[paired(free.means_, pure.means_)], atol=1e-4
    )


def test_sample_and_save(tmp_path):
    _, noise, X, _ = problem(4, 3, 2000, "diag")
    fit = KnownCovarianceMixture(3, noise, random_state=0).fit(X)
    rows, labels = fit.sample(1000)
    assert rows.shape == (1000, 4)
    assert set(labels) == {0, 1, 2}
    fit.mixture_.save(tmp_path / "model.json")
    assert np.allclose(Mixture.load(tmp_path / "model.json").log_prob(X), fit.score_samples(X))


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"covariance": -1.0}, "must not be negative, but the smallest variance is -1"),
        (
            {"covariance": [1.0, 2.0]},
            r"shape \(4,\) or \(4, 4\) for 4 feature\(s\); got shape \(2,\)",
        ),
        ({"covariance": np.ones((100, 4))}, r"got shape \(100, 4\)"),
        (
            {"covariance": np.diag([1.0, 1, 1, -1])},
            "positive semidefinite, but an eigenvalue is -1",
        ),
        ({"covariance": np.triu(np.ones((4, 4)))}, "must be symmetric"),
        ({"covariance": np.nan}, "must be finite"),
        ({"covariance": "guess"}, "'covariance' parameter .* among {'estimate'}"),
        ({"covariance": None}, "'covariance' parameter"),
        ({"covariance": True}, "covariance must be a number"),
        ({"omega": -1.0}, "'omega' parameter .* Got -1.0"),
        ({"omega": 0.0}, "'omega' parameter"),
        ({"order_weights": [0, 0, 0, 1]}, "one order alone does not tell means from weights"),
        ({"order_weights": [1, 1, 1, 0]}, "must not be 0 for the highest order"),
        ({"covariance": 0.0}, "singular, so there is no likelihood"),
        ({"n_components": 0}, "'n_components' parameter .* Got 0"),
        ({"n_components": 8}, "n_components=8 is more than moments up to order 3 of 4"),
        (
            {"n_components": 5, "covariance": "estimate"},
            "needs more features than n_components - 1",
        ),
        ({"order": 2}, "'order' parameter .* Got 2"),
        ({"order": 2.5}, "'order' parameter"),
        ({"order_weights": [1, 1], "omega": 0.5}, "omega=0.5 and order_weights both weight"),
        ({"order_weights": [1, 1]}, "order_weights must be 'auto' or 4 numbers"),
        ({"means_init": np.zeros((3, 4))}, r"means_init must have shape \(2, 4\)"),
        ({"weights_init": [0.5, 0.6]}, "weights_init must be 2 numbers"),
        ({"init": "k-means++"}, "'init' parameter"),
        ({"polish": "newton"}, "'polish' parameter"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_errors_say_what_to_do(keywords, match, rng):
    X = rng.normal(size=(100, 4))
    keywords = {"n_components": 2, "covariance": 0.5} | keywords
    with pytest.raises(ValueError, match=match):
        KnownCovarianceMixture(**keywords).fit(X)


def test_too_few_samples(rng):
    with pytest.raises(ValueError, match="n_samples >= n_components"):
        KnownCovarianceMixture(4, 1.0).fit(rng.normal(size=(3, 5)))
    with pytest.raises(ValueError, match=r"needs more than n_components \+ 1 = 4 samples, got 4"):
        KnownCovarianceMixture(3, "estimate").fit(rng.normal(size=(4, 10)))
    with pytest.raises(ValueError, match="these moments were kept up to order 3"):
        KnownCovarianceMixture(2, 1.0, order=4).fit_moments(
            MomentTensors.from_samples(rng.normal(size=(50, 3)), 3)
        )
    with pytest.raises(ValueError, match="3 components need as many samples at least, and there"):
        KnownCovarianceMixture(3, 1.0).fit(da.ones((2, 4), chunks=(1, 4)))
    stream = KnownCovarianceMixture(3, 1.0).partial_fit(rng.normal(size=(2, 4)))
    with pytest.raises(ValueError, match="and there are 2"):
        stream.predict(rng.normal(size=(2, 4)))


def test_noise_of_a_stream_is_that_of_its_moments():
    _, _, X, _ = problem(6, 3, 2000, size=0.3)
    fit = KnownCovarianceMixture(3, "estimate", polish=None, random_state=0).fit(X)
    fit.partial_fit(2 * X)
    assert np.isclose(fit.covariance_, 4 * 0.3, rtol=0.1)
    with pytest.raises(ValueError, match=r"got shape \(7, 7\)"):
        KnownCovarianceMixture(3, np.eye(7)).partial_fit(X)


def test_a_refused_fit_changes_nothing():
    _, noise, X, _ = problem(4, 3, 2000)
    stream = KnownCovarianceMixture(3, noise, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="must not be negative"):
        stream.set_params(covariance=-1.0).fit(X[:, :2])
    stream.set_params(covariance=noise).partial_fit(X)
    assert stream.moments_.count == 4000
    fit = KnownCovarianceMixture(3, noise, random_state=0).fit(X)
    with pytest.raises(ValueError, match="got shape"):
        fit.set_params(covariance=np.eye(7)).fit(X[:, :3])
    assert fit.predict(X).shape == (2000,)


@pytest.mark.filterwarnings("ignore:the covariance of the noise is larger")
@pytest.mark.parametrize("polish", ["em", None])
def test_data_that_do_not_vary(polish):
    fit = KnownCovarianceMixture(2, 1.0, polish=polish, random_state=0).fit(np.full((10, 3), 7.0))
    assert np.all(np.abs(fit.means_[fit.weights_ > 1e-3] - 7) < 1e-6)
    assert np.all(np.abs(fit.means_ - 7) < 10)
    with pytest.raises(ValueError, match="needs more features than n_components - 1 = 1, and 0"):
        KnownCovarianceMixture(2, "estimate").fit(np.ones((10, 3)))


def test_a_feature_that_does_not_vary_tells_nothing_of_the_noise():
    _, _, X, _ = problem(6, 3, 2000, size=0.3)
    fit = KnownCovarianceMixture(3, "estimate", random_state=0).fit(X)
    more = np.column_stack([X, np.full(len(X), 5.0)])
    wider = KnownCovarianceMixture(3, "estimate", random_state=0).fit(more)
    np.testing.assert_allclose(wider.covariance_, fit.covariance_, rtol=1e-8)


def test_too_large_a_covariance_is_told():
    _, _, X, _ = problem(4, 3, 2000, size=0.3)
    with pytest.warns(UserWarning, match="is it a variance, not a standard deviation") as caught:
        KnownCovarianceMixture(3, 25.0, random_state=0).fit(X)
    assert caught[0].filename == __file__


def test_one_component_is_the_mean():
    _, _, X, _ = problem(4, 3, 500)
    for polish in ("em", None):
        fit = KnownCovarianceMixture(1, 0.25, polish=polish).fit(X)
        np.testing.assert_allclose(fit.means_[0], X.mean(axis=0), atol=1e-10)


def test_moments_of_no_mixture_are_refused():
    truth, *_ = problem(4, 3, 10)
    clean = Mixture(truth.weights, truth.means, np.zeros(3), "spherical")
    cp = symmetric_cp(clean, 3, 3, random_state=0)
    with pytest.raises(ValueError, match="those of a mixture sum to 1"):
        KnownCovarianceMixture(3, 0.0).fit_moments(cp)
