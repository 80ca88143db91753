"""Damaged and invented files of every format: they are read, or refused in words."""

import io
import json
import random
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import strategies as st

from commands import open_tables
from dialects import draw_file
from fuzzing import CSV, MIXTURE, NAMES, ROWS, SECONDS, TENSORS, damaged, fuzz, saved
from momentmix import Mixture, MomentTensors
from momentmix.distributions.moment_tensors import CheckpointError, Pass
from momentmix.files.arrays import checksum
from momentmix.files.columns import Wanted
from momentmix.files.opening import TableError, choose_from, open_table

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


# Text whose values are known.


def verdict(written, path):
    """What became of a file: right, refused, told (read otherwise, with a note) or wrong."""
    path.write_bytes(written.data)
    try:
        table = open_table(path)
        choose_from([table], Wanted(keep_all=True))
        pieces = [piece.rows for piece in table.pieces()]
    except TableError as error:
        return "refused" if path.name in str(error) else "wrong"
    if not pieces:  # which every command refuses
        return "refused"
    X = np.concatenate(pieces)
    same = X.shape == written.values.shape and np.allclose(
        X, written.values, rtol=1e-12, atol=0, equal_nan=True
    )
    if same and (written.names is None or table.names is not None):
        return "right"
    return "told" if table.said else "wrong"


def test_known_values():
    """How often files of all dialects are read right, refused in words, or wrong without a word."""
    seed = random.getrandbits(32) if SECONDS else 0
    print(f"seed {seed}")
    rng, found, end = np.random.default_rng(seed), Counter(), time.monotonic() + SECONDS
    while found.total() < 1500 or time.monotonic() < end:
        written = draw_file(rng)
        kind = verdict(written, HERE / "known.csv")
        found[kind] += 1
        if kind == "wrong":
            print(written.how, written.data[:300])
    shares = {kind: count / found.total() for kind, count in found.items()}
    print(", ".join(f"{100 * share:.2f} % {kind}" for kind, share in shares.items()))
    assert shares["right"] >= 0.96
    assert shares.get("wrong", 0) <= 0.002


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('price\n"1,200.50"\n"3,400.00"\n"900.25"\n"2,100.75"\n', [1200.5, 3400, 900.25, 2100.75]),
        ('"1,200.50"\n"3,400.00"\n"900.25"\n"2,100.75"\n', [1200.5, 3400, 900.25, 2100.75]),
        ('"$1,200.50"\n"$3,400.00"\n', [1200.5, 3400]),
        ("x\n1\u2009200,5\n3\u2009400,25\n", [1200.5, 3400.25]),
        ("x\n1\u2019200.5\n3\u2019400.25\n", [1200.5, 3400.25]),
        ('x\n"0,317"\n"1,149"\n"-45,209"\n', [0.317, 1.149, -45.209]),
        ('"$2,7572"\n"$1,3399"\n"-$1,6466"\n', [2.7572, 1.3399, -1.6466]),
        ('"x1" "b"\n"0,00" "6 162 665,9"\n"3,35" "9 952 306,7"\n', [0, 6162665.9, 3.35, 9952306.7]),
        ("151 804\t44\n28 525\t79\n", [151804, 44, 28525, 79]),
        (",25%,50%,75%\na,1,2,3\nb,4,5,7\n", [1, 2, 3, 4, 5, 7]),
        (
            '"4,94,731.4";"7,72,297.7"\n"35,318.6";"-20,62,305.8"\n',
            [494731.4, 772297.7, 35318.6, -2062305.8],
        ),
        ("a|4,10,733%\nb|7,83,705%\n", [410733, 783705]),
        ("Total amount\n-€ 96.68\n€ 169.73\n€ 100.48\n", [-96.68, 169.73, 100.48]),
        ("x\n\u22121.5\n2.5\n\u22123.5\n", [-1.5, 2.5, -3.5]),
        ('day,"Price (€)"\n2023-01-01,-29 031.5\n2023-02-02,-9 446.2\n', [-29031.5, -9446.2]),
    ],
)
def test_marks_between_thousands(text, values):
    path = HERE / "thousands.csv"
    path.write_text(text, encoding="utf-8")
    table = open_table(path)
    choose_from([table], Wanted(keep_all=True))
    assert np.array_equal(np.concatenate([p.rows for p in table.pieces()]).ravel(), values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,25\n3,50\n0,75\n", "--sep ';' --decimal ',' takes each for one number"),
        ("x\n46 868\n102 056\n9 145\n", "takes each for one number"),
        ("Price (€)\n10 899\n14 372\n9 920\n", "takes each for one number"),
        ("a;6,206\nb;7,685\nc;3,729\n", "--decimal . reads them as thousands"),
        ("a;346\nb;1.110\nc;950\nd;0\n", "--decimal , reads them as thousands"),
        ("A,NA\nB,2\nC,3\n", "was taken for the names of the columns"),
        ("green 275,7162\nred 37,4244\nok 8,7313\n", "' ' is as likely"),
    ],
)
def test_what_can_be_read_otherwise_is_said(text, said):
    path = HERE / "doubtful.csv"
    path.write_text(text, encoding="utf-8")
    table = open_table(path)
    assert any(said in line for line in table.said), table.said


@pytest.mark.parametrize("text", ["a;346\nb;1.11\n", "a;0.346\nb;12\n", "a;1.125\nb;2.250\n"])
def test_decimal_points_are_not_doubted(text):
    path = HERE / "plain.csv"
    path.write_text(text)
    assert not any("thousands" in line for line in open_table(path).said)


def test_a_first_line_longer_than_the_others_is_refused():
    path = HERE / "longer.csv"
    path.write_text("1990\n-USD 1 986 425,855\n" + "USD 181 923,273\n" * 5)
    with pytest.raises(TableError, match="4 names in the first line, but 3 cells"):
        open_table(path)
