"""Logarithms of columns in the command: what comes back is in the units of the table."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm, norm
from sklearn.pipeline import make_pipeline

from commands import run
from momentmix import GaussianMixture, LogColumns, Mixture

RNG = np.random.default_rng(0)
GROUP = RNG.integers(0, 2, 800)
FRAME = pd.DataFrame(
    {
        "debt": np.exp(RNG.normal(8 + 2 * GROUP, 0.5)),
        "cars": np.floor(np.exp(RNG.normal(1, 0.6, 800)) - 0.5).clip(0),
        "age": RNG.normal(40 + 20 * GROUP, 4),
        "home": np.where(RNG.random(800) < 0.2 + 0.6 * GROUP, "own", "rent"),
    }
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("data.csv", index=False)
    return tmp_path


def fitted(*options):
    out, _ = run(
        "fit", "data.csv", "-k", "2", "--log", "debt,cars", "-o", "m.json", "--json", *options
    )
    return json.loads(out)


def read(text):
    """Numbers as they are written, whatever the release of pandas reads by default."""
    frame = pd.read_csv(io.StringIO(text), dtype=str)
    return frame.apply(lambda column: column if "own" in set(column) else column.astype(float))


def density(mixture, frame):
    """The density of diagonal mixtures of log(debt), log1p(cars) and age, as scipy has it."""
    total = 0
    for w, mu, var in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        s = np.sqrt(var)
        total = total + w * lognorm.pdf(frame["debt"], s[0], scale=np.exp(mu[0])) * norm.pdf(
            frame["age"], mu[2], s[2]
        ) * lognorm.pdf(frame["cars"] + 1, s[1], scale=np.exp(mu[1]))
    return np.log(total)


def test_the_likelihood_is_that_of_the_columns(folder):
    found = fitted("--covariance", "diag", "--report", "r.html")
    mixture = Mixture.load("m.json")
    assert mixture.feature_names == ("log(debt)", "log1p(cars)", "age")
    want = density(mixture, FRAME)
    assert found["log_likelihood"] == pytest.approx(want.sum(), rel=1e-10)
    told = json.loads(run("score", "m.json", "data.csv", "--json")[0])
    assert told["log_likelihood"] == pytest.approx(want.sum(), rel=1e-10)
    assert found["bic"] == pytest.approx(told["bic"], rel=1e-10)
    run("score", "m.json", "data.csv", "-o", "d.csv")
    np.testing.assert_allclose(pd.read_csv("d.csv")["log_density"], want, rtol=1e-9)
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "The fit is of the logarithms of debt and cars." in page


def test_blocks_and_choices_have_the_same_likelihood(folder):
    whole = fitted("--covariance", "diag")
    assert fitted("--covariance", "diag", "--in-blocks")["log_likelihood"] == pytest.approx(
        whole["log_likelihood"], rel=1e-6
    )
    ranged = run(
        "fit", "data.csv", "-k", "1..2", "--log", "debt,cars", "--covariance", "diag", "--json"
    )
    found = json.loads(ranged[0])
    assert found["choices"][1]["log_likelihood"] == pytest.approx(found["log_likelihood"], rel=1e-6)
    chosen = run(
        "select", "data.csv", "-k", "1..2", "--log", "debt,cars", "--covariance", "diag", "--json"
    )
    assert json.loads(chosen[0])["choices"][0]["bic"] == pytest.approx(found["choices"][0]["bic"])


def test_what_is_drawn_and_filled_is_in_the_units_of_the_table(folder):
    fitted()
    drawn = read(run("sample", "m.json", "-n", "4000", "--seed", "0")[0])
    assert list(drawn) == ["debt", "cars", "age"]
    low, high = np.quantile(FRAME["debt"], [0.1, 0.9])
    np.testing.assert_allclose(np.quantile(drawn["debt"], [0.1, 0.9]), [low, high], rtol=0.15)
    alike = read(run("sample", "m.json", "-n", "200", "--seed", "0", "--like", "data.csv")[0])
    assert np.all(alike["cars"] == np.round(alike["cars"]))
    assert alike["cars"].between(0, FRAME["cars"].max()).all()
    holes = FRAME.copy()
    holes.loc[3, "debt"] = np.nan
    holes.to_csv("holes.csv", index=False)
    filled = read(run("impute", "m.json", "holes.csv")[0])
    there = holes["debt"].notna()
    np.testing.assert_array_equal(filled["debt"][there], FRAME["debt"][there])
    assert 1000 < filled["debt"][3] < 60_000


def test_labels_are_those_of_the_pipeline(folder):
    """A model that was saved in Python works with the command, and the other way round."""
    logs = LogColumns(["debt", "cars"]).set_output(transform="pandas")
    numbers = FRAME.drop(columns="home")
    pipe = make_pipeline(logs, GaussianMixture(2, random_state=0)).fit(numbers)
    pipe[1].mixture_.save("pipe.json")
    shuffled = FRAME[["home", "age", "debt", "cars"]]
    shuffled.to_csv("new.csv", index=False)
    labels = read(run("predict", "pipe.json", "new.csv")[0])["component"]
    np.testing.assert_array_equal(labels, pipe.predict(numbers))
    already = logs.transform(numbers)
    already.to_csv("logged.csv", index=False)
    again = read(run("predict", "pipe.json", "logged.csv")[0])["component"]
    np.testing.assert_array_equal(labels, again)


def test_a_terminal_and_a_pipe_show_components(folder):
    fitted()
    heads = run("show", "m.json")[0].splitlines()[0].split("\t")
    assert heads[2:6] == ["log(debt)", "log(debt) ±", "log1p(cars)", "log1p(cars) ±"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "data.csv", "-k", "1", "--log", "home"], "--log names home, but the columns used"),
        (["fit", "data.csv", "-k", "1", "--log", "depth"], "no column depth for --log"),
        (["fit", "low.csv", "-k", "1", "--log", "debt"], "column debt reaches -3, and"),
        (["predict", "m.json", "data.csv", "--log", "debt"], "a model knows which columns"),
        (["predict", "m.json", "low.csv"], "row 1 (about line 3), column debt: -3.0 (log(debt) is"),
        (["fit", "data.csv", "-k", "1", "--log", "debt", "--errors", "debt=age"],
         "but debt is fitted in logarithms"),
        (["moments", "data.csv", "-o", "x.npz", "--log", "debt"], "--log is for fits of rows"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(folder, arguments, message):
    fitted()
    FRAME.assign(debt=[1, -3, *[2] * 798]).to_csv("low.csv", index=False)
    _, err = run(*arguments, code=1)
    assert message in err
    assert err.count("\n") == 1


def test_other_columns_are_said_beside_the_components(folder):
    FRAME.assign(code="x", day="2024-03-01").to_csv("data.csv", index=False)
    out, _ = run("fit", "data.csv", "-k", "2", "--log", "debt", "--covariance", "diag", "--json")
    found = json.loads(out)
    means = np.array(found["mixture"]["means"])
    old = next(one for one in found["segments"] if means[one["number"], 2] == means[:, 2].max())
    share, of_all = np.mean(FRAME["home"][GROUP == 1] == "own"), np.mean(FRAME["home"] == "own")
    assert old["relations"] == [
        f"mostly home = own ({100 * share:.0f} %, all {100 * of_all:.0f} %)"
    ]
    assert any(trait.startswith("high age") for trait in old["traits"])
    assert any(trait.startswith("high debt (") for trait in old["traits"])


def test_tables_for_papers(folder):
    fitted("--paper", "p.md")
    assert "| class | share | rows | AvePP | debt | cars | age |" in (folder / "p.md").read_text()
    run("fit", "data.csv", "-k", "1..2", "--paper", "p.tex")
    assert (folder / "p.tex").read_text().count(r"\begin{tabular}") == 2
