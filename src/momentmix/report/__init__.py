"""A fit as one page of HTML that needs nothing else: no network, no other file.

``write_report`` puts together the sections, each in its own file, from what ``summary`` and
``plotting`` provide; page.html is the frame around them.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from os import PathLike
from string import Template

import momentmix
from momentmix.files.writing import written_whole
from momentmix.report.again import again_section, use_section
from momentmix.report.assignment import assignment_section
from momentmix.report.columns import columns_section
from momentmix.report.components import apart_section, components_section
from momentmix.report.correlations import correlations_section
from momentmix.report.fits import choices_section, moments_section, rivals_section
from momentmix.report.goodness import goodness_section
from momentmix.report.opening import contents, opening, remarks_section, tiles
from momentmix.report.outliers import outliers_section
from momentmix.report.pictures import pictures
from momentmix.report.uncertainty import uncertainty_section
from momentmix.summary import FitSummary, counted

__all__ = ["page", "write_report"]


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
        components_section(report, drawn["mixture"]),
        apart_section(report),
        outliers_section(report, drawn.get("outliers", "")),
        assignment_section(report),
        uncertainty_section(report),
        correlations_section(report),
        moments_section(report, drawn.get("moments", "")),
        goodness_section(report, drawn.get("quantiles", "")),
        choices_section(report, drawn.get("choices", "")),
        rivals_section(report),
        columns_section(report),
        use_section(model, report.has_gaps),
        again_section(report),
    ]
    sections = [section for section in found if section is not None]
    top = [f"<h1>{escape(title)}</h1>", opening(report), tiles(report), contents(sections)]
    template = Template(files("momentmix.report").joinpath("page.html").read_text("utf-8"))
    body = "\n".join([*top, *map(str, sections)])
    return template.substitute(title=escape(title), body=body, version=momentmix.__version__)
