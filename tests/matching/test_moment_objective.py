"""moment_objective: values, derivatives and SciPy's minimisers, for every type and library."""

import numpy as np
import pytest
from scipy.optimize import minimize

import momentmix as mm
import oracles
from zoo import N_FEATURES, NAMES, cases

ORDERS = [3, [0.5, 1.0, 0.7, 0.3, 0.2]]
TARGETS = ("noise-matrix", "signed-full")


def weights_of(order):
    return [0.0] * order + [1.0] if isinstance(order, int) else order


def residual_tensors(atoms_p, atoms_q, weights):
    """√w_k (M_P^(k) - M_Q^(k)) of all orders, entry by entry of the full tensors."""
    parts = [
        np.sqrt(abs(w))
        * (oracles.moment_tensor(atoms_p, k) - oracles.moment_tensor(atoms_q, k)).ravel()
        for k, w in enumerate(weights)
    ]
    return np.concatenate(parts)


def atoms_of(p, P):
    """Atoms for oracles.py of the case p with the parameters of P."""
    return cases()[p].atoms(weights=P.weights, means=P.means, covariances=P.covariances)


MODELS = [name for name in NAMES if cases()[name].kind != "samples"]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("p", MODELS)
def test_values_are_those_of_the_tensors(p, order, backend):
    P, weights = cases()[p].build(backend.array), weights_of(order)
    for q in TARGETS:
        cost = mm.moment_objective(cases()[q].build(backend.array), order)
        r = residual_tensors(cases()[p].atoms(), cases()[q].atoms(), weights)
        want = float(r @ r)
        value, gradient = cost.value_and_gradient(P)
        assert backend.owns(value)
        assert backend.owns(cost.value(P))
        scale = want + float(cost.constant)
        for got in (value, cost.value(P), backend.xp.sum(cost.by_order(P))):
            np.testing.assert_allclose(float(got), want, rtol=1e-9, atol=1e-12 * scale)
        parts = np.split(r**2, np.cumsum([N_FEATURES**k for k in range(len(weights))])[:-1])
        by_order = backend.numpy(cost.by_order(P))
        np.testing.assert_allclose(by_order, [x.sum() for x in parts], atol=1e-11 * scale)
        # Unpacked atoms have the shapes and the library of P, and give the same cost.
        theta = cost.pack(P)
        again = cost.unpack(theta, P)
        assert backend.owns(again.means)
        np.testing.assert_allclose(float(cost.value(again)), float(value), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(cost.pack(again), theta)
        assert cost.pack(gradient).shape == theta.shape


@pytest.mark.parametrize("q", TARGETS)
@pytest.mark.parametrize("p", MODELS)
def test_derivatives_are_those_of_the_tensors(p, q, rng):
    """Gradient, Gauss–Newton and Hessian against differences of explicit tensors."""
    weights = ORDERS[1]
    P, Q = cases()[p].build(np.asarray), cases()[q].build(np.asarray)
    cost, target = mm.moment_objective(Q, weights), cases()[q].atoms()
    P = cost.unpack(cost.pack(P) + 0.1 * rng.normal(size=len(cost.pack(P))), P)  # away from Q
    theta = cost.pack(P)

    def residual(x):
        return residual_tensors(atoms_of(p, cost.unpack(x, P)), target, weights)

    def value(x):
        return float(residual(x) @ residual(x))

    u, v = rng.normal(size=(2, len(theta)))
    gradient = cost.pack(cost.value_and_gradient(P)[1])
    slope = oracles.central_difference(value, theta, u, 1e-4)
    np.testing.assert_allclose(gradient @ u, slope, rtol=1e-6, atol=1e-6 * abs(slope))
    Ju, Jv = (oracles.central_difference(residual, theta, x, 1e-4) for x in (u, v))
    J, H = cost.gauss_newton(P), cost.hessian(P)
    np.testing.assert_allclose(v @ J.matvec(u), 2 * Ju @ Jv, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(u @ J.matvec(u), 2 * Ju @ Ju, rtol=1e-6)
    h = 1e-3
    second = (value(theta + h * u) - 2 * value(theta) + value(theta - h * u)) / h**2
    np.testing.assert_allclose(u @ H.matvec(u), second, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(v @ H.matvec(u), u @ H.matvec(v), rtol=1e-6, atol=1e-6)
    assert not np.any(H.matvec(np.zeros(len(theta))))


@pytest.mark.parametrize("p", MODELS)
def test_hessian_at_the_target_is_gauss_newton(p, rng):
    P = cases()[p].build(np.asarray)
    cost = mm.moment_objective(P, 3)
    u = rng.normal(size=len(cost.pack(P)))
    want = cost.gauss_newton(P).matvec(u)
    np.testing.assert_allclose(cost.hessian(P).matvec(u), want, atol=1e-7 * np.abs(want).max())


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "tied-diag", "spherical", "points"])
def test_minimisers_of_scipy_find_the_mixture(kind, backend):
    name = "diag" if kind == "points" else kind
    Q = cases()[name].build(backend.array)
    if kind == "points":
        Q = mm.Atoms(Q.weights, Q.means)
    cost = mm.moment_objective(Q, mm.augmented_weights(5, 1.0))
    theta = cost.pack(Q)
    rng = np.random.default_rng(0)
    start = cost.unpack(theta + 0.02 * rng.normal(size=len(theta)), Q)

    def fun(x):
        value, gradient = cost.value_and_gradient(cost.unpack(x, start))
        return float(value), cost.pack(gradient)

    before = float(cost.value(start))
    first = minimize(fun, cost.pack(start), jac=True, method="L-BFGS-B")
    assert first.fun < 1e-2 * before
    newton = minimize(
        fun,
        cost.pack(start),
        jac=True,
        method="trust-ncg",
        hessp=lambda x, u: cost.gauss_newton(cost.unpack(x, start)).matvec(u),
        options={"gtol": 1e-7},
    )
    assert newton.fun < 1e-8 * before


def test_moments_alone_are_a_target(rng):
    X = rng.normal(size=(60, N_FEATURES))
    P, order = cases()["full"].build(np.asarray), ORDERS[1]
    rows = mm.moment_objective(mm.Samples(X), order)
    stored = mm.moment_objective(mm.MomentTensors.from_samples(X, 4), order)
    np.testing.assert_allclose(rows.value(P), stored.value(P), rtol=1e-10)
    for a, b in zip(rows.value_and_gradient(P)[1], stored.value_and_gradient(P)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(rows.by_order(P), stored.by_order(P), rtol=1e-9)
    with pytest.raises(TypeError, match="P must have parameters"):
        rows.value(stored.target)


def test_samples_and_terms_have_parameters_too(rng):
    P = mm.Samples(rng.normal(size=(5, 2)), noise_covariance=0.2)
    cost = mm.moment_objective(cases()["full"].build(np.asarray), 3)
    theta, u = cost.pack(P), rng.normal(size=5 + 10 + 1)
    np.testing.assert_allclose(float(cost.value(cost.unpack(theta, P))), float(cost.value(P)))
    slope = oracles.central_difference(lambda x: float(cost.value(cost.unpack(x, P))), theta, u)
    gradient = cost.pack(cost.value_and_gradient(P)[1])
    np.testing.assert_allclose(gradient @ u, slope, rtol=1e-4)
    cp = mm.symmetric_cp(mm.Samples(rng.normal(size=(50, 2)) + 1), 2, 3, random_state=0)
    assert cost.pack(cp).shape == (6,)
    assert cost.unpack(cost.pack(cp), cp).covariances is None


def test_what_is_no_vector_or_distribution_is_refused():
    P = cases()["diag"].build(np.asarray)
    cost = mm.moment_objective(P, 3)
    with pytest.raises(ValueError, match=r"theta must have shape \(15,\)"):
        cost.unpack(np.zeros(14), P)
    with pytest.raises(TypeError, match="wrap an array of rows"):
        mm.moment_objective(np.zeros((3, 2)), 3)
    with pytest.raises(ValueError, match="feature"):
        cost.value(mm.Samples(np.zeros((3, 1))))


def test_the_constant_is_computed_once(rng, monkeypatch):
    from momentmix.matching import objective

    cost, P = mm.moment_objective(mm.Samples(rng.normal(size=(9, 2))), 3), cases()["diag"]
    calls, square = [], objective.square
    monkeypatch.setattr(objective, "square", lambda *args: calls.append(args) or square(*args))
    for _ in range(3):
        cost.value(P.build(np.asarray))
        cost.value_and_gradient(P.build(np.asarray))
    assert len(calls) == 1
