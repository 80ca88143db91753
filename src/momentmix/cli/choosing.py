"""What ``fit`` and ``select`` share: the numbers and shapes to compare, and the criterion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

import typer

from momentmix.cli.console import JsonValue, err, in_terms_of_options, say, show_table
from momentmix.cli.reading import Rows
from momentmix.covariance import COVARIANCE_TYPES, CovarianceName
from momentmix.estimators.auto import MOST
from momentmix.selection import Choice, Criterion, Selection, select
from momentmix.selection.choice import CRITERIA
from momentmix.summary import counted

ComponentsHelp = "The number of components, a range such as 1..10, or auto: the criterion decides."
CovarianceHelp = (
    f"The shape of the components: {', '.join(COVARIANCE_TYPES)}; several with commas between "
    "them, or auto: the criterion decides."
)
CriterionOption = Annotated[
    str | None,
    typer.Option(
        "--criterion",
        help=f"What numbers and shapes are compared by: {', '.join(CRITERIA)}; bic by default.",
    ),
]


class Wanted(NamedTuple):
    """The numbers and types to compare, as the user gave them."""

    numbers: Sequence[int] | None  # None means auto
    types: Sequence[CovarianceName]
    criterion: Criterion

    @property
    def number(self) -> int | None:
        """The number of components if there is nothing to compare, else None."""
        single = self.numbers is not None and len(self.numbers) == 1 and len(self.types) == 1
        return self.numbers[0] if single and self.numbers is not None else None


def wanted(components: str, covariance: str, criterion: str | None) -> Wanted:
    """The options as typed, after the checks that need no data."""
    if criterion is not None and criterion not in CRITERIA:
        raise ValueError(f"--criterion is one of {', '.join(CRITERIA)}, got {criterion!r}")
    names = COVARIANCE_TYPES if covariance == "auto" else covariance.split(",")
    for name in names:
        if name not in COVARIANCE_TYPES:
            raise ValueError(
                f"--covariance is auto or one of {', '.join(COVARIANCE_TYPES)}, or some of them "
                f"with commas between them, got {covariance!r}"
            )
    types = [cast(CovarianceName, name) for name in names]
    result = Wanted(_numbers(components), types, criterion or "bic")
    if criterion is not None and result.number is not None:
        raise ValueError(
            "--criterion compares fits, and there is one; ask for -k auto, a range such as "
            "-k 1..8, or several shapes with --covariance"
        )
    return result


def _numbers(components: str) -> Sequence[int] | None:
    if components == "auto":
        return None
    span = re.fullmatch(r"(\d+)\.\.(\d+)", components)
    if span is not None:
        low, high = int(span[1]), int(span[2])
        if not 1 <= low <= high:
            raise ValueError(f"-k goes up from 1 or more, as in 1..{MOST}; got {components!r}")
        return range(low, high + 1)
    try:
        return [int(components)]
    except ValueError:
        raise ValueError(
            f"-k is a whole number, 'auto' or a range such as 1..{MOST}, got {components!r}"
        ) from None


def compare_rows(rows: Rows, asked: Wanted, settings: dict[str, Any]) -> Selection:
    """Fit and compare all numbers and types."""
    with in_terms_of_options():
        return select(
            rows.X,
            "auto" if asked.numbers is None else asked.numbers,
            asked.types,
            asked.criterion,
            noise_covariance=rows.noise,
            callback=_tell if len(asked.types) == 1 else _tell_type,
            **settings,
        )


def _tell(choice: Choice) -> None:
    if err.is_terminal:
        say(f"{counted(choice.n_components, 'component')}: BIC {choice.bic:,.1f}", err)


def _tell_type(choice: Choice) -> None:
    if err.is_terminal:
        say(f"{choice.covariance_type}, {counted(choice.n_components, 'component')}: "
            f"BIC {choice.bic:,.1f}", err)  # fmt: skip


def show_choices(selection: Selection) -> None:
    """Print the table of a comparison."""
    heads, rows = selection.cells()
    marked = [[*row, mark] for row, mark in zip(rows, selection.marks(), strict=True)]
    show_table(f"Fits by {selection.criterion.upper()}", [*heads, "best"], marked)


def choices_document(choices: Sequence[Choice]) -> list[JsonValue]:
    """The table for ``--json``."""
    return [
        {name: value for name, value in choice._asdict().items() if name != "fit"}
        for choice in choices
    ]
