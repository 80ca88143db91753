"""Has a stream drifted away from a mixture? A test of the moments of a window.

The moments are those of polynomials that are orthonormal under the mixture.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import chi2

from momentmix.covariance import Full
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.goodness.given import LEAST_ROWS, UntestableError, blocks_of_rows, tested_mixture
from momentmix.goodness.results import Drift, FeatureTest, order_sentence, tests_by_order
from momentmix.rows.data import AtomData, TensorData, data_of
from momentmix.support.array import to_numpy
from momentmix.support.checks import positive, whole_number
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.isserlis import gaussian_moments, moment_covariance
from momentmix.tensors.packed import order_slice, size_in_words, total_size

if TYPE_CHECKING:
    from momentmix.estimators.base import MixtureEstimator


#: Combinations of monomials whose remaining variance, after the lower orders, is below this share
#: count as constant: it is rounding. It lies far above 1e-16 and far below any real variance, and
#: was not tuned.
_LEFT = 1e-10


class Orthonormal:
    """φ(x) = T (z^I - E z^I) for the monomials z^I of orders 1..d, with E φ = 0 and E φφᵀ = 1.

    z is x in coordinates in which the mixture has mean 0 and covariance I. Polynomials of order k
    are orthogonal to all of lower order, so for one Gaussian they are Hermite polynomials.
    """

    def __init__(self, mixture: Mixture, d: int) -> None:
        data = data_of(mixture)
        assert isinstance(data, AtomData)
        self.d, self.frame = d, data.frame(Full)
        atoms, n = data.within(self.frame).atoms, data.n
        weights, means = to_numpy(atoms.weights), to_numpy(atoms.means)
        matrices = np.broadcast_to(to_numpy(atoms.covariance.matrices()), (len(means), n, n))
        self.expected = weights @ gaussian_moments(means, matrices, d)  # (N,)
        C = moment_covariance(weights, means, matrices, d)
        if np.linalg.eigvalsh(C[1 : n + 1, 1 : n + 1])[0] < 0.5:  # it should be the identity
            raise UntestableError(
                "the mixture does not vary in some direction, so that no row can be compared with "
                "it there; drop features that are constant or depend on others"
            )
        self.T, self.orders = orthonormal_rows(C, n, d)

    def means(self, window: MomentTensors) -> np.ndarray:
        """φ̄ over the rows of the window; (D,)."""
        moments = TensorData(window).within(self.frame).moments(self.d)
        return self.T @ (moments - self.expected)

    def fourth_moments(self, X: np.ndarray) -> np.ndarray:
        """The mean of ‖φ‖⁴ over rows (p, n), and that of each order alone; (d + 1,). O(p N D)."""
        total = np.zeros(self.d + 1)
        for block in blocks_of_rows(len(X), len(self.expected)):
            monomials = gaussian_moments(self.frame.apply(X[block]), None, self.d)
            squares = ((monomials - self.expected) @ self.T.T) ** 2
            total[0] += np.sum(squares.sum(axis=1) ** 2)
            for k in range(1, self.d + 1):
                total[k] += np.sum(squares[:, self.orders == k].sum(axis=1) ** 2)
        return total / len(X)


def orthonormal_rows(C: np.ndarray, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """T (D, N) with T C Tᵀ = 1, and the order of each row (D,), from C (N, N) of the monomials.

    The monomials of each order are projected off all lower ones; the scaled eigenvectors of the
    rest are rows of T. Combinations that the lower orders determine up to rounding are dropped.
    O(N³).
    """
    deviations = np.sqrt(np.diag(C))
    deviations[0] = 1.0  # order 0 does not vary
    deviations = np.where(deviations > 0, deviations, 1.0)
    R = C / np.outer(deviations, deviations)
    T, orders = np.zeros((0, len(C))), np.zeros(0, dtype=np.intp)
    for k in range(1, d + 1):
        here = order_slice(n, k)
        rest = np.eye(len(C))[here]
        for _ in range(2):  # the second time removes what rounding has left
            rest = rest - (rest @ R @ T.T) @ T
        values, vectors = np.linalg.eigh(rest @ R @ rest.T)
        kept = values > _LEFT
        T = np.concatenate([T, (vectors[:, kept] / np.sqrt(values[kept])).T @ rest])
        orders = np.concatenate([orders, np.full(int(kept.sum()), k)])
    return T / deviations, orders


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
    tested = tested_mixture(model)
    order = _check_order(tested, window, order)
    rows, share = window.effective_count, 1.0
    if fitted_rows is not None:
        positive("fitted_rows", fitted_rows)
        share = 1 / (1 + rows / fitted_rows)
    every, *each = _expected(model, order)
    found = _tests(*every, _marginal(window, np.arange(tested.n_features), order), share)
    names = tested.feature_names or window.feature_names
    features = []
    for a, alone in enumerate(each):
        own = _tests(*alone, _marginal(window, np.array([a]), order), share)[0]
        name = None if names is None else names[a]
        features.append(FeatureTest(a, name, own.statistic, own.p_value))
    whole, statistics, p_values = found[0], *([one[i] for one in found] for i in (0, 1))
    tests = tests_by_order(statistics, p_values, order_sentence)
    return Drift(whole.statistic, whole.p_value, whole.moments, rows, tests, tuple(features))


class _Tested(NamedTuple):
    statistic: float
    p_value: float
    moments: int  # the number of polynomials, D


def _tests(
    phi: Orthonormal, fourth: np.ndarray, window: MomentTensors, share: float
) -> list[_Tested]:
    """The test of all orders together, and then that of each order.

    ``fourth`` is E‖φ‖⁴ of all orders and of each. Statistics are multiplied by ``share`` for the
    mixture's own sampling error.
    """
    squares, rows = phi.means(window) ** 2, window.effective_count
    found = []
    for k, own_fourth in enumerate(fourth):
        part = phi.orders > 0 if k == 0 else phi.orders == k
        D = int(part.sum())
        if D == 0:  # the lower orders determine this one
            found.append(_Tested(0.0, np.nan, D))
            continue
        statistic = rows * share * float(squares[part].sum())
        variance = 2 * D + (own_fourth - D * (D + 2)) / rows
        unit = max(variance, D) / (2 * D)  # a smaller estimate of the variance could only be chance
        found.append(_Tested(float(statistic), float(chi2.sf(statistic / unit, D / unit)), D))
    return found


@lru_cache(maxsize=8)
def _expected(mixture: Mixture, order: int) -> tuple[tuple[Orthonormal, np.ndarray], ...]:
    """The polynomials and E‖φ‖⁴ of all features, and of each alone.

    They are cached, because a stream is tested again and again.
    """
    tested = tested_mixture(mixture)
    drawn = to_numpy(tested.sample(DRAWN_ROWS, np.random.default_rng(0))[0])
    parts = [(tested, drawn)]
    parts += [(tested.marginal([a]), drawn[:, a : a + 1]) for a in range(tested.n_features)]
    polynomials = [Orthonormal(part, order) for part, _ in parts]
    return tuple(
        (phi, phi.fourth_moments(X)) for phi, (_, X) in zip(polynomials, parts, strict=True)
    )


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
