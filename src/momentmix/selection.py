"""How many components: the Bayesian information criterion of one fit for each number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from momentmix.choices import is_enough
from momentmix.estimator import MomentMixture


class Choice(NamedTuple):
    n_components: int
    log_likelihood: float  # of all rows together
    bic: float
    fit: MomentMixture


def choose_components(
    X: Any,
    most: int = 15,
    patience: int = 3,
    heard: Callable[[Choice], None] = lambda choice: None,
    **settings: Any,
) -> tuple[Choice, list[Choice]]:
    """The number of components with the lowest BIC, and all that were looked at, from 1 on.

    Ends at ``most``, where moments of a given order tell no more components apart, or where
    ``patience`` numbers in a row did not lower the BIC. ``settings`` are those of MomentMixture;
    optima are compared by ``selection="corrected"``, without which the likelihood of components on
    a handful of rows would always ask for one more.

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
    settings = {"selection": "corrected", **settings}
    found: list[Choice] = []
    # A covariance of n features needs n + 2 rows before what it says is more than chance.
    for m in range(1, max(1, min(most, len(X) // (X.shape[1] + 2))) + 1):
        if found and not _can_tell(m, X.shape[1], settings):
            break
        fit = MomentMixture(m, **settings).fit(X)
        found.append(Choice(m, fit.score(X) * len(X), fit.bic(X), fit))
        heard(found[-1])
        best = min(found, key=lambda choice: choice.bic)
        if m - best.n_components >= patience or fit.interrupted_:
            break
    return best, found


def _can_tell(m: int, n: int, settings: dict[str, Any]) -> bool:
    """Whether moments up to an order that was asked for can determine m components."""
    order = settings.get("order", "auto")
    return order == "auto" or is_enough(settings.get("covariance_type", "full"), m, n, order)
