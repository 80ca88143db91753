"""The cost in both forms, against the oracles and against each other."""

import itertools

import numpy as np
import pytest

import momentmix as mm
import oracles
from momentmix.covariance import Zero, covariance_type
from momentmix.matching.objective import ImplicitObjective, PackedObjective, Parametrisation
from momentmix.tensors.isserlis import atom_sums, hermite_factor
from zoo import NAMES, cases

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
KINDS = {**{name: covariance_type(name) for name in TYPES}, "zero": Zero}
FORMS = list(itertools.product(TYPES, ("implicit", "post-processing"), (None, 0.01)))
FORMS += [("full", "free", None), ("tied", "free", 0.01)]
FORMS += [("zero", form, None) for form in ("implicit", "post-processing", "free")]
WEIGHTS = [0.3, 1.0, 0.5, 0.2, 0.1]


def data_moments(Q):
    return atom_sums(Q.atoms, np.zeros(Q.n_features), 4)


def example(kind, augmentation, floor, seed=0, m=3, n=3):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(m, n, n)) / np.sqrt(n)
    full = L @ L.swapaxes(1, 2) + 0.1 * np.eye(n)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.1, 1, (m, n)),
        "spherical": rng.uniform(0.1, 1, m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
        "zero": np.empty((m, 0)),
    }[kind]
    parametrisation = Parametrisation(
        KINDS[kind], m, n, augmentation=augmentation, order=4, floor=floor
    )
    parameters = rng.dirichlet(5 * np.ones(m)), rng.normal(size=(m, n)), covariances
    return parametrisation, parameters


def target(n=3):
    rng = np.random.default_rng(9)
    return mm.Samples(rng.normal(size=(50, n)))


@pytest.mark.parametrize(("kind", "augmentation", "floor"), FORMS)
def test_encoding_round_trip(kind, augmentation, floor):
    parametrisation, parameters = example(kind, augmentation, floor)
    x = parametrisation.encode(*parameters)
    assert x.shape == (parametrisation.size,)
    for got, want in zip(parametrisation.decode(x), parameters, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "augmentation", "floor"), FORMS)
def test_both_forms_are_the_squared_distance(kind, augmentation, floor):
    parametrisation, parameters = example(kind, augmentation, floor)
    x, Q = parametrisation.encode(*parameters), target()
    matrices = np.zeros((1, 3, 3))
    if kind != "zero":
        matrices = mm.Mixture(*parameters, kind).atoms.covariance.matrices()
    atoms = list(zip(*parameters[:2], np.broadcast_to(matrices, (3, 3, 3)), strict=True))
    points = [(1 / 50, row, np.zeros((3, 3))) for row in Q.X]
    want = sum(
        w
        * oracles.inner(
            *[oracles.moment_entries(atoms, k) - oracles.moment_entries(points, k)] * 2, 3, k
        )
        for k, w in enumerate(WEIGHTS)
    )
    packed = PackedObjective(parametrisation, data_moments(Q), WEIGHTS)
    implicit = ImplicitObjective(parametrisation, Q, WEIGHTS)
    value, gradient = packed.value_and_gradient(x)
    np.testing.assert_allclose(value, want, rtol=1e-9)
    above, nothing = PackedObjective(parametrisation, data_moments(Q), WEIGHTS).value_and_gradient(
        x, value / 2
    )
    assert (above, len(nothing)) == (pytest.approx(value, rel=1e-12), 0)
    np.testing.assert_array_equal(packed.value_and_gradient(x, 2 * value)[1], gradient)
    constant = mm.inner(Q, Q, WEIGHTS)
    implicit_value, implicit_gradient = implicit.value_and_gradient(x)
    np.testing.assert_allclose(implicit_value + constant, want, rtol=1e-9)
    size = np.abs(gradient).max()
    np.testing.assert_allclose(implicit_gradient, gradient, rtol=1e-8, atol=1e-10 * size)
    differences = [
        oracles.central_difference(lambda y: packed.value_and_gradient(y)[0], x, e, 1e-4)
        for e in np.eye(len(x))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-7 * size)


@pytest.mark.parametrize(("kind", "augmentation", "floor"), FORMS)
def test_gauss_newton_product(kind, augmentation, floor):
    """2JᵀJu without the data is 2JᵀJu from the explicit Jacobian, itself a difference quotient."""
    parametrisation, parameters = example(kind, augmentation, floor)
    x, Q = parametrisation.encode(*parameters), target()
    packed = PackedObjective(parametrisation, data_moments(Q), WEIGHTS)
    J = packed.residual_and_jacobian(x)[1]
    u = np.random.default_rng(1).normal(size=len(x))
    slope = oracles.central_difference(lambda y: packed.residual_and_jacobian(y)[0], x, u, 1e-4)
    np.testing.assert_allclose(J @ u, slope, rtol=1e-6, atol=1e-7 * np.abs(slope).max())
    implicit = ImplicitObjective(parametrisation, Q, WEIGHTS)
    got = implicit.normal_equations(x).product(u)
    assert implicit.n_passes == 0
    want = 2 * J.T @ (J @ u)
    np.testing.assert_allclose(got, want, atol=1e-8 * np.abs(want).max())


@pytest.mark.parametrize("augmentation", ["implicit", "post-processing", "free"])
@pytest.mark.parametrize("kind", ["zero", *TYPES])
def test_conjugate_gradients_solve_the_damped_equations(kind, augmentation):
    parametrisation, parameters = example(kind, augmentation, None)
    x, Q = parametrisation.encode(*parameters), target()
    implicit = ImplicitObjective(parametrisation, Q, WEIGHTS)
    equations = implicit.normal_equations(x)
    gradient = implicit.value_and_gradient(x)[1]
    step, predicted = equations.step(gradient, 0.1)
    H = 2 * PackedObjective(parametrisation, data_moments(Q), WEIGHTS).residual_and_jacobian(x)[1].T
    H = H @ H.T / 2
    exact = -np.linalg.solve(H + 0.1 * np.diag(equations.preconditioner.diagonal), gradient)
    damped = H + 0.1 * np.diag(equations.preconditioner.diagonal)

    def model(s):
        return gradient @ s + s @ damped @ s / 2

    enough = 0.9 if kind in ("tied-diag", "tied-spherical") else 0.95  # of the way down
    assert model(step) < enough * model(exact) < 0
    assert predicted > 0
    np.testing.assert_allclose(predicted, -(gradient @ step + step @ H @ step / 2), rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_any_distribution_is_data(name):
    parametrisation, parameters = example("full", "implicit", None, n=2)
    Q = cases()[name].build(np.asarray)
    x = parametrisation.encode(*parameters)
    packed = PackedObjective(parametrisation, data_moments(Q), WEIGHTS)
    P = mm.Mixture(*parameters, "full")
    want = mm.squared_distance(P, Q, WEIGHTS)
    np.testing.assert_allclose(packed.value_and_gradient(x)[0], want, rtol=1e-9)


def test_hermite_weighting_changes_the_cost_and_not_the_minimum():
    parametrisation, parameters = example("full", "implicit", None)
    P = mm.Mixture(*parameters, "full")
    x = parametrisation.encode(*parameters)
    factor = hermite_factor(3, 4)
    objective = PackedObjective(parametrisation, data_moments(P), WEIGHTS, factor)
    value, gradient = objective.value_and_gradient(x)
    assert value < 1e-25
    assert np.abs(gradient).max() < 1e-12
    moved = x + 0.1 * np.random.default_rng(0).normal(size=len(x))
    slope = oracles.central_difference(
        lambda y: objective.value_and_gradient(y)[0], moved, np.ones_like(x), 1e-4
    )
    np.testing.assert_allclose(objective.value_and_gradient(moved)[1].sum(), slope, rtol=1e-6)


def test_factors_keep_covariances_above_the_floor(rng):
    for kind in TYPES:
        coordinates = KINDS[kind].coordinates(3, 4, 0.05)
        array = coordinates.decode(rng.normal(size=coordinates.size))
        values = np.linalg.eigvalsh(array) if kind in ("full", "tied") else array
        assert values.min() >= 0.05 - 1e-12


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_curvature_of_factors(kind, rng):
    """The second derivative of ⟨G, Σ(x)⟩ by differences, which are exact for a quadratic."""
    coordinates = KINDS[kind].coordinates(2, 3, floor=0.01)
    x = rng.normal(size=coordinates.size)
    shape = np.shape(coordinates.decode(x))
    G = rng.uniform(0.1, 1, size=shape)
    if kind in ("full", "tied"):
        G = G @ np.swapaxes(G, -1, -2)

    def value(x):
        return np.sum(G * coordinates.decode(x))

    H = coordinates.curvature(G)
    u, v = rng.normal(size=(2, coordinates.size))
    want = (value(x + u + v) - value(x + u - v) - value(x - u + v) + value(x - u - v)) / 4
    np.testing.assert_allclose(u @ H @ v, want, rtol=1e-10)
    assert KINDS[kind].coordinates(2, 3).curvature(G) is None
    assert np.all(coordinates.curvature(-G) == 0)


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_both_forms_of_the_augmented_system_end_at_one_cost(shift):
    """POST-PROCESSING rescales its weights afterwards, which alone left up to 12 times the cost."""
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(2, 5)) + shift / np.sqrt(5), rng.uniform(0.2, 1, (2, 5))
    X = mm.Mixture([0.4, 0.6], means, variances, "diag").sample(3000, 1)[0]
    costs = []
    for form in ("implicit", "post-processing"):
        model = mm.MomentMixture(2, covariance_type="diag", order=3, omega=1.0, augmentation=form,
                                 weighting="orders", random_state=0).fit(X)  # fmt: skip
        assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
        assert np.all(model.weights_ >= 0)
        cost = mm.squared_distance(model.mixture_, mm.Samples(X), mm.augmented_weights(3, 1.0))
        costs.append(float(cost))
    np.testing.assert_allclose(costs[1], costs[0], rtol=1e-5)
