"""Tables that commands write: into a file by the ending of its name, or as CSV to a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from momentmix.cli.console import STANDARD_OUTPUT, in_csv
from momentmix.files.writing import check_writable, naming, written_whole

ENDINGS = (".csv", ".npy", ".parquet", ".arrow")


def check_output(path: Path | None, endings: Sequence[str] = ENDINGS) -> None:
    """Before the work, what would fail after it."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(endings)}")
    check_writable(path)
    if path.suffix.lower() in (".parquet", ".arrow"):
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"{path}: writing {path.suffix} files needs pyarrow: pip install 'momentmix[files]'"
            ) from error


def write_table(path: Path | None, columns: Mapping[str, np.ndarray]) -> None:
    """Columns of numbers or objects under their names; to standard output without a path.

    What is masked in a column stays empty, or is NaN in an array, which takes numbers alone.
    """
    if path is None:
        with naming(STANDARD_OUTPUT):
            shown = [_harmless(column) for column in columns.values()]
            _write_csv(sys.stdout.buffer, map(in_csv, columns), shown)
            sys.stdout.flush()
        return
    ending = path.suffix.lower()
    with written_whole(path) as file:
        if ending == ".csv":
            _write_csv(file, columns, [*columns.values()])
        elif ending == ".npy":
            np.save(file, np.column_stack([*map(_with_nan, columns.values())]), allow_pickle=False)
        else:
            import pyarrow as pa
            from pyarrow import parquet

            arrays = [
                pa.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))
                for column in columns.values()
            ]
            table = pa.table(arrays, names=[*columns])
            if ending == ".parquet":
                parquet.write_table(table, file)
            else:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)


def _harmless(column: np.ndarray) -> np.ndarray:
    """A column for standard output, in which no word acts on a terminal."""
    if column.dtype.kind != "O":
        return column
    cells = [in_csv(cell) if isinstance(cell, str) else cell for cell in column]
    return np.array([*cells, None], dtype=object)[:-1]


def _with_nan(column: np.ndarray) -> np.ndarray:
    if not np.ma.getmaskarray(column).any():
        return np.ma.getdata(column)
    return np.where(np.ma.getmaskarray(column), np.nan, np.ma.getdata(column))


def _write_csv(file: BinaryIO, names: Iterable[str], columns: Sequence[np.ndarray]) -> None:
    """Every float so that it reads back the same."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for start in range(0, len(columns[0]), 10_000):
        parts = [column[start : start + 10_000].tolist() for column in columns]
        writer.writerows(zip(*parts, strict=True))
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    file.write(text.getvalue().encode())
