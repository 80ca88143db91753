"""Sums over the rows of a Spark DataFrame; pyspark is imported only when it is used.

Each partition is read as Arrow batches where it is (``mapInArrow``) and summed there. If there are
many partitions, a second stage adds up their sums, so that only a few reach the driver. The workers
need momentmix installed. Only the cluster's own pickles travel between them and the driver; nothing
is unpickled from data or model files.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

import numpy as np

from momentmix.blocks.arrow_rows import matrix
from momentmix.blocks.batches import Batch, in_pieces
from momentmix.blocks.rows import (
    Block,
    BlockFunction,
    BlockRows,
    Parameters,
    Result,
    of_block,
    plus,
)
from momentmix.blocks.tables import chosen_labels, refuse_words
from momentmix.support.array import Array
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunctionLike

Model = TypeVar("Model")

#: Spark's names of the types of numbers.
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean", "void")
#: The sums of up to this many partitions go straight to the driver. If there are more, or their
#: number is unknown, they are first added up in the second number of groups. Round numbers that
#: affect speed only.
_FEW, _GROUPS = 64, 8
#: Blocks are numbered from this many times their partition. It exceeds the pieces of any real
#: partition, which would have 8 TiB.
_PIECES = 1 << 20
_SCHEMA = "part long, number long, total binary"


def is_spark(source: object) -> TypeGuard[DataFrame]:
    """Whether a source is a DataFrame of Spark."""
    return type(source).__module__.startswith("pyspark.sql") and hasattr(source, "mapInArrow")


class SparkRows(BlockRows):
    """The rows of a Spark DataFrame; each pass runs its query again, unless it is cached.

    ``columns`` are the features, by default all columns but ``weights``, the column of weights.
    """

    def __init__(
        self,
        source: DataFrame,
        columns: Sequence[Hashable] | None = None,
        weights: Hashable | None = None,
    ) -> None:
        features = [str(name) for name in chosen_labels(source.columns, columns, weights)]
        asked = features if weights is None else [*features, str(weights)]
        kinds = {field.name: field.dataType.typeName() for field in source.schema.fields}
        refuse_words([name for name in asked if kinds[name] not in _NUMBERS])
        self.n, self.names, self._weighted = len(features), features, weights is not None
        self._source = source.select([source[_quote(name)] for name in asked])
        self._partitions = _FEW + 1  # until a pass has counted them

    @cached_property
    def _count(self) -> int | None:
        """The number of partitions; None if Spark does not tell."""
        try:
            return int(self._source.rdd.getNumPartitions())
        except Exception:  # Spark Connect, for example, has no RDDs
            return None

    def total(
        self,
        function: BlockFunction[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        self.n_passes += 1
        task = _Task(function, arguments, named, self._weighted, self._count)
        sums = self._source.mapInArrow(task, _SCHEMA)
        if self._partitions > _FEW:
            sums = sums.repartition(_GROUPS, sums["part"]).mapInArrow(_add_up, _SCHEMA)
        found = sorted(sums.collect(), key=lambda row: row["part"])
        if not found:
            raise ValueError("no rows: the Spark DataFrame has none")
        self._partitions = sum(row["number"] for row in found)
        total = _sum(bytes(row["total"]) for row in found)
        if isinstance(total, _Refusal):
            raise total.kind(total.message)
        return total


def row_function(
    function: Callable[[Model, np.ndarray, None], Array], model: Model, n: int, returns: str
) -> UserDefinedFunctionLike:
    """A pandas UDF of n columns, function(model, rows, None), with the Spark type ``returns``."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    def of_rows(*columns: pandas.Series) -> pandas.Series:
        if len(columns) != n:
            raise ValueError(f"{len(columns)} columns were given, but the mixture is of {n}")
        X = np.column_stack([column.to_numpy(dtype=np.float64) for column in columns])
        with thread_limit(1):
            found = np.asarray(function(model, X, None)) if len(X) else np.empty(0)
        return pd.Series(list(found) if found.ndim > 1 else found)

    of_rows.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    return pandas_udf(of_rows, returns)


# The rest of this file runs on the workers.


class _Refusal(NamedTuple):
    """The reason why a block could not be summed; it replaces all sums."""

    kind: type[ValueError]
    message: str


class _Task(NamedTuple):
    """The sum over the batches of one partition, as one row; none for a partition without rows."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    named: dict[str, Any]
    weighted: bool
    partitions: int | None

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        found: list[object] = []
        try:
            with thread_limit(1):  # the cluster works on other partitions in parallel
                for i, (X, weights) in enumerate(in_pieces(self._rows(batches))):
                    block = Block(part * _PIECES + i, self.partitions)
                    one = self.function(X, weights, *self.arguments, **of_block(self.named, block))
                    found[:] = [plus(found[0], one) if found else one]
        except ValueError as error:
            kind = type(error) if type(error).__init__ is ValueError.__init__ else ValueError
            found[:] = [_Refusal(kind, f"partition {part}: {error}")]
        if found:
            yield _row(part, 1, found[0])

    def _rows(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Batch]:
        for batch in batches:
            rows = matrix(batch, batch.schema.names)
            if self.weighted:
                yield Batch(np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1]))
            else:
                yield Batch(rows)


def _add_up(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The sum of some partitions, in their order, so that it does not depend on timing."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    if rows:
        rows.sort(key=lambda row: row["part"])
        count = sum(row["number"] for row in rows)
        yield _row(rows[0]["part"], count, _sum(row["total"] for row in rows))


def _sum(parts: Iterable[bytes]) -> Any:
    total: list[Any] = []
    for part in map(pickle.loads, parts):
        if isinstance(part, _Refusal):
            return part
        total[:] = [plus(total[0], part) if total else part]
    return total[0]


def _row(part: int, number: int, total: object) -> pyarrow.RecordBatch:
    import pyarrow as pa

    columns = {
        "part": pa.array([part], pa.int64()),
        "number": pa.array([number], pa.int64()),
        "total": pa.array([pickle.dumps(total)], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _quote(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
