"""The bootstrap likelihood ratio test: its bounds, its statistic, its decisions."""

import os
import signal

import numpy as np
import pytest
import sklearn.mixture
from scipy.stats import binom

from momentmix import Mixture, select
from momentmix.selection import blrt
from momentmix.selection.blrt import RISK, stopping_bounds
from momentmix.support.messages import Progress

TWO = Mixture([0.6, 0.4], [[0, 0], [5, 0]], [1.0, 1.0], "spherical")
X, _ = TWO.sample(120, random_state=1)
SETTINGS = {"covariance_type": "spherical", "random_state": 0}


@pytest.mark.parametrize(("level", "n_boot"), [(0.05, 999), (0.01, 199), (0.2, 99)])
def test_where_replicates_may_end(level, n_boot):
    """Whoever stops early decides as all replicates would, but for RISK on either side."""
    low, high = np.array(list(stopping_bounds(level, n_boot))).T
    assert len(low) == n_boot
    assert low[-1] == high[-1] - 1  # somebody has to decide
    assert (1 + low[-1]) / (1 + n_boot) <= level < (1 + high[-1]) / (1 + n_boot)
    rng, count = np.random.default_rng(0), 5000
    for p in (0.5 * level, 0.9 * level, level, 1.1 * level, 2 * level):
        walks = np.cumsum(rng.random((count, n_boot)) < p, axis=1)
        ends = ((walks <= low) | (walks >= high)).argmax(axis=1)
        early = walks[np.arange(count), ends] <= low[ends]
        at_last = (1 + walks[:, -1]) / (1 + n_boot) <= level
        assert np.mean(early != at_last) < 2 * RISK + 4 * np.sqrt(2 * RISK / count)


def test_bounds_are_those_of_the_binomial_at_first():
    """Before anything was decided, the probability of so few exceedances is binomial."""
    level = 0.05
    n = 1 + next(i for i, (low, _) in enumerate(stopping_bounds(level, 999)) if low >= 0)
    assert binom.cdf(0, n, level) <= RISK < binom.cdf(0, n - 40, level)


def test_decisions_for_one_and_two():
    found = [blrt(X, m, **SETTINGS) for m in (1, 2)]
    assert [one.rejected for one in found] == [True, False]
    assert [one.n_components for one in found] == [1, 2]
    for one in found:
        assert one.p_value == (1 + one.exceedances) / (1 + one.n_boot)
        assert not one.interrupted
        assert one.n_boot < 200
    assert found[0].n_boot > 100  # it takes that many to be sure of less than 5 %
    again = blrt(X, 2, **SETTINGS)
    assert again == found[1]


def test_the_statistic_is_that_of_two_fits():
    """Without a prior it is the likelihood ratio, here of scikit-learn's fits."""
    one, two = (sklearn.mixture.GaussianMixture(m, covariance_type="spherical", n_init=5, tol=1e-8,
                                random_state=0).fit(X) for m in (1, 2))  # fmt: skip
    ratio = 2 * len(X) * (two.score(X) - one.score(X))
    np.testing.assert_allclose(blrt(X, 1, prior=None, **SETTINGS).statistic, ratio, rtol=1e-3)


def test_gaps_weights_and_errors():
    rng = np.random.default_rng(0)
    Y = X + 0.5 * rng.normal(size=X.shape)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    assert not blrt(Y, 2, noise_covariance=0.25, **SETTINGS).rejected
    weights = np.where(X[:, 0] < 2.5, 2, 0)
    assert not blrt(X, 1, sample_weight=weights, **SETTINGS).rejected


def test_select_goes_up_until_a_test_does_not_reject():
    found = select(X, range(1, 4), "spherical", "blrt", random_state=0)
    assert found.best.n_components_ == 2
    p = [choice.p_value for choice in found.table]
    assert p[0] <= 0.05 < p[1]
    assert p[2:] == [None]


def test_what_is_refused():
    for arguments, words in (
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"n_components": 1, "level": 1.5}, "level must be a number between 0 and 1"),
        ({"n_components": 1, "n_boot": 9}, "cannot reject at level=0.05; it takes at least 19"),
        ({"n_components": 1, "init_params": "moments"}, "needs rows in memory and fits by EM"),
    ):
        with pytest.raises(ValueError, match=words):
            blrt(X, **arguments)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupted_it_tells_what_there_is(monkeypatch):
    Y, _ = TWO.sample(4000, random_state=2)
    own, calls = Progress.iteration, []

    def iteration(self, *arguments):
        calls.append(None)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return own(self, *arguments)

    monkeypatch.setattr(Progress, "iteration", iteration)
    found = blrt(Y, 1, n_boot=99_999, level=0.001, **SETTINGS)
    assert found.interrupted
    assert 0 < found.n_boot < 99_999
