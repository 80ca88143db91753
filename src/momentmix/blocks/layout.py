"""Batches as users give them: an array, a table of any library, or either with weights."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from momentmix.blocks import arrow_rows
from momentmix.blocks.block_rows import SMALL, Batch
from momentmix.blocks.engines import is_arrow, is_pandas
from momentmix.support.array import foreign, to_numpy, without_masks

#: An array (p, n), a table of pandas, Polars or Arrow, or a pair of one of them and weights (p,).
Given: TypeAlias = Any


class Layout(NamedTuple):
    """Which columns of the batches are features, and which holds the weights."""

    width: int  # features
    labels: list[Hashable] | None  # of the features; None for arrays
    weights: Hashable | None = None  # the column of weights
    paired: bool = False  # weights come beside each batch
    chosen: bool = False  # whether the user chose the columns, so that others may exist

    @classmethod
    def of(
        cls, given: Given, columns: Sequence[Hashable] | None, weights: Hashable | None
    ) -> Layout:
        """The layout of the first batch, which may have no rows."""
        table, own = _parts(given)
        paired = own is not None
        if paired and weights is not None:
            raise ValueError(
                f"weights={weights!r} names a column, but the batches are pairs (X, weights); give "
                "one or the other"
            )
        labels = _labels(table)
        if labels is None:
            if columns is not None or weights is not None:
                raise ValueError(
                    "columns= and weights= name columns of tables, but the batches are arrays, "
                    "which have no names; give X[:, columns], and pairs (X, weights)"
                )
            return cls(_array(table).shape[1], None, paired=paired)
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the text {columns!r}")
        found = chosen_labels(labels, columns, weights)
        layout = cls(len(found), found, weights, paired, columns is not None)
        refuse_words(_words(table, layout.wanted or []))
        return layout

    @property
    def names(self) -> list[str] | None:
        """The names of the features, if all of them are text; else None."""
        if self.labels is None or not all(isinstance(label, str) for label in self.labels):
            return None
        return [str(label) for label in self.labels]

    @property
    def wanted(self) -> list[Hashable] | None:
        """The columns that have to be read; None for arrays."""
        if self.labels is None:
            return None
        return [*self.labels, *([] if self.weights is None else [self.weights])]

    def batches(self, given: Iterable[Given]) -> Iterator[Batch]:
        """Batches as rows of float64; errors name the batch, counted from 0."""
        for number, one in enumerate(given):
            try:
                yield self._batch(one)
            except (ValueError, TypeError) as error:
                plain = TypeError if isinstance(error, TypeError) else ValueError
                raise plain(f"batch {number}: {error}") from error

    def _batch(self, given: Given) -> Batch:
        table, own = _parts(given)
        if (own is not None) != self.paired:
            raise ValueError(
                "some batches have weights beside them, and some have none; give them to all"
            )
        labels = _labels(table)
        if labels is None or self.labels is None:
            if labels is not self.labels:
                raise ValueError("some batches are tables, and some arrays without names")
            rows = _array(table)
            if rows.shape[1] != self.width:
                raise ValueError(
                    f"it has {rows.shape[1]} column(s), but the first batch has {self.width}"
                )
            return Batch(rows, _weights(own, len(rows)))
        wanted = self.wanted or []
        missing = [label for label in wanted if label not in labels]
        more = [] if self.chosen else [label for label in labels if label not in wanted]
        if missing or more:
            raise ValueError(
                f"its columns are {_listed(labels)}, but those of the first batch are "
                f"{_listed(wanted)}"
            )
        rows = _matrix(table, wanted)
        if self.weights is not None:
            return Batch(np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1]))
        return Batch(rows, _weights(own, len(rows)))


def chosen_labels(
    labels: Sequence[Hashable], columns: Sequence[Hashable] | None, weights: Hashable | None
) -> list[Hashable]:
    """The columns that are features: the named ones, or all but the weights."""
    twice = [label for i, label in enumerate(labels) if label in labels[:i]]
    if twice:
        raise ValueError(f"two columns have the name {twice[0]!r}")
    asked = [*([] if columns is None else columns), *([] if weights is None else [weights])]
    unknown = [label for label in asked if label not in labels]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}; the columns are {_listed(labels)}")
    features = [label for label in (labels if columns is None else columns) if label != weights]
    if not features:
        raise ValueError("no column is left for the features")
    if len(set(features)) < len(features):
        raise ValueError(f"columns names one column twice: {_listed(features)}")
    return features


def refuse_words(words: Sequence[Hashable]) -> None:
    """Raise an error that names columns without numbers, if there are any."""
    if words:
        raise ValueError(
            f"columns that do not hold numbers: {_listed(words)}; name those that do with columns="
        )


def _parts(given: Given) -> tuple[Given, Given | None]:
    """The table or array of a batch, and the weights beside it, if any."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(
                f"a batch is an array, a table or a pair (X, weights), got {len(given)} things"
            )
        return given[0], given[1]
    return given, None


def _labels(table: Given) -> list[Hashable] | None:
    if is_pandas(table):
        return list(table.columns)
    return list(arrow_rows.as_arrow(table).schema.names) if is_arrow(table) else None


def _words(table: Given, columns: list[Hashable]) -> list[Hashable]:
    """Those columns that do not hold numbers."""
    if is_pandas(table):
        kinds = zip(columns, table[columns].dtypes, strict=True)
        return [name for name, kind in kinds if kind.kind not in "biuf"]
    return arrow_rows.words_among(arrow_rows.as_arrow(table), columns)


def _matrix(table: Given, columns: list[Hashable]) -> np.ndarray:
    refuse_words(_words(table, columns))
    if is_pandas(table):
        rows: np.ndarray = table[columns].to_numpy(dtype=np.float64, na_value=np.nan)
        return np.ascontiguousarray(rows)
    return arrow_rows.matrix(arrow_rows.as_arrow(table), columns)


def _array(given: Given) -> np.ndarray:
    """An array (p, n) of float64. Small ones are copied, as the user may reuse their memory."""
    given = without_masks(given, "it")
    array = to_numpy(given) if foreign(given) else np.asarray(given)
    if array.ndim != 2 or array.dtype.kind not in "biufO" or array.shape[1] == 0:
        raise ValueError(
            f"it must be a table, or an array of numbers with two dimensions, got "
            f"{type(given).__name__} of shape {array.shape} and type {array.dtype}"
        )
    small = 8 * array.size < SMALL
    return np.array(array, dtype=np.float64, order="C", copy=True if small else None)


def _weights(own: Given | None, p: int) -> np.ndarray | None:
    if own is None:
        return None
    own = without_masks(own, "weights")
    weights = np.array(to_numpy(own) if foreign(own) else own, dtype=np.float64)
    if weights.shape != (p,):
        raise ValueError(f"its weights have the shape {weights.shape}, but it has {p} rows")
    return weights


def _listed(labels: Sequence[Hashable]) -> str:
    shown = ", ".join(str(label) for label in labels[:20])
    return shown if len(labels) <= 20 else f"{shown} and {len(labels) - 20} more"
