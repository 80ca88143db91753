"""Tables for papers: the components, and the numbers of components that were compared.

Latent profile analyses report for each number of classes the log-likelihood, the information
criteria, the entropy, the average posterior probability of each class (AvePP) and the smallest
class, and for the chosen number the means with intervals. A table is a pandas DataFrame, Markdown
or LaTeX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from momentmix.selection import Choice
from momentmix.summary.components import components, readable
from momentmix.summary.rows import assignment_of

if TYPE_CHECKING:
    import pandas as pd

    from momentmix.summary.fit_summary import FitSummary

#: A number, or an estimate with its interval, or a word.
Entry: TypeAlias = "float | tuple[float, float, float] | str | None"
_LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"−": "$-$", "\\": r"\textbackslash{}"})


class PaperTable(NamedTuple):
    """A table with a caption, whose cells are numbers, estimates with intervals, or words."""

    caption: str
    heads: list[str]
    rows: list[list[Entry]]

    def to_frame(self) -> pd.DataFrame:
        """A DataFrame of numbers; an interval is two more columns, ``low`` and ``high``."""
        import pandas as pd

        columns: dict[str, list[object]] = {}
        for head, *cells in zip(self.heads, *self.rows, strict=True):
            ranged = any(isinstance(cell, tuple) for cell in cells)
            for k, end in enumerate(("", " low", " high")[: 3 if ranged else 1]):
                columns[head + end] = [c[k] if isinstance(c, tuple) else c for c in cells]
        return pd.DataFrame(columns)

    def to_markdown(self) -> str:
        """A table in Markdown, as GitHub and Quarto read it."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self._text()]
        escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
        return "\n".join(f"| {' | '.join(x)} |" for x in escaped) + f"\n\n: {self.caption}\n"

    def to_latex(self) -> str:
        """A table in LaTeX, with the rules of the package booktabs."""
        lines = [[cell.translate(_LATEX) for cell in line] for line in [self.heads, *self._text()]]
        head, *body = (" & ".join(line) + r" \\" for line in lines)
        inside = "\n".join([r"\toprule", head, r"\midrule", *body, r"\bottomrule"])
        return (
            "\\begin{table}\n"
            f"\\caption{{{self.caption.translate(_LATEX)}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(self.heads) - 1)}}}\n{inside}\n"
            "\\end{tabular}\n\\end{table}\n"
        )

    def _text(self) -> list[list[str]]:
        return [[_text(cell) for cell in row] for row in self.rows]


def _text(cell: Entry) -> str:
    if isinstance(cell, tuple):
        value, low, high = map(readable, cell)
        return f"{value} [{low}, {high}]" if np.isfinite(cell[1]) else value
    if cell is None or isinstance(cell, str):
        return cell or "—"
    return str(cell) if isinstance(cell, int) else readable(cell)


def components_table(fit: FitSummary) -> PaperTable:
    """Weights and means with 95 % intervals, the rows that each takes, and its AvePP.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(2, random_state=0).fit(X[:300, :2])
    >>> from momentmix.summary import FitSummary, components_table
    >>> table = components_table(FitSummary.from_estimator(gm, X[:300, :2]))
    >>> len(table.to_frame())
    2
    """
    sure, mixture, rows = fit.uncertainty, fit.mixture, fit.assignment
    nothing = np.full((mixture.n_components, mixture.n_features), np.nan)
    low, high = (nothing, nothing) if sure is None else (sure.low.means, sure.high.means)
    low, high = fit.units.to_data(low), fit.units.to_data(high)
    heads = ["class", "share", *(["rows", "AvePP"] if rows else []), *fit.units.columns]
    table: list[list[Entry]] = []
    for part in components(mixture):
        j = part.number
        ends = (np.nan, np.nan) if sure is None else (sure.low.weights[j], sure.high.weights[j])
        of_rows = [int(rows.taken[j]), float(rows.mean_probability[j])] if rows else []
        means = zip(fit.units.to_data(part.mean[None])[0], low[j], high[j], strict=True)
        estimates = [tuple(map(float, one)) for one in ((part.weight, *ends), *means)]
        table.append([j, estimates[0], *of_rows, *estimates[1:]])  # type: ignore[list-item]
    known = sure is not None and bool(np.isfinite(low).any())
    caption = f"The {mixture.n_components} classes of {fit.source}: shares and means"
    caption += (
        " with 95 % intervals" * known + ", rows taken and their average posterior "
        "probability (AvePP)" * bool(rows) + "."
    )
    if fit.units:
        logged = [x for x, log in zip(fit.units.columns, fit.units.logs, strict=True) if log]
        caption += f" Of {', '.join(logged)} it is the median, fitted in logarithms."
    return PaperTable(caption, heads, table)


def choices_table(
    choices: Sequence[Choice], X: np.ndarray, errors: np.ndarray | None = None
) -> PaperTable:
    """What papers report of each number of classes that was compared on rows X (p, n).

    SABIC is -2 log L + k log((N + 2) / 24) for k parameters and N rows, and AvePP that of the class
    whose rows are least surely its own.
    """
    heads = ["classes", "covariances", "log-likelihood", "parameters", "AIC", "BIC", "SABIC",
             "entropy", "least AvePP", "smallest class", "BLRT p"]  # fmt: skip
    tested = any(choice.p_value is not None for choice in choices)
    N = float(np.sum(~np.isnan(X).all(axis=1)))
    table: list[list[Entry]] = []
    for c in choices:
        sabic = -2 * c.log_likelihood + c.n_parameters * float(np.log((N + 2) / 24))
        ll, aic, bic, sabic = (round(x, 1) for x in (c.log_likelihood, c.aic, c.bic, sabic))
        least = float(np.nanmin(assignment_of(c.fit.mixture_, X, errors).mean_probability))
        p = c.p_value if c.p_value is None or c.p_value >= 0.001 else "< .001"
        row: list[Entry] = [c.n_components, c.covariance_type, ll, c.n_parameters, aic, bic, sabic,
               c.relative_entropy, least, c.smallest / N, p]  # fmt: skip
        table.append(row if tested else row[:-1])
    caption = (
        f"Numbers of classes compared on {N:,.0f} rows. SABIC is the sample-size adjusted BIC, "
        "entropy the relative entropy, AvePP the average posterior probability of a class, and the "
        "smallest class a share of the rows."
    )
    return PaperTable(caption, heads if tested else heads[:-1], table)
