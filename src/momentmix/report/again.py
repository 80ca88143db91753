"""The last sections: how to use the model, and how to repeat the fit."""

from __future__ import annotations

import platform
from html import escape
from importlib.metadata import version
from os import PathLike
from pathlib import Path

import numpy as np

import momentmix
from momentmix.report.parts import Section
from momentmix.summary import FitSummary, Origin


def use_section(model: str | PathLike[str] | None, gaps: bool = False) -> Section | None:
    """How to use the model file, if there is one; with ``gaps``, also how to fill them."""
    if model is None:
        return None
    name = Path(model).name
    shell = f"momentmix predict {name} new-rows.csv"
    if gaps:
        shell += f"\nmomentmix impute {name} new-rows.csv -o filled.csv"
    python = f'from momentmix import Mixture\n\nmixture = Mixture.load("{name}")'
    return Section("use", "Using the model", _code(f"{shell}\n\n# or in Python\n{python}"))


def again_section(report: FitSummary) -> Section:
    """The command, the seed and the settings, if known, and the versions."""
    origin = report.origin or Origin()
    words = "<p>With the same data and the same versions, this gives the same fit.</p>"
    command = "" if origin.command is None else words + _code(origin.command)
    facts = [] if origin.seed is None else [("seed", str(origin.seed))]
    facts += [(name, str(value)) for name, value in origin.settings.items()]
    if report.seconds is not None:
        facts.append(("time of the fit", f"{report.seconds:.2g} s"))
    facts.append(("versions", ", ".join(f"{name} {number}" for name, number in versions())))
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return Section("again", "Making it again", f"{command}<dl>{items}</dl>")


def versions() -> list[tuple[str, str]]:
    """The versions of everything that a fit depends on."""
    return [
        ("momentmix", momentmix.__version__),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("scikit-learn", version("scikit-learn")),
    ]


def _code(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>"
