"""Everything that a screen, a report or JSON says about one fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.fitting.outliers import background_parameters
from momentmix.goodness import Distribution, Match, MomentTest, moment_match
from momentmix.matching.identifiability import parameter_count
from momentmix.observed import noise_of_errors
from momentmix.selection import Choice, Criterion, why_no_more
from momentmix.summary.assignment import Assignment, assignment_of
from momentmix.summary.columns import ColumnSummary, column_summaries
from momentmix.summary.component import names_of
from momentmix.summary.costs import with_costs
from momentmix.summary.origin import Origin
from momentmix.summary.outliers import Outliers, outliers_of
from momentmix.summary.remark import collapse_remark, errors_remark, remarks
from momentmix.summary.tests_of_fit import tests_of_fit
from momentmix.summary.uncertainty import Uncertainty, uncertainty_of
from momentmix.support.array import to_numpy
from momentmix.support.masks import without_masks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from momentmix.estimators.inference import InferenceEstimator


class Rival(NamedTuple):
    """Another fit of the same rows."""

    name: str
    log_likelihood: float  # of all rows together
    seconds: float


class AllRows(NamedTuple):
    """What is known about all rows, if they are too many to hold in memory."""

    rows: int  # that have a value
    log_likelihood: float  # NaN where a fit was stopped before it was known
    assignment: Assignment | None = None


@dataclass
class FitSummary:
    """Everything that a screen, a report or JSON says about one fit.

    Parameters
    ----------
    mixture : Mixture
    source : str
        The name of the data.
    X : (p, n), optional
        The rows, in which NaN is a gap.
    moments : MomentTensors, optional
        The moments, if there are no rows.
    seconds : float, optional
        The time that the fit took.
    choices : list of Choice
        The numbers of components that were compared.
    rivals : list of Rival
        Other fits of the same rows.
    notes : list of str
        Remarks of the fit itself, such as that it did not converge.
    collapsed : list of int
        Components that have collapsed, according to the fit. Then no BIC is given.
    origin : Origin, optional
        How to repeat the fit, and what was left out.
    errors : (p, n), optional
        Error bars of the values. The mixture describes the values without this noise.
    estimator : estimator, optional
        The fitted estimator, for the standard errors of the parameters.
    criterion : {"bic", "icl", "aic", "cv", "blrt"}
        The criterion by which the choices were compared.
    of_all : AllRows, optional
        What is known about all rows, if X is a sample of them.
    """

    mixture: Mixture
    source: str
    X: np.ndarray | None = None
    moments: MomentTensors | None = None
    seconds: float | None = None
    choices: list[Choice] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    collapsed: Sequence[int] = ()
    origin: Origin | None = None
    errors: np.ndarray | None = None
    estimator: InferenceEstimator | None = None
    criterion: Criterion = "bic"
    of_all: AllRows | None = None

    @classmethod
    def from_estimator(
        cls, estimator: InferenceEstimator, X: ArrayLike, source: str = "the data"
    ) -> FitSummary:
        """The summary of a fitted estimator and its rows: an array, or a table with names."""
        collapsed = list(getattr(estimator, "collapsed_", ()))
        rows = np.asarray(without_masks(X, "X"), dtype=float)
        return cls(estimator.mixture_, source, X=rows, collapsed=collapsed, estimator=estimator)

    def add_scikit_learn(self, random_state: int | np.random.RandomState | None = None) -> None:
        """Fit scikit-learn's EM from ten starts, with its default settings, as a rival.

        It accepts neither gaps nor error bars.
        """
        from sklearn.mixture import GaussianMixture

        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            em = GaussianMixture(
                self.mixture.n_components,
                covariance_type=self.mixture.covariance_type,
                n_init=10,
                random_state=random_state,
            ).fit(self.X)
        seconds = time.perf_counter() - begin
        total = float(np.sum(em.score_samples(self.X)))
        self.rivals.append(Rival("scikit-learn's EM, n_init=10", total, seconds))

    @cached_property
    def rows(self) -> int | None:
        """The number of rows, not counting those without any value."""
        if self.of_all is not None:
            return self.of_all.rows
        if self.X is not None:
            return int(np.sum(~np.isnan(self.X).all(axis=1)))
        return None if self.moments is None else self.moments.count

    @cached_property
    def outliers(self) -> Outliers | None:
        """Rows that belong to no component; None without rows, or if the fit did not look."""
        asked = getattr(self.estimator, "outliers", None) is not None
        if self.X is None or not (asked or self.mixture.background is not None):
            return None
        numbers = None if self.origin is None else self.origin.row_numbers
        return outliers_of(self.mixture, self.X, self.errors, numbers)

    @property
    def members(self) -> int | None:
        """The number of rows that belong to components."""
        if self.rows is None or self.outliers is None:
            return self.rows
        return self.rows - self.outliers.rows

    def _members(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The rows that belong to components, and their error bars."""
        if self.X is None or self.outliers is None or self.outliers.rows == 0:
            return self.X, self.errors
        kept = ~self.outliers.which
        return self.X[kept], None if self.errors is None else self.errors[kept]

    @cached_property
    def has_gaps(self) -> bool:
        return self.X is not None and bool(np.isnan(self.X).any())

    @property
    def noise(self) -> np.ndarray | None:
        """The error bars as noise variances."""
        return None if self.errors is None else noise_of_errors(self.errors)

    @cached_property
    def data(self) -> Distribution | None:
        """The data whose moments are compared with those of the mixture, if there are any.

        Outliers are left out. Gaps are filled at random given the other values of the row, so that
        the rows have the moments of the mixture if it is right. The moments are debiased for
        the noise of the values.
        """
        rows, errors = self._members()
        if rows is None or len(rows) == 0:
            return self.moments
        X, noise = rows, None if errors is None else noise_of_errors(errors)
        if self.has_gaps:
            filled = self.mixture.impute(X, 1, noise_covariance=noise, random_state=0)
            X = to_numpy(filled)[0]
        if errors is None:
            return Samples(X)
        return Samples(X, noise_covariance=noise_of_errors(np.where(np.isnan(rows), 0, errors)))

    @cached_property
    def log_likelihood(self) -> float | None:
        """The log-likelihood of all rows together."""
        if self.of_all is not None:
            total = self.of_all.log_likelihood
            return total if np.isfinite(total) else None
        if self.X is None:
            return None
        return float(np.sum(to_numpy(self.mixture.log_prob(self.X, self.noise))))

    def aic(self, log_likelihood: float) -> float:
        """The AIC of a model of this size with the given log-likelihood."""
        return -2 * log_likelihood + 2 * self.n_parameters

    def bic(self, log_likelihood: float) -> float:
        """The BIC of a model of this size with the given log-likelihood."""
        return -2 * log_likelihood + self.n_parameters * float(np.log(self.rows or 1))

    @property
    def n_parameters(self) -> int:
        mixture = self.mixture
        kind = mixture.atoms.covariance.kind
        count = parameter_count(kind, mixture.n_components, mixture.n_features)
        return (
            count
            if mixture.background is None
            else count + background_parameters(mixture.n_features)
        )

    @cached_property
    def matches(self) -> list[Match]:
        return [] if self.data is None else moment_match(self.mixture, self.data)

    @cached_property
    def tests(self) -> MomentTest | None:
        """Tests of whether the mixture fits the rows; None if they cannot be tested.

        Rows with error bars cannot be tested.
        """
        return None if self.errors is not None else tests_of_fit(self.mixture, self.X)

    @cached_property
    def assignment(self) -> Assignment | None:
        """How surely the rows, outliers apart, belong to their components; None without rows."""
        if self.of_all is not None and self.of_all.assignment is not None:
            return self.of_all.assignment
        X, errors = self._members()
        return None if X is None else assignment_of(self.mixture, X, errors)

    @cached_property
    def uncertainty(self) -> Uncertainty | None:
        """Standard errors of the parameters, if the estimator can give them."""
        data = self.moments if self.X is None else self.X
        if self.estimator is None or data is None:
            return None
        share = 1.0
        if self.of_all is not None and self.X is not None:
            share = len(self.X) / max(self.of_all.rows, 1)
        return uncertainty_of(self.estimator, data, self.noise, share)

    @cached_property
    def columns(self) -> list[ColumnSummary]:
        """A summary of each column; empty without rows."""
        if self.X is None:
            return []
        origin = self.origin or Origin()
        among = origin.rows_read
        if self.of_all is not None and origin.rows_dropped == origin.rows_empty:
            among = self.of_all.rows
        found = column_summaries(self.X, names_of(self.mixture), origin.gaps, among)
        return with_costs(found, self.mixture, self.X, self.errors)

    @property
    def limit(self) -> str:
        """A sentence if the best number is the largest that was tried; else an empty text."""
        return why_no_more(self.choices, self.rows or 0, self.criterion)

    @cached_property
    def remarks(self) -> list[str]:
        found = list(self.notes)
        if len(self.collapsed) and not any("BIC" in note for note in self.notes):
            found.append(collapse_remark(self.collapsed))
        if self.choices and (limit := self.limit):
            found.append(limit)
        if self.errors is not None and (large := errors_remark(self.columns)):
            found.append(large)
        matches = self.matches if self.tests is None else []
        found += remarks(self.mixture, self.members, matches, self.collapsed, self.tests)
        agreement = getattr(self.estimator, "agreement_", None)
        if agreement is not None and agreement.agreeing < agreement.starts:
            found.append(agreement.sentence)
        return found
