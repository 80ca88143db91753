"""``momentmix moments`` keeps the moments of tables, and ``momentmix compare`` compares moments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import momentmix as mm
from momentmix.cli.console import (
    Json,
    check_output,
    err,
    note,
    one_of,
    reading_bar,
    say,
    show_json,
    show_table,
    working,
)
from momentmix.cli.input import (
    Files,
    choose,
    is_table,
    open_files,
    read_distribution,
    tell_left_out,
)
from momentmix.cli.options import DeviceOption, TableOptions, WorkPlace, command
from momentmix.files.folders import refuse_input

if TYPE_CHECKING:
    from momentmix.distributions.moment_tensors import Gaps
    from momentmix.goodness import Distribution, Match, TestsByOrder


@command
def moments(
    files: Files,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the moments to this file (.npz).")
    ],
    tables: TableOptions,
    order: Annotated[int, typer.Option(help="The highest order of moments to keep.")] = 4,
    missing: Annotated[
        str,
        typer.Option(
            help="Rows with gaps: drop leaves them out, error refuses them, and pairwise takes "
            "every moment over the rows that have its numbers."
        ),
    ] = "drop",
    device: DeviceOption = None,
) -> None:
    """Read tables once and keep their moments.

    Stopped at any time, by Ctrl-C or even kill -9, the same command goes on where it was.

    Example: `momentmix moments part-*.parquet --order 4 -o moments.npz`
    """
    from momentmix.distributions.moment_tensors import Pass, checkpoint_path

    if any(name == "-" for name in files):
        raise ValueError("moments reads files, so that it can go on after a stop; - is none")
    if tables.logs:
        raise ValueError("--log is for fits of rows: moments are kept in the units of the tables")
    check_output(output, files, (".npz",))
    refuse_input(checkpoint_path(output), files)
    options, there = tables, WorkPlace(device)
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


_Operand = Annotated[str, typer.Argument(help="A model (.json), moments (.npz) or a table.")]


@command
def compare(
    a: _Operand,
    b: _Operand,
    tables: TableOptions,
    order: Annotated[
        int | None, typer.Option(help="Compare orders up to this one; by default 4, if cheap.")
    ] = None,
    fitted: Annotated[
        bool, typer.Option("--fitted", help="The model was fitted to the rows of the table.")
    ] = False,
    permutations: Annotated[
        int, typer.Option(help="The number of random draws behind the p-values; 0 for none.")
    ] = 999,
    seed: Annotated[int, typer.Option(help="The seed of the p-values.")] = 0,
    as_json: Json = False,
) -> None:
    """Tell how far apart the moments of two models are.

    Each may also be a table, or moments. Distances are given order by order, about the mean of B
    and in units of its standard deviations. Columns are matched by name if both have names. If B is
    a table, the distance expected from sampling alone is given too. If both are tables, or one is a
    table and the other a model, each order has a p-value: whether chance alone explains the
    difference.

    Example: `momentmix compare model.json data.csv --order 4`
    """
    from momentmix.goodness import LEVEL, moment_match

    if order is not None and order < 1:
        raise ValueError(f"--order must be at least 1, got {order}")
    if permutations < 0:
        raise ValueError(f"--permutations must be at least 0, got {permutations}")
    check_output(None, [a, b])
    P, Q = _read_both(a, b, tables)
    if fitted and not {type(P), type(Q)} == {mm.Mixture, mm.Samples}:
        raise ValueError("--fitted is for a model and the table that it was fitted to")
    with working("comparing moments"):
        matches = moment_match(P, Q, order)
        tests = _tests(P, Q, order, fitted, permutations, seed)
    if as_json:
        orders = [match._asdict() for match in matches]
        if tests is not None:
            for each, test in zip(orders, tests, strict=False):  # costly orders have no test
                each |= {"p_value": test.p_value, "sentence": test.sentence}
        show_json({"a": a, "b": b, "orders": orders})
        return
    shown = _columns(matches, tests)
    show_table(f"{a} against {b}", [*shown], [*zip(*shown.values(), strict=True)])
    for test in tests or ():
        if test.p_value <= LEVEL:
            note(test.sentence)
    if tests is None and any(match.ratio > 3 for match in matches):
        note("a ratio far above 1 is more than sampling explains.")


def _tests(
    P: Distribution, Q: Distribution, order: int | None, fitted: bool, permutations: int, seed: int
) -> TestsByOrder | None:
    """Tests of whether chance explains the differences; None if there can be none."""
    rows = [D.X for D in (P, Q) if isinstance(D, mm.Samples)]
    models = [D for D in (P, Q) if isinstance(D, mm.Mixture)]
    if not permutations or len(rows) + len(models) < 2 or not rows:
        return None
    try:
        if models:
            return mm.moment_test(
                models[0], rows[0], order, estimated=fitted, n_boot=permutations, random_state=seed
            )
        first, second = rows
        return mm.compare(first, second, order, permutations=permutations, random_state=seed)
    except ValueError as error:  # rows are too few, or a component is flat
        note(f"there are no p-values: {error}.")
        return None


def _read_both(a: str, b: str, options: TableOptions) -> tuple[Distribution, Distribution]:
    """Read both with the same columns, models and moments first, as their columns are fixed."""
    first, second = sorted((a, b), key=is_table)
    one, names = read_distribution(first, options)
    other, theirs = read_distribution(second, options, names)
    if names is not None and theirs is not None and list(names) != list(theirs):
        raise ValueError(
            f"{first} has the columns {', '.join(names)}, but {second} has {', '.join(theirs)}"
        )
    return (one, other) if first == a else (other, one)


def _columns(matches: Sequence[Match], tests: TestsByOrder | None) -> dict[str, list[str]]:
    """The cells below each heading, without those on sampling if it is unknown."""
    columns = {
        "order": [str(match.order) for match in matches],
        "distance": [f"{match.distance:.4g}" for match in matches],
        "of B's moment": [
            f"{100 * match.relative:.3g} %" if np.isfinite(match.relative) else "—"
            for match in matches
        ],
    }
    if any(np.isfinite(match.noise) for match in matches):
        columns["sampling"] = [
            f"{match.noise:.4g}" if np.isfinite(match.noise) else "—" for match in matches
        ]
        columns["ratio"] = [
            "too few rows" if match.untold else f"{match.ratio:.3g}" if match.noise > 0 else "—"
            for match in matches
        ]
    if tests is not None:
        values = [*tests.p_values, *[np.nan] * len(matches)][: len(matches)]
        columns["p-value"] = [f"{p:.3g}" if np.isfinite(p) else "—" for p in values]
    return columns
