"""The sections on components: where they lie, and which columns separate them."""

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
    mark,
    name_html,
    signed,
    table,
    wide,
)
from momentmix.summary import (
    Component,
    FitSummary,
    components,
    features_by_tellingness,
    mean_and_deviation,
    names_of,
    readable,
    standardised_means,
    telling_features,
)

#: Columns of the data that a table of components shows. A round number that fits on a page.
MOST_COLUMNS = 20
#: With more columns than this, the table has a row for each column and not for each component.
#: Chosen so that the table fits the width of the page.
_FEW_COLUMNS = 6
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
    turned = len(shown) > _FEW_COLUMNS and m <= len(shown) + 2
    how = "" if turned else ' <span class="screen">Press a heading to sort.</span>'
    words = (
        "<p>Mean ± standard deviation of each column in each component, the largest component "
        f"first. Its number and colour are the same all over the page.{how}</p>"
    )
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
        columns.append(("rows, about", partial(_rows_cell, report.members)))
    columns += [(names[i], partial(_feature_cell, i)) for i in shown]
    return table("Components", columns, components(report.mixture))


def _transpose(report: FitSummary, shown: list[int]) -> str:
    """A row for each column of the data, and a column for each component."""
    names, parts = names_of(report.mixture), components(report.mixture)
    heads = "".join(f'<th scope="col">{mark(part.number)}</th>' for part in parts)
    rows = [_transposed_row("weight", [f"{100 * part.weight:.1f} %" for part in parts], "sums")]
    if report.members:
        about = [f"{part.weight * report.members:,.0f}" for part in parts]
        rows.append(_transposed_row("rows, about", about, "sums"))
    for i in shown:
        rows.append(_transposed_row(names[i], [_feature_cell(i, part).html for part in parts]))
    vast = " vast" if len(parts) > _MANY_COMPONENTS else ""
    return wide(
        f'<table class="turned{vast}"><thead><tr><th scope="col">{name_html("component")}</th>'
        f"{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>",
        "Components",
    )


def _transposed_row(name: str, cells: list[str], kind: str = "") -> str:
    inside = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{kind}"><th scope="row">{name_html(name)}</th>{inside}</tr>'


def _weight_cell(part: Component) -> Cell:
    percent, colour = f"{100 * part.weight:.1f}", component_colour(part.number)
    bar = f'<span class="bar"><i style="width:{percent}%;background:{colour}"></i></span>'
    return Cell(part.weight, f"{percent} %{bar}")


def _rows_cell(rows: int, part: Component) -> Cell:
    return Cell(part.weight, f"{part.weight * rows:,.0f}")


def _feature_cell(feature: int, part: Component) -> Cell:
    mean = part.mean[feature]
    shown, width = mean_and_deviation(mean, part.deviation[feature])
    return Cell(mean, f"{shown} <small>± {width}</small>")


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
    heads = "".join(f'<th scope="col">{mark(part.number)}</th>' for part in parts)
    rows = "".join(_map_row(i, names[i], parts, z) for i in order)
    many = " many" if len(parts) > _FEW_COMPONENTS else ""
    body = wide(
        f'<table class="heat{many}"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>",
        "Standardised means",
    )
    scale = heat_scale(_STRONGEST, "standard deviations from the mean of all")
    return Section("apart", "What tells the components apart", words + body + scale)


def _map_row(feature: int, name: str, parts: list[Component], z: np.ndarray) -> str:
    cells = []
    for part in parts:
        value = float(z[part.number, feature])
        title = f"{name} in component {part.number}: {readable(part.mean[feature])}"
        cells.append(
            f'<td style="{heat(value, _STRONGEST)}" title="{escape(title)}">'
            f"<span>{signed(value)}</span></td>"
        )
    return f'<tr><th scope="row">{name_html(name)}</th>{"".join(cells)}</tr>'
