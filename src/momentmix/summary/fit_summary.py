"""Everything that a screen, a report or JSON says about one fit, with remarks in sentences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.distributions.units import Units
from momentmix.estimators.base import Table
from momentmix.estimators.inference import InferenceEstimator
from momentmix.fit import Parameters
from momentmix.fitting.background import background_parameters
from momentmix.goodness import LEVEL, Distribution, Match, MomentTest, moment_match, moment_test
from momentmix.goodness.comparison import COMPARISON_WORK
from momentmix.goodness.given import TEST_WORK, UntestableError
from momentmix.goodness.residuals import work_of
from momentmix.logarithms import gain_of_logs
from momentmix.matching.orders import parameter_count
from momentmix.observed import noise_of_errors
from momentmix.selection import Choice, Criterion, MergedComponents, why_no_more
from momentmix.summary.components import (
    counted,
    covariance_matrices,
    feature_variances,
    listed,
    names_of,
    overall_mean_and_deviation,
    percent,
    readable,
)
from momentmix.summary.origin import MeasuredRows, Origin
from momentmix.summary.papers import PaperTable, choices_table, components_table
from momentmix.summary.rows import (
    SURE,
    Assignment,
    ColumnSummary,
    Outliers,
    assignment_of,
    column_summaries,
    far_rows,
    outliers_of,
    with_costs,
)
from momentmix.summary.segments import CrossTable, Segment, cross_tables, segments
from momentmix.support.array import as_float_array, to_numpy, without_masks
from momentmix.support.messages import NoStandardErrors, UncertaintyWarning

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


#: Multiplications that are always allowed, a fraction of a second. A round number: it decides only
#: whether small fits get every remark.
LEAST_WORK = 1e9
#: The work of a search: about this many multiplications for each parameter and row, on at most this
#: many rows. Round estimates without a recorded measurement; they decide how much reports test.
_SEARCH, _SEARCHED_ROWS = 800, 50_000


def affordable(mixture: Mixture, rows: int, least: float = LEAST_WORK) -> float:
    """About as many multiplications as the fit of this many rows takes.

    They follow from sizes, not from a clock, so every machine reports the same about a fit.
    """
    kind, m, n = mixture.atoms.covariance.kind, mixture.n_components, mixture.n_features
    if m == 1:  # there is no search
        return least
    return max(least, float(_SEARCH * min(rows, _SEARCHED_ROWS)) * parameter_count(kind, m, n))


#: At most this many rows, drawn at random, are tested: with very many rows even harmless
#: differences are significant. A round number that was not tuned.
MOST_TESTED_ROWS = 5000
#: Shapes are called alike if the prior has learned more than ALIKE times its customary strength. A
#: round number that was not tuned; it affects a sentence alone.
ALIKE = 2.0
#: Multiplications that tests may always take, less than other remarks may: most are in products of
#: narrow matrices, which are slow. So tests of 300 rows and features take about as long as the fit.
LEAST_TEST_WORK = 2.5e8
#: Draws of the null distribution. A customary number: the smallest p-value is 1/500.
_DRAWS = 499
#: The highest order that is tested: order 4 shows heavy tails, and sentences name no higher order.
_ORDER = 4


def tests_of_fit(mixture: Mixture, X: np.ndarray | None) -> MomentTest | None:
    """The tests; None without rows, with too few rows, or if a component has no width.

    The parameters are taken to be fitted to these rows. If testing all features would take longer
    than the fit, as many as are affordable are drawn at random and tested; None if not even one is.
    """
    if X is None:
        return None
    n = mixture.n_features
    count = affordable_features(mixture, len(X))
    if count == 0:
        return None
    if count < n:
        some = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
        found = tests_of_fit(mixture.marginal(some), X[:, some])
        return found and replace(found, rows=f"{found.rows} of {count} of the {n} columns")
    if len(X) > MOST_TESTED_ROWS:
        X = X[np.random.default_rng(0).choice(len(X), MOST_TESTED_ROWS, replace=False)]
    try:
        return moment_test(mixture, X, _ORDER, n_boot=_DRAWS, random_state=0)
    except (UntestableError, NoStandardErrors):
        return None


def affordable_features(mixture: Mixture, rows: int) -> int:
    """How many of the features can be tested in about the time that the fit of all rows took."""
    most = min(affordable(mixture, rows, LEAST_TEST_WORK), TEST_WORK)
    rows = min(rows, MOST_TESTED_ROWS)
    for n in range(1, mixture.n_features + 1):
        if work_of(mixture, n, rows, _DRAWS, True).of(n, _ORDER) > most:
            return n - 1
    return mixture.n_features


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


#: A component whose smallest variance is below this share of the whole mixture's is called flat. A
#: round number; it affects the remark alone.
_FLAT = 1e-5
#: Two components with a larger Bhattacharyya coefficient nearly coincide. A round number: equal
#: spherical components reach it when their means are 0.64 standard deviations apart.
_SAME = 0.95


def remarks(
    mixture: Mixture,
    rows: int | None = None,
    matches: Sequence[Match] = (),
    collapsed: Sequence[int] = (),
    tests: MomentTest | None = None,
) -> list[str]:
    """Remarks that a reader needs before trusting the mixture.

    Parameters
    ----------
    mixture : Mixture
    rows : int, optional
        The number of rows that it was fitted to, where they are known.
    matches : sequence of Match
        Its moments compared with those of the data.
    collapsed : sequence of int
        Components that the fit has already warned about; they are not mentioned again.
    tests : MomentTest, optional
        Tests of the moments. If given, they and not ``matches`` decide whether moments differ.

    Returns
    -------
    list of str
        One for each problem, naming all the components that have it.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.summary import remarks
    >>> remarks(gm.mixture_, rows=300)
    []
    """
    told = set(collapsed)
    found = [
        _few_rows(mixture, rows, told),
        _flatness(mixture, told),
        _coincidence(mixture),
        _moments_apart(matches) if tests is None else _rejected(tests),
    ]
    return [remark for remark in found if remark]


def collapse_remark(collapsed: Sequence[int]) -> str:
    """The remark on components that the fit has found to be collapsed."""
    many = len(collapsed) > 1
    return (
        f"{_components(sorted(collapsed))} {'have' if many else 'has'} collapsed onto so few rows, "
        f"or rows so much alike, that what {'they look' if many else 'it looks'} like may be "
        "chance. The BIC then means little and is not given. Fewer components or a simpler "
        "covariance type avoid this."
    )


def errors_remark(columns: Sequence[ColumnSummary]) -> str:
    """The remark on error bars that are larger than the spread of the values."""
    large = [column.name for column in columns if column.error_share > 1]
    if not large:
        return ""
    of = f"column{'s' * (len(large) > 1)} {listed(large)}"
    return (
        f"The standard errors of {of} are larger than {'its' if len(large) == 1 else 'their'} "
        "values differ, so nothing is left for the mixture to describe. Are they in the units of "
        "the values, and not variances?"
    )


def _few_rows(mixture: Mixture, rows: int | None, told: set[int]) -> str:
    if rows is None:
        return ""
    kind, n = mixture.atoms.covariance.kind, mixture.n_features
    counts = rows * to_numpy(mixture.weights)
    thin = [int(j) for j in np.flatnonzero(kind.too_few(counts, n)) if j not in told]
    if not thin:
        return ""
    about, many = listed([f"{counts[j]:.0f}" for j in thin]), len(thin) > 1
    own, chance = f"{kind.name} covariance", "their shapes" if many else "its shape"
    less = "Fewer components or a simpler covariance type avoid this."
    if kind.common:
        own, chance = "mean", "they" if many else "it"
        less = "Fewer components avoid this, and so does setting such rows aside as outliers."
    return (
        f"{_components(thin)} {'rest' if many else 'rests'} on few rows (about {about}), "
        f"too few to be sure of a {own} of {counted(n, 'column')}: {chance} may be chance. {less}"
    )


def _flatness(mixture: Mixture, told: set[int]) -> str:
    covariance = mixture.atoms.covariance
    flat = [int(j) for j in np.flatnonzero(_least_width(mixture) < _FLAT) if j not in told]
    if not flat:
        return ""
    who, its = f"{_components(flat)} {'have' if len(flat) > 1 else 'has'}", "Their"
    if covariance.common:
        who = "The covariance that all components share has"
    if covariance.common or len(flat) == 1:
        its = "Its"
    return (
        f"{who} almost no width in some direction, because rows repeat there or columns depend on "
        f"each other. {its} width there is set by the fit's lower limit, not by the data, and so "
        "is much of the likelihood."
    )


def _least_width(mixture: Mixture) -> np.ndarray:
    """The least variance of each component in units of the whole mixture's; (m,).

    The array is (0,) if computing it would take longer than a fit.
    """
    overall = overall_mean_and_deviation(mixture)[1]
    overall = np.where(overall > 0, overall, 1.0)
    if mixture.atoms.covariance.diagonal:
        return np.asarray(np.min(feature_variances(mixture) / overall**2, axis=1))
    if _is_costly(mixture):
        return np.ones(0)
    scaled = covariance_matrices(mixture) / np.outer(overall, overall)
    return np.asarray(np.linalg.eigvalsh(scaled)[:, 0])


def _is_costly(mixture: Mixture) -> bool:
    """Whether eigenvalues or distances of all components would take longer than a fit."""
    m, n = mixture.n_components, mixture.n_features
    return m * m * n**3 > COMPARISON_WORK and not mixture.atoms.covariance.diagonal


def _coincidence(mixture: Mixture) -> str:
    if np.min(feature_variances(mixture)) <= 0 or _is_costly(mixture):
        return ""
    try:
        groups = _groups(closeness(mixture) > _SAME)
    except np.linalg.LinAlgError:
        return ""
    if not groups:
        return ""
    first, *others = groups
    also = f", and so do {listed([listed(group) for group in others])}" if others else ""
    fewer = sum(len(group) - 1 for group in groups)
    number = "one component fewer" if fewer == 1 else "fewer components"
    return f"{_components(first)} nearly coincide{also}; {number} may do as well."


def _groups(joined: np.ndarray) -> list[list[int]]:
    """The connected components of a symmetric relation (m, m) that have more than one member."""
    left, groups = set(range(len(joined))), []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {int(k) for j in new for k in np.flatnonzero(joined[j])} - group
        left -= group
        groups.append(sorted(group))
    return [group for group in groups if len(group) > 1]


def _moments_apart(matches: Sequence[Match]) -> str:
    which = [match.order for match in matches if match.ratio > 3]
    if not which:
        return ""
    return (
        f"The moments of order {listed(which)} differ from those of the data by more than three "
        "times the sampling error: the data have a shape that this mixture does not. More "
        "components, or a richer covariance type, may help."
    )


#: What the tests of orders 1 to 4 look at.
_LOOKS_AT = ("", "means", "widths and correlations", "skewness", "tails")


def _misfits(tests: MomentTest) -> str:
    """What tests reject at 5 % after Bonferroni's correction, each with its p-value."""
    tested = int(np.sum(np.isfinite(tests.p_values)))
    found = [test for test in tests if test.p_value * tested <= LEVEL]
    return ", ".join(f"{_LOOKS_AT[test.order]} p = {readable(test.p_value, 1)}" for test in found)


def _rejected(tests: MomentTest) -> str:
    if not (what := _misfits(tests)):
        return ""
    return (
        f"The mixture does not fit well ({what}). More components, a richer covariance type or "
        "logarithms of columns may help. With many rows, even harmless misfits are detected."
    )


def _components(numbers: Sequence[int]) -> str:
    return f"Component{'s' * (len(numbers) > 1)} {listed(numbers)}"


def closeness(mixture: Mixture) -> np.ndarray:
    """Bhattacharyya coefficients of the components with each other; (m, m).

    ∫ √(f_i f_j) = exp(-dᵀS⁻¹d / 8) (det Σ_i det Σ_j)^¼ / (det S)^½ with S = (Σ_i + Σ_j) / 2 and d
    the difference of the means: 1 for equal components, 0 for separate ones.
    """
    means, diagonal = to_numpy(mixture.means), mixture.atoms.covariance.diagonal
    S = feature_variances(mixture) if diagonal else covariance_matrices(mixture)
    m = len(means)

    def log_det(S: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.log(S), axis=-1) if diagonal else np.linalg.slogdet(S)[1])

    result = np.eye(m)
    for i in range(m - 1):
        middle = (S[i] + S[i + 1 :]) / 2
        d = means[i + 1 :] - means[i]
        solved = d / middle if diagonal else np.linalg.solve(middle, d[:, :, None])[:, :, 0]
        square = np.sum(d * solved, axis=1)
        logs = (log_det(S[i]) + log_det(S[i + 1 :])) / 4 - log_det(middle) / 2 - square / 8
        result[i, i + 1 :] = result[i + 1 :, i] = np.exp(logs)
    return result


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
    clusters : MergedComponents, optional
        Clusters of several components.
    others : mapping of str to array of shape (p,)
        Columns of the table that were not fitted, such as words, at the rows X.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.summary import FitSummary
    >>> summary = FitSummary.from_estimator(gm, X[:300, :2], source="quakes")
    >>> summary.verdict[0]
    '2 components in 300 rows of 2 columns with full covariances.'
    """

    mixture: Mixture
    source: str
    X: np.ndarray | None = None
    moments: MomentTensors | None = None
    seconds: float | None = None
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    collapsed: Sequence[int] = ()
    origin: Origin | None = None
    errors: np.ndarray | None = None
    estimator: InferenceEstimator | None = None
    criterion: Criterion = "bic"
    of_all: AllRows | None = None
    clusters: MergedComponents | None = None
    others: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def from_estimator(
        cls,
        estimator: InferenceEstimator,
        X: ArrayLike,
        source: str = "the data",
        others: Mapping[str, ArrayLike] | None = None,
    ) -> FitSummary:
        """The summary of a fitted estimator and its rows: an array, or a table with names.

        ``others`` are columns that were not fitted, such as a DataFrame of words.
        """
        more = {str(name): np.asarray(cells) for name, cells in dict(others or {}).items()}
        collapsed = list(getattr(estimator, "collapsed_", ()))
        rows = np.asarray(without_masks(X, "X"), dtype=float)
        found = cls(estimator.mixture_, source, X=rows, collapsed=collapsed, estimator=estimator)
        return replace(found, others=more)

    @cached_property
    def units(self) -> Units:
        """Which features are logarithms of a column."""
        return Units.of_features(names_of(self.mixture))

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

    def _rows_of_components(self) -> MeasuredRows | None:
        """The rows that belong to components; None without rows."""
        if self.X is None:
            return None
        rows, odd = MeasuredRows(self.X, self.errors), self.outliers
        return rows if odd is None or odd.rows == 0 else rows.some(~odd.which)

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
        rows = self._rows_of_components()
        if rows is None or len(rows.X) == 0:
            return self.moments
        X = rows.X
        if self.has_gaps:
            filled = self.mixture.impute(X, 1, noise_covariance=rows.noise, random_state=0)
            X = to_numpy(filled)[0]
        if rows.errors is None:
            return Samples(X)
        errors = np.where(np.isnan(rows.X), 0, rows.errors)
        return Samples(X, noise_covariance=noise_of_errors(errors))

    @cached_property
    def log_likelihood(self) -> float | None:
        """The log-likelihood of all rows together."""
        if self.of_all is not None:
            total = self.of_all.log_likelihood
            return total if np.isfinite(total) else None
        if self.X is None:
            return None
        rows = to_numpy(as_float_array(self.X, "X", (2,)))
        total = float(np.sum(to_numpy(self.mixture.log_prob(rows, self.noise))))
        return total + float(np.sum(self.units.log_jacobian(rows)))

    def aic(self, log_likelihood: float) -> float:
        """The AIC of a model of this size with the given log-likelihood."""
        return -2 * log_likelihood + 2 * self.n_parameters

    def bic(self, log_likelihood: float) -> float:
        """The BIC of a model of this size with the given log-likelihood."""
        return -2 * log_likelihood + self.n_parameters * float(np.log(self.rows or 1))

    @property
    def covariance_type(self) -> str:
        """The type that was fitted, if the estimator is known; it may restrict the mixture's."""
        return str(getattr(self.estimator, "covariance_type_", self.mixture.covariance_type))

    @property
    def n_parameters(self) -> int:
        """As the fit counts them; those of a mixture of its type if the estimator is unknown."""
        if self.estimator is not None:
            return self.estimator._n_parameters()
        mixture = self.mixture
        kind = mixture.atoms.covariance.kind
        count = parameter_count(kind, mixture.n_components, mixture.n_features)
        if mixture.background is not None:
            count += background_parameters(mixture.n_features)
        return count

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
        rows = self._rows_of_components()
        return None if rows is None else assignment_of(self.mixture, rows.X, rows.errors)

    @cached_property
    def cross_tables(self) -> list[CrossTable]:
        """The columns that were not fitted and differ between components."""
        if self.X is None or not self.others:
            return []
        labels = to_numpy(self.mixture.predict(self.X, self.noise))
        labels = np.where(np.isnan(self.X).all(axis=1), -1, labels)
        return cross_tables(labels, self.mixture.n_components, self.others)

    @cached_property
    def segments(self) -> list[Segment]:
        """The components in words."""
        return segments(self.mixture, self.cross_tables)

    @cached_property
    def paper_tables(self) -> list[PaperTable]:
        """Tables for papers: of the components, and of the numbers that were compared."""
        tables = [components_table(self)]
        if self.choices and self.X is not None:
            tables.append(choices_table(self.choices, self.X, self.errors))
        return tables

    def summary_frame(self) -> pd.DataFrame:
        """A row for each component: share, rows, AvePP and means, with the ends of intervals."""
        return self.paper_tables[0].to_frame()

    def to_markdown(self) -> str:
        """The tables for papers in Markdown."""
        return "\n".join(table.to_markdown() for table in self.paper_tables)

    def to_latex(self) -> str:
        """The tables for papers in LaTeX, for the package booktabs."""
        return "\n".join(table.to_latex() for table in self.paper_tables)

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
        X, names = self.units.to_data(self.X), names_of(self.mixture)
        found = column_summaries(X, names, origin.gaps, among)
        found = with_costs(found, self.mixture, self.X, self.errors)
        return [one._replace(name=x) for one, x in zip(found, self.units.columns, strict=True)]

    @property
    def shapes(self) -> str:
        """How alike the prior has found the shapes to be; an empty text if it did not look."""
        strength = getattr(self.estimator, "prior_strength_", 0.0)
        if not strength or getattr(self.estimator, "prior", None) != "auto":
            return ""
        kind, n = self.mixture.atoms.covariance.kind, self.mixture.n_features
        times = strength / kind.customary_strength(n)
        if times > ALIKE:
            how = "The shapes of the components are alike"
        elif times < 1:
            how = "The shapes of the components differ"
        else:
            how = "The shapes of the components are about as alike as is usual"
        axes = getattr(self.estimator, "diagonal_strength_", 0.0)
        apart = f", and {axes:,.3g} rows hold them to the axes of the columns" if axes else ""
        return f"{how}: the prior that holds them together counts for {strength:,.3g} rows{apart}."

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
        found += [far] if (far := self._far_remark()) else []
        if self.estimator is not None and (logs := self._logs_remark()):
            found.append(logs)
        agreement = getattr(self.estimator, "agreement_", None)
        if agreement is not None and agreement.agreeing < agreement.starts:
            found.append(agreement.sentence)
        return found

    def _far_remark(self) -> str:
        """The rows that lie farther from every component than chance explains."""
        if self.X is None or self.outliers is not None or len(self.collapsed):
            return ""
        numbers = None if self.origin is None else self.origin.row_numbers
        told = np.flatnonzero(~np.isnan(self.X).all(axis=1))
        numbers = told if numbers is None else numbers[told]
        rows = MeasuredRows(self.X, self.errors).some(told)
        count, worst = far_rows(self.mixture, rows, numbers)
        if count == 0:
            return ""
        row, names = worst[0], names_of(self.mixture)
        return (
            f"{counted(count, 'row')} of {len(told):,} lie{'s' * (count == 1)} farther from every "
            f"component than chance explains. The farthest is row {row.number:,}, counted from 0: "
            f"{names[row.feature]} = {readable(row.values[row.feature])}, "
            f"{abs(row.deviations):.2g} deviations from component {row.component}. Are such rows "
            'right? With outliers="auto" they may belong to no component.'
        )

    @cached_property
    def verdict(self) -> list[str]:
        """Three or four sentences: how many, how sure, does it fit, and what to look at."""
        m, rows, sure = self.mixture.n_components, self.rows, self.assignment
        of = "" if rows is None else f" in {counted(rows, 'row')}"
        how = ""
        if self.choices:
            numbers = [choice.n_components for choice in self.choices]
            by = "a test" if self.criterion == "blrt" else self.criterion.upper()
            how = f", chosen by {by} among {min(numbers)} to {max(numbers)}"
        kind = f" with {self.covariance_type} covariances"
        columns = counted(self.mixture.n_features, "column")
        found = [f"{counted(m, 'component')}{of} of {columns}{kind}{how}."]
        if self.outliers is not None and self.outliers.rows:
            found.append(self.outliers.sentence)
        if sure is not None and sure.rows and m > 1:
            found.append(
                f"{percent(sure.sure / sure.rows).capitalize()} of the rows belong to their "
                f"component with a probability of at least {SURE:g}."
            )
        if self.tests is None:
            found.append("Whether they describe the rows well was not tested.")
        elif what := _misfits(self.tests):
            found.append(f"They do not describe the rows well ({what}).")
        else:
            least = readable(float(np.nanmin(self.tests.p_values)), 2)
            found.append(f"Tests of fit find nothing that chance does not explain (p ≥ {least}).")
        if self.remarks:
            found.append("Read the remarks before you trust it.")
        return found

    def _logs_remark(self) -> str:
        """The skewed columns whose logarithms are shown to describe rows better."""
        rows, gain = self._rows_of_components(), None
        if rows is not None and rows.errors is None and len(rows.X):
            gain = gain_of_logs(self.mixture, rows.X)
        if gain is None:
            return ""
        names = [self.units.columns[i] for i in gain.columns]
        option = ",".join([*np.array(self.units.columns)[self.units.logged], *names])
        return (
            f"Skewed: {listed(names)}. With logarithms there, {gain.rows} rows held out of a trial "
            f"fit are more likely by {gain.nats:.2g} nats each: --log {option} (in Python "
            "LogColumns) takes them."
        )
