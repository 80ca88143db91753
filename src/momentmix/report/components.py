"""The sections on the components: where they lie, what tells them apart, and how sure that is."""

from __future__ import annotations

from functools import partial
from html import escape

import numpy as np

from momentmix.plotting import component_colour
from momentmix.report.parts import (
    Cell,
    Column,
    Section,
    component_cell,
    heat,
    heat_scale,
    known_cell,
    mark,
    name_html,
    signed,
    table,
    wide,
)
from momentmix.summary.components import (
    Component,
    Correlation,
    components,
    counted,
    features_by_tellingness,
    listed,
    names_of,
    percent,
    sentence,
    standardised_means,
    strongest_correlations,
    telling_features,
    typical,
)
from momentmix.summary.fit_summary import FitSummary, Uncertainty, rows_for_errors
from momentmix.summary.rows import DOUBTFUL, SURE, Assignment, ConfusedPair

#: Columns of the data that a table of components shows. A round number that fits on a page.
MOST_COLUMNS = 20
#: With more components than the first, the map shows no numbers on phones; with more than the
#: second, the table has smaller letters. Chosen by the widths of a phone and of paper.
_FEW_COMPONENTS, _MANY_COMPONENTS = 8, 10
#: Standard deviations from the overall mean at which colours are full. It affects colours alone.
_STRONGEST = 2.0


def components_section(report: FitSummary, picture: str) -> Section:
    """Mean and deviation of each column in each component, and a picture of them."""
    mixture = report.mixture
    n, m = mixture.n_features, mixture.n_components
    shown = telling_features(mixture, MOST_COLUMNS)
    note = ""
    if n > len(shown):
        note = (
            f'<p class="soft">Of {n} columns, the {len(shown)} in which the components lie '
            "furthest apart. The model file has them all.</p>"
        )
    turned = m <= len(shown) + 2
    how = "" if turned else ' <span class="screen">Press a heading to sort.</span>'
    words = (
        "<p>Mean ± standard deviation of each column in each component, the largest component "
        f"first. Its number and colour are the same all over the page.{how}</p>"
    )
    if report.units:
        logged = np.array(report.units.columns)[report.units.logged]
        words += (
            f"<p>The fit is of the logarithms of {escape(listed(logged))}. Here are their medians, "
            "and where the middle 68 % lie, in the units of the table.</p>"
        )
    if report.shapes:
        words += f"<p>{escape(report.shapes)}</p>"
    body = _transpose(report, shown) if turned else _upright(report, shown)
    return Section("components", "Components", words + note + body + picture)


def _upright(report: FitSummary, shown: list[int]) -> str:
    """A row for each component."""
    names = names_of(report.mixture)
    columns: list[Column[Component]] = [
        ("component", lambda part: component_cell(part.number)),
        ("weight", _weight_cell),
    ]
    if report.members:
        rows = report.members
        columns.append(
            ("rows, about", lambda part: Cell(part.weight, f"{part.weight * rows:,.0f}"))
        )
    plain = report.units.columns
    columns += [(plain[i], partial(_feature_cell, i, names[i])) for i in shown]
    return table("Components", columns, components(report.mixture))


def _transpose(report: FitSummary, shown: list[int]) -> str:
    """A row for each column of the data, and a column for each component."""
    names, parts = names_of(report.mixture), components(report.mixture)
    rows = [_transposed_row("weight", [f"{100 * part.weight:.1f} %" for part in parts], "sums")]
    if report.members:
        about = [f"{part.weight * report.members:,.0f}" for part in parts]
        rows.append(_transposed_row("rows, about", about, "sums"))
    for i in shown:
        cells = [_feature_cell(i, names[i], part).html for part in parts]
        rows.append(_transposed_row(report.units.columns[i], cells))
    vast = " vast" if len(parts) > _MANY_COMPONENTS else ""
    corner = f'<th scope="col">{name_html("component")}</th>'
    return _by_component("Components", f"turned{vast}", corner, parts, "".join(rows))


def _by_component(label: str, kind: str, left: str, parts: list[Component], rows: str) -> str:
    """A table with a column for each component, beside those whose headings are ``left``."""
    heads = "".join(f'<th scope="col">{mark(part.number)}</th>' for part in parts)
    top = f"<thead><tr>{left}{heads}</tr></thead>"
    return wide(f'<table class="{kind}">{top}<tbody>{rows}</tbody></table>', label)


def _transposed_row(name: str, cells: list[str], kind: str = "") -> str:
    inside = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{kind}"><th scope="row">{name_html(name)}</th>{inside}</tr>'


def _weight_cell(part: Component) -> Cell:
    percent, colour = f"{100 * part.weight:.1f}", component_colour(part.number)
    bar = f'<span class="bar"><i style="width:{percent}%;background:{colour}"></i></span>'
    return Cell(part.weight, f"{percent} %{bar}")


def _feature_cell(feature: int, name: str, part: Component) -> Cell:
    mean = part.mean[feature]
    shown, spread = typical(name, mean, part.deviation[feature])
    return Cell(mean, f"{shown} <small>{spread}</small>")


def words_section(report: FitSummary) -> Section | None:
    """The components in words, for readers of nothing else."""
    found = report.segments
    if not found:
        return None
    items = "".join(
        f"<li>{mark(one.number)} <b>{percent(one.weight)}</b>: {escape(one.words)}.</li>"
        for one in found
    )
    return Section("words", "In words", f'<ul class="told">{items}</ul>')


#: Values of other columns that the page shows. A round number; it affects the length alone.
_MOST_SHARES = 25


def others_section(report: FitSummary) -> Section | None:
    """How often values of columns that were not fitted come in each component."""
    tables, parts = report.cross_tables, components(report.mixture)
    if not tables:
        return None
    telling = [(one, v) for one in tables for v in np.flatnonzero(one.effects.any(axis=0))]
    rows = ""
    for one, v in telling[:_MOST_SHARES]:
        cells = f"<td><span>{percent(one.overall[v])}</span></td>"
        for part in parts:
            share, effect = one.shares[part.number, v], one.effects[part.number, v]
            inside = percent(share) if np.isfinite(share) else "—"
            cells += f'<td style="{heat(effect, 1)}"><span>{inside}</span></td>'
        name = name_html(f"{one.column} = {one.values[v]}")
        rows += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    words = (
        "<p>These columns were not fitted. The share of each value among the rows that a component "
        "takes stands beside its share of all rows. Coloured are differences that chance does not "
        "explain (at 5 % for the whole table) and that are large.</p>"
    )
    left = '<th></th><th scope="col">all</th>'
    body = _by_component("Other columns", "heat", left, parts, rows)
    return Section("others", "With the other columns", words + body)


def apart_section(report: FitSummary) -> Section | None:
    """A map of the standardised means, which shows where a component is high or low."""
    mixture = report.mixture
    if mixture.n_components < 2 or mixture.n_features < 2:
        return None
    names, parts, z = names_of(mixture), components(mixture), standardised_means(mixture)
    order = features_by_tellingness(mixture)[:MOST_COLUMNS]
    which = (
        f"the best {len(order)} of {len(names)} columns"
        if len(names) > len(order)
        else "the columns"
    )
    words = (
        "<p>How far the mean of each component lies above or below the mean of all, in standard "
        f"deviations of the column. Here are {which}, sorted by how well they separate the "
        "components.</p>"
    )
    rows = "".join(_map_row(i, names[i], parts, z) for i in order)
    many = " many" if len(parts) > _FEW_COMPONENTS else ""
    body = _by_component("Standardised means", f"heat{many}", "<th></th>", parts, rows)
    scale = heat_scale(_STRONGEST, "standard deviations from the mean of all")
    return Section("apart", "What tells the components apart", words + body + scale)


def _map_row(feature: int, name: str, parts: list[Component], z: np.ndarray) -> str:
    cells = []
    for part in parts:
        value = float(z[part.number, feature])
        shown, _ = typical(name, part.mean[feature], part.deviation[feature])
        title = f"{name} in component {part.number}: {shown}"
        cells.append(
            f'<td style="{heat(value, _STRONGEST)}" title="{escape(title)}">'
            f"<span>{signed(value)}</span></td>"
        )
    return f'<tr><th scope="row">{name_html(name)}</th>{"".join(cells)}</tr>'


#: Rows of the table. A round number; it affects the length of the page alone.
_MOST = 10


def correlations_section(report: FitSummary) -> Section | None:
    """A table of the strongest correlations, and small maps of all if columns are few."""
    mixture = report.mixture
    strongest = strongest_correlations(mixture, _MOST)
    if not strongest:
        return None
    common = mixture.atoms.covariance.common
    names = names_of(mixture)
    whose = "All components share these." if common else "Each component has its own."
    which = "columns" if len(names) > 2 else f"{escape(names[0])} and {escape(names[1])}"
    words = (
        f"<p>How {which} go together among the rows of one component, from −1 to 1. "
        f"{whose} Correlations over all rows can differ, because they also reflect differences "
        "between components.</p>"
    )
    body = table(
        "Strongest correlations",
        _columns(names, common),
        strongest,
        words=(2, 3) if common else (3, 4),
    )
    heading = '<p class="soft">The strongest:</p>' if len(strongest) == _MOST else ""
    return Section("correlations", "Correlations within components", words + heading + body)


def _columns(names: list[str], common: bool) -> list[Column[Correlation]]:
    found: list[Column[Correlation]] = []
    if not common:
        found.append(("component", lambda one: component_cell(one.component or 0)))
    found += [
        ("correlation", lambda one: _colour(one.value)),
        ("among all rows", lambda one: _colour(one.together)),
    ]
    if len(names) > 2:  # the only two are named above
        found += [
            ("of column", lambda one: Cell(one.first, name_html(names[one.first]))),
            ("and column", lambda one: Cell(one.second, name_html(names[one.second]))),
        ]
    return found


def _colour(value: float) -> Cell:
    return Cell(value, f'<span class="chip" style="{heat(value, 1)}">{signed(value, 2)}</span>')


#: Pairs of components that a sentence names. It affects the length of the text alone.
_MOST_PAIRS = 3


def assignment_section(report: FitSummary) -> Section | None:
    """For fits with rows and more than one component."""
    found = report.assignment
    if found is None or found.rows == 0 or report.mixture.n_components < 2:
        return None
    partners = _partners(found.confused_pairs())

    def confused(part: Component) -> Cell:
        pair = partners.get(part.number)
        if pair is None:
            return Cell(0, "—")
        other = pair.second if pair.first == part.number else pair.first
        return Cell(pair.rows, f"{mark(other)} <small>about {_about(pair.rows)}</small>")

    taken, sure = found.taken, found.mean_probability

    def doubtful(part: Component) -> Cell:
        count = int(found.doubtful[part.number])
        share = f" <small>{percent(count / taken[part.number])}</small>" if count else ""
        return Cell(count, f"{count:,}{share}")

    columns: list[Column[Component]] = [
        ("component", lambda part: component_cell(part.number)),
        ("rows taken", lambda part: Cell(taken[part.number], f"{taken[part.number]:,}")),
        ("mean probability", lambda part: known_cell(sure[part.number], "{:.3f}".format)),
        ("doubtful", doubtful),
        ("confused with", confused),
    ]
    body = table("Assignment", columns, components(report.mixture))
    return Section(
        "certainty", "How surely rows belong to them", f"<p>{escape(_words(found))}</p>{body}"
    )


def clusters_section(report: FitSummary, picture: str) -> Section | None:
    """Clusters of several components, where they were asked for."""
    merged = report.clusters
    if merged is None:
        return None
    rows = np.bincount(merged.labels_[merged.labels_ >= 0], minlength=merged.n_clusters_)
    columns: list[Column[int]] = [
        ("cluster", lambda one: Cell(one, f"{one}")),
        ("components", lambda one: Cell(one, " ".join(map(mark, merged.members(one))))),
        ("rows", lambda one: Cell(rows[one], f"{rows[one]:,}")),
    ]
    words = (
        f"<p>A cluster that is not Gaussian takes several components. Those that overlap most are "
        f"merged, step by step: {counted(len(merged.clusters_), 'component')} are "
        f"{counted(merged.n_clusters_, 'cluster')}.</p>"
    )
    body = table("Clusters", columns, range(merged.n_clusters_))
    return Section("clusters", "Clusters of components", words + body + picture)


def _words(found: Assignment) -> str:
    doubtful = int(found.doubtful.sum())
    how_many = counted(doubtful, "row") if doubtful else "no rows"
    are = "is" if doubtful == 1 else "are"
    sentences = [
        "A component takes the rows that belong to it more probably than to any other.",
        f"{percent(found.sure / found.rows).capitalize()} of the rows belong to their component "
        f"with a probability of at least {SURE:g}; {how_many} {are} doubtful, with "
        f"less than {DOUBTFUL:g}.",
    ]
    sentences.append(
        f"The expected share of misassigned rows is {found.uncertainty:.2g}, and the relative "
        f"entropy, which is 1 if all rows are sure, is {found.relative_entropy:.3f}."
    )
    pairs = found.confused_pairs()
    if pairs:
        first, *others = pairs[:_MOST_PAIRS]
        also = [f"{pair.first} and {pair.second} ({_about(pair.rows)})" for pair in others]
        sentences.append(
            f"Components {first.first} and {first.second} are confused most: about "
            f"{_about(first.rows)} of the rows that one of them takes "
            f"{'belongs' if first.rows < 1.5 else 'belong'} to the other"
            + (f"; then come {listed(also)}." if also else ".")
        )
    else:
        sentences.append("No two components are confused with each other.")
    return " ".join(sentences)


def _partners(pairs: list[ConfusedPair]) -> dict[int, ConfusedPair]:
    """For each component the pair with the other that it is most confused with."""
    found: dict[int, ConfusedPair] = {}
    for pair in pairs:
        found.setdefault(pair.first, pair)
        found.setdefault(pair.second, pair)
    return found


def _about(rows: float) -> str:
    return f"{max(rows, 1):,.0f}"


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

    def interval(part: Component) -> Cell:
        low, high = found.low.weights[part.number], found.high.weights[part.number]
        ends = f"{percent(low)} to {percent(high)}" if np.isfinite(low + high) else "not known"
        return Cell(part.weight, f"{100 * part.weight:.1f} % <small>{ends}</small>")

    columns: list[Column[Component]] = [
        ("component", lambda part: component_cell(part.number)),
        ("weight", interval),
    ]
    columns += [(report.units.columns[i], partial(_mean_cell, found, i, names[i])) for i in shown]
    of = f", for the {len(shown)} columns that tell most" if len(shown) < len(names) else ""
    words = (
        "With other rows from the same source, the parameters would have come out a little "
        "different. The table has the weight of each component with its 95 % interval, and the "
        f"mean of each column ± its standard error{of}."
    )
    doubt = ""
    if found.doubt:
        doubt = f"<p><b>Not to be trusted here:</b> {escape(sentence(found.doubt))}</p>"
    return Section(
        "uncertainty",
        "How sure the parameters are",
        f"<p>{escape(words)}</p>{doubt}" + table("Uncertainty", columns, components(mixture)),
    )


def _mean_cell(found: Uncertainty, feature: int, name: str, part: Component) -> Cell:
    mean, error = part.mean[feature], found.errors.means[part.number, feature]
    shown, spread = typical(name, mean, error if np.isfinite(error) else 0.0)
    spread = spread if np.isfinite(error) else "± ?"
    return Cell(mean, f"{shown} <small>{spread}</small>")
