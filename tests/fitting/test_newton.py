"""Newton's method on the likelihood: against EM that was given all the time it needs."""

import numpy as np
import pytest

from likelihoods import row_likelihood
from momentmix.covariance import covariance_type
from momentmix.fitting.em import from_responsibilities
from momentmix.fitting.information import information
from momentmix.fitting.newton import climb_by_newton

pytestmark = pytest.mark.usefixtures("passes_everywhere")


@pytest.mark.parametrize(
    "name", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_it_ends_where_em_would(name, rng):
    """Overlapping components, on which EM takes hundreds of steps."""
    kind = covariance_type(name)
    X = np.vstack([rng.normal(size=(100, 2)), rng.normal([2.5, 0.0], 1.0, (100, 2))])
    likelihood = row_likelihood(X, None, kind, 1e-6, prior=kind.prior(2, "auto"))
    start = from_responsibilities(likelihood, np.repeat(np.eye(2), 100, axis=0))
    near = likelihood.fit(start, tol=1e-4, max_iter=50).parameters
    found = climb_by_newton(likelihood, near, tol=1e-12, max_iter=60)
    slow = likelihood.fit(near, tol=0.0, max_iter=800)
    assert found.converged
    assert found.log_posterior >= slow.log_posterior - 1e-9
    assert found.n_iter < slow.n_iter / 4
    np.testing.assert_allclose(found.parameters.means, slow.parameters.means, atol=1e-4)
    np.testing.assert_allclose(information(likelihood, found.parameters).slope, 0, atol=1e-5)
    assert found.log_likelihood == pytest.approx(likelihood.value(found.parameters), abs=1e-12)


def test_far_from_a_maximum_it_still_gains(rng):
    """Where the likelihood curves upwards, steps are turned uphill, or EM takes over."""
    X = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 6])
    kind = covariance_type("full")
    likelihood = row_likelihood(X, None, kind, 1e-6)
    R = rng.dirichlet([20, 20], size=200)
    start = from_responsibilities(likelihood, R)
    found = climb_by_newton(likelihood, start, tol=1e-10, max_iter=100)
    assert found.log_likelihood > likelihood.value(start) + 0.5
    np.testing.assert_allclose(np.sort(found.parameters.weights), [0.5, 0.5], atol=1e-3)


def test_known_covariances_stay(rng):
    X = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 2])
    likelihood = row_likelihood(X, None, covariance_type("spherical"), 0.0, variance=1.0)
    start = from_responsibilities(likelihood, np.repeat(np.eye(2), 100, axis=0))
    found = climb_by_newton(likelihood, start, tol=1e-12, max_iter=50)
    np.testing.assert_array_equal(found.parameters.covariances, 1.0)
    slow = likelihood.fit(start, tol=0.0, max_iter=500)
    np.testing.assert_allclose(found.parameters.means, slow.parameters.means, atol=1e-5)
