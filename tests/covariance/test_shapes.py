"""Shapes after mclust: their M-steps against mclust's numbers and a general optimiser, and fits.

The numbers are those of R 4 with mclust 6.0.0, where a row of the table is the log-likelihood of
responsibilities times densities, and the parameters that mclust counts:

    X <- as.matrix(iris[, 1:4]); z <- 0.8 * unmap(iris$Species) + 0.2 / 3
    for (t in c("VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV")) {
      p <- mstep(X, t, z,
                 control = emControl(tol = c(1e-14, 1e-14), itmax = c(1e4, 1e4)))$parameters
      Q <- sum(sapply(1:3, function(k)
        sum(z[, k] * dmvnorm(X, p$mean[, k], p$variance$sigma[, , k], log = TRUE))))
      cat(t, Q, nMclustParams(t, 4, 3), Mclust(X, 3, t)$loglik, "\n")
    }
"""

import warnings

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal, ortho_group
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from momentmix import GaussianMixture, Mixture, MomentMixture, moment_test, select
from momentmix.covariance import COVARIANCE_TYPES, SHAPE_NAMES, fitted_type
from momentmix.matching.orders import parameter_count
from momentmix.report import page
from momentmix.summary import FitSummary

IRIS, SPECIES = load_iris(return_X_y=True)
# Of the M-step, of parameters, and of mclust's fit of three components.
MCLUST = {
    "VEI": (-539.556623262, 20, -339.4719),
    "EVI": (-540.590865606, 24, -338.7895),
    "VEE": (-288.966142036, 26, -237.5609),
    "EVE": (-287.229403299, 30, -258.1150),
    "VVE": (-279.790079725, 32, -238.0428),
    "EEV": (-283.435005233, 36, -232.1991),
    "VEV": (-276.981456640, 38, -186.0740),
    "EVV": (-275.837662064, 42, -222.7946),
}


def matrices(name, array):
    return np.array([np.diag(one) for one in array]) if name[2] == "I" else array


def estimated(name, X, z):
    shares = z.sum(axis=0)
    means = z.T @ X / shares[:, None]
    kind = fitted_type(name)
    array = kind.estimate(shares, means, z.T @ kind.features(X) / shares[:, None])
    return means, matrices(name, array)


def objective(shares, scatter, S):
    logs = np.linalg.slogdet(S)[1]
    return shares @ (logs + np.trace(np.linalg.solve(S, scatter), axis1=1, axis2=2))


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_the_m_step_is_mclusts(name):
    """To 1e-6; with a common orientation and free shapes mclust stops short of the maximum."""
    z = 0.8 * np.eye(3)[SPECIES] + 0.2 / 3
    means, S = estimated(name, IRIS, z)
    logs = [multivariate_normal(mu, C).logpdf(IRIS) for mu, C in zip(means, S, strict=True)]
    value, want, count = np.sum(z * np.transpose(logs)), *MCLUST[name][:2]
    assert value > want - 1e-6
    if name != "VVE":
        np.testing.assert_allclose(value, want, atol=1e-6)
    assert parameter_count(fitted_type(name), 3, 4) == count


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_no_other_covariances_of_the_shape_are_better(name, rng):
    """BFGS over logarithms of volumes and shapes and over angles, from random places."""
    m, n = 3, 3
    A = rng.normal(size=(m, n, n))
    scatter, shares = A @ A.swapaxes(1, 2) + 0.1 * np.eye(n), np.array([0.5, 0.3, 0.2])
    kind = fitted_type(name)
    given = np.diagonal(scatter, axis1=1, axis2=2) if name[2] == "I" else scatter
    found = matrices(name, kind.restrict(shares, given))
    sizes = [m if letter == "V" else 1 for letter in name]
    upper = np.triu_indices(n, 1)

    def made(x, base):
        volume, rest = x[: sizes[0]], x[sizes[0] :]
        shape = rest[: sizes[1] * n].reshape(-1, n)
        angles = rest[sizes[1] * n :].reshape(-1, len(upper[0]))
        turns = np.zeros((len(angles), n, n))
        turns[:, upper[0], upper[1]] = angles
        D = base @ expm(turns - turns.swapaxes(1, 2)) if name[2] != "I" else np.eye(n)[None]
        values = np.exp(volume[:, None] + shape - shape.mean(axis=1, keepdims=True))
        return (D * values[:, None, :]) @ D.swapaxes(1, 2)

    best = np.inf
    for _ in range(4):
        base = ortho_group.rvs(n, size=sizes[2], random_state=rng).reshape(-1, n, n)
        x = 0.3 * rng.normal(size=sizes[0] + n * sizes[1] + (name[2] != "I") * sizes[2] * 3)
        end = minimize(lambda x, base=base: objective(shares, scatter, made(x, base)), x)
        best = min(best, end.fun)
    np.testing.assert_allclose(objective(shares, scatter, found), best, rtol=1e-6)
    again = matrices(name, kind.restrict(shares[::-1], kind.restrict(shares, given)))
    np.testing.assert_allclose(again, found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_what_is_equal_is_equal(name):
    fit = GaussianMixture(3, covariance_type=name, n_init=1, random_state=0).fit(IRIS)
    assert fit.covariance_type_ == name
    assert fit.mixture_.covariance_type == ("diag" if name[2] == "I" else "full")
    values, vectors = np.linalg.eigh(matrices(name, fit.covariances_))
    volumes = np.exp(np.mean(np.log(values), axis=1))
    if name[0] == "E":
        np.testing.assert_allclose(volumes, volumes[0], rtol=1e-6)
    if name[1] == "E":
        shapes = values / volumes[:, None]
        np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], shapes.shape), rtol=1e-6)
    if name[2] == "E":  # the eigenvectors of one diagonalise all
        turned = vectors[0].T @ fit.covariances_ @ vectors[0]
        off = turned * (1 - np.eye(4))
        np.testing.assert_allclose(off, 0, atol=1e-6 * np.abs(turned).max())
    count = MCLUST[name][1]
    np.testing.assert_allclose(
        fit.bic(IRIS), -2 * 150 * fit.score(IRIS) + count * np.log(150), rtol=1e-12
    )


@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_the_fit_is_at_least_mclusts(name):
    fit = GaussianMixture(3, covariance_type=name, n_init=3, random_state=0).fit(IRIS)
    assert 150 * fit.score(IRIS) > MCLUST[name][2] - 0.05


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_steps_never_fall_and_respect_weights_and_gaps(name, rng):
    values = []
    for steps in range(1, 7):
        one = GaussianMixture(
            3, covariance_type=name, max_iter=steps, tol=0, n_init=1, means_init=IRIS[[0, 60, 120]]
        )
        values.append(one.fit(IRIS).lower_bound_)
    assert np.min(np.diff(values)) > -1e-9
    counts = rng.integers(1, 3, len(IRIS))
    start = {"covariance_type": name, "means_init": IRIS[[0, 60, 120]]}
    one = GaussianMixture(3, **start).fit(IRIS, sample_weight=counts)
    two = GaussianMixture(3, **start).fit(np.repeat(IRIS, counts, axis=0))
    np.testing.assert_allclose(one.lower_bound_, two.lower_bound_, rtol=1e-5)
    gaps = np.where(rng.random(IRIS.shape) < 0.1, np.nan, IRIS)
    fit = GaussianMixture(2, covariance_type=name, n_init=1, random_state=0).fit(gaps)
    assert np.isfinite(fit.score(gaps))


def test_one_column_and_one_component(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for name in SHAPE_NAMES:
            one = GaussianMixture(1, covariance_type=name).fit(IRIS)
            free = "diag" if name[2] == "I" else "full"
            plain = GaussianMixture(1, covariance_type=free).fit(IRIS)
            np.testing.assert_allclose(one.covariances_, plain.covariances_, rtol=1e-6)
            X = np.concatenate([rng.normal(size=200), 8 + 3 * rng.normal(size=200)])[:, None]
            fit = GaussianMixture(2, covariance_type=name, random_state=0).fit(X)
            equal = np.ptp(fit.covariances_.ravel()) < 1e-6
            assert equal == (name[0] == "E")


def values_of(name, array):
    """Volumes and shapes of covariances with any leading axes."""
    values = np.sort(array) if name[2] == "I" else np.linalg.eigvalsh(array)
    volumes = np.exp(np.mean(np.log(values), axis=-1, keepdims=True))
    return volumes, values / volumes


@pytest.mark.parametrize("name", ["VEE", "VEI"])
def test_summaries_count_the_parameters_of_the_shape(name):
    fit = GaussianMixture(3, covariance_type=name, n_init=1, random_state=0).fit(IRIS)
    summary = FitSummary.from_estimator(fit, IRIS)
    assert summary.n_parameters == MCLUST[name][1]
    np.testing.assert_allclose(summary.bic(summary.log_likelihood), fit.bic(IRIS), rtol=1e-12)
    np.testing.assert_allclose(summary.aic(summary.log_likelihood), fit.aic(IRIS), rtol=1e-12)
    assert summary.uncertainty is None
    shown = page(summary)
    assert f"with {name} covariances" in shown
    assert f"{fit.bic(IRIS):,.1f}" in shown


@pytest.mark.parametrize("name", ["VEE", "VEI", "EVV"])
@pytest.mark.parametrize("kind", ["rows", "weights", "parametric"])
def test_a_bootstrap_keeps_the_shape(name, kind):
    fit = GaussianMixture(2, covariance_type=name, n_init=1, random_state=0).fit(IRIS)
    found = fit.bootstrap(IRIS, 6, kind)
    volumes, shapes = values_of(name, found.covariances)
    equal = shapes if name[1] == "E" else volumes
    np.testing.assert_allclose(equal, np.broadcast_to(equal[:, :1], equal.shape), rtol=1e-6)
    assert np.ptp(volumes[:, 0]) > 0
    # The means of setosa and of the rest are those of 50 and of 100 rows.
    rest = IRIS[50:].std(axis=0) / 10, IRIS[:50].std(axis=0) / np.sqrt(50)
    ratios = found.standard_errors().means / np.array(rest)
    assert 0.4 < np.sqrt(np.mean(ratios**2)) < 1.6


def test_likelihood_ratios_and_refits_keep_the_shape():
    chosen = select(IRIS, [1, 2], "VEE", criterion="blrt", random_state=0)
    assert chosen.best.n_components_ == 2
    fit = GaussianMixture(2, covariance_type="VEE", n_init=1, random_state=0).fit(IRIS)
    refitted = moment_test(fit, IRIS, 3, method="bootstrap", n_boot=2, random_state=0)
    given = moment_test(fit.mixture_, IRIS, 3, estimated=False, n_boot=2, random_state=0)
    np.testing.assert_allclose(refitted[3].statistic, given[3].statistic, rtol=0.01)


def test_what_is_not_there_is_refused(tmp_path):
    fit = GaussianMixture(2, covariance_type="VEE", random_state=0).fit(IRIS)
    with pytest.raises(ValueError, match=r"'VEE' has no standard errors.*use bootstrap"):
        fit.standard_errors(IRIS)
    for settings in ({"method": "newton"}, {"init_params": "moments"}):
        with pytest.raises(ValueError, match="'VEV' is fitted by EM to rows in memory"):
            GaussianMixture(2, covariance_type="VEV", **settings).fit(IRIS)
    with pytest.raises(ValueError, match="covariance_type"):
        MomentMixture(2, covariance_type="VEE").fit(IRIS)
    with pytest.raises(ValueError, match="covariance_type must be one of"):
        Mixture([1.0], [[0.0]], [[[1.0]]], "VEE")
    assert not set(SHAPE_NAMES) & set(COVARIANCE_TYPES)
    fit.mixture_.save(tmp_path / "fit.json")
    np.testing.assert_array_equal(
        Mixture.load(tmp_path / "fit.json").covariances, fit.mixture_.covariances
    )


def test_select_compares_them():
    chosen = select(IRIS, [2, 3], ["full", "VEV", "EEV"], random_state=0, prior=None)
    by_type = {(one.covariance_type, one.n_components): one for one in chosen.table}
    assert by_type["VEV", 2].bic < 562  # mclust's, the best of all its models of iris
    assert by_type["VEV", 3].n_parameters == 38


@pytest.mark.parametrize("name", ["EVE", "VVE"])
def test_a_common_orientation_is_the_best_of_several(name):
    """BFGS from random rotations finds nothing better."""
    shares = np.array([0.5, 0.3, 0.2])
    for seed in range(10):
        A = np.random.default_rng(seed).normal(size=(3, 3, 3))
        scatter = A @ A.swapaxes(1, 2) + 0.1 * np.eye(3)
        found = objective(shares, scatter, fitted_type(name).restrict(shares, scatter))

        def at(vector, scatter=scatter):
            D = Rotation.from_rotvec(vector).as_matrix()
            logs = np.log(np.diagonal(D.T @ scatter @ D, axis1=1, axis2=2)).sum(axis=1)
            if name == "EVE":  # n log of the mean volume
                return 3 * np.log(shares @ np.exp(logs / 3)) + 3
            return shares @ logs + 3

        starts = Rotation.random(8, random_state=seed).as_rotvec()
        np.testing.assert_allclose(found, min(minimize(at, one).fun for one in starts), atol=1e-6)
