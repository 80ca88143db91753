"""Remarks, in whole sentences, that a reader needs before trusting a mixture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.goodness import LEVEL, MomentTest
from momentmix.goodness.distances import MOST_WORK, Match
from momentmix.summary.columns import ColumnSummary
from momentmix.summary.component import (
    covariance_matrices,
    feature_variances,
    overall_mean_and_deviation,
)
from momentmix.summary.words import counted, listed
from momentmix.support.array import to_numpy

#: A component whose smallest variance is below this share of the whole mixture's is called flat. A
#: round number; it affects the remark alone.
_FLAT = 1e-5
#: Two components with a larger Bhattacharyya coefficient nearly coincide. A round number: equal
#: spherical components reach it when their means are 0.64 standard deviations apart.
_SAME = 0.95


def remarks(
    mixture: Mixture,
    rows: int | None = None,
    matches: Sequence[Match] = (),
    collapsed: Sequence[int] = (),
    tests: MomentTest | None = None,
) -> list[str]:
    """Remarks that a reader needs before trusting the mixture.

    Parameters
    ----------
    mixture : Mixture
    rows : int, optional
        The number of rows that it was fitted to, where they are known.
    matches : sequence of Match
        Its moments compared with those of the data.
    collapsed : sequence of int
        Components that the fit has already warned about; they are not mentioned again.
    tests : MomentTest, optional
        Tests of the moments. If given, they and not ``matches`` decide whether moments differ.

    Returns
    -------
    list of str
        One for each problem, naming all the components that have it.
    """
    told = set(collapsed)
    found = [
        _few_rows(mixture, rows, told),
        _flatness(mixture, told),
        _coincidence(mixture),
        _moments_apart(matches) if tests is None else _rejected(tests),
    ]
    return [remark for remark in found if remark]


def collapse_remark(collapsed: Sequence[int]) -> str:
    """The remark on components that the fit has found to be collapsed."""
    many = len(collapsed) > 1
    return (
        f"{_components(sorted(collapsed))} {'have' if many else 'has'} collapsed onto so few rows, "
        f"or rows so much alike, that what {'they look' if many else 'it looks'} like may be "
        "chance. The BIC then means little and is not given. Fewer components or a simpler "
        "covariance type avoid this."
    )


def errors_remark(columns: Sequence[ColumnSummary]) -> str:
    """The remark on error bars that are larger than the spread of the values."""
    large = [column.name for column in columns if column.error_share > 1]
    if not large:
        return ""
    of = f"column{'s' * (len(large) > 1)} {listed(large)}"
    return (
        f"The standard errors of {of} are larger than {'its' if len(large) == 1 else 'their'} "
        "values differ, so nothing is left for the mixture to describe. Are they in the units of "
        "the values, and not variances?"
    )


def _few_rows(mixture: Mixture, rows: int | None, told: set[int]) -> str:
    if rows is None:
        return ""
    kind, n = mixture.atoms.covariance.kind, mixture.n_features
    counts = rows * to_numpy(mixture.weights)
    thin = [int(j) for j in np.flatnonzero(kind.too_few(counts, n)) if j not in told]
    if not thin:
        return ""
    about = listed([f"{counts[j]:.0f}" for j in thin])
    return (
        f"{_components(thin)} {'rest' if len(thin) > 1 else 'rests'} on few rows (about {about}), "
        f"too few to be sure of a {kind.name} covariance of {counted(n, 'column')}: "
        f"{'their shapes' if len(thin) > 1 else 'its shape'} may be chance. Fewer components or a "
        "simpler covariance type avoid this."
    )


def _flatness(mixture: Mixture, told: set[int]) -> str:
    covariance = mixture.atoms.covariance
    flat = [int(j) for j in np.flatnonzero(_least_width(mixture) < _FLAT) if j not in told]
    if not flat:
        return ""
    who, its = f"{_components(flat)} {'have' if len(flat) > 1 else 'has'}", "Their"
    if covariance.common:
        who = "The covariance that all components share has"
    if covariance.common or len(flat) == 1:
        its = "Its"
    return (
        f"{who} almost no width in some direction, because rows repeat there or columns depend on "
        f"each other. {its} width there is set by the fit's lower limit, not by the data, and so "
        "is much of the likelihood."
    )


def _least_width(mixture: Mixture) -> np.ndarray:
    """The least variance of each component in units of the whole mixture's; (m,).

    The array is (0,) if computing it would take longer than a fit.
    """
    overall = overall_mean_and_deviation(mixture)[1]
    overall = np.where(overall > 0, overall, 1.0)
    if mixture.atoms.covariance.diagonal:
        return np.asarray(np.min(feature_variances(mixture) / overall**2, axis=1))
    if _is_costly(mixture):
        return np.ones(0)
    scaled = covariance_matrices(mixture) / np.outer(overall, overall)
    return np.asarray(np.linalg.eigvalsh(scaled)[:, 0])


def _is_costly(mixture: Mixture) -> bool:
    """Whether eigenvalues or distances of all components would take longer than a fit."""
    m, n = mixture.n_components, mixture.n_features
    return m * m * n**3 > MOST_WORK and not mixture.atoms.covariance.diagonal


def _coincidence(mixture: Mixture) -> str:
    if np.min(feature_variances(mixture)) <= 0 or _is_costly(mixture):
        return ""
    try:
        groups = _groups(closeness(mixture) > _SAME)
    except np.linalg.LinAlgError:
        return ""
    if not groups:
        return ""
    first, *others = groups
    also = f", and so do {listed([listed(group) for group in others])}" if others else ""
    fewer = sum(len(group) - 1 for group in groups)
    number = "one component fewer" if fewer == 1 else "fewer components"
    return f"{_components(first)} nearly coincide{also}; {number} may do as well."


def _groups(joined: np.ndarray) -> list[list[int]]:
    """The connected components of a symmetric relation (m, m) that have more than one member."""
    left, groups = set(range(len(joined))), []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {int(k) for j in new for k in np.flatnonzero(joined[j])} - group
        left -= group
        groups.append(sorted(group))
    return [group for group in groups if len(group) > 1]


def _moments_apart(matches: Sequence[Match]) -> str:
    which = [match.order for match in matches if match.ratio > 3]
    if not which:
        return ""
    return (
        f"The moments of order {listed(which)} differ from those of the data by more than three "
        "times the sampling error: the data have a shape that this mixture does not. More "
        "components, or a richer covariance type, may help."
    )


def _rejected(tests: MomentTest) -> str:
    """The remark on tests that reject at 5 % after Bonferroni's correction."""
    tested = int(np.sum(np.isfinite(tests.p_values)))
    found = [test for test in tests if test.p_value * tested <= LEVEL]
    if not found:
        return ""
    what = "; ".join(test.sentence.rstrip(".") for test in found)
    return (
        f"Chance does not explain how the rows differ from the mixture. {what}. More components, a "
        "richer covariance type or other units, such as logarithms, may help. With many rows, even "
        "harmless differences are detected."
    )


def _components(numbers: Sequence[int]) -> str:
    return f"Component{'s' * (len(numbers) > 1)} {listed(numbers)}"


def closeness(mixture: Mixture) -> np.ndarray:
    """Bhattacharyya coefficients of the components with each other; (m, m).

    ∫ √(f_i f_j) = exp(-dᵀS⁻¹d / 8) (det Σ_i det Σ_j)^¼ / (det S)^½ with S = (Σ_i + Σ_j) / 2 and d
    the difference of the means: 1 for equal components, 0 for separate ones.
    """
    means, diagonal = to_numpy(mixture.means), mixture.atoms.covariance.diagonal
    S = feature_variances(mixture) if diagonal else covariance_matrices(mixture)
    m = len(means)

    def log_det(S: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.log(S), axis=-1) if diagonal else np.linalg.slogdet(S)[1])

    result = np.eye(m)
    for i in range(m - 1):
        middle = (S[i] + S[i + 1 :]) / 2
        d = means[i + 1 :] - means[i]
        solved = d / middle if diagonal else np.linalg.solve(middle, d[:, :, None])[:, :, 0]
        square = np.sum(d * solved, axis=1)
        logs = (log_det(S[i]) + log_det(S[i + 1 :])) / 4 - log_det(middle) / 2 - square / 8
        result[i, i + 1 :] = result[i + 1 :, i] = np.exp(logs)
    return result
