"""``momentmix select``, and the numbers and shapes that ``fit -k auto`` compares in that way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
import typer

import momentmix as mm
from momentmix.cli.console import (
    Json,
    JsonValue,
    check_output,
    err,
    note,
    out,
    say,
    show_json,
    show_table,
    tell_written,
    watched,
)
from momentmix.cli.input import Files, TableRows, open_rows, rows_of
from momentmix.cli.options import (
    ErrorsOption,
    Missing,
    OutliersOption,
    PriorOption,
    SeedOption,
    TableOptions,
    command,
    gaps_option,
    outlier_setting,
    outliers_document,
    prior_setting,
)
from momentmix.distributions.units import Units
from momentmix.summary.components import counted

if TYPE_CHECKING:
    from momentmix.covariance import CovarianceName
    from momentmix.selection import Choice, Criterion, Selection

ComponentsOption = Annotated[
    str,
    typer.Option(
        "-k",
        "--components",
        help="The number of components, a range such as 1..10, or auto: the criterion decides.",
    ),
]
CovarianceOption = Annotated[
    str,
    typer.Option(
        "--covariance",
        help="The shape of the components: full, tied, diag, spherical, tied-diag, tied-spherical, "
        "or VEE and the like; several with commas between them, or auto: the criterion decides.",
    ),
]
CriterionOption = Annotated[
    str | None,
    typer.Option(
        "--criterion",
        help="What numbers and shapes are compared by: bic, icl, aic, cv, blrt; bic by default.",
    ),
]


class Asked(NamedTuple):
    """The numbers and types to compare, as the user gave them."""

    numbers: Sequence[int] | None  # None means auto
    types: Sequence[CovarianceName]
    criterion: Criterion

    @property
    def number(self) -> int | None:
        """The number of components if there is nothing to compare, else None."""
        single = self.numbers is not None and len(self.numbers) == 1 and len(self.types) == 1
        return self.numbers[0] if single and self.numbers is not None else None


def wanted(components: str, covariance: str, criterion: str | None) -> Asked:
    """The options as typed, after the checks that need no data."""
    from momentmix.covariance import COVARIANCE_TYPES, SHAPE_NAMES
    from momentmix.selection.criteria import CRITERIA

    if criterion is not None and criterion not in CRITERIA:
        raise ValueError(f"--criterion is one of {', '.join(CRITERIA)}, got {criterion!r}")
    names = COVARIANCE_TYPES if covariance == "auto" else covariance.split(",")
    for name in names:
        if name not in (*COVARIANCE_TYPES, *SHAPE_NAMES):
            raise ValueError(
                f"--covariance is auto or one of {', '.join((*COVARIANCE_TYPES, *SHAPE_NAMES))}, "
                f"or some of them with commas between them, got {covariance!r}"
            )
    types = [cast("CovarianceName", name) for name in names]
    result = Asked(_numbers(components), types, criterion or "bic")
    if criterion is not None and result.number is not None:
        raise ValueError(
            "--criterion compares fits, and there is one; ask for -k auto, a range such as "
            "-k 1..8, or several shapes with --covariance"
        )
    return result


def _numbers(components: str) -> Sequence[int] | None:
    if components == "auto":
        return None
    span = re.fullmatch(r"(\d+)\.\.(\d+)", components)
    if span is not None:
        low, high = int(span[1]), int(span[2])
        if not 1 <= low <= high:
            raise ValueError(f"-k goes up from 1 or more, as in 1..10; got {components!r}")
        return range(low, high + 1)
    try:
        return [int(components)]
    except ValueError:
        raise ValueError(
            f"-k is a whole number, 'auto' or a range such as 1..10, got {components!r}"
        ) from None


def compare_rows(rows: TableRows, asked: Asked, settings: dict[str, Any]) -> Selection:
    """Fit and compare all numbers and types."""

    def tell(choice: Choice) -> None:
        if err.is_terminal:
            kind = f"{choice.covariance_type}, " if len(asked.types) > 1 else ""
            say(f"{kind}{counted(choice.n_components, 'component')}: BIC {choice.bic:,.1f}", err)

    return mm.select(
        rows.X,
        "auto" if asked.numbers is None else asked.numbers,
        asked.types,
        asked.criterion,
        noise_covariance=rows.noise,
        callback=tell,
        **settings,
    )


def in_units_of_data(choices: Sequence[Choice], units: Units, Z: np.ndarray) -> list[Choice]:
    """The choices with the likelihoods of the columns, of which some features are logarithms."""
    shift = float(np.sum(units.log_jacobian(Z)))
    return [
        choice._replace(
            log_likelihood=choice.log_likelihood + shift,
            cv=None if choice.cv is None else choice.cv + shift / len(Z),
            **{name: getattr(choice, name) - 2 * shift for name in ("bic", "icl", "aic")},
        )
        for choice in choices
    ]


def show_choices(selection: Selection) -> None:
    """Print the table of a comparison."""
    heads, rows = selection.cells()
    columns = [[head, *column] for head, column in zip(heads, zip(*rows, strict=True), strict=True)]
    if out.is_terminal:  # where room is scarce
        said = {"AIC": selection.criterion == "aic", heads[0]: len(set(columns[0][1:])) > 1}
        columns = [column for column in columns if said.get(column[0], True)]
    lines = list(zip(*columns, ["best", *selection.marks()], strict=True))
    show_table(f"Fits by {selection.criterion.upper()}", lines[0], lines[1:])


def choices_document(choices: Sequence[Choice]) -> list[JsonValue]:
    """The table for ``--json``."""
    return [
        {name: value for name, value in choice._asdict().items() if name != "fit"}
        for choice in choices
    ]


@command
def select(
    files: Files,
    tables: TableOptions,
    components: ComponentsOption = "auto",
    covariance: CovarianceOption = "full",
    criterion: CriterionOption = None,
    seeds: Annotated[
        int, typer.Option(help="Fit this many times, and tell how similar the classes are.")
    ] = 1,
    save: Annotated[
        Path | None, typer.Option(help="Write the best model to this file (.json).")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the comparison into this file (.png, .svg, .pdf).")
    ] = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    outliers: OutliersOption = "none",
    prior: PriorOption = "auto",
    seed: SeedOption = 0,
    as_json: Json = False,
) -> None:
    """Compare numbers of components and shapes, and tell which fits best.

    For instance:

    `momentmix select data.csv`

    `momentmix select data.csv -k 1..8 --covariance full,diag --criterion icl --save model.json`
    """
    from momentmix.selection import Selection, why_no_more
    from momentmix.summary.rows import outliers_of

    check_output(save, files, (".json",))
    check_output(picture, files, (".png", ".svg", ".pdf"))
    asked = wanted(components, covariance, criterion)
    settings: dict[str, Any] = {
        "random_state": seed,
        "prior": prior_setting(prior),
        "outliers": outlier_setting(outliers),
    }
    with open_rows(files, tables, errors=errors) as opened:
        rows = rows_of(opened, gaps_option(missing))
    with watched(rows.names or ()) as work:
        found = compare_rows(rows, asked, settings | {"seeds": seeds})
    units = Units.of_features(rows.columns)
    found = Selection(in_units_of_data(found.table, units, rows.X), found.criterion)
    best = found.chosen
    odd = None
    if settings["outliers"] is not None:
        odd = outliers_of(best.fit.mixture_, rows.X, rows.errors, rows.origin.row_numbers)
    if save is not None:
        best.fit.mixture_.named(rows.names).save(save)
    if picture is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        found.plot(figure.subplots())
        figure.savefig(picture)
    limit = why_no_more(found.table, len(rows.X), found.criterion)
    remarks = [*rows.notes, *work.notes, *([limit] if limit else [])]
    if as_json:
        show_json(
            {
                "source": rows.source,
                "rows": len(rows.X),
                "seconds": work.seconds,
                "criterion": found.criterion,
                "n_components": best.n_components,
                "covariance_type": best.covariance_type,
                "outliers": outliers_document(odd),
                "choices": choices_document(found.table),
                "remarks": remarks,
            }
        )
    else:
        show_choices(found)
        for remark in [*([odd.sentence] if odd else []), *remarks]:
            note(remark)
        tell_written(
            f"Best by {found.criterion.upper()}: {counted(best.n_components, 'component')} with "
            f"{best.covariance_type} covariances",
            save,
            picture,
        )
    if any(choice.fit.interrupted_ for choice in found.table):
        raise KeyboardInterrupt  # after the best fit so far was saved
