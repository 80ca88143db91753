"""Array libraries: the only file that names one.

Everything else asks for the namespace ``xp`` of its arguments and calls the functions of the array
API standard, so that results stay in the caller's library, dtype and device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_namespace, is_torch_array
from array_api_compat import device as array_device

Array = Any

__all__ = [
    "Array",
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
    "read_only_view",
    "subtract_into",
    "to_numpy",
]


def namespace(*arrays: Array) -> Any:
    """The array API namespace that all of ``arrays`` share."""
    try:
        return array_namespace(*arrays)
    except TypeError as error:
        kinds = ", ".join(sorted({f"{type(a).__module__.partition('.')[0]}" for a in arrays}))
        raise TypeError(
            f"the arguments come from different array libraries ({kinds}); "
            "convert them to one library first"
        ) from error


def as_float_array(value: Any, name: str, ndim: tuple[int, ...]) -> Array:
    """``value`` as a float32 or float64 array of its own library (NumPy for lists and tables)."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or drop the masked entries first")
    if isinstance(value, np.ndarray) or not is_array_api_obj(value):
        value = _numpy_from_python(value, name)
    xp = array_namespace(value)
    if value.ndim not in ndim:
        wanted = " or ".join(str(k) for k in ndim)
        raise ValueError(
            f"{name} must have {wanted} dimension(s), but has shape {tuple(value.shape)}"
        )
    if xp.isdtype(value.dtype, ("bool", "integral")):
        return xp.astype(value, xp.float64)
    if not xp.isdtype(value.dtype, "real floating"):
        raise TypeError(f"{name} must hold real numbers, but its dtype is {value.dtype}")
    if value.dtype not in (xp.float32, xp.float64):
        return xp.astype(value, xp.float64)
    return value


def _numpy_from_python(value: Any, name: str) -> np.ndarray:
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


def like(value: Any, reference: Array) -> Any:
    """Plain numbers and lists in the library, dtype and on the device of ``reference``."""
    if is_array_api_obj(value) and not isinstance(value, np.generic):
        return value
    if isinstance(reference, np.ndarray) or not isinstance(
        value, int | float | list | tuple | np.generic
    ):
        return value
    xp = array_namespace(reference)
    array = _numpy_from_python(value, "value").astype(np.float64)
    return xp.asarray(array, dtype=reference.dtype, device=array_device(reference))


def all_finite(x: Array) -> bool:
    """Whether no entry is NaN or infinite; one read of ``x``, no temporary unless in doubt."""
    xp = array_namespace(x)
    # A sum that overflows says nothing; only then is the array of booleans made.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(x))):
            return True
    return bool(xp.all(xp.isfinite(x)))


def frozen_copy(x: Array) -> Array:
    """A copy that the caller cannot change through the original (nor, in NumPy, at all)."""
    xp = array_namespace(x)
    copy = xp.asarray(x, copy=True)
    if isinstance(copy, np.ndarray):
        copy.flags.writeable = False
    return copy


def read_only_view(x: Array) -> Array:
    """``x`` itself without a copy; a NumPy array comes back as a view that refuses writes."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def contiguous(x: Array) -> Array:
    """``x`` with its rows along memory, for NumPy; other libraries choose for themselves."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x


def multiply_into(out: Array, a: Array, b: Array) -> None:
    """out ← a b; in NumPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.multiply(a, b, out=out)
    else:
        out[...] = a * b


def subtract_into(out: Array, a: Array, b: Array) -> None:
    """out ← a - b, in the dtype of out; in NumPy without a temporary."""
    if isinstance(out, np.ndarray):
        np.subtract(a, b, out=out)
    else:
        out[...] = array_namespace(out).astype(a, out.dtype) - b


def index_array(indices: np.ndarray, like: Array) -> Array:
    """Whole numbers from NumPy in the library and on the device of ``like``."""
    xp = array_namespace(like)
    return xp.asarray(np.array(indices), device=array_device(like))


def to_numpy(x: Array) -> np.ndarray:
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def on_accelerator(x: Array) -> bool:
    """Whether ``x`` lies on a GPU, where large blocks pay."""
    return is_torch_array(x) and x.device.type != "cpu"
