"""Cross-validation from a fit that is there already: how likely are rows that were left out?

By this the strength of the prior is chosen, and fits can be compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.covariance import LogNormalPrior
from momentmix.data.parameters import Parameters
from momentmix.likelihood.rows import RowLikelihood

#: Strengths that are compared, in units of the customary one.
SHARES = (0.1, 0.3, 1.0, 3.0)
FOLDS = 5
#: Steps from the fit of all rows to that of four fifths of them.
STEPS, TOL = 30, 1e-4


def folds(likelihood: RowLikelihood, rng: np.random.Generator) -> np.ndarray:
    """In which part of the rows each one is left out; (p,)."""
    p = len(likelihood.X)
    return rng.permutation(p) % min(FOLDS, p)


def held_out(
    likelihood: RowLikelihood, prior: LogNormalPrior | None, start: Parameters, fold: np.ndarray
) -> float:
    """The mean log-likelihood of rows left out, EM going on from a fit of all rows.

    Ctrl-C is passed on: half of a comparison is none.
    """
    score = 0.0
    for f in range(int(fold.max()) + 1):
        kept, out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        share = float(likelihood.weights[kept].sum())
        train = likelihood.part(kept, likelihood.weights[kept] / share, share, prior)
        result = train.fit(start, tol=TOL, max_iter=STEPS)
        if result.interrupted:
            raise KeyboardInterrupt
        test = likelihood.part(out, likelihood.weights[out], 1 - share, None)
        score += test.value(result.parameters)
    return score


def cross_validated(
    likelihood: RowLikelihood,
    customary: LogNormalPrior,
    start: Parameters,
    rng: np.random.Generator,
) -> LogNormalPrior:
    """The prior under which rows left out are most likely."""
    fold = folds(likelihood, rng)
    priors = [replace(customary, strength=share * customary.strength) for share in SHARES]
    scores = [held_out(likelihood, prior, start, fold) for prior in priors]
    return priors[int(np.argmax(scores))]
