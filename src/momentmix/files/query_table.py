"""The result of a query of DuckDB as a table; duckdb is imported only where it is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from momentmix.files.arrow_table import ArrowTable
from momentmix.files.table import FIND_OUT, PIECE_BYTES, ReadOptions, TableError

if TYPE_CHECKING:
    import pyarrow

PREFIX = "duckdb:"
#: A database file before the query. A query alone has blanks before its first colon.
_IN_DATABASE = re.compile(r"(\S+\.(?:duckdb|ddb|db)):(?!:)(.+)", re.DOTALL)
#: Settings under which no query can load code, use the network, or change the settings.
_SETTINGS = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "lock_configuration": True,
}
#: The table functions that are allowed. Others write logs, checkpoint, or run further statements.
_READING = re.compile(
    r"(read|parquet|duckdb|pragma)_\w+|range|generate_series|repeat(_row)?|unnest|glob|sniff_csv"
    r"|json_each|json_tree|summary|pg_timezone_names|icu_calendar_names|test_all_types"
)
#: The steps of a query plan that write.
_WRITING = re.compile(r"COPY|INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|ATTACH|EXPORT|EXECUTE")

#: Functions that run a text, which may be another one when it runs than when it was looked at.
_OF_TEXT = re.compile(r"\bquery(_table)?\b", re.IGNORECASE)
_VIEWS_AND_MACROS = """
    SELECT view_name, sql FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal"""


def is_query(name: str) -> bool:
    return name.startswith(PREFIX)


class QueryTable(ArrowTable):
    """The result of ``duckdb:SELECT …`` or ``duckdb:FILE.duckdb:SELECT …``, in batches.

    The query runs again whenever the table is read, so its rows may change. It must be a single
    query that reads files or one database, which is opened read-only. It cannot write, read
    variables of Python, or load extensions.
    """

    lasting = False
    _broken = "failed"

    def __init__(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        label: str | None = None,
        options: ReadOptions = FIND_OUT,
    ) -> None:
        text = name.removeprefix(PREFIX).strip()
        inside = _IN_DATABASE.fullmatch(text)
        self.database: str | None = inside[1] if inside else None
        self.query = inside[2].strip() if inside else text
        shown = " ".join(self.query.split())
        shown = shown if len(shown) <= 60 else shown[:59] + "…"
        super().__init__(self.database or "query", columns, label or f"query {shown!r}", options)

    def _size(self) -> int:
        return 0  # unknown before the query has run

    @property
    def identity(self) -> str:
        return f"{PREFIX}{self.database or ''}:{self.query}"

    @property
    def title(self) -> str:
        return "a query"

    def modified_at(self) -> int:
        return 0

    def count(self) -> int:
        """The number of rows, by a query of its own."""
        with self._ask("count(*)") as found:
            return int(found.fetchall()[0][0])

    @contextmanager
    def _open(self) -> Iterator[pyarrow.RecordBatchReader]:
        with self._ask("*") as found:
            rows = max(1, PIECE_BYTES // (8 * len(found.columns)))
            # The method was renamed in DuckDB 1.5.
            reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
            yield reader(rows)

    @contextmanager
    def _ask(self, what: str) -> Iterator[Any]:
        """Select ``what`` from the rows of the query; the result is computed while it is read."""
        duckdb = self._duckdb()
        if self.database is not None and not Path(self.database).is_file():
            raise TableError(f"{self.database}: there is no such database")
        try:
            with duckdb.connect(
                self.database or ":memory:", read_only=self.database is not None, config=_SETTINGS
            ) as connection:
                statements = connection.extract_statements(self.query)
                kinds = [each.type for each in statements]
                names = [kind.name for kind in kinds]  # before DuckDB 1.2, two of them for PIVOT
                pivots = names == ["CREATE", "SELECT"] and "pivot" in self.query.lower()
                if names == ["MULTI"] or pivots:
                    raise TableError(
                        f"{self.label}: PIVOT would first write the values that become columns; "
                        "name them, as in PIVOT t ON year IN (2023, 2024) USING sum(x)"
                    )
                if kinds != [duckdb.StatementType.SELECT]:
                    raise TableError(
                        f"{self.label}: {PREFIX} takes one query, which begins with SELECT, FROM "
                        "or WITH, and nothing that changes a database"
                    )
                self._refuse_text(connection, duckdb)
                # As a subquery: there DuckDB refuses a WITH whose parts write.
                asked = f"SELECT {what} FROM (\n" + _without_end(self.query, duckdb) + "\n)"
                self._refuse_writing(connection, asked)
                yield connection.sql(asked)
        except duckdb.Error as error:
            said = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise TableError(f"{self.label}: {said}") from error

    def _refuse_text(self, connection: Any, duckdb: ModuleType) -> None:
        """Raise an error if it, or a view or macro that it names, runs text by a function."""
        made, texts = connection.execute(_VIEWS_AND_MACROS).fetchall(), [self.query]
        for text in texts:
            plain = text.replace('"', "").lower()
            named = [sql for name, sql in made if name.replace('"', "").lower() in plain]
            texts += [sql for sql in named if sql and sql not in texts]
        if any(_runs_text(text, duckdb) for text in texts):
            raise TableError(
                f"{self.label}: query(…) and query_table(…) are not for queries here, because the "
                "text that they run may change; write it in their place"
            )

    def _refuse_writing(self, connection: Any, query: str) -> None:
        """Raise an error if a step of the plan writes; DuckDB makes the plan without running it."""
        plan = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchone()[1]
        steps = json.loads(plan)
        while steps:
            step = steps.pop()
            steps += step["children"]
            function = step["extra_info"].get("Function")
            if _WRITING.search(step["name"]) or not (
                function is None or _READING.fullmatch(function.lower())
            ):
                raise TableError(
                    f"{self.label}: a query may read and compute, but {step['name'].strip()} does "
                    "more than that; run it with DuckDB, and give the file that it writes"
                )

    def _duckdb(self) -> ModuleType:
        try:
            import duckdb
        except ImportError as error:
            raise TableError(
                f"{self.label}: queries need DuckDB: pip install 'momentmix[duckdb]'"
            ) from error
        module: ModuleType = duckdb
        return module


def _runs_text(query: str, duckdb: ModuleType) -> bool:
    text, kinds = query.encode(), duckdb.token_type  # tokens are counted in bytes
    starts = [start for start, kind in duckdb.tokenize(query) if kind != kinds.comment]
    called = [text[a:b].decode() for a, b in pairwise(starts) if text[b : b + 1] == b"("]
    return any(map(_OF_TEXT.search, called))


def _without_end(query: str, duckdb: ModuleType) -> str:
    """The query without semicolons and comments after it."""
    text = query.encode()  # tokens are counted in bytes
    end = len(text)
    for start, kind in reversed(duckdb.tokenize(query)):
        if kind != duckdb.token_type.comment and text[start : start + 1] != b";":
            break
        end = start
    return text[:end].decode()
