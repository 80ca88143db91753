"""The state of MomentTensors as arrays of numbers, for files and other processes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.distributions.centred_sums import CentredSums, checked_missing
from momentmix.support.array import read_only
from momentmix.tensors.packed import size_in_words, total_size

#: Largest packed vector in entries (2 GiB); beyond it the moments of samples stay implicit.
MOST_ENTRIES = 1 << 28
FORMAT, VERSION = "momentmix-moments", 1
#: The names of the arrays. The names of the features are there if there are any, and the squares of
#: the weights are not in old files.
MEMBERS = ("format", "version", "order", "missing", "count", "centre", "sums", "names", "squares")
_OPTIONAL = {"names", "squares"}
_VECTORS = ("centre", "sums")


def checked_size(width: int, d: int) -> int:
    """The number of moments up to order d of so many features; a MemoryError if they are many."""
    size = total_size(width, d)
    if size > MOST_ENTRIES:
        raise MemoryError(
            f"the distinct moments up to order {d} of {width} features number "
            f"{size_in_words(size)}, {8 * size / 2**30:.3g} GiB; lower the order, or use "
            "Samples(X), which needs no tensor"
        )
    return size


class MomentState(NamedTuple):
    """All that makes up the moments of a stream of rows."""

    n_rows: int
    sums: CentredSums
    names: tuple[str, ...] | None


def state_arrays(state: MomentState) -> dict[str, np.ndarray]:
    """The state as arrays of numbers and text, which refuse to be written into."""
    names = {} if state.names is None else {"names": np.array(state.names)}
    return {
        **names,
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "order": np.array(state.sums.order),
        "missing": np.array(state.sums.missing),
        "count": np.array(state.n_rows),
        "centre": read_only(state.sums.centre.view()),
        "sums": read_only(state.sums.sums.view()),
        "squares": np.array(state.sums.squares),
    }


def checked_state(arrays: dict[str, np.ndarray]) -> MomentState:
    """What :func:`state_arrays` gave, perhaps by way of a file; a ValueError if it cannot be."""
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
    missing = checked_missing(str(arrays["missing"]))
    belong = total_size(len(centre) * (2 if missing == "pairwise" else 1), order)
    if sums.shape != (belong,):
        raise ValueError(f"it holds {sums.size} sums where {size_in_words(belong)} belong")
    if count < 0 or not (np.all(np.isfinite(centre)) and np.all(np.isfinite(sums))):
        raise ValueError("it holds numbers that are not finite, or a negative count")
    squares = equal_squares(float(sums[0]), count)
    if "squares" in arrays:
        squares = _not_negative(arrays["squares"])
    return MomentState(count, CentredSums(centre, sums, order, missing, squares), names)


def equal_squares(weight: float, count: int) -> float:
    """Σ w² of so many rows whose weights are equal and sum to ``weight``."""
    return weight / max(count, 1) * weight


def _not_negative(array: np.ndarray) -> float:
    if array.dtype.kind != "f" or array.shape != () or not array >= 0:
        raise ValueError("its squares of weights are not a number that is not negative")
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
