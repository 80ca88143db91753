"""Which engine holds the rows: told by its type's module and methods, so that none is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from momentmix.support.array import ArrayLike

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    import pyspark.sql
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from polars import LazyFrame

#: Rows on a cluster, and their weights: one for each row, in the blocks of the rows.
DaskTable: TypeAlias = "dask.array.Array | dask.dataframe.DataFrame"
DaskWeights: TypeAlias = "dask.array.Array | dask.dataframe.Series | ArrayLike"
#: Attributes that only readers have; unlike tables, they give each row once.
_OF_READERS = ("__next__", "read_next_batch", "read_next", "read_all", "get_next")
#: The names that new and old releases give to the method that returns a reader.
DUCKDB_READERS = ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")


def is_dask(X: object) -> TypeGuard[DaskTable]:
    """Whether X is a Dask array or DataFrame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def is_spark(source: object) -> TypeGuard[pyspark.sql.DataFrame]:
    """Whether a source is a DataFrame of Spark."""
    return type(source).__module__.startswith("pyspark.sql") and hasattr(source, "mapInArrow")


def is_arrow(source: object) -> bool:
    """Whether an object provides an Arrow table, batch or stream."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def is_reader(source: object) -> bool:
    """Whether an object gives its rows only once."""
    return any(hasattr(source, name) for name in _OF_READERS)


def is_duckdb(source: object) -> TypeGuard[DuckDBPyRelation | DuckDBPyConnection]:
    """Whether a source is a relation of DuckDB or a connection that has executed a query."""
    return type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb") and any(
        hasattr(source, name) for name in DUCKDB_READERS
    )


def is_relation(source: DuckDBPyRelation | DuckDBPyConnection) -> TypeGuard[DuckDBPyRelation]:
    """Whether a query can be run again, which a result cannot."""
    return hasattr(source, "project")


def is_lazy(source: object) -> TypeGuard[LazyFrame]:
    """Whether a source is a lazy frame of Polars."""
    return type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "collect")


def is_pandas(table: object) -> bool:
    """Whether it is a data frame of pandas, whose index Arrow would turn into a column."""
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def is_table(given: object) -> bool:
    """Whether it is a table with named columns."""
    return is_pandas(given) or is_arrow(given)


def refuse_unread(X: object) -> None:
    """Raise an error for sources that are not in memory, which only ``fit_batches`` reads."""
    engine = is_spark(X) or is_lazy(X) or is_duckdb(X)
    stream = hasattr(X, "to_batches") or is_arrow(X) or hasattr(X, "to_reader")
    if engine or (stream and not hasattr(X, "__array__")):
        raise TypeError(
            f"a {type(X).__name__} does not hold its rows in memory; call fit_batches, which "
            "reads them in batches where they are"
        )
