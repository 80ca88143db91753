"""Files from strangers, and numbers beyond all bounds: refused in words, and before any work."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from commands import open_tables
from momentmix import (
    GaussianMixture,
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
    symmetric_cp,
)
from momentmix.distributions.moment_tensors import CheckpointError, Pass

ROWS = np.random.default_rng(0).normal(size=(50, 2))
TENSORS = MomentTensors.from_samples(ROWS, 3)


def refused(state, tmp_path, **change):
    """Why a file of moments is refused in which some members are others."""
    np.savez(tmp_path / "m.npz", **{**state, **change})
    with pytest.raises(ValueError, match=r"m\.npz does not hold moments") as caught:
        MomentTensors.load(tmp_path / "m.npz")
    return str(caught.value)


def with_little_memory(code, *arguments, megabytes=300):
    """What some code prints that may take so much memory beside that of the library itself."""
    limited = (
        "import resource, sys, numpy as np\n"
        "from momentmix import *\n"
        "status = open('/proc/self/status').read()\n"
        "held = int(status[status.index('VmSize:'):].split()[1]) << 10\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (held + ({megabytes} << 20),) * 2)\n"
    )
    command = [sys.executable, "-c", limited + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_file_that_would_grow_in_memory(tmp_path):
    """Members that nobody asked for are not read, nor any that is compressed."""
    state = TENSORS.state()
    np.savez(tmp_path / "m.npz", **state)
    half_a_gigabyte = {"descr": "<f8", "fortran_order": False, "shape": (1 << 26,)}
    with (
        zipfile.ZipFile(tmp_path / "m.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("unused.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, half_a_gigabyte)
        for _ in range(512):
            member.write(bytes(1 << 20))
    code = "print(MomentTensors.load(sys.argv[1]).count)"
    assert with_little_memory(code, tmp_path / "m.npz").strip() == "50"
    np.savez_compressed(tmp_path / "c.npz", **state)
    with pytest.raises(ValueError, match=r"c\.npz does not hold moments: .* is compressed"):
        MomentTensors.load(tmp_path / "c.npz")


def test_a_header_that_promises_more_than_the_file_has(tmp_path):
    state = TENSORS.state()
    lying = io.BytesIO()
    np.save(lying, state["sums"])
    lying = lying.getvalue().replace(b"(10,), }          ", b"(10000000000,), } ")
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("sums.npy", lying)
    code = (
        "try:\n    MomentTensors.load(sys.argv[1])\nexcept ValueError as error:\n    print(error)\n"
    )
    assert "not as long as its header says" in with_little_memory(code, tmp_path / "m.npz")


def test_moments_that_cannot_be(tmp_path):
    state = TENSORS.state()
    centre, sums = state["centre"], state["sums"]
    for change, why in (
        (
            {"order": np.array(10**7), "centre": np.zeros(10**6)},
            "holds 10 sums instead of over 1,000,",
        ),
        ({"order": np.array(4)}, "it holds 10 sums instead of 15"),
        ({"order": np.array(3.5)}, "its order is not a whole number"),
        ({"order": np.array([3])}, "its order is not a whole number"),
        ({"order": np.array(-3)}, "its order is -3"),
        ({"order": np.array("3")}, "its order is not a whole number"),
        ({"version": np.array(True)}, "its version is not a whole number"),
        ({"count": np.array(-1)}, "a negative count"),
        ({"centre": np.array(1.0)}, "not vectors"),
        ({"centre": centre + 1j}, "neither numbers nor text"),
        ({"centre": centre * np.nan}, "not finite"),
        ({"sums": sums.astype(str)}, "not vectors"),
        ({"sums": sums.astype(object)}, "allow_pickle=False|neither numbers nor text"),
        ({"names": np.array(["a"])}, "its names are not 2 words"),
        ({"names": np.array([1, 2])}, "its names are not 2 words"),
        ({"names": np.frombuffer(b"\xff" * 8, "<U1")}, "hold moments: "),
        ({"missing": np.array("some")}, "missing must be"),
        ({"format": np.array("other")}, "its format is 'other'"),
    ):
        assert any(part in refused(state, tmp_path, **change) for part in why.split("|")), change


def saved_array(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def shape_of_sums(text):
    """A file whose sums have that shape, by their header."""
    file, plain = io.BytesIO(), saved_array(TENSORS.state()["sums"])
    new = b"(" + text + b",), }"
    odd = plain.replace(b"(10,), }".ljust(len(new)), new.ljust(8))
    assert len(odd) == len(plain)
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in TENSORS.state().items():
            archive.writestr(f"{name}.npy", odd if name == "sums" else saved_array(array))
    return file.getvalue()


def with_another_compression(kind):
    """A file whose directory says that the last member is compressed in some way."""
    file = io.BytesIO()
    np.savez(file, **TENSORS.state())
    data = bytearray(file.getvalue())
    data[data.rindex(b"PK\x01\x02") + 10] = kind
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        saved_array(ROWS),
        shape_of_sums(b"1" * 30),
        shape_of_sums(b"-1"),
        shape_of_sums(b"'a'"),
        shape_of_sums(b"(" * 30),
        with_another_compression(8),
        with_another_compression(12),
        with_another_compression(99),
    ],
)
def test_damage_of_every_kind_is_a_value_error(data, tmp_path):
    (tmp_path / "m.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"m\.npz does not hold moments: ."):
        MomentTensors.load(tmp_path / "m.npz")


def test_a_checkpoint_that_was_edited(tmp_path):
    """Places, counts and sums that are possible, but not what the run had come to."""
    paths = [tmp_path / f"{name}.npy" for name in "ab"]
    np.save(paths[0], ROWS)
    np.save(paths[1], np.vstack([ROWS, [[np.nan, 0.0]]]))
    with pytest.raises(ValueError, match="no value"):
        Pass(open_tables(paths), 2, tmp_path / "m.npz").run()
    checkpoint = tmp_path / "m.npz.checkpoint"
    assert Pass(open_tables(paths), 2, tmp_path / "m.npz").moments.count == 50
    with np.load(checkpoint) as file:
        state = dict(file)
    note = json.loads(str(state["note"]))

    def write(state):
        with open(checkpoint, "wb") as file:
            np.savez(file, **state)

    for change in (
        {"count": np.array(60)},
        {"sums": state["sums"] + 1},
        {"before_centre": state["before_centre"] + 1},
        {"note": np.array(json.dumps(note | {"place": [10, 0, 0]}))},
        {"note": np.array(json.dumps(note | {"file": 0}))},
        {"checksum": np.array("0" * 64)},
    ):
        write(state | change)
        with pytest.raises(CheckpointError, match=r"is damaged \(its checksum is not .* delete"):
            Pass(open_tables(paths), 2, tmp_path / "m.npz")
    write({name: x for name, x in state.items() if name != "checksum"})
    with pytest.raises(CheckpointError, match="its checksum is not"):
        Pass(open_tables(paths), 2, tmp_path / "m.npz")
    write(state)
    assert Pass(open_tables(paths), 2, tmp_path / "m.npz").moments.count == 50


MODEL = {
    "format": "momentmix-mixture",
    "version": 1,
    "covariance_type": "full",
    "dtype": "float64",
    "weights": [1.0],
    "means": [[0.0, 0.0]],
    "covariances": [[[1.0, 0.0], [0.0, 1.0]]],
}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": True}, "its version is True"),
        ({"version": 1.0}, r"its version is 1\.0"),
        ({"covariances": [[[-1e308, 0], [0, -1e308]]]}, "covariances reach 1e"),
        ({"covariances": [[[1e307, 2e307], [2e307, 1e307]]]}, "covariances must be positive semi"),
        ({"covariances": [[-1e308, 0], [0, 1]], "covariance_type": "tied"}, "covariances reach"),
        ({"covariances": [-1e308], "covariance_type": "spherical"}, "covariances reach"),
        ({"means": [[1e39, 0]], "dtype": "float32"}, "means must be finite"),
        ({"covariances": [[[]]]}, "covariances must have shape"),
    ],
)
def test_models_that_cannot_be(change, why, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(MODEL | change))
    with pytest.raises(ValueError, match=rf"model\.json is not a momentmix model: {why}"):
        Mixture.load(tmp_path / "model.json")


@pytest.mark.parametrize("depth", [70, 500, 700, 950, 5000, 100_000])
def test_lists_within_lists(depth, tmp_path):
    text = json.dumps(MODEL).replace('"weights": [1.0]', '"weights": ' + "[" * depth + "]" * depth)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match=r"model\.json is not a momentmix model: ."):
        Mixture.load(tmp_path / "model.json")


def test_the_model_that_can_be(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    assert Mixture.load(tmp_path / "model.json").n_features == 2


@pytest.mark.parametrize(
    ("call", "error", "why"),
    [
        (lambda T: MomentTensors(10**6, 10**7), MemoryError, "number over 1,000,000"),
        (lambda T: MomentTensors(1, 10**7), ValueError, "kept up to order 170"),
        (lambda T: MomentMixture(10**20).fit_moments(T), ValueError, "more than any number of mom"),
        (lambda T: MomentMixture(10**15).fit_moments(T), ValueError, "fit fewer components"),
        (lambda T: GaussianMixture(10**20).fit(ROWS), ValueError, "n_samples >= n_components"),
        (lambda T: MomentMixture(2, order=10**9).fit_moments(T), ValueError, "too high"),
        (lambda T: MomentMixture(2, order=10**9).fit(ROWS), ValueError, "too high"),
        (lambda T: KnownCovarianceMixture(10**20, 1.0).fit_moments(T), ValueError, "tell apart"),
        (lambda T: symmetric_cp(T, 10**20, 3), ValueError, "tell apart"),
    ],
)
def test_numbers_beyond_all_bounds(call, error, why):
    """That they are refused at all shows that nothing was tried: it would take centuries."""
    with pytest.raises(error, match=why):
        call(MomentTensors.from_samples(ROWS, 4))
