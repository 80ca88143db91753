"""The result of a query of DuckDB as a table; duckdb is imported only where it is used."""

from __future__ import annotations

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


def is_query(name: str) -> bool:
    return name.startswith(PREFIX)


class QueryTable(ArrowTable):
    """What ``duckdb:SELECT …`` answers, or ``duckdb:FILE.duckdb:SELECT …``, in batches.

    The query runs anew whenever the table is read, so its rows may be others then. It is one
    query and nothing else: it reads no variables of Python, a database is opened for reading
    alone, and no extension is fetched.
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
        with self._asked(f"SELECT count(*) FROM (\n{self.query.rstrip('; ')}\n)") as found:
            return int(found.fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[pyarrow.RecordBatchReader]:
        with self._asked(self.query) as found:
            rows = max(1, PIECE_BYTES // (8 * len(found.columns)))
            # Before DuckDB 1.4 it had the other name.
            reader = getattr(found, "to_arrow_reader", None) or found.fetch_record_batch
            yield reader(rows)

    @contextmanager
    def _asked(self, query: str) -> Iterator[Any]:
        """The answer to a query, which comes while it is read."""
        duckdb = self._duckdb()
        if self.database is not None and not Path(self.database).is_file():
            raise TableError(f"{self.database}: there is no such database")
        settings = {"python_enable_replacements": False, "autoinstall_known_extensions": False}
        try:
            with duckdb.connect(
                self.database or ":memory:", read_only=self.database is not None, config=settings
            ) as connection:
                statements = connection.extract_statements(query)
                if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
                    raise TableError(
                        f"{self.label}: {PREFIX} takes one query, which begins with SELECT, FROM "
                        "or WITH, and nothing that changes a database"
                    )
                yield connection.sql(query)
        except duckdb.Error as error:
            said = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise TableError(f"{self.label}: {said}") from error

    def _duckdb(self) -> ModuleType:
        try:
            import duckdb
        except ImportError as error:
            raise TableError(
                f"{self.label}: queries need DuckDB: pip install 'momentmix[duckdb]'"
            ) from error
        module: ModuleType = duckdb
        return module
