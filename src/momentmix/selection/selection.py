"""The result of a comparison of fits: a table, its best row, and how to show them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.selection.choice import Choice, Criterion, best_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    "p_value": ("p", "{:.3f}"),
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
        text.append(
            f"* best by {self.criterion}: {chosen.n_components} components, "
            f"{chosen.covariance_type} covariances"
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
