"""``momentmix show`` and ``momentmix demo``, and the table of components of all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from momentmix.cli.console import (
    Debug,
    Json,
    JsonValue,
    note,
    out,
    plain_errors,
    show_json,
    show_table,
)
from momentmix.cli.reading import ModelFile
from momentmix.distributions.mixture import Mixture
from momentmix.summary import (
    components,
    counted,
    fine_percent,
    mean_and_deviation,
    names_of,
    remarks,
    telling_features,
)
from momentmix.support.array import to_numpy

#: The most columns of the data in a table on a terminal. A round number that about fits a screen.
_MOST_COLUMNS = 25


def show(model: ModelFile, as_json: Json = False, debug: Debug = False) -> None:
    """Show the components of a model.

    Example: `momentmix show model.json`
    """
    with plain_errors(debug):
        mixture = Mixture.load(model)
        if as_json:
            show_json(mixture_document(mixture))
            return
        show_mixture(mixture)
        if mixture.background is not None:
            note(f"{fine_percent(mixture.background.share)} of the rows belong to no component.")
        for remark in remarks(mixture):
            note(remark)


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder for the pictures.")] = Path("demo"),
    debug: Debug = False,
) -> None:
    """Fit the earthquakes that come with momentmix, and draw the fit.

    The fit is compared with scikit-learn's EM from ten starts.

    Example: `momentmix demo pictures`
    """
    with plain_errors(debug):
        from momentmix import demo as tour

        tour.main(str(folder))


def show_mixture(mixture: Mixture) -> None:
    """Print the components as a table; on a terminal a cell holds "mean ± deviation"."""
    names, parts = names_of(mixture), components(mixture)
    title = f"{counted(len(parts), f'{mixture.covariance_type} component')}: mean ± deviation"
    if not out.is_terminal:  # a pipe gets every column
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
        + [" ± ".join(mean_and_deviation(part.mean[i], part.deviation[i])) for i in shown]
        for part in parts
    ]
    heads = ["component", "weight", *(names[i] for i in shown)]
    widths = [max(map(len, column)) + 3 for column in zip(heads, *cells, strict=True)]
    if sum(widths) < out.width:
        show_table(title, heads, cells)
    else:  # a row for each column of the data
        turned = list(zip(heads, *cells, strict=True))
        show_table(title, turned[0], turned[1:])


def mixture_document(mixture: Mixture) -> dict[str, JsonValue]:
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
