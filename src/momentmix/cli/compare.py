"""``momentmix compare``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import Debug, Json, note, plain_errors, show_json, show_table, working
from momentmix.cli.reading import is_table, read_distribution
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.samples import Samples
from momentmix.goodness import LEVEL, TestsByOrder, moment_test
from momentmix.goodness import compare as compared
from momentmix.summary import Distribution, Match, moment_match

_Operand = Annotated[str, typer.Argument(help="A model (.json), moments (.npz) or a table.")]


@reads_tables
def compare(
    a: _Operand,
    b: _Operand,
    tables: Callable[[], TableOptions],
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
    debug: Debug = False,
) -> None:
    """Tell how far apart the moments of two models are.

    Each may also be a table, or moments. Distances are given order by order, about the mean of B
    and in units of its standard deviations. Columns are matched by name if both have names. If B is
    a table, the distance expected from sampling alone is given too. If both are tables, or one is a
    table and the other a model, each order has a p-value: whether chance alone explains the
    difference.

    Example: `momentmix compare model.json data.csv --order 4`
    """
    with plain_errors(debug):
        if order is not None and order < 1:
            raise ValueError(f"--order must be at least 1, got {order}")
        if permutations < 0:
            raise ValueError(f"--permutations must be at least 0, got {permutations}")
        P, Q = _read_both(a, b, tables())
        if fitted and not {type(P), type(Q)} == {Mixture, Samples}:
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
    rows = [D.X for D in (P, Q) if isinstance(D, Samples)]
    models = [D for D in (P, Q) if isinstance(D, Mixture)]
    if not permutations or len(rows) + len(models) < 2 or not rows:
        return None
    try:
        if models:
            return moment_test(
                models[0], rows[0], order, estimated=fitted, n_boot=permutations, random_state=seed
            )
        first, second = rows
        return compared(first, second, order, permutations=permutations, random_state=seed)
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
        columns["ratio"] = [f"{match.ratio:.3g}" if match.noise > 0 else "—" for match in matches]
    if tests is not None:
        values = [*tests.p_values, *[np.nan] * len(matches)][: len(matches)]
        columns["p-value"] = [f"{p:.3g}" if np.isfinite(p) else "—" for p in values]
    return columns
