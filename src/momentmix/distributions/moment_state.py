"""The state of MomentTensors as arrays of numbers, for files and other processes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.distributions.centred_sums import CentredSums, check_missing
from momentmix.support.array import read_only
from momentmix.tensors.packed import size_in_words, total_size

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


class MomentState(NamedTuple):
    """Everything that defines the moments of a stream of rows."""

    n_rows: int
    sums: CentredSums
    names: tuple[str, ...] | None


def state_arrays(state: MomentState) -> dict[str, np.ndarray]:
    """The state as read-only arrays of numbers and text."""
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


def check_state(arrays: dict[str, np.ndarray]) -> MomentState:
    """The state from arrays of :func:`state_arrays`; a ValueError if they are not valid."""
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
    return MomentState(count, CentredSums(centre, sums, order, missing, squares), names)


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
