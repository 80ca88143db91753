"""Queries in place of files read what they name, and can do nothing else."""

import hashlib
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from commands import run
from momentmix import MomentTensors
from momentmix.files.folders import open_all
from momentmix.files.table import TableError

duckdb = pytest.importorskip("duckdb")

#: Writes a file from within a query, as DuckDB 2 can.
WRITES = "WITH w AS (COPY (SELECT 7 AS a) TO 'precious.csv' (FORMAT csv)) SELECT 1 AS a"
INSERTS = "WITH w AS (INSERT INTO t VALUES (7, 7) RETURNING a) SELECT a FROM w"
SERIALIZED = "json_execute_serialized_sql(json_serialize_sql($s$" + WRITES + "$s$))"
RANDOM = (
    f"FROM query(CASE WHEN random() < 0.9 THEN 'SELECT 1 AS a' ELSE $q$FROM {SERIALIZED}$q$ END)"
)

#: One of each kind of statement, and of each way in which a SELECT could do more than read.
DOES_MORE = [
    # statements
    "COPY (SELECT 1) TO 'precious.csv'",
    "COPY t TO 'precious.csv' (FORMAT parquet)",
    "COPY t FROM 'rows.csv'",
    "COPY FROM DATABASE d TO memory",
    "EXPORT DATABASE 'exported'",
    "IMPORT DATABASE 'exported'",
    "ATTACH 'new.duckdb'",
    "ATTACH 'new.duckdb' AS n; SELECT 1 AS a",
    "ATTACH 'd.duckdb' AS n (READ_ONLY)",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs",
    "UPDATE EXTENSIONS",
    "LOAD httpfs",
    "LOAD './precious.csv'",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = 'precious.csv'",
    "PRAGMA log_query_path = 'precious.csv'",
    "PRAGMA import_database('exported')",
    f"PRAGMA {SERIALIZED}",
    "SET log_query_path = 'precious.csv'",
    "SET enable_external_access = false",
    "SET VARIABLE v = 1",
    "RESET lock_configuration",
    "CREATE TABLE n AS SELECT 1 AS a",
    "CREATE TEMP TABLE n AS SELECT 1 AS a",
    "CREATE VIEW n AS SELECT 1 AS a",
    "CREATE MACRO n() AS 1",
    "CREATE SEQUENCE n",
    "CREATE TYPE n AS ENUM ('a')",
    "CREATE SCHEMA n",
    "CREATE INDEX n ON t (a)",
    "CREATE PERSISTENT SECRET n (TYPE http, BEARER_TOKEN 'x')",
    "ALTER TABLE t ADD COLUMN c INTEGER",
    "DROP TABLE t",
    "COMMENT ON TABLE t IS 'x'",
    "INSERT INTO t VALUES (1, 2)",
    "INSERT INTO t VALUES (1, 2) RETURNING a",
    "UPDATE t SET a = 7",
    "DELETE FROM t",
    "TRUNCATE t",
    "MERGE INTO t USING (SELECT 7 AS a) AS s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "CALL enable_logging()",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1 AS a",
    "PREPARE p AS DELETE FROM t; EXECUTE p",
    "EXECUTE p",
    "DEALLOCATE p",
    "EXPLAIN SELECT 1 AS a",
    "EXPLAIN ANALYZE DELETE FROM t",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "CHECKPOINT",
    "FORCE CHECKPOINT d",
    "VACUUM",
    "ANALYZE",
    "PIVOT t ON a USING sum(b)",  # it makes a type first
    # several, or parts of several
    "SELECT 1 AS a; DELETE FROM t",
    "DELETE FROM t; SELECT 1 AS a",
    "SELECT 1 AS a; SELECT 2 AS a",
    "SELECT 1 AS a); DELETE FROM t; SELECT * FROM (SELECT 1 AS a",
    "SELECT 1 AS a) AS x; COPY (SELECT 1 AS a) TO 'precious.csv'; --",
    "SELECT 1 AS a /*",
    # queries with parts that write
    WRITES,
    f"({WRITES})",
    f"FROM ({WRITES})",
    f"SELECT ({WRITES}) AS a",
    f"SELECT 1 AS a WHERE EXISTS ({WRITES})",
    f"SELECT 1 AS a UNION ALL ({WRITES})",
    f"WITH o AS ({WRITES}) FROM o",
    f"SUMMARIZE {WRITES}",
    f"FROM query($q${WRITES}$q$)",
    WRITES.replace("WITH w", "WITH RECURSIVE w"),
    WRITES.replace("AS (COPY", "AS MATERIALIZED (COPY"),
    WRITES.replace("csv)) SELECT", "csv, PER_THREAD_OUTPUT, OVERWRITE)) SELECT"),
    WRITES.replace("(FORMAT csv)", "(FORMAT parquet, RETURN_STATS)"),
    INSERTS,
    f"FROM query($q${INSERTS}$q$)",
    INSERTS.replace("INSERT INTO t VALUES (7, 7)", "UPDATE t SET a = 7"),
    INSERTS.replace("INSERT INTO t VALUES (7, 7)", "DELETE FROM t"),
    "WITH w AS (ATTACH 'new.duckdb') SELECT 1 AS a",
    "WITH w AS (CREATE TABLE n AS SELECT 1 AS a) SELECT 1 AS a",
    # functions
    f"FROM {SERIALIZED}",
    f"SELECT (FROM {SERIALIZED}) AS a",
    f"SELECT 1 AS a WHERE EXISTS (FROM {SERIALIZED})",
    f"FROM range(3), LATERAL (FROM {SERIALIZED})",
    f"FROM query($q$FROM {SERIALIZED}$q$)",
    f"FROM query('FROM json_execute' || $q$_serialized_sql{SERIALIZED[27:]}$q$)",
    f"FROM system.main.{SERIALIZED}",
    # a text that may be another one when it runs than when its plan is looked at
    RANDOM,
    RANDOM.replace("query", '"Query" /* ( */ '),
    RANDOM.replace("query", "`query`"),
    RANDOM.replace("query", "\u00a0query"),
    "FROM view_of_text",
    "FROM macro_of_text('SELECT 1 AS a')",
    "SELECT scalar_of_text('SELECT 1 AS a') AS a",
    "FROM query('SELECT 1 AS a')",
    "FROM query_table('view_' || 'of_text')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1 AS a'))",
    "FROM view_of_logs",
    "FROM enable_logging(storage='file', storage_config={'path': 'logs'})",
    "FROM enable_profiling(save_location='precious.csv')",
    "FROM disable_logging()",
    "FROM truncate_duckdb_logs()",
    "FROM checkpoint()",
    "FROM force_checkpoint('d')",
    "FROM create_external_resource('a')",
    "FROM register_external_resource('a', 'b')",
    "FROM dbgen(sf=0)",
    "FROM read_duckdb('none.duckdb', table_name='t')",
    "FROM copy_database('a', 'b')",
    "FROM load_aws_credentials()",
    "SELECT a FROM settings",  # a variable of Python
    "FROM sqlite_scan('s.db', 't')",
    "FROM read_xlsx('a.xlsx')",
    "FROM 's3://bucket/a.parquet'",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table in files and in a database, and a file that nobody wants to lose."""
    monkeypatch.chdir(tmp_path)
    Path("precious.csv").write_text("a\n1\n")
    Path("rows.csv").write_text("a,b\n1,2\n3,4\n5,9\n")
    Path("parts").mkdir()
    with duckdb.connect("d.duckdb") as connection:
        connection.execute("CREATE TABLE t AS FROM 'rows.csv'")
        connection.execute("CREATE VIEW v AS SELECT a FROM 'rows.csv'")
        connection.execute("CREATE MACRO m(n) AS TABLE SELECT a + n AS a FROM t")
        connection.execute("CREATE SEQUENCE s")
        connection.execute("CREATE VIEW text AS FROM query('SELECT 1 AS a')")
        connection.execute("CREATE VIEW view_of_text AS FROM text")
        connection.execute("CREATE MACRO macro_of_text(x) AS TABLE FROM query(x)")
        connection.execute("CREATE MACRO scalar_of_text(x) AS (SELECT max(a) FROM query(x))")
        for i in range(3):
            connection.execute(f"COPY (FROM t WHERE a = {2 * i + 1}) TO 'parts/{i}.parquet'")
        try:  # before DuckDB 1.4 there is no such function, and so no such view
            connection.execute("CREATE VIEW view_of_logs AS FROM enable_logging()")
        except duckdb.CatalogException:
            connection.execute("CREATE VIEW view_of_logs AS FROM checkpoint()")
    return tmp_path


def contents(folder):
    """What is in all files."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def rows_of(query):
    [table] = open_all(f"duckdb:{query}")
    with table._open() as reader:
        return reader.read_all()


@pytest.mark.parametrize("place", ["", "d.duckdb:"])
@pytest.mark.parametrize("query", DOES_MORE)
def test_a_query_that_does_more_than_read_is_refused(query, place, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    before = contents(folder)
    for ask in (rows_of, lambda query: open_all(f"duckdb:{query}")[0].count()):
        with pytest.raises(TableError):
            ask(place + query)
        assert contents(folder) == before


@pytest.mark.parametrize("query", [WRITES, f"FROM {SERIALIZED}", "FROM checkpoint()"])
def test_the_command_says_so(query, folder):
    before = contents(folder)
    _, err = run("fit", f"duckdb:{query}", "-k", 1, code=1)
    assert len(err.splitlines()) == 1
    assert contents(folder) == before


def test_the_error_says_what_to_do(folder):
    with pytest.raises(TableError, match=r"CHECKPOINT does more than that; run it with DuckDB"):
        rows_of("FROM checkpoint()")


def test_a_pivot_whose_columns_are_not_named_is_told_to_name_them(folder):
    with pytest.raises(TableError, match=r"would first write the values .* name them, as in PIVOT"):
        rows_of("PIVOT 'rows.csv' ON a USING sum(b)")


def test_a_sequence_is_not_drawn_from(folder):
    before = contents(folder)
    with pytest.raises(TableError, match="read-only"):
        rows_of("d.duckdb:SELECT nextval('s') AS a")
    assert contents(folder) == before


CRASH = """
import duckdb, os
connection = duckdb.connect("d.duckdb")
connection.execute("SET wal_autocheckpoint = '1GB'")
connection.execute("INSERT INTO t VALUES (7, 8)")
os._exit(0)
"""


@pytest.mark.parametrize(
    "query", ["d.duckdb:FROM t", "FROM read_duckdb('d.duckdb', table_name='t')"]
)
def test_the_log_of_a_database_is_left_where_it_is(query, folder):
    if "read_duckdb" in query and int(duckdb.__version__.partition(".")[0]) < 2:
        pytest.skip("that function came with DuckDB 2")
    subprocess.run([sys.executable, "-c", CRASH], check=True)
    before = contents(folder)
    assert str(folder / "d.duckdb.wal") in before
    assert rows_of(query).num_rows == 4
    assert contents(folder) == before


def test_nothing_uses_the_network(folder):
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/rows"
        for query in (f"FROM '{place}.csv'", f"FROM read_parquet('{place}.parquet')",
                      f"FROM read_csv('{place}.csv')", f"FROM read_text('{place}')"):  # fmt: skip
            with pytest.raises(TableError):
                rows_of(query)
        server.shutdown()
    assert asked == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("FROM 'rows.csv'", [1, 3, 5]),
        ("FROM 'rows.csv';", [1, 3, 5]),
        ("FROM 'rows.csv' ;\n", [1, 3, 5]),
        ("FROM 'rows.csv' -- all of them", [1, 3, 5]),
        ("FROM 'rows.csv'; -- all; of them", [1, 3, 5]),
        ("FROM 'rows.csv' /* ü */ ; /* ; */; --", [1, 3, 5]),
        ("SELECT a FROM 'rows.csv' WHERE 'ü; -- no' <> 'ü; --'; -- ü", [1, 3, 5]),
        ("UNPIVOT (SELECT a FROM 'rows.csv') ON a INTO NAME n VALUE v", ["a", "a", "a"]),
        ("FROM 'rows.csv' PIVOT (sum(b) FOR a IN (1))", [2]),
        ("SELECT count FROM (SUMMARIZE FROM 'rows.csv')", [3, 3]),
        ("SUMMARIZE FROM 'rows.csv'", ["a", "b"]),
        ("d.duckdb:DESCRIBE t", ["a", "b"]),
        ("SELECT a FROM read_csv('rows.csv', header = true)", [1, 3, 5]),
        ("SELECT a FROM 'parts/*.parquet' ORDER BY a DESC", [5, 3, 1]),
        ("SELECT a FROM read_parquet(['parts/0.parquet', 'parts/2.parquet']) ORDER BY a", [1, 5]),
        ("SELECT a FROM 'rows.csv' JOIN 'parts/*.parquet' USING (a, b) ORDER BY a", [1, 3, 5]),
        ("WITH c AS (SELECT a FROM 'rows.csv') SELECT a FROM c WHERE a > 1", [3, 5]),
        ("WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r WHERE a < 4) FROM r",
         [1, 2, 3, 4]),
        ("SELECT unnest([2, 3]) AS a", [2, 3]),
        ("SELECT a.range + generate_series AS a FROM range(2) a, generate_series(0, 0)", [0, 1]),
        ("SELECT x.range AS a FROM range(3) AS n, range(n.range) AS x ORDER BY a", [0, 0, 1]),
        ("VALUES (4), (5)", [4, 5]),
        ("SELECT a FROM 'rows.csv' LIMIT 1 OFFSET 1", [3]),
        ("SELECT sum(b) AS a FROM 'rows.csv' GROUP BY a > 1 ORDER BY 1", [2, 13]),
        ("SELECT sum(a) OVER (ORDER BY a) AS a FROM 'rows.csv'", [1, 4, 9]),
        ("SELECT 'COPY; DELETE FROM t' = 'no' AS a", [False]),
        ("FROM (SELECT length(content) AS a FROM read_text('rows.csv'))", [16]),
        ("d.duckdb:FROM t", [1, 3, 5]),
        ("d.duckdb:FROM v", [1, 3, 5]),
        ("d.duckdb:FROM m(10)", [11, 13, 15]),
        ("d.duckdb:SELECT t.a FROM t JOIN 'rows.csv' USING (a) ORDER BY a", [1, 3, 5]),
        ("d.duckdb:SELECT 1 AS a FROM information_schema.tables WHERE table_name = 't'", [1]),
    ],
)  # fmt: skip
def test_a_query_reads_what_it_names(query, expected, folder):
    before = contents(folder)
    assert rows_of(query).column(0).to_pylist() == expected
    assert open_all(f"duckdb:{query}")[0].count() == len(expected)
    assert contents(folder) == before


def test_rows_come_in_the_order_that_is_asked_for(folder):
    query = "SELECT range AS a FROM range(400000) ORDER BY hash(range)"
    with duckdb.connect() as connection:
        expected = connection.execute(query).fetchnumpy()["a"]
    np.testing.assert_array_equal(rows_of(query).column("a").to_numpy(), expected)


def test_a_fit_and_a_count_of_a_query(folder):
    """The number of rows is asked for where the command needs it before it reads them."""
    query = "duckdb:SELECT sin(range * 1.3) + range % 2 * 9 AS a FROM range(300)"
    run("fit", query, "-k", 2, "-o", "model.json")
    run("moments", query, "-o", "m.npz", "--order", 2)
    assert MomentTensors.load("m.npz").count == 300
    assert Path("model.json").is_file()


@pytest.mark.parametrize(
    "query",
    [
        "d.duckdb:SELECT * FROM v",
        "SELECT * FROM read_csv('rows' || '.csv')",
        "SELECT * FROM read_csv($$rows.csv$$)",
    ],
)
def test_no_table_that_is_there_is_written_over(query, tmp_path, monkeypatch):
    """A query may read it by way of a view, or of a name that only DuckDB knows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = "a,b\n" + "".join(f"{x},{y}\n" for x, y in rng.normal(size=(50, 2)))
    Path("rows.csv").write_text(rows)
    with duckdb.connect("d.duckdb") as connection:
        connection.execute("CREATE VIEW v AS FROM 'rows.csv'")
    run("fit", f"duckdb:{query}", "-k", 1, "-o", "m.json")
    run("fit", f"duckdb:{query}", "-k", 1, "-o", "m.json")  # a model may be written again
    _, err = run("predict", "m.json", f"duckdb:{query}", "-o", "rows.csv", code=1)
    assert "write to a new file" in err or "this file is read" in err
    assert Path("rows.csv").read_text() == rows
    run("predict", "m.json", f"duckdb:{query}", "-o", "labels.csv")
    assert len(Path("labels.csv").read_text().splitlines()) == 51
