"""Scores and information against differences of the log-likelihood, and complete-data formulas."""

import numpy as np
import pytest

from likelihoods import observed_likelihood, row_likelihood
from momentmix.covariance import Anchor, covariance_type, noise_covariance
from momentmix.fit import Parameters
from momentmix.fitting.background import in_box
from momentmix.fitting.em import single
from momentmix.fitting.information import Directions, information, row_scores
from momentmix.matching.objective import Parametrisation
from momentmix.observed import ObservedRows
from momentmix.rows.incomplete import CompletedRows
from momentmix.rows.memory import Box

pytestmark = pytest.mark.usefixtures("passes_everywhere")

KINDS = ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
STEP = 5e-4


def case(kind, manner, rng, n=3, m=2, p=40):
    """A likelihood with weights, a prior, and gaps and noise if asked for; and parameters.

    With "outliers" there is a background, of a fifth of the rows.
    """
    manner, _, more = manner.partition(" and ")
    if more == "outliers":
        likelihood, (weights, *rest) = case(kind, manner, rng, n, m, p)
        likelihood = in_box(likelihood, Box(np.array([3.0, 5.0, 4.0]), 0.2, 0.5))
        return likelihood, Parameters(0.8 * weights, *rest)
    X, weights = rng.normal(size=(p, n)), rng.uniform(0.5, 2, p)
    weights /= weights.sum()
    A = rng.normal(size=(m, n, n))
    matrices = A @ A.swapaxes(1, 2) + np.eye(n)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": np.diagonal(matrices, axis1=1, axis2=2).copy(),
        "spherical": matrices[:, 0, 0].copy(),
        "tied-diag": np.diag(matrices[0]).copy(),
        "tied-spherical": matrices[0, 0, 0].copy(),
    }[kind.name]
    parameters = Parameters(np.array([0.3, 0.7]), rng.normal(size=(m, n)), covariances)
    settings = {"prior": kind.prior(n, "auto"), "count": 37.0}
    if manner == "complete":
        return row_likelihood(X, weights, kind, 0.0, **settings), parameters
    seen = X.copy()
    seen[rng.uniform(size=X.shape) < 0.3] = np.nan
    seen[np.isnan(seen).all(axis=1), 0] = 1.0
    noise = None
    if manner == "noise":
        B = 0.5 * rng.normal(size=(p, n, n))
        noise = noise_covariance(B @ B.swapaxes(1, 2), p, n)
    if not kind.diagonal:
        settings["to_features"] = rng.normal(size=(n, n)) + 3 * np.eye(n)
        settings["anchor"] = Anchor(2.0)
    rows = CompletedRows(ObservedRows(seen, noise), X, np.zeros(p))
    return observed_likelihood(rows, weights, kind, 0.0, **settings), parameters


def moved(likelihood, parameters, t):
    """Parameters after a step t along the directions: softmax in η, and linear in the rest."""
    directions = Directions.of(likelihood.target, parameters)
    m, n = parameters.means.shape
    free = Parametrisation(likelihood.target.kind, m, n, augmentation="free")
    x = free.encode(*parameters) + directions.natural() @ t
    weights, rest = parameters.weights * np.exp(t[:m]), 1 - parameters.weights.sum()
    x[:m] = weights / (weights.sum() + rest)
    return Parameters(*free.decode(x))


def log_densities(likelihood, parameters):
    density = np.logaddexp.reduce(likelihood.rows.log_joint(parameters), axis=1)
    if (box := likelihood.target.box) is None:
        return density
    share = 1 - parameters.weights.sum()
    return np.logaddexp(density, np.log(share) + likelihood.rows.log_uniform(box))


MANNERS = ["complete", "gaps", "noise", "complete and outliers", "gaps and outliers"]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", KINDS)
def test_scores_and_information_by_differences(name, manner, rng):
    likelihood, parameters = case(covariance_type(name), manner, rng)
    found = information(likelihood, parameters)
    size = found.directions.size
    steps = STEP * np.eye(size)

    def at(t):
        return moved(likelihood, parameters, t)

    def penalised(t):
        return likelihood.value(at(t)) - likelihood.penalty(at(t))

    ahead = [log_densities(likelihood, at(t)) for t in steps]
    behind = [log_densities(likelihood, at(-t)) for t in steps]
    numeric = (np.array(ahead) - np.array(behind)).T / (2 * STEP)
    scores = row_scores(likelihood.rows, found.directions, box=likelihood.target.box)
    np.testing.assert_allclose(scores, numeric, atol=1e-6)
    np.testing.assert_allclose(found.score, likelihood.rows.weights @ scores, atol=1e-12)
    squares = (scores * likelihood.rows.weights[:, None]).T @ scores
    np.testing.assert_allclose(found.outer, squares, atol=1e-12)
    for a, b in rng.integers(size, size=(60, 2)):
        s, t = steps[a], steps[b]
        value = penalised(s + t) - penalised(s - t) - penalised(t - s) + penalised(-s - t)
        assert found.curvature[a, b] == pytest.approx(-value / (4 * STEP**2), abs=2e-6)


def test_information_of_one_component_is_the_textbooks(rng):
    """p Σ⁻¹ for the mean, and ½ p Dᵀ(Σ⁻¹ ⊗ Σ⁻¹)D for the covariance."""
    X = rng.normal(size=(500, 2)) @ np.array([[1.0, 0.3], [0.0, 0.7]])
    kind = covariance_type("full")
    likelihood = row_likelihood(X, None, kind, 0.0)
    one = single(likelihood)
    found = information(likelihood, one)
    into = np.linalg.inv(found.directions.natural()[1:, 1:])
    natural = into.T @ found.observed[1:, 1:] @ into
    precision = np.linalg.inv(np.cov(X.T, bias=True))
    np.testing.assert_allclose(natural[:2, :2], precision, rtol=1e-9)
    np.testing.assert_allclose(natural[:2, 2:], 0, atol=1e-9)
    root = np.sqrt(0.5)
    D = np.array([[1, 0, 0], [0, root, 0], [0, root, 0], [0, 0, 1]])
    expected = D.T @ np.kron(precision, precision) @ D / 2
    np.testing.assert_allclose(natural[2:, 2:], expected, rtol=1e-9)


def test_the_prior_of_covariances_has_the_gradient_of_its_penalty(rng):
    for name in ("full", "diag", "spherical"):
        kind = covariance_type(name)
        likelihood, parameters = case(kind, "gaps" if name == "full" else "complete", rng)
        covariances = parameters.covariances
        change = 1e-6 * np.ones_like(covariances)
        values = [
            likelihood.penalty(parameters._replace(covariances=covariances + sign * change))
            for sign in (1, -1)
        ]
        gradient = likelihood.target.penalty_gradients(covariances) / likelihood.rows.count
        slope = (values[0] - values[1]) / 2
        assert np.sum(gradient * change) == pytest.approx(slope, rel=1e-5)
