"""Predictions about outliers, the rows that belong to no component."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.predictions import MixturePredictions, posterior
from momentmix.estimators.rows import Table
from momentmix.observed import noise_of_rows
from momentmix.support.array import to_numpy


class OutlierAnswers(MixturePredictions):
    """Predictions about outliers, in addition to those about components."""

    def predict_proba(
        self, X: Table, noise_covariance: Table = None, *, outliers: bool = False
    ) -> np.ndarray:
        """The probability of each component for each row, with the parameters as fitted.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.
        outliers : bool, default=False
            Whether there is a last column, with the probability that a row belongs to no component.
            Without it, the probabilities are those if it does belong to one.

        Returns
        -------
        array of shape (p, m), or (p, m + 1) with outliers
            Each row sums to 1. For Dask input it is a lazy Dask array.
        """
        if not outliers:
            return super().predict_proba(X, noise_covariance)
        return self._by_row(
            X, noise_covariance, _with_outliers, width=self.mixture_.n_components + 1
        )

    def outlier_score(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """How odd each row is, even if none is called an outlier; higher is odder.

        It is the mean of two surprises in nats, each -log of a density under the components: that
        of the row, and that of its values one by one, as if they were independent. A row is odd if
        its values do not go together, or if some of them are rare. For the probability that a row
        belongs to no component see ``predict_proba(X, outliers=True)``.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            Numbers without bounds. For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, noise_covariance, _oddness)

    def decision_function(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The log-odds that each row belongs to a component, following scikit-learn's convention.

        They also tell apart rows that are all surely outliers.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            Negative for outliers, for which ``predict`` gives -1. Infinite for a fit without a
            background, for which ``outlier_score`` still tells rows apart. For Dask input it is a
            lazy Dask array.
        """
        return self._by_row(X, noise_covariance, _log_odds)


def _oddness(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    own = np.logaddexp.reduce(to_numpy(mixture.log_joint(X, noise_covariance)), axis=1)
    return np.asarray(-(own + log_prob_by_feature(mixture, X, noise_covariance)) / 2)


def log_prob_by_feature(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    """The sum of the log densities of each row's values, taken one by one; (p,).

    Each value has a mixture of its own, Σ_a log Σ_j λ_j N(x_a; μ_ja, Σ_jaa + its noise). Gaps are
    left out. O(p m n).
    """
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means).astype(np.float64)
    rows = np.asarray(X, dtype=np.float64)
    own = np.broadcast_to(_variances(mixture.atoms.covariance), means.shape)
    noise = noise_of_rows(noise_covariance, rows)
    more = np.zeros((1, 1)) if noise is None else _variances(noise)
    total = np.zeros(len(rows))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for a, error in enumerate(np.broadcast_to(more, rows.shape).T):
            S = own[:, a] + error[:, None]
            logs = np.log(weights) - np.log(2 * np.pi * S) / 2
            logs = logs - (rows[:, a, None] - means[:, a]) ** 2 / (2 * S)
            total += np.where(np.isnan(rows[:, a]), 0.0, np.logaddexp.reduce(logs, axis=1))
    return total


def _variances(covariance: Covariance) -> np.ndarray:
    if covariance.diagonal:
        return to_numpy(covariance.variances()).astype(np.float64)
    return np.diagonal(to_numpy(covariance.matrices()), axis1=1, axis2=2).astype(np.float64)


def _with_outliers(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    beyond = mixture.outlier_probability(X, noise_covariance)[:, None]
    return np.hstack([posterior(mixture, X, noise_covariance) * (1 - beyond), beyond])


def _log_odds(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    if mixture.background is None:
        return np.full(len(X), np.inf)
    own = np.logaddexp.reduce(to_numpy(mixture.log_joint(X, noise_covariance)), axis=1)
    return np.asarray(own - mixture.background.log_joint(X))
