"""What can be said of the components of a mixture one by one, and in which words.

Counts, numbers and lists are written as people write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentmix.distributions.units import Units
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from momentmix.distributions.mixture import Mixture


def counted(count: int, what: str) -> str:
    """A count and its noun, in the plural where it is not one: "1 row", "3 rows"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def sentence(text: str) -> str:
    """A text as a sentence, with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


def readable(value: float, digits: int = 4) -> str:
    """A number as people write it: no exponent for everyday sizes, a true minus sign."""
    if not np.isfinite(value):
        return "—"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e7:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    decimals = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size > 0 else 0
    text = f"{value:,.{min(decimals, 10)}f}"
    return text.replace("-", "−")


def mean_and_deviation(mean: float, deviation: float) -> tuple[str, str]:
    """A mean, rounded to the second significant digit of its deviation: "554.7", "5.2"."""
    if not (1e-4 <= deviation < 1e7 and abs(mean) < 1e7):
        return readable(mean), readable(deviation, 2)
    decimals = max(0, 1 - int(np.floor(np.log10(deviation))))
    shown = f"{mean:,.{decimals}f}"
    if not any(digit in shown for digit in "123456789"):
        shown = shown.removeprefix("-")  # zero has no sign
    return shown.replace("-", "−"), f"{deviation:,.{decimals}f}"


def typical(name: str, mean: float, deviation: float) -> tuple[str, str]:
    """The mean and the spread of a feature with this name: "554.7" and "± 5.2".

    Of a logarithm they are the median and the middle 68 % in the units of its column: "12,000" and
    "(4,800 to 30,000)". No column that has logarithms is below zero.
    """
    units = Units.of_features([name])
    if not units:
        shown, spread = mean_and_deviation(mean, deviation)
        return shown, f"± {spread}"
    ends = np.array([[mean - deviation], [mean], [mean + deviation]])
    low, middle, high = (readable(x, 3) for x in np.maximum(units.to_data(ends)[:, 0], 0))
    return middle, f"({low} to {high})"


def percent(share: float) -> str:
    """A share in whole percent; only exact zeros and ones become 0 % and 100 %."""
    whole = round(100 * share)
    if share > 0 and whole == 0:
        return "less than 1 %"
    if share < 1 and whole == 100:
        return "more than 99 %"
    return f"{whole} %"


def fine_percent(share: float) -> str:
    """A share in percent with two significant digits, for shares that may be small: "0.6 %"."""
    return f"{100 * share:.2g} %" if share < 0.995 else percent(share)


def listed(items: Sequence[object], most: int = 12) -> str:
    """Items as a sentence lists them: "3, 5 and 7"; the rest beyond ``most`` is counted."""
    words = [str(item) for item in items[:most]]
    if len(items) > most:
        words.append(f"{len(items) - most:,} more")
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


class Component(NamedTuple):
    """One component of a mixture."""

    number: int  # its place in the mixture, from 0
    weight: float
    mean: np.ndarray  # (n,)
    deviation: np.ndarray  # (n,) standard deviations


def names_of(mixture: Mixture) -> list[str]:
    """The names of the features, or x0, x1, …"""
    return list(mixture.feature_names or (f"x{i}" for i in range(mixture.n_features)))


def covariance_matrices(mixture: Mixture) -> np.ndarray:
    """The covariance of each component; (m, n, n)."""
    m, n = mixture.n_components, mixture.n_features
    return np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (m, n, n))


def feature_variances(mixture: Mixture) -> np.ndarray:
    """The variance of each feature in each component; (m, n)."""
    return np.broadcast_to(to_numpy(mixture.atoms.covariance.spread()), mixture.means.shape)


def components(mixture: Mixture) -> list[Component]:
    """The components of a mixture, the heaviest first."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    deviations = np.sqrt(feature_variances(mixture))
    order = np.argsort(-weights, kind="stable")
    return [Component(int(j), float(weights[j]), means[j], deviations[j]) for j in order]


def paired_components(means: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in ``truth`` and in ``means``, paired to minimise the sum of distances."""
    from scipy.optimize import linear_sum_assignment

    truths, found = linear_sum_assignment(np.linalg.norm(truth[:, None] - means, axis=2))
    return truths, found


def overall_mean_and_deviation(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature in the mixture as a whole; (n,) each.

    The variance is Σ_j λ_j (σ_j² + (μ_j - μ)²).
    """
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    mean = weights @ means
    variance = weights @ (feature_variances(mixture) + (means - mean) ** 2)
    return mean, np.sqrt(variance)


def standardised_means(mixture: Mixture) -> np.ndarray:
    """(μ_j - μ) / σ with the mean μ and deviation σ of the whole mixture; (m, n)."""
    mean, deviation = overall_mean_and_deviation(mixture)
    means = to_numpy(mixture.means)
    return (means - mean) / np.where(deviation > 0, deviation, 1.0)


def features_by_tellingness(mixture: Mixture) -> list[int]:
    """All features, those first whose component means vary most relative to the spread within."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    between = weights @ (means - weights @ means) ** 2
    within = weights @ feature_variances(mixture)
    order = np.argsort(-between / np.maximum(within, 1e-300), kind="stable")
    return [int(i) for i in order]


def telling_features(mixture: Mixture, most: int) -> list[int]:
    """The ``most`` features that separate the components best, in the order of the table."""
    return sorted(features_by_tellingness(mixture)[:most])


class Correlation(NamedTuple):
    """The correlation of two features within a component."""

    component: int | None  # None where all components share their covariance
    first: int  # feature
    second: int  # feature, after the first
    value: float  # from -1 to 1
    together: float  # in the whole mixture, where the means contribute too


def correlation_matrices(mixture: Mixture) -> np.ndarray | None:
    """Σ_ab / σ_a σ_b of each component; (m, n, n), or (1, n, n) where the covariance is common.

    None for diagonal covariances and for a single feature. A feature of variance 0 has a
    correlation of 0 with all others.
    """
    covariance = mixture.atoms.covariance
    if covariance.diagonal or mixture.n_features < 2:
        return None
    matrices = covariance_matrices(mixture)[: 1 if covariance.common else None]
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    return _correlations(matrices, deviations)


def correlations_together(mixture: Mixture) -> np.ndarray:
    """Correlations in the mixture as a whole; (n, n)."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    mean, deviation = overall_mean_and_deviation(mixture)
    total = (means - mean).T @ (weights[:, None] * (means - mean))
    for weight, matrix in zip(weights, covariance_matrices(mixture), strict=True):
        total = total + weight * matrix
    return _correlations(total, deviation)


def strongest_correlations(mixture: Mixture, most: int = 10) -> list[Correlation]:
    """The ``most`` largest in size, among all components and pairs of features."""
    matrices = correlation_matrices(mixture)
    if matrices is None:
        return []
    together = correlations_together(mixture)
    rows, columns = np.triu_indices(mixture.n_features, 1)
    found = []
    for j, matrix in enumerate(matrices):
        values = matrix[rows, columns]
        component = None if mixture.atoms.covariance.common else j
        for k in np.argsort(-np.abs(values), kind="stable")[:most]:
            a, b = int(rows[k]), int(columns[k])
            found.append(Correlation(component, a, b, float(values[k]), float(together[a, b])))
    return sorted(found, key=lambda one: -abs(one.value))[:most]


def _correlations(matrices: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Covariances (…, n, n) over the deviations (…, n) of both features, kept within -1 and 1."""
    safe = np.where(deviations > 0, deviations, 1.0)
    return np.clip(matrices / (safe[..., :, None] * safe[..., None, :]), -1, 1)
