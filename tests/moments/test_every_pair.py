"""The contract: every public function × every pair of distributions × every array library."""

import functools

import numpy as np
import pytest
import torch
from sklearn.base import clone

import momentmix as mm
import oracles
from conftest import Backend
from momentmix.covariance import join
from zoo import N_FEATURES, NAMES, cases

ORDERS = {
    "0": 0,
    "1": 1,
    "2": 2,
    "3": 3,
    "4": 4,
    "5": 5,
    "weights": [0.5, 1.0, 0.0, -0.3, 0.2],
    "augmented": list(mm.augmented_weights(4, 0.7)),
}
POINTS = np.random.default_rng(3).normal(size=(3, N_FEATURES))


def weights_of(order):
    return [0.0] * order + [1.0] if isinstance(order, int) else order


@functools.cache
def moments(name, d):
    return oracles.moment_entries(cases()[name].atoms(), d)


@functools.cache
def expected_inner(p, q, label):
    """Value, and the sum of the sizes of its terms, which is the scale of rounding."""
    weights = weights_of(ORDERS[label])
    terms = [
        w * oracles.inner(moments(p, k), moments(q, k), N_FEATURES, k)
        for k, w in enumerate(weights)
    ]
    size = [
        abs(w)
        * np.sqrt(
            oracles.inner(moments(p, k), moments(p, k), N_FEATURES, k)
            * oracles.inner(moments(q, k), moments(q, k), N_FEATURES, k)
        )
        for k, w in enumerate(weights)
    ]
    return sum(terms), sum(size)


@functools.cache
def expected_gradient(p, q, label):
    """Gradients of the inner product in P's weights, means and covariances, by complex steps."""
    return gradient_of(p, cases()[q].atoms(), weights_of(ORDERS[label]))


def gradient_of(p, atoms_q, weights, derivative=oracles.complex_step):
    case = cases()[p]
    target = [oracles.moment_entries(atoms_q, k) for k in range(len(weights))]

    def value(**parameters):
        atoms = case.atoms(**parameters)
        return sum(
            w * oracles.inner(oracles.moment_entries(atoms, k), target[k], N_FEATURES, k)
            for k, w in enumerate(weights)
        )

    w, means, covariances = case.parameters
    w = np.full(len(means), 1 / len(means)) if w is None else w
    gradients = [
        oracles.gradient(lambda x: value(weights=x), w, derivative),
        oracles.gradient(lambda x: value(means=x), means, derivative),
        None,
    ]
    if covariances is not None:
        rule = oracles.symmetric_gradient if case.covariance_is_matrix else oracles.gradient
        gradients[2] = rule(lambda x: value(covariances=x), covariances, derivative)
    return gradients


def build(name, backend):
    return cases()[name].build(backend.array)


def assert_gradient(backend, gradient, expected, scale=1.0):
    assert isinstance(gradient, mm.Gradient)
    for got, want in zip(gradient, expected, strict=True):
        if want is None:
            assert got is None
            continue
        got = join(got)
        assert backend.owns(got)
        np.testing.assert_allclose(backend.numpy(got), want, rtol=1e-10, atol=1e-11 * scale)


@pytest.mark.parametrize("label", ORDERS)
@pytest.mark.parametrize("p", NAMES)
def test_inner(p, label, backend):
    P = build(p, backend)
    for q in NAMES:
        value = mm.inner(P, build(q, backend), ORDERS[label])
        want, scale = expected_inner(p, q, label)
        assert backend.owns(value)
        assert value.shape == ()
        np.testing.assert_allclose(float(value), want, rtol=1e-12, atol=1e-13 * scale, err_msg=q)


@pytest.mark.parametrize("label", ["0", "1", "2", "3", "4", "weights"])
@pytest.mark.parametrize("p", NAMES)
def test_inner_grad(p, label, backend):
    P = build(p, backend)
    for q in NAMES:
        value, gradient = mm.inner_grad(P, build(q, backend), ORDERS[label])
        want, scale = expected_inner(p, q, label)
        np.testing.assert_allclose(float(value), want, rtol=1e-12, atol=1e-13 * scale, err_msg=q)
        assert_gradient(backend, gradient, expected_gradient(p, q, label), scale)


@pytest.mark.parametrize("label", ["0", "2", "4", "augmented"])
@pytest.mark.parametrize("p", NAMES)
def test_squared_distance(p, label, backend):
    P = build(p, backend)
    for q in NAMES:
        distance = mm.squared_distance(P, build(q, backend), ORDERS[label])
        weights = weights_of(ORDERS[label])
        want = sum(
            w * oracles.inner(moments(p, k) - moments(q, k), moments(p, k) - moments(q, k), 2, k)
            for k, w in enumerate(weights)
        )
        assert backend.owns(distance)
        scale = expected_inner(p, p, label)[0] + expected_inner(q, q, label)[0]
        np.testing.assert_allclose(float(distance), want, rtol=1e-10, atol=1e-13 * scale)


@pytest.mark.parametrize("label", ["0", "1", "3", "4", "weights"])
@pytest.mark.parametrize("p", NAMES)
def test_contract(p, label, backend):
    P, weights = build(p, backend), weights_of(ORDERS[label])
    zero = np.zeros((N_FEATURES, N_FEATURES))
    one_by_one = [[(1.0, a, zero)] for a in POINTS]
    want = [oracles.weighted_inner(cases()[p].atoms(), a, weights) for a in one_by_one]

    values = mm.contract(P, backend.array(POINTS), ORDERS[label])
    assert backend.owns(values)
    np.testing.assert_allclose(backend.numpy(values), want, rtol=1e-11, atol=1e-12)

    single = mm.contract(P, backend.array(POINTS[0]), ORDERS[label])
    assert single.shape == ()
    np.testing.assert_allclose(float(single), want[0], rtol=1e-11, atol=1e-12)

    values, in_points, in_P = mm.contract_grad(P, backend.array(POINTS), ORDERS[label])
    np.testing.assert_allclose(backend.numpy(values), want, rtol=1e-11, atol=1e-12)
    atoms = cases()[p].atoms()
    rows = [
        oracles.gradient(lambda a: oracles.weighted_inner(atoms, [(1.0, a, zero)], weights), a)
        for a in POINTS
    ]
    assert backend.owns(in_points)
    np.testing.assert_allclose(backend.numpy(in_points), rows, rtol=1e-10, atol=1e-11)
    assert_gradient(backend, in_P, gradient_of(p, [(1.0, a, zero) for a in POINTS], weights))

    _, in_point, _ = mm.contract_grad(P, backend.array(POINTS[1]), ORDERS[label])
    np.testing.assert_allclose(backend.numpy(in_point), rows[1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("d", range(6))
@pytest.mark.parametrize("p", NAMES)
def test_dense_moment(p, d, backend):
    tensor = mm.dense_moment(build(p, backend), d)
    assert backend.owns(tensor)
    want = oracles.moment_tensor(cases()[p].atoms(), d)
    assert tensor.shape == want.shape
    np.testing.assert_allclose(backend.numpy(tensor), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [7, 8, 9, 10])
@pytest.mark.parametrize("p", NAMES)
def test_high_orders(p, d):
    for q in ("full", "diag", "weighted", "noise-matrix"):
        P, Q = cases()[p].build(np.asarray), cases()[q].build(np.asarray)
        want = oracles.inner(moments(p, d), moments(q, d), N_FEATURES, d)
        scale = np.sqrt(
            oracles.inner(moments(p, d), moments(p, d), N_FEATURES, d)
            * oracles.inner(moments(q, d), moments(q, d), N_FEATURES, d)
        )
        assert abs(float(mm.inner(P, Q, d)) - want) < 1e-12 * scale
        # The gradient at high order, along one random direction.
        gradient = mm.inner_grad(P, Q, d)[1]
        step = np.random.default_rng(d).normal(size=P.atoms.means.shape)
        target = moments(q, d)
        slope = oracles.complex_step(
            lambda x, target=target: oracles.inner(
                oracles.moment_entries(cases()[p].atoms(means=x), d), target, N_FEATURES, d
            ),
            cases()[p].parameters[1],
            step,
        )
        assert abs(np.sum(gradient.means * step) - slope) < 1e-10 * max(scale, abs(slope))


@pytest.mark.parametrize("p", NAMES)
def test_gradients_agree_with_real_differences(p):
    """The complex step itself is checked against ordinary central differences."""
    weights = [0.0, 1.0, 0.5, 0.25]
    steps = gradient_of(p, cases()["full"].atoms(), weights)
    differences = gradient_of(p, cases()["full"].atoms(), weights, oracles.central_difference)
    for step, difference in zip(steps, differences, strict=True):
        if step is not None:
            np.testing.assert_allclose(step, difference, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("p", NAMES)
def test_float32_stays_float32(p, backend):
    case = cases()[p]
    P = case.build(lambda a: backend.array(a, np.float32))
    Q = cases()["full"].build(lambda a: backend.array(a, np.float32))
    value, gradient = mm.inner_grad(P, Q, 3)
    assert backend.owns(value, "float32")
    assert all(g is None or backend.owns(join(g), "float32") for g in gradient)
    want, scale = expected_inner(p, "full", "3")
    np.testing.assert_allclose(float(value), want, rtol=1e-4, atol=1e-5 * scale)
    assert backend.owns(mm.contract(P, backend.array(POINTS, np.float32), 3), "float32")
    assert backend.owns(mm.dense_moment(P, 3), "float32")


@pytest.mark.parametrize("p", NAMES)
def test_arguments_are_left_alone(p, backend):
    given = [None if a is None else backend.array(a) for a in cases()[p].parameters]
    arrays = iter(given)
    P = cases()[p].build(lambda a: next(x for x in arrays if x is not None))
    points = backend.array(POINTS)
    mm.inner_grad(P, P, [0, 1, 1, 1, 1])
    mm.contract_grad(P, points, 4)
    mm.dense_moment(P, 4)
    np.testing.assert_array_equal(backend.numpy(points), POINTS)
    for array, original in zip(given, cases()[p].parameters, strict=True):
        if original is not None:
            np.testing.assert_array_equal(backend.numpy(array), original)


def torch_build(p, name, X):
    """The distribution p, one of whose parameters is X."""
    parameters = dict(zip(("weights", "means", "covariances"), cases()[p].parameters, strict=True))
    tensors = iter(
        X if own == name else torch.tensor(np.array(a))
        for own, a in parameters.items()
        if a is not None
    )
    return cases()[p].build(lambda a: next(tensors))


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("name", ["means", "covariances"])
@pytest.mark.parametrize("p", [p for p in NAMES if p not in ("semidefinite", "zero")])
def test_derivatives_of_pytorch(p, name):
    """They are those of central differences, or they are refused; never other numbers."""
    at = cases()[p].parameters[("weights", "means", "covariances").index(name)]
    if at is None:
        return
    other, points = build("full", Backend("torch")), torch.tensor(POINTS)
    stored = mm.MomentTensors.from_samples(POINTS, 4)
    rows, gaps = torch.tensor(POINTS), torch.tensor(POINTS)
    gaps[0, 0] = float("nan")

    def both(value):
        return lambda P: value(P) + (P.atoms.means**2).sum()

    flowing = [
        lambda P: mm.squared_distance(P, other, 3),
        lambda P: mm.inner(other, P, [1.0, 0.5, 0.2, 0.1, 0.1]),
        lambda P: mm.inner_grad(P, other, 4)[1].means.sum(),
        lambda P: mm.contract_grad(P, points, 4)[1].sum(),
        lambda P: (mm.dense_moment(P, 3) ** 2).sum(),
    ]
    refused = [lambda P: mm.squared_distance(P, stored, 3), lambda P: mm.inner(stored, P, 4)]
    if isinstance(cases()[p].build(np.asarray), mm.Mixture):
        flowing += [
            lambda P: P.log_prob(rows).sum(),
            lambda P: P.marginal([1]).log_prob(rows[:, :1]).sum(),
        ]
        flowing += [lambda P: P.condition([0], rows[0, :1]).log_prob(rows[:, 1:]).sum()]
        refused += [lambda P: P.log_prob(gaps).sum(), lambda P: P.impute(gaps).sum()]
        refused += [lambda P: P.denoise(rows, 0.1)[0].sum(), lambda P: P.log_prob(rows, 0.1).sum()]
        refused += [lambda P: P.on(rows).means.sum(), lambda P: P.sample(3, 0)[0].sum()]
    rng = np.random.default_rng(1)
    step = rng.normal(size=np.shape(at))
    if step.ndim > 1 and cases()[p].covariance_is_matrix and name == "covariances":
        step = step + step.swapaxes(-1, -2)
    for value in map(both, flowing):
        X = torch.tensor(np.array(at), requires_grad=True)
        value(torch_build(p, name, X)).backward()
        slope, h = float((X.grad * torch.tensor(step)).sum()), 1e-5
        ends = [float(value(torch_build(p, name, torch.tensor(at + s * step)))) for s in (h, -h)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-7)
    for value in map(both, refused):
        P = torch_build(p, name, torch.tensor(np.array(at), requires_grad=True))
        with pytest.raises(TypeError, match=r"requires_grad=True, but .* do not reach through"):
            value(P)
        with torch.no_grad():
            assert np.isfinite(float(value(P)))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ["means", "covariances"])
def test_directional_derivatives_of_pytorch(name):
    """Those of forward mode, too, are right or refused: nothing drops a tangent."""
    at = cases()["full"].parameters[("weights", "means", "covariances").index(name)]
    stored, rows = mm.MomentTensors.from_samples(POINTS, 3), torch.tensor(POINTS)
    step = np.ones_like(at)

    def P(x):
        return torch_build("full", name, x)

    values = [
        (lambda x: mm.squared_distance(P(x), build("diag", Backend("torch")), 3), True),
        (lambda x: mm.contract(P(x), rows[0], 3), True),
        (lambda x: P(x).log_prob(rows).sum(), True),
        (lambda x: mm.squared_distance(P(x), stored, 3), False),
        (lambda x: P(x).log_prob(rows, 0.1).sum(), False),
    ]
    for value, flows in values:
        with torch.autograd.forward_ad.dual_level():
            x = torch.autograd.forward_ad.make_dual(torch.tensor(at), torch.tensor(step))
            if not flows:
                with pytest.raises(TypeError, match=r"has a tangent, but .* do not reach through"):
                    value(x)
                continue
            slope = float(torch.autograd.forward_ad.unpack_dual(value(x)).tangent)
        ends = [float(value(torch.tensor(at + h * step))) for h in (1e-5, -1e-5)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def asking(*parts):
    """Tensors that are to have derivatives."""
    return [torch.tensor(np.array(part), requires_grad=True) for part in parts]


def graph_cases():
    """For each public name, calls with tensors that are to have derivatives."""
    X, _ = cases()["full"].build(np.asarray).sample(40, 0)
    y, counts = X[:, 0] - X[:, 1], np.full(40, 0.5)
    rows, target, share = asking(X, y, counts)
    mixture = cases()["full"].build(np.asarray)
    of_torch = mm.Mixture(*asking(mixture.weights, mixture.means, mixture.covariances))
    other, order = mm.Samples(torch.tensor(POINTS)), asking([1.0, 0.5, 0.5, 0.1])[0]
    stored = mm.MomentTensors.from_samples(POINTS, 3)
    quick = {"random_state": 0}
    fits = {
        mm.GaussianMixture: mm.GaussianMixture(2, **quick),
        mm.MomentMixture: mm.MomentMixture(2, **quick),
        mm.KnownCovarianceMixture: mm.KnownCovarianceMixture(2, 0.1, **quick),
        mm.MixtureImputer: mm.MixtureImputer(2, **quick),
    }
    found = {}
    for cls, blank in fits.items():
        found[cls.__name__] = [
            lambda blank=blank: clone(blank).fit(rows),
            lambda blank=blank: (
                clone(blank).fit_transform(rows)
                if hasattr(blank, "transform")
                else clone(blank).fit(torch.tensor(X), sample_weight=share)
            ),
        ]
    for cls in (mm.GaussianMixture, mm.MomentMixture, mm.KnownCovarianceMixture):
        fit = clone(fits[cls]).fit(X)
        names = ("predict_proba", "score_samples", "score", "impute", "denoise", "bic", "aic")
        found[cls.__name__] += [
            lambda fit=fit, name=name: getattr(fit, name)(rows) for name in names
        ]
        found[cls.__name__] += [lambda fit=fit: fit.mixture_.on(rows).log_prob(rows)]
        found[cls.__name__] += [lambda fit=fit: fit.predict_proba(X, noise_covariance=share.sum())]
    filled, gm = mm.MixtureImputer(1, **quick).fit(X), mm.GaussianMixture(2, **quick).fit(X)
    found["MixtureImputer"].append(lambda: filled.transform(rows))
    found["GaussianMixture"].append(lambda: gm.bootstrap(rows, n_boot=2))
    found["GaussianMixture"].append(lambda: gm.standard_errors(rows))
    found["MomentMixture"].append(lambda: mm.MomentMixture(2).partial_fit(rows))
    classes = mm.MixtureClassifier().fit(X, y > 0)
    found["MixtureClassifier"] = [
        lambda: mm.MixtureClassifier().fit(rows, y > 0),
        lambda: classes.predict_proba(rows),
        lambda: classes.predict_log_proba(rows),
    ]
    line = mm.MixtureRegressor(1).fit(X, y)
    found["MixtureRegressor"] = [
        lambda: mm.MixtureRegressor(1).fit(rows, y),
        lambda: mm.MixtureRegressor(1).fit(X, target),
        lambda: line.predict(rows),
        lambda: line.predict_interval(rows),
        lambda: line.score(X, target),
    ]
    gaps = torch.where(rows > 0, rows, float("nan"))
    found["Mixture"] = [
        lambda: of_torch.log_prob(rows),
        lambda: of_torch.log_joint(rows * 1e9),
        lambda: of_torch.predict_proba(rows),
        lambda: of_torch.predict_proba(rows * 1e9),
        lambda: of_torch.predict_proba(gaps),
        lambda: of_torch.outlier_probability(rows),
        lambda: of_torch.impute(gaps),
        lambda: of_torch.denoise(rows),
        lambda: of_torch.marginal([0]).means,
        lambda: of_torch.condition([0], rows[0, :1]).means,
        lambda: of_torch.moment(3),
        lambda: of_torch.sample(3, 0)[0],
        lambda: of_torch.on(rows).means,
        lambda: of_torch.named(None).means,
    ]
    found["MomentTensors"] = [
        lambda: mm.MomentTensors(3, 2).update(rows),
        lambda: mm.MomentTensors.from_samples(torch.tensor(X), 2, share),
        lambda: mm.MomentTensors.from_batches([rows], 2),
    ]
    found["Samples"] = [lambda: mm.Samples(rows).moment(3)]
    for name in ("inner", "squared_distance", "inner_grad"):
        function = getattr(mm, name)
        found[name] = [
            lambda f=function: f(of_torch, other, 3),
            lambda f=function: f(of_torch, stored, 3),
            lambda f=function: f(mm.Samples(rows), other, 3),
            lambda f=function: f(mm.Samples(torch.tensor(X)), other, order),
        ]
    for name in ("contract", "contract_grad"):
        function = getattr(mm, name)
        found[name] = [
            lambda f=function: f(of_torch, rows.detach(), 3),
            lambda: mm.contract(of_torch, rows, 4, free=2),
            lambda f=function: f(of_torch, rows, 3),
            lambda f=function: f(stored, rows, 3),
        ]
    cost, plain = mm.moment_objective(other, 3), build("full", Backend("torch"))
    found["moment_objective"] = [
        lambda: cost.value(of_torch),
        lambda: cost.by_order(of_torch),
        lambda: [x for x in cost.value_and_gradient(of_torch)[1] if x is not None],
        lambda: torch.tensor(cost.pack(of_torch)),
        lambda: torch.tensor(cost.hessian(of_torch).matvec(np.zeros(14))),
        lambda: mm.moment_objective(mm.Samples(rows), 3).value(plain),
    ]
    found["Atoms"] = [
        lambda: mm.inner(mm.Atoms(*asking(mixture.weights, mixture.means)), other, 3),
        lambda: mm.Atoms(plain.weights, plain.means, *asking(mixture.covariances)).moment(2),
    ]
    found["multilinear"] = [lambda: mm.multilinear(of_torch, rows[:3])]
    found["contract_cumulant"] = [lambda: mm.contract_cumulant(of_torch, rows, 3)]
    found["dense_cumulant"] = [lambda: mm.dense_cumulant(of_torch, 3)]
    found["dense_moment"] = [lambda: mm.dense_moment(of_torch, 3)]
    found["debiased_moment"] = [lambda: mm.debiased_moment(rows, share.mean() / 100, 3)]
    found["augmented_weights"] = [lambda: mm.augmented_weights(3, share[0])]
    found["symmetric_cp"] = [lambda: mm.symmetric_cp(mm.Samples(rows), 2, 3)]
    found["moment_test"] = [lambda: mm.moment_test(gm, rows), lambda: mm.moment_test(of_torch, X)]
    found["compare"] = [lambda: mm.compare(rows, X), lambda: mm.compare(X, rows)]
    found["drift"] = [lambda: mm.drift(gm, mm.MomentTensors.from_samples(rows, 3))]
    found["select"] = [lambda: mm.select(rows, [1])]
    found["merge_components"] = [
        lambda: mm.merge_components(gm, rows, 2).labels,
        lambda: mm.merge_components(of_torch, rows.detach(), 1).labels,
    ]
    found["LogColumns"] = [lambda: mm.LogColumns([0]).fit_transform(rows.abs() + 1)]
    return found


#: Public names that take no rows and no parameters of distributions as tensors.
WITHOUT_TENSORS = {"CollapseWarning", "Gradient", "OutlierWarning", "SharedValueWarning",
                   "SymmetricCP", "UncertaintyWarning"}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(mm.__all__) - WITHOUT_TENSORS))
def test_no_function_drops_the_graph_of_pytorch(name):
    for k, call in enumerate(graph_cases()[name]):
        found = unless_refused(call)
        parts = [found] if torch.is_tensor(found) else [*found]
        parts = [part for each in parts for part in ([each] if torch.is_tensor(each) else each)]
        assert all(part.requires_grad for part in parts if part is not None), (name, k)


def unless_refused(call):
    """What the call gives; nothing if it says that there would be no derivatives."""
    try:
        return call()
    except TypeError as error:
        if "do not reach through" not in str(error):
            raise
        return ()
