"""Rows with gaps and with known errors: densities, EM, what lies behind the rows, bad input."""

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import get_tags

import oracles
from likelihoods import observed_likelihood, row_likelihood
from momentmix import (
    CollapseWarning,
    GaussianMixture,
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
)
from momentmix.covariance import COVARIANCE_TYPES, Diagonal, Full, covariance_type, noise_covariance
from momentmix.fit import Parameters
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.rows.data import rows_to_fit
from momentmix.rows.incomplete import CompletedRows

IRIS = load_iris().data


def spd(rng, *shape):
    A = rng.normal(size=(*shape, shape[-1]))
    return A @ A.swapaxes(-1, -2) / shape[-1] + 0.2 * np.eye(shape[-1])


def with_gaps(rng, X, share):
    X = X.copy()
    X[rng.random(X.shape) < share] = np.nan
    return X


def noise_of(rng, form, p, n):
    """A noise as users give it, and as a matrix for each row."""
    given = {
        "none": 0.0,
        "one": 0.3,
        "features": rng.uniform(0, 1, n),
        "matrix": spd(rng, n),
        "rows": rng.uniform(0, 1, p),
        "cells": rng.uniform(0, 1, (p, n)),
        "matrices": spd(rng, p, n),
        "groups": spd(rng, 2, n)[np.arange(p) % 2],
        "singular": np.einsum("pa,pb->pab", A := rng.normal(size=(p, n)), A),
    }[form]
    array = np.asarray(given)
    if array.ndim == 2 and array.shape == (p, n):
        full = array[:, :, None] * np.eye(n)
    elif array.shape == (p,) and form == "rows":
        full = array[:, None, None] * np.eye(n)
    elif array.ndim == 3:
        full = array
    else:
        matrix = array * np.eye(n) if array.ndim < 2 else array
        full = np.broadcast_to(matrix, (p, n, n))
    return (None if form == "none" else given), full


FORMS = ("none", "one", "features", "matrix", "rows", "cells", "matrices", "groups", "singular")


def mixture_of(rng, kind, m, n):
    covariances = {
        "full": spd(rng, m, n),
        "tied": spd(rng, n),
        "diag": rng.uniform(0.2, 2, (m, n)),
        "spherical": rng.uniform(0.2, 2, m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
    }[kind]
    weights = rng.uniform(0.5, 1, m)
    return Mixture(weights / weights.sum(), rng.normal(size=(m, n)), covariances, kind)


def matrices(mixture):
    own = np.asarray(mixture.atoms.covariance.matrices())
    return np.broadcast_to(own, (mixture.n_components, *own.shape[1:]))


def by_rows(mixture, X, noises):
    """Log densities (p, m), posterior means (p, m, n) and covariances of each component."""
    found = [
        [
            oracles.observed_row(x, mean, covariance, noise)
            for mean, covariance in zip(mixture.means, matrices(mixture), strict=True)
        ]
        for x, noise in zip(X, noises, strict=True)
    ]
    return tuple(np.array([[one[k] for one in row] for row in found]) for k in range(3))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_densities_and_what_lies_behind(kind, form, rng):
    p, n, m = 60, 4, 3
    mixture = mixture_of(rng, kind, m, n)
    X = with_gaps(rng, rng.normal(size=(p, n)), 0.35)
    X[0] = np.nan
    X[1, 1:] = np.nan
    noise, noises = noise_of(rng, form, p, n)
    logs, means, covariances = by_rows(mixture, X, noises)
    logs = logs + np.log(mixture.weights)
    np.testing.assert_allclose(mixture.log_joint(X, noise), logs, rtol=1e-10, atol=1e-10)
    total = np.logaddexp.reduce(logs, axis=1)
    np.testing.assert_allclose(mixture.log_prob(X, noise), total, rtol=1e-10, atol=1e-10)
    R = np.exp(logs - total[:, None])
    expected = np.einsum("pj,pjn->pn", R, means)
    away = means - expected[:, None]
    spread = np.einsum("pj,pjab->pab", R, covariances)
    spread += np.einsum("pj,pja,pjb->pab", R, away, away)
    found = mixture.denoise(X, noise)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], spread, rtol=1e-8, atol=1e-8)
    filled = mixture.impute(X, noise_covariance=noise)
    seen = ~np.isnan(X)
    np.testing.assert_array_equal(filled[seen], X[seen])
    np.testing.assert_allclose(filled[~seen], expected[~seen], rtol=1e-9, atol=1e-9)


def standing(rows):
    """Rows in their own units, where nothing has to stand in for them."""
    return CompletedRows(rows, np.zeros(rows.X.shape), np.zeros(len(rows)))


def likelihood_of(X, kind, noise, weights=None, A=None, floor=1e-12):
    """That of rows in their own units, or of rows z with x = z A."""
    rows = ObservedRows(X, noise_of_rows(noise, X))
    own = covariance_type(kind)
    return observed_likelihood(standing(rows), weights, own, floor, to_features=A)


@pytest.mark.parametrize("form", ["none", "matrix", "cells", "matrices"])
@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_a_step_against_the_textbook(kind, form, rng):
    p, n, m = 80, 3, 2
    mixture = mixture_of(rng, kind, m, n)
    X = with_gaps(rng, rng.normal(size=(p, n)), 0.3)
    noise, noises = noise_of(rng, form, p, n)
    w = rng.uniform(0.5, 1, p)
    w = w / w.sum()
    step = likelihood_of(X, kind, noise, w).step(Parameters.of(mixture))
    value, weights, means, full = oracles.observed_em_step(
        X, noises, w, mixture.weights, mixture.means, matrices(mixture)
    )
    wanted = {
        "full": full,
        "tied": np.tensordot(weights, full, axes=1),
        "diag": np.diagonal(full, axis1=1, axis2=2),
        "spherical": np.trace(full, axis1=1, axis2=2) / n,
        "tied-diag": np.diag(np.tensordot(weights, full, axes=1)),
        "tied-spherical": np.trace(np.tensordot(weights, full, axes=1)) / n,
    }[kind]
    np.testing.assert_allclose(step.log_likelihood[0], value, rtol=1e-11)
    np.testing.assert_allclose(step.after.weights, weights, rtol=1e-10)
    np.testing.assert_allclose(step.after.means, means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(step.after.covariances, wanted, rtol=1e-9, atol=1e-10)


def test_a_step_in_other_coordinates_is_the_same_step(rng):
    """Parameters in coordinates z with x = z A; the rows stay in the units of their features."""
    n = 3
    mixture, A = mixture_of(rng, "full", 2, n), spd(rng, n)
    X = with_gaps(rng, rng.normal(size=(50, n)), 0.3)
    here = likelihood_of(X, "full", None).step(Parameters.of(mixture))
    back = np.linalg.inv(A)
    moved = Parameters(mixture.weights, mixture.means @ back, back.T @ mixture.covariances @ back)
    there = likelihood_of(X, "full", None, A=A).step(moved)
    np.testing.assert_allclose(there.log_likelihood, here.log_likelihood, rtol=1e-11)
    np.testing.assert_allclose(there.after.means @ A, here.after.means, rtol=1e-8)
    np.testing.assert_allclose(A.T @ there.after.covariances @ A, here.after.covariances, rtol=1e-8)


@pytest.mark.parametrize("form", ["none", "matrix", "cells", "matrices"])
def test_the_step_knows_the_gradient(form, rng):
    """Fisher's identity: sums of an EM step give the gradient, here against finite differences."""
    p, n, m = 40, 3, 2
    mixture = mixture_of(rng, "full", m, n)
    X = with_gaps(rng, rng.normal(size=(p, n)), 0.3)
    likelihood = likelihood_of(X, "full", noise_of(rng, form, p, n)[0])
    at = Parameters.of(mixture)
    step = likelihood.step(at)
    shares = step.after.weights
    precisions = np.linalg.inv(at.covariances)
    away = step.after.means - at.means
    in_means = shares[:, None] * (precisions @ away[:, :, None])[:, :, 0]
    spread = step.after.covariances + away[:, :, None] * away[:, None, :]
    in_covariances = precisions @ spread @ precisions - precisions
    in_covariances *= shares[:, None, None] / 2

    def of_means(means):
        return likelihood.value(at._replace(means=means))

    def of_covariances(covariances):
        return likelihood.value(at._replace(covariances=covariances))

    slope = oracles.central_difference
    np.testing.assert_allclose(
        in_means, oracles.gradient(of_means, at.means, slope), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        in_covariances,
        oracles.symmetric_gradient(of_covariances, at.covariances, slope),
        rtol=1e-5,
        atol=1e-8,
    )


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 6),
    p=st.integers(8, 40),  # more than features: else noise is read as common to all rows
    share=st.sampled_from([0.0, 0.2, 0.6, 0.9]),
    form=st.sampled_from(FORMS),
    size=st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e12]),
    kind=st.sampled_from(COVARIANCE_TYPES),
    seed=st.integers(0, 10_000),
)
def test_em_climbs_whatever_is_missing(n, p, share, form, size, kind, seed):
    """Rows with one value, columns nearly empty, noise of any size, singular noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, n))
    X[rng.random((p, n)) < share] = np.nan
    bare = np.all(np.isnan(X), axis=1)
    X[bare, 0] = 1.0
    noise, _ = noise_of(rng, form, p, n)
    noise = None if noise is None else size * np.asarray(noise)
    likelihood = likelihood_of(X, kind, noise, floor=1e-6)
    at, before = Parameters.of(mixture_of(rng, kind, 2, n)), -np.inf
    for _ in range(6):
        step = likelihood.step(at)
        value = float(step.log_likelihood[0])
        assert np.isfinite(value)
        assert value >= before - 1e-9 * (1 + abs(value))
        before, at = value, step.after
    for part in at:
        assert np.all(np.isfinite(part))


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_one_step_of_complete_rows_is_that_of_other_rows(kind, rng):
    mixture = mixture_of(rng, kind, 3, 4)
    X = rng.normal(size=(300, 4))
    own = row_likelihood(X, None, covariance_type(kind), 1e-12).step(Parameters.of(mixture))
    for noise in (None, np.zeros((300, 4)), 1e-14, np.full((300, 4), 1e-14)):
        step = likelihood_of(X, kind, noise).step(Parameters.of(mixture))
        np.testing.assert_allclose(step.log_likelihood, own.log_likelihood, rtol=1e-11)
        np.testing.assert_allclose(step.after.means, own.after.means, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            step.after.covariances, own.after.covariances, rtol=1e-9, atol=1e-10
        )


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_what_holds_covariances_where_gaps_leave_them_open(kind, rng):
    """The penalty is that of some more rows with covariance I, and EM climbs what is left."""
    n, m, own = 3, 2, covariance_type(kind)
    anchor = own.anchor(n, 0.4, 2.0)
    assert own.anchor(n, 0.0, 2.0) is None
    assert covariance_type("diag").anchor(n, 0.4, 2.0) is None
    assert own.anchor(n, 0.4, 200.0).rows < 0.1 * anchor.rows
    mixture = mixture_of(rng, kind, m, n)

    def by_rows(matrix):  # minus the log density of so many rows of covariance I
        return anchor.rows / 2 * (np.linalg.slogdet(matrix)[1] + np.trace(np.linalg.inv(matrix)))

    each = mixture.covariances if kind == "full" else mixture.covariances[None]
    direct = sum(by_rows(matrix) - by_rows(np.eye(n)) for matrix in each)
    assert anchor.penalties(mixture.covariances)[0] == pytest.approx(direct, rel=1e-10)
    X = with_gaps(rng, rng.normal(size=(60, n)), 0.4)
    X[np.all(np.isnan(X), axis=1), 0] = 0.0
    rows = ObservedRows(X)
    likelihood = observed_likelihood(standing(rows), None, own, 1e-9, anchor=anchor)
    at, before = Parameters.of(mixture), -np.inf
    for _ in range(8):
        step = likelihood.step(at)
        value = float(step.log_posterior[0])
        assert value == pytest.approx(likelihood.value(at) - likelihood.penalty(at), rel=1e-10)
        assert value > before
        before, at = value, step.after


@pytest.mark.filterwarnings("ignore:the fit did not converge")  # where it climbs without bound
def test_gaps_do_not_make_a_fit_collapse():
    """Thirteen features, few rows with all: alone, the likelihood has no bound."""
    rng = np.random.default_rng(1)
    X = load_wine().data[rng.permutation(178)]
    train = X[:124].copy()
    train[rng.uniform(size=train.shape) < 0.3] = np.nan
    fit = GaussianMixture(3, covariance_type="tied", random_state=0).fit(train)
    assert len(fit.collapsed_) == 0
    assert fit.score(X[124:]) > GaussianMixture(1).fit(train).score(X[124:]) - 2
    alone = GaussianMixture(3, covariance_type="tied", prior=None, random_state=0).fit(train)
    assert alone.score(X[124:]) < fit.score(X[124:]) - 5
    with pytest.warns(CollapseWarning):
        alone = GaussianMixture(3, prior=None, random_state=0).fit(train)
    assert alone.score(X[124:]) < -100


def test_small_noise_leaves_small_covariances(rng):
    """What is left open is about the noise itself, to many digits, and never negative."""
    mixture = mixture_of(rng, "full", 2, 3)
    X = mixture.sample(20, 0)[0]
    for size in (1e-8, 1e-16, 1e-24):
        for noise in (size, np.full((20, 3), size), size * spd(rng, 20, 3)):
            _, covariances = mixture.denoise(X, noise)
            values = np.linalg.eigvalsh(covariances)
            assert np.all(values >= 0)
            assert np.all(values < 10 * size)


def test_draws_have_the_distribution_that_is_left(rng):
    mixture = mixture_of(rng, "full", 3, 3)
    X = with_gaps(rng, mixture.sample(12, 0)[0], 0.5)
    noise = rng.uniform(0.1, 0.5, (12, 3))
    for given_noise in (None, noise, 0.2):
        drawn = mixture.impute(X, 4000, noise_covariance=given_noise, random_state=0)
        means, covariances = mixture.denoise(X, given_noise)
        gaps = np.isnan(X)
        assert drawn.shape == (4000, 12, 3)
        assert np.all(drawn[:, ~gaps] == X[~gaps])
        deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        error = np.abs(drawn.mean(axis=0) - means)[gaps]
        assert np.all(error < 4.5 * deviations[gaps] / np.sqrt(4000))
        for i in np.flatnonzero(gaps.sum(axis=1) >= 2):
            own = np.cov(drawn[:, i, gaps[i]].T)
            want = covariances[i][np.ix_(gaps[i], gaps[i])]
            np.testing.assert_allclose(own, want, atol=0.15 * np.trace(want))


# Fits


@pytest.fixture(scope="module")
def gappy():
    rng = np.random.default_rng(3)
    X = with_gaps(rng, IRIS, 0.15)
    X[7] = np.nan
    return X


@pytest.fixture(scope="module")
def iris_fit(gappy):
    return GaussianMixture(3, random_state=0).fit(gappy)


def test_a_fit_with_gaps(gappy, iris_fit):
    """Near that of all cells, at the value that score gives, and better than from the truth."""
    whole = GaussianMixture(3, random_state=0).fit(IRIS)
    assert adjusted_rand_score(iris_fit.predict(IRIS), whole.predict(IRIS)) > 0.85
    assert iris_fit.lower_bound_ == pytest.approx(iris_fit.score(gappy), rel=1e-12)
    assert abs(iris_fit.score_samples(gappy)[7]) < 1e-14  # nothing was seen, and that is certain
    np.testing.assert_allclose(iris_fit.predict_proba(gappy)[7], iris_fit.weights_, rtol=1e-12)
    start = GaussianMixture(
        3,
        weights_init=whole.weights_,
        means_init=whole.means_,
        covariances_init=whole.covariances_,
        prior=None,
        tol=1e-8,
    ).fit(gappy)
    free = GaussianMixture(3, prior=None, random_state=0, tol=1e-8).fit(gappy)
    assert free.lower_bound_ > start.lower_bound_ - 0.005
    told = ~np.all(np.isnan(gappy), axis=1)
    p = int(told.sum())
    assert iris_fit.bic(gappy) == pytest.approx(
        -2 * p * iris_fit.score(gappy[told]) + (3 * 14 + 2) * np.log(p)
    )


def test_other_forms_of_gaps_are_the_same(gappy, iris_fit):
    frame = pd.DataFrame(gappy, columns=list("abcd")).convert_dtypes()
    assert frame["a"].isna().any()
    other = pl.DataFrame(gappy, schema=list("abcd")).fill_nan(None)
    assert other["a"].null_count() > 0
    for table in (frame, other):
        fit = GaussianMixture(3, random_state=0).fit(table)
        np.testing.assert_allclose(fit.means_, iris_fit.means_, rtol=1e-8)
        np.testing.assert_array_equal(fit.predict(table), iris_fit.predict(gappy))
        assert list(fit.feature_names_in_) == list("abcd")


def test_weights_repeats_and_order_give_the_same_fit(rng, gappy):
    counts = rng.integers(1, 4, len(gappy))
    noise = rng.uniform(0, 0.05, gappy.shape)
    many = np.repeat(np.arange(len(gappy)), counts)
    rng.shuffle(many)
    model = GaussianMixture(2, covariance_type="diag", random_state=0)
    one = model.fit(gappy, sample_weight=counts, noise_covariance=noise).means_
    other = model.fit(gappy[many], noise_covariance=noise[many]).means_
    np.testing.assert_allclose(one, other, rtol=1e-7)


def test_zero_noise_is_none(gappy, iris_fit):
    zero = GaussianMixture(3, random_state=0).fit(gappy, noise_covariance=np.zeros(gappy.shape))
    np.testing.assert_array_equal(zero.means_, iris_fit.means_)
    whole = GaussianMixture(2, random_state=0).fit(IRIS)
    zero = GaussianMixture(2, random_state=0).fit(IRIS, noise_covariance=0.0)
    np.testing.assert_array_equal(zero.means_, whole.means_)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_deconvolution(kind, rng):
    """What is found is the distribution without errors as large as the components."""
    truth = Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 1.0]], [1.0, 1.0], "spherical")
    V, _ = truth.sample(4000, 0)
    noise = rng.uniform(0.3, 2.0, V.shape)
    X = V + rng.normal(size=V.shape) * np.sqrt(noise)
    fit = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X, noise_covariance=noise)
    np.testing.assert_allclose(fit.means_, truth.means, atol=0.2)
    np.testing.assert_allclose(matrices(fit.mixture_), [np.eye(2)] * 2, atol=0.35)
    behind, _ = fit.denoise(X, noise)
    assert np.mean((behind - V) ** 2) < 0.6 * np.mean((X - V) ** 2)


def test_noise_on_a_grid_of_values_is_shared(rng):
    """Few kinds of noise are parts of their own, and the answer is the same."""
    X = with_gaps(rng, rng.normal(size=(400, 3)), 0.2)
    kinds = spd(rng, 3, 3)[np.arange(400) % 3]
    shared = ObservedRows(X, Full(kinds, 3))
    assert len(shared._joint) > 2
    apart = ObservedRows(X, Full(kinds + 1e-15 * rng.random((400, 1, 1)) * np.eye(3), 3))
    assert len(apart._joint) == 1
    mixture = mixture_of(rng, "full", 2, 3)
    steps = []
    for rows in (shared, apart):
        likelihood = observed_likelihood(standing(rows), None, Full, 1e-12)
        steps.append(likelihood.step(Parameters.of(mixture)).after)
    np.testing.assert_allclose(steps[0].means, steps[1].means, rtol=1e-9)
    np.testing.assert_allclose(steps[0].covariances, steps[1].covariances, rtol=1e-9)


def test_known_covariance_with_gaps_and_errors(rng):
    signals = np.array([[1.5, 0.0, 0.5], [0.0, 1.5, -0.5]])
    covariance = np.array([[1, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 0.8]])
    X = signals[rng.integers(2, size=6000)]
    X = X + rng.normal(size=X.shape) @ np.linalg.cholesky(covariance).T
    errors = rng.uniform(0, 0.5, X.shape)
    X = with_gaps(rng, X + rng.normal(size=X.shape) * np.sqrt(errors), 0.1)
    fit = KnownCovarianceMixture(2, covariance, random_state=0).fit(X, noise_covariance=errors)
    order = np.argsort(-fit.means_[:, 0])
    np.testing.assert_allclose(fit.means_[order], signals, atol=0.15)
    assert fit.lower_bound_ == pytest.approx(fit.score(X, noise_covariance=errors), rel=1e-10)
    np.testing.assert_allclose(matrices(fit.mixture_), [covariance] * 2)


# Moments and clusters


def test_a_stream_may_come_to_have_gaps(rng):
    X = rng.normal(size=(900, 3)) + np.repeat([[0.0], [4.0], [8.0]], 300, axis=0)
    gaps = with_gaps(rng, X[300:600], 0.2)
    noise = rng.uniform(0, 0.3, (300, 3))
    one = MomentTensors.from_samples(X[:300], 4).with_gaps()
    assert one.missing == "pairwise"
    direct = MomentTensors.from_samples(X[:300], 4, missing="pairwise")
    for centre in (np.zeros(3), np.ones(3)):
        np.testing.assert_allclose(one.about(centre), direct.about(centre), rtol=1e-10, atol=1e-10)
    model = MomentMixture(2, covariance_type="diag", random_state=0)
    model.partial_fit(X[:300]).partial_fit(gaps).partial_fit(X[600:], noise_covariance=noise)
    whole = MomentTensors.from_samples(X[:300], model.moments_.order, missing="pairwise")
    whole.update(gaps).update(X[600:], noise_covariance=noise)
    np.testing.assert_allclose(model.moments_.about(np.zeros(3)), whole.about(np.zeros(3)))
    assert np.all(np.isfinite(model.means_))


def test_moments_alone_in_one_pass(rng):
    X = rng.normal(size=(8000, 3)) + np.repeat([[0.0], [4.0]], 4000, axis=0)
    noise = rng.uniform(0, 0.5, X.shape)
    Y = with_gaps(rng, X + rng.normal(size=X.shape) * np.sqrt(noise), 0.2)
    fit = MomentMixture(2, random_state=0).fit(Y, noise_covariance=noise)
    np.testing.assert_allclose(np.sort(fit.means_[:, 0]), [0, 4], atol=0.15)
    np.testing.assert_allclose(fit.covariances_, [np.eye(3)] * 2, atol=0.2)


def test_rows_on_a_cluster(rng):
    """The same optimum as in memory, and predictions where the rows are."""
    X = rng.normal(size=(1200, 2)) + np.repeat([[0.0], [5.0]], 600, axis=0)
    noise = rng.uniform(0, 0.5, X.shape)
    X = with_gaps(rng, X, 0.15)
    X[3] = np.nan
    rng.shuffle(both := np.hstack([X, noise]))
    X, noise = both[:, :2], both[:, 2:]
    there, errors = da.from_array(X, chunks=(400, 2)), da.from_array(noise, chunks=(400, 2))
    options = {"tol": 1e-10, "max_iter": 2000, "random_state": 0}
    for here, far, prior in (
        (None, None, "auto"),
        (noise, errors, None),
        (0.2, 0.2, None),
        (noise, noise, None),
    ):
        one = GaussianMixture(2, prior=prior, **options).fit(X, noise_covariance=here)
        other = GaussianMixture(2, prior=prior, **options).fit(there, noise_covariance=far)
        assert other.lower_bound_ == pytest.approx(
            one.lower_bound_, abs=1e-7 if not prior else 1e-4
        )
        np.testing.assert_allclose(other.means_, one.means_, atol=1e-3)
        for method in ("score_samples", "predict_proba", "predict"):
            lazy = getattr(other, method)(there, far)
            np.testing.assert_allclose(lazy.compute(), getattr(other, method)(X, here), atol=1e-12)
        assert other.score(there, noise_covariance=far) == pytest.approx(
            other.score(X, noise_covariance=here), rel=1e-12
        )
        filled = other.impute(there, noise_covariance=far).compute()
        np.testing.assert_allclose(filled, other.impute(X, noise_covariance=here), atol=1e-12)


def test_a_block_without_any_value(rng):
    """It adds nothing, wherever it stands."""
    X = with_gaps(rng, rng.normal(size=(4000, 2)) + np.repeat([[0.0], [6.0]], 2000, axis=0), 0.05)
    X[np.all(np.isnan(X), axis=1), 0] = 0.0
    rng.shuffle(X)
    empty = np.vstack([np.full((1000, 2), np.nan), X])
    one = GaussianMixture(2, random_state=0).fit(da.from_array(X, chunks=(1000, 2)))
    other = GaussianMixture(2, random_state=0).fit(da.from_array(empty, chunks=(1000, 2)))
    np.testing.assert_allclose(other.means_, one.means_, atol=1e-3)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_, abs=1e-4)


def test_light_rows_are_told_of(gappy):
    with pytest.warns(UserWarning, match="count as so many rows beside the prior"):
        GaussianMixture(1, random_state=0).fit(gappy, sample_weight=np.full(len(gappy), 0.01))


@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_blocks_with_as_many_rows_as_features(shape, rng):
    """There an array of variances for each row looks like one matrix for all rows."""
    X = with_gaps(rng, rng.normal(size=(6, 2)), 0.2)
    X[np.all(np.isnan(X), axis=1), 0] = 1.0
    noise = rng.uniform(0.1, 1, (6, *shape[:1]))
    if len(shape) == 2:
        noise = noise[:, :, None] * np.eye(2)
    far, errors = da.from_array(X, chunks=(2, 2)), da.from_array(noise, chunks=(2, *shape))
    mixture = mixture_of(rng, "full", 2, 2)
    model = MomentMixture(2, random_state=0).fit_moments(mixture)
    lazy = model.score_samples(far, errors).compute()
    np.testing.assert_allclose(lazy, model.score_samples(X, noise), rtol=1e-12)
    assert model.score(far, noise_covariance=errors) == pytest.approx(
        model.score(X, noise_covariance=noise), rel=1e-12
    )
    there = MomentTensors.from_samples(far, 3, noise_covariance=errors, missing="pairwise")
    here = MomentTensors.from_samples(X, 3, noise_covariance=noise, missing="pairwise")
    np.testing.assert_allclose(there.about(np.zeros(2)), here.about(np.zeros(2)), atol=1e-12)


def test_rows_that_become_as_many_as_features(rng):
    """Four rows of three features, of which two are equal, are three with a noise each."""
    X, noise = rng.normal(size=(3, 3)), rng.uniform(0.1, 1, (3, 3))
    rows, errors = X[[0, 1, 2, 2]], noise[[0, 1, 2, 2]]
    data = rows_to_fit(rows, None, 1, noise_of_rows(errors, rows))
    assert len(data.table) == 3
    found = data.matched(3, tensors=True).moments(3)
    want = MomentTensors.from_samples(rows, 3, noise_covariance=errors)
    np.testing.assert_allclose(found, want.about(np.zeros(3)), atol=1e-12)


# Manners


def test_tags_welcome_gaps():
    for estimator in (GaussianMixture(), KnownCovarianceMixture(2, 1.0)):
        assert get_tags(estimator).input_tags.allow_nan


@pytest.mark.parametrize(
    ("noise", "match"),
    [
        (-1.0, "noise_covariance must not be negative"),
        (np.where(np.arange(150)[:, None] == 77, -1.0, np.ones((150, 4))), "row 77: .* negative"),
        (np.where(np.arange(150) == 149, np.nan, 1.0), "row 149: .* finite"),
        (np.tile(np.triu(np.ones((4, 4))), (150, 1, 1)), "row 0: .* symmetric"),
        (
            np.where(np.arange(150)[:, None, None] == 30, -np.eye(4), np.eye(4)),
            "row 30: .* positive semidefinite",
        ),
        (np.ones((150, 3)), "got shape"),
        (np.ones((149, 4)), "got shape"),
    ],
)
def test_bad_noise_is_refused_and_named(noise, match):
    fit = GaussianMixture(1).fit(IRIS)
    with pytest.raises(ValueError, match=match):
        fit.fit(IRIS, noise_covariance=noise)
    with pytest.raises(ValueError, match=match):
        fit.score_samples(IRIS, noise_covariance=noise)
    assert fit.means_.shape == (1, 4)


def test_noise_may_be_missing_where_the_value_is(gappy):
    noise = np.where(np.isnan(gappy), np.nan, 0.01)
    fit = GaussianMixture(2, covariance_type="diag", random_state=0).fit(
        gappy, noise_covariance=noise
    )
    assert np.all(np.isfinite(fit.score_samples(gappy, noise)))


def test_an_empty_column_is_refused():
    X = IRIS.copy()
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="column 2 of X has no value"):
        GaussianMixture(2).fit(X)
    with pytest.raises(ValueError, match="column 'c' of X has no value"):
        GaussianMixture(2).fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.raises(ValueError, match="infinity"):
        GaussianMixture(2).fit(np.where(np.isnan(X), np.inf, X))
    with pytest.raises(ValueError, match="n_samples = 0, not counting"):
        GaussianMixture(2).fit(np.full((5, 2), np.nan))


def test_a_column_of_one_value_and_one_of_constants(rng):
    X = rng.normal(size=(100, 3))
    X[:, 1] = 5.0
    X[1:, 2] = np.nan
    X[::3, 1] = np.nan
    with pytest.warns(CollapseWarning):
        fit = GaussianMixture(2, random_state=0).fit(X)
    assert np.all(np.isfinite(fit.means_))
    assert np.isfinite(fit.lower_bound_)


def test_other_array_libraries():
    weights, means, variances = np.full(2, 0.5), np.array([[0.0, 0.0], [3.0, 3.0]]), np.ones(2)
    X = np.array([[0.0, np.nan], [np.nan, 3.0], [1.0, 2.0]])
    here = Mixture(weights, means, variances, "spherical")
    there = Mixture(*map(torch.asarray, (weights, means, variances)), "spherical")
    found = there.log_prob(torch.asarray(X), 0.1)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), here.log_prob(X, 0.1))
    assert isinstance(there.impute(torch.asarray(X)), torch.Tensor)


def test_settings_of_impute(iris_fit, gappy):
    with pytest.raises(ValueError, match="draws must be a whole number"):
        iris_fit.impute(gappy, draws=0)
    with pytest.raises(ValueError, match="draws must be a whole number"):
        iris_fit.impute(gappy, draws=True)
    with pytest.raises(ValueError, match="no row of X has a value"):
        iris_fit.bic(gappy[7:8])
    a, b = iris_fit.impute(gappy, draws=2), iris_fit.impute(gappy, draws=2)
    np.testing.assert_array_equal(a, b)  # the estimator's seed
    assert not np.array_equal(a[0], a[1])


def test_noise_as_covariances_of_rows():
    X = np.zeros((5, 2))
    assert noise_of_rows(None, X) is None
    assert noise_of_rows(np.zeros((5, 2)), X) is None
    assert isinstance(noise_of_rows(np.ones((5, 2)), X), Diagonal)
    assert noise_covariance(np.ones(5), 5, 2).array.shape == (5,)
