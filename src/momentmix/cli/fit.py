"""``momentmix fit``."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import numpy as np
import typer

from momentmix.cli.choosing import (
    ComponentsHelp,
    CovarianceHelp,
    CriterionOption,
    Wanted,
    choices_document,
    compare_rows,
    show_choices,
    wanted,
)
from momentmix.cli.console import (
    Debug,
    Json,
    JsonValue,
    aside,
    by_option,
    err,
    in_terms_of_options,
    note,
    out,
    plain_errors,
    show_json,
    working,
)
from momentmix.cli.errors import ErrorsOption
from momentmix.cli.gaps import Missing, gaps_option
from momentmix.cli.opening import TABLES
from momentmix.cli.outliers import (
    OutlierSetting,
    OutliersOption,
    outlier_setting,
    outliers_document,
)
from momentmix.cli.reading import Rows, read_rows
from momentmix.cli.show import mixture_document, show_mixture
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import check_output
from momentmix.covariance import CovarianceName
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.estimators.settings import check_mixture_settings
from momentmix.files.query_table import is_query
from momentmix.selection import Choice, Selection
from momentmix.summary import FitSummary, Origin


class Settings(TypedDict):
    """Parameters of MomentMixture that the command sets."""

    covariance_type: CovarianceName
    order: int | Literal["auto"]
    random_state: int
    max_iter: int
    tol: float
    prior: float | Literal["auto", "cv"] | None
    outliers: OutlierSetting


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
        int | None, typer.Option(help="The highest order to match, where moments are fitted.")
    ] = None,
    compare_em: Annotated[
        bool, typer.Option("--compare-em", help="Fit scikit-learn's EM too, from ten starts.")
    ] = False,
    max_iter: Annotated[int, typer.Option(help="The most iterations of a solver.")] = 200,
    tol: Annotated[
        float, typer.Option(help="Stop when the mean log-likelihood gains less than this.")
    ] = 1e-6,
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
        check_output(output, (".json",))
        check_output(report, (".html",))
        if report is not None:
            import momentmix.report  # noqa: F401  (what it lacks is better known before the fit)
        options, gaps = tables(), gaps_option(missing)
        asked = wanted(components, covariance, criterion)
        settings: Settings = {
            "covariance_type": "full" if len(asked.types) > 1 else asked.types[0],
            "order": "auto" if order is None else order,
            "random_state": seed,
            "max_iter": max_iter,
            "tol": tol,
            "prior": prior_setting(prior),
            "outliers": outlier_setting(outliers),
        }
        with in_terms_of_options():
            check_mixture_settings(
                MomentMixture(1 if asked.number is None else asked.number, **settings)
            )
        if Path(files[0]).suffix.lower() == ".npz" and not is_query(files[0]):
            if len(files) > 1 or options != TableOptions():
                raise ValueError("give one file of moments alone; its columns are chosen already")
            if compare_em:
                raise ValueError("--compare-em needs the rows; moments are not enough for EM")
            if errors is not None:
                raise ValueError("--errors needs the rows; moments have no errors of their own")
            if settings["outliers"] != "none":
                raise ValueError("--outliers needs the rows; moments do not tell one from another")
            found, summary = fit_moments(Path(files[0]), asked.number, settings)
        else:
            rows = read_rows(files, options, gaps, errors=errors)
            if compare_em:
                _check_for_em(rows, settings["outliers"])
            found, summary = fit_rows(rows, asked, settings)
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
            raise KeyboardInterrupt  # after the best so far has been kept


def _check_for_em(rows: Rows, outliers: OutlierSetting) -> None:
    """Refuse what scikit-learn's EM cannot take."""
    if outliers != "none":
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
    """The model and the page about it, where they were asked for."""
    if output is not None:
        summary.mixture.save(output)
    if report is not None:
        from momentmix.report import write_report

        with working("writing the report"):
            write_report(report, summary, output)


def fit_rows(rows: Rows, asked: Wanted, settings: Settings) -> tuple[MomentMixture, FitSummary]:
    """A fit with a given number of components, or the best of those that are compared."""
    choices: list[Choice] = []
    least = 1 if asked.numbers is None else asked.numbers[0]
    if least > len(rows.X):
        raise ValueError(
            f"-k {least} asks for more components than {rows.source} has rows ({len(rows.X)})"
        )
    if len(rows.X) < 2:
        raise ValueError(f"{rows.source}: a mixture needs two rows at least, and there is one")
    begin = time.perf_counter()
    with in_terms_of_options(), warnings_as_notes() as notes:
        if asked.number is None:
            others = {name: value for name, value in settings.items() if name != "covariance_type"}
            selection = compare_rows(rows, asked, others)
            found, choices = selection.best, selection.table
        else:
            found = MomentMixture(asked.number, verbose=int(err.is_terminal), **settings)
            found.fit(rows.X, noise_covariance=rows.noise)
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
            _origin(settings, found.covariance_type_),
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
) -> tuple[MomentMixture, FitSummary]:
    """A fit to the moments in a file."""
    if number is None:
        raise ValueError(
            "-k auto needs rows: the BIC is not known from moments; give a number and one shape"
        )
    moments = MomentTensors.load(path)
    begin = time.perf_counter()
    with in_terms_of_options(), warnings_as_notes() as notes:
        found = MomentMixture(number, verbose=int(err.is_terminal), **settings)
        found.fit_moments(moments)
    seconds = time.perf_counter() - begin
    return found, FitSummary(
        found.mixture_,
        path.name,
        moments=moments,
        seconds=seconds,
        notes=notes,
        collapsed=list(found.collapsed_),
        origin=_origin(settings, found.covariance_type_),
        estimator=found,
    )


def _origin(settings: Settings, covariance: str) -> Origin:
    """What it takes to make a fit again."""
    program, *arguments = sys.argv
    known = Path(program).name in ("momentmix", "momentmix.exe", "__main__.py")
    return Origin(
        command=shlex.join(["momentmix", *arguments]) if known else None,
        seed=settings["random_state"],
        settings={
            "covariances": covariance,
            "prior": "none" if settings["prior"] is None else str(settings["prior"]),
            "outliers": str(settings["outliers"]),
            "order of moments": str(settings["order"]),
            "most iterations": str(settings["max_iter"]),
            "tolerance": f"{settings['tol']:g}",
        },
    )


def show_summary(summary: FitSummary) -> None:
    """What a person reads after a fit."""
    if summary.choices and out.is_terminal:  # a pipe gets one table
        show_choices(Selection(summary.choices, summary.criterion))
    show_mixture(summary.mixture)
    value = summary.log_likelihood
    if value is not None:
        bic = "no BIC" if summary.collapsed else f"BIC {summary.bic(value):,.2f}"
        aside(f"log-likelihood {value:,.2f}, {bic}, {summary.seconds:.2g} s")
    for rival in summary.rivals:
        aside(f"{rival.name}: log-likelihood {rival.log_likelihood:,.2f}, {rival.seconds:.2g} s")
    if summary.outliers is not None:
        note(summary.outliers.sentence)
    for remark in summary.remarks:
        note(remark)


def summary_document(summary: FitSummary) -> dict[str, JsonValue]:
    """What ``--json`` prints."""
    value, origin = summary.log_likelihood, summary.origin
    return {
        "source": summary.source,
        "rows": summary.rows,
        "rows_dropped": 0 if origin is None else origin.rows_dropped,
        "left_out": {} if origin is None else dict(origin.left_out),
        "gaps": {column.name: column.gaps for column in summary.columns if column.gaps},
        "seconds": summary.seconds,
        "log_likelihood": value,
        "aic": None if value is None or summary.collapsed else summary.aic(value),
        "bic": None if value is None or summary.collapsed else summary.bic(value),
        "mixture": mixture_document(summary.mixture),
        "outliers": outliers_document(summary.outliers),
        **sureness_document(summary),
        "moments": [match._asdict() for match in summary.matches],
        "tests": [test._asdict() for test in summary.tests or ()],
        "choices": choices_document(summary.choices),
        "rivals": [rival._asdict() for rival in summary.rivals],
        "remarks": summary.remarks,
    }


def sureness_document(summary: FitSummary) -> dict[str, JsonValue]:
    """How sure the parameters are, and how sure rows are of their components."""
    sure, rows = summary.sureness, summary.certainty
    document: dict[str, JsonValue] = {"uncertainty": None, "classification": None}
    if sure is not None:
        document["uncertainty"] = {
            "standard_errors": sure.errors._asdict(),
            "interval_95": {"low": sure.low._asdict(), "high": sure.high._asdict()},
            "doubt": sure.doubt,
        }
    if rows is not None:
        document["classification"] = {
            "relative_entropy": rows.relative_entropy,
            "uncertainty": rows.uncertainty,
            "sure_rows": rows.sure,
            "doubtful_rows": int(rows.doubtful.sum()),
            "rows_of_components": rows.taken,
        }
    return document


@contextmanager
def warnings_as_notes() -> Iterator[list[str]]:
    """Warnings of a fit as sentences, each once; known when the block has ended."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for warning in caught:
        text = by_option(str(warning.message))
        text = text[:1].upper() + text[1:] + "." * (not text.endswith("."))
        if text not in notes:
            notes.append(text)


def prior_setting(text: str) -> float | Literal["auto", "cv"] | None:
    words: dict[str, Literal["auto", "cv"] | None] = {"auto": "auto", "cv": "cv", "none": None}
    if text in words:
        return words[text]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--prior is auto, cv, none or a number of rows, got {text!r}") from None
