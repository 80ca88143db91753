"""The sections on the data: moments, tests of fit, other fits, outliers, columns."""

from __future__ import annotations

from functools import partial
from html import escape

import numpy as np

from momentmix.goodness.comparison import Match
from momentmix.report.parts import (
    Cell,
    Column,
    Section,
    decimal_cell,
    known_cell,
    mark,
    name_html,
    number_cell,
    plain_cell,
    signed,
    table,
)
from momentmix.selection import Choice, Criterion, best_choice
from momentmix.summary.components import counted, fine_percent, listed, names_of, percent, readable
from momentmix.summary.fit_summary import MOST_TESTED_ROWS, FitSummary
from momentmix.summary.origin import Origin
from momentmix.summary.rows import ColumnSummary, Outlier

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
            ("expected from sampling", lambda match: number_cell(match.noise, 3)),
            ("ratio", _ratio_cell),
        ]
    words = (
        " A ratio of about 1 or less is as good as this number of rows allows; far above 1 the "
        "mixture misses something: order 3 is skewness, order 4 the weight of tails. A dash stands "
        "where one row makes up nearly all of a moment, so that nothing can be said of the others."
        + " “Too few rows” stands where the distance is most of the moment, and yet no more than "
        "another draw of so many rows could change it: these rows do not tell if it is matched."
        * any(match.untold for match in matches)
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


def _ratio_cell(match: Match) -> Cell:
    if match.untold:
        return Cell(match.ratio, "too few rows")
    return known_cell(match.ratio, _distance_text)


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
    types = list(dict.fromkeys(choice.covariance_type for choice in choices))
    if len(types) > 1:
        which += f" with {best.covariance_type} covariances"
        columns.insert(
            0,
            (
                "covariances",
                lambda choice: Cell(
                    types.index(choice.covariance_type), escape(choice.covariance_type)
                ),
            ),
        )
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


def goodness_section(report: FitSummary, picture: str) -> Section | None:
    """Sentences on whether the rows differ from the mixture by more than chance."""
    tests = report.tests
    if tests is None:
        return None
    words = (
        "Each row is measured from its component, in units of that component's covariance, and the "
        "mean, the widths, the skewness and the tails of all rows together are compared with those "
        "that the mixture would have. A small p says that chance hardly explains the difference; "
        "a large p says that these rows show none."
    )
    if np.sum(np.isfinite(tests.p_values)) > 1:
        words += " With several tests, expect an occasional p below 0.05 by chance."
    columns = " of the " in tests.rows
    if columns or (report.rows is not None and report.rows > MOST_TESTED_ROWS):
        words += f" {tests.rows}, drawn at random, are tested."
    if columns:
        words += " All columns would take longer than the fit: moment_test tests them."
    if report.has_gaps:
        words += " For this, gaps are filled at random, given the other values of the row."
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in tests.sentences)
    return Section(
        "fit", "Does it fit", f"<p>{words}</p>" + beside(f"<ul>{sentences}</ul>", picture)
    )


#: Columns of the data whose values the table shows. Chosen so that the table fits on the page.
_MOST_COLUMNS = 6


def outliers_section(report: FitSummary, picture: str) -> Section | None:
    """The section for fits that look for outliers."""
    found = report.outliers
    if found is None:
        return None
    if found.rows == 0:
        return Section("outliers", "Outliers", f"<p>{escape(found.sentence)}</p>")
    words = (
        f"{found.sentence} They are in the background of the mixture, a density that is the same "
        f"everywhere and has a share of {fine_percent(found.share)}. So they count neither for the "
        "components nor for what the rest of the page says of rows and their moments, and there is "
        "no test of fit."
    )
    shown = len(found.worst)
    what = f"Here are the {shown} that lie" if shown < found.rows else "Those come first that lie"
    of_table = (
        f"{what} farthest out. A row is measured from its nearest component, in standard deviations"
        " of that component, and the table says in which column it lies farthest off. Where that is"
        " not far, no single value is odd but several of them together."
    )
    names = names_of(report.mixture)
    if len(names) > _MOST_COLUMNS:
        of_table += f" Values are those of the {_MOST_COLUMNS} columns that show outliers best."

    def deviations(row: Outlier) -> Cell:
        far = row.deviations
        return Cell(far, signed(far)) if abs(far) < 1000 else number_cell(far, 3)

    def value(feature: int, row: Outlier) -> Cell:
        return plain_cell(row.values[feature])

    columns: list[Column[Outlier]] = [
        ("row", lambda row: Cell(row.number, f"{row.number:,}")),
        ("farthest off in", lambda row: Cell(row.feature, name_html(names[row.feature]))),
        ("deviations", deviations),
        ("nearest", lambda row: Cell(row.component, mark(row.component))),
    ]
    columns += [(names[i], partial(value, i)) for i in sorted(found.features[:_MOST_COLUMNS])]
    body = beside(table("Outliers", columns, found.worst, words=[1]), picture)
    return Section("outliers", "Outliers", f"<p>{escape(words)}</p><p>{escape(of_table)}</p>{body}")


#: Columns that a sentence names for each reason. It affects the length of the text alone.
_MOST_NAMED = 20


def columns_section(report: FitSummary) -> Section | None:
    """A section for fits with rows, or with a known origin."""
    columns, origin = report.columns, report.origin or Origin()
    words = [
        f"{_rows_words(origin, report.rows)} {_left_out(origin)}".strip(),
        _gaps_words(columns, report),
        _errors_words(origin, report),
        _cost_words(columns),
    ]
    told = "".join(f"<p>{escape(word)}</p>" for word in words if word)
    if not columns and not told:
        return None
    return Section("columns", "The columns", told + (_columns_table(columns) if columns else ""))


def _rows_words(origin: Origin, used: int | None) -> str:
    """How many of the rows that were read were used."""
    if origin.rows_read is None:
        return ""
    if origin.rows_dropped == 0:
        return f"All {counted(origin.rows_read, 'row')} were used."
    one = origin.rows_dropped == 1
    what = "no value" if origin.rows_dropped == origin.rows_empty else "gaps"
    have = f"has {what} and was" if one else f"have {what} and were"
    left = "" if used is None else f", so that {counted(used, 'row')} were used"
    return f"Of {counted(origin.rows_read, 'row')}, {origin.rows_dropped:,} {have} left out{left}."


def _gaps_words(columns: list[ColumnSummary], report: FitSummary) -> str:
    """How many cells of the rows used have no value."""
    X = report.X
    if X is None or not report.has_gaps:
        return ""
    empty = np.isnan(X)
    cells, total = int(empty.sum()), X.size
    partly = int((empty.any(axis=1) & ~empty.all(axis=1)).sum())
    where = f", in {counted(partly, 'row')}"
    if report.of_all is not None:  # X is a sample of all rows
        cells, total = (
            sum(column.gaps for column in columns),
            sum(column.rows for column in columns),
        )
        where = ""
    most = max(columns, key=lambda column: column.gap_share)
    return (
        f"{counted(cells, 'cell')} of {total:,} ({percent(cells / total)}) "
        f"{'is a gap' if cells == 1 else 'are gaps'}{where}; column "
        f"“{most.name}” has the most, {percent(most.gap_share)}. Of a row with gaps, the values "
        "that are there were used. This is right if whether a value is missing depends only on "
        "values that are not."
    )


def _errors_words(origin: Origin, report: FitSummary) -> str:
    """Which columns hold the error bars, and how the fit used them."""
    if report.errors is None:
        return ""
    pairs = [f"“{value}” (in “{error}”)" for value, error in origin.errors.items()]
    of = f" of {listed(pairs, _MOST_NAMED)}" if pairs else ""
    return (
        f"The standard errors{of} were taken into account: the mixture describes the values as "
        "they would be without errors."
    )


def _cost_words(columns: list[ColumnSummary]) -> str:
    """An explanation of the last columns of the table."""
    told = [column for column in columns if np.isfinite(column.known)]
    least = min(told, key=lambda column: column.known, default=None)
    if least is None or least.known >= 1:
        return ""
    errors = any(column.error_share for column in columns)
    gaps = any(np.isfinite(column.gaps_known) for column in columns)
    words = "The table says what this costs, in shares of the variance of each column."
    if gaps:
        words += (
            " “Gaps known” is how much of it the other values of a row tell, on average, where "
            "there is a gap."
        )
    if errors:
        words += (
            " “Errors” is how much of the variance of the values their errors explain; more than "
            "100 % is more than there is."
        )
    return words + (
        " “Known” is what a row tells of the column, on average over all rows: all of it where "
        f"there is {'an exact' if errors else 'a'} value. It is least for “{least.name}”, "
        f"{percent(least.known)}."
    )


def _left_out(origin: Origin) -> str:
    """The columns that were not used, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    nameless = 0
    for name, reason in origin.left_out:
        if name.strip():
            reasons.setdefault(reason, []).append(f"“{name}”")
        else:
            nameless += 1
    groups = [f"{listed(names, _MOST_NAMED)} ({reason})" for reason, names in reasons.items()]
    if nameless:
        groups.append(f"{'one' if nameless == 1 else f'{nameless:,}'} without a name")
    were = "Left out this column:" if len(origin.left_out) == 1 else "Left out these columns:"
    return f"{were} {listed(groups, len(groups))}." if groups else ""


def _columns_table(columns: list[ColumnSummary]) -> str:
    heads: list[Column[ColumnSummary]] = [
        ("column", lambda column: Cell(columns.index(column), name_html(column.name))),
        ("mean", lambda column: number_cell(column.mean)),
        ("standard deviation", lambda column: number_cell(column.deviation)),
        ("minimum", lambda column: plain_cell(column.minimum)),
        ("median", lambda column: plain_cell(column.median)),
        ("maximum", lambda column: plain_cell(column.maximum)),
    ]
    if any(column.gaps for column in columns):
        heads.append(("gaps", _gaps_cell))
    if any(np.isfinite(column.gaps_known) for column in columns):
        heads.append(("gaps known", lambda column: known_cell(column.gaps_known, percent)))
    if any(column.error_share for column in columns):
        heads.append(("errors", lambda column: known_cell(column.error_share or np.nan, percent)))
    if any(column.known < 1 for column in columns):
        heads.append(("known", lambda column: known_cell(column.known, percent)))
    return table("Columns", heads, columns)


def _gaps_cell(column: ColumnSummary) -> Cell:
    share = f" <small>{percent(column.gap_share)}</small>"
    return Cell(column.gaps, f"{column.gaps:,}{share}" if column.gaps else "—")
