"""The components in words: where they are high or low, and what else goes with them.

The other columns were not fitted: words, classes, dates. A cross-table has their values in each
component beside those of all rows. A difference counts if chance does not explain it and if it is
large: at 5 % after Bonferroni's correction for all shares of all tables, and with Cohen's
h = 2 asin √p - 2 asin √q of at least 0.2, which he calls small.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from momentmix.distributions.mixture import Mixture
from momentmix.distributions.units import Units
from momentmix.files.table import is_gap
from momentmix.goodness import LEVEL
from momentmix.summary.components import (
    Component,
    components,
    listed,
    names_of,
    overall_mean_and_deviation,
    percent,
    standardised_means,
    typical,
)

#: Cohen's h of a share worth telling.
LEAST_EFFECT = 0.2
#: A share is compared if chance expects at least this many rows: the customary rule for χ².
_EXPECTED = 5
#: The values of a column that are looked at, the most frequent; and columns of numbers with more
#: are measurements. Round numbers.
_MOST_VALUES, _MOST_NUMBERS = 30, 12
#: A mean is high or low from so many standard deviations of all rows on, and very much so from the
#: second; with a width below the third, all values are alike. Round numbers; they choose words.
_HIGH, _VERY_HIGH, _ALIKE = 0.5, 1.5, 0.01
#: A sentence names shares that differ by at least this much. A round number.
_POINTS = 0.05
#: Columns that a sentence names, fitted and others. It affects the length of the text alone.
_MOST_NAMED = 3
#: How pandas writes that there is no value.
_NO_VALUE = ("NaT", "<NA>")
_ISO_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}.*)?")


class CrossTable(NamedTuple):
    """How often the values of a column that was not fitted come in each component."""

    column: str
    values: list[str]  # the most frequent first
    overall: np.ndarray  # (v,) the share of all rows
    shares: np.ndarray  # (m, v) the share of the rows that a component takes, NaN if it has none
    effects: np.ndarray  # (m, v) Cohen's h, 0 where chance explains it or where it is small


class Segment(NamedTuple):
    """A component in words."""

    number: int
    weight: float
    traits: list[str]  # of columns that were fitted, the most telling first
    relations: list[str]  # to the others

    @property
    def words(self) -> str:
        """What sets it apart, and what goes with it."""
        traits = listed(self.traits) or "near the average of all in every column"
        return "; ".join(filter(None, [traits, ", ".join(self.relations)]))

    @property
    def sentence(self) -> str:
        """The same with its number and its share of the weight."""
        return f"Component {self.number} ({percent(self.weight)}): {self.words}."


def cross_tables(labels: np.ndarray, m: int, others: Mapping[str, np.ndarray]) -> list[CrossTable]:
    """Tables of the other columns that differ between components, the most telling first.

    Parameters
    ----------
    labels : (p,)
        The component that takes each row, -1 for none.
    m : int
        The number of components.
    others : mapping of str to (p,)
        The cells of each column, words or numbers.
    """
    counted = []
    for name, cells in others.items():
        codes, values = _categories(cells)
        told = (codes >= 0) & (labels >= 0)
        if len(values) > 1 and told.any():
            counts = np.zeros((m, len(values)))
            np.add.at(counts, (labels[told], codes[told]), 1.0)
            counted.append((name, values[:_MOST_VALUES], counts))
    compared = m * sum(len(values) for _, values, _ in counted)
    least = float(norm.isf(LEVEL / 2 / max(compared, 1)))
    found = [_cross_table(*one, least) for one in counted]
    found = [table for table in found if np.any(table.effects)]
    return sorted(found, key=lambda table: -float(np.abs(table.effects).max()))


def _cross_table(name: str, values: list[str], counts: np.ndarray, least: float) -> CrossTable:
    """Shares and effects of a table of counts (m, all values), those above the least z alone.

    Of n rows of a component among N, a value of share q is in nq ± √(nq(1-q)(N-n)/(N-1)) by chance.
    """
    rows, N = counts.sum(axis=1, keepdims=True), counts.sum()
    counts = counts[:, : len(values)]
    overall = counts.sum(axis=0) / N
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = counts / rows
        spread = np.sqrt(rows * overall * (1 - overall) * (N - rows) / (N - 1))
        z = (counts - rows * overall) / spread
    h = 2 * np.arcsin(np.sqrt(np.nan_to_num(shares))) - 2 * np.arcsin(np.sqrt(overall))
    sure = (np.abs(z) > least) & (rows * overall >= _EXPECTED) & (np.abs(h) >= LEAST_EFFECT)
    return CrossTable(name, values, overall, shares, np.where(sure, h, 0.0))


def _categories(cells: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The place (p,) of each cell among the values, the most frequent first; -1 for a gap."""
    if cells.dtype.kind in "iuf":
        if len(np.unique(cells[np.isfinite(cells)])) > _MOST_NUMBERS:
            return np.full(len(cells), -1), []
        words = [f"{value:g}" if np.isfinite(value) else "" for value in cells.tolist()]
    else:
        cells = cells.astype(str) if cells.dtype.kind == "M" else cells  # dates
        words = [str(cell).strip() for cell in cells.tolist()]
        words = ["" if is_gap(word, _NO_VALUE) else word for word in words]
    if all(map(_ISO_DATE.fullmatch, filter(None, words))):
        for length in (10, 7, 4):  # days, months or years
            words = [word[:length] for word in words]
            if len({*words}) <= _MOST_NUMBERS:
                break
    values = [value for value, _ in Counter(filter(None, words)).most_common()]
    places = {value: i for i, value in enumerate(values)}
    return np.array([places.get(word, -1) for word in words]), values


def segments(mixture: Mixture, tables: Sequence[CrossTable]) -> list[Segment]:
    """The components in words, the largest first; none if there is only one."""
    found = components(mixture) if mixture.n_components > 1 else []
    return [
        Segment(part.number, part.weight, _traits(mixture, part), _relations(part.number, tables))
        for part in found
    ]


def _traits(mixture: Mixture, part: Component) -> list[str]:
    names, z = names_of(mixture), standardised_means(mixture)[part.number]
    columns = Units.of_features(names).columns
    overall, spread = overall_mean_and_deviation(mixture)
    found = []
    for i in np.argsort(-np.abs(z), kind="stable")[:_MOST_NAMED]:
        if abs(z[i]) < _HIGH:
            break
        value, of_all = (typical(names[i], x[i], spread[i])[0] for x in (part.mean, overall))
        level = ("very " if abs(z[i]) >= _VERY_HIGH else "") + ("high" if z[i] > 0 else "low")
        words = f"{level} {columns[i]} ({value}, all {of_all})"
        if part.deviation[i] < _ALIKE * spread[i]:
            words = f"{columns[i]} always {value} (all {of_all})"
        found.append(words)
    return found


def _relations(component: int, tables: Sequence[CrossTable]) -> list[str]:
    """Of each column the value whose share differs most; rather one that is frequent."""
    best = []
    for table in tables:
        share, of_all = table.shares[component], table.overall
        apart = np.where(table.effects[component] == 0, 0.0, share - of_all)
        at = int(np.argmax(np.where(apart > 0, 2 * apart, -apart)))
        if abs(apart[at]) >= _POINTS:
            how = "seldom" if apart[at] < 0 else "mostly" if share[at] >= 0.5 else "more often"
            words = f"{how} {table.column} = {table.values[at]}"
            words += f" ({percent(share[at])}, all {percent(of_all[at])})"
            best.append((abs(apart[at]), words))
    return [words for _, words in sorted(best, key=lambda one: -one[0])[:_MOST_NAMED]]
