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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from momentmix.blocks.arrow_rows import matrix
from momentmix.blocks.block_rows import Batch, Block, BlockRows, Summand, Work, add_up, in_pieces
from momentmix.blocks.layout import chosen_labels, refuse_words
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

    def _sum(self, work: Work) -> Summand:
        task = _Task(work, self._weighted, self._count)
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

    work: Work
    weighted: bool
    partitions: int | None

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        try:
            with thread_limit(1):  # the cluster works on other partitions in parallel
                total = add_up(
                    self.work(*piece, Block(part * _PIECES + i, self.partitions))
                    for i, piece in enumerate(in_pieces(self._rows(batches)))
                )
        except ValueError as error:
            kind = type(error) if type(error).__init__ is ValueError.__init__ else ValueError
            total = _Refusal(kind, f"partition {part}: {error}")
        if total is not None:
            yield _row(part, 1, total)

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
    totals = [pickle.loads(part) for part in parts]
    refusals = [part for part in totals if isinstance(part, _Refusal)]
    return refusals[0] if refusals else add_up(totals)


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
