"""How many components: the Bayesian information criterion of one fit for each number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from momentmix.covariance import covariance_type
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.matching.identifiability import is_enough
from momentmix.support.warnings import CollapseWarning


class Choice(NamedTuple):
    n_components: int
    log_likelihood: float  # of all rows together
    bic: float
    collapsed: int  # components that rest on next to nothing, which makes the BIC meaningless
    fit: MomentMixture


def best_choice(choices: Sequence[Choice]) -> Choice:
    """The lowest BIC among the fits with the fewest collapsed components."""
    fewest = min(choice.collapsed for choice in choices)
    return min((c for c in choices if c.collapsed == fewest), key=lambda choice: choice.bic)


def choose_components(
    X: Any,
    most: int = 15,
    patience: int = 3,
    callback: Callable[[Choice], None] = lambda choice: None,
    **settings: Any,
) -> tuple[Choice, list[Choice]]:
    """The number of components with the lowest BIC, and all that were looked at, from 1 on.

    Ends at ``most``, where rows or moments of a given order are too few for more, or where
    ``patience`` numbers in a row did not lower the BIC. ``settings`` are those of MomentMixture.
    A fit with a component that has collapsed onto next to nothing is not chosen: its likelihood,
    and so its BIC, says more about that component than about the data.

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
    found: list[Choice] = []
    p, n = np.shape(X)
    for m in range(1, min(most, p) + 1):
        if m > 1 and not _can_tell(m, p, n, settings):
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            fit = MomentMixture(m, **settings).fit(X)
        found.append(Choice(m, fit.score(X) * len(X), fit.bic(X), len(fit.collapsed_), fit))
        callback(found[-1])
        best = best_choice(found)
        if m - best.n_components >= patience or fit.interrupted_:
            break
    return best, found


def _can_tell(m: int, p: int, n: int, settings: dict[str, Any]) -> bool:
    """Whether rows are enough for m components, and moments of an order that was asked for."""
    kind = covariance_type(settings.get("covariance_type", "full"))
    order = settings.get("order", "auto")
    if kind.too_few(np.array([p / m]), n)[0]:
        return False
    return order == "auto" or is_enough(kind, m, n, order)
