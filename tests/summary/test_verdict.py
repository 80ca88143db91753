"""What a report says first: how many, how sure, does it fit; and the rows that lie far out."""

import numpy as np
from scipy.stats import norm

from momentmix import GaussianMixture, Mixture
from momentmix.summary import FitSummary
from momentmix.summary.origin import MeasuredRows
from momentmix.summary.rows import far_rows


def test_far_rows_are_those_beyond_the_farthest_of_a_gaussian():
    """A value just beyond the limit for so many is told with its column, one within it is not."""
    mixture = Mixture([0.5, 0.5], [[0.0, 0.0], [9.0, 0.0]], [[1.0, 4.0], [4.0, 1.0]], "diag")
    X = np.tile([[0.0, 0.0], [9.0, 0.0]], (500, 1))
    limit = norm.isf(0.05 / (2 * X.size))
    X[7] = [9.0 + 2 * 1.01 * limit, 0.5]
    X[8] = [0.5, 2 * 0.99 * limit]
    X[9] = [np.nan, np.nan]
    told = np.delete(np.arange(len(X)), 9)
    count, (row,) = far_rows(mixture, MeasuredRows(X[told]), told)
    assert (count, row.number, row.component, row.feature) == (1, 7, 1, 0)
    np.testing.assert_allclose(row.deviations, 1.01 * limit)
    exact = MeasuredRows(X[told], np.full((len(told), 2), 3.0))  # errors explain the distance
    assert far_rows(mixture, exact)[0] == 0


def test_the_verdict_names_a_bad_fit_and_a_far_row():
    """A slipped decimal point is named with its row, though moments of rows drawn in are right."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    X[123] = [58.9, 0.1]
    fit = GaussianMixture(1).fit(np.delete(X, 123, axis=0))
    summary = FitSummary(fit.mixture_, "rows", X=X, choices=[])
    (remark,) = [one for one in summary.remarks if "farther" in one]
    assert "1 row of 400 lies" in remark
    assert "row 123, counted from 0: x0 = 58.9" in remark
    assert summary.verdict[0] == "1 component in 400 rows of 2 columns with full covariances."
    assert summary.verdict[-1] == "Read the remarks before you trust it."
    clean = FitSummary(fit.mixture_, "rows", X=rng.normal(size=(400, 2)))
    assert not [one for one in clean.remarks if "farther" in one]
    outliers = GaussianMixture(1, outliers="auto").fit(X)  # which says so itself
    remarks = FitSummary.from_estimator(outliers, X).remarks
    assert not [one for one in remarks if "farther" in one]
