"""``momentmix select``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from momentmix.cli.choosing import (
    ComponentsHelp,
    CovarianceHelp,
    CriterionOption,
    choices_document,
    compare_rows,
    show_choices,
    wanted,
)
from momentmix.cli.console import Debug, Json, aside, note, plain_errors, show_json
from momentmix.cli.error_bars import ErrorsOption
from momentmix.cli.fit import prior_setting
from momentmix.cli.fitted import warnings_as_notes
from momentmix.cli.gaps import Missing, gaps_option
from momentmix.cli.opening import Files
from momentmix.cli.outliers import OutliersOption, outlier_setting, outliers_document
from momentmix.cli.reading import read_rows
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import check_output
from momentmix.selection import why_no_more
from momentmix.summary import counted, outliers_of


@reads_tables
def select(
    files: Files,
    tables: Callable[[], TableOptions],
    components: Annotated[str, typer.Option("-k", "--components", help=ComponentsHelp)] = "auto",
    covariance: Annotated[str, typer.Option(help=CovarianceHelp)] = "auto",
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
    prior: Annotated[
        str,
        typer.Option(
            help="How firmly covariances are held together: auto, cv, none or a number of rows."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="The seed of all that is random.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare numbers of components and shapes, and tell which fits best.

    For instance:

    `momentmix select data.csv`

    `momentmix select data.csv -k 1..8 --covariance full,diag --criterion icl --save model.json`
    """
    with plain_errors(debug):
        check_output(save, files, (".json",))
        check_output(picture, files, (".png", ".svg", ".pdf"))
        asked = wanted(components, covariance, criterion)
        settings: dict[str, Any] = {
            "random_state": seed,
            "prior": prior_setting(prior),
            "outliers": outlier_setting(outliers),
        }
        rows = read_rows(files, tables(), gaps_option(missing), errors=errors)
        begin = time.perf_counter()
        with warnings_as_notes() as notes:
            found = compare_rows(rows, asked, settings | {"seeds": seeds})
        seconds = time.perf_counter() - begin
        best = found.chosen
        odd = None
        if settings["outliers"] is not None:
            odd = outliers_of(best.fit.mixture_, rows.X, rows.errors, rows.numbers)
        if save is not None:
            best.fit.mixture_.named(rows.names).save(save)
        if picture is not None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(6, 4), layout="constrained")
            found.plot(figure.subplots())
            figure.savefig(picture)
        limit = why_no_more(found.table, len(rows.X), found.criterion)
        remarks = [*rows.notes, *notes, *([limit] if limit else [])]
        if as_json:
            show_json(
                {
                    "source": rows.source,
                    "rows": len(rows.X),
                    "seconds": seconds,
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
            aside(
                f"best by {found.criterion.upper()}: "
                f"{counted(best.n_components, 'component')}, {best.covariance_type} covariances"
            )
            for remark in [*([odd.sentence] if odd else []), *remarks]:
                note(remark)
            for what, path in (("model", save), ("picture", picture)):
                if path is not None:
                    aside(f"{what}: {path}")
        if any(choice.fit.interrupted_ for choice in found.table):
            raise KeyboardInterrupt  # after the best fit so far was saved
