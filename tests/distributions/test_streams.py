"""Fits from moments: tensors, batches, files of moments, and how they agree with fits of rows."""

import numpy as np
import pytest
import sklearn.mixture
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from momentmix import GaussianMixture, Mixture, MomentMixture, MomentTensors, Samples
from momentmix.covariance import Diagonal, Full
from momentmix.fitting.plan import Sizes
from momentmix.matching.orders import tensors_pay

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


def mixture(kind, n=3, m=3, seed=0):
    rng = np.random.default_rng(seed)
    weights, means = rng.dirichlet(np.full(m, 9.0)), 3 * rng.normal(size=(m, n))
    L = rng.normal(size=(m, n, n)) / np.sqrt(n)
    full = L @ L.swapaxes(1, 2) + 0.3 * np.eye(n)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.3, 1.5, (m, n)),
        "spherical": rng.uniform(0.3, 1.5, m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
    }[kind]
    return Mixture(weights, means, covariances, kind)


def assert_same(a, b, atol=1e-8):
    for name in ("weights_", "means_", "covariances_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=atol)


def mean_error(fit, truth):
    gaps = np.linalg.norm(truth.means[:, None] - fit.means_, axis=2)
    return gaps[linear_sum_assignment(gaps)].mean()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("cuts", [[1], [2000], [100, 101, 2900], list(range(1, 3000, 230))])
def test_batches_give_what_fit_gives(kind, cuts):
    X, _ = mixture(kind).sample(3000, 1)
    options = {"covariance_type": kind, "random_state": 0}
    whole = MomentMixture(3, **options).fit(X)
    stream = MomentMixture(3, **options)
    for part in np.split(X, cuts):
        assert stream.partial_fit(part) is stream
    assert_same(whole, stream)
    assert stream.moments_.count == 3000
    assert whole.n_passes_ == 1


@pytest.mark.parametrize("n", [12, 40])
def test_batches_with_many_features(n):
    """Where the fit is implicit, from moments as from samples."""
    X, _ = mixture("diag", n=n, m=4).sample(3000, 1)
    options = {"covariance_type": "diag", "random_state": 0, "n_init": 2}
    stream = MomentMixture(4, **options)
    for part in np.array_split(X, 4):
        stream.partial_fit(part)
    for moments in ("auto", "tensors", "samples"):
        whole = MomentMixture(4, moments=moments, **options).fit(X)
        if moments == "samples" and n == 12:
            assert mean_error(whole, stream.mixture_) < 0.05  # other weights over the moments
        else:
            assert_same(whole, stream)


def test_weighted_batches(rng):
    X, _ = mixture("full").sample(2000, 2)
    w = rng.uniform(0.5, 2, len(X))
    whole = MomentMixture(3, random_state=0).fit(X, sample_weight=w)
    stream = MomentMixture(3, random_state=0)
    for i in range(0, 2000, 500):
        stream.partial_fit(X[i : i + 500], sample_weight=w[i : i + 500])
    assert_same(whole, stream)


def test_parameters_are_solved_when_asked_for():
    X, _ = mixture("full").sample(2000, 3)
    stream = MomentMixture(3, random_state=0).partial_fit(X[:1000])
    assert "means_" not in vars(stream)
    first = stream.predict(X)
    assert "means_" in vars(stream)
    assert first.shape == (2000,)
    before = stream.means_
    stream.partial_fit(X[1000:])
    assert "means_" not in vars(stream)
    assert np.abs(stream.means_ - before).max() > 1e-6
    assert stream.n_passes_ == 0
    assert not hasattr(stream, "lower_bound_")  # moments have no likelihood
    with pytest.raises(AttributeError, match="nothing_"):
        _ = stream.nothing_
    with pytest.raises(NotFittedError):
        GaussianMixture(3).predict(X)
    assert not hasattr(clone(stream), "moments_")


def test_fit_ends_a_stream():
    X, _ = mixture("full").sample(1000, 3)
    model = MomentMixture(3, random_state=0).partial_fit(X).fit(X[:500])
    assert not hasattr(model, "moments_")
    model.partial_fit(X[:100])
    for bad in ([[np.inf, 0, 0]], [["x", "y", "z"]]):
        with pytest.raises(ValueError, match=r"infinity|could not convert"):
            model.fit(bad)
    with pytest.raises(TypeError):
        model.fit_moments(X)
    assert model.moments_.count == 100


def test_warm_start_goes_on_from_the_last_solution():
    X, _ = mixture("full").sample(4000, 4)
    stream = MomentMixture(3, random_state=0, warm_start=True).partial_fit(X[:3000])
    first = stream.means_
    stream.partial_fit(X[3000:])
    whole = MomentMixture(3, random_state=0).fit(X)
    assert mean_error(stream, whole.mixture_) < 1e-6
    assert np.linalg.norm(stream.means_ - first, axis=1).max() < 0.3  # no labels exchanged


def test_a_stream_refuses_what_does_not_fit_it():
    X, _ = mixture("full").sample(300, 3)
    stream = MomentMixture(3).partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        stream.partial_fit(X[:, :2])
    with pytest.raises(ValueError, match="infinity"):
        stream.partial_fit([[np.inf, 0, 0]])
    stream.set_params(order=5)
    with pytest.raises(ValueError, match="begun with order"):
        stream.partial_fit(X)
    assert stream.moments_.count == 300


@pytest.mark.parametrize("kind", TYPES)
def test_fit_moments_of_tensors(kind, tmp_path):
    X, _ = mixture(kind).sample(3000, 1)
    whole = MomentMixture(3, covariance_type=kind, random_state=0).fit(X)
    order = whole._order(Sizes(3))
    MomentTensors.from_samples(X, order).save(tmp_path / "m.npz")
    model = MomentMixture(3, covariance_type=kind, random_state=0)
    model.fit_moments(MomentTensors.load(tmp_path / "m.npz"))
    assert_same(whole, model)
    assert model.n_passes_ == 0


def test_tensors_without_the_needed_order():
    T = MomentTensors.from_samples(mixture("full").sample(500, 0)[0], 2)
    with pytest.raises(ValueError, match=r"need moments of order 6.*accumulate with order=6"):
        MomentMixture(3).fit_moments(T)


def test_noise_is_taken_out_of_tensors():
    truth = mixture("diag")
    X, _ = truth.sample(200_000, 5)
    noisy = X + np.random.default_rng(6).normal(size=X.shape) * np.sqrt([0.5, 1.0, 0.2])
    T = MomentTensors.from_samples(noisy, 4, noise_covariance=np.array([0.5, 1.0, 0.2]))
    from_tensors = MomentMixture(3, covariance_type="diag", random_state=0).fit_moments(T)
    debiased = Samples(noisy[:20_000], noise_covariance=np.array([0.5, 1.0, 0.2]))
    from_samples = MomentMixture(3, covariance_type="diag", random_state=0).fit_moments(debiased)
    for fit, bound in ((from_tensors, 0.03), (from_samples, 0.1)):
        assert mean_error(fit, truth) < bound
        near = linear_sum_assignment(np.linalg.norm(truth.means[:, None] - fit.means_, axis=2))[1]
        np.testing.assert_allclose(fit.covariances_[near], truth.covariances, atol=3 * bound)


def test_missing_values_in_a_fit(rng):
    truth = mixture("diag")
    X, _ = truth.sample(100_000, 7)
    X[rng.random(X.shape) < 0.1] = np.nan
    T = MomentTensors.from_samples(X, 4, missing="pairwise")
    fit = MomentMixture(3, covariance_type="diag", random_state=0).fit_moments(T)
    assert mean_error(fit, truth) < 0.05


def test_optimal_weighting_is_better_than_one_weight_an_order():
    """Mean errors over eight data sets of overlapping components, against EM from the truth."""
    ratios = {"optimal": [], "orders": []}
    for seed in range(8):
        truth = mixture("full", n=3, m=2, seed=seed)
        truth = Mixture(truth.weights, truth.means / 2, truth.covariances)
        X, _ = truth.sample(20_000, seed)
        best = sklearn.mixture.GaussianMixture(
            2, means_init=truth.means, weights_init=truth.weights, tol=1e-7, max_iter=500
        ).fit(X)
        for weighting, errors in ratios.items():
            fit = MomentMixture(2, weighting=weighting, random_state=0).fit(X)
            errors.append(mean_error(fit, truth) / mean_error(best, truth))
    means = {name: np.exp(np.mean(np.log(r))) for name, r in ratios.items()}
    assert means["optimal"] < 2
    assert means["optimal"] < 0.9 * means["orders"]


def test_optimal_weighting_says_where_it_does_not_serve():
    X = np.random.default_rng(0).normal(size=(200, 30))
    with pytest.raises(ValueError, match="serves up to 3100"):
        MomentMixture(2, weighting="optimal", covariance_type="diag").fit(X)


def test_cost_model():
    assert tensors_pay(100, Full, 5, 10, 4)  # few moments: always
    assert tensors_pay(10_000_000, Diagonal, 5, 30, 4)  # tall
    assert not tensors_pay(1000, Diagonal, 5, 100, 4)  # wide
    assert not tensors_pay(10**9, Diagonal, 5, 1000, 4)  # the tensor would not fit in memory
