"""What a fitted mixture says of rows that belong to no component."""

from __future__ import annotations

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.estimators.predictions import MixturePredictions, posterior
from momentmix.estimators.rows import Table
from momentmix.support.array import to_numpy


class OutlierAnswers(MixturePredictions):
    """Questions about outliers, beside those about components."""

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
        """The probability that each row belongs to no component; 0 for a fit without background.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            From 0 to 1. Above 0.5, ``predict`` gives -1. For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, noise_covariance, _outlier_probability)

    def decision_function(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """How sure it is that each row belongs to a component, as scikit-learn's detectors say it.

        It is the logarithm of the odds, and tells apart rows that are all surely outliers.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            Negative for outliers, to which ``predict`` gives -1; infinite for a fit without
            background. For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, noise_covariance, _log_odds)


def _outlier_probability(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    return mixture.outlier_probability(X, noise_covariance)


def _with_outliers(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    beyond = mixture.outlier_probability(X, noise_covariance)[:, None]
    return np.hstack([posterior(mixture, X, noise_covariance) * (1 - beyond), beyond])


def _log_odds(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    if mixture.background is None:
        return np.full(len(X), np.inf)
    own = np.logaddexp.reduce(to_numpy(mixture.log_joint(X, noise_covariance)), axis=1)
    return np.asarray(own - mixture.background.log_joint(X))
