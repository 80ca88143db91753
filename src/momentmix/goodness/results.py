"""Results of tests of moments, as numbers and as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

#: Sentences report a difference if the p-value is at most this. The customary level of 5 %.
LEVEL = 0.05
_ORDINALS = ("", "First", "Second", "Third", "Fourth")
#: What a mixture may miss in each order, and in what tables may differ.
_MISSED = ("", "a mean", "a width or a correlation", "skewness", "heavy or light tails")
_DIFFERING = ("", "means", "widths or correlations", "skewness", "tails")


class OrderTest(NamedTuple):
    """The test of the moments of one order."""

    order: int
    statistic: float  # rows times the squared distance of the moments over order!
    p_value: float  # NaN where there is nothing to test
    sentence: str


def tests_by_order(
    statistics: Sequence[float] | np.ndarray,
    p_values: Sequence[float] | np.ndarray,
    sentence: Callable[[int, float], str],
) -> tuple[OrderTest, ...]:
    """The tests of orders 1, 2, …, from the numbers of orders 0, 1, …"""
    return tuple(
        OrderTest(k, float(statistics[k]), float(p_values[k]), sentence(k, p_values[k]))
        for k in range(1, len(p_values))
    )


@dataclass(frozen=True, repr=False)
class TestsByOrder:
    """Tests of moments, one for each order, which is its key: ``tests[3].p_value``."""

    tests: tuple[OrderTest, ...]
    n_draws: int  # of the null distribution
    rows: str  # in words

    def __iter__(self) -> Iterator[OrderTest]:
        return iter(self.tests)

    def __len__(self) -> int:
        return len(self.tests)

    def __getitem__(self, order: int) -> OrderTest:
        for test in self.tests:
            if test.order == order:
                return test
        raise KeyError(f"orders 1 to {len(self.tests)} were tested, got {order!r}")

    @property
    def p_values(self) -> np.ndarray:
        """The p-values of orders 1, 2, …; NaN where there is nothing to test."""
        return np.array([test.p_value for test in self.tests])

    @property
    def statistics(self) -> np.ndarray:
        """The statistics of orders 1, 2, …"""
        return np.array([test.statistic for test in self.tests])

    @property
    def sentences(self) -> list[str]:
        """What each test says, in words."""
        return [test.sentence for test in self.tests]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}({self.rows}, {self.n_draws} draws)"]
        lines.append("  order  statistic  p-value")
        for test in self.tests:
            statistic, p_value = _cells(test)
            lines.append(f"  {test.order:<7}{statistic:<11}{p_value}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{test.order}</td>"
            + "".join(f"<td>{cell}</td>" for cell in _cells(test))
            + f'<td style="text-align:left">{escape(test.sentence)}</td></tr>'
            for test in self.tests
        )
        heads = "".join(f"<th>{head}</th>" for head in ("order", "statistic", "p-value", ""))
        return (
            f"<table><caption>{type(self).__name__}: {escape(self.rows)}</caption>"
            f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        )


class MomentTest(TestsByOrder):
    """The result of :func:`momentmix.moment_test`: whether a mixture has the moments of rows."""


class Comparison(TestsByOrder):
    """The result of :func:`momentmix.compare`: whether two tables have the same moments."""


class FeatureTest(NamedTuple):
    """The test of the moments of one feature."""

    feature: int  # its position
    name: str | None
    statistic: float
    p_value: float

    @property
    def words(self) -> str:
        """What sentences call the feature."""
        return f"feature {self.feature}" if self.name is None else repr(self.name)


@dataclass(frozen=True, repr=False)
class Drift:
    """The result of :func:`momentmix.drift`: whether a window still fits a mixture.

    Attributes
    ----------
    statistic : float
        The squared distance of the moments, in units of their sampling errors. On average it is
        ``moments`` if nothing has moved.
    p_value : float
        The chance of so large a statistic if nothing has moved.
    moments : int
        The number of moments that were compared.
    rows : float
        How many rows of equal weight the window is worth.
    tests : tuple of OrderTest
        One for each order: whether anything has moved that the lower orders do not determine.
    features : tuple of FeatureTest
        One for each feature: whether its own moments have moved.
    """

    statistic: float
    p_value: float
    moments: int
    rows: float
    tests: tuple[OrderTest, ...]
    features: tuple[FeatureTest, ...]

    @property
    def ratio(self) -> float:
        """The statistic over ``moments``: about 1 if nothing has moved, for windows of any size."""
        return self.statistic / self.moments

    @property
    def sentence(self) -> str:
        """What the test says, in words."""
        short = p_words(self.p_value)
        if self.p_value > LEVEL:
            return f"The rows are as the mixture has them: {short}."
        feature = min(self.features, key=lambda test: (test.p_value, -test.statistic))
        order = min(self.tests, key=lambda test: np.nan_to_num(test.p_value, nan=1.0))
        return (
            f"The rows have moved: {short}, most in {feature.words}, and most in their "
            f"{_named(order.order).lower()}."
        )

    def __repr__(self) -> str:
        lines = [f"Drift({self.rows:,.6g} rows, {self.moments} moments)"]
        lines.append(f"  {'':<14}statistic  p-value")
        found = [("all", self.statistic, self.p_value)]
        found += [(f"order {test.order}", test.statistic, test.p_value) for test in self.tests]
        found += [(test.words, test.statistic, test.p_value) for test in self.features]
        for name, statistic, p_value in found:
            lines.append(f"  {name:<14}{statistic:<11.4g}{p_value:.3g}")
        return "\n".join(lines)


def order_sentence(order: int, p_value: float) -> str:
    """The result for one order of a window, in words."""
    name = _named(order)
    if np.isnan(p_value):
        return f"{name}: they follow from the lower orders, so there is nothing to test."
    what = "no sign that they have moved" if p_value > LEVEL else "they have moved"
    return f"{name}: {p_words(p_value)}, {what}."


def fit_sentence(order: int, p_value: float, excess: float) -> str:
    """The result for one order of a fit, in words; ``excess`` > 0 means heavy tails."""
    name = _named(order)
    if np.isnan(p_value):
        which = "the fit itself" if order < 2 else "a fit of free covariances"
        return f"{name}: {which} matches them, so there is nothing to test."
    short = f"{name}: {p_words(p_value)}"
    if p_value > LEVEL:
        missed = _MISSED[order] if order < len(_MISSED) else "anything"
        return f"{short}, no sign of {missed} that the mixture misses."
    return f"{short}, {_found(order, excess)}."


def comparison_sentence(order: int, p_value: float) -> str:
    """The result for one order of two tables, in words."""
    short = f"{_named(order)}: {p_words(p_value)}"
    what = _DIFFERING[order] if order < len(_DIFFERING) else "shape"
    if p_value > LEVEL:
        return f"{short}, no sign that the tables differ in their {what}."
    return f"{short}, the tables differ in their {what}."


def p_words(p_value: float) -> str:
    """A p-value for a sentence."""
    return f"p = {p_value:.2g}"


def _cells(test: OrderTest) -> tuple[str, str]:
    """The statistic and the p-value as text; dashes for an order that is not tested."""
    if np.isnan(test.p_value):
        return "—", "—"
    return f"{test.statistic:.4g}", f"{test.p_value:.3g}"


def _named(order: int) -> str:
    if order < len(_ORDINALS):
        return f"{_ORDINALS[order]} moments"
    return f"Moments of order {order}"


def _found(order: int, excess: float) -> str:
    known = {
        1: "the means of the data are not those of the mixture",
        2: "the data have widths or correlations that the mixture has not",
        3: "the data are skewed in a way that the mixture is not",
        4: f"the data have {'heavier' if excess > 0 else 'lighter'} tails than the mixture",
    }
    return known.get(order, "the data have a shape that the mixture has not")
