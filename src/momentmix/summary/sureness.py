"""How sure the parameters of a fit are, if anything can be said about it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.estimators.rows import Table
from momentmix.estimators.trust import TrustedEstimator
from momentmix.summary.budget import affordable
from momentmix.support.warnings import UncertaintyWarning
from momentmix.uncertainty.asymptotic import NoStandardErrors

#: Rows for each parameter without which a sample of them is not enough.
_ROWS_EACH = 10


class Sureness(NamedTuple):
    """Standard errors and 95 % intervals, and a sentence where they are not to be trusted."""

    errors: Parameters
    low: Parameters
    high: Parameters
    doubt: str = ""


def sureness_of(
    estimator: TrustedEstimator, X: Table, noise_covariance: Table = None, share: float = 1.0
) -> Sureness | None:
    """Of a fitted estimator and what it was fitted to; None where that takes longer than the fit.

    X may be a sample, which has this share of the rows that were fitted. Then a row of it tells
    what a row tells on average, and all rows so many times as much. One is drawn of rows that are
    too many.
    """
    if isinstance(X, np.ndarray):
        p, most = len(X), rows_for_errors(estimator, len(X))
        if most == 0:
            return None
        if most < p:
            some = np.sort(np.random.default_rng(0).choice(p, most, replace=False))
            X, share = X[some], share * most / p
            noise_covariance = None if noise_covariance is None else noise_covariance[some]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = estimator._estimate(X, "observed", None, noise_covariance)
        except NoStandardErrors:
            return None
    found = replace(found, covariance=found.covariance * share)
    doubts = [str(one.message) for one in caught if issubclass(one.category, UncertaintyWarning)]
    return Sureness(found.standard_errors(), *found.intervals(0.95), " ".join(doubts))


def rows_for_errors(estimator: TrustedEstimator, rows: int) -> int:
    """How many of the rows can be looked at in about the time of the fit; 0 if too few."""
    parameters = len(estimator.parameter_names())
    most = affordable(estimator.mixture_, rows) / parameters**2 - 4 * parameters
    return min(rows, int(most)) if most >= min(rows, _ROWS_EACH * parameters) else 0
