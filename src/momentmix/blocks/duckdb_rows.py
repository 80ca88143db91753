"""Relations and results of DuckDB, streamed as Arrow batches; DuckDB is never imported here.

Its Arrow C stream is not used, because before DuckDB 2 that builds the whole result first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

#: The names that new and old releases give to the method that returns a reader.
_READERS = ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")


def is_duckdb(source: object) -> TypeGuard[DuckDBPyRelation | DuckDBPyConnection]:
    """Whether a source is a relation of DuckDB or a connection that has executed a query."""
    return type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb") and any(
        hasattr(source, name) for name in _READERS
    )


def is_relation(source: DuckDBPyRelation | DuckDBPyConnection) -> TypeGuard[DuckDBPyRelation]:
    """Whether a query can be run again, which a result cannot."""
    return hasattr(source, "project")


def relation_head(source: DuckDBPyRelation) -> pyarrow.Table:
    """All columns, without rows."""
    return open_result(source.limit(0), 1).read_all()


def relation_batches(
    source: DuckDBPyRelation, columns: Sequence[str] | None, rows: int
) -> Iterator[pyarrow.RecordBatch]:
    """The relation in batches of about ``rows`` rows."""
    if columns is not None:
        source = source.project(", ".join(_quote(name) for name in columns))
    # An open result blocks its connection for other queries.
    with open_result(source, rows) as reader:
        yield from reader


def open_result(
    source: DuckDBPyRelation | DuckDBPyConnection, rows: int
) -> pyarrow.RecordBatchReader:
    """A reader of a result in batches of about ``rows`` rows."""
    name = next(name for name in _READERS if hasattr(source, name))
    return getattr(source, name)(rows)


def _quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
