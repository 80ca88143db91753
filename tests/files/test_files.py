"""Moments of files: every format, damage of every kind, and runs that are killed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

from commands import open_tables
from momentmix import Mixture, MomentTensors
from momentmix.distributions.moment_tensors import CheckpointError, Pass
from momentmix.files import table as table_module
from momentmix.files import text_table
from momentmix.files.opening import Place, TableError, open_table

NAMES = ["a", "b", "c"]
ENDINGS = ["npy", "csv", "parquet", "arrow", "arrows"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Many pieces even of small files."""
    monkeypatch.setattr(table_module, "PIECE_BYTES", 8 * 3 * 70)
    monkeypatch.setattr(text_table, "_BLOCK", 3000)


def write(path, X, group=150):
    table = pa.table({name: X[:, i] for i, name in enumerate(NAMES[: X.shape[1]])})
    kind = path.suffix
    if kind == ".npy":
        np.save(path, X)
    elif kind == ".csv":
        pa.csv.write_csv(table, path)
    elif kind == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=group)
    else:
        new = pa.ipc.new_file if kind == ".arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=110 if len(table) < 10**5 else 10**5)
    return path


def rows_of(path, start=Place(), columns=None):  # noqa: B008
    return np.concatenate([piece.rows for piece in open_table(path, columns).pieces(start)])


@pytest.mark.parametrize("ending", ENDINGS)
def test_pieces_are_the_table_from_any_place_on(ending, tmp_path, rng):
    X = rng.normal(size=(1000, 3))
    path = write(tmp_path / f"x.{ending}", X)
    table = open_table(path)
    pieces = list(table.pieces())
    assert len(pieces) > 5
    assert pieces[-1].next.rows == 1000
    np.testing.assert_array_equal(np.concatenate([piece.rows for piece in pieces]), X)
    for piece in pieces[::3]:
        np.testing.assert_array_equal(rows_of(path, piece.next) if piece.next.rows < 1000 else
                                      np.empty((0, 3)), X[piece.next.rows :])  # fmt: skip
    if ending != "npy":
        assert table.names == NAMES
        np.testing.assert_array_equal(rows_of(path, columns=["c", "a"]), X[:, [2, 0]])
        with pytest.raises(TableError, match=r"no column z; it has a, b, c"):
            open_table(path, ["a", "z"])


def test_csv_without_names_and_with_odd_ends(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3,4")  # no line end at the end
    np.testing.assert_array_equal(rows_of(path), [[1, 2], [3, 4]])
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4\r\n")  # byte order mark, Windows line ends
    assert open_table(path).names == ["a", "b"]
    np.testing.assert_array_equal(rows_of(path), [[1, 2], [3, 4]])
    path.write_text("a,b\n1,\n,4\n")
    np.testing.assert_array_equal(rows_of(path), [[1, np.nan], [np.nan, 4]])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "int16", ">f8"])
def test_arrays_of_other_kinds(order, dtype, tmp_path, rng):
    X = np.asarray(rng.integers(-9, 9, size=(300, 3)), dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(rows_of(tmp_path / "x.npy"), X.astype(float))


@pytest.mark.parametrize("ending", ENDINGS)
def test_moments_of_files(ending, tmp_path, rng):
    X = rng.normal(size=(1000, 3)) + 5
    paths = [write(tmp_path / f"{i}.{ending}", part) for i, part in enumerate(np.split(X, [300]))]
    heard = []
    found = Pass(open_tables(paths), 4, tmp_path / "m.npz").run(
        lambda rows, share: heard.append((rows, share))
    )
    assert heard[-1] == (1000, pytest.approx(1.0, abs=1.0 if ending == "arrows" else 1e-9))
    assert [rows for rows, _ in heard] == sorted(rows for rows, _ in heard)
    saved = MomentTensors.load(tmp_path / "m.npz")
    want = MomentTensors.from_samples(X, 4)
    for T in (found, saved):
        assert T.count == 1000
        np.testing.assert_allclose(T.tensor(4), want.tensor(4), rtol=1e-11)
    assert saved.feature_names == (None if ending == "npy" else tuple(NAMES))
    assert not (tmp_path / "m.npz.checkpoint").exists()


# What can be wrong with a file.


def error_of(path, **options):
    with pytest.raises(TableError) as caught:
        Pass(open_tables([path]), 2, path.parent / "m.npz", **options).run()
    message = str(caught.value)
    assert str(path) in message
    return message


def test_bad_csv_rows_are_named(tmp_path, rng):
    path = tmp_path / "x.csv"
    lines = [",".join(f"{x:.6f}" for x in row) for row in rng.normal(size=(500, 3))]
    lines.insert(0, "a,b,c")
    for bad, what in (
        ("1,2", r"row 399 (line 401): 2 cells where 3 belong"),
        ("1,2,3,4", r"row 399 (line 401): 4 cells where 3 belong"),
    ):
        path.write_text("\n".join([*lines[:400], bad, *lines[401:]]) + "\n")
        assert what in error_of(path)
    path.write_text("\n".join([*lines[:400], "1,,3", *lines[401:]]) + "\n")
    assert "row 399 (about line 401), column b: no value (use --missing" in error_of(path)
    found = Pass(open_tables([path]), 2, tmp_path / "m.npz", missing="pairwise").run()
    assert found.count == 500


def test_files_before_a_bad_one_are_kept(tmp_path, rng):
    """With the bad file mended the run goes on, and counts every row once."""
    X = rng.normal(size=(800, 3))
    good, bad = write(tmp_path / "a.npy", X[:400]), X[400:].copy()
    bad[333, 1] = np.nan
    paths = [good, write(tmp_path / "b.npy", bad)]
    with pytest.raises(TableError, match=r"b.npy, row 333, column 1: no value"):
        Pass(open_tables(paths), 2, tmp_path / "m.npz").run()
    assert not (tmp_path / "m.npz").exists()
    write(paths[1], X[400:])
    run = Pass(open_tables(paths), 2, tmp_path / "m.npz")
    assert run.moments.count == 400
    found = run.run()
    assert found.count == 800
    np.testing.assert_allclose(
        found.tensor(2), MomentTensors.from_samples(X, 2).tensor(2), rtol=1e-11
    )


def test_a_file_found_bad_after_a_resume_can_be_mended_too(tmp_path, rng):
    X = rng.normal(size=(800, 3))
    bad = X[400:].copy()
    bad[333, 1] = np.nan
    paths = [write(tmp_path / "a.npy", X[:400]), write(tmp_path / "b.npy", bad)]
    assert 400 < stopped(paths, tmp_path / "m.npz", 8) < 733  # in the middle of the second file
    with pytest.raises(TableError, match=r"b.npy, row 333"):
        Pass(open_tables(paths), 3, tmp_path / "m.npz").run()
    write(paths[1], X[400:])
    run = Pass(open_tables(paths), 3, tmp_path / "m.npz")
    assert run.moments.count == 400
    np.testing.assert_allclose(
        run.run().tensor(3), MomentTensors.from_samples(X, 3).tensor(3), rtol=1e-10
    )


def test_powers_that_overflow_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,1e200\n")
    with pytest.raises(TableError, match=r"x.csv, rows 0 to 1: the powers of order 2 overflow"):
        Pass(open_tables([tmp_path / "x.csv"]), 2, tmp_path / "m.npz").run()


@pytest.mark.parametrize("block", [8, 16, 64, 4000])
def test_line_ends_inside_quotes(block, tmp_path, monkeypatch):
    monkeypatch.setattr(text_table, "_BLOCK", block)
    (tmp_path / "x.csv").write_text('a,b\n1,"x\n7,y"\n3,z\n')
    np.testing.assert_array_equal(rows_of(tmp_path / "x.csv", columns=["a"]), [[1], [3]])


def test_a_first_line_with_gaps_is_data(tmp_path):
    path = tmp_path / "x.csv"
    for gap in ("", "NA", "NaN", "null", "None"):
        path.write_text(f"1,{gap}\n3,4\n")
        np.testing.assert_array_equal(rows_of(path), [[1, np.nan], [3, 4]])
    path.write_text("1,2x\n3,4\n")
    with pytest.raises(TableError, match=r"row 0 \(line 1\): '2x' stands among numbers"):
        open_table(path)


@pytest.mark.parametrize("ending", ["npy", "parquet", "arrow", "arrows"])
def test_damaged_files(ending, tmp_path, rng):
    path = write(tmp_path / f"x.{ending}", rng.normal(size=(2000, 3)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match=r"x\."):
        Pass(open_tables([path]), 2, tmp_path / "m.npz").run()
    path.write_bytes(b"nonsense" * 50)
    with pytest.raises(TableError, match=r"x\."):
        Pass(open_tables([path]), 2, tmp_path / "m.npz").run()


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(range(256)))
    with pytest.raises(TableError, match=r"neither text nor a table of a known kind"):
        open_table(tmp_path / "x.bin")
    with pytest.raises(TableError, match=r"is a folder; name the tables in it"):
        open_table(tmp_path)
    header = {"descr": "<f8", "fortran_order": False, "shape": (0, 10**12)}
    with open(tmp_path / "wide.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(TableError, match="columns are more than can be read"):
        open_table(tmp_path / "wide.npy")
    with pytest.raises(TableError, match="there is no such file"):
        open_table(tmp_path / "nothing.csv")
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(TableError, match="the file is empty"):
        open_table(tmp_path / "e.csv")
    (tmp_path / "d.csv").write_text("a,a,a.1,\n1,2,3,4\n")
    assert open_table(tmp_path / "d.csv").names == ["a", "a.2", "a.1", "unnamed_3"]
    (tmp_path / "h.csv").write_text("a,b\n")
    with pytest.raises(TableError, match="no rows"):
        Pass(open_tables([tmp_path / "h.csv"]), 2, tmp_path / "m.npz").run()
    np.save(tmp_path / "v.npy", np.zeros(3))
    with pytest.raises(TableError, match=r"shape \(3,\), not a table"):
        open_table(tmp_path / "v.npy")
    np.save(tmp_path / "o.npy", np.array([["a", {}]], dtype=object), allow_pickle=True)
    with pytest.raises(TableError, match=r"not a \.npy file of numbers"):
        open_table(tmp_path / "o.npy")
    table = pa.table({"a": [1.0, 2.0], "city": ["x", "y"]})
    pa.parquet.write_table(table, tmp_path / "w.parquet")
    with pytest.raises(TableError, match="column city: it holds string, not numbers"):
        rows_of(tmp_path / "w.parquet")
    assert open_tables([tmp_path / "w.parquet"])[0].columns == ["a"]
    np.testing.assert_array_equal(rows_of(tmp_path / "w.parquet", columns=["a"]), [[1], [2]])
    write(tmp_path / "x.csv", np.zeros((3, 3)))
    write(tmp_path / "y.csv", np.zeros((3, 2)))
    with pa.ipc.new_file(tmp_path / "z.arrow", pa.schema([("a", pa.float64())])):
        pass
    assert list(open_table(tmp_path / "z.arrow").pieces()) == []
    with pytest.raises(TableError, match=r"has the columns a, b, but .* has the columns a, b, c"):
        Pass(open_tables([tmp_path / "x.csv", tmp_path / "y.csv"]), 2, tmp_path / "m.npz")


# Files that change while they are read.

CHANGED = """
import os, sys
from momentmix.files import text_table
from momentmix.files import table
from momentmix.files.opening import TableError, open_table
table.PIECE_BYTES, text_table._BLOCK = 24 * 500, 30_000
path, act = sys.argv[1:]
table, rows = open_table(path), 0
try:
    for piece in table.pieces():
        rows += len(piece.rows)
        if rows == len(piece.rows):  # the first
            if act == "cut":
                os.truncate(path, 50_000)
            else:
                with open(path, "ab") as file:
                    file.write(b"1.0,2.0,3.0\\n" * 1000)
    print(rows)
except TableError as error:
    print(error)
"""


def changed_while_read(path, act):
    done = subprocess.run([sys.executable, "-c", CHANGED, str(path), act],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_cut_off_while_it_is_read(ending, tmp_path, rng):
    """An error, and not the signal that ends a process when what it has mapped is no more."""
    path = write(tmp_path / f"x.{ending}", rng.normal(size=(20_000, 3)), group=2000)
    assert str(path) in changed_while_read(path, "cut")


@pytest.mark.parametrize("ending", ["npy", "csv", "arrows"])
def test_rows_that_are_added_while_a_file_is_read_do_not_count(ending, tmp_path, rng):
    path = write(tmp_path / f"x.{ending}", rng.normal(size=(20_000, 3)))
    assert changed_while_read(path, "append") == "20000"


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r\n"])
def test_a_byte_order_mark_alone_is_an_empty_file(text, tmp_path):
    (tmp_path / "x.csv").write_bytes(text)
    with pytest.raises(TableError, match=r"x\.csv: the file is empty"):
        open_table(tmp_path / "x.csv")


def test_lines_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_table, "_LONGEST_LINE", 1000)
    (tmp_path / "x.csv").write_bytes(b"1" * 2000)
    with pytest.raises(TableError, match=r"x\.csv, line 1: longer than"):
        open_table(tmp_path / "x.csv")


# Checkpoints.


def stopped(paths, output, after):
    """A run that is interrupted after some pieces."""
    run, pieces = Pass(open_tables(paths), 3, output), 0

    def stop(rows, share):
        nonlocal pieces
        pieces += 1
        if pieces == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.run(stop)
    return run.moments.count


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_goes_on_where_it_was(ending, tmp_path, rng):
    X = rng.normal(size=(1000, 3))
    paths = [write(tmp_path / f"{i}.{ending}", part) for i, part in enumerate(np.split(X, [400]))]
    output = tmp_path / "m.npz"
    counts = [stopped(paths, output, after) for after in (2, 1, 5)]
    assert 0 < counts[0] < counts[1] < counts[2] < 1000
    run = Pass(open_tables(paths), 3, output)
    assert run.resumed
    assert run.run().count == 1000
    want = MomentTensors.from_samples(X, 3).tensor(3)
    np.testing.assert_allclose(MomentTensors.load(output).tensor(3), want, rtol=1e-11)


def test_checkpoints_of_other_runs_and_damaged_ones(tmp_path, rng):
    path = write(tmp_path / "x.npy", rng.normal(size=(1000, 3)))
    output, checkpoint = tmp_path / "m.npz", tmp_path / "m.npz.checkpoint"
    before = path.stat().st_mtime_ns
    stopped([path], output, 3)
    with pytest.raises(CheckpointError, match=r"its order differ.*delete .*m.npz.checkpoint"):
        Pass(open_tables([path]), 4, output)
    with pytest.raises(CheckpointError, match="its missing differ"):
        Pass(open_tables([path]), 3, output, missing="pairwise")
    os.utime(path, (1, 1))
    with pytest.raises(CheckpointError, match=r"x.npy has changed since its rows were counted"):
        Pass(open_tables([path]), 3, output)
    os.utime(path, ns=(before, before))
    whole = checkpoint.read_bytes()
    counted = Pass(open_tables([path]), 3, output).counted
    for damage in (b"", whole[: len(whole) // 2]):
        checkpoint.write_bytes(damage)
        with pytest.raises(CheckpointError, match=r"m.npz.checkpoint is damaged .* delete"):
            Pass(open_tables([path]), 3, output)
    told = 0
    places = range(0, len(whole), 97)
    for at in places:  # a byte that says nothing about the contents may be another one
        flipped = bytes([whole[at] ^ 0xFF])
        checkpoint.write_bytes(whole[:at] + flipped + whole[at + 1 :])
        try:
            again = Pass(open_tables([path]), 3, output).counted
        except CheckpointError:
            told += 1
        else:
            assert again[1:] == counted[1:]
            assert all(np.array_equal(again[0].tensor(k), counted[0].tensor(k)) for k in range(4))
    assert told > len(places) / 2


RUN = """
import sys
from momentmix.distributions import moment_tensors as accumulate
from momentmix.files import text_table
from momentmix.files import table
accumulate.CHECKPOINT_SECONDS, table.PIECE_BYTES, text_table._BLOCK = 0.0, 24 * 500, 30_000
from momentmix.cli import main
sys.argv = ["momentmix", *sys.argv[1:]]
main()
"""


def test_killed_at_any_moment(tmp_path, rng):
    """kill -9 again and again, at moments that nobody chose; every row counts once."""
    X = rng.normal(size=(60_000, 3)) + 2
    parts = np.split(X, [20_000, 40_000])
    paths = [write(tmp_path / f"x.{e}", part)
             for e, part in zip(["arrow", "csv", "parquet"], parts, strict=True)]  # fmt: skip
    output, checkpoint = tmp_path / "m.npz", tmp_path / "m.npz.checkpoint"
    command = [sys.executable, "-c", RUN, "moments", *map(str, paths), "--order", "3",
               "--columns", "a,b,c", "-o", str(output)]  # fmt: skip
    kills = 0
    while kills < 6:
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while process.poll() is None and (
            not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before
        ):
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0, 0.1)))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    assert kills >= 2
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "60,000 rows" in done.stdout
    found = MomentTensors.load(output)
    assert found.count == 60_000
    np.testing.assert_allclose(
        found.tensor(3), MomentTensors.from_samples(X, 3).tensor(3), rtol=1e-10
    )
    assert not checkpoint.exists()


PEAK = """
import sys
from momentmix.cli import app
sys.argv = ["momentmix", *sys.argv[1:]]
app(standalone_mode=False)
status = open("/proc/self/status").read()
print(status[status.index("VmHWM:"):].split()[1], file=sys.stderr)
"""


def peak_memory(*arguments):
    """Largest resident memory of the command in a process of its own, in MiB."""
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024


@pytest.mark.parametrize("ending", ["npy", "csv", "parquet", "arrow"])
def test_memory_does_not_grow_with_the_file(ending, tmp_path, rng):
    """Ten or twenty times the rows, and no more memory than some pieces take."""
    peaks = []
    for p in (300_000, 6_000_000 if ending == "npy" else 3_000_000):
        path = tmp_path / f"x{p}.{ending}"
        X = rng.normal(size=(p, 3)).astype("float32").astype("float64")
        write(path, X if ending != "csv" else np.round(X, 1), group=200_000)
        peaks.append(peak_memory("moments", path, "-o", tmp_path / "m.npz"))
    assert peaks[1] < peaks[0] + 100


# The command.


def momentmix(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "momentmix", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def test_from_a_file_to_a_model(tmp_path):
    truth = Mixture([0.6, 0.4], [[0.0, 0.0, 0.0], [5.0, 5.0, 0.0]], np.ones((2, 3)), "diag")
    X, _ = truth.sample(4000, 0)
    path = write(tmp_path / "x.csv", X)
    done = momentmix("moments", path, "--order", "4", "-o", tmp_path / "m.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4,000 rows, 3 columns, orders up to 4" in " ".join(done.stdout.split())
    for source in ("m.npz", "x.csv"):
        done = momentmix("fit", tmp_path / source, "-k", "2", "--covariance", "diag",
                         "-o", tmp_path / "model.json")  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        model = Mixture.load(tmp_path / "model.json")
        order = np.argsort(model.means[:, 0])
        np.testing.assert_allclose(model.means[order], truth.means, atol=0.15)
        assert "weight" in done.stdout
        assert json.loads((tmp_path / "model.json").read_text())["covariance_type"] == "diag"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["moments", "nothing.csv", "-o", "m.npz"], "nothing.csv: there is no such file"),
        (
            ["moments", "bad.csv", "--columns", "a,b", "-o", "m.npz"],
            "bad.csv, row 1 (line 3), column b: 'x' is not",
        ),
        (["fit", "nothing.npz", "-k", "2"], "nothing.npz"),
        (["fit", "bad.npz", "-k", "2"], "bad.npz does not hold moments"),
        (["fit", "good.csv", "-k", "0"], "-k must be an int in the range [1, inf)"),
        (
            ["fit", "good.csv", "-k", "1", "--columns", "z"],
            "no column z for --columns; it has a, b",
        ),
        (
            ["fit", "good.csv", "-k", "1", "--covariance", "round"],
            "--covariance is auto or one of full, tied, diag, spherical",
        ),
    ],
)
def test_one_line_for_every_error(arguments, message, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,x\n")
    (tmp_path / "good.csv").write_text("a,b\n1,2\n3,5\n2,2\n")
    (tmp_path / "bad.npz").write_bytes(b"PK")
    done = momentmix(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    debugged = momentmix(*arguments, "--debug", cwd=tmp_path)
    assert "Traceback" in debugged.stderr


def test_lines_longer_than_csv_takes(tmp_path):
    """Of 20,000 names: Python's csv takes 131,072 characters as one cell at most."""
    names = [f"feature_{i}" for i in range(20_000)]
    X = np.arange(60_000.0).reshape(3, -1) / 8
    path = tmp_path / "wide.csv"
    lines = [",".join(names), *(",".join(map(str, row)) for row in X)]
    path.write_text("\n".join(lines))
    table = open_table(path)
    assert table.names == names
    assert np.array_equal(np.concatenate([piece.rows for piece in table.pieces()]), X)


def test_a_cell_far_away(tmp_path):
    """In the last column and row of a sheet: nothing is made of the cells between."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for place, value in {"A1": "a", "B1": "b", "A2": 1, "B2": 2, "A3": 3, "XFD1048576": 5}.items():
        book.active[place] = value
    book.save(tmp_path / "far.xlsx")
    table = open_table(tmp_path / "far.xlsx")
    rows = np.concatenate([piece.rows for piece in table.pieces()])
    assert rows.shape == (3, 16384)
    assert table.names[:2] == ["a", "b"]
    assert np.array_equal(rows[:2, :2], [[1, 2], [3, np.nan]], equal_nan=True)
    assert rows[2, -1] == 5
    assert np.isnan(rows).sum() == rows.size - 4


@pytest.mark.parametrize("header", [b"", b"a,b\n"])
def test_a_line_without_end_in_a_small_file(header, tmp_path):
    """Of which 64 MiB are unpacked, whatever would follow."""
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(80):
            file.write(b"1" * (1 << 20))
    with pytest.raises(TableError, match=f"line {1 + len(header) // 4}: longer than 64 MiB"):
        open_table(tmp_path / "bomb.csv.gz")
