"""``momentmix predict``, ``score`` and ``sample``: uses of a model."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import (
    Debug,
    Json,
    aside,
    out,
    plain_errors,
    reading_bar,
    show_json,
    show_table,
)
from momentmix.cli.device import DeviceOption, WorkPlace
from momentmix.cli.error_bars import ErrorsOption
from momentmix.cli.gaps import GapCount, Missing, gaps_option
from momentmix.cli.opening import Block, Files
from momentmix.cli.reading import ModelFile, rows_at_once, rows_in_blocks
from momentmix.cli.tables import TableOptions, reads_tables
from momentmix.cli.writing import Columns, check_output, table_writer
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.predictions import posterior
from momentmix.summary import FitSummary, counted, names_of
from momentmix.summary.fit import AllRows
from momentmix.support.array import to_numpy

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Write to this file (.csv, .npy, .parquet or .arrow), not the screen.",
    ),
]


#: Numbers in a block of drawn rows, 32 MiB. It affects memory and speed only.
_NUMBERS_DRAWN = 4_000_000
#: More rows are refused as a typing error: they would fill terabytes. A round number.
_MOST_DRAWN = 10**12
#: The headings of the numbers of :func:`likelihoods`.
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
    device: DeviceOption = None,
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
        check_output(output, [model, *files])
        mixture, there = Mixture.load(model), WorkPlace(device)
        gaps, own = gaps_option(missing), there.model(mixture)
        counts, by_label = GapCount(gaps), np.zeros(mixture.n_components + 1, dtype=int)
        gathered: list[Columns] = []  # for JSON, which is one document
        with (
            rows_in_blocks(mixture, files, tables(), errors) as rows,
            nullcontext(gathered.append) if as_json else table_writer(output) as write,
        ):
            for block in rows.blocks(gaps, "predicting", bar=_bar_fits(output, as_json)):
                for part in block.parts(rows_at_once(mixture)):
                    told = counts.usable(part.X)
                    found = predictions(own, part, told, proba, there)
                    labels = found["component"][told].filled()
                    by_label += np.bincount(labels + 1, minlength=len(by_label))
                    write(found)
        counts.tell("get no component")
        if as_json:
            show_json({name: _in_one(gathered, name) for name in gathered[0]})
        elif output is not None:
            beyond, *taken = by_label
            odd = "" if mixture.background is None else f"; {counted(beyond, 'outlier')}"
            by_component = ", ".join(map(str, taken))
            aside(f"{output}: {counts.rows:,} rows; by component: {by_component}{odd}")


def predictions(
    mixture: Mixture, rows: Block, told: np.ndarray, proba: bool, there: WorkPlace
) -> dict[str, np.ma.MaskedArray]:
    """Labels and probabilities of some rows, masked where ``told`` is false."""
    labels, some = np.zeros(len(told), dtype=int), rows.some(told)
    R = np.full((len(told), mixture.n_components + 1), np.nan)
    if told.any():
        X, beyond = there.rows(some.X), np.zeros((len(some.X), 1))
        if mixture.background is not None:
            beyond = mixture.outlier_probability(X, some.noise)[:, None]
        among = to_numpy(posterior(mixture, X, some.noise))
        R[told] = np.hstack([among * (1 - beyond), beyond])
        labels[told] = np.where(R[told, -1] > 0.5, -1, R[told, :-1].argmax(axis=1))
    # The label -1, used as an index, picks the last column, that of outliers.
    values = {"component": labels, "probability": R[np.arange(len(R)), labels]}
    if proba:
        values |= {f"p{j}": column for j, column in enumerate(R[:, :-1].T)}
    if proba and mixture.background is not None:
        values["outlier"] = R[:, -1]
    return {name: np.ma.masked_array(column, ~told) for name, column in values.items()}


def _in_one(parts: Sequence[Columns], name: str) -> list[float | None]:
    """A column of all parts as a list, with None where it is masked."""
    return [cell for part in parts for cell in part[name].tolist()]


def _bar_fits(output: Path | None, elsewhere: bool) -> bool:
    """Whether a progress bar would not mix with a table on the same terminal."""
    return output is not None or elsewhere or not out.is_terminal


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
    device: DeviceOption = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Tell how likely rows are under a model.

    The answer is the log-likelihood of all rows, its mean, and the AIC and BIC. Of a row with gaps,
    the density is that of the values that are there. A row without any value does not count.

    Example: `momentmix score model.json new.csv`
    """
    with plain_errors(debug):
        check_output(output, [model, *files])
        mixture, there = Mixture.load(model), WorkPlace(device)
        gaps, own = gaps_option(missing), there.model(mixture)
        counts, total = GapCount(gaps), 0.0
        with (
            rows_in_blocks(mixture, files, tables(), errors) as rows,
            nullcontext() if output is None else table_writer(output) as write,
        ):
            for block in rows.blocks(gaps, "scoring"):
                for part in block.parts(rows_at_once(mixture)):
                    told = counts.usable(part.X)
                    log_density, some = (
                        np.ma.masked_array(np.zeros(len(told)), ~told),
                        part.some(told),
                    )
                    if told.any():
                        found = own.log_prob(there.rows(some.X), some.noise)
                        log_density[told] = to_numpy(found)
                        total += float(log_density.sum())
                    if write is not None:
                        write({"log_density": log_density})
            source = rows.source
            counts.tell("were left out")
            if counts.left == 0:
                what = "every row has a gap" if gaps == "drop" else "no row has any value"
                raise ValueError(f"{source}: {what}")
        summary = FitSummary(mixture, source, of_all=AllRows(counts.left, total))
        values = likelihoods(summary, total)
        if as_json:
            show_json(values)
            return
        cells = [f"{values[key]:.6f}".rstrip("0").rstrip(".") for key in _HEADINGS]
        show_table(source, [*_HEADINGS.values()], [cells])


def likelihoods(summary: FitSummary, total: float) -> dict[str, float]:
    """The numbers of ``score`` for rows whose log-likelihood is ``total``."""
    rows = summary.rows or 1
    return {
        "rows": rows,
        "log_likelihood": total,
        "mean_log_likelihood": total / rows,
        "aic": summary.aic(total),
        "bic": summary.bic(total),
    }


def _whole_number(text: str | int) -> int:
    """A whole number as typed, possibly with an exponent, as in 1e9."""
    try:
        number = float(text)
        if number == int(number):
            return int(text) if str(text).lstrip("+-").isdecimal() else int(number)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number")


def sample(
    model: ModelFile,
    count: Annotated[
        int,
        typer.Option(
            "-n",
            "--rows",
            help="How many rows to draw, such as 1000 or 1e9.",
            parser=_whole_number,
            metavar="INTEGER",
        ),
    ] = 10,
    output: Output = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Name the component of each row, too.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The seed of all that is random.")] = None,
    debug: Debug = False,
) -> None:
    """Draw random rows from a model.

    Many rows are drawn and written in blocks.

    Example: `momentmix sample model.json -n 1000 -o new.csv`
    """
    with plain_errors(debug):
        check_output(output, [model])
        mixture = Mixture.load(model)
        if count < 1:
            raise ValueError(f"-n must be at least 1, got {count}")
        if count > _MOST_DRAWN:
            raise ValueError(f"-n must be at most {_MOST_DRAWN:,}, got {count:,}")
        rng, most = np.random.default_rng(seed), max(1, _NUMBERS_DRAWN // mixture.n_features)
        with table_writer(output) as write, reading_bar(_bar_fits(output, False), rows=True) as bar:
            task = bar.add_task("drawing", total=count, rows=0)
            for start in range(0, count, most):
                X, component = mixture.sample(min(most, count - start), rng)
                columns = dict(zip(names_of(mixture), to_numpy(X).T, strict=True))
                if labels:
                    columns[free_name("component", columns)] = to_numpy(component)
                write(columns)
                done = min(start + most, count)
                bar.update(task, completed=done, rows=done)
        if output is not None:
            aside(f"{output}: {count:,} rows")


def free_name(name: str, taken: Container[str]) -> str:
    """The name, followed by underscores until it differs from all that are taken."""
    while name in taken:
        name += "_"
    return name
