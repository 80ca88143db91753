"""``momentmix predict``, ``score`` and ``sample``: what a model is for."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import (
    Debug,
    Json,
    aside,
    plain_errors,
    show_json,
    show_table,
    working,
)
from momentmix.cli.errors import ErrorsOption
from momentmix.cli.gaps import Missing, gaps_option, usable_rows
from momentmix.cli.opening import Files
from momentmix.cli.reading import ModelFile, rows_for
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import check_output, write_table
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.predictions import posterior
from momentmix.summary import FitSummary, counted, names_of

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Write to this file (.csv, .npy, .parquet or .arrow), not the screen.",
    ),
]


#: Of the numbers that :func:`likelihoods` gives.
_HEADINGS = {
    "rows": "rows",
    "log_likelihood": "log-likelihood",
    "mean_log_likelihood": "a row",
    "aic": "AIC",
    "bic": "BIC",
}


@reads_tables
def predict(
    model: ModelFile,
    files: Files,
    tables: Callable[[], TableOptions],
    output: Output = None,
    proba: Annotated[
        bool,
        typer.Option("--proba", help="Give the probability of each component, and of outliers."),
    ] = False,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Name the most probable component of every row, and its probability.

    Columns are found by their names, whatever their order; others may be there. Of a row with gaps,
    the values that are there decide. A row without any value has no component, and its cells stay
    empty.

    If the model was fitted with --outliers, rows that more probably than not belong to no component
    get -1, and the probability is that of being an outlier.

    Example: `momentmix predict model.json new.csv -o labels.csv`
    """
    with plain_errors(debug):
        check_output(output)
        mixture = Mixture.load(model)
        gaps = gaps_option(missing)
        rows = rows_for(mixture, files, tables(), gaps, errors)
        told = usable_rows(rows.X, gaps, "get no component")
        some = rows.some(told)
        with working("predicting"):
            labels = np.zeros(len(told), dtype=int)
            R = np.full((len(told), mixture.n_components + 1), np.nan)
            if told.any():
                beyond = mixture.outlier_probability(some.X, some.noise)[:, None]
                R[told] = np.hstack([posterior(mixture, some.X, some.noise) * (1 - beyond), beyond])
                labels[told] = np.where(R[told, -1] > 0.5, -1, R[told, :-1].argmax(axis=1))
        # As a position, -1 is that of the last column, which is that of outliers.
        values = {"component": labels, "probability": R[np.arange(len(R)), labels]}
        if proba:
            values |= {f"p{j}": column for j, column in enumerate(R[:, :-1].T)}
        if proba and mixture.background is not None:
            values["outlier"] = R[:, -1]
        found = {name: np.ma.masked_array(column, ~told) for name, column in values.items()}
        if as_json:
            show_json({name: column.tolist() for name, column in found.items()})
        else:
            write_table(output, found)
        if output is not None:
            beyond, *counts = np.bincount(labels[told] + 1, minlength=mixture.n_components + 1)
            odd = "" if mixture.background is None else f"; {counted(beyond, 'outlier')}"
            by_component = ", ".join(map(str, counts))
            aside(f"{output}: {len(labels):,} rows; by component: {by_component}{odd}")


@reads_tables
def score(
    model: ModelFile,
    files: Files,
    tables: Callable[[], TableOptions],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the log density of every row to this file."),
    ] = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell how likely rows are under a model.

    The answer is the log-likelihood of all rows, its mean, and the AIC and BIC. Of a row with gaps,
    the density is that of the values that are there. A row without any value does not count.

    Example: `momentmix score model.json new.csv`
    """
    with plain_errors(debug):
        check_output(output)
        mixture = Mixture.load(model)
        gaps = gaps_option(missing)
        rows = rows_for(mixture, files, tables(), gaps, errors)
        told = usable_rows(rows.X, gaps, "were left out")
        if not told.any():
            what = "every row has a gap" if gaps == "drop" else "no row has any value"
            raise ValueError(f"{rows.source}: {what}")
        log_density, some = np.ma.masked_array(np.zeros(len(told)), ~told), rows.some(told)
        with working("scoring"):
            log_density[told] = np.asarray(mixture.log_prob(some.X, some.noise))
        if output is not None:
            write_table(output, {"log_density": log_density})
        summary = FitSummary(mixture, rows.source, X=some.X, errors=some.errors)
        values = likelihoods(summary, float(log_density.sum()))
        if as_json:
            show_json(values)
            return
        cells = [f"{values[key]:.6f}".rstrip("0").rstrip(".") for key in _HEADINGS]
        show_table(rows.source, [*_HEADINGS.values()], [cells])


def likelihoods(summary: FitSummary, total: float) -> dict[str, float]:
    """What ``score`` says of rows whose log-likelihood is ``total``."""
    rows = summary.rows or 1
    return {
        "rows": rows,
        "log_likelihood": total,
        "mean_log_likelihood": total / rows,
        "aic": summary.aic(total),
        "bic": summary.bic(total),
    }


def sample(
    model: ModelFile,
    count: Annotated[int, typer.Option("-n", "--rows", help="How many rows to draw.")] = 10,
    output: Output = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Name the component of each row, too.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The seed of all that is random.")] = None,
    debug: Debug = False,
) -> None:
    """Draw random rows from a model.

    Example: `momentmix sample model.json -n 1000 -o new.csv`
    """
    with plain_errors(debug):
        check_output(output)
        mixture = Mixture.load(model)
        if count < 1:
            raise ValueError(f"-n must be at least 1, got {count}")
        X, component = mixture.sample(count, seed)
        columns = dict(zip(names_of(mixture), np.asarray(X).T, strict=True))
        if labels:
            columns[free_name("component", columns)] = component
        write_table(output, columns)
        if output is not None:
            aside(f"{output}: {count:,} rows")


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with as many marks after it as it takes to be another than those that are taken."""
    while name in taken:
        name += "_"
    return name
