"""Tables for papers, against their formulas and scikit-learn's way of reading them."""

import numpy as np
import pandas as pd
import pytest

from momentmix import GaussianMixture, Mixture, select
from momentmix.summary import FitSummary
from momentmix.summary.papers import choices_table

TRUTH = Mixture([0.6, 0.4], [[0.0, 1.0], [4.0, 5.0]], [[1.0, 1], [1, 4]], "diag",
                feature_names=["a_b", "c%"])  # fmt: skip
X = TRUTH.sample(800, 0)[0]


def test_the_frame_has_estimates_intervals_and_classes():
    frame = pd.DataFrame(X, columns=["a_b", "c%"])
    fit = GaussianMixture(2, random_state=0).fit(frame)
    found = FitSummary.from_estimator(fit, frame).summary_frame()
    low, high = fit.confidence_intervals(frame)
    order = found["class"].to_numpy()
    np.testing.assert_allclose(found["share"], fit.weights_[order])
    np.testing.assert_allclose(found["c% low"], low.means[order, 1])
    np.testing.assert_allclose(found["c% high"], high.means[order, 1])
    R = fit.predict_proba(frame)
    labels = R.argmax(axis=1)
    np.testing.assert_allclose(found["AvePP"], [R[labels == j, j].mean() for j in order])
    assert found["rows"].tolist() == [int(np.sum(labels == j)) for j in order]


def test_choices_have_what_papers_ask_for():
    selection = select(X, range(1, 4), "diag", "blrt", random_state=0)
    found = choices_table(selection.table, X).to_frame()
    for row, choice in zip(found.itertuples(index=False), selection.table, strict=True):
        k, R = choice.n_parameters, choice.fit.predict_proba(X)
        sabic = -2 * choice.log_likelihood + k * np.log((800 + 2) / 24)
        labels = R.argmax(axis=1)
        assert abs(row.SABIC - sabic) < 0.06
        assert abs(row.BIC - choice.fit.bic(X)) < 0.06
        pairs = [R[labels == j, j].mean() for j in np.unique(labels)]
        assert row[found.columns.get_loc("least AvePP")] == pytest.approx(min(pairs))
        smallest = np.bincount(labels, minlength=R.shape[1]).min() / 800
        assert row[found.columns.get_loc("smallest class")] == pytest.approx(smallest)
    assert "BLRT p" in found


def test_text_is_escaped_and_has_every_class():
    mixture = GaussianMixture(2, random_state=0).fit(X).mixture_.named(["a_b", "c%"])
    summary = FitSummary(mixture, "r&d.csv", X=X)
    latex, markdown = summary.to_latex(), summary.to_markdown()
    assert r"a\_b & c\%" in latex
    assert r"r\&d.csv" in latex
    assert latex.count(r"\\") == 3
    assert latex.index(r"\toprule") < latex.index(r"\midrule") < latex.index(r"\bottomrule")
    assert "| class | share | rows | AvePP | a_b | c% |" in markdown
    assert "intervals" not in markdown  # without an estimator none are known
    assert len([line for line in markdown.splitlines() if line.startswith("|")]) == 4
