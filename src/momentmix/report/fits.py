"""The sections on the fit: its moments, the number of components, other fits."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from momentmix.report.parts import Cell, Column, Section, decimal_cell, number_cell, table
from momentmix.selection import Choice, Criterion, best_choice
from momentmix.summary import FitSummary, Match, Rival, readable

#: The sentence about each criterion, up to the number that it chooses.
_DECIDES: dict[Criterion, str] = {
    "bic": "The Bayesian information criterion (BIC) weighs the likelihood against the number of "
    "parameters. It is least for",
    "icl": "The integrated completed likelihood (ICL) is the BIC plus what it costs that rows do "
    "not surely belong to one component. It is least for",
    "aic": "Akaike's information criterion (AIC) weighs the likelihood against the number of "
    "parameters, and charges less for them than the BIC. It is least for",
    "cv": "Rows that were left out of the fit are most likely for",
    "blrt": "A bootstrap likelihood ratio test compares each number with one component more. "
    "At 5 % it no longer rejects",
}


def moments_section(report: FitSummary, picture: str) -> Section | None:
    """The distances between the moments of the mixture and of the data."""
    matches = report.matches
    if not matches:
        return None
    known = any(np.isfinite(match.noise) for match in matches)
    columns: list[Column[Match]] = [
        ("order", lambda match: Cell(match.order, f"{match.order}")),
        ("distance", lambda match: Cell(match.distance, _distance_text(match.distance))),
        ("of the moment", _relative_cell),
    ]
    if known:
        columns += [
            ("expected from sampling", _noise_cell),
            ("ratio", _ratio_cell),
        ]
    words = (
        " A ratio of about 1 or less is as good as this number of rows allows; far above 1 the "
        "mixture misses something: order 3 is skewness, order 4 the weight of tails. A dash stands "
        "where one row makes up nearly all of a moment, so that nothing can be said of the others."
        if known
        else ""
    )
    if report.has_gaps:
        words += (
            " For this, gaps are filled once at random, given the other values of the row, as the "
            "mixture has it; the more gaps there are, the less this says."
        )
    if report.errors is not None:
        words += " The errors of the values are taken out of the moments of the data."
    return Section(
        "moments",
        "How well the moments are matched",
        "<p>The distance between the moments of the mixture and those of the data, about the "
        f"data's mean and in units of its standard deviations.{words}</p>"
        + beside(table("Moments", columns, matches), picture),
    )


def beside(first: str, second: str) -> str:
    """Two things side by side where there is room."""
    return f'<div class="beside">{first}{second}</div>'


def _relative_cell(match: Match) -> Cell:
    percent = f"{readable(100 * match.relative, 2)} %" if match.relative > 1e-9 else "—"
    return Cell(np.nan_to_num(match.relative), percent)


def _noise_cell(match: Match) -> Cell:
    return number_cell(match.noise, 3) if np.isfinite(match.noise) else Cell(0, "—")


def _ratio_cell(match: Match) -> Cell:
    shown = _distance_text(match.ratio) if np.isfinite(match.ratio) else "—"
    return Cell(np.nan_to_num(match.ratio), shown)


def _distance_text(value: float) -> str:
    return readable(value, 3) if value > 1e-9 else "0"  # the rest is rounding


def choices_section(report: FitSummary, picture: str) -> Section | None:
    """The numbers of components that were tried, and the best of them."""
    choices = report.choices
    if not choices:
        return None
    best = best_choice(choices, report.criterion)
    columns: list[Column[Choice]] = [
        ("components", lambda choice: Cell(choice.n_components, f"{choice.n_components}")),
        ("log-likelihood", lambda choice: decimal_cell(choice.log_likelihood)),
        ("parameters", lambda choice: Cell(choice.n_parameters, f"{choice.n_parameters}")),
        ("BIC", lambda choice: decimal_cell(choice.bic)),
        ("ICL", lambda choice: decimal_cell(choice.icl)),
        ("relative entropy", lambda choice: _plain_cell(choice.relative_entropy, 3)),
        ("smallest class", lambda choice: _plain_cell(choice.smallest, 0)),
    ]
    which = f"{best.n_components}"
    if len({choice.covariance_type for choice in choices}) > 1:
        which += f" with {best.covariance_type} covariances"
        columns.insert(0, ("covariances", lambda choice: _type_cell(choices, choice)))
    if report.criterion == "aic":
        columns.append(("AIC", lambda choice: decimal_cell(choice.aic)))
    if report.criterion == "cv":
        columns.append(("rows left out", lambda choice: _plain_cell(choice.cv, 4)))
    if report.criterion == "blrt":
        columns.append(("p-value", lambda choice: _plain_cell(choice.p_value, 3)))
    among = ""
    if any(choice.collapsed for choice in choices):
        columns.append(
            ("collapsed", lambda choice: Cell(choice.collapsed, f"{choice.collapsed or '—'}"))
        )
        fewest = "no component has" if best.collapsed == 0 else "the fewest components have"
        among = f" among the fits in which {fewest} collapsed onto next to nothing"
    return Section(
        "choices",
        "How many components",
        f"<p>{_DECIDES[report.criterion]} {which}{among}. {report.limit}</p>"
        + beside(
            table(
                "Numbers of components",
                columns,
                choices,
                lambda choice: choice is best,
            ),
            picture,
        ),
    )


def _plain_cell(value: float | None, digits: int) -> Cell:
    return Cell(np.nan, "—") if value is None else Cell(value, f"{value:.{digits}f}")


def _type_cell(choices: Sequence[Choice], choice: Choice) -> Cell:
    types = list(dict.fromkeys(one.covariance_type for one in choices))
    return Cell(types.index(choice.covariance_type), escape(choice.covariance_type))


def rivals_section(report: FitSummary) -> Section | None:
    """Other fits of the same rows."""
    if not report.rivals or report.log_likelihood is None:
        return None
    ours = Rival("this fit", report.log_likelihood, report.seconds or 0.0)
    all_fits = [ours, *report.rivals]
    best = max(fit.log_likelihood for fit in all_fits)
    columns: list[Column[Rival]] = [
        ("fit", lambda fit: Cell(all_fits.index(fit), escape(fit.name))),
        ("log-likelihood", lambda fit: decimal_cell(fit.log_likelihood)),
        ("BIC", lambda fit: decimal_cell(report.bic(fit.log_likelihood))),
        ("seconds", lambda fit: Cell(fit.seconds, f"{fit.seconds:.2g}")),
    ]
    return Section(
        "rivals",
        "Against EM",
        "<p>The same rows, number of components and covariance type. A higher log-likelihood, or a "
        "lower BIC, is better, unless a component has collapsed; the prior of this fit gives up a "
        "little of it on the rows that were fitted, for new ones.</p>"
        + table("Other fits", columns, all_fits, lambda fit: fit.log_likelihood == best),
    )
