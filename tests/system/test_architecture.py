"""What the folders promise: the direction of imports, sizes of files, who names which library."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import momentmix

PACKAGE = Path(momentmix.__file__).parent
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"

#: Folders and modules at the root of the package, the lowest first. Each imports from its own
#: layer and from those before it; ``__init__``, which shows the public names, from any.
LAYERS = (
    "support",
    "covariance",
    "files",
    "blocks",
    "moments",
    "tensors",
    "observed",
    "distributions",
    "datasets",
    "solvers",
    "fit",
    "rows",
    "matching",
    "decomposition",
    "fitting",
    "uncertainty",
    "estimators",
    "selection",
    "goodness",
    "imputation",
    "logarithms",
    "classification",
    "regression",
    "summary",
    "plotting",
    "report",
    "demo",
    "cli",
    "__main__",
)
ARRAY_LIBRARIES = {"array_api_compat", "array_api_strict", "cupy", "jax", "torch"}
#: Lines of the longest file; and uses of a type that says nothing, in the whole package.
MOST_LINES, MOST_ANY = 800, 60
#: The files that a default fit may cross, those that every step uses apart.
MOST_CROSSED = 16


def parts_of(package):
    """Folders with Python files and modules at the root of the package, ``__init__`` aside."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.relative_to(package).parts[0] for path in package.glob("*/**/*.py")}


def imports(path, package=PACKAGE):
    """(line, absolute name) of all that a file imports, wherever in it the import stands.

    ``from a import b`` is ``a.b``, whether b is a module or a name in one.
    """
    inside = [package.name, *path.relative_to(package).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(module, ".".join(inside))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def origins(package=PACKAGE):
    """The layer from which each public name of ``__init__`` comes."""
    result = {}
    for node in ast.walk(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name(
                "." * node.level + (node.module or ""), package.name
            )
            if module.partition(".")[0] != package.name:
                continue
            for alias in node.names:
                layer = (module.split(".")[1:] or [alias.name])[0]
                result[alias.asname or alias.name] = layer
    return result


def layers_behind(name, package=PACKAGE):
    """The layers that an import of the absolute name needs; none where it is not ours."""
    root, _, rest = name.partition(".")
    if root != package.name:
        return set()
    first = rest.partition(".")[0]
    if first in parts_of(package):
        return {first}
    public = origins(package)
    if first in public:
        return {public[first]}
    if first.startswith("__"):  # __version__ and the like stand in __init__ itself
        return set()
    return set(public.values())  # the package as a whole


def violations(package=PACKAGE):
    """``file:line: what is wrong`` for every import from a layer that comes later."""
    found = []
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        own = where.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for line, name in imports(path, package):
            for layer in layers_behind(name, package):
                if LAYERS.index(layer) > LAYERS.index(own):
                    found.append(f"{where.as_posix()}:{line}: {own} imports {name}, of {layer}")
    return sorted(set(found))


def test_every_part_has_a_layer():
    assert len(LAYERS) == len(set(LAYERS))
    assert parts_of(PACKAGE) == set(LAYERS)


def test_imports_go_from_later_layers_to_earlier_ones():
    wrong = violations()
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_form_of_import_is_seen(tmp_path):
    """The test above would see each of these; none of the permitted ones is reported."""
    package = tmp_path / "momentmix"
    for layer in LAYERS:
        (package / layer).mkdir(parents=True)
        (package / layer / "__init__.py").write_text("")
    (package / "__init__.py").write_text(
        "from momentmix.estimators.base import Fit\n"
        "from .support.array import Array\n"
        "__version__ = '1'\n"
    )
    wrong = [
        "import momentmix.estimators.base",
        "import momentmix.rows as r, momentmix.estimators as e",
        "import momentmix",
        "from momentmix.estimators.base import Fit",
        "from momentmix import estimators",
        "from momentmix import Fit",
        "from momentmix import *",
        "from ..estimators.base import Fit",
        "from .. import estimators",
        "def f():\n    from momentmix.estimators import base",
        "if TYPE_CHECKING:\n    from momentmix.estimators import base",
        "try:\n    import momentmix.cli\nexcept ImportError:\n    pass",
    ]
    for text in wrong:
        (package / "fitting" / "_private.py").write_text(text + "\n")
        line = text.count("\n", 0, text.index("import")) + 1
        line = 2 if text.startswith(("def", "if", "try")) else line
        (found,) = violations(package)
        assert found.startswith(f"fitting/_private.py:{line}: fitting imports momentmix"), text
    right = [
        "import numpy, momentmix.support",
        "from momentmix import __version__, Array, support",
        "from momentmix.fitting.em import Likelihood",
        "from . import em",
        "from .em import estimators",
        "from ..rows.frame import Frame",
        "import momentmixture.cli",
        "from estimators import cli",
    ]
    (package / "fitting" / "_private.py").write_text("\n".join(right) + "\n")
    assert violations(package) == []


def test_no_file_is_long():
    long = {}
    for path in [*PACKAGE.rglob("*.py"), *Path(__file__).parents[1].rglob("*.py")]:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES:
            long[path.as_posix()] = lines
    assert long == {}


def test_few_types_say_nothing():
    uses = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        count = sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
        if count:
            uses[path.relative_to(PACKAGE).as_posix()] = count
    assert sum(uses.values()) < MOST_ANY, uses


def named_outside(libraries, home):
    """Imports of the libraries in files that do not lie at home, a file or folder."""
    return [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / home)
        for line, name in imports(path)
        if name.partition(".")[0] in libraries
    ]


def test_only_two_files_name_array_libraries():
    assert named_outside(ARRAY_LIBRARIES, "support/") == []
    naming = {line.partition(":")[0] for line in named_outside(ARRAY_LIBRARIES, "nowhere")}
    assert naming == {"support/array.py", "support/device.py"}
    assert named_outside(ARRAY_LIBRARIES, "nowhere") != []  # or nothing is looked at


def test_only_one_folder_names_engines():
    assert named_outside({"dask", "distributed", "pyspark", "polars"}, "blocks") == []
    assert named_outside({"dask", "distributed"}, "nowhere") != []
    outside = named_outside({"pyarrow", "duckdb"}, "blocks")  # which the command reads as tables
    assert [line for line in outside if not line.startswith(("files/", "cli/"))] == []


def tree_of_the_design():
    """Folders and modules of the package that the tree in docs/design.md shows, in its order."""
    page = DESIGN.read_text(encoding="utf-8")
    tree = page[page.index("\nsrc/momentmix/\n") : page.index("\ntests/")]
    names = []
    for line in tree.splitlines()[2:]:
        # Names follow two spaces and end where two more do.
        if column := re.match(r"  (\S+(?: \S+)*)", line):
            names += re.split(r",\s*", column[1].rstrip(","))
    return names


def test_the_design_shows_every_part_in_its_layer():
    """Whole names, folders with a slash, modules with .py: all that is there and nothing else."""
    assert tree_of_the_design() == [
        f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py" for name in LAYERS
    ]


ROOMS = ("estimators", "fitting", "matching", "rows", "solvers", "fit")


def walk_of(X):
    """The files of the package that a default fit crosses, in order, and calls to later layers."""
    walked, upwards = [], set()

    def place(frame):
        path = Path(frame.f_code.co_filename)
        return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""

    def look(frame, event, argument):
        if event != "call" or not (here := place(frame)):
            return
        if here not in walked:
            walked.append(here)
        caller = place(frame.f_back)
        given = caller == "support/parallel.py"  # which runs what it is given
        if caller and not given and layer_of(here) > layer_of(caller):
            upwards.add(f"{caller} calls {frame.f_code.co_name} of {here}")

    estimator = momentmix.GaussianMixture  # imported before the walk begins
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        estimator(3, random_state=0, n_jobs=1).fit(X)
    finally:
        sys.setprofile(before)
    return walked, upwards


def test_a_fit_walks_as_the_design_page_says():
    """In the order of the page, and with no call from a layer to a later one.

    Groups are so far apart that no run of EM is long, and none is extrapolated.
    """
    section = DESIGN.read_text(encoding="utf-8").split("## The walk of a fit")[1].split("\n## ")[0]
    written = re.findall(r"^\d+\. `([a-z_/]+\.py)`", section, flags=re.M)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + np.repeat([[0, 0], [6, 6], [0, 8]], 100, axis=0)
    walked, upwards = walk_of(X)
    assert [one for one in walked if one.split("/")[0].removesuffix(".py") in ROOMS] == written
    assert upwards == set()


def test_a_default_fit_crosses_few_files():
    """Of all files but those of the mathematics and of support, which every step uses."""
    used_everywhere = {"covariance", "distributions", "support", "tensors"}
    walked, _ = walk_of(load_iris().data)
    crossed = [one for one in walked if one.split("/")[0] not in used_everywhere]
    assert len(crossed) <= MOST_CROSSED, crossed


def layer_of(file):
    return LAYERS.index(file.split("/")[0].removesuffix(".py"))
