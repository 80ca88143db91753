"""Cross-validation that starts from a fit to all rows: how likely are rows that were left out?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.covariance import LogNormalPrior
from momentmix.fit import Parameters
from momentmix.fitting.em import LikelihoodHere, part_of

#: The strengths that are compared, in units of the customary one. They are about a factor of three
#: apart, because the effect of a strength changes slowly; the factors were not tuned.
SHARES = (0.1, 0.3, 1.0, 3.0)
#: The number of parts of which one is left out at a time, as is customary in scikit-learn.
FOLDS = 5
#: The most EM steps from the fit of all rows to that of four fifths of them, and its tolerance.
#: These are round numbers that were not tuned; the start is close, so few steps are needed.
STEPS, TOL = 30, 1e-4


def folds(likelihood: LikelihoodHere, rng: np.random.Generator) -> np.ndarray:
    """The part of the rows with which each row is left out; (p,)."""
    p = len(likelihood.rows.X)
    return rng.permutation(p) % min(FOLDS, p)


def held_out_log_likelihood(
    likelihood: LikelihoodHere, start: Parameters, fold: np.ndarray
) -> float:
    """The mean log-likelihood of rows left out, after EM from a fit of all rows.

    Ctrl-C is passed on, because half of a comparison is of no use.
    """
    score, weights = 0.0, likelihood.rows.weights
    for f in range(int(fold.max()) + 1):
        kept, out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        share = float(weights[kept].sum())
        train = part_of(likelihood, kept, weights[kept] / share, share)
        result = train.fit(start, tol=TOL, max_iter=STEPS)
        score += part_of(likelihood, out, weights[out], 1 - share).value(result.parameters)
    return score


def cross_validate(
    likelihood: LikelihoodHere,
    customary: LogNormalPrior,
    start: Parameters,
    rng: np.random.Generator,
) -> LogNormalPrior:
    """The prior under which rows that are left out are most likely."""
    fold = folds(likelihood, rng)
    priors = [replace(customary, strength=share * customary.strength) for share in SHARES]
    scores = [
        held_out_log_likelihood(
            replace(likelihood, target=replace(likelihood.target, prior=prior)), start, fold
        )
        for prior in priors
    ]
    return priors[int(np.argmax(scores))]
