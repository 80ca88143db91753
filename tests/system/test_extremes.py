"""Data at the edge of what float64 can hold, and settings that make no sense."""

import os
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

import momentmix as mm
from likelihoods import row_likelihood
from momentmix import GaussianMixture, KnownCovarianceMixture, MomentMixture
from momentmix.cli import app
from momentmix.covariance import covariance_type
from momentmix.fit import Parameters
from momentmix.goodness import moment_match
from momentmix.rows.screening import rounding_variances

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
pytestmark = pytest.mark.usefixtures("passes_everywhere")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mm.CollapseWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def finite(fit):
    parts = (fit.weights_, fit.means_, fit.covariances_, fit.precisions_)
    return all(np.all(np.isfinite(part)) for part in parts)


@pytest.mark.parametrize("kind", TYPES)
def test_sharp_densities_against_scipy(kind, rng):
    """A component of deviation 1e-5 far from the centre, where the quadratic form has no digit."""
    n, far, size = 3, np.array([40.0, -30, 20]), 1e-10
    matrix = size * (np.eye(n) + (0.5 if kind in ("full", "tied") else 0.0))
    matrices = [matrix, matrix if kind.startswith("tied") else np.eye(n)]
    means = np.stack([far, np.zeros(n)])
    covariances = {
        "full": np.stack(matrices),
        "tied": matrix,
        "diag": np.stack([np.diag(S) for S in matrices]),
        "spherical": np.array([S[0, 0] for S in matrices]),
        "tied-diag": np.diag(matrix),
        "tied-spherical": matrix[0, 0],
    }[kind]
    X = far + np.sqrt(size) * rng.normal(size=(20, n))
    found = row_likelihood(X, None, covariance_type(kind), 1e-12).rows.log_joint(
        Parameters(np.array([0.3, 0.7]), means, covariances)
    )
    want = np.log(0.3) + multivariate_normal(far, matrix).logpdf(X)
    # Means and rows near 40 have an error of 4e-15, which is 4e-10 deviations.
    np.testing.assert_allclose(found[:, 0], want, rtol=1e-7)


@pytest.mark.parametrize(("seed", "reg_covar"), [(0, 0.0), (1, 1e-9), (2, 1e-6)])
def test_lower_bound_is_score(seed, reg_covar):
    X = np.random.default_rng(seed).integers(0, 4, size=(60, 10)).astype(float)
    fit = GaussianMixture(3, reg_covar=reg_covar, prior=None, random_state=seed).fit(X)
    assert abs(fit.lower_bound_ - fit.score(X)) < 1e-9 * max(1, abs(fit.lower_bound_))
    weights = np.random.default_rng(seed).uniform(0.5, 2, size=60)
    fit = GaussianMixture(3, reg_covar=reg_covar, random_state=seed).fit(X, sample_weight=weights)
    score = np.average(fit.score_samples(X), weights=weights)
    assert abs(fit.lower_bound_ - score) < 1e-9 * max(1, abs(score))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("reg_covar", [0.0, 1e-6])
def test_constant_data_not_exact_in_binary(kind, components, reg_covar):
    X = np.full((40, 4), 0.1)
    settings = {"covariance_type": kind, "reg_covar": reg_covar, "random_state": 0}
    fit = GaussianMixture(components, **settings).fit(X)
    assert finite(fit)
    np.testing.assert_allclose(fit.means_, 0.1)
    assert set(fit.predict(X)) <= set(range(components))


@pytest.mark.parametrize("kind", TYPES)
def test_a_column_of_huge_numbers_hides_no_other(kind, rng):
    """Near 1e16 a column varies by rounding alone; clusters in another must still be found."""
    labels = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 3))
    X[:, 0] += 9.0 * labels
    X[:, 2] += 1e16
    fit = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    found = fit.predict(X)
    assert min(np.sum(found != labels), np.sum(found == labels)) == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("polish", ["em", None])
def test_more_noise_than_the_data_vary(seed, polish):
    X = 0.3 * np.random.default_rng(seed).normal(size=(100, 30))
    fit = KnownCovarianceMixture(2, 0.5, polish=polish, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that the noise is too large, and may not converge
        fit.fit(X)
    assert np.all(np.isfinite(fit.means_))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("cls", [GaussianMixture, MomentMixture])
def test_next_to_no_data(kind, cls, rng):
    few = rng.integers(0, 2, size=(3, 5)).astype(bool)
    equal = np.tile(rng.normal(size=(1, 4)), (12, 1))
    for X in (few, equal):
        fit = cls(2, covariance_type=kind, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert finite(fit.fit(X))
            fit.predict(X)


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_whose_squares_do_not_exist(kind, rng):
    X = rng.normal(size=(50, 3))
    fit = GaussianMixture(2, covariance_type=kind, random_state=0)
    with pytest.raises(ValueError, match=r"X holds .*e\+300, whose square overflows; rescale"):
        fit.fit(X * 1e300)
    with pytest.raises(ValueError, match=r"varies by .*e-300, whose square underflows; rescale"):
        fit.fit(X * 1e-300)
    with pytest.raises(ValueError, match="the sum of sample_weight overflows"):
        fit.fit(X, sample_weight=np.full(50, 1e308))
    weights = 10.0 ** rng.uniform(-200, 200, size=50)
    assert finite(fit.fit(X, sample_weight=weights))


def test_rows_at_the_end_of_float64():
    """Their density is 0, of which the logarithm is -∞ and not NaN; any component is as good."""
    mixture = mm.Mixture([0.5, 0.5], [[0.0, 0], [1, 1]], [1.0, 1], "spherical")
    X = np.array([[1e300, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mixture.log_prob(X) == -np.inf, [True, False])
    fit = GaussianMixture(2, random_state=0).fit(np.random.default_rng(0).normal(size=(50, 2)))
    found = fit.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    with pytest.raises(ValueError, match="square overflows; rescale"):
        moment_match(mixture, mm.Samples(1e300 * np.eye(2)))


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"n_jobs": "x"}, "'n_jobs' parameter .* must be an instance of 'int' or None"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter .* must be an instance of 'int' or None"),
        ({"omega": "x"}, "'omega' parameter .* must be a float in the range"),
        ({"reg_covar": np.inf}, "'reg_covar' parameter .* must be a float in the range"),
        ({"prior": np.inf}, "prior"),
        ({"order": 10**9}, "order=1000000000 is too high"),
        ({"order_weights": 5}, "'order_weights' parameter .* must be an array-like"),
        ({"covariances_init": np.ones((2, 3, 3))}, "covariances_init must be positive definite"),
    ],
)
def test_settings_that_make_no_sense(setting, match, rng):
    of_moments = setting.keys() & {"omega", "order", "order_weights"}
    cls = MomentMixture if of_moments else GaussianMixture
    with pytest.raises(ValueError, match=match):
        cls(2, random_state=0, **setting).fit(rng.normal(size=(60, 3)))


def test_a_part_of_a_start_is_enough(rng):
    """The rest comes from k-means, as in scikit-learn."""
    X = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(40, 2)) + 8])
    wide = np.stack([np.eye(2), 4 * np.eye(2)])
    for setting in ({"weights_init": [0.2, 0.8]}, {"covariances_init": wide}):
        fit = GaussianMixture(2, random_state=0, **setting).fit(X)
        np.testing.assert_allclose(np.sort(fit.weights_), [1 / 3, 2 / 3], atol=1e-6)


def test_no_iterations_give_the_first_start(rng):
    X = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(40, 2)) + 3])
    with pytest.warns(UserWarning, match="did not converge in max_iter=0"):
        fit = GaussianMixture(2, max_iter=0, random_state=0).fit(X)
    assert fit.n_iter_ == 0
    assert finite(fit)
    assert fit.log_posterior_ < GaussianMixture(2, random_state=0).fit(X).log_posterior_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_step_at_a_time(rng):
    """With warm_start, single steps end where many do."""
    X = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(40, 2)) + 3])
    means = np.array([[0.0, 1.0], [2.0, 1.0]])
    whole = GaussianMixture(2, means_init=means).fit(X)
    steps = GaussianMixture(2, means_init=means, warm_start=True, max_iter=1)
    for _ in range(500):
        if steps.fit(X).converged_:
            break
    assert steps.converged_
    assert abs(steps.log_posterior_ - whole.log_posterior_) < 1e-4


def test_float32_in_float32_out(rng):
    X = rng.normal(size=(100, 3)).astype(np.float32)
    fit = GaussianMixture(2, random_state=0).fit(X)
    parts = (fit.weights_, fit.means_, fit.covariances_, fit.precisions_, fit.precisions_cholesky_)
    found = (*parts, fit.score_samples(X), fit.predict_proba(X))
    assert {part.dtype for part in found} == {np.dtype(np.float32)}
    assert abs(fit.score(X) - fit.lower_bound_) < 1e-12
    double = GaussianMixture(2, random_state=0).fit(X.astype(np.float64))
    np.testing.assert_array_equal(double.mixture_.means, fit.mixture_.means)
    assert fit.fit(X.astype(np.float64)).means_.dtype == np.float64


FORKED = """
import os
import numpy as np
from momentmix import GaussianMixture

X = np.random.default_rng(0).normal(size=(30_000, 8))
fit = GaussianMixture(3, random_state=0, max_iter=2, tol=1e-2)
fit.fit(X)
child = os.fork()
if child == 0:
    fit.fit(X)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_forked_after_a_fit_can_fit():
    """The limit is there to end a process that hangs."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.split() == ["7"]


THREADLESS = """
import resource
from pathlib import Path
from momentmix.support.parallel import parallel_map, single_threaded_blas

with single_threaded_blas():
    pass
pages = int(Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + (4 << 20)  # less than the stack of a thread
resource.setrlimit(resource.RLIMIT_AS, (room, room))
print(parallel_map(lambda i: i * i, range(5), 3))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the kernel")
def test_without_memory_for_threads_one_does_the_work():
    command = [sys.executable, "-c", THREADLESS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "[0, 1, 4, 9, 16]\n", done.stderr


def test_what_counts_as_rounded(rng):
    continuous = rng.normal(size=300)
    drawn_again = continuous[rng.integers(300, size=900)]
    finer = np.round(rng.normal(size=900), 1)
    finer[0] += 0.037
    X = np.column_stack([drawn_again, finer, np.round(drawn_again * 4)])
    np.testing.assert_allclose(rounding_variances(X), [0, 0.01 / 12, 1 / 12], rtol=1e-6)
    ages = np.arange(20.0, 60)[:, None]  # one column, of which equal rows are one
    weights = rng.uniform(0.5, 2, size=40)
    found = rounding_variances(ages, weights / weights.sum(), 1000.0)
    np.testing.assert_allclose(found, [1 / 12])


@pytest.mark.filterwarnings("ignore:the weights of 120 rows")
@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_a_prior_beyond_all_bounds_makes_covariances_equal(kind):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), 2 * rng.normal(size=(60, 2)) + 9])

    def fitted(prior="auto", weight=1.0):
        model = mm.GaussianMixture(2, covariance_type=kind, prior=prior, random_state=0)
        return model.fit(X, sample_weight=np.full(120, weight))

    labels = np.repeat([0, 1], 60)
    means = [X[labels == j].mean(axis=0) for j in (0, 1)]
    for found in (fitted(1e12), fitted(1e300), fitted(weight=1e-300), fitted(weight=1e-320)):
        np.testing.assert_allclose(*found.covariances_, rtol=1e-6, atol=1e-6)
        order = np.argsort(found.means_[:, 0])
        np.testing.assert_allclose(found.means_[order], means, atol=0.2)


def test_moments_that_underflow_are_refused():
    X = np.random.default_rng(0).normal(size=(300, 2))
    for scale in (1e-60, 1e-150, 1e-200):
        with pytest.raises(ValueError, match=r"powers of order 7 underflow.*rescale the features"):
            mm.MomentTensors.from_samples(X * scale, 7)
        with pytest.raises(ValueError, match=r"underflow"):
            mm.MomentTensors.from_samples(np.where(X > 2, np.nan, X * scale), 7, missing="pairwise")
    with pytest.raises(ValueError, match=r"underflow.*the weights"):
        mm.MomentTensors.from_samples(X, 7, np.full(300, 1e-320))
    with pytest.raises(ValueError, match=r"underflow"):
        mm.MomentMixture(2, random_state=0).fit(X * 1e-145)
    small = mm.MomentTensors.from_samples(X * 1e-40, 7)
    np.testing.assert_allclose(small.tensor(7)[0, 0, 0, 0, 0, 0, 0] * 1e280, np.mean(X[:, 0] ** 7))
    assert mm.MomentTensors.from_samples(np.full((5, 2), 0.1), 7).mean[0] == 0.1


@pytest.mark.parametrize("arguments", [["-k", "1"], ["-k", "2"], ["-k", "1..2"]])
@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_wide_tables_take_no_matrix_of_all_features(arguments, kind, tmp_path, rng):
    """12 rows of 6,000 features: the rows have 0.6 MB, and a matrix would have 288."""
    X = rng.normal(size=(12, 6000)) * np.geomspace(1, 100, 6000)
    np.save(tmp_path / "wide.npy", X)
    model = tmp_path / "m.json"
    tracemalloc.start()
    line = f"fit {tmp_path}/wide.npy --covariance {kind} --prior none -o {model}".split()
    done = CliRunner().invoke(app, [*line, *arguments])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.exit_code == 0, done.output
    assert peak < 8 * 6000**2 / 2
    found = mm.Mixture.load(model)
    if arguments == ["-k", "1"]:
        variances = X.var(axis=0) if kind == "diag" else np.mean(X.var(axis=0))
        assert np.allclose(found.means[0], X.mean(axis=0))
        assert np.allclose(found.covariances[0], variances, rtol=1e-5)
