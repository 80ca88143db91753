"""``momentmix compare``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import Debug, Json, note, plain_errors, show_json, show_table, working
from momentmix.cli.reading import is_table, read_distribution
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.summary import Distribution, Match, moment_match

_Operand = Annotated[Path, typer.Argument(help="A model (.json), moments (.npz) or a table.")]


@reads_tables
def compare(
    a: _Operand,
    b: _Operand,
    tables: Callable[[], TableOptions],
    order: Annotated[
        int | None, typer.Option(help="Compare orders up to this one; by default 4, if cheap.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell how far apart the moments of two models are.

    Each may also be a table, or moments. Distances are given order by order, about the mean of B
    and in units of its standard deviations. Columns are matched by name where both have names.
    Where B is a table, the distance that sampling alone leads one to expect is given beside it.

    Example: `momentmix compare model.json data.csv --order 4`
    """
    with plain_errors(debug):
        if order is not None and order < 1:
            raise ValueError(f"--order must be at least 1, got {order}")
        P, Q = _read_both(a, b, tables())
        with working("comparing moments"):
            matches = moment_match(P, Q, order)
        if as_json:
            show_json({"a": str(a), "b": str(b), "orders": [match._asdict() for match in matches]})
            return
        shown = _columns(matches)
        show_table(f"{a} against {b}", [*shown], [*zip(*shown.values(), strict=True)])
        if any(match.ratio > 3 for match in matches):
            note("a ratio far above 1 is more than sampling explains.")


def _read_both(a: Path, b: Path, options: TableOptions) -> tuple[Distribution, Distribution]:
    """Both, the same columns of them. A model or moments come first: they have no others."""
    first, second = sorted((a, b), key=is_table)
    one, names = read_distribution(first, options)
    other, theirs = read_distribution(second, options, names)
    if names is not None and theirs is not None and list(names) != list(theirs):
        raise ValueError(
            f"{first} has the columns {', '.join(names)}, but {second} has {', '.join(theirs)}"
        )
    return (one, other) if first is a else (other, one)


def _columns(matches: Sequence[Match]) -> dict[str, list[str]]:
    """The cells below each heading; what sampling explains is left out where it is not known."""
    columns = {
        "order": [str(match.order) for match in matches],
        "distance": [f"{match.distance:.4g}" for match in matches],
        "of B's moment": [
            f"{100 * match.relative:.3g} %" if np.isfinite(match.relative) else "—"
            for match in matches
        ],
    }
    if any(np.isfinite(match.noise) for match in matches):
        columns["sampling"] = [f"{match.noise:.4g}" for match in matches]
        columns["ratio"] = [f"{match.ratio:.3g}" if match.noise > 0 else "—" for match in matches]
    return columns
