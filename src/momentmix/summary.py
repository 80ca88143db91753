"""What a mixture says about data, in tables and plain words: components, moments, remarks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix.covariance import Diagonal
from momentmix.data.sources import AtomData, TensorData, data_of
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.matching.identifiability import parameter_count
from momentmix.moments.distribution import AtomDistribution
from momentmix.support.array import to_numpy
from momentmix.tensors.packed import multiplicities, order_slice, size_in_words, total_size

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from momentmix.estimators.base import MixtureEstimator
    from momentmix.selection import Choice

#: What has moments: a Mixture, Samples or MomentTensors.
Distribution: TypeAlias = AtomDistribution | MomentTensors

#: Numbers that a comparison of moments may take, and products of numbers while it reads the rows.
MOST_MOMENTS, MOST_WORK = 200_000, 10**10
#: Moments that are compared when an order is asked for.
MOST_ASKED_FOR = 2_000_000
#: The highest order whose multiplicities are 64-bit numbers.
HIGHEST_COMPARED = 20


class Component(NamedTuple):
    """One component of a mixture."""

    number: int  # its place in the mixture, from 0
    weight: float
    mean: np.ndarray  # (n,)
    deviation: np.ndarray  # (n,) standard deviations


class Match(NamedTuple):
    """How far apart the moments of one order are, about the data's mean and in its units."""

    order: int
    distance: float  # ‖M - M̂‖
    relative: float  # of ‖M̂‖
    noise: float  # ‖M̂ - E M̂‖ that sampling alone leads one to expect; NaN if not known

    @property
    def ratio(self) -> float:
        """Distance over noise; NaN where there is no noise to compare with."""
        return self.distance / self.noise if self.noise > 0 else np.nan


def counted(count: int, what: str) -> str:
    """A count and its noun, in the plural where it is not one: "1 row", "3 rows"."""
    return f"{count} {what}{'s' * (count != 1)}"


def readable(value: float, digits: int = 4) -> str:
    """A number as a person writes it: no exponent for everyday sizes, a true minus sign."""
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e7:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    decimals = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size > 0 else 0
    text = f"{value:,.{min(decimals, 10)}f}"
    return text.replace("-", "−")


def names_of(mixture: Mixture) -> list[str]:
    """The names of the features, or x0, x1, …"""
    return list(mixture.feature_names or (f"x{i}" for i in range(mixture.n_features)))


def covariance_matrices(mixture: Mixture) -> np.ndarray:
    """The covariance of each component; (m, n, n)."""
    m, n = mixture.n_components, mixture.n_features
    return np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (m, n, n))


def feature_variances(mixture: Mixture) -> np.ndarray:
    """The variance of each feature in each component; (m, n)."""
    covariance = mixture.atoms.covariance
    if covariance.diagonal:
        shape = mixture.n_components, mixture.n_features
        return np.broadcast_to(to_numpy(covariance.variances()), shape)
    return np.diagonal(covariance_matrices(mixture), axis1=1, axis2=2)


def components(mixture: Mixture) -> list[Component]:
    """The components of a mixture, the heaviest first."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    deviations = np.sqrt(feature_variances(mixture))
    order = np.argsort(-weights, kind="stable")
    return [Component(int(j), float(weights[j]), means[j], deviations[j]) for j in order]


def paired_components(means: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in ``truth`` and in ``means``, paired so that the sum of distances is least."""
    truths, found = linear_sum_assignment(np.linalg.norm(truth[:, None] - means, axis=2))
    return truths, found


def comparable_order(P: Distribution, n: int) -> int:
    """The highest order up to 4 in which moments are compared at moderate cost."""
    order = P.order if isinstance(P, MomentTensors) else 4
    rows = P.n_samples if isinstance(P, Samples) else 1
    affordable = min(MOST_MOMENTS, MOST_WORK // rows)
    while order > 2 and total_size(n, order) > affordable:
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
    """
    data, other = data_of(Q), data_of(P)
    if data.n != other.n:
        raise ValueError(f"P has {other.n} feature(s), but Q has {data.n}")
    if order is None:
        order = min(comparable_order(Q, data.n), comparable_order(P, data.n))
    elif total_size(data.n, order) > MOST_ASKED_FOR:
        count = size_in_words(total_size(data.n, order))
        raise ValueError(
            f"order {order} of {data.n} feature(s) has {count} distinct "
            f"moments; up to {MOST_ASKED_FOR:,} are compared"
        )
    elif order > HIGHEST_COMPARED:
        raise ValueError(f"moments are compared up to order {HIGHEST_COMPARED}, got {order}")
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
    """√E‖M̂ - E M̂‖² of order k, where ``size`` is ‖M̂‖²; NaN unless the data are samples."""
    if not isinstance(data, AtomData) or not data.atoms.covariance.zero:
        return np.nan
    squares = np.sum(np.asarray(data.atoms.means) ** 2, axis=1)
    w = data.atoms.weights
    share = np.full(len(squares), w) if isinstance(w, float) else np.asarray(w)
    return float(np.sqrt(max(share @ squares**k - size, 0) * np.sum(share**2)))


def closeness(mixture: Mixture) -> np.ndarray:
    """Bhattacharyya coefficients of the components with each other; (m, m).

    ∫ √(f_i f_j) = exp(-dᵀS⁻¹d / 8) (det Σ_i det Σ_j)^¼ / (det S)^½ with S = (Σ_i + Σ_j) / 2 and d
    the difference of the means: 1 for the same, 0 for separate ones.
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


def remarks(
    mixture: Mixture,
    rows: int | None = None,
    matches: Sequence[Match] = (),
    collapsed: Sequence[int] = (),
) -> list[str]:
    """What a careful reader should know before trusting the mixture.

    Parameters
    ----------
    mixture : Mixture
    rows : int, optional
        The number of rows that it was fitted to, where they are known.
    matches : sequence of Match
        Its moments compared with those of the data.
    collapsed : sequence of int
        Components of which the fit itself has warned, and which are not spoken of again.

    Returns
    -------
    list of str
        One sentence or two each.
    """
    told = set(collapsed)
    found = _remarks_on_few_rows(mixture, rows, told)
    found += _remarks_on_flatness(mixture, told) + _remarks_on_coincidence(mixture)
    which = ", ".join(str(match.order) for match in matches if match.ratio > 3)
    if which:
        found.append(
            f"The moments of order {which} differ from those of the data by more than three times "
            "the sampling error: the data have a shape that this mixture does not. More "
            "components, or a richer covariance type, may help."
        )
    return found


def _remarks_on_few_rows(mixture: Mixture, rows: int | None, told: set[int]) -> list[str]:
    if rows is None:
        return []
    kind, n = mixture.atoms.covariance.kind, mixture.n_features
    counts = rows * to_numpy(mixture.weights)
    thin = np.flatnonzero(kind.too_few(counts, n))
    return [
        f"Component {j} rests on about {counts[j]:.0f} rows, few for a {kind.name} covariance of "
        f"{n} column(s); its shape may be chance. Fewer components or a simpler covariance type "
        "avoid this."
        for j in thin
        if j not in told
    ]


def _remarks_on_flatness(mixture: Mixture, told: set[int]) -> list[str]:
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    own = feature_variances(mixture)
    overall = np.sqrt(weights @ (own + (means - weights @ means) ** 2))
    overall = np.where(overall > 0, overall, 1.0)
    if mixture.atoms.covariance.diagonal:
        smallest = np.min(own / overall**2, axis=1)
    elif _is_costly(mixture):
        return []
    else:
        scaled = covariance_matrices(mixture) / np.outer(overall, overall)
        smallest = np.linalg.eigvalsh(scaled)[:, 0]
    whose = [f"Component {j} has" for j in np.flatnonzero(smallest < 1e-5) if j not in told]
    if whose and mixture.atoms.covariance.common:
        whose = ["The covariance that all components share has"]
    return [
        f"{who} almost no extent in some direction: rows repeat there, or columns depend on each "
        "other. The likelihood is then mostly reg_covar."
        for who in whose
    ]


def _is_costly(mixture: Mixture) -> bool:
    """Whether a remark would take longer than a fit."""
    m, n = mixture.n_components, mixture.n_features
    return m * m * n**3 > MOST_WORK and not mixture.atoms.covariance.diagonal


def _remarks_on_coincidence(mixture: Mixture) -> list[str]:
    if np.min(feature_variances(mixture)) <= 0 or _is_costly(mixture):
        return []
    try:
        close = closeness(mixture)
    except np.linalg.LinAlgError:
        return []
    return [
        f"Components {i} and {j} nearly coincide; one component fewer may do as well."
        for i, j in np.argwhere(close > 0.95)
        if i < j
    ]


class Rival(NamedTuple):
    """Another fit of the same rows."""

    name: str
    log_likelihood: float  # of all rows together
    seconds: float


@dataclass
class FitSummary:
    """All there is to say about one fit, for a screen, a page or a machine.

    Parameters
    ----------
    mixture : Mixture
    source : str
        What the data are called.
    X : (p, n), optional
        The rows; or
    moments : MomentTensors, optional
        all that is left of them.
    seconds : float, optional
        That the fit took.
    choices : list of Choice
        Numbers of components that were looked at.
    rivals : list of Rival
        Other fits of the same rows.
    notes : list of str
        What the fit itself had to say, such as that it did not converge.
    collapsed : list of int
        Components that rest on next to nothing, by the fit's own word. There is no BIC then.
    """

    mixture: Mixture
    source: str
    X: np.ndarray | None = None
    moments: MomentTensors | None = None
    seconds: float | None = None
    choices: list[Choice] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    collapsed: Sequence[int] = ()

    @classmethod
    def from_estimator(
        cls, estimator: MixtureEstimator, X: ArrayLike, source: str = "the data"
    ) -> FitSummary:
        """Of a fitted estimator and its rows, as an array or a table with named columns."""
        collapsed = list(getattr(estimator, "collapsed_", ()))
        return cls(estimator.mixture_, source, X=np.asarray(X, dtype=float), collapsed=collapsed)

    def add_scikit_learn(self, random_state: int | np.random.RandomState | None = None) -> None:
        """What EM finds from ten starts, with its own default settings, as a rival."""
        from sklearn.mixture import GaussianMixture

        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            em = GaussianMixture(
                self.mixture.n_components,
                covariance_type=self.mixture.covariance_type,
                n_init=10,
                random_state=random_state,
            ).fit(self.X)
        seconds = time.perf_counter() - begin
        total = float(np.sum(em.score_samples(self.X)))
        self.rivals.append(Rival("scikit-learn's EM, n_init=10", total, seconds))

    @property
    def rows(self) -> int | None:
        if self.X is not None:
            return len(self.X)
        return None if self.moments is None else self.moments.count

    @property
    def data(self) -> Distribution | None:
        """What the moments of the mixture are compared with, if there is anything."""
        return self.moments if self.X is None else Samples(self.X)

    @cached_property
    def log_likelihood(self) -> float | None:
        """Of all rows together."""
        return None if self.X is None else float(np.sum(to_numpy(self.mixture.log_prob(self.X))))

    def aic(self, log_likelihood: float) -> float:
        """Of a model of this size with some likelihood."""
        return -2 * log_likelihood + 2 * self.n_parameters

    def bic(self, log_likelihood: float) -> float:
        """Of a model of this size with some likelihood."""
        return -2 * log_likelihood + self.n_parameters * float(np.log(self.rows or 1))

    @property
    def n_parameters(self) -> int:
        mixture = self.mixture
        kind = mixture.atoms.covariance.kind
        return parameter_count(kind, mixture.n_components, mixture.n_features)

    @cached_property
    def matches(self) -> list[Match]:
        return [] if self.data is None else moment_match(self.mixture, self.data)

    @cached_property
    def remarks(self) -> list[str]:
        return self.notes + remarks(self.mixture, self.rows, self.matches, self.collapsed)
