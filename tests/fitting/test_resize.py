"""One component more or less: what cuts and merges are said to be worth, and where they lead."""

import itertools

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from likelihoods import row_likelihood
from momentmix import Mixture
from momentmix.covariance import covariance_type
from momentmix.fit import Parameters
from momentmix.fitting.em import from_responsibilities, single
from momentmix.fitting.moves import _cut_gains, grown, merge_losses, shrunk
from momentmix.fitting.sweep import Sweep

pytestmark = pytest.mark.usefixtures("passes_everywhere")

TRUTH = Mixture([0.5, 0.3, 0.2], [[-1, 0], [1.5, 0.5], [0, 2]], [0.1, 0.2, 0.1], "spherical")
X, LABELS = TRUTH.sample(400, random_state=0)


def likelihood(kind):
    return row_likelihood(X, None, covariance_type(kind), 1e-6)


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_a_cut_finds_what_was_together(kind):
    """From one Gaussian to the three there are, cut by cut; back by merges to the best two."""
    rows = likelihood(kind)
    rng = np.random.default_rng(0)
    at = single(rows)
    for m in (2, 3):
        starts = grown(rows, at, rng)
        assert all(len(start.weights) == m for start in starts)
        for start in starts:
            np.testing.assert_allclose(start.weights.sum(), 1)
        at = max(
            (rows.fit(start, tol=1e-6, max_iter=200) for start in starts),
            key=lambda result: result.log_posterior,
        ).parameters
    distances = np.linalg.norm(at.means[:, None] - TRUTH.means, axis=2)
    assert distances.min(axis=0).max() < 0.15
    fewer = shrunk(rows, at)
    assert len(fewer) == 6  # three merges, and three that are left out
    ends = [rows.fit(start, tol=1e-6, max_iter=200).log_posterior for start in fewer]
    if kind != "tied-diag":  # there the best two come from leaving one out
        assert max(ends[:3]) > max(ends) - 1e-6


def test_gains_of_cuts_by_brute_force():
    """The classification likelihood of rows in two halves against that of one."""
    rows = likelihood("full")
    side = X[:, 0] > 0.2
    R = np.ones((len(X), 1))
    whole = from_responsibilities(rows, R)
    halves = from_responsibilities(rows, np.column_stack([side, ~side]).astype(float))

    def value(Y):
        share, C = len(Y) / len(X), np.cov(Y.T, bias=True)
        return np.sum(np.log(share) + multivariate_normal(Y.mean(axis=0), C).logpdf(Y))

    expected = (value(X[side]) + value(X[~side]) - value(X)) / len(X)
    found = _cut_gains(covariance_type("full"), whole, halves)
    np.testing.assert_allclose(found, [expected], rtol=1e-6)


def test_losses_of_merges_with_one_covariance():
    """Against the loss itself, which a merge of near means has to first order."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(2, 2))
    C = A @ A.T + np.eye(2)
    means = np.array([[0, 0], [0.05, -0.03], [1, 1]])
    weights = np.array([0.3, 0.5, 0.2])
    losses = merge_losses(covariance_type("tied"), Parameters(weights, means, C))
    a, b = weights[0] / 0.8, weights[1] / 0.8
    between = 0.8 * a * b * np.outer(means[0] - means[1], means[0] - means[1])
    spread = (np.linalg.slogdet(C + between)[1] - np.linalg.slogdet(C)[1]) / 2
    shares = 0.3 * np.log(0.3) + 0.5 * np.log(0.5) - 0.8 * np.log(0.8)
    np.testing.assert_allclose(losses[0, 1], spread + shares, rtol=1e-3)
    np.testing.assert_allclose(losses, losses.T)


def test_a_sweep_only_improves():
    """What is settled is at least as good, and no worse than what EM finds from the truth."""
    rows = likelihood("diag")
    sweep = Sweep(lambda m: rows, np.random.default_rng(0), 1e-6, 200)
    for m in range(1, 7):
        sweep.grow()
        assert set(sweep.found) == set(range(1, m + 1))
    before = {m: result.log_posterior for m, result in sweep.found.items()}
    sweep.settle(range(1, 7))
    after = {m: result.log_posterior for m, result in sweep.found.items()}
    assert all(after[m] >= before[m] for m in before)
    values = [after[m] for m in sorted(after)]
    assert all(a <= b + 1e-3 for a, b in itertools.pairwise(values))
    truth = from_responsibilities(rows, np.eye(3)[LABELS])
    assert after[3] > rows.fit(truth, tol=1e-6, max_iter=200).log_posterior - 1e-3
