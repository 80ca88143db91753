"""MomentTensors: moments of orders 0..d of a stream of rows, from one pass.

They are sums over rows, so parts of the data can be read in any order, on any machine, and added.

Those of files can have checkpoints, so that a run that was killed continues where it stopped. A
checkpoint is one file with the moments of the rows so far and the position of the next row. It is
replaced as a whole, so every row is counted exactly once, whenever the run is killed. It also holds
the moments of the files already finished, in case the current file has to be corrected. A table
that may change when it is read again, such as a query, gets no checkpoint.
"""

from __future__ import annotations

import json
import operator
import time
from collections.abc import Callable, Hashable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from momentmix.blocks.dask_rows import DaskRows
from momentmix.blocks.engines import DaskTable, DaskWeights, is_dask
from momentmix.blocks.sources import Source, block_rows
from momentmix.distributions.centred_sums import CentredSums, Missing, check_missing, sums_of_rows
from momentmix.distributions.samples import row_atoms
from momentmix.files.arrays import checksum, read_arrays, write_arrays
from momentmix.files.opening import BEGINNING, Piece, Place, Table, TableError
from momentmix.files.writing import check_writable, written_whole
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts
from momentmix.moments.orders import MOST_ORDER, whole_order
from momentmix.support.array import Array, ArrayLike, as_float_array, as_like, read_only, to_numpy
from momentmix.tensors.dense import unpack
from momentmix.tensors.isserlis import Polynomial
from momentmix.tensors.packed import order_slice, size_in_words, total_size, weighted_dot

#: The most entries of a packed vector (2 GiB); if there are more, the moments of samples are not
#: formed. A round number that was not tuned.
MOST_ENTRIES = 1 << 28
#: What files of moments begin with; VERSION increases with every incompatible change.
FORMAT, VERSION = "momentmix-moments", 1
#: The names of the arrays. "names" exists only if the features have names, and old files lack
#: "squares", the sum of the squared weights.
MEMBERS = ("format", "version", "order", "missing", "count", "centre", "sums", "names", "squares")
_OPTIONAL = {"names", "squares"}
_VECTORS = ("centre", "sums")


def check_size(width: int, d: int) -> int:
    """The number of moments up to order d of ``width`` features; MemoryError if it is too large."""
    size = total_size(width, d)
    if size > MOST_ENTRIES:
        raise MemoryError(
            f"the distinct moments up to order {d} of {width} features number "
            f"{size_in_words(size)}, {8 * size / 2**30:.3g} GiB; lower the order, or use "
            "Samples(X), which needs no tensor"
        )
    return size


def check_state(
    arrays: dict[str, np.ndarray],
) -> tuple[int, CentredSums, tuple[str, ...] | None]:
    """The number of rows, their sums and the names in a state; a ValueError if it is not valid."""
    absent = set(MEMBERS) - _OPTIONAL - set(arrays)
    if absent:
        raise ValueError(f"it lacks {', '.join(sorted(absent))}")
    if str(arrays["format"]) != FORMAT:
        raise ValueError(f"its format is {str(arrays['format'])!r}, not {FORMAT!r}")
    version, order, count = (_whole_number(arrays, name) for name in ("version", "order", "count"))
    if version != VERSION:
        raise ValueError(f"its version is {version}, this release reads version {VERSION}")
    if any(arrays[name].dtype.kind != "f" or arrays[name].ndim != 1 for name in _VECTORS):
        raise ValueError("its centre and sums are not vectors of numbers")
    centre, sums = (arrays[name].astype(np.float64, copy=False) for name in _VECTORS)
    if order < 1 or len(centre) < 1:
        raise ValueError(f"its order is {order}, of {len(centre)} features")
    names = _names(arrays["names"], len(centre)) if "names" in arrays else None
    missing = check_missing(str(arrays["missing"]))
    belong = total_size(len(centre) * (2 if missing == "pairwise" else 1), order)
    if sums.shape != (belong,):
        raise ValueError(f"it holds {sums.size} sums instead of {size_in_words(belong)}")
    if count < 0 or not (np.all(np.isfinite(centre)) and np.all(np.isfinite(sums))):
        raise ValueError("it holds numbers that are not finite, or a negative count")
    squares = equal_squares(float(sums[0]), count)
    if "squares" in arrays:
        squares = _not_negative(arrays["squares"])
    return count, CentredSums(centre, sums, order, missing, squares), names


def equal_squares(weight: float, count: int) -> float:
    """Σ w² of ``count`` rows with equal weights that sum to ``weight``."""
    return weight / max(count, 1) * weight


def _not_negative(array: np.ndarray) -> float:
    if array.dtype.kind != "f" or array.shape != () or not array >= 0:
        raise ValueError("its sum of squares of weights is not a number of at least 0")
    return float(array)


def _whole_number(arrays: dict[str, np.ndarray], name: str) -> int:
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.shape != ():
        raise ValueError(f"its {name} is not a whole number")
    return int(array)


def _names(array: np.ndarray, n: int) -> tuple[str, ...]:
    if array.dtype.kind != "U" or array.shape != (n,):
        raise ValueError(f"its names are not {n} words")
    return tuple(str(name) for name in array)


class MomentTensors:
    """The moments of all rows seen so far, of orders 0 to d, without the rows.

    Rows can come in batches, on any machine, and results can be added. The moments are C(n+d, d)
    numbers, so memory and cost do not depend on the number of rows. This is a distribution like
    Mixture and Samples: give it to :func:`inner`, :func:`contract`, :func:`squared_distance` or
    ``MomentMixture.fit_moments``.

    Parameters
    ----------
    n_features : int
        The number of columns, n.
    order : int
        The highest order that is kept, d. Fits of mixtures usually need 4.
    missing : {"error", "pairwise"}, default="error"
        What to do with gaps (NaN). "pairwise" averages each entry over the rows that have all of
        its features; it takes the memory of twice the features.
    feature_names : sequence of str, optional
        The names of the columns, kept and saved with the moments.

    Attributes
    ----------
    count : int
        The number of rows seen, whatever their weights.

    See Also
    --------
    MomentMixture.partial_fit : Collects moments and fits them.

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
        missing: Missing = "error",
        feature_names: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        n, d = operator.index(n_features), whole_order(order)
        if n < 1 or d < 1:
            raise ValueError(
                f"n_features and order must be at least 1, got n_features={n}, order={d}"
            )
        width = n if check_missing(missing) == "error" else 2 * n
        size = check_size(width, d)
        if d > MOST_ORDER:
            raise ValueError(f"moments are kept up to order {MOST_ORDER}, got order={d}")
        self.n_features, self.order, self.missing = n, d, missing
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        if self.feature_names is not None and len(self.feature_names) != n:
            raise ValueError(f"{len(self.feature_names)} feature_names for {n} features")
        self._hold(0, CentredSums(np.zeros(n), np.zeros(size), d, missing, 0.0))

    def _hold(self, count: int, sums: CentredSums) -> MomentTensors:
        # Results computed from the sums and kept: moments about centres, weighted polynomials.
        self._about: dict[bytes, np.ndarray] = {}
        self._polynomials: dict[tuple[float, ...], Polynomial] = {}
        self.count, self._sums = count, sums
        return self

    @classmethod
    def from_samples(
        cls,
        X: ArrayLike | DaskTable,
        order: int,
        weights: ArrayLike | DaskWeights | None = None,
        *,
        noise_covariance: ArrayLike | None = None,
        missing: Missing = "error",
    ) -> MomentTensors:
        """Make the moments of the rows of X (p, n), which may be a Dask array or DataFrame.

        ``weights`` (p,) say how much each row counts and need not sum to 1. ``noise_covariance`` is
        known noise to take out, in the shapes that :class:`Samples` takes.
        """
        if is_dask(X):
            blocks = DaskRows(X, weights, noise_covariance)
            return blocks.total(_tensors_of_block, order, missing)
        rows = as_float_array(X, "X", (2,))
        empty = cls(int(rows.shape[1]), order, missing=missing)
        return empty.update(rows, weights, noise_covariance)

    @classmethod
    def from_batches(
        cls,
        source: Source,
        order: int,
        *,
        columns: Sequence[Hashable] | None = None,
        weights: Hashable | None = None,
        missing: Missing = "error",
        device: str | None = None,
    ) -> MomentTensors:
        """Make the moments of rows that come in batches, in one pass.

        The arguments are as in :meth:`MomentMixture.fit_batches`. The names of the columns are
        kept as ``feature_names``.
        """
        rows = block_rows(source, columns, weights, device=device)
        found = rows.total(_tensors_of_block, order, missing)
        new = cls(found.n_features, order, missing=missing, feature_names=rows.names)
        return new._hold(found.count, found._sums)

    @classmethod
    def from_sums(
        cls, count: int, centre: np.ndarray, sums: np.ndarray, order: int
    ) -> MomentTensors:
        """Make moments from packed sums about a centre that were computed elsewhere.

        They must be sums over ``count`` rows of equal weight.
        """
        alike = equal_squares(float(sums[0]), count)
        about = CentredSums(centre, sums, order, "error", alike)
        return cls(len(centre), order)._hold(count, about)

    def update(
        self,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        noise_covariance: ArrayLike | None = None,
    ) -> MomentTensors:
        """Add the rows of X without keeping them; nothing changes if an exception is raised.

        Parameters
        ----------
        X : array of shape (p, n)
            Rows of any array library. The sums are taken in float64, where X lies. They are numbers
            of NumPy, so tensors that are to have derivatives are refused; Samples take them.
        weights : array of shape (p,), optional
            How much each row counts. By default each counts 1.
        noise_covariance : scalar or array, optional
            Known noise to take out of these rows, in the shapes that :class:`Samples` takes.
        """
        rows = row_atoms(X, weights, noise_covariance, self.n_features)
        if len(rows) == 0:
            return self
        earlier = self._sums if self.count else None
        self._add(len(rows), sums_of_rows(rows, self.order, self.missing, earlier))
        return self

    def merge(self, other: MomentTensors) -> MomentTensors:
        """Add all rows of ``other``.

        ``a + b`` returns the sum and changes neither. The sum is pairwise if one of them is.
        """
        if not isinstance(other, MomentTensors):
            raise TypeError(f"other must be MomentTensors, got {type(other).__name__}")
        self._check_alike(other, "added to")
        self._add(other.count, other._sums)
        return self

    def _check_alike(self, other: MomentTensors, verb: str) -> None:
        mine = self.n_features, self.order, self.missing, self.feature_names
        if mine != (other.n_features, other.order, other.missing, other.feature_names):
            raise ValueError(f"{other!r} cannot be {verb} {self!r}: other features or orders")

    def __add__(self, other: MomentTensors) -> MomentTensors:
        if not isinstance(other, MomentTensors):
            return NotImplemented
        if self.missing != other.missing:  # pairwise sums can include rows without gaps
            return self.with_gaps() + other.with_gaps()
        return self.copy().merge(other)

    def __sub__(self, other: MomentTensors) -> MomentTensors:
        """The moments without the rows of ``other``, all of which must be among these rows."""
        if not isinstance(other, MomentTensors):
            return NotImplemented
        self._check_alike(other, "taken out of")
        if other.count > self.count:
            raise ValueError(
                f"{other.count} rows cannot be taken out of {self.count}; a - b needs a to hold "
                "all rows of b"
            )
        left, new = self.count - other.count, self._empty(self.missing)
        # If no row is left, no rounding errors may be left either.
        return new._hold(left, self._sums.minus(other._sums)) if left else new

    def decay(self, factor: float) -> MomentTensors:
        """Let all rows seen so far count less: each weight becomes ``factor`` times what it was.

        The moments themselves and ``count`` do not change, but rows that come later count more in
        comparison. Call it before each batch to forget old rows gradually.

        Parameters
        ----------
        factor : float
            From 0 to 1. To halve the weight of a row every h rows, use 0.5 ** (p / h) before a
            batch of p rows.
        """
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must be a number from 0 to 1, got {factor!r}")
        self._hold(self.count, self._sums.scaled(float(factor)))
        return self

    def with_gaps(self) -> MomentTensors:
        """The same moments with ``missing="pairwise"``, to which rows with gaps can be added."""
        if self.missing == "pairwise":
            return self
        new = self._empty("pairwise")
        return new._hold(self.count, self._sums.with_presence()) if self.count else new

    def copy(self) -> MomentTensors:
        """A copy that can be updated without changing this object."""
        return self._empty(self.missing)._hold(self.count, self._sums)

    def _empty(self, missing: Missing) -> MomentTensors:
        names = self.feature_names
        return MomentTensors(self.n_features, self.order, missing=missing, feature_names=names)

    def _add(self, count: int, sums: CentredSums) -> None:
        # Stored only when complete, so that an exception or Ctrl-C leaves the old state.
        self._hold(self.count + count, self._sums.plus(sums) if self.count else sums)

    @property
    def weight(self) -> float:
        """The total weight of the rows seen."""
        return self._sums.weight

    @property
    def effective_count(self) -> float:
        """The effective number of rows, (Σw)² / Σw², which is at most ``count``.

        Means over rows of unequal weight are as accurate as means over this many rows of equal
        weight. Fits use it as the sample size.
        """
        return self._sums.worth(self.count)

    @property
    def presence(self) -> np.ndarray:
        """The share of the rows, by weight, in which each feature has a value; (n,)."""
        return self._sums.presence

    @property
    def mean(self) -> np.ndarray:
        """The mean of the rows, of shape (n,)."""
        centre = self._sums.centre
        mean: np.ndarray = centre + self._averages(centre)[1 : self.n_features + 1]
        return mean

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the rows, of shape (n, n); it needs order 2."""
        return self.tensor(2, central=True)

    def about(self, centre: npt.ArrayLike) -> np.ndarray:
        """The mean products of x - centre, of all orders 0 to d, as one packed array.

        ``momentmix.tensors.packed`` explains the layout: all entries of order 0, then 1, and so on.
        """
        centre = np.asarray(centre, dtype=np.float64)
        if centre.shape != (self.n_features,):
            raise ValueError(f"centre must have shape ({self.n_features},), got {centre.shape}")
        key = centre.tobytes()
        if key not in self._about:
            self._about[key] = read_only(self._averages(centre))
        return self._about[key]

    def _averages(self, centre: np.ndarray) -> np.ndarray:
        if self.count == 0 or self.weight <= 0:
            raise ValueError("no rows yet, or only rows of weight zero; call update(X) first")
        return self._sums.averages(centre)

    def tensor(self, order: int, *, central: bool = False) -> np.ndarray:
        """The moment of one order about the origin, or about the mean; (n,) * order."""
        k = self._held(whole_order(order))
        packed = self.about(self.mean if central else np.zeros(self.n_features))
        return to_numpy(unpack(packed[order_slice(self.n_features, k)], self.n_features, k))

    moment = tensor

    def _held(self, k: int) -> int:
        if k > self.order:
            raise ValueError(
                f"order {k} was asked for, but these moments were kept up to order {self.order}; "
                f"accumulate with order={k}"
            )
        return k

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Inner products with atoms, from the packed moments; independent of ``count``."""
        d, key = self._held(len(weights) - 1), tuple(weights)
        if key not in self._polynomials:
            self._polynomials[key] = Polynomial(self._up_to(d), self.n_features, weights)
        return self._polynomials[key].expected(P, gradient)

    def inner(self, other: MomentTensors, weights: Sequence[float]) -> float:
        """The sum over k of w_k ⟨M_k, M'_k⟩, for two sets of moments."""
        n, d = self.n_features, len(weights) - 1
        return weighted_dot(self._up_to(d), other._up_to(d), n, weights)

    def squared_distance(self, other: MomentTensors, weights: Sequence[float]) -> float:
        """The sum over k of w_k ‖M_k - M'_k‖², without cancellation."""
        n, d = self.n_features, len(weights) - 1
        difference = self._up_to(d) - other._up_to(d)
        return weighted_dot(difference, difference, n, weights)

    def _up_to(self, d: int) -> np.ndarray:
        n = self.n_features
        return self.about(np.zeros(n))[: total_size(n, self._held(d))]

    def save(self, path: str | PathLike[str]) -> None:
        """Write an .npz file of numbers, whole or not at all."""
        with written_whole(path) as file:
            write_arrays(file, self.state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MomentTensors:
        """Read a file that :meth:`save` wrote; nothing in it is executed."""
        try:
            return cls.from_state(read_arrays(path, MEMBERS))
        except ValueError as error:
            raise ValueError(f"{path} does not hold moments: {error}") from error

    def state(self) -> dict[str, np.ndarray]:
        """The whole state, as read-only arrays of numbers and text."""
        names = {} if self.feature_names is None else {"names": np.array(self.feature_names)}
        return {
            **names,
            "format": np.array(FORMAT),
            "version": np.array(VERSION),
            "order": np.array(self.order),
            "missing": np.array(self.missing),
            "count": np.array(self.count),
            "centre": read_only(self._sums.centre.view()),
            "sums": read_only(self._sums.sums.view()),
            "squares": np.array(self._sums.squares),
        }

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> MomentTensors:
        """Make moments from the result of :meth:`state`; a ValueError if it is not valid."""
        count, sums, names = check_state(state)
        new = cls(len(sums.centre), sums.order, missing=sums.missing, feature_names=names)
        return new._hold(count, sums)

    def __getstate__(self) -> dict[str, np.ndarray]:
        return self.state()

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        self.__dict__.update(type(self).from_state(state).__dict__)

    def __repr__(self) -> str:
        parts = [f"{self.n_features} features", f"orders 0 to {self.order}", f"{self.count} rows"]
        parts += [f"missing={self.missing!r}"] * (self.missing != "error")
        return f"MomentTensors({', '.join(parts)})"


def _tensors_of_block(
    X: np.ndarray,
    weights: np.ndarray | None,
    order: int,
    missing: Missing,
    noise_covariance: ArrayLike | None = None,
) -> MomentTensors:
    noise = noise_covariance if X.shape[0] else None
    return MomentTensors.from_samples(X, order, weights, noise_covariance=noise, missing=missing)


#: What is done about rows with gaps: they are left out, they are refused, or each moment averages
#: over the rows that have its values.
Gaps: TypeAlias = Literal["drop", "error", "pairwise"]
#: Seconds between checkpoints, which is the work that a crash can lose. A round number that was not
#: tuned; writing more often would cost time.
CHECKPOINT_SECONDS = 2.0
_MEMBERS = ("note", "checksum", *MEMBERS, *(f"before_{name}" for name in MEMBERS))


class Counted(NamedTuple):
    """The moments of all rows before a place in one of the files."""

    moments: MomentTensors
    file: int
    place: Place
    dropped: int = 0  # rows left out for their gaps


class CheckpointError(ValueError):
    """A checkpoint that is damaged or belongs to another run."""


def checkpoint_path(output: str | PathLike[str]) -> Path:
    output = Path(output)
    return output.with_name(output.name + ".checkpoint")


class Pass:
    """One pass over tables into ``output``; after a crash, the same call continues it.

    Parameters
    ----------
    tables : the tables in the order in which they are read, with their columns chosen
    order : the highest order of the moments
    output : the file for the moments; until it is complete, the checkpoint is beside it
    missing : what is done about rows with gaps
    device : an array on the device that does the sums; None for the main memory
    """

    def __init__(
        self,
        tables: Sequence[Table],
        order: int,
        output: str | PathLike[str],
        *,
        missing: Gaps = "error",
        device: Array | None = None,
    ) -> None:
        self.tables, self.missing, self.device = tables, missing, device
        first = tables[0]
        self.output, self.checkpoint = Path(output), checkpoint_path(output)
        empty = MomentTensors(
            first.width,
            order,
            missing="pairwise" if missing == "pairwise" else "error",
            feature_names=first.columns,
        )
        self.counted = self._begun = Counted(empty, 0, BEGINNING)
        check_writable(self.output)
        check_writable(self.checkpoint)
        self._changed = [table.modified_at() for table in self.tables]
        self.resumed = self.checkpoint.exists()
        if self.resumed:
            self._resume()

    @property
    def moments(self) -> MomentTensors:
        return self.counted.moments

    def run(
        self, callback: Callable[[int, float], None] = lambda rows, share: None
    ) -> MomentTensors:
        """Read to the end and save; ``callback`` gets the rows and the share of the bytes read."""
        sizes = np.array([table.size for table in self.tables], dtype=float)
        saved = time.monotonic()
        try:
            for i in range(self.counted.file, len(self.tables)):
                table = self.tables[i]
                place = self.counted.place if i == self.counted.file else BEGINNING
                if place == BEGINNING:
                    self._begun = self.counted._replace(file=i, place=BEGINNING)
                for piece in table.pieces(place):
                    moments, dropped = self._with(piece, table)
                    # One assignment, so that rows and position agree if Ctrl-C comes here.
                    self.counted = Counted(moments, i, piece.next, self.counted.dropped + dropped)
                    done = sizes[:i].sum() + piece.share * sizes[i]
                    callback(moments.count, float(done / max(sizes.sum(), 1)))
                    if time.monotonic() - saved > CHECKPOINT_SECONDS:
                        self._save()
                        saved = time.monotonic()
        except TableError:
            # The file has to be corrected and read anew, so keep only the files before it.
            self._keep_whole_files()
            raise
        except BaseException:  # Ctrl-C loses nothing
            self._save()
            raise
        if self.moments.count == 0:
            raise TableError(f"{self.tables[0].label}: no rows")
        self.moments.save(self.output)
        self.checkpoint.unlink(missing_ok=True)
        return self.moments

    def _with(self, piece: Piece, table: Table) -> tuple[MomentTensors, int]:
        """The moments including a piece, and how many rows of the piece were left out."""
        table.refuse_gaps(piece, self.missing != "error")
        rows = piece.rows
        if self.missing == "drop":
            rows = rows[~np.isnan(rows).any(axis=1)]
        there = rows if self.device is None else as_like(rows, self.device)
        try:
            return self.moments.copy().update(there), len(piece.rows) - len(rows)
        except ValueError as error:
            numbers = f"rows {piece.first.rows} to {piece.next.rows - 1}"
            raise TableError(f"{table.label}, {numbers}: {error}") from error

    def _keep_whole_files(self) -> None:
        if self._begun.moments.count == 0:
            self.checkpoint.unlink(missing_ok=True)
        else:
            self.counted = self._begun
            self._save()

    def _settings(self) -> dict[str, object]:
        return {
            "files": [table.identity for table in self.tables],
            "columns": self.tables[0].columns,
            "order": self.moments.order,
            "missing": self.missing,
            "options": str(self.tables[0].options),
        }

    def _save(self) -> None:
        if not all(table.lasting for table in self.tables):  # reading again may give other rows
            return
        moments, file, place, dropped = self.counted
        states = [[t.size, changed] for t, changed in zip(self.tables, self._changed, strict=True)]
        counts = {"dropped": dropped, "dropped_before": self._begun.dropped}
        where = {"file": file, "place": list(place), "states": states, **counts}
        note = json.dumps({**self._settings(), **where})
        before = {f"before_{name}": x for name, x in self._begun.moments.state().items()}
        arrays = {"note": np.array(note), **moments.state(), **before}
        arrays["checksum"] = np.array(checksum(arrays))
        with written_whole(self.checkpoint) as target:
            write_arrays(target, arrays)

    def _resume(self) -> None:
        again = f"delete {self.checkpoint} to start over"
        try:
            state = read_arrays(self.checkpoint, _MEMBERS)
            if "checksum" not in state or str(state.pop("checksum")) != checksum(state):
                raise ValueError("its checksum is not that of its contents")
            note = json.loads(str(state.pop("note")))
            before = {k[7:]: state.pop(k) for k in list(state) if k.startswith("before_")}
            moments, begun = MomentTensors.from_state(state), MomentTensors.from_state(before)
            place, at, states = Place(*note["place"]), note["file"], list(note["states"])
            dropped, dropped_before = note["dropped"], note["dropped_before"]
            numbers = (at, *place, dropped, dropped_before)
            if not all(type(number) is int and number >= 0 for number in numbers):
                raise ValueError("its position is not a place in a file")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"the checkpoint {self.checkpoint} is damaged ({error}); {again}"
            ) from error
        for name, value in self._settings().items():
            if note.get(name) != value:
                raise CheckpointError(
                    f"the checkpoint {self.checkpoint} belongs to another run: its {name} "
                    f"differ(s) from what was asked for now; {again}"
                )
        read = at + (place != BEGINNING)  # files with rows that have been counted
        for table, changed, state in zip(self.tables[:read], self._changed, states, strict=False):
            if [table.size, changed] != state:
                raise CheckpointError(
                    f"{table.label} has changed since its rows were counted in the checkpoint "
                    f"{self.checkpoint}; {again}"
                )
        self.counted = Counted(moments, at, place, dropped)
        self._begun = Counted(begun, at, BEGINNING, dropped_before)
