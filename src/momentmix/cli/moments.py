"""``momentmix moments``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from momentmix.cli.console import Debug, err, plain_errors, reading_bar, say
from momentmix.cli.reading import Columns, column_names
from momentmix.cli.writing import check_output
from momentmix.distributions.accumulate import Pass
from momentmix.distributions.centred_sums import checked_missing


def moments(
    files: Annotated[list[Path], typer.Argument(help=".csv, .parquet, .npy or Arrow files")],
    output: Annotated[Path, typer.Option("-o", "--output", help="where the moments go (.npz)")],
    order: Annotated[int, typer.Option(help="highest order kept")] = 4,
    columns: Columns = None,
    missing: Annotated[str, typer.Option(help="'error', or 'pairwise' to allow gaps")] = "error",
    debug: Debug = False,
) -> None:
    """Read files once and keep their moments.

    Stopped at any time, by Ctrl-C or even kill -9, the same command goes on where it was.

    Example: `momentmix moments part-*.parquet --order 4 -o moments.npz`
    """
    with plain_errors(debug):
        if any(str(path) == "-" for path in files):
            raise ValueError("moments reads files, so that it can go on after a stop; - is none")
        check_output(output, (".npz",))
        run = Pass(
            files, order, output, columns=column_names(columns), missing=checked_missing(missing)
        )
        if run.resumed:
            say(f"going on from {run.checkpoint} after {run.moments.count:,} rows", err)
        total = sum(table.size for table in run.tables)
        with reading_bar() as bar:
            task = bar.add_task("reading", total=total, rows=run.moments.count)
            found = run.run(
                lambda rows, share: bar.update(task, completed=int(share * total), rows=rows)
            )
        kept = f"{found.n_features} columns, orders up to {found.order}"
        say(f"{output}: {found.count:,} rows, {kept}")
