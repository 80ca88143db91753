"""The commands that use a model: ``show``, ``predict``, ``score``, ``sample`` and ``impute``.

``demo`` is here too, which has a model of its own.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

import momentmix as mm
from momentmix.cli.console import (
    Columns,
    Json,
    JsonValue,
    aside,
    check_output,
    in_terms_of_options,
    note,
    out,
    reading_bar,
    show_json,
    show_table,
    table_writer,
    working,
)
from momentmix.cli.input import Files, ModelFile, open_for, rows_at_once, rows_of
from momentmix.cli.options import (
    ClustersOption,
    DeviceOption,
    ErrorsOption,
    GapCount,
    Missing,
    TableOptions,
    WorkPlace,
    clusters_setting,
    command,
    gaps_option,
)
from momentmix.distributions.units import Units, rounded_like
from momentmix.summary.components import (
    components,
    counted,
    fine_percent,
    listed,
    names_of,
    telling_features,
    typical,
)
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from momentmix.files.writing import WholeTable
    from momentmix.summary.origin import MeasuredRows

#: The most columns of the data in a table on a terminal. A round number that about fits a screen.
_MOST_COLUMNS = 25


@command
def show(model: ModelFile, as_json: Json = False) -> None:
    """Show the components of a model.

    Example: `momentmix show model.json`
    """
    from momentmix.summary.fit_summary import remarks

    check_output(None, [model])
    mixture = mm.Mixture.load(model)
    if as_json:
        show_json(mixture_document(mixture))
        return
    show_mixture(mixture)
    if mixture.background is not None:
        note(f"{fine_percent(mixture.background.share)} of the rows belong to no component.")
    for remark in remarks(mixture):
        note(remark)


@command
def demo(
    folder: Annotated[Path, typer.Argument(help="The folder for the pictures.")] = Path("demo"),
) -> None:
    """Fit the earthquakes that come with momentmix, and draw the fit.

    The fit is compared with scikit-learn's EM from ten starts.

    Example: `momentmix demo pictures`
    """
    from momentmix import demo as tour

    tour.main(str(folder))


def show_mixture(mixture: mm.Mixture) -> None:
    """Print the components as a table; on a terminal a cell holds "mean ± deviation"."""
    names, parts = names_of(mixture), components(mixture)
    title = f"{counted(len(parts), f'{mixture.covariance_type} component')}: mean ± deviation"
    if not out.is_terminal:  # a pipe gets every column, as the model has it
        heads = ["component", "weight", *(head for name in names for head in (name, f"{name} ±"))]
        rows = [
            [str(part.number), f"{part.weight:.4f}"]
            + [f"{x:.6g}" for pair in zip(part.mean, part.deviation, strict=True) for x in pair]
            for part in parts
        ]
        show_table(title, heads, rows)
        return
    shown = telling_features(mixture, _MOST_COLUMNS)
    if len(shown) < len(names):
        title += f" (the {len(shown)} columns of {len(names)} in which they lie furthest apart)"
    cells = [
        [str(part.number), f"{part.weight:.4f}"]
        + [" ".join(typical(names[i], part.mean[i], part.deviation[i])) for i in shown]
        for part in parts
    ]
    units = Units.of_features(names)
    if units:
        title += f"; of {listed(np.array(units.columns)[units.logged])} the median and middle 68 %"
    heads = ["component", "weight", *(units.columns[i] for i in shown)]
    widths = [max(map(len, column)) + 3 for column in zip(heads, *cells, strict=True)]
    if sum(widths) < out.width:
        show_table(title, heads, cells)
    else:  # a row for each column of the data
        turned = list(zip(heads, *cells, strict=True))
        show_table(title, turned[0], turned[1:])


def mixture_document(mixture: mm.Mixture) -> dict[str, JsonValue]:
    """The mixture for ``--json``, with the keys of the model file and names for all features."""
    parameters = {
        name: to_numpy(getattr(mixture, name)).astype(np.float64)
        for name in ("weights", "means", "covariances")
    }
    document: dict[str, JsonValue] = {
        "n_components": mixture.n_components,
        "covariance_type": mixture.covariance_type,
        "feature_names": names_of(mixture),
        **parameters,
    }
    if (background := mixture.background) is not None:
        document["background"] = {"share": background.share, "widths": background.widths}
    return document


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
#: The headings of what ``score`` tells.
_SCORES = ["rows", "log-likelihood", "a row", "AIC", "BIC"]


@command
def predict(
    model: ModelFile,
    files: Files,
    tables: TableOptions,
    output: Output = None,
    proba: Annotated[
        bool,
        typer.Option("--proba", help="Give the probability of each component, and of outliers."),
    ] = False,
    clusters: ClustersOption = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    device: DeviceOption = None,
    as_json: Json = False,
) -> None:
    """Name the most probable component of every row, and its probability.

    Columns are found by their names, whatever their order; others may be there. Of a row with gaps,
    the values that are there decide. A row without any value has no component, and its cells stay
    empty.

    If the model was fitted with --outliers, rows that more probably than not belong to no component
    get -1, and the probability is that of being an outlier.

    With --clusters all rows are read first: components that overlap among them are merged, and a
    column tells the cluster of each row.

    Example: `momentmix predict model.json new.csv -o labels.csv`
    """
    check_output(output, [model, *files])
    mixture, there = mm.Mixture.load(model), WorkPlace(device)
    gaps, own, merging = gaps_option(missing), there.model(mixture), clusters_setting(clusters)
    merged: np.ndarray | None = None
    counts, by_label = GapCount(gaps), np.zeros(mixture.n_components + 1, dtype=int)
    gathered: list[Columns] = []  # for JSON, which is one document
    with (
        open_for(mixture, files, tables, errors) as opened,
        nullcontext(gathered.append) if as_json else table_writer(output) as write,
    ):
        bar, most = _bar_fits(output, as_json), rows_at_once(mixture)
        if merging is not None:
            rows = rows_of(opened, gaps)
            with in_terms_of_options():
                among = mm.merge_components(mixture, rows.X, merging, noise_covariance=rows.noise)
            merged = among.clusters_
        for part in opened.blocks(gaps, "predicting", bar, most):
            told = counts.usable(part.X)
            found = predictions(own, part, told, proba, there, merged)
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
    mixture: mm.Mixture,
    rows: MeasuredRows,
    told: np.ndarray,
    proba: bool,
    there: WorkPlace,
    clusters: np.ndarray | None = None,
) -> dict[str, np.ma.MaskedArray]:
    """Labels and probabilities of some rows, masked where ``told`` is false.

    ``clusters`` (m,) has the cluster of each component, if clusters were asked for.
    """
    labels, some = np.zeros(len(told), dtype=int), rows.some(told)
    R = np.full((len(told), mixture.n_components + 1), np.nan)
    if told.any():
        X, beyond = there.rows(some.X), np.zeros((len(some.X), 1))
        if mixture.background is not None:
            beyond = mixture.outlier_probability(X, some.noise)[:, None]
        among = to_numpy(mixture.predict_proba(X, some.noise))
        R[told] = np.hstack([among * (1 - beyond), beyond])
        labels[told] = np.where(R[told, -1] > 0.5, -1, R[told, :-1].argmax(axis=1))
    # The label -1, used as an index, picks the last column, that of outliers.
    values = {"component": labels, "probability": R[np.arange(len(R)), labels]}
    if clusters is not None:
        each = (R[:, :-1] @ np.eye(len(clusters))[clusters]).argmax(axis=1)
        values["cluster"] = np.where(labels < 0, -1, each)
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


@command
def score(
    model: ModelFile,
    files: Files,
    tables: TableOptions,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the log density of every row to this file."),
    ] = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    device: DeviceOption = None,
    as_json: Json = False,
) -> None:
    """Tell how likely rows are under a model.

    The answer is the log-likelihood of all rows, its mean, and the AIC and BIC. Of a row with gaps,
    the density is that of the values that are there. A row without any value does not count.

    Example: `momentmix score model.json new.csv`
    """
    check_output(output, [model, *files])
    mixture, there = mm.Mixture.load(model), WorkPlace(device)
    gaps, own = gaps_option(missing), there.model(mixture)
    counts, total = GapCount(gaps), 0.0
    with (
        open_for(mixture, files, tables, errors) as opened,
        nullcontext() if output is None else table_writer(output) as write,
    ):
        for part in opened.blocks(gaps, "scoring", most=rows_at_once(mixture)):
            told = counts.usable(part.X)
            log_density, some = np.ma.masked_array(np.zeros(len(told)), ~told), part.some(told)
            if told.any():
                log_density[told] = to_numpy(own.log_prob(there.rows(some.X), some.noise))
                log_density[told] += opened.units.log_jacobian(some.X)
                total += float(log_density.sum())
            if write is not None:
                write({"log_density": log_density})
        counts.tell("were left out")
        if counts.left == 0:
            what = "every row has a gap" if gaps == "drop" else "no row has any value"
            raise ValueError(f"{opened.source}: {what}")
    from momentmix.summary.fit_summary import AllRows, FitSummary

    summary = FitSummary(mixture, opened.source, of_all=AllRows(counts.left, total))
    values = {
        "rows": counts.left,
        "log_likelihood": total,
        "mean_log_likelihood": total / counts.left,
        "aic": summary.aic(total),
        "bic": summary.bic(total),
    }
    if as_json:
        show_json(values)
        return
    cells = [f"{value:.6f}".rstrip("0").rstrip(".") for value in values.values()]
    show_table(summary.source, _SCORES, [cells])


def _whole_number(text: str | int) -> int:
    """A whole number as typed, possibly with an exponent, as in 1e9."""
    try:
        number = float(text)
        if number == int(number):
            return int(text) if str(text).lstrip("+-").isdecimal() else int(number)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number")


@command
def sample(
    model: ModelFile,
    tables: TableOptions,
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
    like: Annotated[
        str | None,
        typer.Option(help="A table: rows are rounded and bounded as its columns are."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all that is random.")] = None,
) -> None:
    """Draw random rows from a model.

    Many rows are drawn and written in blocks.

    Example: `momentmix sample model.json -n 1000 -o new.csv`
    """
    check_output(output, [model, *([] if like is None else [like])])
    mixture = mm.Mixture.load(model)
    if count < 1:
        raise ValueError(f"-n must be at least 1, got {count}")
    if count > _MOST_DRAWN:
        raise ValueError(f"-n must be at most {_MOST_DRAWN:,}, got {count:,}")
    units, data = Units.of_features(names_of(mixture)), None
    if like is not None:
        with open_for(mixture, [like], tables) as opened:
            data = np.concatenate([part.X for part in opened._replace(logs={}).blocks("keep")])
    rng, most = np.random.default_rng(seed), max(1, _NUMBERS_DRAWN // mixture.n_features)
    with table_writer(output) as write, reading_bar(_bar_fits(output, False), rows=True) as bar:
        task = bar.add_task("drawing", total=count, rows=0)
        for start in range(0, count, most):
            X, component = mixture.sample(min(most, count - start), rng)
            X = units.to_data(to_numpy(X))
            X = X if data is None else rounded_like(X, data)
            columns = dict(zip(units.columns, X.T, strict=True))
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


@command
def impute(
    model: ModelFile,
    files: Files,
    tables: TableOptions,
    output: Output = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Fill the gaps this many times at random, for multiple imputation; a column draw "
            "counts from 1."
        ),
    ] = None,
    errors: ErrorsOption = None,
    seed: Annotated[int | None, typer.Option(help="The seed of all that is random.")] = None,
) -> None:
    """Fill the gaps of tables with what a model expects there.

    The table comes out with all its columns; only gaps in the columns of the model are filled, and
    values that are there stay as they are. With --draws the table is repeated that many times, one
    copy below the other, with gaps filled at random given the model and the rest of the row.

    Example: `momentmix impute model.json data.csv -o filled.csv`
    """
    check_output(output, [model, *files])
    if draws is not None and draws < 1:
        raise ValueError(f"--draws must be at least 1, got {draws}")
    if draws is None and seed is not None:
        raise ValueError("--seed goes with --draws; without it nothing is random")
    mixture = mm.Mixture.load(model)
    with open_for(mixture, files, tables, errors) as opened:
        units, rows = opened.units, rows_of(opened._replace(logs={}), "keep", whole=True)
    with working("filling"):
        X, noise = units.from_data(rows.X), rows.noise
        filled = to_numpy(mixture.impute(X, draws, noise_covariance=noise, random_state=seed))
    filled = units.to_data(filled.reshape(-1, X.shape[1])).reshape(draws or 1, *X.shape)
    filled = np.where(np.isnan(rows.X), filled, rows.X)
    assert rows.table is not None  # because of whole=True
    # Columns without names get those of the model.
    called = Units.of_features(names_of(mixture)).columns if rows.names is None else rows.names
    columns = _columns(rows.table, dict(zip(rows.table.used, called, strict=True)), filled)
    if draws is not None:
        number = np.repeat(np.arange(1, draws + 1), len(rows.X))
        columns = {free_name("draw", columns): number} | columns
    if output is not None and output.suffix.lower() == ".npy":
        columns = _numbers_alone(columns, output)
    elif output is None or output.suffix.lower() == ".csv":
        columns = {name: _as_written(column) for name, column in columns.items()}
    else:
        columns = {name: _with_mask(column) for name, column in columns.items()}
    with table_writer(output) as write:
        write(columns)
    _tell_filled(rows.X)
    if output is not None:
        times = "" if draws is None else f", {counted(draws, 'draw')}"
        aside(f"{output}: {len(rows.X):,} rows{times}")


def _columns(
    table: WholeTable, called: dict[str, str], filled: np.ndarray
) -> dict[str, np.ndarray]:
    """All columns in the order of the table, repeated for each draw of ``filled`` (draws, p, n)."""
    found: dict[str, np.ndarray] = {}
    for name in table.names:
        if name in called:
            found[called[name]] = filled[:, :, table.used.index(name)].reshape(-1)
        else:
            found[name] = np.tile(table.others[name], len(filled))
    return found


def _numbers_alone(columns: dict[str, np.ndarray], output: Path) -> dict[str, np.ndarray]:
    """The columns that an array of numbers can hold; a note names the others."""
    found = {name: _as_numbers(column) for name, column in columns.items()}
    words = [name for name, column in found.items() if column is None]
    if words:
        note(f"{output} holds numbers alone, without {listed(words)}.")
    return {name: column for name, column in found.items() if column is not None}


def _as_numbers(column: np.ndarray) -> np.ndarray | None:
    if column.dtype.kind != "O":
        return column
    if all(cell is None or type(cell) in (int, float) for cell in column):
        return np.array([np.nan if cell is None else cell for cell in column], dtype=float)
    return None


def _as_written(column: np.ndarray) -> np.ndarray:
    """A column for text: gaps are empty, and whole numbers have no decimals if most are whole.

    So a filled column of whole numbers has decimals only where values were filled.
    """
    numbers = _as_numbers(column)
    if numbers is None or numbers.dtype.kind != "f":
        return column
    column, empty = numbers, np.isnan(numbers)
    whole = ~empty & (column == np.floor(column)) & (np.abs(column) < 2**53)
    found = column.astype(object)
    if 2 * whole.sum() > np.sum(~empty):
        found[whole] = [int(value) for value in column[whole]]
    found[empty] = None
    return found


def _with_mask(column: np.ndarray) -> np.ndarray:
    """A column for formats that have empty cells."""
    return np.ma.masked_invalid(column) if column.dtype.kind == "f" else column


def _tell_filled(X: np.ndarray) -> None:
    """Print one line on what was filled."""
    empty = np.isnan(X)
    cells, rows, none = int(empty.sum()), int(empty.any(axis=1).sum()), empty.all(axis=1)
    if cells == 0:
        note("there was no gap to fill.")
        return
    were = "was" if cells == 1 else "were"
    line = f"{counted(cells, 'cell')} in {rows:,} of {len(X):,} rows {were} filled"
    if none.any():
        line += f"; {none.sum():,} of these rows have no value, and the model alone fills them"
    note(f"{line}.")
