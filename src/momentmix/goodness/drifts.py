"""Has a stream drifted away from a mixture? A test of the moments of a window."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import chi2

from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.goodness.given import LEAST_ROWS, UntestableError, mixture_of
from momentmix.goodness.orthonormal import Orthonormal
from momentmix.goodness.results import Drift, FeatureTest, OrderTest, order_sentence
from momentmix.support.array import to_numpy
from momentmix.support.checks import positive, whole_number
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import order_slice, size_in_words, total_size

if TYPE_CHECKING:
    from momentmix.estimators.base import MixtureEstimator

#: The default order, and the most moments that are compared. Order 2 found changes of means, widths
#: and weights more often than higher orders did (docs/streams.md). 2,000 is a round number,
#: which bounds the cubic cost of orthonormal polynomials at 8e9 multiplications.
ORDER, MOST_MOMENTS = 2, 2000
#: Rows drawn from the mixture to estimate E‖φ‖⁴, which sets the variance of the statistic. A round
#: number; the p-values in docs/streams.md were measured with it.
DRAWN_ROWS = 20_000


def drift(
    mixture: Mixture | MixtureEstimator,
    window: MomentTensors,
    order: int | None = None,
    *,
    fitted_rows: float | None = None,
) -> Drift:
    """Test whether the rows of a window still come from a mixture, by their moments alone.

    The distance of the window's moments from those of the mixture is divided by its expected size
    under no drift, so windows of any size can be compared. A small p-value says that the stream
    has moved. No rows are needed.

    Parameters
    ----------
    mixture : Mixture, or fitted GaussianMixture or MomentMixture
        What the rows are compared with.
    window : MomentTensors
        The moments of the rows, for instance of the last batches, or of a stream that forgets. The
        rows must have no gaps, and the moments must not be debiased for noise.
    order : int, optional
        The highest order of moments that is compared; by default 2, which sees changes of means,
        widths and correlations, and most changes of weights. Higher orders see other changes too,
        but these less well, and need windows of a few hundred rows.
    fitted_rows : float, optional
        The number of rows to which the mixture was fitted, so that the test allows for its own
        sampling error. By default the mixture is taken to be exact.

    Returns
    -------
    Drift
        With ``p_value``, ``statistic`` and ``sentence``, a test of each order, and one of each
        feature.

    See Also
    --------
    MomentTensors.decay : Lets old rows count less.
    moment_test : Tests a mixture against rows in memory.
    compare : Tests whether two tables differ.

    Notes
    -----
    With φ the polynomials of orders 1 to d that are orthonormal under the mixture, φ̄ their mean
    over the window, and N its rows, the statistic is N ‖φ̄‖². It equals N δᵀ C⁻¹ δ, where δ is the
    difference of the moments and C the covariance of the monomials, which follows from the moments
    of the mixture up to order 2d. If the rows come from the mixture, the mean of the statistic is
    the number of moments, D, and its variance is 2D + (E‖φ‖⁴ - D² - 2D) / N. The p-value is that of
    the multiple of χ² with this mean and this variance. E‖φ‖⁴ is a mean over 20,000 rows drawn from
    the mixture, always with the same seed.

    The statistic is the sum of those of the orders. That of order k measures what the lower orders
    do not determine. The test of a feature uses its own moments alone.

    If the rows have unequal weights, N is ``window.effective_count``. With ``fitted_rows`` the
    statistic is divided by 1 + N / fitted_rows. This assumes that the moments of the mixture are
    about as accurate as those of that many rows, which holds approximately. Without it, and with a
    window as large as the fitted table, 40 % of all windows have a p-value below 0.05.

    Examples
    --------
    >>> from momentmix import Mixture, MomentTensors, drift
    >>> mixture = Mixture([0.5, 0.5], [[0.0, 0.0], [4.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]], "diag")
    >>> X, _ = mixture.sample(500, random_state=0)
    >>> drift(mixture, MomentTensors.from_samples(X, order=2)).p_value > 0.05
    True
    >>> X[:, 1] += 0.2
    >>> drift(mixture, MomentTensors.from_samples(X, order=2)).sentence
    'The rows have moved: p = 0.0031, most in feature 1, and most in their first moments.'
    """
    model = getattr(mixture, "mixture_", mixture)
    tested = mixture_of(model)
    order = _check_order(tested, window, order)
    rows, share = window.effective_count, 1.0
    if fitted_rows is not None:
        positive("fitted_rows", fitted_rows)
        share = 1 / (1 + rows / fitted_rows)
    expected = _expected(model, order)
    every = expected[0].statistics(_marginal(window, np.arange(tested.n_features), order))
    found = [statistic.test(rows, share) for statistic in every]
    names = tested.feature_names or window.feature_names
    features = []
    for a, alone in enumerate(expected[1:]):
        own = alone.statistics(_marginal(window, np.array([a]), order))[0].test(rows, share)
        features.append(FeatureTest(a, None if names is None else names[a], *own))
    tests = tuple(
        OrderTest(k, *found[k], order_sentence(k, found[k].p_value)) for k in range(1, order + 1)
    )
    return Drift(*found[0], every[0].moments, rows, tests, tuple(features))


class _Tested(NamedTuple):
    statistic: float
    p_value: float


class _Statistic(NamedTuple):
    """The numbers from which some moments are tested."""

    square: float  # ‖φ̄‖²
    moments: int  # the number of polynomials, D
    fourth: float  # E‖φ‖⁴ under the mixture

    def test(self, rows: float, share: float) -> _Tested:
        """The statistic, times ``share`` for the mixture's own sampling error, and its p-value."""
        D = self.moments
        if D == 0:  # the lower orders determine this one
            return _Tested(0.0, np.nan)
        statistic = rows * share * self.square
        variance = 2 * D + (self.fourth - D * (D + 2)) / rows
        unit = max(variance, D) / (2 * D)  # a smaller estimate of the variance could only be chance
        return _Tested(float(statistic), float(chi2.sf(statistic / unit, D / unit)))


class _Expected(NamedTuple):
    """What the test expects of the moments of some features if they come from the mixture."""

    polynomials: Orthonormal
    fourth: np.ndarray  # E‖φ‖⁴, of all orders and of each; (d + 1,)

    @classmethod
    def of(cls, mixture: Mixture, order: int, drawn: np.ndarray) -> _Expected:
        polynomials = Orthonormal(mixture, order)
        return cls(polynomials, polynomials.fourth_moments(drawn))

    def statistics(self, window: MomentTensors) -> list[_Statistic]:
        """The statistic of all orders together, and then that of each order."""
        squares, orders = self.polynomials.means(window) ** 2, self.polynomials.orders
        parts = [orders > 0, *(orders == k for k in range(1, window.order + 1))]
        return [
            _Statistic(float(squares[part].sum()), int(part.sum()), float(fourth))
            for part, fourth in zip(parts, self.fourth, strict=True)
        ]


@lru_cache(maxsize=8)
def _expected(mixture: Mixture, order: int) -> tuple[_Expected, ...]:
    """Of all features, and of each alone; cached, because a stream is tested again and again."""
    tested = mixture_of(mixture)
    drawn = to_numpy(tested.sample(DRAWN_ROWS, np.random.default_rng(0))[0])
    features = (
        _Expected.of(tested.marginal([a]), order, drawn[:, a : a + 1])
        for a in range(tested.n_features)
    )
    return _Expected.of(tested, order, drawn), *features


def _marginal(window: MomentTensors, features: np.ndarray, order: int) -> MomentTensors:
    """The moments of some of the features up to an order."""
    n, centre = window.n_features, window.mean
    packed, kept = window.about(centre), []
    for k in range(order + 1):
        own = np.isin(packed_indices(n, k), features).all(axis=1)
        kept.append(packed[order_slice(n, k)][own])
    return MomentTensors.from_sums(window.count, centre[features], np.concatenate(kept), order)


def _check_order(mixture: Mixture, window: MomentTensors, order: int | None) -> int:
    """The order up to which moments are compared; an error if they cannot be."""
    if not isinstance(window, MomentTensors):
        raise TypeError(
            f"window must be MomentTensors, got {type(window).__name__}; make them from rows with "
            "MomentTensors.from_samples(X, order=2)"
        )
    n = mixture.n_features
    if window.n_features != n:
        raise ValueError(f"the window has {window.n_features} feature(s), but the mixture has {n}")
    if order is None:
        order = min(ORDER, window.order)
    whole_number("order", order, 1)
    if order > window.order:
        raise ValueError(f"the window holds moments up to order {window.order}, not {order}")
    if total_size(n, order) - 1 > MOST_MOMENTS:
        raise ValueError(
            f"order {order} of {n} feature(s) has {size_in_words(total_size(n, order) - 1)} "
            f"moments; up to {MOST_MOMENTS:,} are compared, so lower the order"
        )
    if window.effective_count < LEAST_ROWS:
        raise UntestableError(
            f"a test needs at least {LEAST_ROWS} rows, and the window is worth "
            f"{window.effective_count:.3g}"
        )
    if np.any(window.presence < 1):
        raise UntestableError(
            "the rows of the window have gaps, so its moments rest on different numbers of rows; "
            "take a window of complete rows"
        )
    return int(order)
