"""The section on how surely rows belong to their components."""

from __future__ import annotations

from html import escape

import numpy as np

from momentmix.report.parts import Cell, Column, Section, component_cell, mark, table
from momentmix.summary import (
    DOUBTFUL,
    SURE,
    Assignment,
    Component,
    ConfusedPair,
    FitSummary,
    components,
    counted,
    listed,
    percent,
)

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

    columns: list[Column[Component]] = [
        ("component", lambda part: component_cell(part.number)),
        ("rows taken", lambda part: _count_cell(found.taken[part.number])),
        ("mean probability", lambda part: _probability_cell(found, part.number)),
        ("doubtful", lambda part: _doubtful_cell(found, part.number)),
        ("confused with", confused),
    ]
    body = table("Assignment", columns, components(report.mixture))
    return Section(
        "certainty", "How surely rows belong to them", f"<p>{escape(_words(found))}</p>{body}"
    )


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


def _count_cell(count: int) -> Cell:
    return Cell(count, f"{count:,}")


def _probability_cell(found: Assignment, component: int) -> Cell:
    value, taken = float(found.mean_probability[component]), found.taken[component]
    return Cell(float(np.nan_to_num(value)), f"{value:.3f}" if taken else "—")


def _doubtful_cell(found: Assignment, component: int) -> Cell:
    count, taken = int(found.doubtful[component]), int(found.taken[component])
    share = f" <small>{percent(count / taken)}</small>" if count else ""
    return Cell(count, f"{count:,}{share}")
