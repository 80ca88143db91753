"""What an import brings with it, and how long it takes beside scikit-learn's."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import momentmix
from momentmix.cli import COMMANDS, select
from momentmix.covariance import COVARIANCE_TYPES
from momentmix.selection.criteria import CRITERIA

#: Libraries that a user may not have, or need not wait for.
OPTIONAL = (
    "matplotlib", "pyarrow", "dask", "distributed", "duckdb", "polars", "pyspark", "torch",
    "pandas", "rich", "typer",
)  # fmt: skip


def fresh(code, *options, **environment):
    """What a new process says that runs the code."""
    result = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stderr
    return result


def modules_after(code):
    return set(fresh(f"import sys\n{code}\nprint(*sys.modules)").stdout.split())


def test_import_is_as_quick_as_that_of_scikit_learn():
    """Best of five, in turn; at most 1.05 times as long."""
    best = {"momentmix": float("inf"), "sklearn.mixture": float("inf")}
    for _ in range(5):
        for name in best:
            begin = time.perf_counter()
            fresh(f"import {name}")
            best[name] = min(best[name], time.perf_counter() - begin)
    assert best["momentmix"] <= 1.05 * best["sklearn.mixture"], best


def test_import_needs_no_optional_library():
    assert {name.partition(".")[0] for name in modules_after("import momentmix")}.isdisjoint(
        OPTIONAL
    )


def test_estimator_needs_little_more_than_scikit_learn():
    """Nothing else is in the way, so that the two imports take the same time but for our files."""
    theirs = modules_after("from sklearn.mixture import GaussianMixture")
    more = modules_after("from momentmix import GaussianMixture") - theirs
    # Not every scikit-learn imports the threads of the standard library by itself.
    allowed = {"momentmix", "array_api_compat", "concurrent"}
    assert {name.partition(".")[0] for name in more} <= allowed
    assert "momentmix.decomposition" not in more


def test_a_fit_needs_no_more_of_scikit_learn_than_its_base():
    code = "import numpy as np; from momentmix import GaussianMixture as M; X = np.eye(9)[:, :2]"
    found = modules_after(f"{code}; M(2).fit(X).predict(X)")
    assert found.isdisjoint({"sklearn.cluster", "sklearn.neighbors", "sklearn.metrics"})


def test_a_fit_of_numpys_rows_imports_no_array_library():
    code = "import numpy as np; from momentmix import GaussianMixture as M; X = np.eye(9)[:, :2]"
    after = modules_after(f"{code}; M(2).fit(X).predict(X)")
    assert after.isdisjoint({"torch", "cupy", "jax", "dask"})


def test_the_bare_package_is_next_to_nothing():
    assert modules_after("import momentmix").isdisjoint({"numpy", "scipy", "sklearn"})


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_imports_none_of_the_mathematics(command):
    code = f"import sys, momentmix.cli\nsys.argv = ['momentmix', {command!r}, '--help']\n"
    code += "try: momentmix.cli.main()\nexcept SystemExit as end: print(end.code)"
    found = modules_after(code)
    assert {"0", "momentmix.cli.options"} <= found
    assert found.isdisjoint({"scipy", "sklearn", "pandas", "momentmix.covariance"})


def test_help_names_all_types_and_criteria():
    def help_of(option):
        return option.__metadata__[0].help

    assert ", ".join(COVARIANCE_TYPES) in help_of(select.CovarianceOption)
    assert ", ".join(CRITERIA) in help_of(select.CriterionOption)


def test_every_public_name_is_there():
    """For people, for type checkers and for the program, and the same in all of them."""
    tree = ast.parse(Path(momentmix.__file__).read_text(encoding="utf-8"))
    homes = {
        alias.name: node.module.removeprefix("momentmix.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("momentmix.")
        for alias in node.names
    }
    lazy = {name: home for home, names in momentmix._HOMES.items() for name in names}
    assert homes == lazy
    assert sorted(homes) == sorted(momentmix.__all__)
    assert {*homes, "__version__"} <= set(dir(momentmix))
    for name, home in homes.items():
        value = getattr(momentmix, name)
        assert value is getattr(sys.modules[f"momentmix.{home}"], name)
        assert value.__name__ == name
    everything = {}
    exec("from momentmix import *", everything)
    assert set(momentmix.__all__) <= set(everything)


def test_parts_are_attributes_and_other_names_are_not():
    code = "import momentmix; print(momentmix.datasets.load_quakes()[0].shape, momentmix.tensors)"
    assert fresh(code).stdout.startswith("(1000, 5) <module")
    for name in ("nothing_of_the_kind", "_private", "__wrapped__"):
        assert not hasattr(momentmix, name)
    with pytest.raises(AttributeError, match="module 'momentmix' has no attribute 'GMM'"):
        momentmix.GMM  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'GMM'"):
        from momentmix import GMM  # noqa: F401


# The progress bar


FIT = """
import sys
if {notebook}:
    import IPython, ipykernel.zmqshell
import numpy as np
from momentmix import GaussianMixture
X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0, 0], [6, 6]], 100, axis=0)
GaussianMixture(2, verbose={verbose}, random_state=0).fit(X)
print(sorted({{'tqdm', 'tqdm.notebook'}} & set(sys.modules)))
"""
IPYTHON = """
class Shell:
    config = {'IPKernelApp': {}}
def get_ipython():
    return Shell()
"""
WIDGETS = """
class Widget:
    def __init__(self, children=(), **named):
        self.value, self.max, self.bar_style, self.children = 0, 1, "", children
        self.layout = self.style = self
    def close(self):
        pass
class HTML(Widget): pass
class FloatProgress(Widget): pass
class HBox(Widget): pass
"""


@pytest.fixture
def notebook(tmp_path):
    """A folder with what tqdm takes for the kernel of a notebook."""
    for name, text in {
        "IPython/__init__.py": IPYTHON,
        "IPython/display.py": "def display(*what):\n    print('a widget is shown')\n",
        "ipykernel/__init__.py": "",
        "ipykernel/zmqshell.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def fitted(folder, verbose=1, notebook=True):
    path = os.pathsep.join([str(folder), *sys.path])
    code = FIT.format(verbose=verbose, notebook=notebook)
    return fresh(code, "-W", "error::Warning:tqdm", "-W", "default", PYTHONPATH=path)


def test_notebook_without_widgets_gets_text_and_no_warning(notebook):
    (notebook / "ipywidgets.py").write_text("raise ImportError('not installed')")
    result = fitted(notebook)
    assert "starts:" in result.stderr
    assert "Warning" not in result.stderr
    assert "IProgress" not in result.stderr
    assert "a widget is shown" not in result.stdout


def test_notebook_with_widgets_shows_one(notebook):
    (notebook / "ipywidgets.py").write_text(WIDGETS)
    result = fitted(notebook)
    assert "a widget is shown" in result.stdout
    assert "starts:" not in result.stderr
    assert "Warning" not in result.stderr


def test_terminal_gets_text_and_silence_needs_no_bar(tmp_path):
    assert "starts:" in fitted(tmp_path, notebook=False).stderr
    silent = fitted(tmp_path, verbose=0, notebook=False)
    assert silent.stderr == ""
    assert silent.stdout == "[]\n"
