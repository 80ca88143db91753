"""``momentmix moments``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from momentmix.cli.console import Debug, err, note, one_of, plain_errors, reading_bar, say
from momentmix.cli.device import DeviceOption, WorkPlace
from momentmix.cli.opening import Files, choose, open_files, tell_left_out
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import check_output
from momentmix.distributions.accumulate import Gaps, Pass, checkpoint_path
from momentmix.files.folders import refuse_input


@reads_tables
def moments(
    files: Files,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the moments to this file (.npz).")
    ],
    tables: Callable[[], TableOptions],
    order: Annotated[int, typer.Option(help="The highest order of moments to keep.")] = 4,
    missing: Annotated[
        str,
        typer.Option(
            help="Rows with gaps: drop leaves them out, error refuses them, and pairwise takes "
            "every moment over the rows that have its numbers."
        ),
    ] = "drop",
    device: DeviceOption = None,
    debug: Debug = False,
) -> None:
    """Read tables once and keep their moments.

    Stopped at any time, by Ctrl-C or even kill -9, the same command goes on where it was.

    Example: `momentmix moments part-*.parquet --order 4 -o moments.npz`
    """
    with plain_errors(debug):
        if any(name == "-" for name in files):
            raise ValueError("moments reads files, so that it can go on after a stop; - is none")
        check_output(output, files, (".npz",))
        refuse_input(checkpoint_path(output), files)
        options, there = tables(), WorkPlace(device)
        gaps: Gaps = one_of("--missing", missing, "drop", "error", "pairwise")
        with open_files(files, options) as opened, reading_bar() as bar:
            tell_left_out(choose(opened, options.wanted))
            run = Pass(opened, order, output, missing=gaps, device=there.device)
            if run.resumed:
                say(f"going on from {run.checkpoint} after {run.moments.count:,} rows", err)
            total = sum(table.size for table in opened)
            task = bar.add_task("reading", total=total or None, rows=run.moments.count)
            found = run.run(
                lambda rows, share: bar.update(task, completed=int(share * total), rows=rows)
            )
        dropped = run.counted.dropped
        if dropped:
            note(f"{dropped:,} of {found.count + dropped:,} rows have gaps and were left out.")
        kept = f"{found.n_features} columns, orders up to {found.order}"
        say(f"{output}: {found.count:,} rows, {kept}")
