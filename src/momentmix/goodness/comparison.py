"""How far apart the moments of two distributions are, and whether two tables have the same."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from momentmix.covariance import Diagonal, Full
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.goodness.given import (
    LEAST_ROWS,
    MOST_ASKED_FOR,
    Work,
    blocks_of_rows,
    check_order,
    check_rows,
    drawn_in,
    hermite_features,
    lengths,
    order_to_test,
)
from momentmix.goodness.residuals import moment_test
from momentmix.goodness.results import Comparison, MomentTest, comparison_sentence, tests_by_order
from momentmix.moments.functions import AtomDistribution
from momentmix.rows.data import AtomData, TensorData, data_of
from momentmix.rows.frame import Frame
from momentmix.support.array import ArrayLike
from momentmix.support.checks import generator, whole_number
from momentmix.support.stopping import stoppable, stopped
from momentmix.tensors.packed import multiplicities, order_slice, total_size

#: Anything that has moments: a Mixture, Samples or MomentTensors.
Distribution: TypeAlias = AtomDistribution | MomentTensors

#: The most moments, and the most moments times rows, of a comparison whose order nobody asked for;
#: beyond them the default order is lowered. Round numbers that were not tuned.
MOST_MOMENTS, COMPARISON_WORK = 200_000, 10**10
#: The sampling error of a moment is unknown unless its size rests on this many rows of equal
#: weight. With one row the estimate would be as large as the moment, so 2 is the least whole number
#: that helps; it was not tuned.
_LEAST_TELLING = 2.0


class Match(NamedTuple):
    """The distance of the moments of one order, about the data's mean and in its units."""

    order: int
    distance: float  # ‖M - M̂‖
    relative: float  # of ‖M̂‖
    noise: float  # the typical ‖M̂ - E M̂‖ from sampling alone; NaN if unknown

    @property
    def ratio(self) -> float:
        """The distance over its expected size from sampling; NaN if that is unknown."""
        return self.distance / self.noise if self.noise > 0 else np.nan

    @property
    def untold(self) -> bool:
        """Whether sampling alone explains a distance that is large: then the rows tell nothing.

        Large is half of the moment, and half a unit of Q's coordinates: a third moment that is
        truly 0 is all noise, and is matched well if the noise is small. Round numbers.
        """
        return self.ratio <= 3 and self.relative > 0.5 and self.distance > 0.5


def comparable_order(P: Distribution, n: int) -> int:
    """The highest order, at most 4, whose moments can be compared at moderate cost."""
    order = P.order if isinstance(P, MomentTensors) else 4
    rows = P.n_samples if isinstance(P, Samples) else 1
    affordable = min(MOST_MOMENTS, COMPARISON_WORK // rows)
    while order > 1 and total_size(n, order) > (affordable if order > 2 else MOST_ASKED_FOR):
        order -= 1
    return min(order, 4)


def moment_match(P: Distribution, Q: Distribution, order: int | None = None) -> list[Match]:
    """Distances of the moments of P and Q, order by order, in Q's centred and scaled coordinates.

    Parameters
    ----------
    P, Q : Mixture, Samples or MomentTensors
    order : int, optional
        The highest order compared; by default up to 4, less where that would be costly.

    Returns
    -------
    list of Match
        One for each order from 1 on. An empirical moment of p samples z has
        E‖M̂ - E M̂‖² = (E‖z‖^2k - ‖M‖²) / p, which is known where Q is Samples.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix import Samples
    >>> from momentmix.summary import moment_match
    >>> [match.order for match in moment_match(gm.mixture_, Samples(X[:300, :2]))][:2]
    [1, 2]
    """
    data, other = data_of(Q), data_of(P)
    if data.n != other.n:
        raise ValueError(f"P has {other.n} feature(s), but Q has {data.n}")
    if order is None:
        order = min(comparable_order(Q, data.n), comparable_order(P, data.n))
    else:
        check_order(order, data.n)
    for name, D in (("P", P), ("Q", Q)):
        if isinstance(D, MomentTensors) and D.order < order:
            raise ValueError(f"{name} holds moments up to order {D.order}, not {order}")
    frame = data.frame(Diagonal)
    scaled = data.within(frame)
    ours, theirs = other.within(frame).moments(order), scaled.moments(order)
    scale = multiplicities(data.n, order)
    result = []
    for k in range(1, order + 1):
        part = order_slice(data.n, k)
        size = float(np.sum(scale[part] * theirs[part] ** 2))
        distance = float(np.sqrt(np.sum(scale[part] * (ours[part] - theirs[part]) ** 2)))
        relative = distance / np.sqrt(size) if k > 1 and size > 0 else np.nan
        result.append(Match(k, distance, relative, _sampling_error(scaled, k, size)))
    return result


def _sampling_error(data: AtomData | TensorData, k: int, size: float) -> float:
    """√E‖M̂ - E M̂‖² of order k, where ``size`` is ‖M̂‖²; NaN unless the data are samples.

    It is estimated from the rows. If a single row makes up nearly all of a moment, the estimate is
    as large as the moment, whatever the other rows are; then the result is NaN.
    """
    if not isinstance(data, AtomData) or not data.atoms.covariance.zero:
        return np.nan
    squares = np.sum(np.asarray(data.atoms.means) ** 2, axis=1)
    w = data.atoms.weights
    share = np.full(len(squares), w) if isinstance(w, float) else np.asarray(w)
    parts = share * squares**k
    if np.sum(parts) ** 2 < _LEAST_TELLING * np.sum(parts**2):
        return np.nan
    return float(np.sqrt(max(np.sum(parts) - size, 0) * np.sum(share**2)))


#: Permutations in one batch, and the fewest after which an interrupted test gives a result. 111 is
#: a ninth of the default 999 and affects memory and speed only; with 99 the least p-value is 0.01.
_TOGETHER, _LEAST = 111, 99


def compare(
    X: ArrayLike | Mixture,
    Y: ArrayLike | Mixture,
    order: int | None = None,
    *,
    permutations: int = 999,
    random_state: object = None,
) -> Comparison | MomentTest:
    """Test whether two tables come from the same distribution, by the moments of each order.

    Order 1 compares means, 2 widths and correlations, 3 skewness, and 4 the weight of tails.

    Parameters
    ----------
    X, Y : array of shape (p, n) and (q, n), or Mixture
        The rows of each, without gaps. If one is a mixture, the rows are tested against it by
        ``moment_test(mixture, rows, estimated=False)``, as if it was not fitted to them.
    order : int, optional
        The highest order that is compared; by default 4, or less where that would be costly.
    permutations : int, default=999
        How many times the rows are shuffled between the tables. The smallest possible p-value is
        1 / (permutations + 1).
    random_state : int, RandomState or None, default=None
        The seed.

    Returns
    -------
    Comparison, or MomentTest if one is a mixture
        With ``p_values`` and ``sentences``, and for each order its test: ``result[2].p_value``.

    See Also
    --------
    moment_test : Tests whether a mixture fits the rows that it was fitted to.

    Notes
    -----
    Rows farther out than 99 % of a Gaussian's are first pulled in to that distance, wherever they
    are from, so that a handful of rows cannot hide how the others differ. In coordinates in which
    all rows together then have mean 0 and covariance I, the statistic of order k is
    pq / (p + q) ‖h_X - h_Y‖² / k!, with h_X and h_Y the means of Hermite polynomials of order k.
    If both tables are samples of independent rows from one distribution, whatever it is, a
    p-value is at most 0.05 in at most 5 % of all cases: permutation tests are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import compare
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((300, 2)), rng.standard_normal((200, 2))
    >>> Y[:, 1] = 0.6 * Y[:, 0] + 0.8 * Y[:, 1]
    >>> compare(X, Y, 2, random_state=0).sentences[1]
    'Second moments: p = 0.001, the tables differ in their widths or correlations.'
    """
    whole_number("permutations", permutations, 1)
    against = partial(
        moment_test, order=order, estimated=False, n_boot=permutations, random_state=random_state
    )
    if isinstance(X, Mixture):
        if isinstance(Y, Mixture):
            raise TypeError(
                "two mixtures have no rows to test with; summary.moment_match tells how far apart "
                "their moments are"
            )
        return against(X, Y)
    if isinstance(Y, Mixture):
        return against(Y, X)
    first, second = check_rows(X), check_rows(Y, "Y")
    (p, n), (q, n_other) = first.shape, second.shape
    if n != n_other:
        raise ValueError(f"X has {n} feature(s), but Y has {n_other}")
    if min(p, q) < LEAST_ROWS:
        raise ValueError(f"a test needs at least {LEAST_ROWS} rows of each, got {p} and {q}")
    order = order_to_test(order, n, Work(float(p + q) * permutations, 0.0))
    Z = _standardised(np.concatenate([first, second]), drawn_in(n, order)[0])
    rng, chosen = generator(random_state), np.arange(p + q) < p
    # The observed statistic is computed by the same sums as those of the permutations.
    statistics = _statistics(Z, chosen[None, :], order)[0]
    above, done = np.zeros(order + 1), 0
    with stoppable():
        while done < permutations and not stopped():
            count = min(_TOGETHER, permutations - done)
            labels = rng.permuted(np.tile(chosen, (count, 1)), axis=1)
            drawn = _statistics(Z, labels, order)
            above += np.sum(drawn >= statistics * (1 - 1e-12), axis=0)
            done += count
    if done < min(_LEAST, permutations):
        raise KeyboardInterrupt
    p_values = (1 + above) / (done + 1)
    tests = tests_by_order(statistics, p_values, comparison_sentence)
    return Comparison(tests, done, f"{p:,} and {q:,} rows")


#: Frames of the rows, at most: each takes rows in whose distances are multiples of the reach nearer
#: by that multiple or more. For clean rows three or four are made.
_FRAMES = 50


def _standardised(Z: np.ndarray, reach: float) -> np.ndarray:
    """The rows with mean 0 and covariance I, after those farther out than ``reach`` are pulled in.

    All rows are treated alike, whichever table they are from, so permutations stay exact.
    """
    for _ in range(_FRAMES):
        Z = Frame.of_samples(Full, Z, None).apply(Z)
        far = np.sqrt(np.sum(Z * Z, axis=1, keepdims=True)) / reach
        if far.max() < 1.01:  # a round number that affects the time only
            break
        Z = Z / np.maximum(far, 1.0)
    return Z


def _statistics(Z: np.ndarray, labels: np.ndarray, order: int) -> np.ndarray:
    """The statistic of each order for S assignments of the rows to X; (S, order + 1).

    After subtracting the mean of all rows, h_X - h_Y is (p + q) / pq times the sum over X.
    """
    total, n = Z.shape
    p = int(labels[0].sum())
    width = total_size(n, order)
    sums, whole = np.zeros((len(labels), width)), np.zeros(width)
    for block in blocks_of_rows(total, width):
        h = hermite_features(Z[block], order)
        whole += h.sum(axis=0)
        sums += labels[:, block].astype(np.float64) @ h
    apart = sums - p / total * whole
    return lengths(apart, n, order) * (total / (p * (total - p)))
