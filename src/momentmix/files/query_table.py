"""The result of a query of DuckDB as a table; duckdb is imported only where it is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from momentmix.files.arrow_table import ArrowTable
from momentmix.files.options import FIND_OUT, ReadOptions
from momentmix.files.table import PIECE_BYTES, TableError

if TYPE_CHECKING:
    import pyarrow

PREFIX = "duckdb:"
#: A database before the query; a query itself has blanks before it comes to any colon.
_IN_DATABASE = re.compile(r"(\S+\.(?:duckdb|ddb|db)):(?!:)(.+)", re.DOTALL)
#: How a database is opened, so that no query can change that, load code, or use the network.
_SETTINGS = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "lock_configuration": True,
}
#: The functions that rows may come from. Others log, checkpoint, or run statements of their own.
_READING = re.compile(
    r"(read|parquet|duckdb|pragma)_\w+|range|generate_series|repeat(_row)?|unnest|glob|sniff_csv"
    r"|json_each|json_tree|summary|pg_timezone_names|icu_calendar_names|test_all_types"
)
#: Steps of a plan that write.
_WRITING = re.compile(r"COPY|INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|ATTACH|EXPORT|EXECUTE")


def is_query(name: str) -> bool:
    return name.startswith(PREFIX)


class QueryTable(ArrowTable):
    """What ``duckdb:SELECT …`` answers, or ``duckdb:FILE.duckdb:SELECT …``, in batches.

    The query runs anew whenever the table is read, so its rows may be others then. It is one
    query and nothing else: it reads files and a database, which is opened for reading alone. It
    can write nothing, reads no variables of Python, and loads no extension.
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
        return 0  # which nobody knows before the query has run

    @property
    def identity(self) -> str:
        return f"{PREFIX}{self.database or ''}:{self.query}"

    @property
    def title(self) -> str:
        return "a query"

    def changed(self) -> int:
        return 0

    def count(self) -> int:
        """The number of rows, by a query of its own."""
        with self._asked("count(*)") as found:
            return int(found.fetchall()[0][0])

    @contextmanager
    def _open(self) -> Iterator[pyarrow.RecordBatchReader]:
        with self._asked("*") as found:
            rows = max(1, PIECE_BYTES // (8 * len(found.columns)))
            # Before DuckDB 1.5 it had the other name.
            reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
            yield reader(rows)

    @contextmanager
    def _asked(self, what: str) -> Iterator[Any]:
        """What is asked of the rows of the query; the answer comes while it is read."""
        duckdb = self._duckdb()
        if self.database is not None and not Path(self.database).is_file():
            raise TableError(f"{self.database}: there is no such database")
        try:
            with duckdb.connect(
                self.database or ":memory:", read_only=self.database is not None, config=_SETTINGS
            ) as connection:
                statements = connection.extract_statements(self.query)
                if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
                    raise TableError(
                        f"{self.label}: {PREFIX} takes one query, which begins with SELECT, FROM "
                        "or WITH, and nothing that changes a database"
                    )
                # Within another query, DuckDB takes no WITH whose parts write.
                asked = f"SELECT {what} FROM (\n" + self.query.rstrip("; \n") + "\n)"
                self._refuse_writing(connection, asked)
                yield connection.sql(asked)
        except duckdb.Error as error:
            said = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise TableError(f"{self.label}: {said}") from error

    def _refuse_writing(self, connection: Any, query: str) -> None:
        """Refuse a query if a step of its plan, which DuckDB makes without running it, writes."""
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
