"""Moment fits that rows far off do not ruin, and the warning where nothing keeps them from it."""

import itertools
import signal
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from momentmix import (
    CollapseWarning,
    GaussianMixture,
    Mixture,
    MomentMixture,
    OutlierWarning,
    Samples,
)
from momentmix.covariance import covariance_type
from momentmix.estimators.moment_mixture import plan_moments
from momentmix.fit import Parameters
from momentmix.fitting.plan import Sizes
from momentmix.fitting.solve import solve
from momentmix.fitting.windowed import Window, windowed_problem
from momentmix.rows.data import rows_to_fit
from momentmix.rows.screening import dominance
from momentmix.support.stopping import stoppable

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
MEANS = np.array([[-4.0, 0.0], [4.0, 1.0], [0.0, 5.0]])


def parameters(kind, rng, m=3, n=2):
    L = rng.normal(size=(m, n, n))
    full = 0.3 * L @ L.swapaxes(1, 2) + 0.1 * np.eye(n)
    array = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.1, 2.0, size=(m, n)),
        "spherical": rng.uniform(0.1, 2.0, size=m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
    }[kind]
    return Parameters(rng.dirichlet(np.full(m, 5.0)), rng.normal(size=(m, n)), array)


def matrices(kind, array, m, n):
    return {
        "full": lambda: array,
        "tied": lambda: [array] * m,
        "diag": lambda: [np.diag(a) for a in array],
        "spherical": lambda: [a * np.eye(n) for a in array],
        "tied-diag": lambda: [np.diag(array)] * m,
        "tied-spherical": lambda: [array * np.eye(n)] * m,
    }[kind]()


def density(kind, mixture, X):
    """By SciPy; the weights need not sum to 1."""
    m, n = mixture.means.shape
    parts = zip(*mixture[:2], matrices(kind, mixture.covariances, m, n), strict=True)
    return sum(w * multivariate_normal(mean, S).pdf(X) for w, mean, S in parts)


@pytest.mark.parametrize("kind", TYPES)
def test_a_mixture_through_the_window_is_the_density_times_the_window(kind, rng):
    window = Window(covariance_type(kind), 2, 0.7, 100.0)
    mixture, X = parameters(kind, rng), 2 * rng.normal(size=(200, 2))
    times = np.exp(-np.sum(X**2, axis=1) / (2 * 0.7))
    np.testing.assert_allclose(window.weights(X), times, rtol=1e-13)
    seen = window.into(mixture)
    np.testing.assert_allclose(density(kind, seen, X), times * density(kind, mixture, X), rtol=1e-9)
    for got, expected in zip(window.out_of(seen), mixture, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    assert not np.any(window.too_wide(seen))


def test_moments_through_the_window_by_quadrature(rng):
    window = Window(covariance_type("diag"), 1, 0.4, 100.0)
    mixture = parameters("diag", rng, n=1)
    seen = window.into(mixture)
    deviations = np.sqrt(mixture.covariances[:, 0])

    def integrand(x, k):
        p = mixture.weights @ norm.pdf(x, mixture.means[:, 0], deviations)
        return x**k * np.exp(-(x**2) / 0.8) * p

    moments = [quad(integrand, -9, 9, args=(k,), epsabs=1e-13)[0] for k in range(5)]
    total = seen.weights.sum()
    np.testing.assert_allclose(total, moments[0])
    as_seen = Mixture(seen.weights / total, seen.means, seen.covariances, "diag")
    for k in range(1, 5):
        np.testing.assert_allclose(as_seen.moment(k).item(), moments[k] / total, rtol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_wider_than_the_window_is_bounded(kind, rng):
    of_kind = covariance_type(kind)
    window = Window(of_kind, 2, 0.5, 4.0)
    seen = window.into(parameters(kind, rng))
    wide = seen._replace(covariances=seen.covariances + of_kind.repeat(3, np.eye(2)))
    found = window.out_of(wide)
    assert np.all(window.too_wide(wide))
    for S in matrices(kind, found.covariances, 3, 2):
        np.testing.assert_allclose(np.linalg.eigvalsh(S)[-1], 4.0)
        assert np.linalg.eigvalsh(S)[0] > 0
    assert 0 < found.weights.max() <= 1


def data(share, how, seed, p=2000):
    """Three clusters four deviations apart or more, and which rows are outliers."""
    rng = np.random.default_rng(seed)
    X = MEANS[rng.integers(3, size=p)] + rng.normal(size=(p, 2)) * [1.0, 0.8]
    outliers = rng.permutation(p)[: int(share * p)]
    if how == "far":
        angles = rng.uniform(0, 2 * np.pi, len(outliers))
        radii = rng.uniform(20, 100, (len(outliers), 1))
        X[outliers] = radii * np.column_stack([np.cos(angles), np.sin(angles)])
    else:
        X[outliers] = rng.uniform(-14, 14, (len(outliers), 2))
    return X


def fitted(X, counts=None, most=0.5, m=3, **settings):
    """The robust fit as the estimator makes it."""
    estimator = MomentMixture(m, **settings)
    rows = rows_to_fit(X, counts, m)
    plan = plan_moments(estimator, Sizes(rows.n, rows.rows, rows.order, rows.place), None)
    problem = windowed_problem(rows, plan, most)
    return problem.restore(solve(problem, plan, np.random.default_rng(0)))


def error(means, truth=MEANS):
    orders = map(list, itertools.permutations(range(len(truth))))
    return min(np.sqrt(np.mean(np.sum((means[order] - truth) ** 2, axis=1))) for order in orders)


@pytest.fixture(scope="module")
def clean():
    return fitted(data(0.0, "", 0))


@pytest.mark.parametrize("how", ["uniform", "far"])
def test_outliers_do_not_ruin_the_fit(how, clean):
    X = data(0.05, how, 0)
    fit = fitted(X)
    assert fit.converged
    assert error(fit.parameters.means) < 2.5 * error(clean.parameters.means)
    assert abs(1 - fit.parameters.weights.sum() - 0.05) < 0.02
    covariances = fit.parameters.covariances
    np.testing.assert_allclose(covariances, np.tile(np.diag([1, 0.64]), (3, 1, 1)), atol=0.25)


def test_clean_rows_cost_little(clean):
    X = data(0.0, "", 0)
    plain = MomentMixture(3, random_state=0).fit(X)
    assert error(clean.parameters.means) < 1.5 * error(plain.means_)
    assert clean.parameters.weights.sum() > 0.98


def test_units_do_not_matter(clean):
    A, b = np.array([3.0, 1e-3]), np.array([7.0, -5.0])
    moved = fitted(data(0.0, "", 0) * A + b).parameters
    np.testing.assert_allclose(moved.weights, clean.parameters.weights, atol=1e-5)
    np.testing.assert_allclose((moved.means - b) / A, clean.parameters.means, atol=1e-4)


def test_a_row_of_weight_two_is_that_row_twice():
    X = data(0.02, "far", 1, p=600)
    counts = np.random.default_rng(0).integers(1, 3, len(X))
    once, twice = fitted(X, counts.astype(float)), fitted(np.repeat(X, counts, axis=0))
    for got, expected in zip(once.parameters, twice.parameters, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_and_a_start_of_ones_own(kind):
    X = data(0.05, "uniform", 2)
    fit = fitted(X, covariance_type=kind, means_init=MEANS)
    assert error(fit.parameters.means) < 0.25
    assert fit.parameters.covariances.shape == covariance_type(kind).shape(3, 2)


def test_one_component(rng):
    X = rng.normal(size=(5000, 2)) * [1.0, 3.0]
    X[:100] = 200.0
    fit = fitted(X, m=1)
    np.testing.assert_allclose(fit.parameters.means, 0, atol=0.25)
    np.testing.assert_allclose(fit.parameters.covariances[0], np.diag([1, 9]), rtol=0.1, atol=0.3)
    assert abs(fit.parameters.weights.sum() - 0.98) < 0.02


def test_stopped_before_it_begins_it_takes_its_first_step():
    rows = rows_to_fit(data(0.05, "far", 0), None, 3)
    plan = plan_moments(MomentMixture(3), Sizes(2, 2000, None, "memory"), None)
    problem = windowed_problem(rows, plan, 0.5)
    with stoppable():
        signal.raise_signal(signal.SIGINT)
        fit = problem.restore(solve(problem, plan, np.random.default_rng(0)))
    assert fit.interrupted
    assert np.all(np.isfinite(fit.parameters.means))
    assert 0.5 - 1e-9 <= fit.parameters.weights.sum() <= 1 + 1e-9


def test_the_share_of_outliers_is_bounded():
    X = data(0.05, "far", 0)
    fit = fitted(X, most=0.01)
    np.testing.assert_allclose(fit.parameters.weights.sum(), 0.99)


def test_a_component_that_is_too_wide_is_told(rng):
    X = rng.uniform(-1, 1, size=(5000, 1))  # near the middle, a Gaussian of any width
    with pytest.warns(CollapseWarning, match="1 of 1 covariances are wider than rows near the mid"):
        fit = fitted(X, m=1)
    np.testing.assert_allclose(fit.parameters.covariances, 4 * np.var(X), rtol=0.02)


def test_what_cannot_be_looked_at_through_a_window_is_refused():
    X = data(0.0, "", 0, p=100)
    with pytest.raises(ValueError, match=r"omega=2 refers to the origin"):
        fitted(X, omega=2.0)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="complete and exact rows in memory"):
        fitted(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warning_where_few_rows_decide():
    X, settings = data(0.01, "far", 3), {"max_iter": 2, "n_init": 1}
    with pytest.warns(OutlierWarning, match=r"20 of 2000 rows.* 9\d\.\d % of the fourth moments"):
        MomentMixture(3, **settings).fit(X)
    with pytest.warns(OutlierWarning):
        MomentMixture(3, **settings).fit_moments(Samples(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutlierWarning)
        GaussianMixture(3, random_state=0, max_iter=2).fit(X)  # its likelihood has another way


@pytest.mark.parametrize("n", [1, 2, 10])
def test_no_warning_of_rows_of_a_mixture(n):
    """One Gaussian, clusters, a narrow one in a wide one, in any of some data sets."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, first = rng.normal(size=(200, n)), rng.random((200, 1)) < 0.1
        for X in (Z, Z + 8 * first, np.where(first, 5 * Z, Z)):
            assert dominance(X, None) is None


def test_rows_that_decide_by_their_weight(rng):
    X = rng.normal(size=(500, 3))
    X[:3] *= 100
    found = dominance(X, None)
    assert found.rows == 5
    assert found.share > 0.99
    heavy = np.where(np.arange(500) < 3, 100.0, 1.0)  # a third of the weight is not a few rows
    assert dominance(X, heavy / heavy.sum()) is None
