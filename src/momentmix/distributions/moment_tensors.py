"""MomentTensors: moments of orders 0..d of a stream of rows, in one pass, mergeable.

They are sums over rows, so parts of the data can be read in any order, on any machine, and added.
The sums are kept about a centre near the mean (exact shifts bring them to any other), because about
the origin a fourth moment of data at 10⁶ ± 1 would drown in rounding.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from momentmix.cluster.rows import DaskRows, is_dask
from momentmix.covariance import Full, Zero
from momentmix.covariance import noise_covariance as checked_noise
from momentmix.files.arrays import read_arrays, write_arrays
from momentmix.files.writing import written_whole
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts
from momentmix.moments.orders import MOST_ORDER, whole_order
from momentmix.support.array import (
    Array,
    all_finite,
    array_device,
    as_float_array,
    index_array,
    like,
    namespace,
    to_numpy,
)
from momentmix.tensors.dense import packed_indices, unpack
from momentmix.tensors.isserlis import atom_sums
from momentmix.tensors.packed import (
    entry_orders,
    linear_map,
    multiplicities,
    order_slice,
    plus_gaussian,
    size_in_words,
    square_places,
    total_size,
)
from momentmix.tensors.polynomial import Polynomial

FORMAT, VERSION = "momentmix-moments", 1
#: What :meth:`MomentTensors.state` consists of; names are there if there are any.
STATE = ("format", "version", "order", "missing", "count", "centre", "sums", "names")
_VECTORS = ("centre", "sums")
#: Largest packed vector in entries (2 GiB); beyond it the moments of samples stay implicit.
MOST_ENTRIES = 1 << 28
#: Rows that tell where a batch lies.
_PILOT_ROWS = 1024


class MomentTensors:
    """Packed moments of orders 0..d of all rows seen so far.

    A distribution like Mixture and Samples: give it to ``inner``, ``inner_grad`` (as Q),
    ``contract``, ``squared_distance``, ``dense_moment`` or ``MomentMixture.fit_moments``. Cost and
    memory no longer depend on the number of rows: C(n+d, d) numbers in all.

    Parameters
    ----------
    n_features : int
    order : int
        d, the highest order kept.
    missing : {"error", "pairwise"}, default="error"
        What to do with NaN. "pairwise" averages each entry over the rows where all of its features
        are present, at the cost of twice the features.
    feature_names : sequence of str, optional
        Kept and saved with the moments.

    Attributes
    ----------
    count : int
        Rows seen.
    weight : float
        Their total weight.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentTensors
    >>> rng = np.random.default_rng(0)
    >>> batches = [rng.normal(size=(1000, 3)) for _ in range(3)]
    >>> moments = MomentTensors(3, order=4)
    >>> for X in batches:
    ...     moments = moments.update(X)
    >>> moments
    MomentTensors(3 features, orders 0 to 4, 3000 rows)
    >>> whole = MomentTensors.from_samples(np.concatenate(batches), 4)
    >>> np.allclose(moments.tensor(4), whole.tensor(4), rtol=1e-12)
    True
    """

    def __init__(
        self,
        n_features: int,
        order: int,
        *,
        missing: str = "error",
        feature_names: Sequence[str] | None = None,
    ) -> None:
        n, d = operator.index(n_features), whole_order(order)
        if n < 1 or d < 1:
            raise ValueError(
                f"n_features and order must be at least 1, got n_features={n}, order={d}"
            )
        if missing not in ("error", "pairwise"):
            raise ValueError(f"missing must be 'error' or 'pairwise', got {missing!r}")
        width = n if missing == "error" else 2 * n
        size = total_size(width, d)
        if size > MOST_ENTRIES:
            raise MemoryError(
                f"the distinct moments up to order {d} of {width} features number "
                f"{size_in_words(size)}, {8 * size / 2**30:.3g} GiB; lower the order, or use "
                "Samples(X), which needs no tensor"
            )
        if d > MOST_ORDER:
            raise ValueError(f"moments are kept up to order {MOST_ORDER}, got order={d}")
        self.n_features, self.order, self.missing = n, d, missing
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        if self.feature_names is not None and len(self.feature_names) != n:
            raise ValueError(f"{len(self.feature_names)} feature_names for {n} features")
        self.count = 0
        self._centre = np.zeros(n)
        self._sums = np.zeros(size)  # pairwise: of the 2n features (x - centre or 0, present or 0)
        self._derived: dict[Any, Any] = {}

    @classmethod
    def from_samples(
        cls,
        X: Any,
        order: int,
        weights: Any = None,
        *,
        noise_covariance: Any = None,
        missing: str = "error",
    ) -> MomentTensors:
        """The moments of the rows of X (p, n); X may be a Dask array or DataFrame.

        ``weights`` need not sum to 1. ``noise_covariance`` as in :class:`Samples`.
        """
        if is_dask(X):
            return tensors_on_cluster(DaskRows(X, weights), order, noise_covariance, missing)
        X = as_float_array(X, "X", (2,))
        return cls(int(X.shape[1]), order, missing=missing).update(X, weights, noise_covariance)

    @classmethod
    def from_sums(
        cls, count: int, centre: np.ndarray, sums: np.ndarray, order: int
    ) -> MomentTensors:
        """From packed sums about a centre, made elsewhere."""
        new = cls(len(centre), order)
        new.count, new._centre, new._sums = count, centre, sums
        return new

    def update(self, X: Any, weights: Any = None, noise_covariance: Any = None) -> MomentTensors:
        """Add the rows of X; nothing changes if an error is raised. O(p N) for N moments.

        Parameters
        ----------
        X : (p, n)
            Of any array library; sums are taken in float64 where X lies.
        weights : (p,), optional
            How much each row counts; ones by default.
        noise_covariance : scalar or array, optional
            Known noise to take out of these rows, in the shapes that :class:`Samples` takes.
        """
        X = as_float_array(X, "X", (2,))
        p, n = (int(k) for k in X.shape)
        if n != self.n_features:
            raise ValueError(f"X has {n} column(s), but these moments are of {self.n_features}")
        xp = namespace(X)
        given: Array | float = 1.0
        if weights is not None:
            given = _checked_weights(like(weights, X), X)
        noise: Any = Zero(n)
        if noise_covariance is not None:
            noise = checked_noise(like(noise_covariance, X), p, n).negative()
        if p == 0:
            return self
        present = None
        if self.missing == "pairwise":
            X = xp.astype(X, xp.float64)
            present = xp.astype(~xp.isnan(X), X.dtype)
            X = xp.where(xp.isnan(X), xp.zeros_like(X), X)
        centre = self._centre_for(_pilot_mean(X, given, present))
        atoms = Atoms(given, X, noise, xp)
        if present is not None:
            atoms, about = _with_presence(atoms, present, centre), np.zeros(2 * n)
        else:
            about = centre
        with np.errstate(over="ignore", invalid="ignore"):
            sums = atom_sums(atoms, about, self.order)
        if not np.all(np.isfinite(sums)):
            raise _not_finite(X, self.order)
        self._add(p, centre, sums)
        return self

    def merge(self, other: MomentTensors) -> MomentTensors:
        """Add all that ``other`` has seen; ``a + b`` does the same and leaves both as they are."""
        if not isinstance(other, MomentTensors):
            raise TypeError(f"other must be MomentTensors, got {type(other).__name__}")
        mine = self.n_features, self.order, self.missing, self.feature_names
        if mine != (other.n_features, other.order, other.missing, other.feature_names):
            raise ValueError(f"{other!r} cannot be added to {self!r}: other features or orders")
        self._add(other.count, other._centre, other._sums)
        return self

    def __add__(self, other: MomentTensors) -> MomentTensors:
        if not isinstance(other, MomentTensors):
            return NotImplemented
        return self.copy().merge(other)

    def copy(self) -> MomentTensors:
        new = MomentTensors(
            self.n_features, self.order, missing=self.missing, feature_names=self.feature_names
        )
        new.count, new._centre, new._sums = self.count, self._centre, self._sums
        return new  # the arrays are replaced, never written into

    def _add(self, count: int, centre: np.ndarray, sums: np.ndarray) -> None:
        """Take in sums about a centre. The common centre stays within half a deviation of the mean.

        Where it has to move, both sides go to the new mean straight from where they are: by way of
        a centre far from the heavier side its digits would be lost.
        """
        target, total = centre, sums
        if self.count:
            target = self._common_centre(centre, sums)
            total = self._shifted(self._sums, self._centre, target)
            total = total + self._shifted(sums, centre, target)
        # Assigned together at the end, so that an error or Ctrl-C before leaves the old state.
        self.count, self._centre, self._sums = self.count + count, target, total
        self._derived = {}

    def _centre_for(self, middle: np.ndarray) -> np.ndarray:
        """The centre for a batch around ``middle``: that of all, which saves a shift, if near."""
        if self.count == 0:
            return middle
        weight, _, variance = self._location(self._centre, self._sums)
        near = (middle - self._centre) ** 2 < variance
        return self._centre if np.all(near & (weight > 0)) else middle

    def _common_centre(self, centre: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The centre there is, or the mean of both sides where that lies too far from it."""
        weights, means, squares = zip(
            self._location(self._centre, self._sums), self._location(centre, sums), strict=True
        )
        total = np.maximum(weights[0] + weights[1], 1e-300)
        mean = (weights[0] * means[0] + weights[1] * means[1]) / total
        spread = sum(
            w * (s + (m - mean) ** 2) for w, m, s in zip(weights, means, squares, strict=True)
        )
        far = (mean - self._centre) ** 2 > 0.25 * np.maximum(spread / total, 0)
        return mean if np.any(far & (total > 1e-300)) else self._centre

    def _location(self, centre: np.ndarray, sums: np.ndarray) -> tuple:
        """Weight, mean and variance of each feature; (n,) each."""
        n = self.n_features
        weight, width = np.full(n, sums[0]), n
        if self.missing == "pairwise":
            weight, width = sums[n + 1 : 2 * n + 1], 2 * n
        safe = np.where(weight > 0, weight, 1)
        shift = sums[1 : n + 1] / safe
        square = np.zeros(n) if self.order < 2 else sums[square_places(width)[:n]] / safe
        return weight, centre + shift, np.maximum(square - shift**2, 0)

    def _shifted(self, sums: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Sums about the centre ``old`` as sums about ``new``, exactly."""
        shift = old - new
        if not np.any(shift):
            return sums
        if self.missing == "error":
            return plus_gaussian(sums, self.n_features, shift)
        identity = np.eye(self.n_features)  # present features move, the others stay 0
        move = np.block([[identity, np.diag(shift)], [np.zeros_like(identity), identity]])
        return linear_map(sums, move)

    @property
    def weight(self) -> float:
        return float(self._sums[0])

    @property
    def mean(self) -> np.ndarray:
        """(n,)"""
        n = self.n_features
        return self._centre + self._averages(self._centre)[1 : n + 1]

    @property
    def covariance(self) -> np.ndarray:
        """(n, n), central second moments; needs order 2."""
        return self.tensor(2, central=True)

    def about(self, centre: Any) -> np.ndarray:
        """Averages of the products of x - centre, of orders 0..d in the packed layout; (N,).

        See ``momentmix.tensors.packed`` for the layout: all entries of order 0, then 1, and so on.
        """
        centre = np.asarray(centre, dtype=np.float64)
        if centre.shape != (self.n_features,):
            raise ValueError(f"centre must have shape ({self.n_features},), got {centre.shape}")
        key = "about", centre.tobytes()
        if key not in self._derived:
            self._derived[key] = self._averages(centre)
            self._derived[key].flags.writeable = False
        return self._derived[key]

    def _averages(self, centre: np.ndarray) -> np.ndarray:
        if self.count == 0 or self.weight <= 0:
            raise ValueError("no rows yet, or only rows of weight zero; call update(X) first")
        if self.missing == "error":
            return self._shifted(self._sums, self._centre, centre) / self.weight
        n = self.n_features
        identity = np.eye(n)
        totals = linear_map(self._sums, np.hstack([identity, np.diag(self._centre - centre)]))
        weights = linear_map(self._sums, np.hstack([np.zeros((n, n)), identity]))
        if np.any(weights <= 0):
            at = int(np.argmax(weights <= 0))
            k = int(entry_orders(n, self.order)[at])
            features = packed_indices(n, k)[at - order_slice(n, k).start].tolist()
            raise ValueError(
                f"no row has all of the features {sorted(set(features))} present, so that their "
                "joint moment is not known; drop a feature"
            )
        return totals / weights

    def tensor(self, order: int, *, central: bool = False) -> np.ndarray:
        """The dense moment of one order about the origin, or about the mean; (n,) * order."""
        k = self._held(whole_order(order))
        packed = self.about(self.mean if central else np.zeros(self.n_features))
        return unpack(packed[order_slice(self.n_features, k)], self.n_features, k)

    moment = tensor

    def _held(self, k: int) -> int:
        if k > self.order:
            raise ValueError(
                f"order {k} was asked for, but these moments were kept up to order {self.order}; "
                f"accumulate with order={k}"
            )
        return k

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """What ``bilinear`` gives for atoms, from the packed moments; independent of ``count``."""
        d = self._held(len(weights) - 1)
        n = self.n_features
        key = "polynomial", tuple(weights)
        if key not in self._derived:
            self._derived[key] = Polynomial(self._up_to(d), n, weights)
        return self._derived[key].expected(P, gradient)

    def inner(self, other: MomentTensors, weights: Sequence[float]) -> float:
        """Σ_k w_k ⟨M_k, M'_k⟩ of two sets of moments."""
        n, d = self.n_features, len(weights) - 1
        return _weighted_dot(self._up_to(d), other._up_to(d), n, weights)

    def squared_distance(self, other: MomentTensors, weights: Sequence[float]) -> float:
        """Σ_k w_k ‖M_k - M'_k‖², without the cancellation of three inner products."""
        n, d = self.n_features, len(weights) - 1
        difference = self._up_to(d) - other._up_to(d)
        return _weighted_dot(difference, difference, n, weights)

    def _up_to(self, d: int) -> np.ndarray:
        n = self.n_features
        return self.about(np.zeros(n))[: total_size(n, self._held(d))]

    def save(self, path: str | PathLike[str]) -> None:
        """Write an .npz file, whole or not at all; numbers only, no pickle."""
        with written_whole(path) as file:
            write_arrays(file, self.state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MomentTensors:
        """Read a file of :meth:`save`. Nothing in it is executed, nor read that does not belong."""
        try:
            return cls.from_state(read_arrays(path, STATE))
        except ValueError as error:
            raise ValueError(f"{path} does not hold moments: {error}") from error

    def state(self) -> dict[str, np.ndarray]:
        """Everything there is to know, as arrays of numbers."""
        names = {} if self.feature_names is None else {"names": np.array(self.feature_names)}
        return {
            **names,
            "format": np.array(FORMAT),
            "version": np.array(VERSION),
            "order": np.array(self.order),
            "missing": np.array(self.missing),
            "count": np.array(self.count),
            "centre": self._centre,
            "sums": self._sums,
        }

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> MomentTensors:
        """What :meth:`state` gave, perhaps by way of a file; a ValueError if it cannot be."""
        absent = set(STATE) - {"names"} - set(state)
        if absent:
            raise ValueError(f"it lacks {', '.join(sorted(absent))}")
        if str(state["format"]) != FORMAT:
            raise ValueError(f"its format is {str(state['format'])!r}, not {FORMAT!r}")
        version, order, count = (_whole(state, name) for name in ("version", "order", "count"))
        if version != VERSION:
            raise ValueError(f"its version is {version}, this release reads version {VERSION}")
        if any(state[name].dtype.kind != "f" or state[name].ndim != 1 for name in _VECTORS):
            raise ValueError("its centre and sums are not vectors of numbers")
        centre, sums = (state[name].astype(np.float64, copy=False) for name in _VECTORS)
        if order < 1 or len(centre) < 1:
            raise ValueError(f"its order is {order}, of {len(centre)} features")
        names = _names(state["names"], len(centre)) if "names" in state else None
        missing = str(state["missing"])
        belong = total_size(len(centre) * (2 if missing == "pairwise" else 1), order)
        if sums.shape != (belong,):
            raise ValueError(f"it holds {sums.size} sums where {size_in_words(belong)} belong")
        new = cls(len(centre), order, missing=missing, feature_names=names)
        if count < 0 or not (np.all(np.isfinite(centre)) and np.all(np.isfinite(sums))):
            raise ValueError("it holds numbers that are not finite, or a negative count")
        new.count, new._centre, new._sums = count, centre, sums
        return new

    def __getstate__(self) -> dict[str, np.ndarray]:
        return self.state()

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        self.__dict__.update(type(self).from_state(state).__dict__)

    def __repr__(self) -> str:
        parts = [f"{self.n_features} features", f"orders 0 to {self.order}", f"{self.count} rows"]
        if self.missing != "error":
            parts.append(f"missing={self.missing!r}")
        return f"MomentTensors({', '.join(parts)})"


def _whole(state: dict[str, np.ndarray], name: str) -> int:
    array = state[name]
    if array.dtype.kind not in "iu" or array.shape != ():
        raise ValueError(f"its {name} is not a whole number")
    return int(array)


def _names(array: np.ndarray, n: int) -> list[str]:
    if array.dtype.kind != "U" or array.shape != (n,):
        raise ValueError(f"its names are not {n} words")
    return array.tolist()


def _weighted_dot(a: np.ndarray, b: np.ndarray, n: int, weights: Sequence[float]) -> float:
    d = len(weights) - 1
    scale = np.asarray(weights)[entry_orders(n, d)] * multiplicities(n, d)
    return float(np.sum(scale * a * b))


def _checked_weights(weights: Any, X: Array) -> Array:
    weights = as_float_array(weights, "weights", (1,))
    xp = namespace(X, weights)
    if weights.shape[0] != X.shape[0]:
        raise ValueError(f"weights has {weights.shape[0]} entries for {X.shape[0]} rows of X")
    if not all_finite(weights) or bool(xp.any(weights < 0)):
        raise ValueError("weights must be finite and not negative")
    return weights


def _pilot_mean(X: Array, weights: Array | float, present: Array | None) -> np.ndarray:
    """Mean of some rows spread over X; any point amid the rows that count serves as a centre."""
    xp, p = namespace(X), int(X.shape[0])
    chosen = np.arange(0, p, max(1, p // _PILOT_ROWS))
    if not isinstance(weights, float):
        counted = np.flatnonzero(to_numpy(weights) > 0)
        chosen = counted[:: max(1, len(counted) // _PILOT_ROWS)]
    if len(chosen) == 0:
        return np.zeros(X.shape[1])
    some = index_array(chosen, X)
    rows = to_numpy(xp.take(X, some, axis=0)).astype(np.float64)
    counts: Any = len(rows)
    if present is not None:
        counts = np.maximum(to_numpy(xp.take(present, some, axis=0)).sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.sum(axis=0) / counts
    return np.where(np.isfinite(mean), mean, 0.0)


def _with_presence(atoms: Atoms, present: Array, centre: np.ndarray) -> Atoms:
    """Atoms in 2n features: x - centre, 0 where missing; and 1 where present. Noise likewise."""
    xp, n = atoms.xp, present.shape[1]
    middle = xp.asarray(centre, dtype=present.dtype, device=array_device(present))
    points = xp.concat([(atoms.means - middle) * present, present], axis=1)
    covariance: Any = Zero(2 * n)
    if not atoms.covariance.zero:
        matrices = to_numpy(atoms.covariance.matrices()).astype(np.float64)
        mask = to_numpy(present).astype(np.float64)
        padded = np.zeros((len(mask), 2 * n, 2 * n))
        padded[:, :n, :n] = matrices * mask[:, :, None] * mask[:, None, :]
        covariance = Full(padded, 2 * n)
    return Atoms(atoms.weights, points, covariance, xp)


def _not_finite(X: Array, order: int) -> ValueError:
    rows = to_numpy(X)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        more = f" ({len(bad):,} such entries in all)" if len(bad) > 1 else ""
        return ValueError(
            f"row {row}, column {column} of X is {rows[row, column]}{more}; drop or fill such "
            "rows, or, for NaN, accumulate MomentTensors with missing='pairwise'"
        )
    return ValueError(
        f"the powers of order {order} overflow: the largest entry of X is "
        f"{np.abs(rows).max():.3g}; rescale the features"
    )


def tensors_on_cluster(
    rows: DaskRows, order: int, noise_covariance: Any = None, missing: str = "error"
) -> MomentTensors:
    """The moments of all rows of a cluster, in one pass; the tensors of blocks are what travels."""
    return rows.total(_tensors_of_block, order, noise_covariance, missing)


def _tensors_of_block(
    X: np.ndarray, weights: np.ndarray | None, order: int, noise: Any, missing: str
) -> MomentTensors:
    return MomentTensors.from_samples(X, order, weights, noise_covariance=noise, missing=missing)
