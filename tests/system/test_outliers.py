"""Rows that belong to no component: the likelihood with a background, and fits with one."""

import dataclasses
import warnings

import dask.array
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta, multivariate_normal

import momentmix
from likelihoods import observed_likelihood, row_likelihood
from momentmix import GaussianMixture, Mixture, MomentMixture, select
from momentmix.covariance import covariance_type
from momentmix.distributions.mixture import Background
from momentmix.fit import Parameters
from momentmix.fitting.background import in_box, misfit_of_distances
from momentmix.fitting.em import responsibilities, single
from momentmix.fitting.moves import drop_losses
from momentmix.observed import ObservedRows
from momentmix.rows.incomplete import CompletedRows
from momentmix.rows.memory import Box
from momentmix.rows.screening import Crowding

pytestmark = pytest.mark.usefixtures("passes_everywhere")

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
MEANS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def spoilt_rows(seed, p=600, share=0.08):
    """Rows of three clusters, some of which are put anywhere; and which."""
    rng = np.random.default_rng(seed)
    X = MEANS[rng.integers(3, size=p)] + rng.normal(size=(p, 2)) * [1.0, 0.7]
    out = rng.permutation(p)[: round(share * p)]
    X[out] = rng.uniform(-25, 25, (len(out), 2))
    odd = np.zeros(p, dtype=bool)
    odd[out] = True
    return X, odd


def error_of_means(fit):
    squares = ((fit.means_[:, None] - MEANS) ** 2).sum(axis=2)
    return np.sqrt(squares[linear_sum_assignment(squares)].mean())


@pytest.fixture(scope="module")
def spoilt():
    return spoilt_rows(0)


@pytest.fixture(scope="module")
def fitted(spoilt):
    return GaussianMixture(3, outliers="auto", random_state=0).fit(spoilt[0])


# The likelihood


def some_parameters(kind, rng):
    A = rng.normal(size=(2, 2, 2))
    matrices = A @ A.swapaxes(1, 2) + np.eye(2)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": np.diagonal(matrices, axis1=1, axis2=2).copy(),
        "spherical": matrices[:, 0, 0].copy(),
        "tied-diag": np.diag(matrices[0]).copy(),
        "tied-spherical": matrices[0, 0, 0].copy(),
    }[kind]
    return Parameters(np.array([0.2, 0.5]), rng.normal(size=(2, 2)), covariances)


def brute_force(X, parameters, kind, widths, noise=None):
    """Log densities of rows, one after the other, of the features that each has."""
    weights, means, _ = parameters
    full = Mixture(weights / weights.sum(), means, parameters.covariances, kind)
    matrices = np.broadcast_to(full.atoms.covariance.matrices(), (2, 2, 2))
    found = []
    for i, x in enumerate(X):
        seen = ~np.isnan(x)
        extra = 0.0 if noise is None else noise[i][np.ix_(seen, seen)]
        density = (1 - weights.sum()) / np.prod(widths[seen])
        for weight, mean, matrix in zip(weights, means, matrices, strict=True):
            covariance = matrix[np.ix_(seen, seen)] + extra
            density += weight * multivariate_normal(mean[seen], covariance).pdf(x[seen])
        found.append(np.log(density))
    return np.array(found)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("manner", ["complete", "gaps", "noise"])
def test_the_likelihood_is_the_sum_over_components_and_background(kind, manner, rng):
    parameters, widths = some_parameters(kind, rng), np.array([7.0, 11.0])
    X, noise = 3 * rng.normal(size=(30, 2)), None
    if manner == "complete":
        likelihood = row_likelihood(X, None, covariance_type(kind), 0.0)
    else:
        X[rng.uniform(size=X.shape) < 0.3] = np.nan
        X[np.isnan(X).all(axis=1), 0] = 1.0
        if manner == "noise":
            B = rng.normal(size=(30, 2, 2))
            noise = B @ B.swapaxes(1, 2)
        rows = momentmix.observed.noise_of_rows(noise, X)
        rows = CompletedRows(ObservedRows(X, rows), np.nan_to_num(X), np.zeros(30))
        likelihood = observed_likelihood(rows, None, covariance_type(kind), 0.0)
    likelihood = in_box(likelihood, Box(widths, 0.0, 0.5))
    expected = brute_force(X, parameters, kind, widths, noise)
    assert likelihood.value(parameters) == pytest.approx(expected.mean(), rel=1e-12)
    np.testing.assert_allclose(responsibilities(likelihood, parameters)[1], expected, rtol=1e-12)
    sums = likelihood.rows.sums(parameters, box=likelihood.target.box)
    assert sums.log_likelihoods[0] == pytest.approx(expected.mean(), rel=1e-12)
    background = 0.3 / np.where(np.isnan(X), 1.0, widths).prod(axis=1) / np.exp(expected)
    assert 1 - sums.shares.sum() == pytest.approx(background.mean(), rel=1e-9)
    # A mixture says the same of the rows as the likelihood that it was fitted by.
    weights, means, covariances = parameters
    mixture = Mixture(weights / 0.7, means, covariances, kind, background=Background(0.3, widths))
    np.testing.assert_allclose(mixture.log_prob(X, noise), expected, rtol=1e-12)
    np.testing.assert_allclose(mixture.outlier_probability(X, noise), background, rtol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_steps_gain_and_keep_the_share_below_its_bound(kind, spoilt):
    X, one = spoilt[0] / 6, covariance_type(kind)
    likelihood = row_likelihood(X, None, one, 1e-6)
    likelihood = in_box(likelihood, Box(np.array([8.0, 8.0]), 0.0, 0.05))
    start = Parameters(np.full(3, 1 / 3), MEANS / 6, one.repeat(3, np.eye(2)))
    at = likelihood.target.with_room_for_background(start)
    values = []
    for _ in range(30):
        step = likelihood.step(at)
        values.append(float(step.log_likelihood[0]))
        at = step.after
        assert 1 - at.weights.sum() <= 0.05 + 1e-12
    assert np.all(np.diff(values) > -1e-12)
    assert 1 - at.weights.sum() == pytest.approx(0.05)  # there are more outliers than that


def test_steps_of_several_mixtures_are_those_of_each(spoilt, rng):
    likelihood = row_likelihood(spoilt[0], None, covariance_type("diag"), 1e-6)
    likelihood = in_box(likelihood, Box(np.array([50.0, 50.0]), 0.0, 0.5))
    starts = [
        Parameters(np.array([0.3, 0.3]), rng.normal(size=(2, 2)), np.ones((2, 2))) for _ in range(3)
    ]
    together = likelihood.try_steps(starts, 4)
    for start, result in zip(starts, together, strict=True):
        alone = likelihood.try_steps([start], 4)[0]
        np.testing.assert_allclose(alone.parameters.weights, result.parameters.weights, rtol=1e-9)
        assert alone.log_likelihood == pytest.approx(result.log_likelihood, rel=1e-12)


def test_drop_losses_are_what_is_lost_beside_a_background(spoilt):
    likelihood = row_likelihood(spoilt[0], None, covariance_type("spherical"), 1e-6)
    likelihood = in_box(likelihood, Box(np.array([50.0, 50.0]), 0.0, 0.5))
    parameters = Parameters(np.array([0.3, 0.2, 0.4]), MEANS, np.ones(3))
    losses = drop_losses(likelihood, parameters)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        kept = parameters.weights[rest] / (1 - parameters.weights[i])
        fewer = Parameters(kept, MEANS[rest], np.ones(2))
        lost = likelihood.value(parameters) - likelihood.value(fewer)
        assert losses[i] == pytest.approx(lost, rel=1e-9)


def test_rows_are_drawn_from_components_and_outliers_from_rows(fitted, spoilt, rng):
    problem, _ = fitted._problem_of_fit(spoilt[0], None, None)
    parameters = problem.frame.forward(Parameters.of(fitted.mixture_))
    likelihood = problem.likelihood
    drawn = likelihood.rows.draw(parameters, rng, likelihood.target.box)
    assert drawn.X.shape == likelihood.rows.X.shape
    again = (
        dataclasses.replace(likelihood, rows=drawn)
        .fit(parameters, tol=1e-6, max_iter=50)
        .parameters
    )
    assert 1 - again.weights.sum() == pytest.approx(fitted.outlier_share_, abs=0.03)


# Which rows stand alone


def test_rows_far_from_all_others_stand_alone(rng):
    X = np.concatenate([rng.normal(size=(400, 5)), 40 + 60 * rng.normal(size=(20, 5))])
    crowded = Crowding.of(X).in_a_crowd()
    assert set(crowded) == set(range(400))
    assert set(Crowding.of(X * [1, 1e3, 1e-3, 1, 1]).in_a_crowd()) == set(range(400))
    assert len(Crowding.of(X).densest(0.75)) == 315
    assert set(Crowding.of(X).densest(0.75)) <= set(range(400))


def test_a_row_that_counts_often_does_not_stand_alone(rng):
    X = np.concatenate([rng.normal(size=(200, 3)), [[50.0, 50.0, 50.0]]])
    counts = np.ones(201)
    assert 200 not in Crowding.of(X, counts).in_a_crowd()
    counts[200] = 30
    assert 200 in Crowding.of(X, counts).in_a_crowd()


def test_equal_rows_have_neighbours():
    assert len(Crowding.of(np.zeros((30, 2))).in_a_crowd()) == 30


# Fits


def test_outliers_do_not_move_the_means(fitted, spoilt):
    X, odd = spoilt
    clean = GaussianMixture(3, random_state=0).fit(X[~odd])
    ruined = GaussianMixture(3, random_state=0).fit(X)
    assert error_of_means(fitted) < 1.2 * error_of_means(clean)
    assert error_of_means(ruined) > 3 * error_of_means(clean)
    np.testing.assert_allclose(fitted.weights_.sum(), 1)
    assert fitted.outlier_share_ == pytest.approx(0.08, abs=0.02)
    assert np.linalg.norm(fitted.covariances_ - clean.covariances_, axis=(1, 2)).max() < 0.3


def test_what_is_said_of_outliers_agrees(fitted, spoilt):
    X, odd = spoilt
    labels, chances = fitted.predict(X), fitted.mixture_.outlier_probability(X)
    assert set(labels) == {-1, 0, 1, 2}
    assert np.mean(labels[odd] == -1) > 0.8
    assert np.mean(labels[~odd] == -1) < 0.01
    np.testing.assert_array_equal(labels == -1, chances > 0.5)
    np.testing.assert_array_equal(labels == -1, fitted.decision_function(X) < 0)
    with_column, without = fitted.predict_proba(X, outliers=True), fitted.predict_proba(X)
    assert with_column.shape == (len(X), 4)
    np.testing.assert_allclose(with_column.sum(axis=1), 1)
    np.testing.assert_allclose(without.sum(axis=1), 1)
    np.testing.assert_allclose(with_column[:, -1], chances)
    np.testing.assert_allclose(with_column[:, :3], without * (1 - chances)[:, None], atol=1e-12)
    told = (chances > 1e-9) & (chances < 1 - 1e-9)
    odds = np.log1p(-chances[told]) - np.log(chances[told])
    np.testing.assert_allclose(fitted.decision_function(X)[told], odds, rtol=1e-5)
    assert fitted.score(X) == pytest.approx(fitted.lower_bound_, abs=1e-9)
    np.testing.assert_array_equal(
        GaussianMixture(3, outliers="auto", random_state=0).fit_predict(X), labels
    )


@pytest.mark.parametrize("outliers", ["auto", "uniform", 0.3])
def test_without_outliers_there_is_no_background(outliers):
    X, odd = spoilt_rows(1)
    fit = GaussianMixture(3, outliers=outliers, random_state=0).fit(X[~odd])
    plain = GaussianMixture(3, random_state=0).fit(X[~odd])
    assert fit.outlier_share_ == 0
    assert fit.mixture_.background is None
    assert fit.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-5)
    assert not np.any(fit.predict(X[~odd]) == -1)
    assert len(np.unique(fit.outlier_score(X))) == len(X)
    assert np.all(fit.decision_function(X) == np.inf)
    np.testing.assert_allclose(fit.predict_proba(X, outliers=True)[:, -1], 0)


def test_a_share_is_a_bound_on_the_rows_set_aside():
    X, _ = spoilt_rows(2, share=0.2)
    fit = GaussianMixture(3, outliers=0.1, random_state=0).fit(X)
    assert fit.outlier_share_ <= 0.1 + 1e-9
    assert fit.predict_proba(X, outliers=True)[:, -1].mean() <= 0.102


def test_far_rows_hardly_matter(spoilt):
    """A box of all rows would be huge, and units taken from all rows would be too."""
    X, odd = spoilt
    X = X.copy()
    X[np.flatnonzero(odd)[0]] = 1e7
    fit = GaussianMixture(3, outliers="auto", random_state=0).fit(X)
    clean = GaussianMixture(3, random_state=0).fit(X[~odd])
    assert error_of_means(fit) < 1.2 * error_of_means(clean)


@pytest.mark.parametrize("kind", TYPES)
def test_all_types_set_outliers_aside(kind, spoilt):
    X, odd = spoilt
    fit = GaussianMixture(3, covariance_type=kind, outliers="auto", random_state=0).fit(X)
    clean = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X[~odd])
    assert error_of_means(fit) < 1.3 * error_of_means(clean)


def test_one_component_is_robust_too(rng):
    X = np.concatenate([rng.normal(size=(300, 2)), rng.uniform(-30, 30, size=(20, 2))])
    fit = GaussianMixture(1, outliers="auto", random_state=0).fit(X)
    assert np.abs(fit.means_[0]).max() < 0.2
    assert np.abs(fit.covariances_[0] - np.eye(2)).max() < 0.3


def test_units_do_not_matter(fitted, spoilt):
    A, b = np.array([1e3, 1e-3]), np.array([5.0, -7.0])
    fit = GaussianMixture(3, outliers="auto", random_state=0).fit(spoilt[0] * A + b)
    np.testing.assert_allclose(fit.means_, fitted.means_ * A + b, rtol=1e-6)
    assert fit.outlier_share_ == pytest.approx(fitted.outlier_share_, rel=1e-6)


def test_weights_count_as_rows_do(spoilt):
    X = spoilt[0][:200]
    counts = np.random.default_rng(3).integers(1, 4, size=200)
    settings = {"outliers": "auto", "random_state": 0}
    weighted = GaussianMixture(3, **settings).fit(X, sample_weight=counts)
    repeated = GaussianMixture(3, **settings).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-6)
    assert weighted.outlier_share_ == pytest.approx(repeated.outlier_share_, abs=1e-6)


@pytest.mark.parametrize("noise", [None, 0.2])
def test_gaps_and_known_errors_go_with_outliers(noise, spoilt):
    X, odd = (part.copy() for part in spoilt)
    rng = np.random.default_rng(4)
    X[rng.uniform(size=len(X)) < 0.15, 0] = np.nan
    fit = GaussianMixture(3, outliers="auto", random_state=0).fit(X, noise_covariance=noise)
    assert error_of_means(fit) < 0.3
    labels = fit.predict(X, noise_covariance=noise)
    assert np.mean(labels[odd] == -1) > 0.6
    assert np.mean(labels[~odd] == -1) < 0.03


def test_heavy_tails_do_not_cost_a_component():
    rng = np.random.default_rng(5)
    centres = 5 * np.array([[0.0] * 5, [1.0, 1, 0, 0, 0], [0, 0, 1.0, 1, 0]])
    labels = rng.integers(3, size=900)
    tails = np.sqrt(3 / rng.chisquare(3, size=(900, 1)))
    X = centres[labels] + tails * rng.normal(size=(900, 5))
    fit = GaussianMixture(3, outliers="auto", random_state=0).fit(X)
    squares = ((fit.means_[:, None] - centres) ** 2).sum(axis=2)
    assert np.sqrt(squares[linear_sum_assignment(squares)]).max() < 0.4


def test_the_misfit_of_distances_is_kolmogorovs(rng):
    X = rng.normal(size=(300, 3)) ** 3
    likelihood = row_likelihood(X, None, covariance_type("full"), 1e-9)
    one = single(likelihood)
    away = X - one.means[0]
    squares = np.einsum("ij,jk,ik->i", away, np.linalg.inv(one.covariances[0]), away)
    levels = beta.cdf(np.sort(squares) * 300 / 299**2, 3 / 2, (300 - 3 - 1) / 2)
    expected = np.max(np.abs(np.arange(1, 301) / 300 - levels))
    assert misfit_of_distances(likelihood, one) == pytest.approx(expected, rel=1e-9)


# What else is done with a fit


def test_the_number_of_components_does_not_count_outliers(spoilt):
    X, odd = spoilt
    fit = GaussianMixture("auto", outliers="auto", random_state=0).fit(X)
    assert fit.n_components_ == 3
    assert error_of_means(fit) < 0.2
    chosen = select(X, range(1, 6), outliers="auto", random_state=0).chosen
    assert chosen.n_components == 3
    assert chosen.bic == pytest.approx(chosen.fit.bic(X), rel=1e-9)
    assert chosen.smallest == pytest.approx(np.sum(~odd) / 3, rel=0.2)


def test_standard_errors_are_about_those_of_the_clean_rows(fitted, spoilt):
    X, odd = spoilt
    clean = GaussianMixture(3, means_init=fitted.means_, random_state=0).fit(X[~odd])
    ours, theirs = fitted.standard_errors(X), clean.standard_errors(X[~odd])
    np.testing.assert_allclose(ours.means, theirs.means, rtol=0.2)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0.2)
    covariance = fitted.parameter_covariance(X)
    assert np.abs(covariance[:3, :3].sum(axis=0)).max() < 1e-10  # weights sum to 1
    again = fitted.bootstrap(X, 40)
    np.testing.assert_allclose(again.weights.sum(axis=1), 1)
    np.testing.assert_allclose(again.standard_errors().means, ours.means, rtol=0.6)


def test_rows_on_dask_are_judged_where_they_are(fitted, spoilt):
    X = spoilt[0]
    rows = dask.array.from_array(X, chunks=(200, 2))
    np.testing.assert_array_equal(fitted.predict(rows).compute(), fitted.predict(X))
    for answer in (fitted.outlier_score, fitted.decision_function):
        np.testing.assert_allclose(answer(rows).compute(), answer(X))
    with_column = fitted.predict_proba(rows, outliers=True)
    np.testing.assert_allclose(with_column.compute(), fitted.predict_proba(X, outliers=True))
    assert fitted.bic(rows) == pytest.approx(fitted.bic(X))
    with pytest.raises(ValueError, match="elsewhere"):
        GaussianMixture(3, outliers="auto").fit(rows)


def test_a_mixture_shows_its_background(fitted):
    share = f"background of {100 * fitted.outlier_share_:.3g} %"
    assert share in repr(fitted.mixture_).splitlines()[0]


def test_a_file_keeps_the_background(fitted, spoilt, tmp_path):
    fitted.mixture_.save(tmp_path / "model.json")
    again = Mixture.load(tmp_path / "model.json")
    assert again.background.share == fitted.outlier_share_
    np.testing.assert_array_equal(again.background.widths, fitted.mixture_.background.widths)
    np.testing.assert_array_equal(again.log_prob(spoilt[0]), fitted.score_samples(spoilt[0]))


def test_marginals_and_conditionals_keep_the_background(fitted):
    mixture = fitted.mixture_
    rows = np.array([[0.3, np.nan], [4.0, np.nan]])
    one = mixture.marginal([0])
    np.testing.assert_allclose(one.log_prob(rows[:, :1]), mixture.log_prob(rows), rtol=1e-12)
    given = mixture.condition([0], [0.3])
    point = np.array([[0.3, 0.5]])
    joint = mixture.log_prob(point) - one.log_prob(point[:, :1])
    np.testing.assert_allclose(given.log_prob(point[:, 1:]), joint, rtol=1e-9)


# What is refused


@pytest.mark.parametrize("outliers", ["some", -0.1, 0.7, True, np.nan])
def test_bad_settings_are_refused(outliers, spoilt):
    with pytest.raises(ValueError, match="outliers"):
        GaussianMixture(3, outliers=outliers).fit(spoilt[0])


def test_fits_of_moments_have_no_outliers():
    with pytest.raises(TypeError, match=r"outliers.*GaussianMixture"):
        MomentMixture(3, outliers="auto")


def test_scoring_from_moments_of_all_rows_is_refused(spoilt):
    with pytest.raises(ValueError, match="outliers ruin moments and Newton's steps"):
        GaussianMixture(3, outliers="auto", init_params="moments", method="newton").fit(spoilt[0])


def test_tests_that_need_a_mixture_alone_say_so(fitted, spoilt):
    with pytest.raises(ValueError, match="background for outliers"):
        momentmix.moment_test(fitted, spoilt[0])
    with pytest.raises(ValueError, match="outliers=None"):
        momentmix.selection.blrt(spoilt[0], 2, outliers="auto")


@pytest.mark.parametrize("widths", [[1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]], [1.0]])
def test_a_background_needs_a_width_for_each_feature(widths):
    with pytest.raises(ValueError, match="width"):
        Mixture([1.0], [[0.0, 0.0]], [1.0], "spherical", background=Background(0.1, widths))
    with pytest.raises(ValueError, match="share"):
        Background(1.0, [1.0])


def test_there_is_no_warning_where_all_is_well(spoilt):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMixture(3, outliers="auto", random_state=0).fit(spoilt[0])
