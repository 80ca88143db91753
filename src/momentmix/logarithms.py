"""LogColumns: logarithms of skewed columns as a step of a pipeline, and whether they pay."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from momentmix.covariance import CovarianceName
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.units import Units, log_for, rounded_like
from momentmix.estimators.base import Table, checked_table
from momentmix.estimators.gaussian_mixture import GaussianMixture

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

#: A gain in held-out likelihood counts if it is more than _SURE of its standard errors. No row
#: counts for more than _MOST nats, e³ = 20 times as likely: a few far rows gain so much that their
#: spread would hide what all others say. Round numbers.
_SURE, _MOST = 3.0, 3.0
#: A column is no candidate if one value, such as 0, has more than this share of its rows: it has a
#: spike in any units, and then the likelihood says little about them. A round number.
_MOST_ALIKE = 0.2
#: Rows of the trial of logarithms, half of them to fit and half held out; and the fewest rows for
#: each component. Round numbers that bound its time to less than that of the fit it follows.
_TRIED, _FEWEST = 1000, 20


class LogColumns(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Take natural logarithms of skewed columns, such as money, counts and durations.

    Gaussians are symmetric, and these columns are not. A column that holds zeros becomes
    log(1 + x), any other log(x). All other columns stay as they are, and so do gaps (NaN).

    Parameters
    ----------
    columns : "auto" or sequence of str or int, default="auto"
        The columns to take logarithms of, by name or position. "auto" takes those without negative
        values of which one Gaussian in logarithms makes rows that it has not seen surely more
        likely than one Gaussian in the column's own units.

    Attributes
    ----------
    columns_ : ndarray of int
        The positions of these columns.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, where they all have one.

    See Also
    --------
    GaussianMixture : What is usually fitted next.

    Notes
    -----
    ``inverse_transform`` gives means, ends of intervals and samples in the units of the columns. A
    mean of logarithms comes back as the geometric mean, which is the median of the component. A log
    density comes back with ``log_jacobian``: add it to ``score_samples``.

    The features are called ``log(x)`` and ``log1p(x)``. A model file that has these names works
    with the command on tables that hold x.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import GaussianMixture, LogColumns
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.exp(rng.normal(8, 1, 500)), rng.normal(40, 9, 500)])
    >>> pipe = make_pipeline(LogColumns(), GaussianMixture(1)).fit(X)
    >>> pipe[0].get_feature_names_out().tolist()
    ['log(x0)', 'x1']
    >>> pipe[0].inverse_transform(pipe[1].means_).round(-2).tolist()
    [[2900.0, 0.0]]
    >>> in_dollars = pipe.score_samples(X) + pipe[0].log_jacobian(X)
    """

    def __init__(self, columns: Literal["auto"] | Sequence[str | int] = "auto") -> None:
        self.columns = columns

    def fit(self, X: Table, y: object = None) -> Self:
        """Find the columns, and which of them hold zeros.

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
        X = checked_table(self, X, reset=True)
        names = list(map(str, super().get_feature_names_out()))  # type: ignore[no-untyped-call]
        if isinstance(self.columns, str):
            if self.columns != "auto":
                raise ValueError(f"columns must be 'auto' or a list, got {self.columns!r}")
            chosen = skewed_columns(X)
        else:
            chosen = [_position(column, names) for column in self.columns]
        logs = {i: log_for(names[i], float(np.nanmin(X[:, i]))) for i in chosen}
        self.columns_ = np.array(chosen, dtype=int)
        self.units_ = Units(names, [logs.get(i, "") for i in range(len(names))])
        return self

    def transform(self, X: Table) -> np.ndarray:
        """Take the logarithms.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap.

        Returns
        -------
        array of shape (p, n)
        """
        check_is_fitted(self)
        X = checked_table(self, X, reset=False)
        Z = self.units_.from_data(X)
        bad = np.argwhere(~np.isfinite(Z) & np.isfinite(X))
        if len(bad):
            row, i = bad[0]
            raise ValueError(
                f"row {row} has {X[row, i]:g} in column {self.units_.columns[i]}, which has no "
                f"{self.units_.features[i]}; leave out the row, or this column of LogColumns"
            )
        return Z

    def inverse_transform(self, X: Table, like: Table = None) -> np.ndarray:
        """Means, ends of intervals or samples in the units of the columns.

        Parameters
        ----------
        X : array of shape (q, n)
            Rows in logarithms.
        like : array of shape (p, n), optional
            Rows in the units of the columns, whose rounding and range samples take over.

        Returns
        -------
        array of shape (q, n)
        """
        check_is_fitted(self)
        found = self.units_.to_data(np.asarray(X))
        return found if like is None else rounded_like(found, np.asarray(like))

    def log_jacobian(self, X: Table) -> np.ndarray:
        """What to add to log densities of logarithms to get those of the columns.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows in the units of the columns.

        Returns
        -------
        array of shape (p,)
        """
        return self.units_.log_jacobian(self.transform(X))

    def get_feature_names_out(self, input_features: Table = None) -> np.ndarray:
        """The names of the features: ``log(x)`` or ``log1p(x)`` for those in logarithms.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names of the columns of X, if they had none.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)  # type: ignore[no-untyped-call]
        return np.array(Units(names, self.units_.logs).features, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.allow_nan = True
        return tags


def _position(column: str | int, names: Sequence[str]) -> int:
    at = names.index(column) if column in names else column
    if not isinstance(at, (int, np.integer)) or not 0 <= at < len(names):
        raise ValueError(f"there is no column {column!r}; X has {', '.join(names[:30])}")
    return int(at)


def skewed_columns(X: np.ndarray) -> list[int]:
    """Columns of X (p, n) that one Gaussian describes surely better in logarithms.

    Its mean and variance come from every other row, and the density of the rest decides, in the
    units of the column: log N(log x; m, s²) - log x against log N(x; M, S²).
    """
    found = []
    for i, column in enumerate(X.T):
        x = column[~np.isnan(column)]
        alike = np.unique(x, return_counts=True)[1].max(initial=0)
        if len(x) < _FEWEST or x.min() < 0 or alike > _MOST_ALIKE * len(x):
            continue
        z = np.log1p(x) if x.min() == 0 else np.log(x)
        if _is_sure(_held_out(z) - z[1::2] - _held_out(x)):
            found.append(i)
    return found


def _is_sure(gain: np.ndarray) -> bool:
    """Whether the mean gain of rows is above 0 by more than chance explains."""
    gain = np.minimum(gain, _MOST)
    return bool(gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)))


def _held_out(x: np.ndarray) -> np.ndarray:
    """The log density at every other row of a Gaussian that is fitted to the rest."""
    mean, variance = x[::2].mean(), max(x[::2].var(), np.finfo(float).tiny)
    return np.asarray(-(np.log(2 * np.pi * variance) + (x[1::2] - mean) ** 2 / variance) / 2)


class Gain(NamedTuple):
    """What logarithms of some columns gain on rows held out."""

    columns: list[int]
    nats: float  # a row
    rows: int  # held out


def gain_of_logs(mixture: Mixture, X: np.ndarray) -> Gain | None:
    """Whether a mixture of this size does surely better with logarithms of its skewed columns.

    Half of some rows X (p, n) are fitted as they are and in logarithms, and the density of the
    other half in the units of the columns decides. None if it does not rise surely.
    """
    m = mixture.n_components
    if len(X) > _TRIED:
        X = X[np.random.default_rng(0).choice(len(X), _TRIED, replace=False)]
    X = X[~np.isnan(X).all(axis=1)]
    logged = Units.of_features(mixture.feature_names or [""] * X.shape[1]).logged
    columns = [i for i in skewed_columns(X) if not logged[i]]
    if not columns or len(X) < 2 * _FEWEST * m:
        return None
    logs = LogColumns(columns).fit(X)
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for Z in (X, logs.transform(X)):
            kind = cast(CovarianceName, mixture.covariance_type)
            fit = GaussianMixture(m, covariance_type=kind, n_init=1, random_state=0)
            scores.append(fit.fit(Z[::2]).score_samples(Z[1::2]))
    gain = scores[1] + logs.log_jacobian(X)[1::2] - scores[0]
    return Gain(columns, float(gain.mean()), len(gain)) if _is_sure(gain) else None
