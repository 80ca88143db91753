"""``momentmix fit``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from momentmix.cli.choosing import (
    ComponentsHelp,
    CovarianceHelp,
    CriterionOption,
    Wanted,
    compare_rows,
    wanted,
)
from momentmix.cli.console import (
    Debug,
    Json,
    aside,
    err,
    in_terms_of_options,
    one_of,
    plain_errors,
    show_json,
    working,
)
from momentmix.cli.device import DeviceOption, WorkPlace
from momentmix.cli.error_bars import ErrorsOption
from momentmix.cli.fit_blocks import fit_blocks, read_in_blocks
from momentmix.cli.fitted import (
    METHODS,
    TOL,
    FitMethod,
    Settings,
    estimator_of,
    origin_of,
    show_summary,
    summary_document,
    warnings_as_notes,
)
from momentmix.cli.gaps import Missing, gaps_option
from momentmix.cli.opening import TABLES, open_rows
from momentmix.cli.outliers import (
    OutlierSetting,
    OutliersOption,
    outlier_setting,
)
from momentmix.cli.reading import Rows, check_count, rows_of
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import check_output
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.files.query_table import is_query
from momentmix.selection import Choice
from momentmix.summary import FitSummary


@reads_tables
def fit(
    files: Annotated[
        list[str],
        typer.Argument(help=f"{TABLES} Or one file of moments (.npz).", metavar="TABLES"),
    ],
    components: Annotated[
        str,
        typer.Option("-k", "--components", help=ComponentsHelp),
    ],
    tables: Callable[[], TableOptions],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the model to this file (.json).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page about the fit to this file (.html).")
    ] = None,
    covariance: Annotated[str, typer.Option(help=CovarianceHelp)] = "full",
    criterion: CriterionOption = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    outliers: OutliersOption = "none",
    prior: Annotated[
        str,
        typer.Option(
            help="How firmly covariances are held together: auto, cv, none or a number of rows."
        ),
    ] = "auto",
    order: Annotated[
        int | None,
        typer.Option(help="The highest order of moments to match, with --method moments."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How the mixture is fitted: by its likelihood, of which em and newton (fewer "
            "passes over the rows) name the last steps and auto takes one of the two; or by "
            "moments, in one pass."
        ),
    ] = "auto",
    in_blocks: Annotated[
        bool | None,
        typer.Option(
            "--in-blocks/--in-memory",
            help="Read the rows in blocks, again for every step, or all of them into memory; by "
            "default in blocks if they take more than 2 GiB.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = None,
    compare_em: Annotated[
        bool, typer.Option("--compare-em", help="Fit scikit-learn's EM too, from ten starts.")
    ] = False,
    max_iter: Annotated[int, typer.Option(help="Maximum iterations per solver.")] = 200,
    tol: Annotated[
        float, typer.Option(help="Stop when the mean log-likelihood gains less than this.")
    ] = TOL,
    seed: Annotated[int, typer.Option(help="The seed of all that is random.")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a mixture to the rows of tables, or to moments.

    All columns of numbers are used, unless some are chosen; a line names what was left out. Empty
    cells, NA, NaN and null are gaps: of a row with gaps, the values that are there are used.

    For instance:

    `momentmix fit data.csv -k auto --report report.html`

    `momentmix fit moments.npz -k 5 --covariance diag -o model.json`
    """
    with plain_errors(debug):
        check_output(output, files, (".json",))
        check_output(report, files, (".html",))
        if report is not None:
            import momentmix.report  # noqa: F401  (fails before the fit if matplotlib is missing)
        options, gaps, there = tables(), gaps_option(missing), WorkPlace(device)
        asked = wanted(components, covariance, criterion)
        settings: Settings = {
            "covariance_type": "full" if len(asked.types) > 1 else asked.types[0],
            "order": order,
            "random_state": seed,
            "max_iter": max_iter,
            "tol": tol,
            "method": method_setting(method),
            "prior": prior_setting(prior),
            "outliers": outlier_setting(outliers),
        }
        of_moments = Path(files[0]).suffix.lower() == ".npz" and not is_query(files[0])
        if of_moments and settings["method"] == "auto":
            settings["method"] = "moments"
        with in_terms_of_options():
            estimator_of(1 if asked.number is None else asked.number, settings)
        if of_moments:
            if len(files) > 1 or options != TableOptions():
                raise ValueError("give one file of moments alone; its columns are chosen already")
            if compare_em:
                raise ValueError("--compare-em needs the rows; moments are not enough for EM")
            if errors is not None:
                raise ValueError("--errors needs the rows; moments have no errors of their own")
            if settings["outliers"] is not None:
                raise ValueError("--outliers needs the rows; moments do not tell one from another")
            if settings["method"] != "moments":
                raise ValueError(
                    f"--method {settings['method']} needs the rows; moments have no likelihood"
                )
            if in_blocks is not None:
                raise ValueError("--in-blocks and --in-memory are for rows; moments have none")
            if device is not None:
                raise ValueError("--device is for rows; moments are fitted here")
            found, summary = fit_moments(Path(files[0]), asked.number, settings)
        else:
            unfit = _needs_memory(asked, settings, errors, compare_em)
            with open_rows(files, options, errors=errors) as opened:
                if read_in_blocks(opened, in_blocks, unfit):
                    assert asked.number is not None  # else the options were refused above
                    found, summary = fit_blocks(opened, asked.number, settings, gaps, device)
                else:
                    rows = rows_of(opened, gaps)
                    if compare_em:
                        _check_for_em(rows, settings["outliers"])
                    found, summary = fit_rows(rows, asked, settings, there)
            if compare_em:
                with working("fitting scikit-learn's EM from ten starts"):
                    summary.add_scikit_learn(seed)
        _write_files(summary, output, report)
        with working("comparing moments"):
            summary.remarks  # noqa: B018  (computed once, here)
        if as_json:
            show_json(summary_document(summary) | {"converged": found.converged_})
        else:
            show_summary(summary)
            for what, path in (("model", output), ("report", report)):
                if path is not None:
                    aside(f"{what}: {path}")
        if found.interrupted_ or any(choice.fit.interrupted_ for choice in summary.choices):
            raise KeyboardInterrupt  # after the best fit so far was saved


def _needs_memory(
    asked: Wanted, settings: Settings, errors: str | None, compare_em: bool
) -> list[str]:
    """The given options that do not work in blocks."""
    found = {
        "-k auto and ranges (give one number)": asked.numbers is None or len(asked.numbers) > 1,
        "--covariance with several shapes (give one)": len(asked.types) > 1,
        "--errors": errors is not None,
        "--outliers": settings["outliers"] is not None,
        "--prior cv": settings["prior"] == "cv",
        "--compare-em": compare_em,
    }
    return [option for option, given in found.items() if given]


def _check_for_em(rows: Rows, outliers: OutlierSetting) -> None:
    """Raise an error for input that scikit-learn's EM does not accept."""
    if outliers is not None:
        raise ValueError(
            "--compare-em goes without --outliers, of which scikit-learn's EM has none"
        )
    if rows.errors is not None:
        raise ValueError("--compare-em goes without --errors, of which scikit-learn's EM has none")
    if np.isnan(rows.X).any():
        raise ValueError(
            "--compare-em needs rows without gaps, which scikit-learn's EM does not take; "
            "--missing drop leaves the others out"
        )


def _write_files(summary: FitSummary, output: Path | None, report: Path | None) -> None:
    """Write the model and the report, if their files were given."""
    if output is not None:
        summary.mixture.save(output)
    if report is not None:
        from momentmix.report import write_report

        with working("writing the report"):
            write_report(report, summary, output)


def fit_rows(
    rows: Rows, asked: Wanted, settings: Settings, there: WorkPlace
) -> tuple[GaussianMixture | MomentMixture, FitSummary]:
    """Fit the given number of components, or compare several and take the best."""
    choices: list[Choice] = []
    least = 1 if asked.numbers is None else asked.numbers[0]
    check_count(least, len(rows.X), rows.source)
    if asked.number is None and there.device is not None:
        raise ValueError("--device is for one number of components and one shape; give both")
    begin = time.perf_counter()
    with in_terms_of_options(), warnings_as_notes() as notes:
        if asked.number is None:
            if settings["method"] == "moments":
                raise ValueError(
                    "-k auto, ranges and several shapes compare likelihoods, at which --method "
                    "moments does not look; give one number and one shape"
                )
            others = {
                name: value
                for name, value in settings.items()
                if name not in ("covariance_type", "order")
            }
            selection = compare_rows(rows, asked, others)
            found, choices = selection.best, selection.table
        else:
            found = estimator_of(asked.number, settings, int(err.is_terminal))
            found.fit(there.rows(rows.X), noise_covariance=rows.noise)
    seconds = time.perf_counter() - begin
    named = found.mixture_.named(rows.names)
    summary = FitSummary(
        named,
        rows.source,
        X=rows.X,
        seconds=seconds,
        choices=choices,
        criterion=asked.criterion,
        notes=[*rows.notes, *notes],
        collapsed=list(found.collapsed_),
        origin=replace(
            origin_of(settings, found.covariance_type_),
            rows_read=rows.read,
            rows_dropped=rows.dropped,
            rows_empty=rows.empty,
            row_numbers=rows.numbers,
            gaps=rows.gaps,
            left_out=rows.left_out,
            errors=rows.error_columns,
        ),
        errors=rows.errors,
        estimator=found,
    )
    return found, summary


def fit_moments(
    path: Path, number: int | None, settings: Settings
) -> tuple[GaussianMixture | MomentMixture, FitSummary]:
    """Fit the moments in a file."""
    if number is None:
        raise ValueError(
            "-k auto needs rows: the BIC is not known from moments; give a number and one shape"
        )
    moments = MomentTensors.load(path)
    begin = time.perf_counter()
    with in_terms_of_options(), warnings_as_notes() as notes:
        found = estimator_of(number, settings, int(err.is_terminal))
        assert isinstance(found, MomentMixture)
        found.fit_moments(moments)
    seconds = time.perf_counter() - begin
    return found, FitSummary(
        found.mixture_,
        path.name,
        moments=moments,
        seconds=seconds,
        notes=notes,
        collapsed=list(found.collapsed_),
        origin=origin_of(settings, found.covariance_type_),
        estimator=found,
    )


def prior_setting(text: str) -> float | Literal["auto", "cv"] | None:
    words: dict[str, Literal["auto", "cv"] | None] = {"auto": "auto", "cv": "cv", "none": None}
    if text in words:
        return words[text]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--prior is auto, cv, none or a number of rows, got {text!r}") from None


def method_setting(text: str) -> FitMethod:
    return one_of("--method", text, *METHODS)
