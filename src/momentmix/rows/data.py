"""The data of a fit: rows in memory, complete or with gaps and errors, mixtures, or moments alone.

``Data`` is what every fit asks of its data; a moment fit asks for ``MomentData``, and a likelihood
in memory for ``RowData``. Rows elsewhere are in elsewhere.py. Each offers ``frame``, coordinates
that centre and scale it, and ``matched``, what its moments come from: ``within`` is that in the
coordinates of a frame, ``moments`` its moments, and ``inner_with`` their inner products with
moments of atoms (which reads the rows ``passes`` times). ``rows_to_fit`` makes data of the rows
that a user gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from momentmix.covariance import Covariance, Kind, Zero
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.observed import ObservedRows
from momentmix.observed.completed import noise_draws, one_gaussian
from momentmix.rows.device import device_passes
from momentmix.rows.frame import LARGE_DATA, Frame, by_distance, distinct_rows, spread_of_rows
from momentmix.rows.incomplete import (
    CompletedRows,
    IncompleteRows,
    check_gaps,
    shifts_of_gaps,
    tensors_with_gaps,
)
from momentmix.rows.memory import MemoryRows
from momentmix.rows.screening import Crowding
from momentmix.support.array import Array, to_numpy
from momentmix.tensors.dense import packed_indices, unpack
from momentmix.tensors.isserlis import atom_sums
from momentmix.tensors.packed import linear_map, order_slice, plus_gaussian, total_size


class MomentSource(Protocol):
    """What an implicit cost needs: inner products with the moments of atoms."""

    n: int

    @property
    def passes(self) -> int:
        """How many passes over the rows each evaluation takes; 0 if there are no rows to read."""

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Σ_k w_k ⟨M_i, M⟩ for each atom of P, and the gradient in P."""


#: Where the rows can be read again: in memory, elsewhere, or not at all if only moments are left.
Place: TypeAlias = Literal["memory", "elsewhere", "moments"]


class Data(Protocol):
    """What every fit asks of its data."""

    n: int

    @property
    def place(self) -> Place:
        """Where the rows are."""

    @property
    def order(self) -> int | None:
        """The highest order of the known moments; None if all orders can be had."""

    @property
    def rows(self) -> int:
        """How many rows each evaluation reads; a guess if the source does not know."""

    @property
    def count(self) -> float:
        """How many samples the data are, whatever their weights; ∞ for a mixture."""

    def frame(self, kind: Kind) -> Frame:
        """Coordinates in which the data are centred and scaled."""

    def matched(self, order: int, tensors: bool) -> MomentData:
        """What a moment fit matches; ``tensors`` asks for the moments up to an order, in a pass."""


class MomentData(Data, MomentSource, Protocol):
    """Data that have moments in any coordinates."""

    def within(self, frame: Frame) -> MomentData:
        """The same data in the coordinates of a frame."""

    def moments(self, order: int) -> np.ndarray:
        """Packed moments of orders 0..order; (N,)."""

    def compress(self, basis: np.ndarray, order: int) -> MomentData:
        """The data projected on an orthonormal basis (n, r), with moments up to an order."""


class Gaps(NamedTuple):
    """How much of a table is not there."""

    share: float  # of the cells, by the weights of their rows
    whole: float  # the number of rows without a gap


class RowData(ABC):
    """Rows in memory: NaN is a gap, and errors of the rows may be known.

    ``weights`` (p,) sum to 1; None means equal ones.
    """

    n: int
    X: np.ndarray
    weights: np.ndarray | None
    count: float
    order: None = None
    place: Place = "memory"
    noisy: bool = False
    device: Array | None = None  # an empty array on the device where passes are to be made

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.X)

    @property
    def gaps(self) -> Gaps | None:
        """How much is not there; None of complete rows without errors."""
        return None

    @property
    @abstractmethod
    def counts(self) -> np.ndarray | None:
        """How often each row counts, for the neighbours of others; None if all count once."""

    @abstractmethod
    def frame(self, kind: Kind) -> Frame:
        """Coordinates in which the rows without their errors and gaps are centred and scaled."""

    @abstractmethod
    def rows_within(self, frame: Frame, kind: Kind, crowding: Crowding | None = None) -> MemoryRows:
        """The rows in the coordinates of a frame, in an order that depends on their content."""

    @abstractmethod
    def matched(self, order: int, tensors: bool) -> AtomData | TensorData:
        """What a moment fit matches; ``tensors`` asks for the moments up to an order, in a pass."""

    @abstractmethod
    def filled(self, kind: Kind) -> np.ndarray:
        """Complete rows that stand in for these, in some coordinates; (p, n)."""

    @abstractmethod
    def take(self, places: np.ndarray) -> RowData:
        """Some of the rows, which keep their weights relative to each other."""

    @abstractmethod
    def draw(self, mixture: Mixture, rng: np.random.Generator) -> RowData:
        """As many rows from a mixture as these count for, with gaps and errors like theirs."""


def content_order(X: np.ndarray) -> np.ndarray:
    """An order of rows that depends on their content alone, unless there are very many."""
    return np.arange(len(X)) if X.size > LARGE_DATA else by_distance(X)


class AtomData(RowData):
    """Atoms in memory: samples, samples with noise taken out, mixtures.

    ``count`` is the number of samples; by default that of the atoms if they are points, else ∞.
    """

    passes = 1

    def __init__(
        self, atoms: Atoms, count: float | None = None, device: Array | None = None
    ) -> None:
        self.atoms, self.n, self.device = atoms, int(atoms.means.shape[1]), device
        self.X = to_numpy(atoms.means)
        self.weights = None if isinstance(atoms.weights, float) else to_numpy(atoms.weights)
        self.count = count if count is not None else len(atoms) if atoms.covariance.zero else np.inf

    @classmethod
    def of_rows(
        cls,
        X: np.ndarray,
        weights: np.ndarray | None,
        count: float | None = None,
        device: Array | None = None,
    ) -> AtomData:
        """Rows (p, n) with weights (p,) of sum 1, or equal ones, that count for ``count`` rows."""
        each = 1 / len(X) if weights is None else weights
        return cls(Atoms(each, X, Zero(X.shape[1]), np), count, device)

    @classmethod
    def of_memory(cls, rows: MemoryRows) -> AtomData:
        """The rows of a likelihood, complete or completed."""
        equal = bool(np.all(rows.weights == rows.weights[0]))
        return cls.of_rows(rows.X, None if equal else rows.weights, rows.count)

    @property
    def counts(self) -> np.ndarray | None:
        return None if self.weights is None else self.weights * self.count

    def frame(self, kind: Kind) -> Frame:
        if self.atoms.covariance.zero:
            return Frame.of_samples(kind, self.X, self.weights)
        return Frame.of_atoms(kind, self.atoms)

    def within(self, frame: Frame) -> AtomData:
        return AtomData(frame.apply_atoms(self.atoms), self.count)

    def rows_within(self, frame: Frame, kind: Kind, crowding: Crowding | None = None) -> MemoryRows:
        X, weights = self.within(frame).X, self.weights
        order = content_order(X)
        if X.size <= LARGE_DATA:
            X, weights = X[order], None if weights is None else weights[order]
        if crowding is not None:
            crowding = crowding.at(np.argsort(order))
        rows = MemoryRows(X, weights, kind, self.count, frame.to_features, crowding)
        if self.device is None or kind.iterated:
            return rows
        return rows.with_passes(device_passes(X, kind, self.device))

    def matched(self, order: int, tensors: bool) -> AtomData | TensorData:
        if not tensors:
            return self
        return TensorData(MomentTensors.from_samples(self.X, order, self.weights), self.count)

    def filled(self, kind: Kind) -> np.ndarray:
        return self.X

    def take(self, places: np.ndarray) -> AtomData:
        if self.weights is None:
            return AtomData.of_rows(self.X[places], None, self.count * len(places) / len(self.X))
        shares = self.weights[places]
        total = float(shares.sum())
        return AtomData.of_rows(self.X[places], shares / total, self.count * total)

    def draw(self, mixture: Mixture, rng: np.random.Generator) -> AtomData:
        X, _ = mixture.sample(max(2, round(self.count)), rng)
        return AtomData.of_rows(to_numpy(X), None)

    def moments(self, order: int) -> np.ndarray:
        return atom_sums(self.atoms, np.zeros(self.n), order)

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        return bilinear(P, self.atoms, weights, gradient)

    def compress(self, basis: np.ndarray, order: int) -> AtomData:
        covariance = self.atoms.covariance.project(basis)
        return AtomData(Atoms(self.atoms.weights, self.atoms.means @ basis, covariance, np))

    @property
    def mass(self) -> float:
        """The sum of the weights."""
        w = self.atoms.weights
        return len(self.atoms) * w if isinstance(w, float) else float(np.sum(to_numpy(w)))

    def debias(self, noise: Covariance) -> AtomData:
        covariance = self.atoms.covariance.without(noise)
        return AtomData(Atoms(self.atoms.weights, self.atoms.means, covariance, np))

    def halve(self, rng: np.random.Generator) -> AtomData:
        """One random half of the atoms minus the other half, which looks like pure sampling noise.

        Its moments have mean zero and the sampling error of the moments of all atoms.
        """
        column = np.asarray(self.atoms.column)[:, 0]
        signs = np.where(rng.permutation(len(column)) % 2 == 0, 1.0, -1.0)
        return AtomData(Atoms(signs * column, self.atoms.means, self.atoms.covariance, np))


class TensorData:
    """Moments alone; the rows that they came from are no longer needed."""

    passes = 0
    rows = 0
    place: Place = "moments"

    def __init__(self, tensors: MomentTensors, count: float | None = None) -> None:
        self.tensors, self.n = tensors, tensors.n_features
        self.count = tensors.effective_count if count is None else count

    @property
    def order(self) -> int:
        return self.tensors.order

    def frame(self, kind: Kind) -> Frame:
        return Frame(kind, self.tensors.mean, self.tensors.covariance)

    def matched(self, order: int, tensors: bool) -> TensorData:
        return self

    def within(self, frame: Frame) -> TensorData:
        return self._with(_scale(self.tensors.about(frame.centre), self.n, self.order, frame))

    def _with(self, packed: np.ndarray) -> TensorData:
        """Other moments of the same samples, about the origin."""
        centre = np.zeros(self.n)
        tensors = MomentTensors.from_sums(self.tensors.count, centre, packed, self.order)
        return TensorData(tensors, self.count)

    def moments(self, order: int) -> np.ndarray:
        return self.tensors.about(np.zeros(self.n))[: total_size(self.n, order)]

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        return self.tensors.inner_with(P, weights, gradient)

    def debias(self, noise: Covariance) -> TensorData:
        out = -to_numpy(noise.matrices())[0]
        return self._with(plus_gaussian(self.moments(self.order), self.n, covariance=out))

    def compress(self, basis: np.ndarray, order: int) -> TensorData:
        packed, r = linear_map(self.moments(order), basis.T), basis.shape[1]
        tensors = MomentTensors.from_sums(self.tensors.count, np.zeros(r), packed, order)
        return TensorData(tensors, self.count)


class Rescaled:
    """Data in another unit, without a copy: each evaluation rescales the atoms instead."""

    def __init__(self, data: MomentSource, unit: float) -> None:
        self.data, self.unit, self.n, self.passes = data, unit, data.n, data.passes

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        points = Atoms(P.weights, P.means / self.unit, P.covariance, np)
        form = self.data.inner_with(points, weights, gradient)
        if not gradient:
            return form
        return InnerProducts(form.values, np.asarray(form.means) / self.unit, None)


class Deflated:
    """Data from whose moments those of some atoms are subtracted."""

    def __init__(self, data: MomentSource, atoms: Atoms) -> None:
        self.data, self.atoms, self.n, self.passes = data, atoms, data.n, data.passes

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        form = self.data.inner_with(P, weights, gradient)
        out = bilinear(P, self.atoms, weights, gradient)
        if not gradient:
            return InnerProducts(form.values - out.values, None, None)
        return InnerProducts(form.values - out.values, np.asarray(form.means) - out.means, None)


def data_of(P: object) -> AtomData | TensorData:
    """The moments of a Mixture, of Samples or of MomentTensors as data of a fit, in NumPy."""
    if isinstance(P, MomentTensors):
        return TensorData(P)
    if not hasattr(P, "atoms"):
        raise TypeError(
            f"P must be a Mixture, Samples or MomentTensors, got {type(P).__name__}; wrap an array "
            "of rows as Samples(X)"
        )
    atoms = P.atoms
    covariance = atoms.covariance
    if not covariance.zero:
        array = to_numpy(covariance.array).astype(np.float64, copy=False)
        covariance = covariance.of(array, covariance.n_features)
    weights = atoms.weights
    if not isinstance(weights, float):
        weights = to_numpy(weights).astype(np.float64, copy=False)
    means = to_numpy(atoms.means).astype(np.float64, copy=False)
    return AtomData(Atoms(weights, means, covariance, np))


def mean_and_covariance(data: MomentData) -> tuple[np.ndarray, np.ndarray]:
    """The mean (n,) and covariance (n, n) of the data, from their first two moments."""
    moments, n = data.moments(2), data.n
    mean = moments[1 : n + 1]
    return mean, to_numpy(unpack(moments[order_slice(n, 2)], n, 2)) - np.outer(mean, mean)


def mean_and_spread(data: MomentData, diagonal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The same, but with the variances (n,) alone where these are enough and there are rows."""
    if diagonal and isinstance(data, AtomData) and data.atoms.covariance.zero:
        return spread_of_rows(data.X, data.weights, diagonal)
    return mean_and_covariance(data)


def as_tensors(data: MomentData, order: int) -> TensorData:
    """The data reduced to their moments up to an order, in one pass."""
    if isinstance(data, TensorData):
        return data
    packed = data.moments(order)
    return TensorData(MomentTensors.from_sums(1, np.zeros(data.n), packed, order))


def _scale(packed: np.ndarray, n: int, order: int, frame: Frame) -> np.ndarray:
    """Convert moments about the frame's centre to its units."""
    if not frame.kind.thin:
        return linear_map(packed, frame.inverse.T)
    factors = np.broadcast_to(frame.inverse, n)
    scale = [np.prod(factors[packed_indices(n, k)], axis=1) for k in range(order + 1)]
    return packed * np.concatenate(scale)


class ObservedData(RowData):
    """Rows in memory as observed, with weights of sum 1; together they count for ``count`` rows."""

    def __init__(self, table: ObservedRows, weights: np.ndarray | None, count: float) -> None:
        self.table, self.weights, self.count = table, weights, count
        self.n, self.X = table.n, table.X
        self.noisy = table.noise is not None

    @property
    def shares(self) -> np.ndarray:
        """The weight of each row; (p,)."""
        return np.full(self.rows, 1 / self.rows) if self.weights is None else self.weights

    @property
    def counts(self) -> np.ndarray:
        return self.shares * self.count

    @cached_property
    def gaps(self) -> Gaps:
        seen = self.table.seen
        share = 0.0 if seen.all() else 1 - float(self.shares @ seen.mean(axis=1))
        return Gaps(share, self.count * float(self.shares @ seen.all(axis=1)))

    def frame(self, kind: Kind) -> Frame:
        mean, covariance = one_gaussian(self.table, self.shares, self.count, kind.diagonal)
        matrix = covariance[0] if covariance.ndim == 3 else np.diag(covariance[0])
        return Frame(kind, mean[0], matrix)

    def within(self, frame: Frame) -> CompletedRows:
        """The rows in the units of their features, and the complete rows for them in a frame."""
        observed = self.table.scale(frame.centre, frame.units)
        one = one_gaussian(observed, self.shares, self.count, frame.kind.diagonal)
        X = observed.expected(one)
        if frame.to_features is not None:
            X = np.linalg.solve(frame.to_features.T, X.T).T
        return CompletedRows(observed, X, shifts_of_gaps(self.table, frame), one)

    def rows_within(
        self, frame: Frame, kind: Kind, crowding: Crowding | None = None
    ) -> IncompleteRows:
        if kind.iterated:
            kind.features_of_seconds(np.empty(0))  # refuses gaps and errors in words
        completed, weights = self.within(frame), self.weights
        order = content_order(completed.X)
        rows = completed.take(order)._replace(one=completed.one)
        if crowding is not None:
            crowding = crowding.at(np.argsort(order))
        weights = None if weights is None else weights[order]
        return IncompleteRows(rows, weights, kind, self.count, frame.to_features, crowding)

    def matched(self, order: int, tensors: bool) -> AtomData | TensorData:
        """The moments of the rows without their noise.

        With gaps, each moment averages over the rows that have its values (pairwise). Without gaps
        the result keeps the rows, unless ``tensors`` are asked for.
        """
        if not self.gaps.share and not tensors:
            noise = self.table.noise
            covariance = Zero(self.n) if noise is None else noise.negative()
            weights = 1 / self.rows if self.weights is None else self.weights
            return AtomData(Atoms(weights, self.X, covariance, np), self.count)
        errors = self.table.noise_array()
        found = tensors_with_gaps(self.X, order, self.weights, errors)
        if errors is None:  # after noise is subtracted, moments may contradict each other by chance
            check_gaps(found)
        return TensorData(found, self.count)

    def filled(self, kind: Kind) -> np.ndarray:
        return self.within(self.frame(kind)).X

    def take(self, places: np.ndarray) -> ObservedData:
        shares = self.shares[places]
        total = shares.sum()
        return ObservedData(self.table.take(places), shares / total, self.count * total)

    def draw(self, mixture: Mixture, rng: np.random.Generator) -> ObservedData:
        counts = np.maximum(np.round(self.count * self.shares), 1).astype(int)
        table = self.table.take(np.repeat(np.arange(self.rows), counts))
        X = to_numpy(mixture.sample(len(table), rng)[0])
        X = np.where(table.seen, X + noise_draws(table, rng), np.nan)
        return ObservedData(ObservedRows(X, table.noise), None, float(len(X)))


#: Larger entries, and differences below its inverse, are refused. Squares overflow in float64 from
#: 1.3e154 on and lose digits below about 1e-154; the rest is a margin for sums over rows.
HUGE = 1e150


def rows_to_fit(
    X: np.ndarray,
    counts: np.ndarray | None,
    m: int,
    noise: Covariance | None = None,
    names: Sequence[str] | np.ndarray | None = None,
    device: Array | None = None,
) -> RowData:
    """Rows, checked, as data for a fit of m components; ``names`` of features are for errors.

    Passes over complete rows are made on the device of an array, if one is given.

    Rows without weight and rows without any value are left out. Equal rows are merged, unless
    there are very many (frame.py).
    """
    X, given = X.astype(np.float64, copy=False), len(X)
    gaps = np.isnan(X)
    told = ~np.all(gaps, axis=1)
    if counts is not None:
        told &= counts > 0
    exact = noise is None and not np.any(gaps[told])
    table = None if exact else ObservedRows(X, noise)
    if not np.all(told):
        X, counts = X[told], None if counts is None else counts[told]
        table = None if table is None else table.take(np.flatnonzero(told))
    if len(X) < m:
        shown = "" if len(X) == given else ", not counting rows without weight or values"
        raise ValueError(
            f"Expected n_samples >= n_components but got n_components = {m}, n_samples = "
            f"{len(X)}{shown}"
        )
    _check_columns(X, names)
    _check_size(X)
    if X.size <= LARGE_DATA:
        first, counts = distinct_rows(X if table is None else table.content(), counts)
        X, table = X[first], None if table is None else table.take(first)
    count, weights = float(len(X)), None
    if counts is not None:
        with np.errstate(over="ignore"):
            count = float(counts.sum())
        if not np.isfinite(count):
            raise ValueError("the sum of sample_weight overflows; scale the weights down")
        weights = None if np.all(counts == counts[0]) else counts / count
    if table is None:
        return AtomData.of_rows(X, weights, count, device)
    return ObservedData(table, weights, count)


def _check_columns(X: np.ndarray, names: Sequence[str] | np.ndarray | None) -> None:
    empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
    if len(empty):
        which = f"column {empty[0]}" if names is None else f"column {names[empty[0]]!r}"
        raise ValueError(f"{which} of X has no value in any row that counts; leave it out")


def _check_size(X: np.ndarray) -> None:
    """Refuse numbers whose squares overflow float64, or whose differences have squares that
    underflow.
    """
    lowest, highest = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    largest = max(-float(lowest.min()), float(highest.max()))
    spans = highest - lowest
    if largest > HUGE:
        raise ValueError(f"X holds {largest:.3g}, whose square overflows; rescale the features")
    if np.any((spans > 0) & (spans < 1 / HUGE)):
        raise ValueError(
            f"a feature of X varies by {spans[spans > 0].min():.3g}, whose square underflows; "
            "rescale the features"
        )
