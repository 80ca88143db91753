"""MixtureRegressor: predicts numbers from a joint mixture of X and y."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from momentmix.covariance import CovarianceName
from momentmix.distributions.given_rows import MixtureGiven
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import Table, checked_table, in_numpy
from momentmix.observed import ObservedRows
from momentmix.selection.select import ChoosesComponents
from momentmix.support.checks import probability

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

#: Steps of bisection for a quantile. They leave 2⁻⁶⁰ of the interval, less than the relative
#: rounding of float64, 2⁻⁵³.
HALVINGS = 60


@dataclass(eq=False, repr=False)
class MixtureRegressor(RegressorMixin, ChoosesComponents, BaseEstimator):
    """Predict numbers, and how much they scatter, by a Gaussian mixture of X and y together.

    What is predicted for a row is the distribution of y given the row: its mean, its standard
    deviation, or an interval. In each component the mean is a linear function, so
    the mean of a mixture bends, and its deviation differs from row to row. With one component it
    is linear regression.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        The number of components. "auto" raises it from 1, up to ``max_components``, as long as
        that lowers the BIC of X and y together.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"}, \
            default="full"
        The shapes of the components. "full": each has a slope of its own. "tied": all have the same
        slope. Without correlations ("diag", "spherical"), y does not depend on X within a
        component, so X informs y only through the component that a row probably belongs to.
    max_components : int, default=5
        The largest number that "auto" tries.
    prior : {"auto", "cv", None} or float, default="auto"
        How firmly the covariances of the components are held together, as in
        :class:`GaussianMixture`.
    random_state : int, RandomState or None, default=None
        The seed of the search.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.

    Attributes
    ----------
    estimator_ : GaussianMixture
        The fitted mixture of X and y: the columns of y come after those of X.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, where they all have one.

    See Also
    --------
    Mixture.condition : The whole distribution of some features, given others.
    MixtureClassifier : Predicts classes.

    Notes
    -----
    Under component j, y given x is Gaussian with the mean μ_y + Σ_yx Σ_xx⁻¹ (x - μ_x) and the
    covariance Σ_yy - Σ_yx Σ_xx⁻¹ Σ_xy; components count as much as they are probable given x [1]_.
    If X has gaps, x means the values that are there. y must not have gaps when the regressor is
    fitted. Intervals treat the fitted mixture as the truth: they show how y scatters, not how
    uncertain the fit is.

    References
    ----------
    .. [1] Z. Ghahramani and M. I. Jordan, "Supervised Learning from Incomplete Data via an EM
       Approach", Advances in Neural Information Processing Systems, 6, 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MixtureRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (600, 1))
    >>> y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=600)
    >>> model = MixtureRegressor(random_state=0).fit(X, y)
    >>> model.predict([[-2.0], [2.0]]).round(1)
    array([2., 2.])
    >>> low, high = model.predict_interval([[2.0]], level=0.9)
    >>> bool(1.7 < low[0] < 2 < high[0] < 2.3)
    True
    """

    n_components: int | Literal["auto"] = "auto"
    _: KW_ONLY
    covariance_type: CovarianceName = "full"
    max_components: int = 5
    prior: float | Literal["auto", "cv"] | None = "auto"
    random_state: object = None
    verbose: int = 0
    n_jobs: int | None = None

    def fit(self, X: Table, y: Table, sample_weight: Table = None) -> Self:
        """Fit the mixture of X and y.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap.
        y : array of shape (p,) or (p, k)
            What is to be predicted: one number for each row, or several.
        sample_weight : array of shape (p,), optional
            How many times each row counts.

        Returns
        -------
        self
        """
        self._check_choice(self.n_components)
        X, y = checked_table(self, X, y, ensure_min_samples=2, multi_output=True, y_numeric=True)
        rows = np.column_stack([X, y]).astype(np.float64)
        self.estimator_ = self._fit_mixture(self.n_components, rows, sample_weight)
        self._one, self._dtype = y.ndim == 1, X.dtype.type
        return self

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of y given each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        return_std : bool, default=False
            Whether the standard deviation of y given the row is returned too.

        Returns
        -------
        mean : array of shape (p,), or (p, k) for several columns
        std : array of the same shape
            Only with ``return_std``.
        """
        X = self._rows(X)
        given = self._given(X)
        mean = np.sum(given.weights * given.means, axis=1)
        if not return_std:
            return self._like_y(mean, X)
        away = given.means - mean[:, None, :]
        variance = np.sum(given.weights * (given.deviations**2 + away**2), axis=1)
        return self._like_y(mean, X), self._like_y(np.sqrt(variance), X)

    def predict_interval(self, X: Table, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """An interval for y given each row, with equal probability below it and above.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        level : float, default=0.9
            The probability of the interval, between 0 and 1. With several columns, each has an
            interval of its own.

        Returns
        -------
        low : array of shape (p,), or (p, k) for several columns
        high : array of the same shape
        """
        probability("level", level)
        X = self._rows(X)
        given = self._given(X)
        low, high = (given.quantile(q) for q in ((1 - level) / 2, (1 + level) / 2))
        return self._like_y(low, X), self._like_y(high, X)

    def score(self, X: Table, y: Table, sample_weight: Table = None) -> float:
        """R², the share of the variance of y that is predicted; 1 is the best.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        y : array
            What is to be predicted, as in ``fit``.
        sample_weight : array of shape (p,), optional
            How many times each row counts.

        Returns
        -------
        float
        """
        return float(super().score(X, in_numpy(y, "y"), sample_weight))  # type: ignore[no-untyped-call]

    def _rows(self, X: Table) -> np.ndarray:
        check_is_fitted(self)
        return checked_table(self, X, reset=False)

    def _given(self, X: np.ndarray) -> Given:
        """The distribution of y given each row, from rows in which y is a gap."""
        mixture: Mixture = self.estimator_.mixture_
        (p, n), k = X.shape, mixture.n_features - X.shape[1]
        rows = np.hstack([X.astype(np.float64), np.full((p, k), np.nan)])
        given = MixtureGiven(mixture.atoms, ObservedRows(rows))
        means, variances = given.of_each(slice(n, None))
        deviations = np.sqrt(np.maximum(variances, np.finfo(float).tiny))
        return Given(given.probabilities()[:, :, None], means, deviations)

    def _like_y(self, found: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Results in the shape of y, in float32 if X is so here and was so in the fit."""
        found = found.astype(np.result_type(X, self._dtype), copy=False)
        return found[:, 0] if self._one else found

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.target_tags.multi_output = True
        return tags


class Given(NamedTuple):
    """Mixtures of m Gaussians in one dimension, one for each of p rows and k columns."""

    weights: np.ndarray  # (p, m, 1)
    means: np.ndarray  # (p, m, k)
    deviations: np.ndarray  # (p, m, k)

    def quantile(self, probability: float) -> np.ndarray:
        """Where the distribution function reaches a probability, by bisection; (p, k).

        It lies between the smallest and the largest quantile of the components.
        """
        of_each = self.means + ndtri(probability) * self.deviations
        low, high = of_each.min(axis=1), of_each.max(axis=1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = ndtr((middle[:, None, :] - self.means) / self.deviations)
            too_low = np.sum(self.weights * below, axis=1) < probability
            low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
        return np.asarray((low + high) / 2)
