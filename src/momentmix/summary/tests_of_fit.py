"""Quick tests of whether a mixture fits its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.goodness import MomentTest, moment_test
from momentmix.goodness.given import MOST_WORK, UntestableError
from momentmix.goodness.residuals import work_of
from momentmix.summary.budget import affordable

#: At most this many rows, drawn at random, are tested: with very many rows even harmless
#: differences are significant. A round number that was not tuned.
MOST_TESTED_ROWS = 5000
#: Draws of the null distribution. A customary number: the smallest p-value is 1/500.
_DRAWS = 499
#: The highest order that is tested: order 4 shows heavy tails, and sentences name no higher order.
_ORDER = 4


def tests_of_fit(mixture: Mixture, X: np.ndarray | None) -> MomentTest | None:
    """The tests; None without rows, with too few rows, or if a component has no width.

    The parameters are taken to be fitted to these rows. If testing all features would take longer
    than the fit, as many as are affordable are drawn at random and tested; None if not even one is.
    """
    if X is None:
        return None
    n = mixture.n_features
    count = affordable_features(mixture, len(X))
    if count == 0:
        return None
    if count < n:
        some = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
        found = tests_of_fit(mixture.marginal(some), X[:, some])
        return found and replace(found, rows=f"{found.rows} of {count} of the {n} columns")
    if len(X) > MOST_TESTED_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_TESTED_ROWS, replace=False)]
    try:
        return moment_test(mixture, X, _ORDER, n_boot=_DRAWS, random_state=0)
    except UntestableError:
        return None


def affordable_features(mixture: Mixture, rows: int) -> int:
    """How many of the features can be tested in about the time that the fit of all rows took."""
    most = min(affordable(mixture, rows), MOST_WORK)
    rows = min(rows, MOST_TESTED_ROWS)
    for n in range(1, mixture.n_features + 1):
        if work_of(mixture, n, rows, _DRAWS, True).of(n, _ORDER) > most:
            return n - 1
    return mixture.n_features
