"""``momentmix show`` and ``momentmix demo``, and how a mixture is shown everywhere."""

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
from momentmix.summary import components, counted, names_of, readable, remarks
from momentmix.support.array import to_numpy

_MOST_COLUMNS = 8


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
    """The components as a table, "mean ± deviation" in one cell only where a person reads it."""
    names = names_of(mixture)
    # A pipe gets every column; a terminal those that fit it.
    shown = min(len(names), _MOST_COLUMNS) if out.is_terminal else len(names)
    heads = ["component", "weight"]
    if out.is_terminal:
        heads += names[:shown]
    else:
        heads += [head for name in names for head in (name, f"{name} ±")]
    rows = []
    for part in components(mixture):
        cells = [str(part.number), f"{part.weight:.4f}"]
        for mean, deviation in list(zip(part.mean, part.deviation, strict=True))[:shown]:
            if out.is_terminal:
                cells.append(f"{readable(mean)} ± {readable(deviation, 2)}")
            else:
                cells += [f"{mean:.6g}", f"{deviation:.6g}"]
        rows.append(cells)
    more = f" (the first {shown} of {len(names)} columns)" if shown < len(names) else ""
    kind = mixture.covariance_type
    title = counted(len(rows), f"{kind} component")
    show_table(f"{title}: mean ± standard deviation{more}", heads, rows)


def mixture_document(mixture: Mixture) -> dict[str, JsonValue]:
    """For ``--json``: the parameters under the names of the model file, and all features named."""
    parameters = {
        name: to_numpy(getattr(mixture, name)).astype(np.float64)
        for name in ("weights", "means", "covariances")
    }
    return {
        "n_components": mixture.n_components,
        "covariance_type": mixture.covariance_type,
        "feature_names": names_of(mixture),
        **parameters,
    }
