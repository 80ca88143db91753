"""One fit among those that differ in their number of components or covariance type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import xlogy

from momentmix.covariance import covariance_type
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.rows import Table
from momentmix.fitting.sweep import is_determined
from momentmix.likelihood.density import softmax
from momentmix.support.array import to_numpy

#: The criterion by which fits are compared.
Criterion: TypeAlias = Literal["bic", "icl", "aic", "cv", "blrt"]
CRITERIA: tuple[Criterion, ...] = ("bic", "icl", "aic", "cv", "blrt")
#: The level of the tests by which "blrt" goes on to more components, which is the customary one.
LEVEL = 0.05


class Choice(NamedTuple):
    """One fit and its criteria. BIC, ICL and AIC are better if lower."""

    n_components: int
    covariance_type: str
    log_likelihood: float  # the total over all rows
    n_parameters: int
    bic: float
    icl: float  # BIC plus twice the entropy of the classification
    aic: float
    cv: float | None  # mean log-likelihood of rows left out, if asked for; higher is better
    relative_entropy: float  # 1 if every row surely belongs to its component; 1 for one component
    smallest: float  # the number of rows in the smallest class
    stability: float | None  # mean adjusted Rand index of two seeds, if there were several
    p_value: float | None  # of the test against one component more, if it was made
    collapsed: int  # the number of collapsed components, which make the BIC meaningless
    fit: GaussianMixture


class Rows(NamedTuple):
    """The rows that fits are compared on."""

    X: np.ndarray  # (p, n); NaN is a gap
    weights: np.ndarray  # (p,), 0 for rows without any value
    noise: Table  # as the user gives it

    @property
    def number(self) -> float:
        """The number of rows, by their weights."""
        return float(self.weights.sum())


def choice_of(fit: GaussianMixture, rows: Rows, cv: float | None = None) -> Choice:
    """The criteria of a fit on some rows."""
    mixture, N = fit.mixture_, rows.number
    R, log_density = softmax(np.array(to_numpy(mixture.log_joint(rows.X, rows.noise))))
    members = rows.weights
    if mixture.background is not None:
        own, log_density = (
            log_density,
            np.logaddexp(log_density, mixture.background.log_joint(rows.X)),
        )
        members = members * np.exp(own - log_density)  # the share of each row that is no outlier
    entropy = -float(members @ np.sum(xlogy(R, R), axis=1))
    classes = np.bincount(R.argmax(axis=1), members, minlength=R.shape[1])
    total, parameters = float(rows.weights @ log_density), fit._n_parameters()
    bic = -2 * total + parameters * float(np.log(N))
    m = mixture.n_components
    return Choice(
        n_components=m,
        covariance_type=mixture.covariance_type,
        log_likelihood=total,
        n_parameters=parameters,
        bic=bic,
        icl=bic + 2 * entropy,
        aic=-2 * total + 2 * parameters,
        cv=cv,
        relative_entropy=relative_entropy(entropy, N, m),
        smallest=float(classes.min()),
        stability=None,
        p_value=None,
        collapsed=len(fit.collapsed_),
        fit=fit,
    )


def relative_entropy(entropy: float, rows: float, m: int) -> float:
    """1 - entropy / (rows log m): 1 if all rows surely belong to their components, 0 if none does.

    ``entropy`` is -Σ p log p of the probabilities of m components, over all rows.
    """
    return 1.0 if m == 1 else 1 - entropy / (rows * float(np.log(m)))


def best_choice(choices: Sequence[Choice], criterion: Criterion = "bic") -> Choice:
    """The best by a criterion among the fits with the fewest collapsed components.

    For "blrt" it is, of each type, the first that a test against one component more does not
    reject, and of these the one of lowest BIC.
    """
    fewest = min(choice.collapsed for choice in choices)
    able = [choice for choice in choices if choice.collapsed == fewest]
    if criterion == "blrt":
        able = [_not_rejected([c for c in able if c.covariance_type == name])
                for name in dict.fromkeys(c.covariance_type for c in able)]  # fmt: skip
        criterion = "bic"
    return min(able, key=lambda choice: _worth(choice, criterion))


def _not_rejected(choices: Sequence[Choice]) -> Choice:
    """The first, by number, that was not rejected; the last if all were."""
    ranked = sorted(choices, key=lambda choice: choice.n_components)
    for choice in ranked:
        if choice.p_value is None or choice.p_value > LEVEL:
            return choice
    return ranked[-1]


def _worth(choice: Choice, criterion: Criterion) -> float:
    """The value of a criterion, with the sign that makes lower better."""
    value = getattr(choice, criterion)
    if value is None:
        return np.inf
    return -float(value) if criterion == "cv" else float(value)


def why_no_more(choices: Sequence[Choice], rows: int, criterion: Criterion = "bic") -> str:
    """A sentence if the best number is the largest that was tried; else an empty one.

    ``rows`` is the number of rows that were fitted.
    """
    best = best_choice(choices, criterion)
    alike = [choice for choice in choices if choice.covariance_type == best.covariance_type]
    largest = max(alike, key=lambda choice: choice.n_components)
    m, fit = largest.n_components, largest.fit
    if best.n_components < m:
        return ""
    if fit.interrupted_:
        return f"The search was interrupted at {m}; more components may be better still."
    kind, n = covariance_type(best.covariance_type), fit.mixture_.n_features
    if not is_determined(m + 1, rows, n, kind):
        return f"{m} is the largest number of components that so few rows allow."
    return f"{m} is the most components that were tried; more may be better still."
