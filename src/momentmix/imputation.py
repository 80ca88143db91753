"""MixtureImputer: fills the gaps of a table, as a step of a pipeline."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted

from momentmix.covariance import CovarianceName
from momentmix.estimators.base import Table, checked_table
from momentmix.selection.select import ChoosesComponents
from momentmix.support.array import to_numpy
from momentmix.support.checks import generator
from momentmix.support.messages import warn_user

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class MixtureImputer(TransformerMixin, ChoosesComponents, BaseEstimator):
    """Fill gaps (NaN) with what a Gaussian mixture expects there, given the rest of the row.

    The mixture is fitted to the values that are there, with no row left out. In a pipeline it can
    replace scikit-learn's ``IterativeImputer``.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        The number of components. "auto" raises it from 1, up to ``max_components``, as long as
        that lowers the BIC.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"}, \
            default="full"
        The shapes of the components. Without correlations ("diag", "spherical"), features
        inform each other only through the component that a row probably belongs to.
    max_components : int, default=5
        The largest number that "auto" tries.
    sample_posterior : bool, default=False
        Whether gaps are filled at random, as multiple imputation requires, and not with their
        expected values. Change ``random_state`` to get another table.
    add_indicator : bool, default=False
        Whether columns that mark the gaps are appended, as scikit-learn's ``MissingIndicator``
        makes them.
    random_state : int, RandomState or None, default=None
        The seed of the search and of random fillings.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.

    Attributes
    ----------
    estimator_ : GaussianMixture
        The fitted mixture.
    indicator_ : MissingIndicator or None
        The transformer that makes the columns of ``add_indicator``.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, where they all have one.

    See Also
    --------
    GaussianMixture.impute : The same for a mixture that you have fitted.

    Notes
    -----
    This is right if whether a value is missing depends only on values that are there. A column
    without any value when the imputer is fitted is left out, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MixtureImputer
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> X = np.hstack([x, 2 * x + 0.1 * rng.normal(size=(500, 1))])
    >>> X[::4, 1] = np.nan
    >>> filled = MixtureImputer(random_state=0).fit_transform(X)
    >>> bool(np.abs(filled - np.hstack([x, 2 * x])).max() < 0.5)
    True
    """

    n_components: int | Literal["auto"] = "auto"
    _: KW_ONLY
    covariance_type: CovarianceName = "full"
    max_components: int = 5
    sample_posterior: bool = False
    add_indicator: bool = False
    random_state: object = None
    n_jobs: int | None = None

    def fit(self, X: Table, y: object = None) -> Self:
        """Fit the mixture to the values that are there.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap.
        y : ignored
            Accepted because scikit-learn's pipelines pass it.

        Returns
        -------
        self
        """
        self._check_choice(self.n_components)
        X = self._rows(X, reset=True)
        kept = np.flatnonzero(~np.all(np.isnan(X), axis=0))
        if len(kept) == 0:
            raise ValueError("X holds no value at all; there is nothing to learn from")
        if len(kept) < X.shape[1]:
            empty = np.setdiff1d(np.arange(X.shape[1]), kept)
            shown = ", ".join(str(name) for name in self._names()[empty])
            warn_user(f"there is no value in {shown}; left out", UserWarning)
        self.estimator_ = self._fit_mixture(self.n_components, X[:, kept])
        self._kept = kept
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = MissingIndicator(error_on_new=False).fit(X)
        return self

    def transform(self, X: Table) -> np.ndarray:
        """Fill the gaps; values that are there stay as they are.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap.

        Returns
        -------
        array of shape (p, n)
            Without columns that were empty when the imputer was fitted, and with those of
            ``add_indicator``.
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        rows, mixture = X[:, self._kept], self.estimator_.mixture_
        if self.sample_posterior:
            rng = generator(self.random_state)
            filled = to_numpy(mixture.impute(rows, draws=1, random_state=rng))[0]
        else:
            filled = to_numpy(mixture.impute(rows))
        filled = filled.astype(X.dtype, copy=False)
        if self.indicator_ is None:
            return filled
        return np.hstack([filled, self.indicator_.transform(X)])

    def get_feature_names_out(self, input_features: Table = None) -> np.ndarray:
        """The names of the columns that ``transform`` gives.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names of the columns of X, if they had none.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = self._names() if input_features is None else np.asarray(input_features, object)
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features has {len(names)} names, not {self.n_features_in_}")
        known = vars(self).get("feature_names_in_")
        if known is not None and not np.array_equal(names, known):
            raise ValueError("input_features is not equal to feature_names_in_")
        kept: np.ndarray = names[self._kept]
        if self.indicator_ is None:
            return kept
        return np.concatenate([kept, self.indicator_.get_feature_names_out(names)])

    def _names(self) -> np.ndarray:
        default = np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)
        names: np.ndarray = vars(self).get("feature_names_in_", default)
        return names

    def _rows(self, X: Table, reset: bool) -> np.ndarray:
        return checked_table(self, X, reset=reset, ensure_min_samples=2 if reset else 1)
