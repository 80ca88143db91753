"""``momentmix impute``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import Debug, aside, note, plain_errors, working
from momentmix.cli.error_bars import ErrorsOption
from momentmix.cli.opening import Files
from momentmix.cli.reading import ModelFile, rows_for
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.use import Output, free_name
from momentmix.cli.writing import check_output, write_table
from momentmix.distributions.mixture import Mixture
from momentmix.files.whole import WholeTable
from momentmix.summary import counted, listed, names_of
from momentmix.support.array import to_numpy


@reads_tables
def impute(
    model: ModelFile,
    files: Files,
    tables: Callable[[], TableOptions],
    output: Output = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Fill the gaps this many times at random, for multiple imputation; a column draw "
            "counts from 1."
        ),
    ] = None,
    errors: ErrorsOption = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all that is random.")] = None,
    debug: Debug = False,
) -> None:
    """Fill the gaps of tables with what a model expects there.

    The table comes out with all its columns; only gaps in the columns of the model are filled, and
    values that are there stay as they are. With --draws the table is repeated that many times, one
    copy below the other, with gaps filled at random given the model and the rest of the row.

    Example: `momentmix impute model.json data.csv -o filled.csv`
    """
    with plain_errors(debug):
        check_output(output, [model, *files])
        if draws is not None and draws < 1:
            raise ValueError(f"--draws must be at least 1, got {draws}")
        if draws is None and seed is not None:
            raise ValueError("--seed goes with --draws; without it nothing is random")
        mixture = Mixture.load(model)
        rows = rows_for(mixture, files, tables(), "keep", errors, whole=True)
        with working("filling"):
            noise = rows.noise
            filled = to_numpy(
                mixture.impute(rows.X, draws, noise_covariance=noise, random_state=seed)
            )
        filled = filled.reshape(draws or 1, *rows.X.shape)
        assert rows.table is not None  # because of whole=True
        # Columns without names get those of the model.
        called = names_of(mixture) if rows.names is None else rows.names
        columns = _columns(rows.table, dict(zip(rows.table.used, called, strict=True)), filled)
        if draws is not None:
            number = np.repeat(np.arange(1, draws + 1), len(rows.X))
            columns = {free_name("draw", columns): number} | columns
        if output is not None and output.suffix.lower() == ".npy":
            columns = _numbers_alone(columns, output)
        elif output is None or output.suffix.lower() == ".csv":
            columns = {name: _as_written(column) for name, column in columns.items()}
        else:
            columns = {name: _with_mask(column) for name, column in columns.items()}
        write_table(output, columns)
        _tell_filled(rows.X)
        if output is not None:
            times = "" if draws is None else f", {counted(draws, 'draw')}"
            aside(f"{output}: {len(rows.X):,} rows{times}")


def _columns(
    table: WholeTable, called: dict[str, str], filled: np.ndarray
) -> dict[str, np.ndarray]:
    """All columns in the order of the table, repeated for each draw of ``filled`` (draws, p, n)."""
    found: dict[str, np.ndarray] = {}
    for name in table.names:
        if name in called:
            found[called[name]] = filled[:, :, table.used.index(name)].reshape(-1)
        else:
            found[name] = np.tile(table.others[name], len(filled))
    return found


def _numbers_alone(columns: dict[str, np.ndarray], output: Path) -> dict[str, np.ndarray]:
    """The columns that an array of numbers can hold; a note names the others."""
    found = {name: _as_numbers(column) for name, column in columns.items()}
    words = [name for name, column in found.items() if column is None]
    if words:
        note(f"{output} holds numbers alone, without {listed(words)}.")
    return {name: column for name, column in found.items() if column is not None}


def _as_numbers(column: np.ndarray) -> np.ndarray | None:
    if column.dtype.kind != "O":
        return column
    if all(cell is None or type(cell) in (int, float) for cell in column):
        return np.array([np.nan if cell is None else cell for cell in column], dtype=float)
    return None


def _as_written(column: np.ndarray) -> np.ndarray:
    """A column for text: gaps are empty, and whole numbers have no decimals if most are whole.

    So a filled column of whole numbers has decimals only where values were filled.
    """
    numbers = _as_numbers(column)
    if numbers is None or numbers.dtype.kind != "f":
        return column
    column, empty = numbers, np.isnan(numbers)
    whole = ~empty & (column == np.floor(column)) & (np.abs(column) < 2**53)
    found = column.astype(object)
    if 2 * whole.sum() > np.sum(~empty):
        found[whole] = [int(value) for value in column[whole]]
    found[empty] = None
    return found


def _with_mask(column: np.ndarray) -> np.ndarray:
    """A column for formats that have empty cells."""
    return np.ma.masked_invalid(column) if column.dtype.kind == "f" else column


def _tell_filled(X: np.ndarray) -> None:
    """Print one line on what was filled."""
    empty = np.isnan(X)
    cells, rows, none = int(empty.sum()), int(empty.any(axis=1).sum()), empty.all(axis=1)
    if cells == 0:
        note("there was no gap to fill.")
        return
    were = "was" if cells == 1 else "were"
    line = f"{counted(cells, 'cell')} in {rows:,} of {len(X):,} rows {were} filled"
    if none.any():
        line += f"; {none.sum():,} of these rows have no value, and the model alone fills them"
    note(f"{line}.")
