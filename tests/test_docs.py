"""The documentation: schema, commands of the tutorial, and pages that say what the code says."""

import ast
import importlib
import json
import re
import shlex
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from typer.testing import CliRunner

import momentmix
from momentmix import Mixture, MomentMixture
from momentmix.cli import app
from momentmix.datasets import load_quakes

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_schema_says_what_is_written(kind, tmp_path):
    shapes = {"full": np.eye(2)[None] * [[[1.0]], [[2]]], "tied": np.eye(2),
              "diag": np.ones((2, 2)), "spherical": np.ones(2)}  # fmt: skip
    schema = json.loads((DOCS / "model.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    Mixture([0.5, 0.5], np.zeros((2, 2)), shapes[kind], kind, feature_names=["a", "b"]).save(
        tmp_path / "m.json"
    )
    document = json.loads((tmp_path / "m.json").read_text())
    validator.validate(document)
    for change in ({"version": 2}, {"extra": 1}, {"feature_names": ["a", "a"]}, {"means": []},
                   {"covariances": "x"}, {"covariances": [[["a"]]]}):  # fmt: skip
        assert not validator.is_valid(document | change)
        (tmp_path / "bad.json").write_text(json.dumps(document | change))
        with pytest.raises(ValueError, match="is not a momentmix model"):
            Mixture.load(tmp_path / "bad.json")


def test_commands_of_the_tutorial_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, names = load_quakes()
    lines = [",".join(names), *(",".join(map(repr, row)) for row in X.tolist())]
    (tmp_path / "quakes.csv").write_text("\n".join(lines) + "\n")
    inside, ran = False, []
    for line in (DOCS / "tutorial.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line.strip() == "```sh"
        elif inside:
            words = shlex.split(line)
            assert words[0] == "momentmix"
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, (line, done.output)
            ran.append(words[1])
    assert ran == ["fit", "fit", "show", "predict", "score", "sample", "compare"]
    assert (tmp_path / "report.html").stat().st_size > 50_000


def test_the_table_of_parameters_is_complete():
    page = (DOCS / "switching.md").read_text(encoding="utf-8")
    for estimator in (GaussianMixture, MomentMixture):
        for name in estimator().get_params():
            if name not in ("augmentation", "solver", "moments"):
                assert f"`{name}" in page, name


def test_the_tree_names_every_module():
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    package = Path(momentmix.__file__).parent
    parts = [path.name for path in package.glob("*.py") if not path.name.startswith("_")]
    parts += [path.parent.name + "/" for path in package.glob("*/__init__.py")]
    missing = [name for name in parts if name not in page]
    assert missing == []


def blocks_of_the_tree():
    """The block of the tree in which each module stands, by name."""
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    tree = page[page.index("src/momentmix/") : page.index("tests/  ")]
    blocks = {}
    for i, block in enumerate(tree.split("\n\n")):
        for name in re.findall(r"\b([a-z]\w*)(?:\.py|/)", block):
            blocks[name] = i
    return blocks


def test_imports_run_from_the_first_block_to_the_last():
    package, blocks = Path(momentmix.__file__).parent, blocks_of_the_tree()
    assert set(blocks.values()) == {0, 1, 2}
    wrong = []
    for path in package.rglob("*.py"):
        own = path.relative_to(package).parts[0].removesuffix(".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
                if node.module == "momentmix":
                    names = [f"momentmix.{alias.name}" for alias in node.names]
            for name in names:
                other = name.removeprefix("momentmix.").split(".")[0]
                if name.startswith("momentmix.") and blocks.get(other, 0) > blocks.get(own, 2):
                    wrong.append(f"{own} imports {other}")
    assert wrong == []


def test_functions_that_the_mathematics_names_are_there():
    page = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z]+)\.([A-Za-z_]+)`", page))
    assert len(names) >= 10
    for module, name in names:
        assert hasattr(importlib.import_module(f"momentmix.{module}"), name), (module, name)


def test_the_api_page_has_every_public_name():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in momentmix.__all__ if f"   {name}\n" not in page] == []


@pytest.mark.parametrize("page", ["README.md", "docs/switching.md"])
def test_examples_print_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    """The adjusted Rand indices beside the examples are what a reader gets."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS.parent / page).read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "adjusted_rand" in b)
    said = re.findall(r"print\(.*\)  # (\d\.\d\d)", block)
    exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out.split() == said
    assert said[-1] >= said[0]
    assert float(said[-1]) >= 0.9
