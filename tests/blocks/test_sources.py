"""Rows from the engines themselves, in batches: the same results as from memory."""

import os
import sqlite3
import sys
import threading
from unittest import mock

import dask.array as da
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from momentmix import GaussianMixture, KnownCovarianceMixture, Mixture, MomentMixture, MomentTensors
from momentmix.blocks import block_rows as batches_module
from momentmix.blocks.block_rows import EACH, Batch, in_pieces
from momentmix.blocks.sources import block_rows

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines' own

NAMES = ["a", "b", "c"]


def sample(p=3000):
    rng = np.random.default_rng(3)
    mixture = Mixture([0.5, 0.3, 0.2], 5 * rng.normal(size=(3, 3)), np.ones((3, 3)), "diag")
    return mixture.sample(p, 1)[0]


X = sample()
W = np.random.default_rng(4).integers(1, 4, len(X)).astype(float)
WANT = MomentTensors.from_samples(X, 4)


@pytest.fixture(scope="module")
def fitted():
    return MomentMixture(3, random_state=0).fit(X)


@pytest.fixture(scope="module")
def table():
    return pa.table({name: X[:, i] for i, name in enumerate(NAMES)})


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    """The rows with their weights and a column of words, in groups of 500 rows."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    more = table.append_column("w", [W]).append_column("city", [["x"] * len(X)])
    pa.parquet.write_table(more, path, row_group_size=500)
    return str(path)


@pytest.fixture(scope="module")
def server(table):
    class Rows(flight.FlightServerBase):
        def do_get(self, context, ticket):
            return flight.RecordBatchStream(table.to_reader(700))

    with Rows("grpc://127.0.0.1:0") as server:
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield f"grpc://127.0.0.1:{server.port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        # Less is compiled, which pays only in longer runs.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def assert_moments(moments, want=WANT, names=NAMES):
    assert moments.count == want.count
    assert list(moments.feature_names or []) == list(names)
    for k in range(1, want.order + 1):
        np.testing.assert_allclose(moments.tensor(k), want.tensor(k), rtol=1e-11, atol=1e-11)


def assert_same(fit, other, atol=1e-7):
    for name in ("weights_", "means_", "covariances_"):
        np.testing.assert_allclose(getattr(fit, name), getattr(other, name), rtol=0, atol=atol)


def sources(table, path, server):
    """Kinds of sources: functions that make one, and whether its columns have names."""
    frame = pd.DataFrame(X, columns=NAMES)
    parts = [frame[i : i + 900] for i in range(0, len(X), 900)]
    query = f"select a, b, c from '{path}'"
    return {
        "pyarrow Table": lambda: table,
        "reader": lambda: table.to_reader(400),
        "Dataset": lambda: ds.dataset(table),
        "Scanner": lambda: ds.dataset(path).scanner(columns=NAMES),
        "polars DataFrame": lambda: pl.from_arrow(table),
        "LazyFrame": lambda: pl.scan_parquet(path).select(NAMES),
        "relation": lambda: duckdb.read_parquet(path).project("a, b, c"),
        "query": lambda: duckdb.sql(query),
        "result": lambda: duckdb.connect().execute(query),
        "Flight": lambda: flight.connect(server).do_get(flight.Ticket(b"")),
        "pandas": lambda: frame[frame.a < np.inf],
        "list of tables": lambda: [*parts[:2], pl.from_pandas(parts[2]), table.slice(2700)],
        "generator of tables": lambda: iter(parts),
        "function of a reader": lambda: lambda: table.to_reader(400),
        "Dask table": lambda: dd.from_pandas(frame, npartitions=3),
    }


KINDS = list(sources(None, "", ""))
ONCE = ("reader", "result", "Flight", "generator of tables")


@pytest.mark.parametrize("kind", KINDS)
def test_engines(kind, table, path, server, fitted):
    make = sources(table, path, server)[kind]
    assert_moments(MomentTensors.from_batches(make(), 4))
    there = MomentMixture(3, random_state=0).fit_batches(make())
    assert_same(there, fitted)
    assert list(there.feature_names_in_) == NAMES
    assert there.n_passes_ == 1
    rows = block_rows(make())
    assert (rows.n, list(rows.names), rows.again) == (3, NAMES, kind not in ONCE)


def test_known_covariance_in_one_pass():
    known = KnownCovarianceMixture(3, 1.0, polish=None, random_state=0)
    here = known.fit(X).means_
    np.testing.assert_allclose(known.fit_batches(iter([X])).means_, here, atol=1e-7)
    np.testing.assert_allclose(known.fit_batches([X]).means_, here, atol=1e-7)


def test_arrays(fitted):
    parts = [X[:1000], X[1000:1010], X[1010:1010], X[1010:]]

    def again():
        buffer = np.empty((500, 3))  # the same memory for all batches
        for i in range(0, len(X), 500):
            buffer[:] = X[i : i + 500]
            yield buffer

    for source in (X, parts, again, again(), da.from_array(X, chunks=(900, 3)), lambda: X):
        if not hasattr(source, "__next__"):
            assert_moments(MomentTensors.from_batches(source, 4), names=[])
        assert_same(MomentMixture(3, random_state=0).fit_batches(source), fitted)
        if hasattr(source, "__next__"):
            assert next(source, None) is None


def test_polish_reads_again(path):
    relation = duckdb.read_parquet(path)
    here = GaussianMixture(3, random_state=0).fit(X)
    for source in (relation, lambda: relation, pl.scan_parquet(path)):
        there = GaussianMixture(3, random_state=0).fit_batches(source, columns=NAMES)
        assert there.lower_bound_ == pytest.approx(here.lower_bound_, abs=1e-6)
        assert there.n_passes_ > 2
    known = KnownCovarianceMixture(3, 1.0, random_state=0)
    assert known.fit_batches(relation, columns=NAMES).n_features_in_ == 3
    with pytest.raises(ValueError, match="column 0 of X is inf") as kept:
        MomentTensors.from_batches(relation.project("1 / (a - a) as a, b"), 2)
    relation.project("a").df()  # the connection is free
    assert "momentmix-reader" not in [thread.name for thread in threading.enumerate()], kept


def test_weights_in_a_column_and_in_pairs(path, table):
    want = MomentTensors.from_samples(X, 4, W)
    chosen = {"columns": NAMES, "weights": "w"}
    for source in (ds.dataset(path), pl.scan_parquet(path), duckdb.read_parquet(path),
                   dd.read_parquet(path), pd.read_parquet(path)):  # fmt: skip
        assert_moments(MomentTensors.from_batches(source, 4, **chosen), want)
    pairs = [(table.slice(a, 1000), W[a : a + 1000]) for a in range(0, 3000, 1000)]
    assert_moments(MomentTensors.from_batches(pairs, 4), want)
    here = MomentMixture(3, random_state=0).fit(X, sample_weight=W)
    there = MomentMixture(3, random_state=0)
    assert_same(there.fit_batches(ds.dataset(path), **chosen), here)
    assert_same(there.fit_batches(iter(pairs)), here)


def test_kinds_of_numbers(tmp_path):
    """Whole numbers, decimals, truth and nulls, as engines give them."""
    query = (
        "select range::int8 % 5 a, (range * 1.25)::decimal(9, 2) b, range % 2 = 0 c from range(90)"
    )
    rows = np.array([[i % 5, 1.25 * i, i % 2 == 0] for i in range(90)], dtype=float)
    want = MomentTensors.from_samples(rows, 2)
    relation = duckdb.sql(query)
    for source in (relation, relation.pl(), relation.pl().lazy(), relation.df()):
        assert_moments(MomentTensors.from_batches(source, 2), want)
    nulls = pl.DataFrame({"a": [1, None, 3], "b": [True, False, None], "c": [None] * 3})
    (batch,) = block_rows(nulls).read()
    np.testing.assert_array_equal(
        batch.rows, [[1, 1, np.nan], [np.nan, 0, np.nan], [3, np.nan, np.nan]]
    )


def test_gaps_take_one_pass(table):
    gappy = np.where(np.random.default_rng(0).random(X.shape) < 0.02, np.nan, X)
    gappy[:1000] = X[:1000]
    want = MomentTensors.from_samples(gappy, 4, missing="pairwise")
    frame = pl.DataFrame(gappy, schema=NAMES).with_columns(pl.all().fill_nan(None))
    assert frame.null_count().sum_horizontal()[0] > 80
    assert_moments(MomentTensors.from_batches(frame, 4, missing="pairwise"), want)
    with pytest.raises(ValueError, match="row 1"):
        MomentTensors.from_batches(frame, 4)
    options = {"covariance_type": "spherical", "random_state": 0}
    here = MomentMixture(3, **options).partial_fit(gappy)
    for source in (iter([gappy[:1000], gappy[1000:]]), frame.lazy()):
        there = MomentMixture(3, **options).fit_batches(source)
        assert_same(there, here)
        assert there.n_passes_ == 1


def test_csv_in_chunks_and_a_database(tmp_path, fitted):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    read = {"chunksize": 700, "float_precision": "round_trip"}
    with pd.read_csv(tmp_path / "rows.csv", **read) as chunks:
        assert_same(MomentMixture(3, random_state=0).fit_batches(chunks), fitted)
    connection = sqlite3.connect(":memory:")  # which stays in its thread
    frame.to_sql("rows", connection, index=False)
    there = MomentTensors.from_batches(
        lambda: pd.read_sql("select * from rows", connection, chunksize=700), 4
    )
    assert_moments(there)
    connection.close()


def test_batches_of_a_good_size(monkeypatch):
    monkeypatch.setattr(batches_module, "SMALL", 8 * 3 * 100)
    monkeypatch.setattr(batches_module, "LARGE", 8 * 3 * 200)
    given = [Batch(X[a:b], W[a:b]) for a, b in [(0, 30), (30, 30), (30, 99), (99, 150), (150, 700)]]
    pieces = list(in_pieces([*given, Batch(X[700:710], W[700:710])]))
    assert [len(piece.rows) for piece in pieces] == [150, 184, 184, 182, 10]
    np.testing.assert_array_equal(np.concatenate([piece.rows for piece in pieces]), X[:710])
    np.testing.assert_array_equal(np.concatenate([piece.weights for piece in pieces]), W[:710])


# Errors


class Untouched:
    """A reader of which nothing may be read."""

    def __iter__(self):
        return self

    def __next__(self):
        raise AssertionError("it was read")


def test_what_can_be_read_once_is_refused_before_it_is_read(table):
    for source in (Untouched(), table.to_reader()):
        with pytest.raises(
            ValueError, match=r"can be read once.*MomentMixture.*fit_batches\(lambda"
        ):
            GaussianMixture(3).fit_batches(source)
    with pytest.raises(ValueError, match="can be read once"):
        KnownCovarianceMixture(3, 1.0).fit_batches(source)
    assert source.read_all().num_rows == 3000
    kept = iter([X])
    few = mock.patch("momentmix.rows.elsewhere.draw_size", return_value=500)  # the rest stays there
    with few, pytest.raises(ValueError, match="no rows"):
        GaussianMixture(2, random_state=0).fit_batches(lambda: kept)


def test_datasets_with_partitions_and_filters(tmp_path):
    table = pa.table(
        {"a": np.arange(10.0), "b": np.arange(10.0) ** 2, "year": [2020] * 4 + [2021] * 6}
    )
    pq.write_to_dataset(table, tmp_path, partition_cols=["year"])
    found = ds.dataset(tmp_path, partitioning="hive")
    moments = MomentTensors.from_batches(found, 2)
    assert moments.feature_names == ("a", "b", "year")
    np.testing.assert_allclose(moments.mean, [4.5, 28.5, 2020.6])
    some = MomentTensors.from_batches(found.filter(ds.field("a") > 3), 1, columns=["a"])
    np.testing.assert_allclose(some.mean, [6.5])


def test_columns_that_cannot_be(path, table):
    for source in (ds.dataset(path), pl.scan_parquet(path), duckdb.read_parquet(path)):
        with pytest.raises(ValueError, match=r"do not hold numbers: city; .*columns="):
            MomentTensors.from_batches(source, 2)
        with pytest.raises(ValueError, match="no column 'z'; the columns are a, b, c, w, city"):
            MomentTensors.from_batches(source, 2, columns=["a", "z"])
    frame = pd.DataFrame({"a": [1.0, 2.0], "city": ["x", "y"]})
    with pytest.raises(ValueError, match="do not hold numbers: city"):
        MomentTensors.from_batches([frame], 2)
    with pytest.raises(ValueError, match="batch 1: its columns are a, c, but those of the first"):
        MomentTensors.from_batches([table.select(["a", "b"]), table.select(["a", "c"])], 2)
    with pytest.raises(
        ValueError, match=r"batch 2: it has 2 column\(s\), but the first batch has 3"
    ):
        MomentTensors.from_batches([X, X, X[:, :2]], 2)
    with pytest.raises(ValueError, match="batch 1: some batches are tables"):
        MomentTensors.from_batches([table, X], 2)
    with pytest.raises(ValueError, match="batch 1: some batches have weights"):
        MomentTensors.from_batches([(X, W), X], 2)
    with pytest.raises(ValueError, match=r"batch 0: its weights have the shape \(2,\)"):
        MomentTensors.from_batches([(X, [1.0, 2.0])], 2)
    with pytest.raises(ValueError, match="arrays, which have no names"):
        MomentTensors.from_batches([X], 2, columns=["a"])
    with pytest.raises(ValueError, match="two dimensions"):
        MomentTensors.from_batches([X[:, 0]], 2)


def test_nothing_to_read(table):
    for source in ([], iter([]), list, table.slice(0, 0), table.slice(0, 0).to_reader()):
        with pytest.raises(ValueError, match="no rows"):
            MomentMixture(1).fit_batches(source)
    for source in ("rows.csv", {"a": X}, 7):
        with pytest.raises(TypeError, match="cannot read batches from"):
            GaussianMixture(1).fit_batches(source)


def test_fit_says_where_to_go(path, table):
    for source in (pl.scan_parquet(path), duckdb.read_parquet(path), ds.dataset(path),
                   table.to_reader()):  # fmt: skip
        with pytest.raises(TypeError, match="call fit_batches"):
            GaussianMixture(2).fit(source)


# Spark


def test_spark(spark, path, fitted):
    frame = spark.read.parquet(path)
    many = frame.repartition(4).cache()
    here = MomentTensors.from_samples(X, 4, W)
    for source in (frame, many):
        assert_moments(MomentTensors.from_batches(source, 4, columns=NAMES, weights="w"), here)
    there = MomentMixture(3, random_state=0).fit_batches(many, columns=NAMES)
    assert_same(there, fitted)
    assert there.n_passes_ == 1
    polished = GaussianMixture(3, random_state=0, max_iter=1)
    polished.fit_batches(frame.coalesce(1).cache(), columns=NAMES)
    assert polished.score(X) > fitted.score(X)
    empty = frame.select(NAMES).filter("a < -1e9")
    with pytest.raises(ValueError, match="no rows"):
        MomentTensors.from_batches(empty, 2)
    some = frame.select(NAMES).repartition(4).filter("a > 9")  # and partitions without rows
    want = MomentTensors.from_samples(X[X[:, 0] > 9], 2)
    assert_moments(MomentTensors.from_batches(some, 2), want)


def test_spark_blocks_are_numbered(spark, path):
    def numbers(X, weights, block):
        return np.array([1.0, float(block.number)]), (np.eye(60)[block.number >> 20],)

    rows = block_rows(spark.read.parquet(path).select(NAMES).repartition(5))
    for _ in range(2):  # with a second stage, and without
        (count, total), (parts,) = rows.total(numbers, block=EACH)
        assert count == parts.sum() == 5
        assert total == sum(range(5)) << 20
        assert parts.max() == 1


def test_spark_errors_are_readable(spark, path):
    frame = spark.read.parquet(path)
    with pytest.raises(ValueError, match="do not hold numbers: city"):
        MomentTensors.from_batches(frame, 2)
    with pytest.raises(ValueError, match="no column 'z'"):
        MomentTensors.from_batches(frame, 2, columns=["z"])
    with pytest.raises(TypeError, match="call fit_batches"):
        GaussianMixture(2).fit(frame)
    bad = frame.selectExpr("if(a > 0, a, double('infinity')) a", "b")
    with pytest.raises(ValueError, match=r"partition \d+: row \d+, column 0 of X is inf"):
        MomentTensors.from_batches(bad, 2)


def test_spark_predictions(spark, path, fitted):
    frame = spark.read.parquet(path)
    for method, values in (
        ("predict", fitted.predict(X)),
        ("score_samples", fitted.score_samples(X)),
        ("predict_proba", fitted.predict_proba(X)),
    ):
        found = frame.withColumn("found", fitted.spark_udf(method)(*NAMES)).toPandas()
        want = pd.DataFrame(X, columns=NAMES).assign(found=list(values))
        both = found.merge(want, on=NAMES)
        assert len(both) == len(X)
        np.testing.assert_allclose(
            np.stack(both.found_x), np.stack(both.found_y), rtol=1e-10, atol=1e-12
        )
    with pytest.raises(ValueError, match="method must be one of"):
        fitted.spark_udf("sample")
