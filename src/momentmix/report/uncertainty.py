"""The section on how sure the parameters are."""

from __future__ import annotations

from functools import partial
from html import escape

import numpy as np

from momentmix.report.parts import Cell, Column, Section, component_cell, table
from momentmix.summary import (
    Component,
    FitSummary,
    Uncertainty,
    components,
    mean_and_deviation,
    names_of,
    percent,
    rows_for_errors,
    telling_features,
)

#: Columns of the data whose means are shown with standard errors. Chosen so that the table fits on
#: the page.
_MOST_COLUMNS = 8


def uncertainty_section(report: FitSummary) -> Section | None:
    """Weights with intervals, and means with standard errors."""
    found = report.uncertainty
    if found is None:
        estimator, X = report.estimator, report.X
        if estimator is None or X is None or rows_for_errors(estimator, len(X)):
            return None
        words = "They would take longer than the fit: standard_errors(X) of the estimator has them."
        return Section("uncertainty", "How sure the parameters are", f"<p>{words}</p>")
    mixture = report.mixture
    names, shown = names_of(mixture), telling_features(mixture, _MOST_COLUMNS)
    columns: list[Column[Component]] = [
        ("component", lambda part: component_cell(part.number)),
        ("weight", partial(_weight_cell, found)),
    ]
    columns += [(names[i], partial(_mean_cell, found, i)) for i in shown]
    of = f", for the {len(shown)} columns that tell most" if len(shown) < len(names) else ""
    words = (
        "With other rows from the same source, the parameters would have come out a little "
        "different. The table has the weight of each component with its 95 % interval, and the "
        f"mean of each column ± its standard error{of}."
    )
    doubt = ""
    if found.doubt:
        doubt = f"<p><b>Not to be trusted here:</b> {escape(_sentence(found.doubt))}</p>"
    return Section(
        "uncertainty",
        "How sure the parameters are",
        f"<p>{escape(words)}</p>{doubt}" + table("Uncertainty", columns, components(mixture)),
    )


def _weight_cell(found: Uncertainty, part: Component) -> Cell:
    j = part.number
    low, high = found.low.weights[j], found.high.weights[j]
    ends = f"{percent(low)} to {percent(high)}" if np.isfinite(low + high) else "not known"
    return Cell(part.weight, f"{100 * part.weight:.1f} % <small>{ends}</small>")


def _mean_cell(found: Uncertainty, feature: int, part: Component) -> Cell:
    mean, error = part.mean[feature], found.errors.means[part.number, feature]
    if not np.isfinite(error):
        return Cell(mean, f"{mean:.4g} <small>± ?</small>")
    shown, width = mean_and_deviation(mean, error)
    return Cell(mean, f"{shown} <small>± {width}</small>")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))
