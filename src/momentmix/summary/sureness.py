"""How sure the parameters of a fit are, if anything can be said about it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.estimators.rows import Table
from momentmix.estimators.trust import TrustedEstimator
from momentmix.support.warnings import UncertaintyWarning
from momentmix.uncertainty.asymptotic import NoStandardErrors

#: Rows times squares of the numbers of parameters up to which it takes seconds.
MOST_WORK = 10**11


class Sureness(NamedTuple):
    """Standard errors and 95 % intervals, and a sentence where they are not to be trusted."""

    errors: Parameters
    low: Parameters
    high: Parameters
    doubt: str = ""


def sureness_of(
    estimator: TrustedEstimator, X: Table, noise_covariance: Table = None, share: float = 1.0
) -> Sureness | None:
    """Of a fitted estimator and what it was fitted to; None where that would take long.

    X may be a sample, which has this share of the rows that were fitted. Then a row of it tells
    what a row tells on average, and all rows so many times as much.
    """
    names = estimator.parameter_names()
    if isinstance(X, np.ndarray) and len(X) * len(names) ** 2 > MOST_WORK:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = estimator._estimate(X, "observed", None, noise_covariance)
        except NoStandardErrors:
            return None
    found = replace(found, covariance=found.covariance * share)
    doubts = [str(one.message) for one in caught if issubclass(one.category, UncertaintyWarning)]
    return Sureness(found.standard_errors(), *found.intervals(0.95), " ".join(doubts))
