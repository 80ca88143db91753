"""The command ``momentmix``: moments of files, and fits of tables or of moments."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from momentmix.accumulate import Pass, same_columns
from momentmix.covariance import COVARIANCE_TYPES
from momentmix.estimator import MomentMixture
from momentmix.tables import open_table
from momentmix.tensors import MomentTensors

app = typer.Typer(
    help="Gaussian mixtures through their moments.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

Files = Annotated[list[Path], typer.Argument(help=".npy, .csv, .parquet or Arrow files")]
Columns = Annotated[str | None, typer.Option(help="names of the columns to use: a,b,c")]
Debug = Annotated[bool, typer.Option("--debug", help="show the traceback of an error")]


@app.callback()
def _commands() -> None:
    """Gaussian mixtures through their moments."""


@app.command()
def moments(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", help="where the moments go (.npz)")],
    order: Annotated[int, typer.Option(help="highest order kept")] = 4,
    columns: Columns = None,
    missing: Annotated[str, typer.Option(help="'error', or 'pairwise' to allow gaps")] = "error",
    debug: Debug = False,
) -> None:
    """Read files once and keep their moments.

    Stopped at any time, by Ctrl-C or even kill -9, the same command goes on where it was.

    Example: momentmix moments part-*.parquet --order 4 -o moments.npz
    """
    with _Errors(debug):
        run = Pass(files, order, output, columns=_split(columns), missing=missing)
        if run.resumed:
            _say(f"going on from {run.checkpoint} after {run.moments.count:,} rows", err)
        total = sum(table.size for table in run.tables)
        with _bar() as bar:
            task = bar.add_task("reading", total=total, rows=run.moments.count)
            found = run.run(
                lambda rows, share: bar.update(task, completed=int(share * total), rows=rows)
            )
        kept = f"{found.n_features} columns, orders up to {found.order}"
        _say(f"{output}: {found.count:,} rows, {kept}")


@app.command()
def fit(
    files: Annotated[list[Path], typer.Argument(help="moments (.npz), or tables of rows")],
    components: Annotated[int, typer.Option("-k", "--components", help="number of components")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="where the model goes (.json)")
    ] = None,
    covariance: Annotated[str, typer.Option(help=" | ".join(COVARIANCE_TYPES))] = "full",
    order: Annotated[int | None, typer.Option(help="highest order matched")] = None,
    columns: Columns = None,
    seed: Annotated[int, typer.Option(help="random state")] = 0,
    debug: Debug = False,
) -> None:
    """Fit a mixture to moments, or to the rows of tables.

    Example: momentmix fit moments.npz -k 5 -o model.json
    """
    with _Errors(debug):
        model = MomentMixture(
            components,
            covariance_type=covariance,
            order="auto" if order is None else order,
            random_state=seed,
            verbose=int(err.is_terminal),
        )
        if files[0].suffix == ".npz":
            if len(files) > 1 or columns is not None:
                raise ValueError("give one file of moments alone; its columns are chosen already")
            held = MomentTensors.load(files[0])
            model.fit_moments(held)
            names: Any = held.feature_names
        else:
            tables = [open_table(path, _split(columns)) for path in files]
            same_columns(tables)
            names = tables[0].columns
            pieces = []
            for table in tables:
                for piece in table.pieces():
                    table.refuse_gaps(piece, missing=False)
                    pieces.append(piece.rows)
            if not pieces:
                raise ValueError(f"{files[0]}: no rows")
            model.fit(np.concatenate(pieces))
        _show(model, names)
        if output is not None:
            model.mixture_.save(output)
            _say(f"model: {output}")


def _show(model: MomentMixture, names: Any) -> None:
    table = RichTable(title=f"{len(model.weights_)} components: mean ± standard deviation")
    table.add_column("weight", justify="right")
    names = names or [f"x{i}" for i in range(model.means_.shape[1])]
    shown = min(len(names), 8)
    for name in names[:shown]:
        table.add_column(str(name), justify="right")
    matrices = model.mixture_.atoms.covariance.matrices()
    for j in np.argsort(-model.weights_):
        spread = np.sqrt(np.diag(matrices[min(j, len(matrices) - 1)]))[:shown]
        cells = [f"{m:.4g} ± {s:.2g}" for m, s in zip(model.means_[j], spread, strict=False)]
        table.add_row(f"{model.weights_[j]:.4f}", *cells)
    out.print(table)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def _say(message: str, console: Console = out) -> None:
    """One line as it is, however wide the terminal."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def _split(columns: str | None) -> list[str] | None:
    return None if columns is None else [name.strip() for name in columns.split(",")]


class _Errors:
    """What a user did wrong, or a file has wrong, as one line; the rest as it is."""

    def __init__(self, debug: bool) -> None:
        self.debug = debug

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            _fail("interrupted", 130)
        known = (ValueError, TypeError, OSError, MemoryError, zipfile.BadZipFile)
        if error is None or self.debug or not isinstance(error, known):
            return
        _fail(str(error) or type(error).__name__, 1)


def _fail(message: str, code: int) -> NoReturn:
    err.print(f"momentmix: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(code)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
