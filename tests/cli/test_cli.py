"""The command, as a user and as a script see it."""

import csv
import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

from commands import run
from momentmix import GaussianMixture, Mixture, MomentTensors, Samples, compare, moment_test
from momentmix.cli import app
from momentmix.goodness import moment_match

NAMES = ["width", "height", "note"]
TRUTH = Mixture(
    [0.6, 0.4],
    [[0.0, 10.0], [5.0, 30.0]],
    [[1.0, 4.0], [1.0, 9.0]],
    "diag",
    feature_names=NAMES[:2],
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with a column of words, and a model."""
    monkeypatch.chdir(tmp_path)
    X, _ = TRUTH.sample(600, 0)
    with open("data.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([*row, "word"] for row in X)
    TRUTH.save("model.json")
    return tmp_path


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def data():
    return np.array([row[:2] for row in rows(Path("data.csv").read_text())[1:]], dtype=float)


def fit(*arguments, **options):
    return run("fit", "data.csv", "--columns", "width,height", *arguments, **options)


def test_fit_keeps_the_names_of_the_columns(folder):
    out, err = fit("-k", 2, "--covariance", "diag", "-o", "fitted.json")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["component", "weight", "width", "width ±", "height", "height ±"]
    assert len(lines) == 3
    assert err == ""
    model = Mixture.load("fitted.json")
    assert model.feature_names == ("width", "height")
    assert model.covariance_type == "diag"
    order = np.argsort(model.means[:, 0])
    np.testing.assert_allclose(model.means[order], TRUTH.means, atol=0.5)


def test_fit_says_all_of_it_as_json(folder):
    out, _ = fit("-k", "auto", "--covariance", "diag", "--json", "--prior", "none")
    facts = json.loads(out)
    X = data()
    mixture = facts["mixture"]
    found = Mixture(mixture["weights"], mixture["means"], mixture["covariances"], "diag")
    assert mixture["feature_names"] == ["width", "height"]
    assert facts["rows"] == 600
    np.testing.assert_allclose(facts["log_likelihood"], found.log_prob(X).sum())
    np.testing.assert_allclose(facts["bic"], -2 * facts["log_likelihood"] + 9 * np.log(600))
    assert [choice["n_components"] for choice in facts["choices"]] == [1, 2, 3, 4, 5]
    assert mixture["n_components"] == 2
    matches = moment_match(found, Samples(X))
    np.testing.assert_allclose([m["distance"] for m in facts["moments"]],
                               [m.distance for m in matches], atol=1e-9)  # fmt: skip
    assert facts["converged"] is True
    assert facts["remarks"] == []
    settings = {"covariance_type": "diag", "prior": None, "random_state": 0}
    gm = GaussianMixture(2, means_init=mixture["means"], **settings).fit(X)
    for name, part in gm.standard_errors(X)._asdict().items():
        np.testing.assert_allclose(facts["uncertainty"]["standard_errors"][name], part, rtol=1e-2)
    assert facts["uncertainty"]["doubt"] == ""
    low, high = (facts["uncertainty"]["interval_95"][end]["weights"][0] for end in ("low", "high"))
    assert low < mixture["weights"][0] < high
    classification = facts["classification"]
    assert classification["uncertainty"] == pytest.approx(
        1 - gm.predict_proba(X).max(axis=1).mean(), rel=0.05
    )
    assert sum(classification["rows_of_components"]) == 600


def test_report_from_one_command(folder):
    fit("-k", "auto", "--report", "report.html", "-o", "fitted.json")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "2 Gaussian components in data.csv" in text
    assert "How many components" in text
    assert "fitted.json" in text


def test_fit_of_moments(folder):
    run("moments", "data.csv", "--columns", "width,height", "-o", "m.npz")
    out, _ = run("fit", "m.npz", "-k", 2, "--covariance", "diag", "-o", "f.json", "--json",
                 "--report", "r.html")  # fmt: skip
    facts = json.loads(out)
    assert facts["log_likelihood"] is None
    assert facts["mixture"]["feature_names"] == ["width", "height"]
    assert Mixture.load("f.json").feature_names == ("width", "height")
    assert (folder / "r.html").exists()


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet", "arrow", "arrows"])
def test_standard_input_in_any_format(folder, kind):
    X = data()
    table = pa.table({"width": X[:, 0], "height": X[:, 1]})
    sink = io.BytesIO()
    if kind == "csv":
        sink.write(b"width,height\n")
        np.savetxt(sink, X, delimiter=",", fmt="%.17g")
    elif kind == "npy":
        np.save(sink, X)
    elif kind == "parquet":
        pa.parquet.write_table(table, sink)
    else:
        new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table)
    out, _ = run("score", "model.json", "-", "--json", input=sink.getvalue())
    np.testing.assert_allclose(
        json.loads(out)["log_likelihood"], TRUTH.log_prob(X).sum(), rtol=1e-12
    )


def test_predict_by_name_in_any_order(folder):
    X = data()
    (folder / "turned.csv").write_text(
        "height,other,width\n" + "".join(f"{b!r},x,{a!r}\n" for a, b in X.tolist())
    )
    out, _ = run("predict", "model.json", "turned.csv", "--proba")
    header, *body = rows(out)
    assert header == ["component", "probability", "p0", "p1"]
    joint = TRUTH.log_joint(X)
    values = np.array(body, dtype=float)
    np.testing.assert_array_equal(values[:, 0], joint.argmax(axis=1))
    posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    np.testing.assert_allclose(values[:, 2:], posterior, atol=1e-12)
    np.testing.assert_allclose(values[:, 1], posterior.max(axis=1), atol=1e-12)
    as_json = json.loads(run("predict", "model.json", "turned.csv", "--json")[0])
    assert as_json["component"] == values[:, 0].astype(int).tolist()
    for ending in ("csv", "npy", "parquet", "arrow"):
        out, _ = run("predict", "model.json", "turned.csv", "-o", f"labels.{ending}")
        assert out == ""
    labels = pa.parquet.read_table("labels.parquet")["component"].to_numpy()
    np.testing.assert_array_equal(labels, values[:, 0])
    np.testing.assert_array_equal(np.load("labels.npy")[:, 0], values[:, 0])
    assert rows(Path("labels.csv").read_text())[0] == ["component", "probability"]


def test_score(folder):
    out, _ = run("score", "model.json", "data.csv", "-o", "rows.csv")
    header, values = (line.split("\t") for line in out.splitlines())
    assert header == ["rows", "log-likelihood", "a row", "AIC", "BIC"]
    log_density = TRUTH.log_prob(data())
    total = log_density.sum()
    want = [600, total, total / 600, -2 * total + 18, -2 * total + 9 * np.log(600)]
    np.testing.assert_allclose(np.array(values, dtype=float), want, rtol=1e-6)
    written = np.array(rows(Path("rows.csv").read_text())[1:], dtype=float)[:, 0]
    np.testing.assert_allclose(written, log_density, rtol=1e-12)


def test_sample(folder):
    out, _ = run("sample", "model.json", "-n", 5, "--seed", 3, "--labels")
    header, *body = rows(out)
    assert header == ["width", "height", "component"]
    X, labels = TRUTH.sample(5, 3)
    np.testing.assert_array_equal(np.array(body, dtype=float), np.column_stack([X, labels]))
    run("sample", "model.json", "-n", 2000, "-o", "new.parquet", "--seed", 1)
    out, _ = run("compare", "model.json", "new.parquet", "--json")
    orders = json.loads(out)["orders"]
    assert all(order["distance"] < 4 * order["noise"] for order in orders)


def test_compare_of_every_kind(folder):
    run("moments", "data.csv", "--columns", "width,height", "-o", "m.npz")
    X = data()
    found = {}
    for pair in (("model.json", "data.csv"), ("model.json", "m.npz"), ("data.csv", "m.npz"),
                 ("model.json", "model.json")):  # fmt: skip
        out, _ = run("compare", *pair, "--order", 3, "--json")
        found[pair] = [order["distance"] for order in json.loads(out)["orders"]]
    want = [match.distance for match in moment_match(TRUTH, Samples(X), 3)]
    np.testing.assert_allclose(found["model.json", "data.csv"], want)
    np.testing.assert_allclose(found["model.json", "m.npz"], want, rtol=1e-8)
    np.testing.assert_allclose(found["data.csv", "m.npz"], 0, atol=1e-9)
    assert found["model.json", "model.json"] == [0, 0, 0]
    out, err = run("compare", "model.json", "data.csv")
    assert out.splitlines()[0].split("\t") == [
        "order", "distance", "of B's moment", "sampling", "ratio", "p-value"]  # fmt: skip
    assert "p =" not in err
    shifted = Mixture(TRUTH.weights, TRUTH.means + 1, TRUTH.covariances, "diag")
    shifted.save("shifted.json")
    _, err = run("compare", "shifted.json", "data.csv", "--columns", "width,height")
    assert "the means of the data are not those of the mixture" in err
    arguments = "shifted.json", "data.csv", "--columns", "width,height", "--permutations", 0
    _, err = run("compare", *arguments)
    assert "more than sampling explains" in err


def test_compare_tests_only_as_many_orders_as_are_affordable(folder):
    """Of 42 columns there are 163,185 moments of orders 1 to 4, whose tests would take hours."""
    X = np.random.default_rng(0).standard_normal((60, 42))
    Mixture([1.0], [X.mean(axis=0)], [np.eye(42)]).save("wide.json")
    np.savetxt("wide.csv", X, delimiter=",", header=",".join(f"c{i}" for i in range(42)))
    out, _ = run("compare", "wide.json", "wide.csv", "--fitted", "--json")
    orders = json.loads(out)["orders"]
    assert [order["order"] for order in orders] == [1, 2, 3, 4]
    assert ["p_value" in order for order in orders] == [True, True, False, False]
    out, _ = run("compare", "wide.json", "wide.csv", "--fitted")
    assert [line.split("\t")[-1] for line in out.splitlines()] == ["p-value", *"————"]


def test_compare_tells_what_chance_explains(folder):
    X = data()
    out, _ = run("compare", "model.json", "data.csv", "--json", "--permutations", 99, "--seed", 3)
    want = moment_test(TRUTH, X, estimated=False, n_boot=99, random_state=3)
    assert [order["p_value"] for order in json.loads(out)["orders"]] == want.p_values.tolist()
    run("fit", "data.csv", "-k", 2, "--columns", "width,height", "-o", "fitted.json")
    out, _ = run("compare", "fitted.json", "data.csv", "--fitted", "--json")
    orders = json.loads(out)["orders"]
    assert orders[0]["p_value"] is None
    assert "nothing to test" in orders[0]["sentence"]
    assert orders[2]["p_value"] > 0.05
    run("sample", "model.json", "-n", 300, "-o", "more.csv", "--seed", 1)
    out, _ = run("compare", "more.csv", "data.csv", "--columns", "width,height", "--json")
    p_values = [order["p_value"] for order in json.loads(out)["orders"]]
    Y, _ = TRUTH.sample(300, 1)
    np.testing.assert_allclose(p_values, compare(Y, X, random_state=0).p_values, atol=0.01)
    _, err = run("compare", "model.json", "model.json", "--fitted", code=1)
    assert "--fitted is for a model and the table" in err
    _, err = run("compare", "model.json", "data.csv", "--permutations", -1, code=1)
    assert "--permutations must be at least 0" in err


def test_show(folder):
    out, _ = run("show", "model.json")
    assert out.splitlines()[1].split("\t") == ["0", "0.6000", "0", "1", "10", "2"]
    described = json.loads(run("show", "model.json", "--json")[0])
    assert described["means"] == TRUTH.means.tolist()
    assert described["covariance_type"] == "diag"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "data.csv", "-k", "2", "--columns", "width,note"],
         "data.csv, row 0 (line 2), column note: 'word' is not a number (--na 'word' takes it for "
         "a gap, --exclude leaves the column out)"),
        (["fit", "data.csv", "-k", "many"], "-k is a whole number, 'auto' or a range such as 1"),
        (["fit", "data.csv", "-k", "2", "-o", "model.txt"], "unknown ending '.txt'; known are"),
        (["fit", "data.csv", "-k", "2", "--report", "report.pdf"], "known are .html"),
        (["fit", "data.csv", "-k", "2", "-o", "no/model.json"], "there is no folder no"),
        (["fit", "data.csv", "-k", "0"], "-k must be an int in the range [1, inf) or"),
        (["fit", "data.csv", "-k", "2", "--prior", "x"], "--prior is auto, cv, none or a number"),
        (["fit", "data.csv", "-k", "2", "--goal", "groups"], "--goal"),
        (["fit", "data.csv", "-k", "2", "--columns", "width,width"], "names width twice"),
        (["fit", "inf.csv", "-k", "1"], "row 1 (about line 3), column b: inf (leave the row"),
        (["fit", "long.csv", "-k", "1", "--columns", "a,b"],
         "xxxxxxxxx…' is not a number"),
        (["score", "model.json", "gap2.csv", "--missing", "error"],
         "no value (--missing keep uses the other values of the row, --missing drop leaves it"),
        (["predict", "model.json", "data.csv", "--columns", "width,note"],
         "--columns chooses width, note, but the model has width, height"),
        (["fit", "wide.npy", "-k", "1", "--columns", "0,7"],
         "no column 7 for --columns; it has none with a name, but positions 0 to 2"),
        (["show", "weights.json"], "weights.json is not a momentmix model: weights"),
        (["show", "truth.json"], "momentmix model: a parameter holds something else"),
        (["sample", "model.json", "-n", str(10**20)], "-n must be at most 1,000,000,000,000"),
        (["fit", "m.npz", "-k", "auto"], "-k auto needs rows"),
        (["fit", "m.npz", "-k", "9" * 20], "components are more than any number of moments"),
        (["fit", "data.csv", "-k", "9" * 20, "--columns", "width,height"],
         "asks for more components than data.csv has rows (600)"),
        (["fit", "m.npz", "-k", "2", "--order", "10000000"], "--order 10000000 is too high"),
        (["moments", "data.csv", "--columns", "width,height", "--order", "10000000", "-o", "n.npz"],
         "the distinct moments up to order 10000000 of 2 features number 50,000,015,000,001"),
        (["moments", "data.csv", "--columns", "width", "--order", "10000000", "-o", "n.npz"],
         "moments are kept up to order 170"),
        (["compare", "model.json", "model.json", "--order", "1000000"], "distinct moments; up to"),
        (["compare", "model.json", "model.json", "--order", "25"], "compared up to order 20"),
        (["fit", "gap.csv", "-k", "1", "--missing", "error"],
         "gap.csv, row 1 (about line 3), column b: no value (--missing keep uses"),
        (["fit", "empty.csv", "-k", "1"], "empty.csv: no rows"),
        (["predict", "data.csv", "data.csv"], "data.csv is not a momentmix model"),
        (["predict", "nothing.json", "data.csv"], "nothing.json: there is no such file"),
        (["show", "m.npz"], "m.npz is not a momentmix model: it is not text"),
        (["moments", "data.csv", "-o", "m.json"], "unknown ending '.json'; known are .npz"),
        (["predict", "model.json", "gap.csv"],
         "gap.csv: no column width, height for the model; it has a, b"),
        (["predict", "model.json", "wide.npy"],
         "wide.npy has 3 column(s), but the model has 2; choose them with --columns"),
        (["predict", "model.json", "data.csv", "-o", "labels.xls"], "labels.xls: unknown ending"),
        (["show", "newer.json"], "its version is 2, this release reads version 1"),
        (["show", "damaged.json"], "damaged.json is not a momentmix model"),
        (["sample", "model.json", "-n", "-3"], "-n must be at least 1, got -3"),
        (["compare", "model.json", "other.json"], "other.json has a, b"),
        (["compare", "model.json", "m.npz", "--order", "9"], "Q holds moments up to order 4"),
        (["compare", "model.json", "data.csv", "--order", "0"], "--order must be at least 1"),
        (["score", "model.json", "-"], "standard input: nothing came"),
        (["moments", "-", "-o", "m2.npz"], "moments reads files"),
    ],
)  # fmt: skip
def test_one_line_for_every_mistake(arguments, message, folder):
    run("moments", "data.csv", "--columns", "width,height", "-o", "m.npz")
    (folder / "gap.csv").write_text("a,b\n1,2\n3,\n")
    (folder / "gap2.csv").write_text("width,height\n1,2\n3,\n")
    (folder / "inf.csv").write_text("a,b\n1,2\n3,inf\n")
    (folder / "long.csv").write_text("a,b\n1,2\n" + "x" * 200_000 + ",1\n")
    (folder / "empty.csv").write_text("a,b\n")
    np.save("wide.npy", np.zeros((4, 3)))
    good = json.loads((folder / "model.json").read_text())
    (folder / "newer.json").write_text(json.dumps(good | {"version": 2}))
    (folder / "damaged.json").write_text((folder / "model.json").read_text()[:-20])
    (folder / "other.json").write_text(json.dumps(good | {"feature_names": ["a", "b"]}))
    (folder / "weights.json").write_text(json.dumps(good | {"weights": [0.9, 0.9]}))
    (folder / "truth.json").write_text(json.dumps(good | {"weights": [True, 0.0]}))
    before = sorted(os.listdir())
    out, err = run(*arguments, code=1)
    assert message in err
    assert len(err.splitlines()) == 1
    assert err.startswith("momentmix: ")
    assert out == ""
    assert sorted(os.listdir()) == before


def test_columns_of_a_model_in_its_own_order(folder):
    """--columns chooses; it does not rename."""
    want = json.loads(run("score", "model.json", "data.csv", "--json")[0])
    turned = run("score", "model.json", "data.csv", "--columns", "height,width", "--json")[0]
    assert json.loads(turned) == want


def test_columns_without_names_by_position(folder):
    X = data()
    np.save("x.npy", np.column_stack([X[:, 1], np.zeros(len(X)), X[:, 0]]))
    np.savetxt("x.csv", np.column_stack([X[:, 1], np.zeros(len(X)), X[:, 0]]), delimiter=",")
    plain = TRUTH.named(None)
    plain.save("plain.json")
    for path in ("x.npy", "x.csv"):
        for model in ("plain.json", "model.json"):  # whether or not the model has names
            out, _ = run("score", model, path, "--columns", "2,0", "--json")
            want = TRUTH.log_prob(X).sum()
            np.testing.assert_allclose(json.loads(out)["log_likelihood"], want, rtol=1e-12)


def test_names_with_commas_and_labels_that_collide(folder):
    odd = TRUTH.named(["a, b", "component"])
    odd.save("odd.json")
    run("sample", "odd.json", "-n", 50, "--labels", "-o", "s.parquet", "--seed", 0)
    table = pa.parquet.read_table("s.parquet")
    assert table.column_names == ["a, b", "component", "component_"]
    np.testing.assert_array_equal(table["component"].to_numpy(), odd.sample(50, 0)[0][:, 1])
    run("fit", "s.parquet", "-k", 1, "--columns", '"a, b",component', "-o", "again.json")
    assert Mixture.load("again.json").feature_names == ("a, b", "component")


def test_comparisons_without_noise(folder):
    """One row has no sampling error to compare with."""
    (folder / "one.csv").write_text("width,height\n1,2\n")
    out, err = run("compare", "model.json", "one.csv", "--order", 2)
    assert out.splitlines()[1].endswith("—")
    assert "there are no p-values: a test needs at least 8 rows, got 1" in err
    _, err = run("compare", "model.json", "model.json", "--order", 3000, code=1)
    assert "distinct moments" in err


def test_fits_of_moments_look_at_no_likelihood(folder):
    out, _ = fit("-k", 2, "--method", "moments", "--order", 5, "--json")
    assert np.isfinite(json.loads(out)["log_likelihood"])
    _, err = fit("-k", 2, "--order", 5, code=1)
    assert "--order is for fits of moments" in err
    _, err = fit("-k", 2, "--method", "moments", "--goal", "clusters", code=1)
    assert "--goal is for fits of the likelihood" in err
    _, err = fit("-k", 2, "--method", "moments", "--prior", "cv", code=1)
    assert "--prior is for fits of the likelihood" in err
    _, err = fit("-k", "auto", "--method", "moments", code=1)
    assert "give one number and one shape" in err


def test_a_mistake_of_the_program_is_one_line_too(folder, monkeypatch):
    monkeypatch.setattr("momentmix.summary.fit_summary.remarks", lambda mixture: 1 / 0)
    _, err = run("show", "model.json", code=70)
    assert (
        err
        == "momentmix: internal error, ZeroDivisionError: division by zero; --debug shows where\n"
    )


def test_debug_shows_the_traceback(folder):
    done = CliRunner().invoke(app, ["show", "nothing.json", "--debug"])
    assert isinstance(done.exception, FileNotFoundError)


def test_usage_errors_have_a_status_of_their_own(folder):
    run("fit", "data.csv", code=2)
    run("dance", code=2)
    out, _ = run("--version")
    assert out.startswith("momentmix 0.")


@pytest.mark.parametrize(
    "command",
    ["fit", "predict", "score", "impute", "sample", "moments", "compare", "show", "demo"],
)
def test_help_has_an_example(command):
    out, _ = run(command, "--help")
    assert f"momentmix {command} " in " ".join(out.split())


def test_remarks_reach_the_user(folder):
    X = np.random.default_rng(0).normal(size=(40, 8))
    np.save("few.npy", X)
    _, err = run("fit", "few.npy", "-k", 4)
    assert "Note: Component" in err
    assert "few for a full covariance of 8 features" in err


def command(*arguments):
    return [sys.executable, "-m", "momentmix", *map(str, arguments)]


def test_a_reader_that_has_had_enough(folder):
    """As `momentmix sample … | head` does."""
    process = subprocess.Popen(command("sample", "model.json", "-n", 200_000),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout.readline() == b"width,height\n"
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert err == b""


def test_control_c_keeps_the_best_so_far(folder):
    """The model that was asked for is written, and the exit status says that it was cut short."""
    np.save("big.npy", np.random.default_rng(0).normal(size=(200_000, 10)))
    master, slave = pty.openpty()
    arguments = command("fit", "big.npy", "-k", "auto", "-o", "cut.json")
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b""
    while b"1 component: BIC" not in shown:  # the fit of two begins
        shown += os.read(master, 65536)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    shown += read_all(master)
    assert process.wait() == 130
    assert b"Traceback" not in shown
    assert b"the best parameters so far" in shown
    assert b"momentmix: interrupted" in shown
    assert Mixture.load("cut.json").n_features == 10


def read_all(master):
    """What a terminal shows until the last process leaves it."""
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the end of a terminal
            part = b""
        if not part:
            os.close(master)
            return shown
        shown += part


def test_on_a_terminal_there_are_tables_and_bars(folder):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    arguments = ("fit", "data.csv", "--columns", "width,height", "-k", 2, "-o", "t.json")
    environment = os.environ | {"TERM": "xterm"}
    process = subprocess.Popen(command(*arguments), stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    text = read_all(master).decode()
    assert process.wait() == 0
    assert "━" in text  # the table's lines
    assert "starts" in text  # the bar of the fit
    assert "width" in text
    assert "log-likelihood" in text
    assert "Fitted 2 components; wrote t.json." in text


def test_demo(folder):
    done = subprocess.run(command("demo", "pictures"), capture_output=True, text=True, check=True)
    assert (folder / "pictures" / "fit.png").stat().st_size > 10_000
    assert "GaussianMixture(5, n_init=10)" in done.stdout


def test_names_survive_the_way_from_table_to_model(folder):
    tensors = MomentTensors.from_samples(data(), 3)
    assert tensors.feature_names is None
    assert TRUTH.marginal([1]).feature_names == ("height",)
    assert TRUTH.condition([0], [1.0]).feature_names == ("height",)
    assert TRUTH.named(["u", "v"]).feature_names == ("u", "v")
    assert TRUTH.named(None).feature_names is None
    with pytest.raises(ValueError, match="feature_names must differ, got u, u"):
        TRUTH.named(["u", "u"])
    with pytest.raises(ValueError, match="1 feature_names for 2 features"):
        Mixture(TRUTH.weights, TRUTH.means, TRUTH.covariances, "diag", feature_names=["a"])
    for names in (["a"], ["a", "a"], [1, 2], "ab", None):
        good = json.loads((folder / "model.json").read_text())
        (folder / "bad.json").write_text(json.dumps(good | {"feature_names": names}))
        with pytest.raises(ValueError, match="feature_names"):
            Mixture.load("bad.json")


def test_select_tells_which_fits_best(folder):
    out, err = run("select", "data.csv", "--columns", "width,height", "-k", "1..4",
                   "--covariance", "auto", "--save", "best.json",
                   "--picture", "best.svg")  # fmt: skip
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0][:3] == ["covariances", "components", "log-likelihood"]
    assert len(lines) == 25
    assert [line[:2] for line in lines if line[-1] == "*"] == [["diag", "2"]]
    assert err == ""
    assert Mixture.load("best.json").feature_names == ("width", "height")
    assert Mixture.load("best.json").n_components == 2
    assert (folder / "best.svg").stat().st_size > 5000
    out, _ = run("select", "data.csv", "--columns", "width,height", "--covariance", "diag,full",
                 "--criterion", "icl", "--json")  # fmt: skip
    facts = json.loads(out)
    assert (facts["n_components"], facts["covariance_type"]) == (2, "diag")
    assert facts["criterion"] == "icl"
    assert {choice["covariance_type"] for choice in facts["choices"]} == {"diag", "full"}
    least = min(facts["choices"], key=lambda choice: choice["icl"])
    assert (least["n_components"], least["covariance_type"]) == (2, "diag")


def test_fit_compares_ranges_and_shapes(folder):
    out, _ = fit("-k", "1..3", "--covariance", "auto", "--criterion", "icl", "--report", "r.html",
                 "--json")  # fmt: skip
    facts = json.loads(out)
    assert facts["mixture"]["covariance_type"] == "diag"
    assert len(facts["choices"]) == 18
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "2 with diag covariances" in page
    assert "integrated completed likelihood" in page
    assert "smallest" in page  # class, in a column of its own
    out, _ = fit("-k", 2, "--covariance", "spherical,diag", "--json")
    assert json.loads(out)["mixture"]["covariance_type"] == "diag"
    out, _ = fit("-k", 2, "--covariance", "VEI", "--json")
    facts = json.loads(out)
    m, n = 2, len(facts["mixture"]["means"][0])
    parameters = m - 1 + m * n + m + n - 1
    np.testing.assert_allclose(facts["aic"] + 2 * facts["log_likelihood"], 2 * parameters)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "3..1"], "-k goes up from 1 or more"),
        (["-k", "2", "--criterion", "bic"], "--criterion compares fits, and there is one"),
        (["-k", "auto", "--criterion", "luck"], "--criterion is one of bic, icl, aic, cv, blrt"),
        (["-k", "2", "--covariance", "diag,round"], "--covariance is auto or one of"),
    ],
)
def test_choices_that_are_none(folder, arguments, message):
    assert message in fit(*arguments, code=1)[1]


@pytest.fixture
def moons(tmp_path, monkeypatch):
    """A table of two half moons."""
    monkeypatch.chdir(tmp_path)
    X, labels = make_moons(400, noise=0.05, random_state=0)
    np.savetxt("moons.csv", X, delimiter=",", header="x,y", comments="")
    return labels


def test_clusters_of_components(moons):
    out, err = run("fit", "moons.csv", "-k", "auto", "--clusters", "auto", "-o", "m.json",
                   "--report", "r.html", "--json")  # fmt: skip
    merged = json.loads(out)["clusters"]
    m = Mixture.load("m.json").n_components
    assert len(merged["cluster_of_component"]) == m > 2
    assert len(merged["merges"]) == m - 1
    assert 'id="clusters"' in Path("r.html").read_text(encoding="utf-8")
    run("predict", "m.json", "moons.csv", "--clusters", "auto", "--proba", "-o", "labels.csv")
    head, *found = rows(Path("labels.csv").read_text())
    assert head[:3] == ["component", "probability", "cluster"]
    labels = np.array([row[2] for row in found], dtype=int)
    assert adjusted_rand_score(moons, labels) == 1
    components = np.array([row[0] for row in found], dtype=int)
    of = np.array(merged["cluster_of_component"])
    assert np.mean(of[components] == labels) > 0.99  # a row may fall between components of one
    out, _ = run("predict", "m.json", "-", "--clusters", 3, input=Path("moons.csv").read_text())
    assert {row[2] for row in rows(out)[1:]} == {"0", "1", "2"}
    _, err = run("fit", "moons.csv", "-k", 3, "--clusters", 2)
    assert " components are 2 clusters: cluster 0 has " in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("-k", 3, "--clusters", 4), "--clusters 4 is more than the 3 components of -k"),
     (("-k", 3, "--clusters", "0"), "--clusters is auto or a whole number from 1 on"),
     (("-k", 3, "--clusters", "few"), "got 'few'")],
)  # fmt: skip
def test_clusters_that_make_no_sense(moons, arguments, message):
    _, err = run("fit", "moons.csv", *arguments, code=1)
    assert message in err


def test_clusters_need_rows_and_components(moons):
    run("moments", "moons.csv", "-o", "m.npz")
    _, err = run("fit", "m.npz", "-k", 2, "--clusters", "auto", code=1)
    assert "--clusters needs the rows" in err
    run("fit", "moons.csv", "-k", 2, "-o", "m.json")
    _, err = run("predict", "m.json", "moons.csv", "--clusters", 3, code=1)
    assert "--clusters 3 is more than the 2 components of the fit" in err
