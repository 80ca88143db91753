"""Fits that differ in number of components or covariance type: their criteria, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import xlogy

from momentmix.covariance import fitted_type
from momentmix.estimators.base import Table
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.fitting.sweep import is_determined
from momentmix.rows.memory import softmax
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The criterion by which fits are compared.
Criterion: TypeAlias = Literal["bic", "icl", "aic", "cv", "blrt"]
CRITERIA: tuple[Criterion, ...] = ("bic", "icl", "aic", "cv", "blrt")
#: The level of the tests by which "blrt" goes on to more components, which is the customary one.
LEVEL = 0.05


class Choice(NamedTuple):
    """One fit and its criteria. BIC, ICL and AIC are better if lower."""

    n_components: int
    covariance_type: str
    log_likelihood: float  # the total over all rows
    n_parameters: int
    bic: float
    icl: float  # BIC plus twice the entropy of the classification
    aic: float
    cv: float | None  # mean log-likelihood of rows left out, if asked for; higher is better
    relative_entropy: float  # 1 if every row surely belongs to its component; 1 for one component
    smallest: float  # the number of rows in the smallest class
    stability: float | None  # mean adjusted Rand index of two seeds, if there were several
    p_value: float | None  # of the test against one component more, if it was made
    collapsed: int  # the number of collapsed components, which make the BIC meaningless
    fit: GaussianMixture


class ComparedRows(NamedTuple):
    """The rows that fits are compared on."""

    X: np.ndarray  # (p, n); NaN is a gap
    weights: np.ndarray  # (p,), 0 for rows without any value
    noise: Table  # as the user gives it

    @property
    def number(self) -> float:
        """The number of rows, by their weights."""
        return float(self.weights.sum())


def choice_of(fit: GaussianMixture, rows: ComparedRows) -> Choice:
    """The criteria of a fit on some rows."""
    mixture, N = fit.mixture_, rows.number
    R, log_density = softmax(np.array(to_numpy(mixture.log_joint(rows.X, rows.noise))))
    members = rows.weights
    if mixture.background is not None:
        own, log_density = (
            log_density,
            np.logaddexp(log_density, mixture.background.log_joint(rows.X)),
        )
        members = members * np.exp(own - log_density)  # the share of each row that is no outlier
    entropy = -float(members @ np.sum(xlogy(R, R), axis=1))
    classes = np.bincount(R.argmax(axis=1), members, minlength=R.shape[1])
    total, parameters = float(rows.weights @ log_density), fit._n_parameters()
    bic = -2 * total + parameters * float(np.log(N))
    m = mixture.n_components
    return Choice(
        n_components=m,
        covariance_type=fit.covariance_type_,
        log_likelihood=total,
        n_parameters=parameters,
        bic=bic,
        icl=bic + 2 * entropy,
        aic=-2 * total + 2 * parameters,
        cv=None,
        relative_entropy=relative_entropy(entropy, N, m),
        smallest=float(classes.min()),
        stability=None,
        p_value=None,
        collapsed=len(fit.collapsed_),
        fit=fit,
    )


def relative_entropy(entropy: float, rows: float, m: int) -> float:
    """1 - entropy / (rows log m): 1 if all rows surely belong to their components, 0 if none does.

    ``entropy`` is -Σ p log p of the probabilities of m components, over all rows.
    """
    return 1.0 if m == 1 else 1 - entropy / (rows * float(np.log(m)))


def best_choice(choices: Sequence[Choice], criterion: Criterion = "bic") -> Choice:
    """The best by a criterion among the fits with the fewest collapsed components.

    For "blrt" it is, of each type, the first that a test against one component more does not
    reject, and of these the one of lowest BIC.
    """
    fewest = min(choice.collapsed for choice in choices)
    able = [choice for choice in choices if choice.collapsed == fewest]
    if criterion == "blrt":
        able = [_not_rejected([c for c in able if c.covariance_type == name])
                for name in dict.fromkeys(c.covariance_type for c in able)]  # fmt: skip
        criterion = "bic"
    return min(able, key=lambda choice: worth(choice, criterion))


def contradiction(choices: Sequence[Choice], criterion: Criterion) -> str:
    """Why a number is the best by "blrt" although its own test rejects it; else an empty text."""
    best = best_choice(choices, criterion)
    if criterion != "blrt" or best.p_value is None or best.p_value > LEVEL:
        return ""
    m = best.n_components + 1
    (more,) = (c for c in choices
               if (c.n_components, c.covariance_type) == (m, best.covariance_type))  # fmt: skip
    return (
        f"p = {best.p_value:.3g} rejects {best.n_components} against {m} components, but those "
        f"were passed over: {more.fit._why_collapsed}"
    )


def _not_rejected(choices: Sequence[Choice]) -> Choice:
    """The first, by number, that was not rejected; the last if all were."""
    ranked = sorted(choices, key=lambda choice: choice.n_components)
    for choice in ranked:
        if choice.p_value is None or choice.p_value > LEVEL:
            return choice
    return ranked[-1]


def worth(choice: Choice, criterion: Criterion) -> float:
    """The value of a criterion, with the sign that makes lower better."""
    value = getattr(choice, criterion)
    if value is None:
        return np.inf
    return -float(value) if criterion == "cv" else float(value)


def why_no_more(choices: Sequence[Choice], rows: int, criterion: Criterion = "bic") -> str:
    """A sentence if the best number is the largest that was tried; else an empty one.

    ``rows`` is the number of rows that were fitted.
    """
    if against := contradiction(choices, criterion):
        return f"{against}."
    best = best_choice(choices, criterion)
    alike = [choice for choice in choices if choice.covariance_type == best.covariance_type]
    largest = max(alike, key=lambda choice: choice.n_components)
    m, fit = largest.n_components, largest.fit
    if best.n_components < m:
        return ""
    if fit.interrupted_:
        return f"The search was interrupted at {m}; more components may be better still."
    kind, n = fitted_type(best.covariance_type), fit.mixture_.n_features
    if not is_determined(m + 1, rows, n, kind):
        return f"{m} is the largest number of components that so few rows allow."
    return f"{m} is the most components that were tried; more may be better still."


#: The columns that are shown, with their heads and formats; columns without values are left out.
COLUMNS = {
    "covariance_type": ("covariances", "{}"),
    "n_components": ("components", "{}"),
    "log_likelihood": ("log-likelihood", "{:.1f}"),
    "n_parameters": ("parameters", "{}"),
    "bic": ("BIC", "{:.1f}"),
    "icl": ("ICL", "{:.1f}"),
    "aic": ("AIC", "{:.1f}"),
    "cv": ("held out", "{:.4f}"),
    "relative_entropy": ("entropy", "{:.3f}"),
    "smallest": ("smallest", "{:.0f}"),
    "stability": ("stability", "{:.3f}"),
    "p_value": ("p", "{:.2g}"),
    "collapsed": ("collapsed", "{}"),
}


@dataclass(frozen=True, repr=False)
class Selection:
    """Fits that differ in their number of components and covariance type, and the best of them.

    Attributes
    ----------
    table : list of Choice
        One row for each fit. Rows are named tuples, so ``pandas.DataFrame(selection.table)`` makes
        a pandas table of them.
    criterion : {"bic", "icl", "aic", "cv", "blrt"}
        The criterion that compared them.
    """

    table: list[Choice]
    criterion: Criterion = "bic"

    @property
    def chosen(self) -> Choice:
        """The row of the table that is best."""
        return best_choice(self.table, self.criterion)

    @property
    def best(self) -> GaussianMixture:
        """The best fit."""
        return self.chosen.fit

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the criterion against the number of components, with a line for each type.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        # Plotting is a layer above this one, and matplotlib is optional.
        drawn: Axes = import_module("momentmix.plotting").plot_selection(self, ax=ax)
        return drawn

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The table as text: the heads of the columns that have values, and the rows."""
        shown = [name for name in COLUMNS if any(_says(choice, name) for choice in self.table)]
        rows = [[_cell(choice, name) for name in shown] for choice in self.table]
        return [COLUMNS[name][0] for name in shown], rows

    def marks(self) -> list[str]:
        """A star for the best row, and nothing for the others."""
        chosen = self.chosen
        return ["*" if choice is chosen else "" for choice in self.table]

    def __str__(self) -> str:
        heads, rows = self.cells()
        lines = [
            [*heads, ""],
            *([*row, mark] for row, mark in zip(rows, self.marks(), strict=True)),
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
                for line in lines]  # fmt: skip
        chosen = self.chosen
        against = contradiction(self.table, self.criterion)
        text.append(
            f"* best by {self.criterion}: {chosen.n_components} components, "
            f"{chosen.covariance_type} covariances{f' ({against})' if against else ''}"
        )
        return "\n".join(line.rstrip() for line in text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads, rows = self.cells()
        top = "".join(f"<th>{escape(head)}</th>" for head in heads)
        body = "".join(
            ('<tr style="font-weight:bold">' if mark else "<tr>")
            + "".join(f"<td>{escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row, mark in zip(rows, self.marks(), strict=True)
        )
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _says(choice: Choice, name: str) -> bool:
    value = getattr(choice, name)
    return value is not None and not (name == "collapsed" and value == 0)


def _cell(choice: Choice, name: str) -> str:
    value = getattr(choice, name)
    return "" if value is None else COLUMNS[name][1].format(value)
