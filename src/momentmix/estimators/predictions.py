"""What a fitted mixture answers about rows, in memory or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from momentmix.cluster.rows import DaskRows, feature_names, is_dask, map_rows
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.rows import Table
from momentmix.likelihood.density import softmax
from momentmix.support.array import to_numpy
from momentmix.support.checks import generator


class MixturePredictions(DensityMixin, BaseEstimator):
    """What a fitted estimator answers about rows."""

    mixture_: Mixture
    means_: np.ndarray
    n_features_in_: int
    random_state: object

    def _n_parameters(self) -> int:
        raise NotImplementedError

    def score_samples(self, X: Table) -> np.ndarray:
        """The logarithm of the density at each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.

        Returns
        -------
        array of shape (p,)
            For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, _log_density)

    def score(self, X: Table, y: object = None) -> float:
        """The mean of the logarithm of the density over the rows; higher is better.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.
        y : ignored
            It is there because scikit-learn's pipelines pass it.

        Returns
        -------
        float
        """
        total, count = self._total_score(X)
        return total / count

    def predict(self, X: Table) -> np.ndarray:
        """The number of the most probable component of each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.

        Returns
        -------
        array of shape (p,)
            Whole numbers from 0. For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, _most_probable, dtype=np.int64)

    def predict_proba(self, X: Table) -> np.ndarray:
        """The probability of each component for each row, with the parameters as fitted.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.

        Returns
        -------
        array of shape (p, m)
            Each row sums to 1. For Dask input it is a lazy Dask array.
        """
        check_is_fitted(self)
        return self._by_row(X, posterior, width=self.mixture_.n_components)

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw random rows from the fitted mixture, and the component of each.

        Parameters
        ----------
        n_samples : int, default=1
            The number of rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n)
            The rows.
        labels : ndarray of shape (n_samples,)
            The component that each row came from.
        """
        check_is_fitted(self)
        X, labels = self.mixture_.sample(n_samples, generator(self.random_state))
        return to_numpy(X), to_numpy(labels)

    def bic(self, X: Table) -> float:
        """The Bayesian information criterion on the rows; lower is better.

        It compares fits of the same rows, for instance with different numbers of components. It is
        -2 times the log-likelihood plus the number of parameters times the logarithm of the number
        of rows.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.

        Returns
        -------
        float
        """
        total, p = self._total_score(X)
        return -2 * total + self._n_parameters() * float(np.log(p))

    def aic(self, X: Table) -> float:
        """The Akaike information criterion on the rows; lower is better.

        It is -2 times the log-likelihood plus twice the number of parameters.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too.

        Returns
        -------
        float
        """
        return -2 * self._total_score(X)[0] + 2 * self._n_parameters()

    def _total_score(self, X: Table) -> tuple[float, int]:
        check_is_fitted(self)
        if is_dask(X):
            self._check_features(X)
            return DaskRows(X).total(_score_of_block, self.mixture_)
        X = self._rows(X)
        return float(np.sum(_log_density(self.mixture_, X))), len(X)

    def _by_row(
        self,
        X: Table,
        function: Callable[[Mixture, np.ndarray], np.ndarray],
        width: int | None = None,
        dtype: type = float,
    ) -> np.ndarray:
        """function(mixture, rows), here or block by block where the rows are."""
        check_is_fitted(self)
        if is_dask(X):
            self._check_features(X)
            return map_rows(X, function, self.mixture_, width, dtype)
        X = self._rows(X)
        found = function(self.mixture_, X)
        if found.dtype.kind != "f":
            return found
        # As scikit-learn does: float32 where the rows of the fit and these are both of that kind.
        return found.astype(np.result_type(X, self.means_), copy=False)

    def _rows(self, X: Table) -> np.ndarray:
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])

    def _check_features(self, X: Table) -> None:
        """Refuse a Dask table whose columns are not those of the fit."""
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        names, known = feature_names(X), vars(self).get("feature_names_in_")
        if names is not None and known is not None and list(names) != list(known):
            raise ValueError(
                f"the columns are {', '.join(names)}, but were {', '.join(known)} in fit"
            )


def posterior(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    """(p, m); components are alike where all their densities are 0 to float64."""
    log_joint = to_numpy(mixture.log_joint(X))
    log_joint[np.all(log_joint == -np.inf, axis=1)] = 0.0
    return softmax(log_joint)[0]


def _log_density(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    return to_numpy(mixture.log_prob(X))


def _most_probable(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    return to_numpy(mixture.log_joint(X)).argmax(axis=1)


def _score_of_block(
    X: np.ndarray, weights: np.ndarray | None, mixture: Mixture
) -> tuple[float, int]:
    return (float(np.sum(_log_density(mixture, X))) if len(X) else 0.0), len(X)
