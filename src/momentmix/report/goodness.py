"""The section on tests of fit: a sentence for each test, and a picture of distances."""

from __future__ import annotations

from html import escape

import numpy as np

from momentmix.report.fits import beside
from momentmix.report.parts import Section
from momentmix.summary import MOST_TESTED_ROWS, FitSummary


def goodness_section(report: FitSummary, picture: str) -> Section | None:
    """Sentences on whether the rows differ from the mixture by more than chance."""
    tests = report.tests
    if tests is None:
        return None
    words = (
        "Each row is measured from its component, in units of that component's covariance, and the "
        "mean, the widths, the skewness and the tails of all rows together are compared with those "
        "that the mixture would have. A small p says that chance hardly explains the difference; "
        "a large p says that these rows show none."
    )
    if np.sum(np.isfinite(tests.p_values)) > 1:
        words += " With several tests, expect an occasional p below 0.05 by chance."
    columns = " of the " in tests.rows
    if columns or (report.rows is not None and report.rows > MOST_TESTED_ROWS):
        words += f" {tests.rows}, drawn at random, are tested."
    if columns:
        words += " All columns would take longer than the fit: moment_test tests them."
    if report.has_gaps:
        words += " For this, gaps are filled at random, given the other values of the row."
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in tests.sentences)
    return Section(
        "fit", "Does it fit", f"<p>{words}</p>" + beside(f"<ul>{sentences}</ul>", picture)
    )
