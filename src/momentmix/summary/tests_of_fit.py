"""Whether a mixture fits its rows, as far as tests of moments can tell it in a moment."""

from __future__ import annotations

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.goodness import MomentTest, moment_test
from momentmix.goodness.given import UntestableError

#: Rows that are tested, drawn at random from more. Among very many, every difference would count.
MOST_TESTED_ROWS = 5000
#: Draws of the null distribution.
_DRAWS = 499


def tests_of_fit(mixture: Mixture, X: np.ndarray | None) -> MomentTest | None:
    """The tests; None without rows, and where rows are too few or a component has no width.

    Parameters are taken to be fitted to all of the rows.
    """
    if X is None:
        return None
    if len(X) > MOST_TESTED_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_TESTED_ROWS, replace=False)]
    try:
        return moment_test(mixture, X, n_boot=_DRAWS, random_state=0)
    except UntestableError:
        return None
