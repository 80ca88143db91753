"""The settings of a fit, and its summary when it is done."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from momentmix.cli.choosing import choices_document, show_choices
from momentmix.cli.console import JsonValue, aside, by_option, note, out
from momentmix.cli.outliers import OutlierSetting, outliers_document
from momentmix.cli.show import mixture_document, show_mixture
from momentmix.covariance import CovarianceName
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.selection import Selection
from momentmix.summary import FitSummary, Origin

#: How a fit is made: the first three maximise the likelihood, "moments" matches moments.
FitMethod: TypeAlias = Literal["auto", "em", "newton", "moments"]
METHODS: tuple[FitMethod, ...] = ("auto", "em", "newton", "moments")


#: The tolerance unless another is asked for: that of GaussianMixture.
TOL = 1e-6


class Settings(TypedDict):
    """The parameters of estimators that the command sets."""

    covariance_type: CovarianceName
    order: int | None
    random_state: int
    max_iter: int
    tol: float
    method: FitMethod
    prior: float | Literal["auto", "cv"] | None
    outliers: OutlierSetting


def estimator_of(
    number: int, settings: Settings, verbose: int = 0
) -> GaussianMixture | MomentMixture:
    """The estimator for the settings, with its parameters checked."""
    covariance_type, outliers = settings["covariance_type"], settings["outliers"]
    fit: GaussianMixture | MomentMixture
    if settings["method"] == "moments":
        if settings["prior"] != "auto":
            raise ValueError(
                "--prior is for fits of the likelihood; moments are matched as they are"
            )
        if settings["tol"] != TOL:
            raise ValueError("--tol is for fits of the likelihood; fits of moments have their own")
        fit = MomentMixture(
            number,
            covariance_type=covariance_type,
            order="auto" if settings["order"] is None else settings["order"],
            outliers=outliers,  # type: ignore[arg-type]  # "uniform" is refused below
        )
    else:
        if settings["order"] is not None:
            raise ValueError(
                "--order is for fits of moments: those of a file, or of rows with --method moments"
            )
        fit = GaussianMixture(
            number,
            covariance_type=covariance_type,
            tol=settings["tol"],
            prior=settings["prior"],
            outliers=outliers,
            method=settings["method"],
        )
    fit.random_state, fit.max_iter = settings["random_state"], settings["max_iter"]
    fit.verbose = verbose
    fit._validate_params()
    return fit


def origin_of(settings: Settings, covariance: str) -> Origin:
    """What is needed to repeat a fit."""
    program, *arguments = sys.argv
    known = Path(program).name in ("momentmix", "momentmix.exe", "__main__.py")
    return Origin(
        command=shlex.join(["momentmix", *arguments]) if known else None,
        seed=settings["random_state"],
        settings={
            "covariances": covariance,
            "outliers": str(settings["outliers"] or "none"),
            "method": settings["method"],
            "most iterations": str(settings["max_iter"]),
            **(
                {"order of moments": str(settings["order"] or "auto")}
                if settings["method"] == "moments"
                else {
                    "prior": "none" if settings["prior"] is None else str(settings["prior"]),
                    "tolerance": f"{settings['tol']:g}",
                }
            ),
        },
    )


def show_summary(summary: FitSummary) -> None:
    """Print what a person reads after a fit."""
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
    """The document that ``--json`` prints."""
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
        **uncertainty_document(summary),
        "moments": [match._asdict() for match in summary.matches],
        "tests": [test._asdict() for test in summary.tests or ()],
        "choices": choices_document(summary.choices),
        "rivals": [rival._asdict() for rival in summary.rivals],
        "remarks": summary.remarks,
    }


def uncertainty_document(summary: FitSummary) -> dict[str, JsonValue]:
    """The uncertainty of the parameters and the assignment of the rows, for ``--json``."""
    sure, rows = summary.uncertainty, summary.assignment
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
    """Collect the warnings of a fit as sentences, each once; complete when the block has ended."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for warning in caught:
        text = by_option(str(warning.message))
        text = text[:1].upper() + text[1:] + "." * (not text.endswith("."))
        if text not in notes:
            notes.append(text)
