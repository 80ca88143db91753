"""What a moment fit needs from its data, whether they are in memory, elsewhere, or just moments.

Each class here, and ``BlockData`` in blocks.py, offers the same few methods: ``frame`` gives
coordinates that centre and scale the data, ``within`` the data in these coordinates, ``moments``
their moments, and ``inner_with`` the inner products of their moments with those of atoms (which
reads the rows ``passes`` times). A fit depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

from momentmix.covariance import Covariance, Kind, Zero
from momentmix.data.content import LARGE_DATA, by_distance
from momentmix.data.frame import Frame, spread_of_rows
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts, bilinear
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


class Data(MomentSource, Protocol):
    """What a fit needs from its data."""

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

    def within(self, frame: Frame) -> Data:
        """The same data in the coordinates of a frame."""

    def moments(self, order: int) -> np.ndarray:
        """Packed moments of orders 0..order; (N,)."""

    def compress(self, basis: np.ndarray, order: int) -> Data:
        """The data projected on an orthonormal basis (n, r), with moments up to an order."""


class AtomData:
    """Atoms in memory: samples, samples with noise taken out, mixtures.

    ``count`` is the number of samples; by default that of the atoms if they are points, else ∞.
    """

    passes = 1
    order = None
    place: Place = "memory"
    device: Array | None = None  # an empty array on the device where passes are to be made

    def __init__(self, atoms: Atoms, count: float | None = None) -> None:
        self.atoms, self.n = atoms, int(atoms.means.shape[1])
        self.X = to_numpy(atoms.means)
        self.count = count if count is not None else len(atoms) if atoms.covariance.zero else np.inf

    @classmethod
    def of_rows(
        cls, X: np.ndarray, weights: np.ndarray | None, count: float | None = None
    ) -> AtomData:
        """Rows (p, n) with weights (p,) of sum 1, or equal ones, that count for ``count`` rows."""
        return cls(
            Atoms(1 / len(X) if weights is None else weights, X, Zero(X.shape[1]), np), count
        )

    @property
    def rows(self) -> int:
        return len(self.atoms)

    def frame(self, kind: Kind) -> Frame:
        if self.atoms.covariance.zero:
            return Frame.of_samples(kind, self.X, self.weights)
        return Frame.of_atoms(kind, self.atoms)

    def within(self, frame: Frame) -> AtomData:
        return AtomData(frame.apply_atoms(self.atoms), self.count)

    def order_of_rows(self) -> np.ndarray:
        """An order of the rows that depends on their content alone, unless there are very many."""
        return np.arange(len(self.X)) if self.X.size > LARGE_DATA else by_distance(self.X)

    def in_order(self) -> AtomData:
        """The rows in the order of ``order_of_rows``."""
        X = self.X
        if X.size > LARGE_DATA:
            return self
        order = self.order_of_rows()
        weights = None if self.weights is None else self.weights[order]
        return AtomData.of_rows(X[order], weights, self.count)

    @property
    def weights(self) -> np.ndarray | None:
        """The weights of the rows; None if all are equal."""
        return None if isinstance(self.atoms.weights, float) else to_numpy(self.atoms.weights)

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


def mean_and_covariance(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The mean (n,) and covariance (n, n) of the data, from their first two moments."""
    moments, n = data.moments(2), data.n
    mean = moments[1 : n + 1]
    return mean, to_numpy(unpack(moments[order_slice(n, 2)], n, 2)) - np.outer(mean, mean)


def mean_and_spread(data: Data, diagonal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The same, but with the variances (n,) alone where these are enough and there are rows."""
    if diagonal and isinstance(data, AtomData) and data.atoms.covariance.zero:
        return spread_of_rows(data.X, data.weights, diagonal)
    return mean_and_covariance(data)


def as_tensors(data: Data, order: int) -> TensorData:
    """The data reduced to their moments up to an order, in one pass."""
    if isinstance(data, TensorData):
        return data
    packed = data.moments(order)
    return TensorData(MomentTensors.from_sums(1, np.zeros(data.n), packed, order))


def _scale(packed: np.ndarray, n: int, order: int, frame: Frame) -> np.ndarray:
    """Convert moments about the frame's centre to its units."""
    if not frame.kind.diagonal:
        return linear_map(packed, frame.inverse.T)
    factors = np.broadcast_to(frame.inverse, n)
    scale = [np.prod(factors[packed_indices(n, k)], axis=1) for k in range(order + 1)]
    return packed * np.concatenate(scale)
