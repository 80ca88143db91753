"""How far apart the moments of two distributions are, and how far sampling alone would put them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from momentmix.covariance import Diagonal
from momentmix.data.sources import AtomData, TensorData, data_of
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.moments.distribution import AtomDistribution
from momentmix.tensors.packed import multiplicities, order_slice, size_in_words, total_size

#: Anything that has moments: a Mixture, Samples or MomentTensors.
Distribution: TypeAlias = AtomDistribution | MomentTensors

#: The most moments, and the most moments times rows, of a comparison whose order nobody asked for;
#: beyond them the default order is lowered. Round numbers that were not tuned.
MOST_MOMENTS, MOST_WORK = 200_000, 10**10
#: The most moments when an order is asked for; more raise an error. Where those up to order 2 are
#: more, as of some 2,000 features, only means are compared by default. A round number, not tuned.
MOST_ASKED_FOR = 2_000_000
#: The sampling error of a moment is unknown unless its size rests on this many rows of equal
#: weight. With one row the estimate would be as large as the moment, so 2 is the least whole number
#: that helps; it was not tuned.
_LEAST_TELLING = 2.0
#: The highest order whose multiplicities fit in 64-bit integers: 20! does, 21! does not.
HIGHEST_COMPARED = 20


class Match(NamedTuple):
    """The distance of the moments of one order, about the data's mean and in its units."""

    order: int
    distance: float  # ‖M - M̂‖
    relative: float  # of ‖M̂‖
    noise: float  # the typical ‖M̂ - E M̂‖ from sampling alone; NaN if unknown

    @property
    def ratio(self) -> float:
        """The distance over its expected size from sampling; NaN if that is unknown."""
        return self.distance / self.noise if self.noise > 0 else np.nan


def comparable_order(P: Distribution, n: int) -> int:
    """The highest order, at most 4, whose moments can be compared at moderate cost."""
    order = P.order if isinstance(P, MomentTensors) else 4
    rows = P.n_samples if isinstance(P, Samples) else 1
    affordable = min(MOST_MOMENTS, MOST_WORK // rows)
    while order > 1 and total_size(n, order) > (affordable if order > 2 else MOST_ASKED_FOR):
        order -= 1
    return min(order, 4)


def check_order(order: int, n: int) -> None:
    """Raise an error if n features have too many moments of this order to compare."""
    if total_size(n, order) > MOST_ASKED_FOR:
        raise ValueError(
            f"order {order} of {n} feature(s) has {size_in_words(total_size(n, order))} distinct "
            f"moments; up to {MOST_ASKED_FOR:,} are compared"
        )
    if order > HIGHEST_COMPARED:
        raise ValueError(f"moments are compared up to order {HIGHEST_COMPARED}, got {order}")


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
    else:
        check_order(order, data.n)
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
    """√E‖M̂ - E M̂‖² of order k, where ``size`` is ‖M̂‖²; NaN unless the data are samples.

    It is estimated from the rows. If a single row makes up nearly all of a moment, the estimate is
    as large as the moment, whatever the other rows are; then the result is NaN.
    """
    if not isinstance(data, AtomData) or not data.atoms.covariance.zero:
        return np.nan
    squares = np.sum(np.asarray(data.atoms.means) ** 2, axis=1)
    w = data.atoms.weights
    share = np.full(len(squares), w) if isinstance(w, float) else np.asarray(w)
    parts = share * squares**k
    if np.sum(parts) ** 2 < _LEAST_TELLING * np.sum(parts**2):
        return np.nan
    return float(np.sqrt(max(np.sum(parts) - size, 0) * np.sum(share**2)))
