"""The predictions of a fitted mixture for rows, in memory or on a Dask cluster.

They are about components and, where rows may belong to none, about outliers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from momentmix.blocks.dask_rows import DaskRows, feature_names, map_rows
from momentmix.blocks.engines import is_dask
from momentmix.blocks.spark_rows import row_function
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import MixtureEstimator, Table, check_rows, checked_table
from momentmix.observed import noise_of_rows
from momentmix.support.array import Array, as_like, foreign, namespace, to_numpy
from momentmix.support.checks import generator, one_of
from momentmix.support.device import block_bytes

T = TypeVar("T")
SparkMethod: TypeAlias = Literal["predict", "predict_proba", "score_samples"]
#: What a mixture says of rows with such noise.
Prediction: TypeAlias = Callable[[Mixture, Any, Table], Any]


class MixturePredictions(MixtureEstimator):
    """The predictions of a fitted estimator for rows."""

    def _n_parameters(self) -> int:
        raise NotImplementedError

    def fit_predict(
        self,
        X: Table,
        y: object = None,
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> np.ndarray:
        """Fit the mixture to the rows of X, and return the most probable component of each.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        sample_weight : array of shape (p,), optional
            How many times each row counts.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
        """
        fitted = self.fit(X, y, sample_weight, noise_covariance)
        return fitted.predict(X, noise_covariance)

    def score_samples(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The logarithm of the density at each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            For Dask input it is a lazy Dask array.
        """
        return self._by_row(X, noise_covariance, Mixture.log_prob)

    def score(self, X: Table, y: object = None, noise_covariance: Table = None) -> float:
        """The mean of the logarithm of the density over the rows; higher is better.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out. A row
            without any value does not count.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        float
        """
        total, count = self._total_score(X, noise_covariance)
        return total / count

    def predict(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The number of the most probable component of each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
            Whole numbers from 0. For Dask input it is a lazy Dask array. After a fit with
            ``outliers``, -1 is for rows that more probably than not belong to no component.
        """
        return self._by_row(X, noise_covariance, Mixture.predict, dtype=np.int64)

    def predict_proba(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The probability of each component for each row, with the parameters as fitted.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p, m)
            Each row sums to 1. For Dask input it is a lazy Dask array.
        """
        check_is_fitted(self)
        width = self.mixture_.n_components
        return self._by_row(X, noise_covariance, Mixture.predict_proba, width)

    def spark_udf(self, method: SparkMethod = "predict") -> Callable[..., Any]:
        """A pandas UDF that makes predictions for the rows of a Spark DataFrame.

        It carries the mixture to the workers, which need momentmix installed. A null is a gap.

        Parameters
        ----------
        method : {"predict", "predict_proba", "score_samples"}, default="predict"
            The prediction: the number of the most probable component (a long), the probabilities of
            all components (an array of doubles), or the logarithm of the density (a double).

        Returns
        -------
        pandas UDF
            To call with the columns of the features, in the order of the fit:
            ``df.withColumn("component", fit.spark_udf()("height", "weight"))``.
        """
        check_is_fitted(self)
        one_of("method", method, tuple(_ON_SPARK))
        function, returns = _ON_SPARK[method]
        return row_function(function, self.mixture_, self.n_features_in_, returns)

    def impute(
        self, X: Table, draws: int | None = None, noise_covariance: Table = None
    ) -> np.ndarray:
        """Fill the gaps in the rows with what the mixture expects there.

        Values that are there stay as they are.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap. A Dask array or DataFrame works too, without ``draws``.
        draws : int, optional
            Fill the gaps so many times at random, for multiple imputation: analyse each of the
            filled tables, and the spread of the results shows the effect of the gaps. The
            estimator's ``random_state`` is the seed.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p, n), or (draws, p, n) with draws
        """
        check_is_fitted(self)
        if draws is None:
            return self._by_row(X, noise_covariance, _fill, width=self.n_features_in_)
        if is_dask(X):
            raise TypeError("draws are made in memory; give the rows as an array, or no draws")
        rows = to_numpy(self._rows(X))
        drawn = self.mixture_.impute(
            rows,
            draws,
            noise_covariance=noise_covariance,
            random_state=generator(self.random_state),
        )
        return self._as_rows(to_numpy(drawn), X, rows)

    def denoise(self, X: Table, noise_covariance: Table = None) -> tuple[np.ndarray, np.ndarray]:
        """The denoised rows: what each would be without its gaps and known errors.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        means : ndarray of shape (p, n)
            The expectation of each row without its errors and gaps.
        covariances : ndarray of shape (p, n, n)
            The covariance of each row about that expectation.
        """
        check_is_fitted(self)
        rows = to_numpy(self._rows(X))
        means, covariances = map(to_numpy, self.mixture_.denoise(rows, noise_covariance))
        return self._as_rows(means, X, rows), self._as_rows(covariances, X, rows)

    def sample(self, n_samples: int = 1, like: Table = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw random rows from the fitted mixture, and the component of each.

        Parameters
        ----------
        n_samples : int, default=1
            The number of rows.
        like : array of shape (p, n), optional
            Rows whose rounding and range the drawn rows take over: whole numbers stay whole, and
            none is below zero if none of these is.

        Returns
        -------
        X : ndarray of shape (n_samples, n)
            The rows.
        labels : ndarray of shape (n_samples,)
            The component that each row came from.
        """
        check_is_fitted(self)
        rng = generator(self.random_state)
        if like is not None:
            like = checked_table(self, like, reset=False)
        X, labels = self.mixture_.sample(n_samples, rng, like=like)
        if not foreign(self.means_):
            return to_numpy(X), to_numpy(labels)
        integer = namespace(self.means_).int64
        labels = as_like(to_numpy(labels), self.means_, integer)
        return as_like(to_numpy(X), self.means_), labels  # type: ignore[return-value]

    def bic(self, X: Table, noise_covariance: Table = None) -> float:
        """The Bayesian information criterion on the rows; lower is better.

        It compares fits of the same rows, for instance with different numbers of components. It is
        -2 times the log-likelihood plus the number of parameters times the logarithm of the number
        of rows.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        float
        """
        total, p = self._total_score(X, noise_covariance)
        return -2 * total + self._n_parameters() * float(np.log(p))

    def aic(self, X: Table, noise_covariance: Table = None) -> float:
        """The Akaike information criterion on the rows; lower is better.

        It is -2 times the log-likelihood plus twice the number of parameters.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A Dask array or DataFrame works too. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        float
        """
        return -2 * self._total_score(X, noise_covariance)[0] + 2 * self._n_parameters()

    def _total_score(self, X: Table, noise_covariance: Table) -> tuple[float, int]:
        check_is_fitted(self)
        if is_dask(X):
            self._check_features(X)
            rows = DaskRows(X, noise=noise_covariance)
            total, count = rows.total(_score_of_block, self.mixture_)
        else:
            rows, noise = self._rows(X), noise_covariance
            scores = self._in_blocks(
                rows, noise, lambda mixture, X, noise: _score_of_block(X, None, mixture, noise)
            )
            total, count = (sum(part) for part in zip(*scores, strict=True))
        if count == 0:
            raise ValueError("no row of X has a value, so there is nothing to score")
        return total, count

    def _by_row(
        self,
        X: Table,
        noise_covariance: Table,
        function: Prediction,
        width: int | None = None,
        dtype: type = float,
    ) -> np.ndarray:
        """function(mixture, rows, noise), in memory or block by block where the rows are."""
        check_is_fitted(self)
        if is_dask(X):
            self._check_features(X)
            return map_rows(X, function, self.mixture_, width, dtype, noise_covariance)
        rows = self._rows(X)
        if foreign(rows) and (function not in _ON_DEVICE or self.mixture_.background is not None):
            rows = to_numpy(rows)

        def told(mixture: Mixture, some: Table, noise: Table) -> Table:
            return self._as_rows(function(mixture, some, noise), X, rows)

        found = self._in_blocks(rows, noise_covariance, told)
        answer: Table = found[0] if len(found) == 1 else namespace(found[0]).concat(found)
        return answer

    def _in_blocks(
        self, rows: Any, noise: Table, function: Callable[[Mixture, Any, Table], T]
    ) -> list[T]:
        """function(mixture, rows, noise), where the rows are.

        Rows on a device are processed in blocks, so that only results take memory there. With
        noise, which may differ from row to row, there is one block.
        """
        if not foreign(rows):
            return [function(self.mixture_, rows, noise)]
        mixture, (p, n) = self.mixture_.on(rows), rows.shape
        step = p if noise is not None else block_bytes(rows) // (32 * (n + mixture.n_components))
        step = max(1, step)
        starts = range(0, max(p, 1), step)
        return [function(mixture, rows[a : min(a + step, p), :], noise) for a in starts]

    def _as_rows(self, found: Any, given: Table, rows: Array) -> Any:
        """The result in the library and on the device of ``given``; ``rows`` are the same, checked.

        Like scikit-learn, it is float32 if the rows of the fit and these are float32.
        """
        like = given if foreign(given) else found
        xp = namespace(like)
        dtype = xp.int64
        if namespace(found).isdtype(found.dtype, "real floating"):
            both = rows.dtype, self.means_.dtype
            single = all(str(one).endswith("float32") for one in both)
            dtype = xp.float32 if single else xp.float64
        if foreign(found):
            return xp.astype(found, dtype, copy=False)
        return as_like(found, like, dtype)

    def _rows(self, X: Table) -> Any:
        """Rows with the columns of the fit, checked; a NumPy array, or on a device."""
        return check_rows(self, X, None, reset=False)[0]

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


def _fill(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    return to_numpy(mixture.impute(X, noise_covariance=noise_covariance))


def _score_of_block(
    X: np.ndarray, weights: np.ndarray | None, mixture: Mixture, noise_covariance: Table = None
) -> tuple[float, int]:
    """The sum of log densities, and the number of rows that have any value."""
    if X.shape[0] == 0:
        return 0.0, 0
    xp, density = namespace(X), mixture.log_prob(X, noise_covariance)
    told = int(xp.sum(xp.astype(~xp.all(xp.isnan(X), axis=1), xp.int64)))
    return float(xp.sum(density)), told


#: The predictions that can be made on a device.
_ON_DEVICE = (Mixture.predict_proba, Mixture.log_prob, Mixture.predict)
#: The function of each method of ``spark_udf``, and Spark's type of its result.
_ON_SPARK: dict[str, tuple[Prediction, str]] = {
    "predict": (Mixture.predict, "long"),
    "predict_proba": (Mixture.predict_proba, "array<double>"),
    "score_samples": (Mixture.log_prob, "double"),
}


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
    spread = to_numpy(mixture.atoms.covariance.spread()).astype(np.float64)
    own = np.broadcast_to(spread, means.shape)
    noise = noise_of_rows(noise_covariance, rows)
    more = np.zeros((1, 1)) if noise is None else to_numpy(noise.spread())
    total = np.zeros(len(rows))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for a, error in enumerate(np.broadcast_to(more, rows.shape).T):
            S = own[:, a] + error[:, None]
            logs = np.log(weights) - np.log(2 * np.pi * S) / 2
            logs = logs - (rows[:, a, None] - means[:, a]) ** 2 / (2 * S)
            total += np.where(np.isnan(rows[:, a]), 0.0, np.logaddexp.reduce(logs, axis=1))
    return total


def _with_outliers(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    beyond = mixture.outlier_probability(X, noise_covariance)[:, None]
    among = to_numpy(mixture.predict_proba(X, noise_covariance))
    return np.hstack([among * (1 - beyond), beyond])


def _log_odds(mixture: Mixture, X: np.ndarray, noise_covariance: Table) -> np.ndarray:
    if mixture.background is None:
        return np.full(len(X), np.inf)
    own = np.logaddexp.reduce(to_numpy(mixture.log_joint(X, noise_covariance)), axis=1)
    return np.asarray(own - mixture.background.log_joint(X))
