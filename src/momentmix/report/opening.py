"""The top of the page: the result in a sentence and in tiles, and the remarks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from momentmix.report.parts import Section, one_decimal
from momentmix.summary import FitSummary, components, counted, percent
from momentmix.summary.assignment import SURE


def opening(report: FitSummary) -> str:
    """The result in a sentence or two."""
    mixture, rows = report.mixture, report.rows
    parts = components(mixture)
    of = f"{counted(rows, 'row')} of " if rows is not None else ""
    words = (
        f"{of}{counted(mixture.n_features, 'column')}, described by "
        f"{counted(mixture.n_components, 'Gaussian component')} with {mixture.covariance_type} "
        "covariances."
    )
    words = words[0].upper() + words[1:]
    if len(parts) > 1:
        words += (
            f" The largest has {percent(parts[0].weight)} of the weight, the smallest "
            f"{percent(parts[-1].weight)}."
        )
    sure = report.assignment
    if sure is not None and sure.rows and len(parts) > 1:
        words += (
            f" {percent(sure.sure / sure.rows).capitalize()} of the rows belong to their component "
            f"with a probability of at least {SURE:g}."
        )
    if report.outliers is not None and report.outliers.rows:
        one = report.outliers.rows == 1
        words += f" {counted(report.outliers.rows, 'row')} belong{'s' * one} to none."
    return f'<p class="lede">{escape(words)}</p>'


def tiles(report: FitSummary) -> str:
    """The main numbers as three, four or six tiles, which fill whole lines."""
    mixture, value = report.mixture, report.log_likelihood
    shown = [] if report.rows is None else [("rows", f"{report.rows:,}")]
    shown += [
        ("columns", f"{mixture.n_features:,}"),
        ("components", f"{mixture.n_components:,}"),
        ("covariances", mixture.covariance_type),
    ]
    if value is not None:
        bic = "—" if len(report.collapsed) else one_decimal(report.bic(value))
        shown += [("log-likelihood", one_decimal(value)), ("BIC", bic)]
    items = "".join(
        f"<li><b>{escape(number)}</b><span>{escape(what)}</span></li>" for what, number in shown
    )
    return f'<ul class="tiles of{len(shown)}">{items}</ul>'


def contents(sections: Sequence[Section]) -> str:
    """Links to the sections."""
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in sections)
    return f'<nav aria-label="On this page">{links}</nav>'


def remarks_section(report: FitSummary) -> Section:
    """The remarks to read before trusting the fit, if there are any."""
    items = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks)
    nothing = '<p class="soft">Nothing unusual was found.</p>'
    return Section("remarks", "Remarks", f'<ul class="remarks">{items}</ul>' if items else nothing)
