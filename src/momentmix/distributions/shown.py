"""How a mixture looks in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from momentmix.distributions.mixture import Mixture


def mixture_in_words(mixture: Mixture) -> str:
    """A line about the mixture, and one for each component."""
    rows: Sequence[tuple[str, str]] = [("weight", "mean"), *_rows(mixture)]
    table = "\n".join(f"  {w:<6}  {' '.join(mu.split())}" for w, mu in rows)
    return f"Mixture({_heading(mixture)})\n{_tidy(table)}"


def mixture_in_html(mixture: Mixture) -> str:
    """The same as an HTML table."""
    body = "".join(
        f"<tr><td>{j}</td><td>{escape(w)}</td><td>{escape(mu)}</td></tr>"
        for j, (w, mu) in enumerate(_rows(mixture))
    )
    return (
        f"<table><caption>Mixture: {escape(_heading(mixture))}</caption>"
        f"<tr><th></th><th>weight</th><th>mean</th></tr>{body}</table>"
    )


def _heading(mixture: Mixture) -> str:
    m, n, background = mixture.n_components, mixture.n_features, mixture.background
    beyond = "" if background is None else f", background of {100 * background.share:.3g} %"
    return (
        f"{m} component{'s' * (m != 1)}, {n} feature{'s' * (n != 1)}, "
        f"{mixture.covariance_type}, {str(mixture.means.dtype).rpartition('.')[2]}{beyond}"
    )


def _rows(mixture: Mixture, limit: int = 10) -> list[tuple[str, str]]:
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    shown = [
        (f"{w:.4g}", np.array2string(mu, precision=4, threshold=8, edgeitems=3))
        for w, mu in zip(weights[:limit], means[:limit], strict=True)
    ]
    return shown + [("…", f"{len(weights) - limit} more")] * (len(weights) > limit)


def _tidy(table: str) -> str:
    return table.replace("[ ", "[").replace(". ", " ").replace(".]", "]")
