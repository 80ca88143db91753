"""What a mixture says about data, in tables and plain words: components, moments, remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from momentmix._array import to_numpy
from momentmix.choices import parameter_count
from momentmix.covariance import optimism, smallest_variance
from momentmix.data import AtomData, TensorData, as_tensors, data_of
from momentmix.mixture import Mixture
from momentmix.packed import multiplicities, order_slice, total_size
from momentmix.samples import Samples
from momentmix.tensors import MomentTensors

#: Numbers that a comparison of moments may take, and products of numbers while it reads the rows.
MOST_MOMENTS, MOST_WORK = 200_000, 10**10


class Component(NamedTuple):
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


def number(value: float, digits: int = 4) -> str:
    """As a person writes it: no exponent for everyday sizes, a true minus sign."""
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e7:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    decimals = max(0, digits - 1 - int(np.floor(np.log10(size)))) if size > 0 else 0
    text = f"{value:,.{min(decimals, 10)}f}"
    return text.replace("-", "−")


def names_of(mixture: Mixture) -> list[str]:
    """The names of the features, or x0, x1, …"""
    return list(mixture.feature_names or (f"x{i}" for i in range(mixture.n_features)))


def matrices(mixture: Mixture) -> np.ndarray:
    """The covariance of each component; (m, n, n)."""
    m, n = mixture.n_components, mixture.n_features
    return np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (m, n, n))


def components(mixture: Mixture) -> list[Component]:
    """By falling weight."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    deviations = np.sqrt(np.diagonal(matrices(mixture), axis1=1, axis2=2))
    order = np.argsort(-weights, kind="stable")
    return [Component(int(j), float(weights[j]), means[j], deviations[j]) for j in order]


def comparable_order(P: Any, n: int) -> int:
    """The highest order up to 4 in which moments are compared at moderate cost."""
    order = P.order if isinstance(P, MomentTensors) else 4
    rows = P.n_samples if isinstance(P, Samples) else 1
    while order > 2 and (
        total_size(n, order) > MOST_MOMENTS or rows * total_size(n, order) > MOST_WORK
    ):
        order -= 1
    return min(order, 4)


def moment_match(P: Any, Q: Any, order: int | None = None) -> list[Match]:
    """Distances of the moments of P and Q, order by order, in Q's centred and scaled coordinates.

    P and Q are a Mixture, Samples or MomentTensors. An empirical moment of p samples z has
    E‖M̂ - E M̂‖² = (E‖z‖^2k - ‖M‖²) / p, which is known where Q is Samples.
    """
    data, other = data_of(Q), data_of(P)
    if data.n != other.n:
        raise ValueError(f"P has {other.n} feature(s), but Q has {data.n}")
    if order is None:
        order = min(comparable_order(Q, data.n), comparable_order(P, data.n))
    for name, D in (("P", P), ("Q", Q)):
        if isinstance(D, MomentTensors) and D.order < order:
            raise ValueError(f"{name} holds moments up to order {D.order}, not {order}")
    frame = data.frame("diag")
    scaled = data.within(frame)
    ours, theirs = (_moments(D.within(frame), order) for D in (other, data))
    scale = multiplicities(data.n, order)
    result = []
    for k in range(1, order + 1):
        part = order_slice(data.n, k)
        size = float(np.sum(scale[part] * theirs[part] ** 2))
        distance = float(np.sqrt(np.sum(scale[part] * (ours[part] - theirs[part]) ** 2)))
        relative = distance / np.sqrt(size) if k > 1 and size > 0 else np.nan
        result.append(Match(k, distance, relative, _noise(scaled, k, size)))
    return result


def _moments(data: AtomData | TensorData, order: int) -> np.ndarray:
    if isinstance(data, AtomData) and data.atoms.covariance.zero:
        w = data.atoms.weights
        rows, weights = np.asarray(data.atoms.means), None if isinstance(w, float) else w
        data = TensorData(MomentTensors.from_samples(rows, order, weights))
    return as_tensors(data, order).moments(order)


def _noise(data: AtomData | TensorData, k: int, size: float) -> float:
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
    means, S = to_numpy(mixture.means), matrices(mixture)
    m = len(means)
    log_det = np.linalg.slogdet(S)[1]
    result = np.eye(m)
    for i in range(m - 1):
        middle = (S[i] + S[i + 1 :]) / 2
        d = means[i + 1 :] - means[i]
        square = np.sum(d * np.linalg.solve(middle, d[:, :, None])[:, :, 0], axis=1)
        logs = (log_det[i] + log_det[i + 1 :]) / 4 - np.linalg.slogdet(middle)[1] / 2 - square / 8
        result[i, i + 1 :] = result[i + 1 :, i] = np.exp(logs)
    return result


def remarks(mixture: Mixture, rows: int | None = None, matches: Sequence[Match] = ()) -> list[str]:
    """What a careful reader should know before trusting the mixture, one sentence or two each."""
    found = _thin(mixture, rows) + _flat(mixture) + _alike(mixture)
    poor = [match for match in matches if match.distance > 3 * match.noise]
    if poor:
        which = ", ".join(str(match.order) for match in poor)
        found.append(
            f"The moments of order {which} differ from those of the data by more than three times "
            "the sampling error: the data have a shape that this mixture does not. More "
            "components, or a richer covariance type, may help."
        )
    return found


def _thin(mixture: Mixture, rows: int | None) -> list[str]:
    if rows is None:
        return []
    kind, n = mixture.covariance_type, mixture.n_features
    counts = rows * to_numpy(mixture.weights)
    enough = 2 * optimism(kind, np.array([np.inf]), n)
    thin = np.flatnonzero(optimism(kind, counts, n) > enough)
    return [
        f"Component {j} rests on about {counts[j]:.0f} rows, few for a {kind} covariance of {n} "
        'column(s); its shape may be chance. selection="corrected", fewer components or a '
        "simpler covariance type avoid this."
        for j in thin
    ]


def _flat(mixture: Mixture) -> list[str]:
    overall = data_of(mixture).frame("diag")
    scaled = overall.apply_covariance(data_of(mixture).atoms.covariance)  # type: ignore[union-attr]
    array = np.asarray(scaled.array)
    flat = [
        j
        for j in range(mixture.n_components if not scaled.shared else 1)
        if smallest_variance(scaled.kind, array[j : j + 1] if not scaled.shared else array) < 1e-5
    ]
    return [
        f"Component {j} has almost no extent in some direction: rows repeat there, or columns "
        "depend on each other. Its likelihood is then mostly reg_covar."
        for j in flat
    ]


def _alike(mixture: Mixture) -> list[str]:
    try:
        close = closeness(mixture)
    except np.linalg.LinAlgError:
        return []
    pairs = [(i, j) for i, j in np.argwhere(close > 0.95) if i < j]
    return [
        f"Components {i} and {j} nearly coincide; one component fewer may do as well."
        for i, j in pairs
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
    """

    mixture: Mixture
    source: str
    X: np.ndarray | None = None
    moments: MomentTensors | None = None
    seconds: float | None = None
    choices: list[Any] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, source: str = "the data") -> FitSummary:
        """Of a fitted estimator and its rows, as an array or a table with named columns."""
        return cls(estimator.mixture_, source, X=np.asarray(X, dtype=float))

    @property
    def rows(self) -> int | None:
        if self.X is not None:
            return len(self.X)
        return None if self.moments is None else self.moments.count

    @property
    def data(self) -> Any:
        return self.moments if self.X is None else Samples(self.X)

    @cached_property
    def log_likelihood(self) -> float | None:
        """Of all rows together."""
        return None if self.X is None else float(np.sum(self.mixture.log_prob(self.X)))

    def bic(self, log_likelihood: float) -> float:
        """Of a model of this size with some likelihood."""
        return -2 * log_likelihood + self.n_parameters * float(np.log(self.rows or 1))

    @property
    def n_parameters(self) -> int:
        mixture = self.mixture
        kind, m, n = mixture.covariance_type, mixture.n_components, mixture.n_features
        return parameter_count(kind, m, n)

    @cached_property
    def matches(self) -> list[Match]:
        return [] if self.data is None else moment_match(self.mixture, self.data)

    @cached_property
    def remarks(self) -> list[str]:
        return self.notes + remarks(self.mixture, self.rows, self.matches)
