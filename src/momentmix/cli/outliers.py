"""The option ``--outliers``: whether rows may belong to no component, and how to report them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

from momentmix.cli.console import JsonValue
from momentmix.summary import Outliers

#: The parameter ``outliers`` of GaussianMixture.
OutlierSetting: TypeAlias = float | Literal["auto", "uniform"] | None
OutliersOption = Annotated[
    str,
    typer.Option(
        "--outliers",
        help="Rows that belong to no component: auto finds them, uniform looks in the box of all "
        "rows, a number such as 0.05 is the largest share that they may have, and none (the "
        "default) fits every row.",
    ),
]


def outlier_setting(text: str) -> OutlierSetting:
    words: dict[str, OutlierSetting] = {"none": None, "auto": "auto", "uniform": "uniform"}
    if text in words:
        return words[text]
    try:
        return float(text) or None
    except ValueError:
        raise ValueError(
            f"--outliers is auto, uniform, none or a share of the rows such as 0.05, got {text!r}"
        ) from None


def outliers_document(outliers: Outliers | None) -> JsonValue:
    """For ``--json``: how many there are, and the numbers of those that lie farthest out."""
    if outliers is None:
        return None
    return {
        "share": outliers.share,
        "rows": outliers.rows,
        "numbers": [row.number for row in outliers.worst],
    }
