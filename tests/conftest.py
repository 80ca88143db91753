import importlib.util
import signal

import array_api_compat
import array_api_strict
import numpy as np
import pytest
import torch

from momentmix.rows import device, memory
from momentmix.support import array

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells have jobs in the background ignore Ctrl-C, which some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests run side by side on all cores, and threads of one would wait for those of another.
torch.set_num_threads(1)

BACKENDS = {
    "numpy": array_api_compat.array_namespace(np.zeros(1)),
    "strict": array_api_strict,
    "immutable": array_api_strict,
    "torch": array_api_compat.array_namespace(torch.zeros(1)),
}
if importlib.util.find_spec("jax"):  # it is large, and no part of what tests need
    import jax

    jax.config.update("jax_enable_x64", True)
    BACKENDS["jax"] = jax.numpy
if torch.cuda.is_available():
    BACKENDS["cuda"] = BACKENDS["torch"]


class Backend:
    """An array library as a test sees it: make arrays of it, read them back, recognise its own."""

    def __init__(self, name):
        self.name = name
        self.xp = BACKENDS[name]

    def array(self, a, dtype=None):
        a = np.array(a, dtype=dtype)
        if self.name == "cuda":
            return torch.asarray(a, device="cuda")
        return self.xp.asarray(a)

    def numpy(self, a):
        return a.cpu().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)

    def owns(self, a, dtype="float64"):
        return (
            array_api_compat.array_namespace(a) is array_api_compat.array_namespace(self.array(0.0))
            and str(a.dtype).rpartition(".")[2] == dtype
            and str(array_api_compat.device(a)) == str(array_api_compat.device(self.array(0.0)))
        )


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    if request.param == "immutable":
        take_no_writes(monkeypatch)
    return Backend(request.param)


def take_no_writes(monkeypatch):
    """Arrays of array-api-strict as the standard allows them, and as those of JAX are.

    Operators such as += make a new array and leave the old one as it was.
    """

    def refuse(self, key, value):
        raise TypeError("arrays of this library cannot be written into")

    monkeypatch.setattr(array_api_strict._array_object.Array, "__setitem__", refuse)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "matmul"):
        monkeypatch.delattr(array_api_strict._array_object.Array, f"__i{name}__")


#: Devices of PyTorch on which passes over rows are tested: the main memory, as if it were one.
DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


@pytest.fixture
def main_memory_is_a_device(monkeypatch):
    """Arrays of other libraries than NumPy count as being on a device, wherever they are."""
    monkeypatch.setattr(array, "MAIN_MEMORY", frozenset())
    monkeypatch.setattr(device, "LEAST_NUMBERS", 0)


@pytest.fixture(params=("here", *DEVICES))
def passes_everywhere(request, monkeypatch):
    """A test that uses it runs with passes over complete rows here, and on each device."""
    if request.param == "here":
        return
    monkeypatch.setattr(device, "LEAST_NUMBERS", 0)
    like = torch.empty((0, 1), dtype=torch.float64, device=request.param)

    def there(X, kind):
        return device.device_passes(np.asarray(X), kind, like)

    monkeypatch.setattr(memory, "Passes", there)


@pytest.fixture
def rng():
    return np.random.default_rng(7)
