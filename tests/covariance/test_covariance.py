"""Covariance types: what their classes say of shapes and sizes, and that nobody else does."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest

import momentmix
from momentmix import CollapseWarning, GaussianMixture, Mixture
from momentmix.covariance import (
    COVARIANCE_TYPES,
    Covariance,
    Diagonal,
    Full,
    Spherical,
    Tied,
    TiedDiagonal,
    TiedSpherical,
    Zero,
    common_noise,
    covariance_type,
)
from momentmix.summary import FitSummary

NAMED = (Full, Tied, Diagonal, Spherical, TiedDiagonal, TiedSpherical)
ALL = (*NAMED, Zero)
NAMES = {kind.name for kind in ALL}
CLASSES = {kind.__name__ for kind in ALL} | {"Variances", "Matrices", "Common"}


def ids(kind):
    return kind.name


def example(kind, rng, m=3, n=4):
    L = rng.normal(size=(m, n, n))
    matrices = L @ L.swapaxes(1, 2) + np.eye(n)
    arrays = {
        "full": matrices,
        "tied": matrices[0],
        "diag": matrices[:, range(n), range(n)],
        "spherical": matrices[:, 0, 0],
        "tied-diag": np.diag(matrices[0]),
        "tied-spherical": matrices[0, 0, 0],
        "zero": np.empty((m, 0)),
    }
    return arrays[kind.name]


def branches(tree):
    """Lines of a module that ask for a covariance type by its name or its class."""

    def names_a_type(node):
        if isinstance(node, ast.Constant):
            return node.value in NAMES if isinstance(node.value, str) else False
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(names_a_type(part) for part in node.elts)
        if isinstance(node, ast.Dict):
            return any(names_a_type(key) for key in node.keys if key is not None)
        return is_a_class(node) or (isinstance(node, ast.Attribute) and is_a_class(node.value))

    def is_a_class(node):
        if isinstance(node, ast.Tuple):
            return any(is_a_class(part) for part in node.elts)
        if isinstance(node, ast.BinOp):
            return is_a_class(node.left) or is_a_class(node.right)
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        return name in CLASSES

    for node in ast.walk(tree):
        found = False
        if isinstance(node, ast.Compare):
            found = any(names_a_type(side) for side in (node.left, *node.comparators))
        elif isinstance(node, ast.match_case):
            found = any(
                (isinstance(part, ast.MatchValue) and names_a_type(part.value))
                or (isinstance(part, ast.MatchClass) and is_a_class(part.cls))
                for part in ast.walk(node.pattern)
            )
        elif isinstance(node, ast.Dict):  # to look a type up in, sooner or later
            found = names_a_type(node)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            called = called.id if isinstance(called, ast.Name) else called
            if called in ("isinstance", "issubclass"):
                found = is_a_class(node.args[1])
            elif called in ("startswith", "endswith", "index", "count"):
                found = any(names_a_type(argument) for argument in node.args)
        if found:
            yield getattr(node, "lineno", None) or node.pattern.lineno


@pytest.mark.parametrize(
    "code",
    [
        'kind == "tied"',
        'kind not in ("full", "tied")',
        '"diag" != kind',
        '{"full": 1, "tied": 2}[kind]',
        "kind is Tied",
        "kind in (Spherical, covariance.Diagonal)",
        "kind.name == Tied.name",
        "isinstance(noise, Full | Tied)",
        "issubclass(kind, (Diagonal, Zero))",
        'match kind:\n    case "full" | "tied":\n        pass',
        "match noise:\n    case Zero():\n        pass",
    ],
)
def test_branches_on_a_type_are_found(code):
    assert list(branches(ast.parse(code)))


def test_no_branch_on_a_type_outside_the_folder():
    package = Path(momentmix.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] != "covariance"
        for line in branches(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_names():
    assert tuple(kind.name for kind in NAMED) == COVARIANCE_TYPES
    assert [covariance_type(name) for name in COVARIANCE_TYPES] == list(NAMED)
    for wrong in ("zero", "Full", None, ["full"]):
        with pytest.raises(ValueError, match=r"covariance_type must be one of \('full', 'tied', "):
            covariance_type(wrong)


@pytest.mark.parametrize("kind", ALL, ids=ids)
def test_types_travel(kind, rng):
    assert pickle.loads(pickle.dumps(kind)) is kind
    covariance = pickle.loads(pickle.dumps(kind.of(example(kind, rng), 4)))
    assert covariance.kind is kind
    assert covariance.n_features == 4


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("kind", ALL, ids=ids)
def test_sizes_are_those_of_arrays(kind, m, rng):
    n = 4
    array = example(kind, rng, m, n)
    assert kind.shape(m, n) == array.shape
    free = kind.coordinates(m, n)
    assert free.size == kind.free_parameters(m, n)
    assert free.shape == kind.shape(m, n)
    X = rng.normal(size=(7, n))
    covariance = kind.of(array, n)
    assert kind.features(X).shape == covariance.features(X).shape == (7, kind.width(n))
    assert kind.repeat(m, np.eye(n)).shape == kind.shape(m, n)
    assert kind.take_components(array, np.arange(m)[::-1]).shape == kind.shape(m, n)
    np.testing.assert_allclose(free.decode(free.encode(array)), array, rtol=1e-15)
    if not kind.zero:
        mixture = Mixture(np.full(m, 1 / m), np.zeros((m, n)), array, kind.name)
        assert mixture.covariance_type == mixture.atoms.covariance.name == kind.name
        matrices = np.broadcast_to(covariance.matrices(), (m, n, n))
        products = covariance.features(X) @ covariance.flat().T
        np.testing.assert_allclose(
            np.broadcast_to(products, (7, m)), np.einsum("pa,mab,pb->pm", X, matrices, X)
        )
        means = rng.normal(size=(m, n))
        assert kind.log_density_coefficients(means, array)[2].shape[1] == kind.width(n)


@pytest.mark.parametrize("kind", NAMED, ids=ids)
def test_what_is_said_of_units_and_axes_is_so(kind, rng):
    """Σ ↦ AΣAᵀ keeps the type's form for the scalings, and turns, that the class says it does."""
    n = 3
    S = kind.of(example(kind, rng, 1, n), n).matrices()[0]
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    maps = {"unit": 2.0 * np.eye(n), "units": np.diag([1.0, 10, 0.1]), "turn": turn}
    kept = {}
    for name, A in maps.items():
        moved = A @ S @ A.T
        again = kind.of(kind.repeat(1, moved), n).matrices()[0]
        kept[name] = np.allclose(again, moved)
    assert kept["unit"]
    assert kept["units"] == (not kind.one_unit)
    assert kept["turn"] == (not kind.by_feature)
    assert kind.diagonal == np.allclose(S, np.diag(np.diag(S)))
    assert kind.common == (kind.free_parameters(1, n) == kind.free_parameters(5, n))
    assert not kind.zero


@pytest.mark.parametrize("kind", NAMED, ids=ids)
def test_a_bound_is_the_noise_of_features_in_scaled_coordinates(kind, rng):
    n, m = 3, 2
    variances = np.array([0.5, 1.0, 2.0])
    scale = {True: 2.0, False: np.array([1.0, 10, 0.1])}[kind.one_unit]
    inverse = 1 / scale if kind.diagonal else np.diag(1 / scale)
    floor = kind.bound(0.01, variances, inverse, n)
    raised = kind.raise_to(kind.repeat(m, np.zeros((n, n))), floor)
    seen = np.full(n, variances.mean()) if kind.one_unit else variances
    expected = 0.01 * np.eye(n) + np.diag(seen / scale**2)
    np.testing.assert_allclose(kind.of(raised, n).matrices()[0], expected)
    assert np.all(kind.on_floor(raised, floor))
    assert not np.any(kind.on_floor(2 * raised, floor))
    np.testing.assert_allclose(kind.smallest_variance(raised), np.linalg.eigvalsh(expected)[0])


@pytest.mark.parametrize("noise", [0.3, [0.1, 0.2, 0.3, 0.4], np.eye(4) / 5 + 0.1])
@pytest.mark.parametrize("kind", ALL, ids=ids)
def test_projected_and_without_noise(kind, noise, rng):
    n, m = 4, 3
    covariance, known = kind.of(example(kind, rng, m, n), n), common_noise(noise, n)
    matrices = np.zeros((1, n, n)) if kind.zero else covariance.matrices()
    basis = np.linalg.qr(rng.normal(size=(n, 2)))[0]
    less = covariance.without(known)
    np.testing.assert_allclose(less.matrices(), matrices - known.matrices()[0])
    assert less.shared == covariance.shared
    for given, of in ((covariance, matrices), (known, known.matrices())):
        flat = given.project(basis)
        assert (flat.n_features, flat.shared, flat.zero) == (2, given.shared, given.zero)
        if not flat.zero:
            np.testing.assert_allclose(flat.matrices(), basis.T @ of @ basis, atol=1e-14)


@pytest.mark.parametrize(
    ("noise", "definite"),
    [
        (0.5, True),
        (0.0, False),
        ([1.0, 2.0], True),
        ([1.0, 0.0], False),
        ([[1e-12, 0.0], [0.0, 1.0]], True),  # in units of its own each feature has noise
        ([[1.0, 1.0], [1.0, 1.0]], False),
        ([[0.0, 0.0], [0.0, 1.0]], False),
    ],
)
def test_definite_whatever_the_units(noise, definite):
    assert common_noise(noise, 2).is_definite() == definite


@pytest.mark.parametrize("kind", [Tied, TiedDiagonal, TiedSpherical], ids=ids)
def test_a_shared_covariance_is_nobodys(kind, rng):
    array, rows = example(kind, rng), np.array([0])
    assert kind.take_components(array, rows) is array
    assert kind.replace_components(array, [1], 2 * array) is array
    assert kind.prior(4, "auto") is None
    counts = np.array([30.0, 70.0])
    assert kind.total_optimism(counts, 4) == 4 + kind.own.optimism(np.array([100.0]), 4)[0]
    assert kind.too_few(np.array([1.0, 3.9, 4.0]), 4).tolist() == [True, True, False]


@pytest.mark.parametrize("kind", [Tied, TiedDiagonal, TiedSpherical], ids=ids)
def test_a_component_of_one_row_is_told(kind, rng):
    X = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 6, [[60.0, -60.0]]])
    with pytest.warns(CollapseWarning, match="on about 1 rows, few for a mean of 2 features"):
        fit = GaussianMixture(3, covariance_type=kind.name, random_state=0).fit(X)
    assert len(fit.collapsed_) == 1
    summary = FitSummary(fit.mixture_, "rows", X=X)
    (remark,) = [one for one in summary.remarks if "few rows" in one]
    assert "rests on few rows (about 1), too few to be sure of a mean of 2 columns" in remark


@pytest.mark.parametrize("kind", [Full, Diagonal, Spherical], ids=ids)
def test_components_are_taken_and_replaced(kind, rng):
    array, new = example(kind, rng), example(kind, rng)
    np.testing.assert_array_equal(kind.take_components(array, np.array([2, 0])), array[[2, 0]])
    changed = kind.replace_components(array, [1], new[:1])
    np.testing.assert_array_equal(changed, [array[0], new[0], array[2]])
    d, S = rng.normal(size=4), kind.of(array, 4).matrices()
    together = kind.repeat(1, 0.3 * S[0] + 0.7 * S[1] + 0.21 * np.outer(d, d))[0]
    np.testing.assert_allclose(kind.merge((0.3, 0.7), array[0], array[1], d), together)
    assert kind.too_few(np.array([1.0, 1e6]), 4).tolist() == [True, False]


def test_points_have_no_density():
    points = Zero(3)
    assert (points.array, points.shared, points.negative()) == (None, True, points)
    assert Zero.prior(3, 5.0) is None
    assert Zero.smallest_variance(np.empty((2, 0))) == np.inf
    with pytest.raises(TypeError, match="points have no"):
        points.whitener()
    with pytest.raises(TypeError, match="points have no"):
        Zero.log_density_coefficients(np.zeros((1, 3)), np.empty((1, 0)))


def test_a_type_has_to_provide_everything():
    class Unfinished(Covariance):
        name = "unfinished"

    with pytest.raises(TypeError, match="abstract"):
        Unfinished(np.ones(1), 1)
