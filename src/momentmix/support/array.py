"""Array libraries: only this file and device.py name one.

All other code takes the namespace ``xp`` of its arguments and calls functions of the array API
standard, so results keep the caller's library, dtype and device. What stands for an absent number
in tables is made NaN here, and dates, which are no numbers, are refused.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_jax_array,
    is_torch_array,
    to_device,
)
from array_api_compat import is_numpy_namespace as is_numpy_namespace

from momentmix.support.protocols import Array as Array
from momentmix.support.protocols import ArrayLike as ArrayLike
from momentmix.support.protocols import Device as Device
from momentmix.support.protocols import DType as DType
from momentmix.support.protocols import Namespace as Namespace

if TYPE_CHECKING:
    from torch import Tensor

#: The device on which an array is.
array_device = device
#: The names that libraries use for the main memory. Anywhere else is a device, where rows stay.
MAIN_MEMORY = frozenset({"cpu", "array_api_strict.Device('CPU_DEVICE')"})

_NUMPY: Namespace = array_namespace(np.empty(0))


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace that all of ``arrays`` share."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # it is asked for in every kernel
        return _NUMPY
    try:
        xp: Namespace = array_namespace(*arrays)
    except TypeError as error:
        kinds = ", ".join(sorted({f"{type(a).__module__.partition('.')[0]}" for a in arrays}))
        raise TypeError(
            f"the arguments come from different array libraries ({kinds}); "
            "convert them to one library first"
        ) from error
    # What JAX traces for derivatives is nowhere.
    places = {str(array_device(x)) for x in arrays} - {"None"} if len(arrays) > 1 else set()
    if len(places) > 1:
        raise TypeError(
            f"the arguments are on different devices ({', '.join(sorted(places))}); bring them to "
            "one device first"
        )
    return xp


def as_float_array(value: ArrayLike, name: str, ndim: tuple[int, ...]) -> Array:
    """``value`` as a float32 or float64 array of its own library (NumPy for lists and tables)."""
    array: Array
    if _is_array(value) and not isinstance(value, np.ndarray):
        if foreign(value) and not hasattr(type(value), "mT"):
            raise TypeError(
                f"{name} is an array of {_library(value)} without mT, the matrix transpose of the "
                "array API standard; CuPy has it from version 14 on"
            )
        array = value
    else:
        array = _numpy_from_python(value, name)
    xp = namespace(array)
    if array.ndim not in ndim:
        wanted = " or ".join(str(k) for k in ndim)
        raise ValueError(
            f"{name} must have {wanted} dimension(s), but has shape {tuple(array.shape)}"
        )
    if xp.isdtype(array.dtype, ("bool", "integral")):
        return xp.astype(array, xp.float64)
    if not xp.isdtype(array.dtype, "real floating"):
        raise TypeError(f"{name} must hold real numbers, but its dtype is {array.dtype}")
    if array.dtype not in (xp.float32, xp.float64):
        return xp.astype(array, xp.float64)
    return array


def _is_array(value: object) -> TypeGuard[Array]:
    """Whether ``value`` is an array of a library that follows the standard."""
    return bool(is_array_api_obj(value))


def _is_tensor(value: object) -> TypeGuard[Tensor]:
    return bool(is_torch_array(value))


def _numpy_from_python(value: ArrayLike, name: str) -> np.ndarray:
    if hasattr(value, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix; pass a dense array, e.g. {name}.toarray()")
    try:
        array = without_masks(np.asarray(without_masks(value, name)), name)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype.kind not in "buifc":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must hold numbers, but its dtype is {array.dtype} ({error})"
            ) from error
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def like(value: ArrayLike, reference: Array) -> ArrayLike:
    """Convert plain numbers and lists to the library, dtype and device of ``reference``."""
    if _is_array(value) and not isinstance(value, np.generic):
        return value
    if isinstance(reference, np.ndarray) or not isinstance(
        value, int | float | list | tuple | np.generic
    ):
        return value
    xp = namespace(reference)
    array = _numpy_from_python(value, "value").astype(np.float64)
    return xp.asarray(array, dtype=reference.dtype, device=array_device(reference))


def all_finite(x: Array) -> bool:
    """Whether no entry is NaN or infinite; one read of ``x``, no temporary unless in doubt."""
    xp = namespace(x)
    # A finite sum proves it. A sum may also overflow, so only then is the boolean array made.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(x))):
            return True
    return bool(xp.all(xp.isfinite(x)))


def is_all_zero(x: Array) -> bool:
    """Whether every entry is known to be 0; not asked of tensors that are to have derivatives."""
    if isinstance(x, np.ndarray):
        return x.size > 0 and not x.item(0) and not x.any()
    if is_jax_array(x) or (_is_tensor(x) and x.requires_grad) or 0 in x.shape:
        return False
    xp = namespace(x)
    return bool(xp.max(xp.abs(x)) <= 0)


def frozen_copy(x: Array) -> Array:
    """A copy that the caller cannot change through the original (nor, in NumPy, at all)."""
    # Before PyTorch 2.13 its asarray forgets the graph.
    copy = x.clone() if _is_tensor(x) else namespace(x).asarray(x, copy=True)
    return read_only(copy) if isinstance(copy, np.ndarray) else copy


def read_only(x: np.ndarray) -> np.ndarray:
    """``x`` itself, made read-only."""
    x.flags.writeable = False
    return x


def read_only_view(x: Array) -> Array:
    """``x`` without a copy; a NumPy array comes back as a read-only view."""
    return read_only(x.view()) if isinstance(x, np.ndarray) else x


def contiguous(x: Array) -> Array:
    """``x`` in row-major order if it is NumPy's; other libraries choose their own layout."""
    return np.asarray(x, order="C") if isinstance(x, np.ndarray) else x


def multiply_into(out: Array, a: Array, b: Array) -> None:
    """out ← a b; in NumPy, PyTorch and CuPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.multiply(np.asarray(a), np.asarray(b), out=out)
    elif _keeps_no_graph(a, b) or is_cupy_array(out):
        xp: Any = namespace(out)
        xp.multiply(a, b, out=out)
    else:
        out[...] = a * b


def can_be_written(x: object) -> bool:
    """Whether arrays of its library are known to take writes; those of JAX, for one, do not."""
    return isinstance(x, np.ndarray) or _is_tensor(x) or bool(is_cupy_array(x))


def _keeps_no_graph(*arrays: Array) -> bool:
    """Whether these are PyTorch tensors that need no derivatives."""
    return all(_is_tensor(x) and not x.requires_grad for x in arrays)


def plus_product(total: Array, factor: float, a: Array, b: Array) -> Array:
    """total + factor a b, in the memory of total where that can be; in PyTorch in one kernel."""
    if _is_tensor(total):
        return total.addcmul_(a, b, value=factor)
    term = a * b
    term *= factor
    total += term
    return total


def plus_multiple(total: Array | float, factor: float, a: Array) -> Array:
    """total + factor a, a new array; in PyTorch in one kernel."""
    if _is_tensor(a) and _is_tensor(total):
        return total.add(a, alpha=factor)
    term = factor * a
    term += total
    return term


def subtract_into(out: Array, a: Array, b: Array) -> None:
    """out ← a - b, in the dtype of out; in NumPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.subtract(np.asarray(a), np.asarray(b), out=out)
    else:
        out[...] = namespace(out).astype(a, out.dtype) - b


#: Copies of index tables on devices, each with the original so that its id stays taken.
_tables: dict[tuple[int, str, str], tuple[np.ndarray, Array]] = {}
#: When so many copies are kept, all are dropped. A round number that was not tuned; it bounds the
#: memory on the device.
_MOST_TABLES = 64


def index_array(indices: np.ndarray, like: Array) -> Array:
    """Convert whole numbers from NumPy to the library and device of ``like``.

    The copy of a read-only table is kept, because copying makes a device wait.
    """
    if isinstance(like, np.ndarray):
        return indices
    xp, device = namespace(like), array_device(like)
    if indices.flags.writeable:
        return xp.asarray(np.array(indices), device=device)
    key = id(indices), _library(like), str(device)
    kept = _tables.get(key)
    if kept is None:
        if len(_tables) >= _MOST_TABLES:
            _tables.clear()
        kept = _tables[key] = indices, xp.asarray(np.array(indices), device=device)
    return kept[1]


def foreign(x: object) -> bool:
    """Whether ``x`` is an array with data in memory, of another library than NumPy."""
    return (
        bool(is_array_api_obj(x))
        and not isinstance(x, np.ndarray | np.generic)
        and not (is_dask_array(x))
    )


def on_accelerator(x: object) -> bool:
    """Whether ``x`` is an array on a GPU or another device on which passes over rows can run.

    JAX does not count: its arrays cannot be written into, and the passes reuse their temporaries.
    """
    return foreign(x) and not is_jax_array(x) and place_of(x) not in MAIN_MEMORY


def place_of(x: object) -> str:
    """The name of the device on which an array is, such as ``cpu`` or ``cuda``."""
    device = array_device(x)
    name = getattr(device, "type", None) or getattr(device, "platform", None)
    return str(name or ("cuda" if is_cupy_array(x) else device))


def check_same_place(X: object, other: object, name: str) -> None:
    """Refuse an array of another library than X, or on another device.

    Numbers, lists and tables go with arrays in the main memory, and None goes with any array.
    """
    if other is None or not (foreign(X) or foreign(other)):
        return
    arrays = [value for value in (X, other) if isinstance(value, np.ndarray) or foreign(value)]
    if len(arrays) < 2:
        if not on_accelerator(X) or isinstance(other, int | float | np.number | list | tuple):
            return
    elif _library(X) == _library(other) and array_device(X) == array_device(other):
        return
    raise TypeError(
        f"{name} is {_described(other)}, but X is {_described(X)}; bring both to one library and "
        "one device"
    )


def _library(x: object) -> str:
    """The name of the library of ``x``; also for subclasses of PyTorch's tensors."""
    return "torch" if _is_tensor(x) else type(x).__module__.partition(".")[0]


def _described(x: object) -> str:
    if not (isinstance(x, np.ndarray) or foreign(x)):
        return f"a {type(x).__name__} in the main memory"
    return f"an array of {_library(x)} on {array_device(x)}"


def without_graph(x: Array) -> Array:
    """``x`` detached from PyTorch's graph for derivatives."""
    return x.detach() if _is_tensor(x) else x


def refuse_graph(what: str, *arrays: object) -> None:
    """Refuse tensors of which PyTorch is to take derivatives, where what is made of them has none.

    A term of a sum that silently had none would make the derivative of the sum a wrong number.
    """
    tensors = [x for x in arrays if _is_tensor(x)]
    if not tensors:
        return
    torch: Any = sys.modules["torch"]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        asked, instead = "has requires_grad=True", "call it within torch.no_grad(), or "
    elif any(torch.autograd.forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        asked, instead = "has a tangent", ""
    else:
        return
    raise TypeError(
        f"a tensor {asked}, but PyTorch's derivatives do not reach through {what}; "
        f"{instead}give tensor.detach()"
    )


def empty_like_rows(X: Array) -> Array:
    """An array without rows that carries the library, dtype and device of X."""
    # A slice of X would keep X in memory.
    return namespace(X).empty((0, X.shape[1]), dtype=X.dtype, device=array_device(X))


def as_like(value: np.ndarray, like: Array, dtype: DType = None) -> Array:
    """Convert numbers from NumPy to the library and device of ``like``, and its or another dtype.

    In NumPy they are copied only if the dtype changes.
    """
    if isinstance(like, np.ndarray):
        return value.astype(like.dtype if dtype is None else dtype, copy=False)  # type: ignore[arg-type]
    xp = namespace(like)
    dtype = like.dtype if dtype is None else dtype
    # Some libraries share memory with NumPy's arrays, which may be read-only.
    value = np.array(value)
    return xp.asarray(value, dtype=dtype, device=array_device(like))


def to_numpy(x: ArrayLike) -> np.ndarray:
    """``x`` as a NumPy array in the main memory, without a copy if possible.

    It ends PyTorch's graph, so tensors that are to have derivatives are refused; where only a
    decision follows from the numbers, give ``without_graph(x)``.
    """
    if isinstance(x, np.ndarray) or not _is_array(x):
        return np.asarray(filled(x))
    if _is_tensor(x):
        refuse_graph("what is computed in NumPy", x)
        here = x.detach().cpu()
        try:
            return np.asarray(here)
        except TypeError:  # dtypes such as bfloat16 that NumPy does not have
            return np.asarray(here.float())
    if is_cupy_array(x):
        return np.asarray(to_device(x, "cpu"))
    if on_accelerator(x):
        info: Any = getattr(namespace(x), "__array_namespace_info__", None)
        return np.asarray(to_device(x, info().default_device()))
    return np.asarray(x)


#: Whatever users give as numbers: arrays, lists, tables.
Given: TypeAlias = Any
#: Dates, times and durations among objects; pandas's are subclasses of the last two.
DATES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)
#: Types of dates, times and durations, as NumPy, pandas, Arrow and Polars name them.
_DATES = re.compile(r"[<>]?(date|time|duration|period|m8)", re.IGNORECASE)


def without_masks(value: Given, name: str) -> Given:
    """``value`` with NaN where a mask of NumPy hides it, or objects are None or pandas's NA.

    Sparse columns of pandas become dense, because scikit-learn makes a SciPy matrix of them.
    Dates and durations are refused: NumPy would read them as numbers of an arbitrary unit, and NaT
    as the least of them. Anything else stays as it is.
    """
    value = filled(value)
    kinds = getattr(value, "dtypes", getattr(getattr(value, "schema", None), "types", None))
    if kinds is None and isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        kinds = [array.dtype]
        if array.dtype == np.dtype(object):
            absent = np.frompyfunc(lambda x: x is None or type(x).__name__ == "NAType", 1, 1)(array)
            value = np.where(np.asarray(absent, dtype=bool), np.nan, array)
    kinds = list(kinds) if isinstance(kinds, Iterable) else [kinds]
    dates = [str(kind) for kind in kinds if _DATES.match(str(kind))]
    if not dates and any(str(kind) == "object" for kind in kinds):
        dates = sorted({type(cell).__name__ for cell in _cells(value) if isinstance(cell, DATES)})
    if dates:
        raise TypeError(
            f"{name} holds dates or durations ({dates[0]}), which have no unit as numbers; give "
            "numbers, such as days since the first of the dates"
        )
    if any(type(kind).__name__ == "SparseDtype" for kind in kinds):
        value = value.apply(_dense) if hasattr(value, "columns") else _dense(value)
    if hasattr(value, "notna") and any(kind == np.dtype(object) for kind in kinds):
        value = value.where(value.notna(), np.nan)
    return value


def _dense(column: Given) -> Given:
    """A column of pandas, dense if it is sparse."""
    return column.sparse.to_dense() if type(column.dtype).__name__ == "SparseDtype" else column


def _cells(value: Given) -> Iterable[object]:
    """The cells of an array, of lists, or of those columns of a table that hold objects."""
    if hasattr(value, "select_dtypes"):
        value = value.select_dtypes(object)
    return np.asarray(value, dtype=object).flat


def filled(value: Given) -> Given:
    """A masked array, or a list of some, with NaN where it is masked; anything else as it is."""
    if isinstance(value, list | tuple) and any(isinstance(x, np.ma.MaskedArray) for x in value):
        value = np.ma.array(value)
    if not isinstance(value, np.ma.MaskedArray) or value.dtype.kind in "cmM":
        return value
    kind = value.dtype if value.dtype.kind == "f" else np.dtype(float)
    return np.ma.filled(value.astype(kind), np.nan)
