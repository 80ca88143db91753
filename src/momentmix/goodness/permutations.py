"""Do two tables have the same moments? Permutation tests, order by order."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from momentmix.covariance import Full
from momentmix.data.frame import Frame
from momentmix.distributions.mixture import Mixture
from momentmix.goodness.features import blocks_of_rows, hermite_features
from momentmix.goodness.fits import moment_test
from momentmix.goodness.given import LEAST_ROWS, Work, check_rows, order_to_test
from momentmix.goodness.multipliers import lengths
from momentmix.goodness.results import Comparison, MomentTest, OrderTest, comparison_sentence
from momentmix.support.array import ArrayLike
from momentmix.support.checks import generator, whole_number
from momentmix.tensors.packed import total_size

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
    In coordinates in which all rows together have mean 0 and covariance I, the statistic of order k
    is pq / (p + q) ‖h_X - h_Y‖² / k!, with h_X and h_Y the means of Hermite polynomials of order k.
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
    if isinstance(X, Mixture):
        if isinstance(Y, Mixture):
            raise TypeError(
                "two mixtures have no rows to test with; summary.moment_match tells how far apart "
                "their moments are"
            )
        return _against(X, Y, order, permutations, random_state)
    if isinstance(Y, Mixture):
        return _against(Y, X, order, permutations, random_state)
    first, second = check_rows(X), check_rows(Y, "Y")
    (p, n), (q, n_other) = first.shape, second.shape
    if n != n_other:
        raise ValueError(f"X has {n} feature(s), but Y has {n_other}")
    if min(p, q) < LEAST_ROWS:
        raise ValueError(f"a test needs at least {LEAST_ROWS} rows of each, got {p} and {q}")
    order = order_to_test(order, n, Work(float(p + q) * permutations, 0.0))
    frame = Frame.of_samples(Full, np.concatenate([first, second]), None)
    Z = np.concatenate([frame.apply(first), frame.apply(second)])
    rng, chosen = generator(random_state), np.arange(p + q) < p
    # The observed statistic is computed by the same sums as those of the permutations.
    statistics = _statistics(Z, chosen[None, :], order)[0]
    above, done = np.zeros(order + 1), 0
    with suppress(KeyboardInterrupt):
        while done < permutations:
            count = min(_TOGETHER, permutations - done)
            labels = rng.permuted(np.tile(chosen, (count, 1)), axis=1)
            drawn = _statistics(Z, labels, order)
            above += np.sum(drawn >= statistics * (1 - 1e-12), axis=0)
            done += count
    if done < min(_LEAST, permutations):
        raise KeyboardInterrupt
    p_values = (1 + above) / (done + 1)
    tests = tuple(
        OrderTest(k, float(statistics[k]), float(p_values[k]), comparison_sentence(k, p_values[k]))
        for k in range(1, order + 1)
    )
    return Comparison(tests, done, f"{p:,} and {q:,} rows")


def _against(
    mixture: Mixture, rows: ArrayLike, order: int | None, draws: int, random_state: object
) -> MomentTest:
    return moment_test(
        mixture, rows, order, estimated=False, n_boot=draws, random_state=random_state
    )


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
