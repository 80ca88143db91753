"""How strong the prior should be: cross-validated, from a fit that is there already."""

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


def cross_validated(
    likelihood: RowLikelihood,
    customary: LogNormalPrior,
    start: Parameters,
    rng: np.random.Generator,
) -> LogNormalPrior:
    """The prior under which rows left out are most likely, EM going on from a fit of all rows.

    Ctrl-C is passed on: half of a comparison is none.
    """
    p = len(likelihood.X)
    fold = rng.permutation(p) % min(FOLDS, p)
    priors = [replace(customary, strength=share * customary.strength) for share in SHARES]
    scores = np.zeros(len(priors))
    for f in range(int(fold.max()) + 1):
        kept, out = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        share = float(likelihood.weights[kept].sum())
        for i, prior in enumerate(priors):
            train = likelihood.part(kept, likelihood.weights[kept] / share, share, prior)
            result = train.fit(start, tol=TOL, max_iter=STEPS)
            if result.interrupted:
                raise KeyboardInterrupt
            test = likelihood.part(out, likelihood.weights[out], 1 - share, None)
            scores[i] += test.value(result.parameters)
    return priors[int(np.argmax(scores))]
