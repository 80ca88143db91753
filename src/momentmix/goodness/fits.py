"""Does a mixture fit its rows? A test for the moments of each order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.goodness.bootstrap import Refits
from momentmix.goodness.given import mixture_of, order_to_test, rows_to_test
from momentmix.goodness.multipliers import excess, lengths, mean_residual, null_draws
from momentmix.goodness.residuals import Explained, Standardised, work_of
from momentmix.goodness.results import MomentTest, OrderTest, fit_sentence
from momentmix.support.array import ArrayLike
from momentmix.support.checks import generator, one_of, whole_number

if TYPE_CHECKING:
    from momentmix.estimators.base import MixtureEstimator

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
    tested = mixture_of(mixture)
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
    tests = tuple(
        OrderTest(
            k, float(statistics[k]), float(p_values[k]), fit_sentence(k, p_values[k], far_out)
        )
        for k in range(1, order + 1)
    )
    return MomentTest(tests, len(draws), f"{p:,.6g} rows")
