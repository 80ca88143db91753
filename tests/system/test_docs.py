"""The documentation: schema, commands of the tutorial, and pages that say what the code says."""

import ast
import contextlib
import importlib
import inspect
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import sklearn.mixture
from typer.testing import CliRunner

import momentmix
from momentmix import GaussianMixture, Mixture
from momentmix.cli import app
from momentmix.datasets import load_quakes
from momentmix.distributions.mixture import Background

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical", "low-rank"]
)
def test_the_schema_says_what_is_written(kind, tmp_path):
    shapes = {"full": np.eye(2)[None] * [[[1.0]], [[2]]], "tied": np.eye(2),
              "diag": np.ones((2, 2)), "spherical": np.ones(2),
              "tied-diag": np.ones(2), "tied-spherical": 1.0,
              "low-rank": np.ones((2, 2, 3))}  # fmt: skip
    schema = json.loads((DOCS / "model.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    background = Background(0.05, [3.0, 4.0])
    parameters = [0.5, 0.5], np.zeros((2, 2)), shapes[kind], kind
    Mixture(*parameters).save(tmp_path / "m.json")
    validator.validate(json.loads((tmp_path / "m.json").read_text()))
    Mixture(*parameters, feature_names=["a", "b"], background=background).save(tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    validator.validate(document)
    assert document["background"] == {"share": 0.05, "widths": [3.0, 4.0]}
    for change in ({"version": 2}, {"extra": 1}, {"feature_names": ["a", "a"]}, {"means": []},
                   {"covariances": "x"}, {"covariances": [[["a"]]]}, {"background": 0.05},
                   {"background": None}, {"background": {"share": [0.1, 0.2], "widths": [3, 4]}},
                   {"background": {"share": 0.05}}, {"background": {"share": 1, "widths": [3, 4]}},
                   {"background": {"share": 0.1, "widths": [3, 0]}},
                   {"background": {"share": 0.1, "widths": [3, 4], "more": 1}}):  # fmt: skip
        assert not validator.is_valid(document | change)
        (tmp_path / "bad.json").write_text(json.dumps(document | change))
        with pytest.raises(ValueError, match="is not a momentmix model"):
            Mixture.load(tmp_path / "bad.json")


def test_commands_of_the_tutorial_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, names = load_quakes()
    lines = [",".join(names), *(",".join(map(repr, row)) for row in X.tolist())]
    (tmp_path / "quakes.csv").write_text("\n".join(lines) + "\n")
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.S | re.M)
    ran, said = [], ""
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[0] == "momentmix"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, (line, done.output)
        ran.append(words[1])
        said += done.output if len(ran) == 1 else ""
    assert ran == ["fit", "select", "show", "predict", "score", "sample", "compare"]
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.S | re.M)
    table, sentences = shown.split("Component 0")
    printed = [float(number) for number in re.findall(r"-?\d+\.?\d*", said)]
    numbers = re.findall(r"−?\d+\.\d+|\d+(?= ±)|(?<=± )\d+", table)
    assert len(numbers) == 21
    for number in numbers:  # what is printed is what the page says
        digits, value = len(number.partition(".")[2]), number.replace("−", "-")
        assert any(f"{found:.{digits}f}" == value for found in printed), number
    for p_value in re.findall(r"p = [\d.]+\d", sentences):
        assert p_value in said
    assert (tmp_path / "report.html").stat().st_size > 50_000


def rows_of_tables(page, section=None):
    """The cells of every row of the tables of a page, or of one section of it, heads too."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if section is not None:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_table_of_parameters_is_that_of_the_code():
    """Every parameter of both classes with its default, no other, in the order of the signature."""
    classes = sklearn.mixture.GaussianMixture, GaussianMixture
    told = {cls: {} for cls in classes}
    rows = list(rows_of_tables("switching.md", "Parameters"))
    assert rows[0][:2] == ["scikit-learn", "momentmix"]
    for theirs, ours, _ in rows[1:]:
        ours = theirs if ours.startswith("the same") else ours
        for cls, cell in zip(classes, (theirs, ours), strict=True):
            told[cls] |= dict(re.findall(r"`(\w+)=([^`]+)`", cell))
    for cls, parameters in told.items():
        said = {name: ast.literal_eval(value) for name, value in parameters.items()}
        assert said == cls().get_params()
    assert list(told[GaussianMixture]) == list(inspect.signature(GaussianMixture).parameters)


def found(dotted):
    """What ``momentmix.dotted`` is: a module, or a name in one."""
    parts, thing = dotted.split("."), momentmix
    for i, part in enumerate(parts):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(".".join(["momentmix", *parts[: i + 1]]))
        thing = getattr(thing, part)
    return thing


def test_names_in_the_mathematics_are_there():
    """Dotted names anywhere, and whatever the last column of a table calls code."""
    page = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?`", page))
    for cells in rows_of_tables("mathematics.md"):
        names |= set(re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", cells[-1]))
    assert len(names) >= 25
    for name in sorted(names):
        assert found(name) is not None, name
    for wrong in ("dense.sym", "tensors.dense.s", "moments.bell.bell", "Mixtur"):
        with pytest.raises(AttributeError):
            found(wrong)


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_are_there(page):
    """Paths in code quotes, from the root or, as design.md writes them, from the package."""
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w./]+/[\w.]+\.(?:py|md|json))`", text))
    assert len(paths) >= 3
    roots = DOCS.parent, DOCS.parent / "src" / "momentmix"
    missing = [path for path in paths if not any((root / path).exists() for root in roots)]
    assert not missing


def listed_names():
    lines = (DOCS / "api.md").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if re.fullmatch(r"   [A-Za-z_][\w.]*", line)]


def test_the_api_page_has_every_public_name():
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert {name for name in listed if "." not in name} == set(momentmix.__all__)
    for name in listed:
        assert found(name).__doc__, name


@pytest.mark.parametrize("name", listed_names())
def test_summaries_are_whole_sentences(name):
    """The table of the API page shows a docstring up to its first period and blank."""
    summary = " ".join(inspect.getdoc(found(name)).split("\n\n")[0].split())
    assert summary.endswith("."), summary
    assert not re.search(r"\b(Thms?|Eqs?|Prop|Def|App|Sec|e\.g|i\.e|cf|vs)\.", summary), summary
    assert len(summary.partition(". ")[0]) >= 20, summary


def documented(cls, section):
    """The names in one section of a docstring, and whether each has a text."""
    doc = inspect.getdoc(cls)
    body = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", doc, re.S | re.M).group(1)
    entries = re.findall(r"^(\w+)(?: : .+)?\n((?:    .*\n?|\n)*)", body, re.M)
    return {name: bool(text.strip()) for name, text in entries}


#: What fits set besides, and no text tells: parameters again, and what is always 0 or empty.
GIVEN = {"n_features_in_", "n_components_", "covariance_type_"}
NOTHING = {"prior_strength_", "diagonal_strength_", "outlier_share_", "collapsed_"}


@pytest.mark.parametrize(
    ("cls", "untold"),
    [
        (GaussianMixture, {"n_features_in_"}),
        (momentmix.MomentMixture, GIVEN),
        (momentmix.KnownCovarianceMixture, GIVEN | NOTHING),
    ],
)
def test_every_parameter_and_attribute_has_a_text(cls, untold, rng):
    parameters = documented(cls, "Parameters")
    assert list(parameters) == list(inspect.signature(cls).parameters)
    attributes = documented(cls, "Attributes")
    known = {"covariance": 1.0} if "covariance" in parameters else {}
    fit = cls(2, **known).fit(rng.normal(size=(200, 2)) + 5 * np.repeat([[0], [1]], 100, axis=0))
    there = {name for name in vars(fit) if name.endswith("_") and not name.startswith("_")}
    assert there - untold == set(attributes) - {"moments_"}  # which only a stream has
    assert all((parameters | attributes).values())


@pytest.mark.parametrize(
    "cls", [momentmix.MixtureImputer, momentmix.MixtureClassifier, momentmix.MixtureRegressor]
)
def test_every_parameter_has_a_text(cls):
    parameters = documented(cls, "Parameters")
    assert set(parameters) == set(inspect.signature(cls).parameters)
    assert all((parameters | documented(cls, "Attributes")).values())


def python_blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


PAGES = [*sorted(DOCS.parent.glob("*.md")), *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize(
    "path", [page for page in PAGES if python_blocks(page)], ids=lambda p: p.stem
)
def test_examples_run(path, tmp_path, monkeypatch):
    """Every example of a page, one after the other, as a reader would type them."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks(path):
        exec(compile(block, path.name, "exec"), names)
    importlib.import_module("matplotlib.pyplot").close("all")


def project_urls():
    text = (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8")
    return dict(re.findall(r'^(\w+) = "(https://[^"]+)"$', text, re.M))


def test_links_of_the_readme_work_wherever_it_is_shown():
    """A package index shows the README without the files beside it, so links are absolute."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)", text)
    assert len(links) > 15
    repository = project_urls()["Repository"]
    raw = repository.replace("//github.com/", "//raw.githubusercontent.com/")
    for link in links:
        assert link.startswith(("https://", "#")), link
        for start in (f"{repository}/blob/main/", f"{raw}/main/"):
            if link.startswith(start):
                assert (DOCS.parent / link.removeprefix(start).partition("#")[0]).is_file(), link
                break
        else:
            assert not link.startswith((repository, raw)), link
    assert all(image.startswith(f"{raw}/main/") for image in re.findall(r"!\[.*?\]\((.*?)\)", text))


def run_example(name, monkeypatch):
    """The names that an example of the gallery has in the end."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names = runpy.run_path(str(DOCS.parent / "examples" / name))
    importlib.import_module("matplotlib.pyplot").close("all")
    return names


def said_by_example(name, monkeypatch, capsys):
    """The numbers that an example of the gallery prints."""
    run_example(name, monkeypatch)
    return [float(number) for number in re.findall(r"-?\d+\.\d+", capsys.readouterr().out)]


def test_the_labelled_example_says_what_it_shows(monkeypatch, capsys):
    """Wine agrees better with its labels than by scikit-learn, iris as well; see the example."""
    said = said_by_example("plot_0_wine.py", monkeypatch, capsys)
    assert len(said) == 6
    assert said[1] > said[0] > 0.85
    assert said[2] == said[3]
    assert min(said) > 0.5


def test_the_example_with_gaps_says_what_it_shows(monkeypatch, capsys):
    """Gaps left open are best for the fit, and the mixture's means come closest to the values."""
    said = said_by_example("plot_6_gaps.py", monkeypatch, capsys)
    scores, errors = said[:5], said[5:]
    assert len(errors) == 5
    assert scores[0] > scores[1] > max(scores[2:])
    assert scores[4] > max(scores[2:4])
    assert errors[0] == min(errors)


def test_the_example_with_error_bars_says_what_it_shows(monkeypatch, capsys):
    """The fit is nearly the truth, and denoise tells its error; the page repeats two figures."""
    plain, found, truth, before, after, told = said_by_example(
        "plot_7_error_bars.py", monkeypatch, capsys
    )
    assert truth - 0.02 < found < truth
    assert plain < found - 0.05
    assert abs(after - told) < 0.5
    page = (DOCS / "gaps.md").read_text(encoding="utf-8")
    assert f"{before} to {after} km/s" in re.sub(r"\s+", " ", page)


def test_the_example_with_outliers_says_what_it_shows(monkeypatch, capsys):
    """Slipped values ruin a fit that has to explain them, and one that need not finds them."""
    names = run_example("plot_9_outliers.py", monkeypatch)
    em, plain, found = map(float, re.findall(r"^.{26}(\d\.\d\d)$", capsys.readouterr().out, re.M))
    assert max(em, plain) < 0.6 < 0.89 < found
    labels = names["fits"]['outliers="auto"'].predict(names["X"])
    assert np.flatnonzero(labels == -1).tolist() == sorted(names["slipped"].tolist())
    assert {95, 69} <= set(names["odd"].tolist())  # the most magnesium of all wines


def test_the_example_with_classes_says_what_it_shows(monkeypatch, capsys):
    """Mixtures tell an arc from what it surrounds, and the band holds nine values of ten."""
    linear, quadratic, ours, inside = said_by_example("plot_9_classes.py", monkeypatch, capsys)
    assert linear < quadratic < 0.95 < 0.99 < ours
    assert abs(inside - 0.9) < 0.02


def test_the_example_with_drift_says_what_it_shows(monkeypatch, capsys):
    """No alarm before the change, one soon after it; the window arrives, and all rows do not."""
    names = run_example("plot_9_drift.py", monkeypatch)
    assert 21 <= names["first"] <= 23
    assert "most in feature 1" in capsys.readouterr().out
    everything, fading, window = (found[-1] for found in names["followed"].values())
    assert everything < 1.6 < 1.9 < fading < 2.05
    assert abs(window - 2) < 0.05


def test_the_readmes_code_runs():
    names = {}
    blocks = re.findall(
        r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text("utf-8"), re.S
    )
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert len(blocks) == 2
    assert names["gm"].mixture_.n_components == 3
    assert np.isfinite(names["value"])


def test_the_readme_says_for_how_many_seeds():
    """What it says in words beside its figures: four seeds of five, and all five."""
    path = DOCS.parent / "experiments" / "results" / "crabs.json"
    theirs, ours = json.loads(path.read_text(encoding="utf-8"))["ari"].values()
    assert theirs.count(min(theirs)) == 4
    assert ours == [ours[0]] * 5


@pytest.mark.parametrize("page", ["docs/switching.md"])
def test_examples_print_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    """The adjusted Rand indices beside the examples are what a reader gets."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "adjusted_rand" in b)
    said = re.findall(r"print\(.*\)  # (\d\.\d\d)(?:,.*)?$", block, re.M)
    assert len(said) == block.count("print(") > 0
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out.split() == said
    assert float(said[-1]) >= max(0.9, float(said[0]))


@pytest.mark.parametrize(("page", "count"), [("gaps.md", 6), ("classes.md", 3), ("outliers.md", 3)])
def test_pages_print_what_they_say(page, count, capsys):
    names, checked = {}, 0
    for block in python_blocks(DOCS / page):
        exec(compile(block, page, "exec"), names)
        printed = capsys.readouterr().out.split()
        said = re.findall(r"print\(.*\)  # (\d\.\d\d)(?:,.*)?$", block, re.M)
        if said:
            assert printed == said
            checked += len(said)
    assert checked == count


def load_figures(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent / "tools"))
    return importlib.import_module("figures")


def test_figures_are_those_of_the_results(monkeypatch):
    """A number with a comment behind it is what its results file says: tools/figures.py."""
    figures = load_figures(monkeypatch)
    seen = 0
    for page in figures.PAGES:
        text = page.read_text(encoding="utf-8")
        assert figures.renewed(text) == text, f"{page.name}: run python tools/figures.py"
        seen += text.count("<!-- from ")
        assert len(figures.FIGURE.findall(text)) == text.count("<!-- from "), page.name
    assert seen > 20
    right = "0.81<!-- from crabs.json ari.momentmix.0 -->"
    assert figures.renewed(right.replace("81", "18")) == right
    for source in ("no.json a", "crabs.json ari.nobody.0", "beyond.csv mean nothing"):
        with pytest.raises(SystemExit, match="from"):
            figures.renewed(f"1<!-- from {source} -->")


@pytest.mark.parametrize("page", ["README.md", "benchmarks/README.md"])
def test_every_measured_number_has_its_results(page):
    """No decimal outside of code, links and what is drawn from results."""
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    text = re.sub(
        r"<!-- suites -->.*?<!-- end of suites -->|^```.*?^```", "", text, flags=re.S | re.M
    )
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|Python 3\.\d+", "", text)
    text = re.sub(r"[\d.,]+(?: of \d+)?(?: ?%)?<!-- from .*? -->", "", text)
    said = set(re.findall(r"\d+\.\d+", text))
    #: Margins that tables count by.
    assert said <= {"0.05", "0.002", "1.2"}


def test_the_page_of_experiments_says_what_the_results_say():
    """``make paper`` writes its tables from experiments/results."""
    command = [sys.executable, str(DOCS.parent / "experiments" / "page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
