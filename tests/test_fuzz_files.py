"""Damaged and invented files of every format: they are read, or refused in words."""

import io
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import strategies as st

from fuzzing import CSV, MIXTURE, NAMES, ROWS, TENSORS, damaged, fuzz, saved
from momentmix import Mixture, MomentTensors
from momentmix.distributions.accumulate import CheckpointError, Pass
from momentmix.files.arrays import checksum
from momentmix.files.tables import TableError, open_table, open_tables

FOLDER = tempfile.TemporaryDirectory(prefix="momentmix-fuzz-")
HERE = Path(FOLDER.name)


def refusal(path, data, use, kind=ValueError):
    """Nothing, or the error of one kind that names the file."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            use(path)
        except kind as error:
            assert path.name in str(error)  # noqa: PT017


# Model files.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
MODEL = saved(MIXTURE.save, "m.json")
KEYS = sorted(json.loads(MODEL))


def changed_model(changes):
    return json.dumps({**json.loads(MODEL), **changes}).encode()


def deep(draw):
    """One number somewhere within a model exchanged for something else."""
    key, place, value = draw
    document = json.loads(MODEL)
    inner = document[key]
    if not isinstance(inner, list):
        return changed_model({key: value})
    while isinstance(inner[place % len(inner)], list):
        inner = inner[place % len(inner)]
    inner[place % len(inner)] = value
    return json.dumps(document).encode()


odd_numbers = st.floats() | st.integers() | st.sampled_from([1e308, -1e308, 1e-320, 10**400, True])
models = st.one_of(
    damaged(MODEL),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2).map(changed_model),
    st.tuples(st.sampled_from(KEYS), st.integers(0, 5), odd_numbers | JSON).map(deep),
)


@fuzz(models, 150)
def test_models(data):
    def use(path):
        mixture = Mixture.load(path)
        assert np.all(np.isfinite(mixture.means))
        assert np.all(np.isfinite(mixture.covariances))
        assert abs(mixture.weights.sum() - 1) < 1e-3
        mixture.save(HERE / "again.json")
        assert np.array_equal(Mixture.load(HERE / "again.json").means, mixture.means)

    refusal(HERE / "model.json", data, use)


# Moments and checkpoints.

MOMENTS = saved(TENSORS.save, "m.npz")

shapes = st.lists(st.integers(0, 12), max_size=2).map(tuple)
kinds = st.sampled_from(["f8", "f4", "i8", "u1", "?", "U1", "U7", ">f8", "c16", "M8[s]"])


def _array(draw):
    shape, kind, numbers = draw
    source = np.resize(np.array(numbers or [0]), shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return source.astype("i8").astype(kind) if kind.startswith("M") else source.astype(kind)


numbers = st.lists(st.integers(-2, 10**7) | st.sampled_from([2**62, -(2**62)]), max_size=4)
odd_arrays = st.tuples(shapes, kinds, numbers).map(_array) | st.sampled_from(
    [np.array(text) for text in ("", "pairwise", "momentmix-moments", "\ud800", "\x1b[2J")]
    + [np.array(number) for number in (10**7, -1, 2**62, True, 3.0, np.nan)]
    + [np.zeros(10**5), np.full(10, 1e308), np.array(NAMES * 2)]
)


def changed_arrays(changes):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(file, **{**TENSORS.state(), **changes})
    return file.getvalue()


moments = damaged(MOMENTS) | st.dictionaries(
    st.sampled_from(sorted(TENSORS.state())), odd_arrays, max_size=3
).map(changed_arrays)


@fuzz(moments, 150)
def test_moments(data):
    def use(path):
        T = MomentTensors.load(path)
        assert T.count >= 0
        assert T.order >= 1
        assert len(repr(T)) < 200
        T.save(HERE / "again.npz")
        again = MomentTensors.load(HERE / "again.npz")
        assert again.feature_names == T.feature_names
        assert again.weight == T.weight

    refusal(HERE / "moments.npz", data, use)


def _stopped(path):
    """A run that was interrupted in the second of two files."""
    tables = [path.parent / "a.npy", path.parent / "b.npy"]
    for table in tables:
        np.save(table, ROWS)

    def stop(rows, share):
        if rows > len(ROWS):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Pass(open_tables(tables), 2, path.with_suffix("")).run(stop)


_stopped(HERE / "m.npz.checkpoint")
CHECKPOINT = (HERE / "m.npz.checkpoint").read_bytes()
with np.load(io.BytesIO(CHECKPOINT)) as _file:
    CHECKED = {name: x for name, x in _file.items() if name != "checksum"}


def forged(draw):
    """Another note or other arrays, under a checksum that is right."""
    arrays, note = draw
    note = json.loads(str(CHECKED["note"])) | note
    state = {**CHECKED, "note": np.array(json.dumps(note)), **arrays}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(file, **state, checksum=np.array(checksum(state)))
    return file.getvalue()


checkpoints = damaged(CHECKPOINT) | st.tuples(
    st.dictionaries(st.sampled_from(sorted(CHECKED)), odd_arrays, max_size=1),
    st.dictionaries(st.sampled_from(["file", "place", "states", "order"]), JSON, max_size=2),
).map(forged)


@fuzz(checkpoints, 100)
def test_checkpoints(data):
    def use(path):
        tables = open_tables([HERE / "a.npy", HERE / "b.npy"])
        assert Pass(tables, 2, path.with_suffix("")).moments.count >= 0

    refusal(HERE / "m.npz.checkpoint", data, use, CheckpointError)


# Tables.


def read_table(path):
    table = open_table(path)
    for i, piece in enumerate(table.pieces()):
        assert piece.rows.dtype == np.float64
        assert piece.rows.shape[1] == table.width
        assert len(piece.rows) == piece.next.rows - piece.first.rows
        if i == 20:
            break


WORDS = [
    *("1", "-2.5", "1e3", "", "NaN", "inf", "x", '"', '"1"', '"a,b"', "\ufeff", " ", "\r", "\n"),
    *("\t", ";", "1_0", "0x1", "\x00", "\x1b[2J", "\u202e", "1" * 400, "a", "b"),
]
cells = st.sampled_from(WORDS) | st.text(max_size=3)
lines = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=6)
texts = lines.flatmap(
    lambda rows: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(rows))
)
csvs = damaged(CSV.encode()) | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


@fuzz(csvs, 200)
def test_csv(data):
    refusal(HERE / "table.csv", data, read_table, TableError)


def _npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _header(draw):
    """An array whose header says something else than what follows."""
    text, version, tail = draw
    text = text.encode("latin1", "replace")
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + tail


descriptions = st.sampled_from(["'<f8'", "'>f4'", "'|O'", "'<U3'", "'<i99'", "[('x', '<f8')]", "8"])
sizes = st.sampled_from(["2", "-1", "0", "10000000000", "1" * 30, "2L", "True", "2.5", "'a'"])
headers = st.tuples(descriptions, sizes, sizes, st.booleans()).map(
    lambda d: f"{{'descr': {d[0]}, 'fortran_order': {d[3]}, 'shape': ({d[1]}, {d[2]}), }}\n"
) | st.sampled_from(["(" * 9000, "{}\n", "[" * 2000 + "]" * 2000, "\x00" * 50, "{'shape': 1}", "'"])
npys = st.one_of(
    damaged(_npy(ROWS)),
    damaged(_npy(np.asfortranarray(ROWS.astype("f4")))),
    st.tuples(headers, st.sampled_from([1, 2, 3, 9]), st.binary(max_size=64)).map(_header),
)


@fuzz(npys, 200)
def test_npy(data):
    refusal(HERE / "table.npy", data, read_table, TableError)


TABLE = pa.table(
    {
        "a": ROWS[:, 0],
        "b": np.arange(40),
        "c": ROWS[:, 0] > 0,
        "d": [None, 1.5] * 20,
        "e": ["x"] * 40,
    }
)


def _parquet(**options):
    return saved(lambda path: pa.parquet.write_table(TABLE, path, **options), "t.parquet")


def _arrow(new, columns):
    table, sink = TABLE.select(columns), io.BytesIO()
    with new(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=15)
    return sink.getvalue()


parquets = damaged(_parquet(row_group_size=15)) | damaged(_parquet(compression="zstd"))


@fuzz(parquets, 150)
def test_parquet(data):
    refusal(HERE / "table.parquet", data, read_table, TableError)


arrows = st.sampled_from(["abcd", "abcde"]).flatmap(
    lambda columns: (
        damaged(_arrow(pa.ipc.new_file, list(columns)))
        | damaged(_arrow(pa.ipc.new_stream, list(columns)))
    )
)


@fuzz(arrows, 150)
def test_arrow(data):
    refusal(HERE / "table.arrow", data, read_table, TableError)
