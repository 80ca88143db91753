"""The section on correlations within components, for covariances that are not diagonal."""

from __future__ import annotations

from html import escape

import numpy as np

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
)
from momentmix.summary import (
    Correlation,
    FitSummary,
    components,
    correlation_matrices,
    names_of,
    strongest_correlations,
)

#: Rows of the table. A round number; it affects the length of the page alone.
_MOST = 10
#: Up to this many columns each component has a map, and up to the second number the map has
#: numbers. Chosen so that maps fit side by side on the page.
_MOST_IN_MAPS, _MOST_WITH_NUMBERS = 8, 6


def correlations_section(report: FitSummary) -> Section | None:
    """A table of the strongest correlations, and small maps of all if columns are few."""
    mixture = report.mixture
    matrices, strongest = correlation_matrices(mixture), strongest_correlations(mixture, _MOST)
    if matrices is None:
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
    maps = ""
    if 2 < len(names) <= _MOST_IN_MAPS:
        order = [0] if common else [part.number for part in components(mixture)]
        drawn = "".join(_map(matrices[j], names, None if common else j) for j in order)
        maps = f'<div class="maps">{drawn}</div>{heat_scale(1, "correlation")}'
    heading = "The strongest:" if maps or len(strongest) == _MOST else ""
    return Section(
        "correlations",
        "Correlations within components",
        words + maps + (f'<p class="soft">{heading}</p>' if heading else "") + body,
    )


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


def _map(matrix: np.ndarray, names: list[str], component: int | None) -> str:
    """The lower triangle as coloured cells; each name ends its row and heads its column."""
    n = len(names)
    cells = []
    for i, name in enumerate(names):
        for j in range(i):
            value = float(matrix[i, j])
            number = signed(value, 1) if n <= _MOST_WITH_NUMBERS else ""
            title = escape(f"{names[j]} and {name}: {signed(value, 2)}")
            cells.append(f'<span style="{heat(value, 1)}" title="{title}">{number}</span>')
        cells.append(f'<b style="grid-column:{i + 1} / -1">{escape(name)}</b>')
    size = 2.2 if n <= _MOST_WITH_NUMBERS else 1.3
    whose = "all components" if component is None else mark(component)
    return (
        f'<div class="map"><p>{whose}</p><div class="steps" '
        f'style="grid-template-columns:repeat({n - 1},{size}rem) max-content">{"".join(cells)}'
        "</div></div>"
    )
