"""Does a mixture fit its rows? A test for the moments of each order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.distributions.samples import Samples
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.goodness.bootstrap import refitted_draws
from momentmix.goodness.distances import checked_order, comparable_order
from momentmix.goodness.multipliers import lengths, mean_residual, null_draws
from momentmix.goodness.residuals import Explained, MixtureMoments
from momentmix.goodness.results import MomentTest, OrderTest, fit_sentence
from momentmix.support.array import ArrayLike, as_float_array, to_numpy
from momentmix.support.checks import generator, one_of, whole_number
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import order_slice

if TYPE_CHECKING:
    from momentmix.estimators.base import MixtureEstimator

#: Rows below which there is nothing to be said.
_LEAST_ROWS = 8


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
    light tails. A small p-value says that the rows have something that the mixture has not. A large
    one says that these rows show nothing of the kind.

    Parameters
    ----------
    mixture : Mixture or fitted MomentMixture
        The mixture to be tested.
    X : array of shape (p, n)
        The rows. NaN is a gap, which is filled once at random, given the other values of its row;
        whether a value is missing must not depend on the values.
    order : int, optional
        The highest order that is tested; by default 4, or less where that would be costly.
    method : {"multiplier", "bootstrap"}, default="multiplier"
        How the null distribution is found. "multiplier" gives random signs to what the rows
        contribute, and takes account of the parameters to first order: it needs no other fit.
        "bootstrap" draws tables of rows from the mixture, and fits each again, which takes
        ``n_boot`` fits. It is the surer one where rows are few.
    estimated : bool, default=True
        Whether the mixture was fitted to these rows. If not, the rows are new to it, and every
        order is tested. A mixture that was fitted always has about the right means, say, and an
        order that it matches whatever the rows has no test.
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
    Moments are taken in coordinates in which the mixture has mean 0 and, for full and tied
    covariances, covariance I. Of each order the means of Hermite polynomials are compared, so that
    what is wrong in one order does not show in the next as well. The statistic is p ‖ē_k‖² / k!,
    where ē is the difference of the moments less what errors in the parameters explain of it, to
    first order [2]_: it is the same for any good estimate of the parameters. For one component with
    full covariance, that of order 3 is Mardia's test of skewness [1]_.

    Each order is tested by itself. If you ask whether any of the orders shows something, compare
    the least p-value with 0.05 divided by the number of orders that are tested.

    References
    ----------
    .. [1] K. V. Mardia, "Measures of Multivariate Skewness and Kurtosis with Applications",
       Biometrika, 57, 1970.
    .. [2] J. Neyman, "Optimal Asymptotic Tests of Composite Statistical Hypotheses", in Probability
       and Statistics: The Harald Cramér Volume, 1959.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentMixture, moment_test
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.gamma(4, size=(300, 2)), 12 + rng.standard_normal((300, 2))])
    >>> fit = MomentMixture(2, random_state=0).fit(X)
    >>> moment_test(fit, X, random_state=0).sentences[2]
    'Third moments: p = 0.001: the data are skewed in a way that the mixture is not.'
    """
    one_of("method", method, ("multiplier", "bootstrap"))
    refits = method == "bootstrap"
    if n_boot is None:
        n_boot = 199 if refits else 999
    whole_number("n_boot", n_boot, 1)
    tested = _mixture_of(mixture)
    rows, counts = _checked(tested, X, sample_weight)
    p = float(counts.sum())
    if order is None:
        order = comparable_order(Samples(np.zeros((len(rows), 1))), tested.n_features)
    checked_order(order, tested.n_features)
    rng = generator(random_state)
    if refits and estimated:
        return refitted_test(mixture, tested, rows, counts, order, n_boot, rng, verbose, n_jobs)
    model = MixtureMoments(tested, order)
    seen = None if not np.isnan(rows).any() else ~np.isnan(rows)
    explained = Explained.nothing(model)
    if estimated:
        explained = Explained.by_parameters(model, seen, rng)
    here = model.rows(rows, rng)

    def residuals(block: slice) -> np.ndarray:
        return explained.residuals(model, here.take(block))

    mean = mean_residual(residuals, counts, model.size)
    statistics = p * lengths(mean, model.n, order)
    draws = null_draws(residuals, counts, mean, model.n, order, n_boot, rng)
    p_values = (1 + np.sum(draws >= statistics, axis=0)) / (n_boot + 1)
    p_values[[k for k in range(order + 1) if explained.is_matched(k)]] = np.nan
    return _result(model, mean, statistics, p_values, n_boot, p)
