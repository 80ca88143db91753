"""The command on tables in many files, and on more rows than memory holds."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from commands import run
from momentmix import Mixture, MomentTensors
from momentmix.cli.fit import RowSample
from momentmix.files import table as tables

TRUTH = Mixture(
    [0.6, 0.4],
    [[0.0, 10.0], [5.0, 30.0]],
    [[1.0, 4.0], [1.0, 9.0]],
    "diag",
    feature_names=["width", "height"],
)


def write_parquet(path, X, **more):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table({"width": X[:, 0], "height": X[:, 1], **more}), path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model, and a table in one file, in parts, and in parts by year and month."""
    monkeypatch.chdir(tmp_path)
    TRUTH.save("model.json")
    X, _ = TRUTH.sample(1200, 0)
    np.save("all.npy", X)
    write_parquet("all.parquet", X)
    for i, part in enumerate(np.split(X, 6)):
        write_parquet(f"parts/part-{i}.parquet", part)
        write_parquet(f"hive/year={2023 + i // 3}/month={i % 3 + 9}/part-0.parquet", part)
    Path("hive/_SUCCESS").touch()
    Path("parts/.part-0.parquet.crc").write_bytes(b"no table")
    return X


def moments_of(*arguments, **options):
    run("moments", *arguments, "-o", "m.npz", "--order", 2, **options)
    return MomentTensors.load("m.npz")


@pytest.mark.parametrize(
    "name", ["parts/part-*.parquet", "parts", "parts/", "p*", "**/part-?.parquet"]
)
def test_patterns_and_folders_are_all_their_tables(name, folder):
    if name.startswith("**"):  # which finds those by year too
        name = "parts/**/*.parquet"
    found = moments_of(name)
    assert found.count == 1200
    np.testing.assert_allclose(found.mean, folder.mean(axis=0))


def test_names_that_no_table_has(folder):
    _, err = run("moments", "nothing-*.csv", "-o", "m.npz", code=1)
    assert err.startswith("momentmix: nothing-*.csv: no file matches; * stands for any letters")
    Path("empty").mkdir()
    _, err = run("score", "model.json", "empty", code=1)
    assert "empty is a folder without tables; those end with .parquet" in err
    Path("parts/same.csv").write_text("width,height\n1,2\n")
    _, err = run("score", "model.json", "parts", code=1)
    assert "several kinds (Parquet, text), which may be the same rows twice" in err


def test_very_many_files(folder):
    Path("many").mkdir()
    for i, row in enumerate(folder[:200]):
        Path(f"many/{i:03}.csv").write_text(f"width,height\n{float(row[0])},{float(row[1])}\n")
    found = moments_of("many")
    assert found.count == 200
    np.testing.assert_allclose(found.mean, folder[:200].mean(axis=0))


def test_a_file_whose_name_is_a_pattern_is_itself(folder):
    write_parquet("data[1].parquet", folder)
    assert moments_of("data[1].parquet").count == 1200


def test_partitions_are_left_out_unless_they_are_chosen(folder):
    found, err = run("score", "model.json", "hive", "--json")
    assert json.loads(found)["rows"] == 1200
    assert err == ""  # the model says which columns it wants
    _, err = run("moments", "hive", "-o", "m.npz")
    assert err == "Note: left out year, month (partition); --all-columns keeps all numbers.\n"
    chosen = moments_of("hive", "--columns", "month,width")
    np.testing.assert_allclose(chosen.mean, [10, folder[:, 0].mean()])
    assert moments_of("hive", "--all-columns").feature_names == (
        "width", "height", "year", "month",
    )  # fmt: skip
    np.testing.assert_allclose(moments_of("hive", "--columns", "year").mean, [2023.5])
    assert moments_of("hive/year=2023").count == 600
    assert moments_of("hive/*/month=9").count == 400


def test_partitions_of_words_and_without_a_value(folder):
    for place, month in [("north", "1"), ("a b/ö", "__HIVE_DEFAULT_PARTITION__")]:
        where = urllib.parse.quote(place, safe="")
        write_parquet(f"words/place={where}/month={month}/x.parquet", folder[:100])
    _, err = run("moments", "words", "-o", "m.npz")
    assert "left out place (words), month (partition)" in err
    _, err = run("moments", "words", "-o", "m.npz", "--columns", "width,place", code=1)
    assert "column place: 'a b/ö' is not a number" in err
    out, _ = run("impute", "model.json", "words")
    assert out.splitlines()[0] == "width,height,place,month"
    assert {tuple(line.split(",")[2:]) for line in out.splitlines()[1:]} == {
        ("north", "1"),
        ("a b/ö", ""),
    }
    assert moments_of("words", "--columns", "width,month", "--missing", "drop").count == 100


def test_a_partition_that_is_in_the_file_too(folder):
    for year in (2023, 2024):
        column = pa.array(np.full(600, year))
        write_parquet(f"both/year={year}/x.parquet", folder[:600], year=column)
    _, err = run("moments", "both", "-o", "m.npz")
    assert "left out year (partition)" in err


def test_a_stop_in_a_folder_is_gone_on_from(folder):
    bad = folder[1000:].copy()
    bad[7, 0] = np.inf
    write_parquet("parts/part-5.parquet", bad)
    _, err = run("moments", "parts", "-o", "m.npz", code=1)
    assert "part-5.parquet, row 7, column width" in err
    write_parquet("parts/part-5.parquet", folder[1000:])
    _, err = run("moments", "parts", "-o", "m.npz")
    assert "going on from m.npz.checkpoint after 1,000 rows" in err
    np.testing.assert_allclose(MomentTensors.load("m.npz").mean, folder.mean(axis=0))


class TestQueries:
    """Tables that DuckDB makes."""

    @pytest.fixture(autouse=True)
    def duckdb(self):
        return pytest.importorskip("duckdb")

    def test_a_query_is_a_table(self, folder):
        query = "duckdb:SELECT width, height // 1 AS height FROM 'parts/*.parquet' -- of all parts"
        found = moments_of(query)
        np.testing.assert_allclose(found.mean[0], folder[:, 0].mean())
        out, _ = run(
            "score", "model.json", "duckdb:FROM 'parts/*.parquet' WHERE width > 0", "--json"
        )
        kept = folder[folder[:, 0] > 0]
        facts = json.loads(out)
        assert facts["rows"] == len(kept)
        np.testing.assert_allclose(facts["log_likelihood"], TRUTH.log_prob(kept).sum())

    def test_in_a_database_that_is_only_read(self, folder, duckdb):
        with duckdb.connect("a b.duckdb") as connection:
            connection.sql("CREATE TABLE t AS FROM 'all.parquet'")
        os.rename("a b.duckdb", "ab.duckdb")
        assert moments_of("duckdb:ab.duckdb:SELECT * FROM t").count == 1200
        _, err = run("moments", "duckdb:none.db:SELECT 1", "-o", "m.npz", code=1)
        assert "none.db: there is no such database" in err

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("SELCT 1", "Parser Error: syntax error at or near"),
            ("SELECT nothing FROM 'all.parquet'", 'Referenced column "nothing" not found'),
            ("SELECT 1; SELECT 2", "takes one query"),
            ("COPY (SELECT 1) TO 'x.csv'", "takes one query"),
            ("", "takes one query"),
            ("SELECT * FROM settings", "settings does not exist"),  # a variable of Python
            ("SELECT error('no more') AS a FROM range(5)", "no more"),
            ("SELECT 'a' AS word", "no column of numbers"),
        ],
    )
    def test_what_is_wrong_with_it_duckdb_says(self, query, message, folder):
        _, err = run("moments", f"duckdb:{query}", "-o", "m.npz", code=1)
        assert message in err
        assert len(err.splitlines()) == 1
        assert not Path("x.csv").exists()

    def test_without_checkpoints(self, folder):
        failing = "CASE WHEN range > 290 THEN error('no more') ELSE random() END"
        _, err = run("moments", f"duckdb:SELECT {failing} AS a FROM range(3000)", "-o", "m.npz",
                     code=1)  # fmt: skip
        assert "no more" in err
        assert not Path("m.npz.checkpoint").exists()
        _, err = run("impute", "model.json", "duckdb:FROM 'all.parquet'", code=1)
        assert "write what it answers to a file first" in err

    def test_what_is_missing_is_named(self, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "duckdb", None)
        _, err = run("moments", "duckdb:SELECT 1", "-o", "m.npz", code=1)
        assert "queries need DuckDB: pip install 'momentmix[duckdb]'" in err


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of about a hundred rows."""
    monkeypatch.setattr(tables, "PIECE_BYTES", 1600)
    monkeypatch.setattr("momentmix.cli.input.NUMBERS_AT_ONCE", 200)
    monkeypatch.setattr("momentmix.cli.use._NUMBERS_DRAWN", 200)
    monkeypatch.setattr("momentmix.cli.console._ROWS_TOGETHER", 120)


def gappy(X):
    X = X.copy()
    X[::7, 0], X[3::50] = np.nan, np.nan
    return X


def read(path):
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".csv"):
        return np.genfromtxt(path, delimiter=",", skip_header=1)
    table = (
        pa.parquet.read_table(path)
        if path.endswith(".parquet")
        else pa.ipc.open_file(path).read_all()
    )
    return np.column_stack(
        [table[name].to_numpy(zero_copy_only=False) for name in table.schema.names]
    )


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet", "arrow"])
def test_blocks_say_what_all_rows_at_once_say(ending, folder, small_blocks):
    np.save("gaps.npy", gappy(folder))
    run("predict", "model.json", "gaps.npy", "--proba", "-o", f"p.{ending}")
    run("score", "model.json", "gaps.npy", "-o", f"s.{ending}")
    run("sample", "model.json", "-n", 1234, "--labels", "-o", f"n.{ending}", "--seed", 1)
    R, told = read(f"p.{ending}"), ~np.isnan(gappy(folder)).all(axis=1)
    expected = np.exp(TRUTH.log_joint(gappy(folder)[told]))
    expected /= expected.sum(axis=1, keepdims=True)
    assert R.shape == (1200, 4)
    np.testing.assert_allclose(R[told, 2:], expected, atol=1e-12)
    np.testing.assert_array_equal(R[told, 0], expected.argmax(axis=1))
    assert np.isnan(R[~told]).all()
    density = read(f"s.{ending}").reshape(-1)
    np.testing.assert_allclose(density[told], TRUTH.log_prob(gappy(folder)[told]))
    assert read(f"n.{ending}").shape == (1234, 3)


def test_notes_and_sums_of_blocks(folder, monkeypatch):
    np.save("gaps.npy", gappy(folder))
    commands = [
        ("score", "model.json", "gaps.npy", "--json"),
        ("score", "model.json", "gaps.npy", "--json", "--missing", "drop"),
        ("predict", "model.json", "gaps.npy"),
        ("predict", "model.json", "gaps.npy", "--json", "--missing", "drop"),
    ]
    whole = [run(*command) for command in commands]
    monkeypatch.setattr(tables, "PIECE_BYTES", 1600)
    monkeypatch.setattr("momentmix.cli.input.NUMBERS_AT_ONCE", 200)
    for (out, err), command in zip(whole, commands, strict=True):
        again, notes = run(*command)
        assert notes == err
        if command[0] == "predict":
            assert again == out
        else:
            np.testing.assert_allclose(
                [*json.loads(again).values()], [*json.loads(out).values()], rtol=1e-12
            )


def test_samples_below_one_block_are_as_ever(folder):
    run("sample", "model.json", "-n", "1e3", "--seed", 5, "-o", "n.npy")
    np.testing.assert_array_equal(np.load("n.npy"), TRUTH.sample(1000, 5)[0])
    for wrong in ("1.5", "many", "nan", "1e999"):
        run("sample", "model.json", "-n", wrong, code=2)


def test_a_bad_cell_leaves_no_file(folder, small_blocks):
    bad = folder.copy()
    bad[1100, 1] = np.inf
    np.save("bad.npy", bad)
    _, err = run("predict", "model.json", "bad.npy", "-o", "p.csv", code=1)
    assert "row 1100, column 1" in err
    assert not [*Path().glob("p.csv*")]


def test_blocks_fit_what_rows_in_memory_fit(folder, small_blocks):
    common = ("fit", "hive", "-k", 2, "--covariance", "diag", "--json", "--tol", "1e-9")
    for method in ("em", "newton"):
        facts = []
        for how in ("--in-memory", "--in-blocks"):
            out, _ = run(*common, how, "--method", method)
            facts.append(json.loads(out))
        memory, blocks = facts
        for name in ("weights", "means", "covariances"):
            np.testing.assert_allclose(blocks["mixture"][name], memory["mixture"][name], rtol=1e-3)
        assert blocks["log_likelihood"] == pytest.approx(memory["log_likelihood"], abs=0.01)
        assert blocks["bic"] == pytest.approx(memory["bic"], abs=0.02)
        assert blocks["left_out"] == {"year": "partition", "month": "partition"}
    assert blocks["rows"] == 1200
    errors = [facts["uncertainty"]["standard_errors"]["weights"] for facts in (memory, blocks)]
    np.testing.assert_allclose(*errors, rtol=0.05)


def test_what_is_said_of_many_rows_rests_on_some(folder, small_blocks, monkeypatch):
    monkeypatch.setattr("momentmix.cli.fit.MOST_SAMPLED", 1000)
    monkeypatch.setattr("momentmix.cli.fit.MOST_BYTES", 10_000)
    np.save("gaps.npy", np.column_stack([gappy(folder), np.full(1200, 3.0)]))
    out, err = run(
        "fit", "gaps.npy", "-k", 2, "--covariance", "diag", "--json", "--report", "r.html"
    )
    facts = json.loads(out)
    assert "so they are read in blocks, again for every step; --in-memory reads" in err
    assert "24 of 1,200 rows have no value" in err or "rows, are gaps" in err
    assert facts["left_out"] == {"2": "constant"}
    assert facts["rows"] == 1176
    assert sum(facts["classification"]["rows_of_components"]) == 1176
    assert facts["gaps"] == {"0": int(np.isnan(gappy(folder)[:, 0]).sum()) - 24}
    assert any("rest on 1,000 of them, drawn at random" in one for one in facts["remarks"])
    text = Path("r.html").read_text(encoding="utf-8")
    assert "1,176 rows" in text
    mixture = facts["mixture"]
    found = Mixture(mixture["weights"], mixture["means"], mixture["covariances"], "diag")
    kept = gappy(folder)[~np.isnan(gappy(folder)).all(axis=1)]
    np.testing.assert_allclose(facts["log_likelihood"], found.log_prob(kept).sum())


def test_blocks_without_rows_that_have_gaps(folder, small_blocks):
    X = np.column_stack([gappy(folder), np.full(1200, np.nan)])
    np.save("gaps.npy", X)
    out, err = run("fit", "gaps.npy", "-k", 2, "--missing", "drop", "--in-blocks", "--json")
    facts = json.loads(out)
    assert facts["rows"] == int((~np.isnan(gappy(folder)).any(axis=1)).sum())
    assert facts["left_out"] == {"2": "empty"}
    assert "rows have gaps and were left out" in err
    _, err = run("fit", "gaps.npy", "-k", 2, "--columns", "0,2", "--in-blocks", code=1)
    assert "column 2 has no value in any row" in err
    _, err = run("fit", "gaps.npy", "-k", 2, "--missing", "error", "--in-blocks", code=1)
    assert "row 0, column 0" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("-k", "auto"), "-k auto and ranges"),
        (("-k", "1..3"), "-k auto and ranges"),
        (("-k", 2, "--covariance", "full,diag"), "--covariance with several shapes"),
        (("-k", 2, "--errors", "width=height"), "--errors"),
        (("-k", 2, "--outliers", "auto"), "--outliers"),
        (("-k", 2, "--prior", "cv"), "--prior cv"),
    ],
)
def test_what_does_not_go_in_blocks_is_named(arguments, named, folder):
    _, err = run("fit", "all.parquet", *arguments, "--in-blocks", code=1)
    assert f"which does not go with {named}" in err.splitlines()[-1]
    assert "or give --in-memory" in err


def test_options_of_rows_with_moments(folder):
    run("moments", "all.parquet", "-o", "m.npz")
    _, err = run("fit", "m.npz", "-k", 2, "--in-blocks", code=1)
    assert "--in-blocks and --in-memory are for rows" in err
    _, err = run("fit", "m.npz", "-k", 2, "--method", "newton", code=1)
    assert "--method newton needs the rows" in err
    _, err = run("fit", "all.parquet", "-k", 2, "--method", "wax", code=1)
    assert "--method is auto, em, newton or moments, got 'wax'" in err


def test_every_row_is_drawn_as_often(rng):
    counts = np.zeros(60)
    for seed in range(400):
        sample = RowSample(12, seed)
        for part in np.split(np.arange(60.0)[:, None], [1, 30, 31]):
            sample.add(part)
        kept = sample.rows[:, 0].astype(int)
        assert len(kept) == 12
        assert np.all(np.diff(kept) > 0)
        counts[kept] += 1
    deviation = np.sqrt(400 * 0.2 * 0.8)
    assert np.abs(counts - 80).max() < 4.5 * deviation


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "momentmix", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_killed_while_it_writes(folder):
    run("sample", "model.json", "-n", 2_000_000, "-o", "many.npy", "--seed", 0)
    process = command("predict", "model.json", "many.npy", "-o", "out.parquet")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        begun = [*Path().glob("out.parquet.*.part")]
        if begun and begun[0].stat().st_size > 0:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not Path("out.parquet").exists()
    run("predict", "model.json", "all.npy", "-o", "out.parquet")
    assert [path.name for path in Path().glob("out.parquet*")] == ["out.parquet"]


#: In blocks of a few ten thousand rows, so that some hundred thousand rows are many blocks.
MEASURED = """
import sys
from momentmix.cli import app, console, input, use
from momentmix.files import table
table.PIECE_BYTES = 1 << 20
input.NUMBERS_AT_ONCE = use._NUMBERS_DRAWN = 1 << 17
console._ROWS_TOGETHER = 1 << 15
for command in (
    "sample model.json -n {0} -o {0}.parquet --seed 0",
    "predict model.json {0}.parquet -o p.npy --proba",
    "score model.json {0}.parquet -o s.npy",
    "fit {0}.parquet -k 2 --covariance diag --in-blocks --method newton",
):
    app(command.format(sys.argv[1]).split(), standalone_mode=False)
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_rows(folder):
    peaks, sizes = [], (200_000, 2_000_000)
    for size in sizes:
        arguments = [sys.executable, "-c", MEASURED, str(size)]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout.splitlines()[-1]) / 1024)
    assert np.load("p.npy", mmap_mode="r").shape == (sizes[1], 4)
    # Rows in memory take several times as much, with what is made of them.
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) * 16 / 2**20, peaks
