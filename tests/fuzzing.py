"""What the fuzz targets share: how long they run, and what spoils a file.

`make test` runs each target for some seconds, always with the same examples; `make fuzz` runs each
for MOMENTMIX_FUZZ_SECONDS with new ones.
"""

import os
import random
import tempfile
import time
from functools import wraps
from pathlib import Path

import hypothesis
import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from momentmix import Mixture, MomentTensors

SECONDS = float(os.environ.get("MOMENTMIX_FUZZ_SECONDS", 0))


def fuzz(strategy, examples):
    """A test of one drawn value: some examples, or as many as fit into MOMENTMIX_FUZZ_SECONDS."""
    options = {
        "deadline": None,
        "database": None,
        "suppress_health_check": list(HealthCheck),
        "print_blob": False,
    }

    def decorate(check):
        @wraps(check, assigned=("__name__", "__doc__", "__module__"))
        def test():
            if not SECONDS:
                fixed = hypothesis.settings(max_examples=examples, derandomize=True, **options)
                return fixed(given(strategy)(lambda value: check(value)))()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                seed = random.getrandbits(32)
                print(f"seed {seed}", flush=True)
                many = hypothesis.settings(max_examples=200, **options)
                hypothesis.seed(seed)(many(given(strategy)(lambda value: check(value))))()

        del test.__wrapped__
        return test

    return decorate


# What spoils a file.


def _flipped(data, draws):
    data = bytearray(data)
    for at, mask in draws:
        data[at % len(data)] ^= mask
    return bytes(data)


def _spliced(data, at, length, piece):
    at %= len(data) + 1
    return data[:at] + piece + data[at + length :]


NUMBERS = [
    *(b"0", b"-1", b"1e308", b"-1e308", b"1e999", b"NaN", b"99999999999999999999", b"1.5", b""),
    *(b"true", b"null", b'"x"', b"[]", b"{}", b"1e-320", b"0x1", b"1_0", b"\xff", b"\x00"),
]


def damaged(data):
    """Bytes flipped, cut off, put in, left out, or written twice; and numbers exchanged in text."""
    at = st.integers(0, len(data))
    flips = st.lists(st.tuples(at, st.integers(1, 255)), min_size=1, max_size=4)
    pieces = st.binary(max_size=8) | st.sampled_from(NUMBERS)
    return st.one_of(
        st.just(data),
        flips.map(lambda draws: _flipped(data, draws)),
        at.map(lambda end: data[:end]),
        st.tuples(at, st.integers(0, 16), pieces).map(lambda draw: _spliced(data, *draw)),
        st.tuples(at, at, st.integers(0, 64)).map(
            lambda draw: _spliced(data, draw[0], 0, data[draw[1] : draw[1] + draw[2]])
        ),
        st.binary(max_size=64),
    )


def saved(write, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


# What is valid.

NAMES = ["a", "b"]
ROWS = np.random.default_rng(0).normal(size=(40, 2))
CSV = "a,b\n" + "".join(f"{x:.3f},{y:.3f}\n" for x, y in ROWS)
MIXTURE = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [np.eye(2)] * 2, feature_names=NAMES)
TENSORS = MomentTensors.from_samples(ROWS, 3)
TENSORS.feature_names = tuple(NAMES)
