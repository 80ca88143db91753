"""Outliers in the command, in summaries, pictures and reports."""

import io
import json
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

matplotlib.use("Agg")
from browser import Page, chromium
from momentmix import GaussianMixture, Mixture, plotting
from momentmix.cli import app
from momentmix.distributions.mixture import Background
from momentmix.report.evidence import outliers_section
from momentmix.summary import FitSummary
from momentmix.summary.fit_summary import uncertainty_of
from momentmix.summary.rows import outliers_of

NAMES = ["length", "width", "depth"]
#: Rows whose decimal point slipped: the row, the column, and the factor.
SLIPS = {17: (1, 10), 90: (2, -10), 301: (0, 10)}
TRUTH = Mixture(
    [0.6, 0.4],
    [[5.0, 3, 1], [7, 3, 4]],
    [[0.16, 0.09, 0.04], [0.25, 0.09, 0.16]],
    "diag",
    feature_names=NAMES,
)


def table():
    """Two groups, three wrong values, some gaps, and a row without any value above two of them."""
    X, _ = TRUTH.sample(400, 0)
    for row, (column, factor) in SLIPS.items():
        X[row, column] *= factor
    X = np.round(X, 2)
    X[20:60:3, 2] = np.nan
    X[60] = np.nan
    return pd.DataFrame(X, columns=NAMES)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The table, a model of it by the command, the page about it, and what the command said."""
    folder = tmp_path_factory.mktemp("outliers")
    table().to_csv(folder / "table.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        out, _ = run("fit", "table.csv", "-k", 2, "--outliers", "auto", "-o", "model.json",
                     "--report", "report.html", "--json")  # fmt: skip
    (folder / "said.json").write_text(out)
    return folder


@pytest.fixture
def folder(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


@pytest.fixture(scope="module")
def fitted():
    X = table().to_numpy()
    return GaussianMixture(2, outliers="auto", random_state=0).fit(X), X


def test_fit_tells_how_many_and_which(folder, fitted):
    gm, X = fitted
    facts = json.loads((folder / "said.json").read_text())
    assert facts["outliers"]["share"] == pytest.approx(gm.outlier_share_, rel=1e-6)
    assert facts["outliers"]["rows"] == 3
    # As in the table: the row that was left out counts.
    assert sorted(facts["outliers"]["numbers"]) == sorted(SLIPS)
    assert facts["mixture"]["background"]["widths"] == pytest.approx(gm.mixture_.background.widths)
    assert facts["bic"] == pytest.approx(gm.bic(X), rel=1e-9)
    assert sum(facts["classification"]["rows_of_components"]) == 399 - 3
    assert facts["remarks"] == []
    out, err = run("show", "model.json")
    assert len(out.splitlines()) == 3
    assert "% of the rows belong to no component." in err


def test_select_tells_it_too(folder):
    options = "-k", "2", "--covariance", "diag", "--outliers", 0.1
    _, err = run("select", "table.csv", *options, "--save", "chosen.json")
    assert "Note: 3 of 399 rows (0.75 %) belong to no component; they are rows" in err
    assert ", counted from 0.\n" in err
    assert Mixture.load("chosen.json").background.share < 0.1
    facts = json.loads(run("select", "table.csv", *options, "--json")[0])
    assert sorted(facts["outliers"]["numbers"]) == sorted(SLIPS)


def test_without_outliers(folder):
    pd.DataFrame(TRUTH.sample(200, 1)[0], columns=NAMES).to_csv("clean.csv", index=False)
    fit = "fit", "clean.csv", "-k", 2, "--covariance", "diag"
    for setting, want in (("none", None), ("auto", {"share": 0.0, "rows": 0, "numbers": []})):
        out, _ = run(*fit, "--outliers", setting, "--json")
        assert json.loads(out)["outliers"] == want
    _, err = run(*fit, "--outliers", "auto", "--report", "clean.html")
    assert "Note: Every row belongs to a component: there are no outliers." in err
    text = (folder / "clean.html").read_text(encoding="utf-8")
    assert "there are no outliers.</p>" in text
    run(*fit, "--outliers", "0", "--report", "plain.html")
    assert 'id="outliers"' not in (folder / "plain.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "table.csv", "-k", 2, "--outliers", "some"],
         "--outliers is auto, uniform, none or a share of the rows such as 0.05, got 'some'"),
        (["select", "table.csv", "--outliers", "5 %"],
         "--outliers is auto, uniform, none or a share of the rows such as 0.05, got '5 %'"),
        (["fit", "table.csv", "-k", 2, "--outliers", "0.7"], "--outliers must be a float in"),
        (["fit", "table.csv", "-k", 2, "--outliers", "nan"], "--outliers must be a float in"),
        (["fit", "moments.npz", "-k", 2, "--outliers", "auto"],
         "--outliers is for fits of the likelihood"),
        (["select", "table.csv", "-k", "1..2", "--covariance", "diag", "--criterion", "blrt",
          "--outliers", "auto"], "use --outliers none, not 'auto'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(arguments, message, folder):
    out, err = run(*arguments, code=1)
    assert message in err.splitlines()[-1]
    assert out == ""


def test_predict_gives_minus_one(folder, fitted):
    gm, X = fitted
    out, _ = run("predict", "model.json", "table.csv", "--proba")
    found = pd.read_csv(io.StringIO(out), skip_blank_lines=False)
    assert list(found.columns) == ["component", "probability", "p0", "p1", "outlier"]
    assert found.isna().any(axis=1).to_numpy().nonzero()[0].tolist() == [60]
    told = np.arange(len(X)) != 60
    np.testing.assert_array_equal(found["component"][told], gm.predict(X)[told])
    assert np.flatnonzero(found["component"] == -1).tolist() == sorted(SLIPS)
    P = found[["p0", "p1", "outlier"]].to_numpy()[told]
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(P, gm.predict_proba(X, outliers=True)[told], atol=1e-6)
    labels = found["component"][told].astype(int)
    np.testing.assert_allclose(found["probability"][told], P[np.arange(len(P)), labels])
    run("predict", "model.json", "table.csv", "-o", "labels.csv")
    assert pd.read_csv("labels.csv", skip_blank_lines=False)["component"].eq(-1).sum() == len(SLIPS)
    facts = json.loads(run("predict", "model.json", "table.csv", "--json")[0])
    assert facts["component"][17] == -1
    TRUTH.save("plain.json")
    out, _ = run("predict", "plain.json", "table.csv", "--proba")
    assert out.startswith("component,probability,p0,p1\n")


def test_errors_excuse_a_row(folder):
    """A value far out is no outlier if its own error is as large."""
    data = table().dropna()
    data["width_err"] = 0.01
    far = data["width"] > 20
    assert far.sum() == 1
    data.loc[far, "width_err"] = 30.0
    data.to_csv("errors.csv", index=False)
    options = "--columns", ",".join(NAMES), "--errors", "*_err", "--json"
    out, _ = run("fit", "errors.csv", "-k", 2, "--outliers", "auto", *options, "-o", "errors.json")
    assert json.loads(out)["outliers"]["rows"] == 2
    labels = json.loads(run("predict", "errors.json", "errors.csv", *options[2:])[0])["component"]
    assert np.sum(np.equal(labels, -1)) == 2
    assert labels[int(far.to_numpy().argmax())] >= 0


def test_outliers_are_what_the_densities_say():
    """Against SciPy's densities, row by row; and against the parts of a row by hand."""
    mixture = Mixture(
        TRUTH.weights, TRUTH.means, TRUTH.covariances, "diag",
        background=Background(0.02, [10.0, 8, 20]),
    )  # fmt: skip
    X = np.vstack([TRUTH.sample(200, 2)[0], [[5, 30, 1], [7, 3, 5.6], [7.2, np.nan, -9]]])
    found = outliers_of(mixture, X, numbers=np.arange(len(X)) + 1000)
    odds = []
    for row in X:
        seen = ~np.isnan(row)
        own = 0.98 * sum(
            weight * multivariate_normal(mean[seen], np.diag(variances[seen])).pdf(row[seen])
            for weight, mean, variances in zip(
                TRUTH.weights, TRUTH.means, TRUTH.covariances, strict=True
            )
        )
        odds.append(own / (0.02 / np.prod(np.array([10.0, 8, 20])[seen])))
    np.testing.assert_array_equal(found.which, np.array(odds) < 1)
    assert (found.rows, found.total, found.share) == (found.which.sum(), 203, 0.02)
    assert [row.number for row in found.worst] == [
        1000 + i for i in np.argsort(odds, kind="stable")[: found.rows]
    ]
    rows = {row.number - 1000: row for row in found.worst}
    assert (rows[200].component, rows[200].feature) == (0, 1)
    assert rows[200].deviations == pytest.approx((30 - 3) / 0.3)
    assert (rows[202].component, rows[202].feature) == (1, 2)  # by its length, for its depth is odd
    assert rows[202].deviations == pytest.approx(-13 / 0.4)
    assert list(found.features[:2]) in ([1, 2], [2, 1])


def test_few_outliers_leave_no_doubt(fitted):
    """That the share of three rows is hardly known says nothing against the components."""
    gm, X = fitted
    sure = uncertainty_of(gm, X)
    members = gm.predict(X) >= 0
    alone = uncertainty_of(GaussianMixture(2, random_state=0).fit(X[members]), X[members])
    assert sure.doubt == alone.doubt == ""
    np.testing.assert_allclose(sure.errors.means, alone.errors.means, rtol=0.02)


def test_moments_and_certainty_are_those_of_the_others(fitted):
    gm, X = fitted
    whole = FitSummary.from_estimator(gm, X)
    apart = FitSummary(gm.mixture_, "some", X=X[gm.predict(X) >= 0])
    assert whole.rows - whole.members == 3
    np.testing.assert_array_equal(whole.assignment.taken, apart.assignment.taken)
    assert [m.distance for m in whole.matches] == pytest.approx([m.distance for m in apart.matches])
    assert whole.remarks == []


def crosses(ax):
    return [one for one in ax.collections if one.get_label() == "outliers"]


def test_pictures_mark_outliers(fitted):
    gm, X = fitted
    for draw in (plotting.plot_ellipses, plotting.plot_density):
        ax = draw(gm, X, features=(0, 1))
        (marks,) = crosses(ax)
        assert len(marks.get_offsets()) == 3
        # All are in the picture, and leave most of it to the others.
        shown = np.array([ax.get_xlim(), ax.get_ylim()])
        offsets = np.asarray(marks.get_offsets())
        assert np.all((offsets > shown[:, 0]) & (offsets < shown[:, 1]))
        assert shown[0, 1] < 15
        assert shown[1, 1] < 8
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["outliers"]
        (dots,) = [one for one in ax.collections if len(one.get_offsets()) > 100]
        assert len(dots.get_offsets()) == len(X) - 3
    axes = plotting.plot_pairs(gm, X)
    assert all(len(crosses(axes[i, j])) == 1 for i in range(3) for j in range(i + 1))
    assert len(axes[0, 0].figure.legends) == 1
    assert not crosses(plotting.plot_ellipses(TRUTH, X))


def test_a_report_with_outliers(folder):
    path = folder / "report.html"
    text = path.read_text(encoding="utf-8")
    assert re.search(r"3 of \d+ rows \([^)]*\) belong to no component", text)
    assert "Does it fit" not in text
    with chromium() as browser:
        for width, scheme in ((1100, "light"), (390, "dark")):
            opened = Page(browser, path, viewport={"width": width, "height": 900},
                          color_scheme=scheme)  # fmt: skip
            assert opened.said == []
            assert opened.width() <= width
            words = opened.page.inner_text("#outliers")
            assert "3 of 399 rows (0.75 %) belong to no component" in words
            rows = opened.page.locator("#outliers tbody tr").evaluate_all(
                "rows => rows.map(row => [...row.cells].map(cell => Number(cell.dataset.value)))"
            )
            assert {int(row[0]): int(row[1]) for row in rows} == {
                row: column for row, (column, _) in SLIPS.items()
            }
            for row in rows:
                np.testing.assert_allclose(row[4:], table().loc[int(row[0])])
            assert opened.page.locator("#outliers figure svg").count() == 1


@pytest.mark.parametrize("columns", [1, 12])
def test_a_section_has_the_columns_that_tell(columns):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(200, columns)), np.zeros((1, columns))])
    X[200, -1] = 50.0
    gm = GaussianMixture(1, covariance_type="diag", outliers="auto", random_state=0).fit(X)
    section = outliers_section(FitSummary.from_estimator(gm, X), "").html
    assert "1 of 201 rows (0.5 %) belongs to no component; it is row 200, counted" in section
    assert section.count("<button>") == 4 + min(columns, 6)
    assert ("columns that show outliers best" in section) == (columns > 6)
    ax = plotting.plot_marginal(gm, X, feature=columns - 1)
    assert len(crosses(ax)[0].get_offsets()) == 1
    assert ax.get_xlim()[1] < 10
