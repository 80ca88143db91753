"""``momentmix compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentmix.cli.console import Debug, Json, note, plain_errors, show_json, show_table, working
from momentmix.cli.reading import Columns, column_names, is_table, read_distribution
from momentmix.summary import Match, moment_match

_Operand = Annotated[Path, typer.Argument(help="a model (.json), moments (.npz) or a table")]


def compare(
    a: _Operand,
    b: _Operand,
    order: Annotated[int | None, typer.Option(help="compare orders up to this; 4 if cheap")] = None,
    columns: Columns = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """How far apart the moments of two models are, or of a model and data.

    About the mean of B and in units of its standard deviations, order by order. Columns are
    matched by name where both have names. Where B is a table, there is also the distance that
    sampling alone leads one to expect.

    Example: `momentmix compare model.json data.csv --order 4`
    """
    with plain_errors(debug):
        if order is not None and order < 1:
            raise ValueError(f"--order must be at least 1, got {order}")
        P, Q = _read_both(a, b, column_names(columns))
        with working("comparing moments"):
            matches = moment_match(P, Q, order)
        if as_json:
            show_json({"a": str(a), "b": str(b), "orders": [match._asdict() for match in matches]})
            return
        known = any(np.isfinite(match.noise) for match in matches)
        heads = ["order", "distance", "of B's moment"] + ["sampling", "ratio"] * known
        show_table(f"{a} against {b}", heads, [_row(match, known) for match in matches])
        if any(match.ratio > 3 for match in matches):
            note("a ratio far above 1 is more than sampling explains.")


def _read_both(a: Path, b: Path, columns: list[str] | None) -> tuple[Any, Any]:
    """Both, the same columns of them. A model or moments come first: they have no others."""
    first, second = sorted((a, b), key=is_table)
    one, names = read_distribution(first, columns)
    other, theirs = read_distribution(second, columns, names)
    if names is not None and theirs is not None and list(names) != list(theirs):
        raise ValueError(
            f"{first} has the columns {', '.join(names)}, but {second} has {', '.join(theirs)}"
        )
    return (one, other) if first is a else (other, one)


def _row(match: Match, known: bool) -> list[str]:
    cells = [str(match.order), f"{match.distance:.4g}"]
    cells.append(f"{100 * match.relative:.3g} %" if np.isfinite(match.relative) else "—")
    if known:
        cells += [f"{match.noise:.4g}", f"{match.ratio:.3g}" if match.noise > 0 else "—"]
    return cells
