"""Scoring steps: their slope from the sums of a pass, and where they lead."""

from unittest import mock

import dask.array
import numpy as np
import pytest

from momentmix import GaussianMixture, KnownCovarianceMixture, Mixture
from momentmix.covariance import covariance_type
from momentmix.fit import Parameters
from momentmix.fitting.information import Directions, information
from momentmix.fitting.newton import climb_by_newton, climb_by_scoring, slope_of_sums, with_secant
from test_information import KINDS, MANNERS, case

pytestmark = pytest.mark.usefixtures("passes_everywhere")


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", KINDS)
def test_the_slope_of_sums_is_that_of_scores(name, manner, rng):
    likelihood, parameters = case(covariance_type(name), manner, rng)
    directions = Directions.of(likelihood.target, parameters)
    sums = likelihood.rows.sums(parameters, box=likelihood.target.box)
    slope = slope_of_sums(likelihood, directions, sums)
    np.testing.assert_allclose(slope, information(likelihood, parameters).slope, atol=1e-10)


def overlapping(seed=0, p=30_000):
    truth = Mixture(
        [0.5, 0.3, 0.2],
        [[0.0, 0.0, 0.0], [2.0, 1.0, 0.0], [-1.0, 2.5, 1.0]],
        [np.eye(3), 0.5 * np.eye(3), np.diag([1.0, 0.3, 2.0])],
    )
    return truth.sample(p, random_state=seed)[0]


@pytest.fixture(scope="module")
def rows():
    return overlapping()


@pytest.fixture(scope="module")
def fitted(rows):
    return GaussianMixture(3, init_params="moments", method="newton", random_state=0).fit(rows)


def test_few_passes_lead_to_the_maximum(fitted, rows):
    assert fitted.converged_
    assert fitted.n_passes_ <= 6
    problem, _ = fitted._problem_of_fit(rows, None, None)
    start = problem.frame.forward(Parameters.of(fitted.mixture_))
    top = climb_by_newton(problem.likelihood, start, tol=1e-12, max_iter=50)
    value = problem.likelihood.value(start) - problem.likelihood.penalty(start)
    assert top.log_posterior - value < 1e-5
    long = GaussianMixture(3, random_state=0, tol=1e-9, max_iter=2000).fit(rows)
    assert fitted.log_posterior_ > long.log_posterior_ - 1e-5
    assert fitted.n_passes_ < long.n_passes_ / 5


def test_rows_on_dask_end_where_rows_in_memory_do(fitted, rows):
    D = dask.array.from_array(rows, chunks=(10_000, 3))
    fit = GaussianMixture(3, init_params="moments", method="newton", random_state=0).fit(D)
    assert fit.converged_
    assert fit.n_passes_ <= 8
    assert fit.score(rows) == pytest.approx(fitted.score(rows), abs=2e-5)
    np.testing.assert_allclose(fit.means_, fitted.means_, atol=0.05)


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical"])
def test_all_types_can_be_scored(kind, rows):
    fit = GaussianMixture(
        3, covariance_type=kind, init_params="moments", method="newton", random_state=0
    ).fit(rows)
    em = GaussianMixture(
        3, covariance_type=kind, means_init=fit.means_, random_state=0, tol=1e-8
    ).fit(rows)
    assert fit.log_posterior_ > em.log_posterior_ - 1e-4


def test_gaps_can_be_scored(rows):
    X = rows[:6000].copy()
    X[np.random.default_rng(1).uniform(size=X.shape) < 0.1] = np.nan
    fit = GaussianMixture(3, init_params="moments", method="newton", random_state=0).fit(X)
    em = GaussianMixture(3, means_init=fit.means_, random_state=0, tol=1e-8).fit(X)
    assert fit.log_posterior_ > em.log_posterior_ - 1e-4


def test_steps_that_do_not_gain_are_taken_back(rows, rng):
    """From a poor start every value along the way is higher than the one before."""
    fit = GaussianMixture(3, random_state=0, max_iter=1, tol=10.0).fit(rows[:2000])
    problem, _ = fit._problem_of_fit(rows[:2000], None, None)
    likelihood = problem.likelihood
    start = problem.frame.forward(Parameters.of(fit.mixture_))
    values = []
    result, by_em = climb_by_scoring(
        likelihood, start, rng, tol=1e-7, max_iter=200, callback=lambda i, v: values.append(v)
    )
    assert result.converged
    assert not by_em
    assert np.all(np.diff(values) > -1e-3)  # the penalty is not in these
    assert result.log_posterior > likelihood.value(start) - likelihood.penalty(start)


def test_newton_is_not_for_known_noise(rows):
    with pytest.raises(ValueError, match="'polish' parameter"):
        KnownCovarianceMixture(3, 1.0, polish="newton").fit(rows[:100])


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_a_fit_of_rows_elsewhere_knows_its_standard_errors(kind, rows):
    """In the order of its components, as another pass finds them."""
    model = GaussianMixture(3, covariance_type=kind, random_state=0)
    with mock.patch("momentmix.rows.elsewhere.draw_size", return_value=15_000):
        fit = model.fit_batches([rows[:10_000], rows[10_000:]])
    for mine, theirs in zip(fit.standard_errors(), fit.standard_errors(rows), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0.1, atol=1e-6)
    with pytest.raises(ValueError, match="X is needed"):
        fit.standard_errors(kind="sandwich")
    with pytest.raises(ValueError, match="X is needed"):
        fit.fit(rows[:200]).standard_errors()


def test_slopes_correct_the_curvature(rng):
    """The corrected one explains the last step, and is symmetric and positive as before."""
    A = rng.normal(size=(6, 6))
    truth = A @ A.T + np.eye(6)
    guess = truth + 0.3 * np.diag(rng.uniform(size=6))
    step = rng.normal(size=6)
    found = with_secant(guess, step, truth @ step)
    np.testing.assert_allclose(found @ step, truth @ step)
    np.testing.assert_allclose(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    assert with_secant(guess, step, -step) is guess  # of no use where the slope grows


def test_em_takes_over_where_scoring_leads_nowhere(rows):
    """As where parameters are too many for their curvature; the fit says who finished it."""
    few = mock.patch("momentmix.fitting.newton.MOST_PARAMETERS", 10)
    with few, pytest.warns(UserWarning, match="EM took over"):
        fit = GaussianMixture(3, init_params="moments", method="newton", random_state=0).fit(rows)
    em = GaussianMixture(3, random_state=0, tol=1e-8, max_iter=1000).fit(rows)
    assert fit.log_posterior_ > em.log_posterior_ - 1e-4


def test_the_more_rows_the_nearer_to_the_maximum():
    """What is left to gain is little beside the error that the rows leave, however many."""
    truth = Mixture([0.6, 0.4], [[0.0, 0.0], [2.0, 1.0]], np.ones((2, 2)), "diag")
    X = truth.sample(5000, 0)[0]
    w = np.full(len(X), 1e6)  # as if there were five billion rows
    options = {
        "covariance_type": "diag",
        "init_params": "moments",
        "method": "newton",
        "random_state": 0,
    }
    fit = GaussianMixture(2, **options).fit(X, sample_weight=w)
    problem, _ = fit._problem_of_fit(X, w, None)
    at = problem.frame.forward(Parameters.of(fit.mixture_))
    top = climb_by_newton(problem.likelihood, at, tol=1e-14, max_iter=50)
    left = top.log_posterior - problem.likelihood.value(at) + problem.likelihood.penalty(at)
    assert left * 5e9 < 0.1
