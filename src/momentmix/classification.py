"""MixtureClassifier: a Gaussian mixture for each class."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from momentmix.covariance import COVARIANCE_TYPES, CovarianceName, covariance_type
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import Table, checked_table, checked_weights
from momentmix.estimators.gaussian_mixture import GaussianMixture, plan_likelihood
from momentmix.fitting.labelled import labelled_problem
from momentmix.fitting.plan import Sizes
from momentmix.rows.data import RowData, rows_to_fit
from momentmix.rows.frame import distinct_rows
from momentmix.selection.select import ChoosesComponents
from momentmix.support.array import to_numpy
from momentmix.support.checks import number, one_of, whole_number
from momentmix.support.messages import CollapseWarning, warn_user
from momentmix.support.parallel import thread_limit
from momentmix.support.stopping import stoppable, stopped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Self

#: A number of components, or "auto" for the one with the lowest BIC.
Number: TypeAlias = int | Literal["auto"]


@dataclass(eq=False, repr=False)
class MixtureClassifier(ClassifierMixin, ChoosesComponents, BaseEstimator):
    """Classify rows by a Gaussian mixture for each class.

    A row belongs to the class under which it is most probable. Linear and quadratic discriminant
    analysis do the same with one Gaussian a class. Here a class may consist of several groups, rows
    may have gaps, and small classes borrow strength for their covariances from the others.

    Parameters
    ----------
    n_components : int, "auto" or mapping, default=1
        The number of components of each class, or a mapping from each class to its number. "auto"
        raises it from 1, up to ``max_components``, as long as that lowers the BIC of the class. A
        class with fewer rows than components is an error; one with fewer rows that differ has as
        many components as those.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"}, \
            default="full"
        The shapes of the components. With one component a class, "full" is quadratic discriminant
        analysis, "tied", one covariance for the components of all classes, is linear discriminant
        analysis, and "diag" is Gaussian naive Bayes, with variances that classes share if
        it is "tied-diag". With more components, "tied" is the mixture
        discriminant analysis of [1]_, and "full" what mclust calls MclustDA [2]_.
    max_components : int, default=5
        The largest number that "auto" tries.
    priors : array of shape (n_classes,), optional
        The probability of each class before a row is seen, in the order of ``classes_``. By default
        it is the share of the class in y.
    prior : {"auto", None} or float, default="auto"
        How firmly the covariances of all components of all classes are held together, as a number
        of rows. "auto" is 3n - 1 for full covariances of n features and 2 for diag and spherical,
        as in :class:`GaussianMixture`. So the covariance of a class with many rows is its own, and
        that of a class with few is nearly one that all classes share. None lets each class stand
        alone; then a class needs more rows than there are features.
    random_state : int, RandomState or None, default=None
        The seed of the search for several components.
    verbose : int, default=0
        1 shows a progress bar for each class with several components.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    mixtures_ : list of Mixture
        The mixture of each class.
    priors_ : ndarray of shape (n_classes,)
        The probability of each class before a row is seen.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Their names, where they all have one.

    See Also
    --------
    GaussianMixture : Finds groups without knowing classes.
    MixtureRegressor : Predicts numbers.

    Notes
    -----
    The mixtures of all classes are fitted together: EM maximises the likelihood of the rows, each
    under the components of its own class, less the penalty of the prior on how the covariances of
    all components differ. With several components, each class is first searched alone. With one
    component and without gaps or a prior, the estimates are means and covariances (divided by the
    number of rows) of each class. If X has gaps, the likelihood is that of the values that are
    there, in fits and in predictions; a row without any value gets the priors. If some class has no
    extent in some direction, there is a CollapseWarning that names it.

    References
    ----------
    .. [1] T. Hastie and R. Tibshirani, "Discriminant Analysis by Gaussian Mixtures", Journal of the
       Royal Statistical Society, Series B, 58, 1996.
    .. [2] C. Fraley and A. E. Raftery, "Model-Based Clustering, Discriminant Analysis, and Density
       Estimation", Journal of the American Statistical Association, 97, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MixtureClassifier
    >>> rng = np.random.default_rng(0)
    >>> inner = rng.normal(0, 0.5, (100, 2))
    >>> outer = rng.normal(0, 0.5, (100, 2)) + np.repeat([[-3, 0], [3, 0]], 50, axis=0)
    >>> X, y = np.vstack([inner, outer]), ["inner"] * 100 + ["outer"] * 100
    >>> model = MixtureClassifier({"inner": 1, "outer": 2}, random_state=0).fit(X, y)
    >>> model.predict([[0.2, 0.1], [-3.1, 0.4], [2.8, np.nan]]).tolist()
    ['inner', 'outer', 'outer']
    """

    n_components: Number | Mapping[Any, Number] = 1
    _: KW_ONLY
    covariance_type: CovarianceName = "full"
    max_components: int = 5
    priors: ArrayLike | None = None
    prior: float | Literal["auto"] | None = "auto"
    random_state: object = None
    verbose: int = 0
    n_jobs: int | None = None

    def fit(self, X: Table, y: Table, sample_weight: Table = None) -> Self:
        """Fit the mixtures of all classes.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap. A row without any value counts for its class alone.
        y : array of shape (p,)
            The class of each row.
        sample_weight : array of shape (p,), optional
            How many times each row counts.

        Returns
        -------
        self
        """
        one_of("covariance_type", self.covariance_type, COVARIANCE_TYPES)
        whole_number("max_components", self.max_components, 1)
        if self.prior is not None:
            number("prior", self.prior, 0, "auto")
        if np.ma.is_masked(y):
            raise ValueError("y has masked entries; leave out the rows whose class is not known")
        X, y = checked_table(self, X, y)
        check_classification_targets(y)
        counts = np.ones(len(X))
        if sample_weight is not None:
            counts = checked_weights(sample_weight, X)
        self.classes_, labels = np.unique(y, return_inverse=True)
        totals = np.bincount(labels, weights=counts, minlength=len(self.classes_))
        if not np.all(totals > 0):
            empty = self.classes_[np.argmin(totals)]
            raise ValueError(
                f"class {empty} has no row with a positive sample_weight; leave it out"
            )
        self.priors_ = self._class_priors(totals)
        members = [np.flatnonzero((labels == k) & (counts > 0)) for k in range(len(totals))]
        with thread_limit(self.n_jobs), stoppable():
            self._fit_classes(X, None if sample_weight is None else counts, members)
        self._dtype = X.dtype.type
        return self

    def _fit_classes(
        self, X: np.ndarray, counts: np.ndarray | None, members: list[np.ndarray]
    ) -> None:
        """Fit each class with several components alone, and then all classes together."""
        tables: list[tuple[np.ndarray, np.ndarray | None]] = [
            (X[rows], None if counts is None else counts[rows]) for rows in members
        ]
        numbers = [_at_most(m, *table) for m, table in zip(self._numbers(), tables, strict=True)]
        of_class = zip(self.classes_, tables, numbers, strict=True)
        parts = [self._data(name, *table, m) for name, table, m in of_class]
        starts = [self._search(*table, m) for table, m in zip(tables, numbers, strict=True)]
        sizes = [1 if start is None else start.n_components for start in starts]
        every = np.sort(np.concatenate(members))
        whole = rows_to_fit(X[every], None if counts is None else counts[every], 1)
        settings = GaussianMixture(sum(sizes), **self._settings())
        plan = plan_likelihood(settings, Sizes(X.shape[1], len(every), place="memory"), None)
        problem = labelled_problem(whole, parts, sizes, plan)
        result = problem.solve(starts, plan)
        self.mixtures_ = problem.mixtures(result, vars(self).get("feature_names_in_"))
        if stopped():
            warn_user("the fit was interrupted; the mixtures are the best so far")
        elif not result.converged:
            warn_user(f"the fit did not converge in {plan.max_iter} iterations")
        flat = problem.flat(result)
        if np.any(flat):
            shown = ", ".join(map(str, self.classes_[flat]))
            warn_user(
                f"components of class {shown} have no extent in some direction, where rows are "
                "few, share a value, or columns depend on each other; their probabilities may be "
                "chance. Use a prior, a simpler covariance_type, or fewer columns",
                CollapseWarning,
            )

    def _search(self, X: np.ndarray, counts: np.ndarray | None, m: Number) -> Mixture | None:
        """A start for one class; None for one component, which needs no search."""
        if m == 1 or len(X) == 1:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)  # the joint fit may mend it
            mixture: Mixture = self._fit_mixture(m, X, counts).mixture_
        return mixture if mixture.n_components > 1 else None

    def _numbers(self) -> list[Number]:
        """The number of components of each class."""
        given = self.n_components
        if not isinstance(given, Mapping):
            whole_number("n_components", given, 1, "auto")
            return [given] * len(self.classes_)
        classes = self.classes_.tolist()
        if set(given) != set(classes):
            raise ValueError(
                f"n_components must have a number for each of the classes {classes}, and for no "
                f"other; it has one for {list(given)}"
            )
        for name, m in given.items():
            whole_number(f"n_components[{name!r}]", m, 1, "auto")
        return [given[name] for name in classes]

    def _class_priors(self, totals: np.ndarray) -> np.ndarray:
        if self.priors is None:
            return np.asarray(totals / totals.sum())
        priors = np.array(self.priors, dtype=np.float64)
        if priors.shape != totals.shape:
            raise ValueError(
                f"priors must have the shape {totals.shape}, one number for each class, got "
                f"{priors.shape}"
            )
        if not np.all(priors >= 0) or abs(priors.sum() - 1) > 1e-6:
            raise ValueError(f"priors must not be negative and sum to 1, got {priors.tolist()}")
        return priors / priors.sum()

    def _data(self, name: object, X: np.ndarray, counts: np.ndarray | None, m: Number) -> RowData:
        """The rows of one class as data of a fit."""
        names = vars(self).get("feature_names_in_")
        try:
            return rows_to_fit(X, counts, 1 if m == "auto" else m, names=names)
        except ValueError as error:
            raise ValueError(f"class {name}: {error}") from error

    def decision_function(self, X: Table) -> np.ndarray:
        """The logarithm of prior times density of each class, up to a constant of the row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.

        Returns
        -------
        array of shape (p, n_classes), or (p,) for two classes
            For two classes, the value of the second less that of the first, so that a positive
            number means the second.
        """
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs

    def predict(self, X: Table) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.

        Returns
        -------
        array of shape (p,)
        """
        logs = self.predict_log_proba(X)
        return np.asarray(self.classes_[logs.argmax(axis=1)])

    def predict_proba(self, X: Table) -> np.ndarray:
        """The probability of each class for each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.

        Returns
        -------
        array of shape (p, n_classes)
            Each row sums to 1.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Table) -> np.ndarray:
        """The logarithm of the probability of each class for each row.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.

        Returns
        -------
        array of shape (p, n_classes)
        """
        check_is_fitted(self)
        X = checked_table(self, X, reset=False)
        logs, ends = to_numpy(self._whole().log_odds(X)).astype(np.float64), [0]
        for mixture in self.mixtures_:
            ends.append(ends[-1] + mixture.n_components)
        parts = [logs[:, a:b] for a, b in pairwise(ends)]
        joint = np.stack([np.logaddexp.reduce(part, axis=1) for part in parts], axis=1)
        # If all densities underflow to 0, the row does not favour any class.
        joint[np.all(joint == -np.inf, axis=1)] = 0.0
        return log_softmax(joint, axis=1).astype(np.result_type(X, self._dtype), copy=False)

    def _whole(self) -> Mixture:
        """The mixture of the rows of all classes."""
        parts, kind = self.mixtures_, self.mixtures_[0].covariance_type
        shares = zip(self.priors_, parts, strict=True)
        weights = np.concatenate([share * to_numpy(part.weights) for share, part in shares])
        covariances = [to_numpy(part.covariances) for part in parts]
        common = covariance_type(kind).common
        together = covariances[0] if common else np.concatenate(covariances)
        means = np.concatenate([to_numpy(part.means) for part in parts])
        return Mixture(weights, means, together, kind)

    def score(self, X: Table, y: Table, sample_weight: Table = None) -> float:
        """The share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        y : array
            The class of each row.
        sample_weight : array of shape (p,), optional
            How many times each row counts.

        Returns
        -------
        float
        """
        return float(super().score(X, y, sample_weight))  # type: ignore[no-untyped-call]


def _at_most(m: Number, X: np.ndarray, counts: np.ndarray | None) -> Number:
    """No more components than rows that differ, of a class that has rows enough."""
    X = X[~np.all(np.isnan(X), axis=1)]
    rows = len(X) if counts is None else max(len(X), counts.sum())
    if m == "auto" or m > rows or len(X) == 0:
        return m
    return min(m, len(distinct_rows(X.astype(np.float64), None)[0]))
