"""Devices: finding them by name, how much memory a block may take there, and copying to them.

Only this file and array.py name an array library. None is imported before a device is asked for by
name.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from momentmix.support.array import Array, array_device, as_like, place_of

#: The share of a device's memory that the temporaries of a block of rows may take, and the bytes if
#: the device does not tell its memory. Round numbers that were not tuned; they affect only memory
#: and speed.
SHARE, UNKNOWN_BYTES = 1 / 32, 256 << 20


def block_bytes(x: Array) -> int:
    """Bytes for the temporaries of one block of rows on the device of ``x``.

    Blocks should be large, because each takes a dozen calls whatever its size.
    """
    total = 0
    if place_of(x) == "cuda":
        device: Any = array_device(x)
        if is_torch_array(x):
            total = importlib.import_module("torch").cuda.get_device_properties(device).total_memory
        elif is_cupy_array(x):
            total = device.mem_info[1]
    return int(total * SHARE) or UNKNOWN_BYTES


def device_named(name: str) -> Array:
    """An empty float64 tensor of PyTorch on a named device, such as ``cuda`` or ``cuda:1``."""
    if not isinstance(name, str):
        raise TypeError(f"device must be a name such as 'cuda' or 'cuda:1', got {name!r}")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise ImportError(
            f"device={name!r} needs PyTorch, which is not installed; "
            "pip install 'momentmix[torch]' installs it"
        ) from None
    try:
        empty: Array = torch.empty((0, 1), dtype=torch.float64, device=torch.device(name))
    except (RuntimeError, AssertionError, TypeError) as error:
        what = f"there is no device {name!r}; give one that PyTorch has, such as 'cuda' or 'cuda:1'"
        if name.partition(":")[0] in ("cuda", "mps", "xpu"):
            reason = str(error).strip().splitlines()[0].rstrip(".")
            what = f"PyTorch has no device {name!r} here ({reason})"
        raise ValueError(f"{what}; or leave device out") from error
    return empty


class Copying:
    """Copies from the main memory to a device, in a thread that works ahead of the computation.

    On CUDA the copies come from pinned memory and run on a stream of their own, so they overlap
    with the kernels. A copy is complete when it is handed over.
    """

    def __init__(self, like: Array) -> None:
        self.like = like
        self._torch: Any = None
        if is_torch_array(like) and place_of(like) == "cuda":
            self._torch = importlib.import_module("torch")
            self._stream = self._torch.cuda.Stream(array_device(like))
            # The kernels run on the stream of the thread that asks for the copies.
            self._kernels = self._torch.cuda.current_stream(array_device(like))

    def there(self, value: np.ndarray) -> Array:
        """Copy an array to the device, in float64."""
        if self._torch is None:
            return as_like(value, self.like)
        torch = self._torch
        pinned = torch.empty(value.shape, dtype=torch.float64, device="cpu", pin_memory=True)
        pinned.numpy()[...] = value
        with torch.cuda.stream(self._stream):
            copy: Any = pinned.to(array_device(self.like), non_blocking=True)
        self._stream.synchronize()
        # Keeps the memory from being reused before the kernels that read it have run.
        copy.record_stream(self._kernels)
        moved: Array = copy
        return moved
