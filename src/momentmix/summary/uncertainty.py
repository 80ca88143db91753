"""Standard errors and intervals of the parameters of a fit, if they can be had."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.estimators.inference import InferenceEstimator
from momentmix.estimators.rows import Table
from momentmix.summary.budget import affordable
from momentmix.support.warnings import UncertaintyWarning
from momentmix.uncertainty.asymptotic import NoStandardErrors

#: A sample with fewer rows for each parameter gives no standard errors. A customary rule of thumb
#: that was not measured here.
_ROWS_EACH = 10


class Uncertainty(NamedTuple):
    """Standard errors, 95 % intervals, and a sentence if they should not be trusted."""

    errors: Parameters
    low: Parameters
    high: Parameters
    doubt: str = ""


def uncertainty_of(
    estimator: InferenceEstimator, X: Table, noise_covariance: Table = None, share: float = 1.0
) -> Uncertainty | None:
    """The uncertainty of a fitted estimator; None if it would take longer than the fit.

    X is what it was fitted to, or a sample with this share of the fitted rows; then covariances are
    multiplied by the share. If X has too many rows, a sample of them is drawn.
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
    return Uncertainty(found.standard_errors(), *found.intervals(0.95), " ".join(doubts))


def rows_for_errors(estimator: InferenceEstimator, rows: int) -> int:
    """How many rows can be used in about the time of the fit; 0 if that is too few."""
    parameters = len(estimator.parameter_names())
    most = affordable(estimator.mixture_, rows) / parameters**2 - 4 * parameters
    return min(rows, int(most)) if most >= min(rows, _ROWS_EACH * parameters) else 0
