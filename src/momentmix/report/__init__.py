"""A fit as one page of HTML that needs nothing else: no network, no other file.

``write_report`` puts together the sections from what ``summary`` and ``plotting`` provide;
page.html is the frame around them. The top of the page and its last sections are here.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template

import numpy as np

import momentmix
from momentmix.files.writing import written_whole
from momentmix.report.components import (
    apart_section,
    assignment_section,
    clusters_section,
    components_section,
    correlations_section,
    others_section,
    uncertainty_section,
    words_section,
)
from momentmix.report.evidence import (
    choices_section,
    columns_section,
    goodness_section,
    moments_section,
    outliers_section,
)
from momentmix.report.parts import Section, one_decimal, pictures
from momentmix.summary.components import counted
from momentmix.summary.fit_summary import FitSummary
from momentmix.summary.origin import Origin


def write_report(
    path: str | PathLike[str], fit: FitSummary, model: str | PathLike[str] | None = None
) -> None:
    """Write the page, whole or not at all. ``model`` is the model file that it explains.

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> from momentmix.report import write_report
    >>> from momentmix.summary import FitSummary
    >>> X, names = load_quakes()
    >>> gm = GaussianMixture(3, random_state=0).fit(X)
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, FitSummary.from_estimator(gm, X, source="quakes"))
    >>> "3 Gaussian components in quakes" in path.read_text(encoding="utf-8")
    True
    """
    text = page(fit, model)
    with written_whole(path) as file:
        file.write(text.encode())


def page(report: FitSummary, model: str | PathLike[str] | None = None) -> str:
    """The page as text."""
    title = f"{counted(report.mixture.n_components, 'Gaussian component')} in {report.source}"
    drawn = pictures(report)
    found = [
        remarks_section(report),
        words_section(report),
        components_section(report, drawn["mixture"]),
        apart_section(report),
        others_section(report),
        outliers_section(report, drawn.get("outliers", "")),
        clusters_section(report, drawn.get("clusters", "")),
        assignment_section(report),
        uncertainty_section(report),
        correlations_section(report),
        moments_section(report, drawn.get("moments", "")),
        goodness_section(report, drawn.get("quantiles", "")),
        choices_section(report, drawn.get("choices", "")),
        columns_section(report),
        use_section(model, report.has_gaps),
        again_section(report),
    ]
    sections = [section for section in found if section is not None]
    top = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lede">{escape(" ".join(report.verdict))}</p>',
        tiles(report),
        contents(sections),
    ]
    template = Template(files("momentmix.report").joinpath("page.html").read_text("utf-8"))
    body = "\n".join([*top, *map(str, sections)])
    return template.substitute(title=escape(title), body=body, version=momentmix.__version__)


def tiles(report: FitSummary) -> str:
    """The main numbers as three, four or six tiles, which fill whole lines."""
    mixture, value = report.mixture, report.log_likelihood
    shown = [] if report.rows is None else [("rows", f"{report.rows:,}")]
    shown += [
        ("columns", f"{mixture.n_features:,}"),
        ("components", f"{mixture.n_components:,}"),
        ("covariances", report.covariance_type),
    ]
    if value is not None:
        bic = "—" if len(report.collapsed) else one_decimal(report.bic(value))
        shown += [("log-likelihood", one_decimal(value)), ("BIC", bic)]
    items = "".join(
        f"<li><b>{escape(number)}</b><span>{escape(what)}</span></li>" for what, number in shown
    )
    return f'<ul class="tiles of{len(shown)}">{items}</ul>'


def contents(sections: Sequence[Section]) -> str:
    """Links to the sections."""
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in sections)
    return f'<nav aria-label="On this page">{links}</nav>'


def remarks_section(report: FitSummary) -> Section | None:
    """The remarks to read before trusting the fit, if there are any."""
    items = "".join(f"<li>{escape(remark)}</li>" for remark in report.remarks)
    return Section("remarks", "Remarks", f'<ul class="remarks">{items}</ul>') if items else None


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
