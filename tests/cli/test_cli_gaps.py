"""Gaps and errors in the command, as a user has them, and in the report."""

import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from momentmix import GaussianMixture, Mixture
from momentmix.cli import app
from momentmix.files.opening import open_table
from momentmix.observed import noise_of_errors
from momentmix.plotting import plot_pairs
from momentmix.summary import FitSummary
from momentmix.summary.fit_summary import errors_remark
from momentmix.summary.rows import column_summaries, with_costs

NAMES = ["bill", "flipper", "mass"]
COVARIANCE = np.array([[9.0, 12, 300], [12, 49, 1500], [300, 1500, 90000]])
BIRDS = Mixture(
    [0.55, 0.45],
    [[38.0, 190, 3700], [47, 217, 5000]],
    [COVARIANCE, COVARIANCE],
    feature_names=NAMES,
)


def birds():
    """Three columns with gaps, one row of nothing else, words and years."""
    X, labels = BIRDS.sample(150, 3)
    X = np.round(X * [10, 1, 1]) / [10, 1, 1]
    rng = np.random.default_rng(0)
    X[:, 1:][rng.random((150, 2)) < [0.1, 0.3]] = np.nan
    X[7] = np.nan
    table = pd.DataFrame(X, columns=NAMES)
    table.insert(0, "kind", np.where(labels, "Gentoo", "Adélie"))
    table["year"] = 2007 + np.arange(150) % 3
    return table


def stars():
    """Two columns, each with its standard errors."""
    rng = np.random.default_rng(1)
    V = np.where(rng.random((200, 1)) < 0.4, [0.0, 0], [5.0, 3]) + rng.normal(size=(200, 2))
    E = rng.gamma(2, 0.4, size=(200, 2))
    X = V + E * rng.normal(size=(200, 2))
    table = pd.DataFrame({"a": X[:, 0], "a_err": E[:, 0], "b": X[:, 1], "b_err": E[:, 1]})
    table.loc[5, ["b", "b_err"]] = np.nan
    return table.round(4)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Both tables, a model of each by the command, and the page about it."""
    folder = tmp_path_factory.mktemp("gaps")
    birds().to_csv(folder / "birds.csv", index=False, na_rep="NA")
    stars().to_csv(folder / "stars.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("fit", "birds.csv", "-k", 2, "-o", "birds.json", "--report", "birds.html")
        run("fit", "stars.csv", "-k", 2, "--errors", "a_err,b_err", "-o", "stars.json",
            "--report", "stars.html")  # fmt: skip
    return folder


@pytest.fixture
def folder(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


def run(*arguments, code=0, **options):
    done = CliRunner().invoke(app, list(map(str, arguments)), **options)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def section(path, name):
    """The words of a section of a page."""
    text = re.search(rf'<section id="{name}">.*?</section>', path.read_text("utf-8"), re.S)[0]
    text = re.sub(r"<svg.*?</svg>|<[^>]+>", " ", text, flags=re.S)
    return " ".join(html.unescape(text).split())


def values(table):
    return table[NAMES].to_numpy()


def same(found, want):
    np.testing.assert_allclose(found.means, want.means_, rtol=1e-6)
    np.testing.assert_allclose(found.covariances, want.covariances_, rtol=1e-5)


def test_the_fit_is_that_of_what_was_observed(folder):
    X = values(birds())
    same(Mixture.load("birds.json"), GaussianMixture(2, random_state=0).fit(X))
    out, err = run("fit", "birds.csv", "-k", 2, "--json")
    facts = json.loads(out)
    gaps = {name: int(count) for name, count in zip(NAMES, np.isnan(X).sum(0) - 1, strict=True)}
    assert facts["gaps"] == {name: count for name, count in gaps.items() if count}
    assert (facts["rows"], facts["rows_dropped"]) == (149, 1)
    cells, rows = sum(gaps.values()), int(np.isnan(X).any(axis=1).sum()) - 1
    assert f"Note: {cells} cells of 450, in {rows} of 150 rows, are gaps; the other values" in err
    assert "used. 1 of 150 rows have no value and were left out.\n" in err
    found = Mixture.load("birds.json")
    np.testing.assert_allclose(facts["log_likelihood"], found.log_prob(X).sum())
    np.testing.assert_allclose(
        facts["bic"], -2 * facts["log_likelihood"] + 19 * np.log(149), rtol=1e-9
    )


def test_gaps_can_be_left_out_or_refused(folder):
    X = values(birds())
    complete = X[~np.isnan(X).any(axis=1)]
    _, err = run("fit", "birds.csv", "-k", 1, "--missing", "drop", "-o", "d.json")
    assert f"{150 - len(complete)} of 150 rows have gaps and were left out." in err
    np.testing.assert_allclose(Mixture.load("d.json").means[0], complete.mean(axis=0))
    for command in (["fit", "birds.csv", "-k", "1"], ["predict", "birds.json", "birds.csv"],
                    ["score", "birds.json", "birds.csv"]):  # fmt: skip
        out, err = run(*command, "--missing", "error", code=1)
        assert re.search(r"birds.csv, row \d+ \(about line \d+\), column \w+: no value \(--m", err)
        assert out == ""


def test_the_number_of_components_with_gaps(folder):
    """One value for each row decides less, but it decides."""
    table = pd.DataFrame({"x": np.r_[np.zeros(30), np.full(30, 9)] + np.linspace(0, 1, 60)})
    table["y"] = table["x"].where(np.arange(60) % 3 > 0) ** 1.1
    table.to_csv("two.csv", index=False)
    choices = json.loads(run("fit", "two.csv", "-k", "auto", "--json")[0])
    fit = GaussianMixture(2, random_state=0).fit(table)
    assert choices["choices"][1]["bic"] == pytest.approx(fit.bic(table), rel=1e-6)


def test_predict_and_score_answer_for_rows_with_gaps(folder):
    X, model = values(birds()), Mixture.load("birds.json")
    out, err = run("predict", "birds.json", "birds.csv", "--proba")
    assert "1 of 150 rows have no value and get no component." in err
    found = pd.read_csv(io.StringIO(out), skip_blank_lines=False)
    assert found.isna().any(axis=1).to_numpy().nonzero()[0].tolist() == [7]
    told = np.arange(150) != 7
    joint = model.log_joint(X[told])
    np.testing.assert_array_equal(found["component"][told], joint.argmax(axis=1))
    share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    np.testing.assert_allclose(found[["p0", "p1"]][told], share, atol=1e-9)
    out, _ = run("score", "birds.json", "birds.csv", "--json", "-o", "rows.csv")
    assert json.loads(out)["rows"] == 149
    density = pd.read_csv("rows.csv", skip_blank_lines=False)["log_density"]
    np.testing.assert_allclose(density[told], model.log_prob(X[told]))
    assert np.isnan(density[7])
    _, err = run("predict", "birds.json", "birds.csv", "--missing", "drop")
    assert "rows have gaps and get no component." in err


def test_errors_are_taken_into_account(folder):
    table = stars()
    X, E = table[["a", "b"]].to_numpy(), table[["a_err", "b_err"]].to_numpy()
    fit = GaussianMixture(2, random_state=0).fit(X, noise_covariance=E**2)
    same(Mixture.load("stars.json"), fit)
    for errors in ("*_err", "b=b_err,a=a_err", "1,3"):
        out, err = run("fit", "stars.csv", "-k", 2, "--errors", errors, "-o", "again.json")
        assert "Note: standard errors are read as a ± a_err, b ± b_err." in err
        same(Mixture.load("again.json"), fit)
    out, _ = run("predict", "stars.json", "stars.csv", "--errors", "a_err,b_err", "--proba")
    found = pd.read_csv(io.StringIO(out))
    np.testing.assert_allclose(found[["p0", "p1"]], fit.predict_proba(X, E**2), atol=1e-6)
    out, _ = run("score", "stars.json", "stars.csv", "--errors", "*_err", "--json")
    np.testing.assert_allclose(json.loads(out)["log_likelihood"], fit.score(X, None, E**2) * 200)
    _, err = run("score", "stars.json", "stars.csv", "--errors", "b=b_err")
    assert "read as b ± b_err; taken to be exact: a." in err


def test_as_many_rows_as_columns(folder):
    """Errors (2, 2) are those of two rows, and no covariance of all."""
    some = stars()[:2]
    some.to_csv("square.csv", index=False)
    X, E = some[["a", "b"]].to_numpy(), some[["a_err", "b_err"]].to_numpy()
    run("score", "stars.json", "square.csv", "--errors", "*_err", "-o", "square.npy")
    model = Mixture.load("stars.json")
    each = [model.log_prob(X[[i]], E[[i]] ** 2)[0] for i in range(2)]
    np.testing.assert_allclose(np.load("square.npy")[:, 0], each)
    np.testing.assert_allclose(model.log_prob(X, noise_of_errors(E)), each)


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ("a_err", "--errors names 1 column(s) (a_err), but 2 are used (a, b); name one for each, or"
         " write pairs such as a=a_err"),
        ("a=a_err,b_err", "--errors has pairs such as a=a_err, but also 'b_err'; write all as"),
        ("*_sd", "no two columns of bad.csv are named x and x_sd; it has a, a_err, b, b_err"),
        ("c_err,b_err", "bad.csv: no column c_err for --errors; it has a, a_err"),
        ("a=a_err,b=b_err", "bad.csv, row 3 (about line 5), column a_err: -0.5 (a standard error of"
         " a is a number of at least 0; mend it)"),
        ("b=b_err", "bad.csv, row 9 (about line 11), column b_err: no value (b has a value there;"),
        ("a_err=b_err", "a_err cannot be both a column to use (for --columns) and one of errors"),
        ("a_err,a_err", "--errors names a_err twice"),
        ("", "--errors names nothing"),
    ],
)  # fmt: skip
def test_errors_that_cannot_be_meant(errors, message, folder):
    table = stars()[:20]
    table.loc[3, "a_err"] = -0.5
    table.loc[9, "b_err"] = np.nan
    table.to_csv("bad.csv", index=False)
    used = ["--columns", "a,b"]
    if errors.startswith("a_err="):
        used, errors = ["--columns", "a,b,a_err"], "a_err"
    out, err = run("fit", "bad.csv", "-k", 1, "--errors", errors, *used, code=1)
    assert message in err.splitlines()[-1]
    assert out == ""


def test_moments_have_no_errors(folder):
    run("moments", "stars.csv", "-o", "m.npz", "--order", 2)
    _, err = run("fit", "m.npz", "-k", 1, "--errors", "*_err", code=1)
    assert "--errors needs the rows" in err
    (folder / "void.csv").write_text("a,b\n1,\n2,\n4,\n")
    _, err = run("fit", "void.csv", "-k", 1, "--columns", "a,b", code=1)
    assert "void.csv: column b has no value in any row; --exclude b leaves it out" in err
    _, err = run("fit", "void.csv", "-k", 1, "--columns", "b", code=1)
    assert "void.csv: no row has any value in a column that is used" in err.splitlines()[-1]


def test_impute_gives_the_table_back(folder):
    table, model = birds(), Mixture.load("birds.json")
    X = values(table)
    gaps = np.isnan(X)
    _, err = run("impute", "birds.json", "birds.csv", "-o", "filled.csv")
    assert err == (
        f"Note: {gaps.sum()} cells in {gaps.any(axis=1).sum()} of 150 rows were filled; 1 of these "
        "rows have no value, and the model alone fills them.\n"
    )
    found = pd.read_csv("filled.csv")
    assert list(found.columns) == list(table.columns)
    np.testing.assert_array_equal(found[["kind", "year"]], table[["kind", "year"]])
    np.testing.assert_array_equal(values(found)[~gaps], X[~gaps])
    np.testing.assert_allclose(values(found), model.impute(X), rtol=1e-12)
    assert f",{X[0, 1]:.0f}," in Path("filled.csv").read_text(encoding="utf-8").splitlines()[1]
    assert run("impute", "birds.json", "filled.csv")[1] == "Note: there was no gap to fill.\n"
    assert run("impute", "birds.json", "filled.csv")[0] == Path("filled.csv").read_text("utf-8")


def test_impute_in_every_format(folder):
    table = birds()
    table["day"] = pd.Timestamp("2024-03-01")
    table.to_parquet("birds.parquet")
    table.to_csv("german.csv", sep=";", decimal=",", index=False, encoding="utf-16")
    table.to_excel("birds.xlsx", index=False)
    want = pd.read_csv(io.StringIO(run("impute", "birds.json", "birds.csv")[0]))
    for name in ("birds.parquet", "german.csv", "birds.xlsx"):
        for ending in ("csv", "parquet", "arrow"):
            run("impute", "birds.json", name, "-o", f"out.{ending}")
            read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}
            found = read[ending](f"out.{ending}")
            np.testing.assert_allclose(values(found), values(want))
            assert list(found["kind"]) == list(table["kind"])
            assert found["year"].dtype.kind == "i"
            assert list(found.columns) == [*want.columns, "day"]
    _, err = run("impute", "birds.json", "birds.csv", "-o", "out.npy")
    assert "out.npy holds numbers alone, without kind." in err
    np.testing.assert_allclose(np.load("out.npy")[:, :3], values(want))
    np.save("bare.npy", values(table))
    out, _ = run("impute", "birds.json", "bare.npy")
    assert out.startswith("bill,flipper,mass\n")
    out, _ = run("impute", "birds.json", "-", input=Path("birds.csv").read_bytes())
    assert out == run("impute", "birds.json", "birds.csv")[0]


def test_multiple_imputation(folder):
    X, model = values(birds()), Mixture.load("birds.json")
    run("impute", "birds.json", "birds.csv", "-o", "draws.csv", "--draws", 20, "--seed", 5)
    found = pd.read_csv("draws.csv")
    np.testing.assert_array_equal(found["draw"], np.repeat(np.arange(1, 21), 150))
    draws = values(found).reshape(20, 150, 3)
    np.testing.assert_allclose(draws, model.impute(X, 20, random_state=5))
    assert draws[:, np.isnan(X)].std(axis=0).min() > 0
    assert np.ptp(draws[:, ~np.isnan(X)], axis=0).max() == 0
    for arguments, message in ((("--draws", 0), "--draws must be at least 1, got 0"),
                               (("--seed", 1), "--seed goes with --draws")):  # fmt: skip
        assert message in run("impute", "birds.json", "birds.csv", *arguments, code=1)[1]


def test_words_that_act_on_a_terminal_are_shown(folder):
    (folder / "odd.csv").write_text("bill,flipper,mass,note\n40,NA,4000,\x1b[31mred\n39,180,,x\n")
    out, _ = run("impute", "birds.json", "odd.csv")
    assert "\\x1b[31mred" in out
    assert "\x1b" not in out


def test_cells_of_text_that_are_no_plain_numbers(tmp_path):
    """Columns that nobody fits stay as they are, whatever is in them."""
    path = tmp_path / "t.csv"
    path.write_text(
        'a,zip,price,note\n1,01234,"$1,200","x, y"\n2,99999,$3,?\n\n3,00001,NA,"1\n2"\n'
    )
    table = open_table(path)
    zips, price, note = table.cells(["zip", "price", "note"])
    assert zips.tolist() == ["01234", "99999", "00001"]
    np.testing.assert_array_equal(price, [1200, 3, np.nan])
    assert note.tolist() == ["x, y", "?", "1\n2"]
    path.write_text("a,b\n1,5\n2,x\n3,6\n4,7\n")
    assert open_table(path).cells(["b"])[0].tolist() == ["5", "x", "6", "7"]


def test_what_gaps_cost_is_what_regression_says(folder):
    """Of one Gaussian it is R² of a regression on the other columns."""
    mixture = Mixture([1.0], [[0.0, 0, 0]], COVARIANCE[None], feature_names=NAMES)
    X = mixture.sample(3000, 0)[0]
    X[:300, 2] = np.nan
    first, _, last = with_costs(column_summaries(X, NAMES), mixture, X)
    rest = COVARIANCE[2, :2] @ np.linalg.solve(COVARIANCE[:2, :2], COVARIANCE[:2, 2])
    want = rest / COVARIANCE[2, 2]
    np.testing.assert_allclose(last.gaps_known, want)
    np.testing.assert_allclose(last.known, 0.9 + 0.1 * want)
    assert (first.known, first.gap_share, last.gap_share) == (1, 0, 0.1)
    assert np.isnan(first.gaps_known)


def test_what_errors_cost_is_their_share_of_the_variance():
    mixture = Mixture([1.0], [[0.0]], [[4.0]], "diag")
    rng = np.random.default_rng(0)
    E = np.ones((5000, 1))
    X = mixture.sample(5000, 0)[0] + rng.normal(size=(5000, 1))
    (column,) = with_costs(column_summaries(X, ["x"]), mixture, X, E)
    np.testing.assert_allclose(column.known, 0.8)  # 4 of 4 + 1
    np.testing.assert_allclose(column.error_share, 1 / X.var())
    assert errors_remark([column]) == ""
    (column,) = with_costs(column_summaries(X, ["x"]), mixture, X, 3 * E)
    assert "errors of column x are larger than its values differ" in errors_remark([column])
    many = Mixture([1.0], np.zeros((1, 400)), np.eye(400)[None])
    gaps = np.where(rng.random((60, 400)) < 0.5, np.nan, 1.0)
    told = with_costs(column_summaries(gaps, list(map(str, range(400)))), many, gaps)
    assert np.isnan(told[0].known)  # it would take longer than the fit


def test_the_report_says_what_gaps_and_errors_cost(folder):
    columns = section(folder / "birds.html", "columns")
    X = values(birds())
    cells = np.isnan(X).sum() - 3
    assert "Of 150 rows, 1 has no value and was left out, so that 149 rows were used." in columns
    assert f"{cells} cells of 447 ({100 * cells / 447:.0f} %) are gaps, in" in columns
    share = f"{100 * (np.isnan(X[:, 2]).sum() - 1) / 149:.0f} %"
    assert f"column “mass” has the most, {share}." in columns
    assert "“Gaps known” is how much" in columns
    assert "It is least for “mass”" in columns
    assert "standard errors" not in columns
    assert "gaps are filled once at random" in section(folder / "birds.html", "moments")
    assert "momentmix impute birds.json" in section(folder / "birds.html", "use")
    columns = section(folder / "stars.html", "columns")
    assert "1 cell of 400 (less than 1 %) is a gap, in 1 row;" in columns
    assert "errors of “a” (in “a_err”) and “b” (in “b_err”) were taken into account" in columns
    assert "“Errors” is how much of the variance of the values their errors explain" in columns
    assert "scatter more widely" in section(folder / "stars.html", "components")
    assert "errors of the values are taken out" in section(folder / "stars.html", "moments")


def test_pictures_and_summaries_take_gaps(folder):
    pytest.importorskip("matplotlib").use("agg")
    X, E = values(birds()), np.full((150, 3), 0.1)
    model = Mixture.load("birds.json")
    axes = plot_pairs(model, X, errors=E)
    dots = axes[1, 0].collections[0].get_offsets()
    assert np.sum(~np.ma.getmaskarray(dots).any(axis=1)) == np.sum(~np.isnan(X[:, :2]).any(axis=1))
    summary = FitSummary(model, "birds", X=X)
    assert summary.rows == summary.assignment.rows == 149
    assert all(match.ratio < 3 for match in summary.matches)
