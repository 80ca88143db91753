"""How many components: the Bayesian information criterion of one fit for each number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentmix.covariance import Kind, covariance_type
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.matching.identifiability import is_enough, parameter_count
from momentmix.support.warnings import CollapseWarning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Choice(NamedTuple):
    """One fit among those that differ in their number of components."""

    n_components: int
    log_likelihood: float  # of all rows together
    bic: float
    collapsed: int  # components that rest on next to nothing, which makes the BIC meaningless
    fit: MomentMixture


def best_choice(choices: Sequence[Choice]) -> Choice:
    """The lowest BIC among the fits with the fewest collapsed components."""
    fewest = min(choice.collapsed for choice in choices)
    return min((c for c in choices if c.collapsed == fewest), key=lambda choice: choice.bic)


def why_no_more(choices: Sequence[Choice], rows: int) -> str:
    """A sentence where the best number is the largest that was tried; else nothing.

    ``rows`` is the number of rows that were fitted.
    """
    largest = max(choices, key=lambda choice: choice.n_components)
    m, fit = largest.n_components, largest.fit
    if best_choice(choices).n_components < m:
        return ""
    if fit.interrupted_:
        return f"The search was interrupted at {m}; more components may be better still."
    kind = covariance_type(fit.covariance_type)
    if not _determines(m + 1, rows, fit.mixture_.n_features, kind, fit.order):
        enough_rows = _determines(m + 1, rows, fit.mixture_.n_features, kind, "auto")
        what = f"moments of order {fit.order} determine" if enough_rows else "so few rows allow"
        return f"{m} is the largest number of components that {what}."
    return f"{m} is the most components that were tried; more may be better still."


def choose_components(
    X: ArrayLike,
    most: int = 15,
    patience: int = 3,
    callback: Callable[[Choice], None] = lambda choice: None,
    noise_covariance: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **settings: Any,
) -> tuple[Choice, list[Choice]]:
    """The number of components with the lowest BIC, and all that were looked at, from 1 on.

    A fit with a component that has collapsed onto next to nothing is not chosen: its likelihood,
    and so its BIC, says more about that component than about the data. Numbers are tried until
    rows, or moments of a given order, are too few for more.

    Parameters
    ----------
    X : (p, n)
        The rows. NaN is a gap; rows without any value do not count.
    most : int, default=15
        The largest number tried.
    patience : int, default=3
        So many numbers in a row that do not lower the BIC are enough.
    callback : callable, optional
        Is given each Choice as soon as it is known, to show progress.
    noise_covariance : scalar or array, optional
        The covariance of known errors in the rows, as in ``MomentMixture.fit``.
    sample_weight : array of shape (p,), optional
        How many times each row counts.
    **settings
        Those of MomentMixture, the number of components apart.

    Returns
    -------
    best : Choice
    looked_at : list of Choice

    Examples
    --------
    >>> from momentmix import Mixture
    >>> from momentmix.selection import choose_components
    >>> truth = Mixture([0.5, 0.3, 0.2], [[0, 0], [4, 0], [0, 4]], [1.0, 0.5, 0.5], "spherical")
    >>> X, _ = truth.sample(2000, random_state=0)
    >>> best, looked_at = choose_components(X, covariance_type="spherical", random_state=0)
    >>> best.n_components
    3
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    kind = covariance_type(settings.get("covariance_type", "full"))
    order = settings.get("order", "auto")
    found: list[Choice] = []
    n = np.shape(X)[1]
    told = ~np.isnan(np.asarray(X, dtype=float)).all(axis=1)
    counts = np.asarray(told if sample_weight is None else sample_weight, dtype=float) * told
    p, rows = float(counts.sum()), int(np.count_nonzero(counts))
    for m in range(1, max(min(most, rows), 1) + 1):
        if m > 1 and not _determines(m, p, n, kind, order):
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            fit = MomentMixture(m, **settings)
            fit.fit(X, sample_weight=sample_weight, noise_covariance=noise_covariance)
        log_likelihood = float(counts @ fit.score_samples(X, noise_covariance))
        penalty = parameter_count(kind, m, n) * float(np.log(p))
        bic = -2 * log_likelihood + penalty
        found.append(Choice(m, log_likelihood, bic, len(fit.collapsed_), fit))
        callback(found[-1])
        best = best_choice(found)
        if m - best.n_components >= patience or fit.interrupted_:
            break
    return best, found


def _determines(m: int, p: float, n: int, kind: Kind, order: int | str) -> bool:
    """Whether p rows are enough for m components, and moments of an order that was asked for."""
    if kind.too_few(np.array([p / m]), n)[0]:
        return False
    return isinstance(order, str) or is_enough(kind, m, n, order)
