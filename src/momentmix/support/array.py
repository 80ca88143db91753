"""Array libraries: the only file that names one.

Everything else asks for the namespace ``xp`` of its arguments and calls the functions of the array
API standard, so that results stay in the caller's library, dtype and device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_namespace, is_torch_array
from array_api_compat import device as array_device

from momentmix.support.protocols import Array, ArrayLike, Device, DType, Namespace

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Array",
    "ArrayLike",
    "DType",
    "Device",
    "Namespace",
    "all_finite",
    "array_device",
    "as_float_array",
    "contiguous",
    "frozen_copy",
    "index_array",
    "is_numpy_namespace",
    "like",
    "multiply_into",
    "namespace",
    "on_accelerator",
    "read_only",
    "read_only_view",
    "subtract_into",
    "to_numpy",
]


def namespace(*arrays: Array) -> Namespace:
    """The array API namespace that all of ``arrays`` share."""
    try:
        xp: Namespace = array_namespace(*arrays)
        return xp
    except TypeError as error:
        kinds = ", ".join(sorted({f"{type(a).__module__.partition('.')[0]}" for a in arrays}))
        raise TypeError(
            f"the arguments come from different array libraries ({kinds}); "
            "convert them to one library first"
        ) from error


def as_float_array(value: ArrayLike, name: str, ndim: tuple[int, ...]) -> Array:
    """``value`` as a float32 or float64 array of its own library (NumPy for lists and tables)."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
    array: Array
    if _is_array(value) and not isinstance(value, np.ndarray):
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
        array = np.asarray(value)
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
    """Plain numbers and lists in the library, dtype and on the device of ``reference``."""
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
    # A sum that overflows says nothing; only then is the array of booleans made.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(x))):
            return True
    return bool(xp.all(xp.isfinite(x)))


def frozen_copy(x: Array) -> Array:
    """A copy that the caller cannot change through the original (nor, in NumPy, at all)."""
    copy = namespace(x).asarray(x, copy=True)
    return read_only(copy) if isinstance(copy, np.ndarray) else copy


def read_only(x: np.ndarray) -> np.ndarray:
    """``x`` itself, which from now on refuses to be written into."""
    x.flags.writeable = False
    return x


def read_only_view(x: Array) -> Array:
    """``x`` itself without a copy; a NumPy array comes back as a view that refuses writes."""
    return read_only(x.view()) if isinstance(x, np.ndarray) else x


def contiguous(x: Array) -> Array:
    """``x`` with its rows along memory, for NumPy; other libraries choose for themselves."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x


def multiply_into(out: Array, a: Array, b: Array) -> None:
    """out ← a b; in NumPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.multiply(np.asarray(a), np.asarray(b), out=out)
    else:
        out[...] = a * b


def subtract_into(out: Array, a: Array, b: Array) -> None:
    """out ← a - b, in the dtype of out; in NumPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.subtract(np.asarray(a), np.asarray(b), out=out)
    else:
        out[...] = namespace(out).astype(a, out.dtype) - b


def index_array(indices: np.ndarray, like: Array) -> Array:
    """Whole numbers from NumPy in the library and on the device of ``like``."""
    xp = namespace(like)
    return xp.asarray(np.array(indices), device=array_device(like))


def to_numpy(x: ArrayLike) -> np.ndarray:
    """``x`` as a NumPy array in the main memory; without a copy where that can be."""
    return np.asarray(x.detach().cpu() if _is_tensor(x) else x)


def on_accelerator(x: Array) -> bool:
    """Whether ``x`` lies on a GPU, where large blocks pay."""
    return _is_tensor(x) and bool(x.device.type != "cpu")
