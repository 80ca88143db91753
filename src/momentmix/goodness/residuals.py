"""Does a mixture fit its rows? A test for the moments of each order.

The residuals of the rows under the mixture have mean zero if it fits. With h(x) the Hermite
polynomials of a row, standardised by its component, the residual of a row is e(x) = h(x) - B s(x).
Here s(x) is the score of the parameters, and B s(x) the part of h(x) that changes of the parameters
explain: B = E[h sᵀ] E[s sᵀ]⁻¹, the regression of h on s under the mixture. To first order the mean
of e is then the same for every good estimate of the parameters (Neyman's C(α) tests).

Both h and s are computed after rows far out were pulled in towards their components, so that no
row counts for more than a few hundred others. Otherwise five absurd rows among thousands would
dominate the variance of the mean and hide every other misfit.

The null distribution comes from random signs of the residuals, or from refits of drawn tables.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.fit import Parameters
from momentmix.fitting.information import Directions, row_scores
from momentmix.goodness.given import (
    UntestableError,
    Work,
    blocks_of_rows,
    drawn_in,
    excess,
    hermite_features,
    lengths,
    mean_residual,
    null_draws,
    order_to_test,
    rows_to_test,
    tested_mixture,
)
from momentmix.goodness.results import MomentTest, fit_sentence, tests_by_order
from momentmix.matching.orders import parameter_count
from momentmix.observed import ObservedRows
from momentmix.rows.data import data_of
from momentmix.rows.frame import Frame
from momentmix.rows.incomplete import CompletedRows, IncompleteRows, shifts_of_gaps
from momentmix.rows.memory import Expectations, MemoryRows
from momentmix.support.array import ArrayLike, to_numpy
from momentmix.support.checks import generator, one_of, whole_number
from momentmix.support.messages import Progress
from momentmix.support.parallel import parallel_map, thread_limit, worker_count
from momentmix.support.stopping import stoppable
from momentmix.tensors.packed import order_slice, total_size

if TYPE_CHECKING:
    from momentmix.estimators.base import MixtureEstimator


#: Rows drawn from the mixture to estimate B: at least the first number, and the second for each
#: parameter. Round numbers; p-values are corrected for the error of B (``Explained.exact``).
DRAWN_ROWS, DRAWN_ROWS_EACH = 10_000, 20
#: Fits with more parameters P are not tested. The regression takes 20 P³ multiplications, which are
#: 5e11 at this round number.
MOST_PARAMETERS = 3000
#: Rows that belong to a component with a smaller probability are skipped there. It is close to the
#: rounding of float64, so results change by no more than rounding.
NEGLIGIBLE = 1e-15
#: How often each gap is filled at random; the fills are averaged. A round number that was not
#: tuned: more fills take longer and add less noise to the test.
FILLS = 10
#: A component whose smallest variance is below this share of its largest cannot be tested. About a
#: hundred times the rounding of float64.
_FLAT = 1e-14
#: Directions of parameters whose eigenvalue of E[s sᵀ] is below this share of the largest explain
#: nothing. It lies well above rounding and was not tuned.
_SINGULAR = 1e-10


class StandardRows(NamedTuple):
    """Rows in the coordinates of a mixture."""

    Z: np.ndarray  # (fills, p, n), gaps filled at random as many times; once if there are none
    observed: ObservedRows | None  # rows with gaps, in the units of the features; None if complete
    shifts: np.ndarray  # (p,), from log densities in those units to log densities here; or empty

    def take(self, rows: slice) -> StandardRows:
        """Some of the rows."""
        if self.observed is None:
            return StandardRows(self.Z[:, rows], None, self.shifts)
        part = self.observed.take(np.arange(rows.start, rows.stop))
        return StandardRows(self.Z[:, rows], part, self.shifts[rows])

    def in_memory(self, kind: Kind, frame: Frame) -> MemoryRows:
        """The observed values, as a fit has them."""
        if self.observed is None:
            return MemoryRows(self.Z[0], None, kind)
        completed = CompletedRows(self.observed, self.Z[0], self.shifts)
        return IncompleteRows(completed, None, kind, to_features=frame.to_features)


class Standardised:
    """Rows as a mixture sees them: each from its component, in units of that one's covariance.

    With z_j the row in coordinates in which component j is standard, r_j its probability, and He
    Hermite polynomials, h(x) = Σ_j r_j(x) He(z_j(x)). Under the mixture the mean of h is zero in
    every order, whatever the components, as E[r_j He(z_j)] is λ_j times a mean under component j.
    Rows are first standardised by the covariance of the whole mixture, and roots of matrices are
    symmetric, so results do not depend on units, nor, for full and tied covariances, on linear
    maps.
    """

    def __init__(self, mixture: Mixture, order: int) -> None:
        self.mixture, self.order, self.n = mixture, order, mixture.n_features
        self.kind, self.size = mixture.atoms.covariance.kind, total_size(self.n, order)
        self.frame = data_of(mixture).frame(self.kind)
        self.parameters = self.frame.forward(Parameters.of(mixture))
        covariance = self.kind.of(self.parameters.covariances, self.n)
        m = mixture.n_components
        matrices = np.broadcast_to(to_numpy(covariance.matrices()), (m, self.n, self.n))
        values, vectors = np.linalg.eigh(matrices)
        flat = np.flatnonzero(values[:, 0] <= _FLAT * np.maximum(values[:, -1], 1))
        if len(flat):
            raise UntestableError(
                f"component {flat[0]} has no width in some direction, so that it has no density "
                "to test; fit with a larger reg_covar, or drop columns that depend on others"
            )
        self.whiteners = (vectors / np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
        self.directions = Directions(self.kind, self.parameters)
        self.reach, self.stretch, self.expected = drawn_in(self.n, order)

    @property
    def matched(self) -> np.ndarray:
        """Which orders every fit of this type matches, because their h are scores; (order + 1,)."""
        any_width = self.directions.tangent.size == self.n * (self.n + 1) // 2
        return np.arange(self.order + 1) <= (2 if any_width else 1)

    def rows(self, X: np.ndarray, rng: np.random.Generator) -> StandardRows:
        """Rows of X in these coordinates; gaps are filled at random, given the other values."""
        if not np.isnan(X).any():
            return StandardRows(self.frame.apply(X)[None], None, np.empty(0))
        filled = to_numpy(self.mixture.impute(X, FILLS, random_state=rng))
        return self._with_gaps(X, filled)

    def draw(self, count: int, seen: np.ndarray | None, rng: np.random.Generator) -> StandardRows:
        """Rows drawn from the mixture, with the gaps of rows drawn from ``seen`` (p, n), if any.

        Gaps are filled twice, with the drawn values and with independent ones given the rest.
        """
        X = to_numpy(self.mixture.sample(count, rng)[0]).astype(np.float64)
        if seen is None:
            return StandardRows(self.frame.apply(X)[None], None, np.empty(0))
        shown = seen[rng.integers(len(seen), size=count)]
        gaps = np.where(shown, X, np.nan)
        other = to_numpy(self.mixture.impute(gaps, 1, random_state=rng))
        return self._with_gaps(gaps, np.concatenate([X[None], other]))

    def _with_gaps(self, X: np.ndarray, filled: np.ndarray) -> StandardRows:
        table, frame = ObservedRows(X), self.frame
        observed = table.scale(frame.centre, frame.units)
        return StandardRows(frame.apply(filled), observed, shifts_of_gaps(table, frame))

    def features(self, rows: StandardRows) -> np.ndarray:
        """h(x) for each row, averaged over the ways its gaps are filled; (p, N)."""
        return sum(map(self.features_of, rows.Z), start=np.zeros(())) / len(rows.Z)

    def features_of(self, Z: np.ndarray) -> np.ndarray:
        """h(x) for each of some complete rows; (p, N)."""
        total = np.zeros((len(Z), self.size))
        R = MemoryRows(Z, None, self.kind).responsibilities(self.parameters)[0]
        for r, mean, whitener in zip(R.T, self.parameters.means, self.whiteners, strict=True):
            own = np.flatnonzero(r > NEGLIGIBLE)
            z = (Z[own] - mean) @ whitener
            total[own] += r[own, None] * hermite_features(z * self._factors(z), self.order)
        return total - self.expected

    def scores(self, rows: StandardRows) -> np.ndarray:
        """The score of the observed values of each row; (p, P)."""
        return row_scores(rows.in_memory(self.kind, self.frame), self.directions, self._near)

    def _near(self, behind: Expectations) -> Expectations:
        """The same expectations, with rows far out pulled in."""
        deviations = [
            D * self._factors(D @ W) for D, W in zip(behind.deviations, self.whiteners, strict=True)
        ]
        return behind._replace(deviations=np.array(deviations))

    def _factors(self, z: np.ndarray) -> np.ndarray:
        """The factors that pull standardised rows (p, n) in; (p, 1)."""
        far = np.sqrt(np.sum(z * z, axis=1, keepdims=True)) / self.reach
        return self.stretch / np.maximum(far, 1.0)


def rows_drawn(parameters: int) -> int:
    """How many rows to draw to learn what this many parameters explain."""
    return max(DRAWN_ROWS, DRAWN_ROWS_EACH * parameters)


def work_of(mixture: Mixture, n: int, rows: int, draws: int, estimated: bool) -> Work:
    """The work of a test of n features, roughly."""
    m, kind = mixture.n_components, mixture.atoms.covariance.kind
    parameters = parameter_count(kind, m, n) if estimated else 0
    drawn = rows_drawn(parameters) if estimated else 0
    a_row = 5.0 * m + parameters
    return Work(rows * (draws + a_row) + drawn * a_row, float(drawn) * parameters**2)


class Explained(NamedTuple):
    """The part of the moments of rows that changes of the fitted parameters explain."""

    slopes: np.ndarray  # B, transposed; (P, N)
    exact: np.ndarray  # share of the variance of e not due to errors of B; (order + 1,)

    @classmethod
    def by_parameters(
        cls, model: Standardised, seen: np.ndarray | None, rng: np.random.Generator
    ) -> Explained:
        """B by regression over rows drawn from the mixture, with gaps as in ``seen``."""
        size = model.directions.size
        if size > MOST_PARAMETERS:
            raise UntestableError(
                f"the mixture has about {size:,} parameters; tests of fits are for up to "
                f"{MOST_PARAMETERS:,}. Some of its features can be tested by themselves: "
                "moment_test(mixture.marginal(features), X[:, features])"
            )
        rows = model.draw(rows_drawn(size), seen, rng)
        grams, crosses = np.zeros((2, size, size)), np.zeros((2, size, model.size))
        squares = np.zeros(model.size)
        for block in blocks_of_rows(rows.Z.shape[1], model.size + size):
            part = rows.take(block)
            fills = [model.features_of(Z) for Z in part.Z]
            h, s = (fills[0] + fills[-1]) / 2, model.scores(part)
            squares += np.sum(h * h, axis=0)
            for half, own in enumerate((slice(len(h) // 2), slice(len(h) // 2, None))):
                grams[half] += s[own].T @ s[own]
                crosses[half] += s[own].T @ h[own]
        gram, cross = grams.sum(axis=0), crosses.sum(axis=0)
        inverse = np.linalg.pinv(gram, rcond=_SINGULAR, hermitian=True)
        slopes = inverse @ cross
        # Each half of the rows gives its own B, and the error of B is half of their difference.
        errors = inverse @ (crosses[0] - crosses[1] - (grams[0] - grams[1]) @ slopes)
        left = squares - np.sum(cross * slopes, axis=0)
        own_error = np.sum(errors * (gram @ errors), axis=0)
        parts = [order_slice(model.n, k) for k in range(model.order + 1)]
        ratios = [own_error[part].sum() / max(left[part].sum(), 1e-300) for part in parts]
        return cls(slopes, 1 / (1 + np.array(ratios)))

    @classmethod
    def nothing(cls, model: Standardised) -> Explained:
        """For a mixture that was not fitted to the rows."""
        return cls(np.empty((0, model.size)), np.ones(model.order + 1))

    def residuals(self, model: Standardised, rows: StandardRows) -> np.ndarray:
        """e(x) for each row; (p, N)."""
        h = model.features(rows)
        return h if len(self.slopes) == 0 else h - model.scores(rows) @ self.slopes


#: An interrupted bootstrap with fewer draws gives no result. With 19 draws the smallest possible
#: p-value is 1/20 = 0.05, so with fewer no test could reject at 5 %.
LEAST_DRAWS = 19


class Refits:
    """Refits that start at the mixture, of the rows themselves and of tables drawn from it.

    Both use the settings of the estimator, if there is one, so that the prior, for example, has
    the same effect on both.
    """

    def __init__(self, model: object, order: int, verbose: int, n_jobs: int | None) -> None:
        self.mixture, self.order = tested_mixture(model), order
        self.verbose, self.n_jobs = verbose, n_jobs
        mixture, own = self.mixture, model
        if not isinstance(own, GaussianMixture | MomentMixture):
            own = GaussianMixture()
        self._estimator = type(own)
        self._settings = own.get_params()  # type: ignore[no-untyped-call]
        self._settings |= {
            "n_components": mixture.n_components,
            "covariance_type": getattr(own, "covariance_type_", mixture.covariance_type),
            "weights_init": mixture.weights,
            "means_init": mixture.means,
            "covariances_init": mixture.covariances,
            "precisions_init": None,
            "warm_start": False,
            "verbose": 0,
            "random_state": 0,
        }
        if mixture.atoms.covariance.rank:
            self._settings["rank"] = mixture.atoms.covariance.rank

    def residual(
        self, X: np.ndarray, counts: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The moments (N,) of the rows less those of their fit, and the statistics (order + 1,).

        Raises KeyboardInterrupt if Ctrl-C stopped the fit.
        """
        estimator = self._estimator(**self._settings).fit(X, sample_weight=counts)
        if estimator.interrupted_:
            raise KeyboardInterrupt
        model = Standardised(estimator.mixture_, self.order)
        rows = model.rows(X, rng)

        def features(block: slice) -> np.ndarray:
            return model.features(rows.take(block))

        mean = mean_residual(features, counts, model.size)
        return mean, counts.sum() * lengths(mean, model.n, self.order)

    def draws(self, X: np.ndarray, p: float, n_boot: int, rng: np.random.Generator) -> np.ndarray:
        """The statistics of tables drawn from the mixture; (n_boot, order + 1).

        Each table has p rows and the gaps of X. After Ctrl-C fewer draws are returned.
        """
        gaps = np.isnan(X)
        found: list[np.ndarray] = []

        def one(seed: np.random.SeedSequence) -> None:
            own = np.random.default_rng(seed)
            drawn = np.array(self.mixture.sample(max(round(p), 1), own)[0])
            if gaps.any():
                shown = (
                    gaps if len(gaps) == len(drawn) else gaps[own.integers(len(X), size=len(drawn))]
                )
                drawn = np.where(shown, np.nan, drawn)
            found.append(self.residual(drawn, np.ones(len(drawn)), own)[1])
            progress.done()

        seeds = np.random.SeedSequence(rng.integers(2**63)).spawn(n_boot)
        with (
            stoppable(),
            suppress(KeyboardInterrupt),
            Progress(self.verbose, n_boot, "fits") as progress,
            warnings.catch_warnings(),
            thread_limit(self.n_jobs),
        ):
            warnings.simplefilter("ignore")  # a drawn table may be hard to fit
            parallel_map(one, seeds, worker_count(np))
        if len(found) < min(LEAST_DRAWS, n_boot):
            raise KeyboardInterrupt
        return np.array(found)


#: The default number of draws from the null distribution, by multipliers and by refits. Customary
#: numbers: with B draws the smallest p-value is 1 / (B + 1), so 0.001 and 0.005.
DRAWS, DRAWS_BY_REFITS = 999, 199
#: Residuals of up to this many numbers (64 MiB) are kept; larger ones are computed twice. A round
#: number that affects memory and speed only.
MOST_KEPT = 1 << 23


def moment_test(
    mixture: Mixture | MixtureEstimator,
    X: ArrayLike,
    order: int | None = None,
    *,
    method: Literal["multiplier", "bootstrap"] = "multiplier",
    estimated: bool = True,
    n_boot: int | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: object = None,
    verbose: int = 0,
    n_jobs: int | None = None,
) -> MomentTest:
    """Test whether a mixture has the moments of rows, with a p-value for each order.

    Order 1 is about means, 2 about widths and correlations, 3 about skewness, and 4 about heavy or
    light tails. A small p-value says that the rows have a feature that the mixture lacks. A large
    one says that these rows show no such difference.

    Parameters
    ----------
    mixture : Mixture, or fitted GaussianMixture or MomentMixture
        The mixture to be tested.
    X : array of shape (p, n)
        The rows. NaN is a gap, which is filled several times at random, given the other values of
        its row. Whether a value is missing must not depend on the values. Rows with known noise
        cannot be tested.
    order : int, optional
        The highest order that is tested; by default 4, or less where that would be costly.
    method : {"multiplier", "bootstrap"}, default="multiplier"
        How the null distribution is found. "multiplier" gives the contribution of each row a random
        sign, and allows for the fitted parameters to first order; it needs no further fit.
        "bootstrap" draws tables of rows from the mixture and fits each, which takes ``n_boot``
        fits. It is more reliable when rows are few.
    estimated : bool, default=True
        Whether the mixture was fitted to these rows. If not, every order is tested. If so, an order
        that the fit always matches, such as the means, is not tested.
    n_boot : int, optional
        The number of draws from the null distribution: by default 999, and 199 for the bootstrap.
    sample_weight : array of shape (p,), optional
        How many times each row counts.
    random_state : int, RandomState or None, default=None
        The seed. The p-values vary a little with it.
    verbose : int, default=0
        1 shows a progress bar for the bootstrap.
    n_jobs : int, optional
        The number of threads of the bootstrap.

    Returns
    -------
    MomentTest
        With ``p_values`` and ``sentences``, and for each order its test: ``result[3].p_value``.

    See Also
    --------
    compare : The same for two tables.
    plotting.plot_quantiles : A picture of how far the rows lie from their components.

    Notes
    -----
    Each row is measured from its component, in units of that component's covariance: with z_j the
    row in coordinates in which component j is standard, r_j its probability and He_k Hermite
    polynomials, h_k = Σ_j r_j He_k(z_j) has mean 0 under the mixture in every order k. The
    statistic is p ‖ē_k‖² / k!, where ē is the mean of h over the rows less the part that errors of
    the parameters explain, to first order [2]_: it is the same for any good estimate of the
    parameters. Rows farther from their component than 99 % should be are first pulled in to that
    distance, and the mean that h_k then has under the mixture is subtracted. So a few absurd rows
    cannot dominate the variance and hide other misfits. Apart from this, the test of order 3 for
    one component with full covariance is Mardia's test of skewness [1]_. The result does not depend
    on units, nor, for full and tied covariances, on any linear map of the rows.

    Each order is tested by itself. To ask whether any order shows a misfit, compare the smallest
    p-value with 0.05 divided by the number of orders tested.

    References
    ----------
    .. [1] K. V. Mardia, "Measures of Multivariate Skewness and Kurtosis with Applications",
       Biometrika, 57, 1970.
    .. [2] J. Neyman, "Optimal Asymptotic Tests of Composite Statistical Hypotheses", in Probability
       and Statistics: The Harald Cramér Volume, 1959.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import GaussianMixture, moment_test
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.gamma(4, size=(300, 2)), 12 + rng.standard_normal((300, 2))])
    >>> fit = GaussianMixture(2, random_state=0).fit(X)
    >>> moment_test(fit, X, random_state=0).sentences[2]
    'Third moments: p = 0.001, the data are skewed in a way that the mixture is not.'
    """
    one_of("method", method, ("multiplier", "bootstrap"))
    refits = method == "bootstrap" and estimated
    if n_boot is None:
        n_boot = DRAWS_BY_REFITS if refits else DRAWS
    whole_number("n_boot", n_boot, 1)
    tested = tested_mixture(mixture)
    rows, counts = rows_to_test(tested, X, sample_weight)
    p, n = float(counts.sum()), tested.n_features
    order = order_to_test(order, n, work_of(tested, n, len(rows), n_boot, estimated))
    rng = generator(random_state)
    model = Standardised(tested, order)
    seen = ~np.isnan(rows) if np.isnan(rows).any() else None
    explained = Explained.nothing(model)
    matched = model.matched & estimated
    if estimated and not refits and not matched.all():
        explained = Explained.by_parameters(model, seen, rng)
    if refits:
        refit = Refits(mixture, order, verbose, n_jobs)
        mean, statistics = refit.residual(rows, counts, rng)
        draws = refit.draws(rows, p, n_boot, rng)
    else:
        here = model.rows(rows, rng)

        kept = None
        if len(rows) * model.size <= MOST_KEPT:
            kept = explained.residuals(model, here.take(slice(0, len(rows))))

        def residuals(block: slice) -> np.ndarray:
            if kept is not None:
                return kept[block]
            return explained.residuals(model, here.take(block))

        mean = mean_residual(residuals, counts, model.size)
        statistics = p * lengths(mean, n, order)
        draws = null_draws(residuals, counts, mean, n, order, n_boot, rng) * explained.exact
    p_values = (1 + np.sum(draws >= statistics, axis=0)) / (len(draws) + 1)
    p_values = np.where(matched, np.nan, p_values)
    far_out = excess(mean, n) if order >= 4 else np.nan
    tests = tests_by_order(statistics, p_values, lambda k, p: fit_sentence(k, p, far_out))
    return MomentTest(tests, len(draws), f"{p:,.6g} rows")
