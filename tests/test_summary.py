import numpy as np
import pytest
from scipy.integrate import quad

import oracles
from momentmix import Mixture, MomentTensors, Samples
from momentmix.summary import (
    closeness,
    comparable_order,
    components,
    moment_match,
    names_of,
    readable,
    remarks,
)


def truth(n=2):
    rng = np.random.default_rng(0)
    L = rng.normal(size=(2, n, n))
    means = 2 * rng.normal(size=(2, n)) + 5
    return Mixture([0.3, 0.7], means, L @ L.swapaxes(1, 2) + np.eye(n))


def test_components_by_falling_weight():
    mixture = Mixture([0.2, 0.5, 0.3], [[0.0, 1], [2, 3], [4, 5]], [[4.0, 9]] * 3, "diag",
                      feature_names=["a", "b"])  # fmt: skip
    parts = components(mixture)
    assert [part.number for part in parts] == [1, 2, 0]
    np.testing.assert_array_equal(parts[0].mean, [2, 3])
    np.testing.assert_array_equal(parts[0].deviation, [2, 3])
    assert names_of(mixture) == ["a", "b"]
    assert names_of(Mixture([1.0], [[0.0, 0]], [1.0], "spherical")) == ["x0", "x1"]


@pytest.mark.parametrize("kind", ["samples", "tensors", "mixture"])
def test_moment_distances_are_those_of_the_tensors(kind, rng):
    n, order = 2, 4
    P = truth(n)
    X = truth(n).sample(50, 3)[0] + rng.normal(size=(50, n))
    atoms = [(1 / len(X), x, np.zeros((n, n))) for x in X]
    Q = Samples(X) if kind == "samples" else MomentTensors.from_samples(X, order)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    if kind == "mixture":
        Q = Mixture([0.5, 0.5], [[0.0, 1], [3, 2]], [[1.0, 2], [0.5, 1]], "diag")
        atoms = [(0.5, Q.means[j], np.diag(Q.covariances[j])) for j in range(2)]
        first, second = (oracles.moment_tensor(atoms, k) for k in (1, 2))
        mean, deviation = first, np.sqrt(np.diag(second) - first**2)

    def scaled(atoms):
        return [(w, (m - mean) / deviation, S / np.outer(deviation, deviation))
                for w, m, S in atoms]  # fmt: skip

    ours = scaled(zip(P.weights, P.means, P.covariances, strict=True))
    matches = moment_match(P, Q, order)
    assert [match.order for match in matches] == [1, 2, 3, 4]
    for match in matches:
        M, M_hat = (oracles.moment_tensor(a, match.order) for a in (ours, scaled(atoms)))
        distance = np.linalg.norm(M - M_hat)
        np.testing.assert_allclose(match.distance, distance, rtol=1e-8)
        if match.order > 1:
            np.testing.assert_allclose(match.relative, distance / np.linalg.norm(M_hat), rtol=1e-8)
        assert np.isfinite(match.noise) == (kind == "samples")


def test_expected_noise_is_what_sampling_gives():
    """Of many samples of a mixture, the mean square of the distance to its own moments."""
    mixture, p, trials = truth(), 400, 300
    squares, expected = np.zeros(3), np.zeros(3)
    for seed in range(trials):
        X, _ = mixture.sample(p, seed)
        # In the coordinates of the mixture itself, so that no error hides in the scaling.
        matches = moment_match(Samples(X), mixture, 3)
        noise = moment_match(mixture, Samples(X), 3)
        squares += [match.distance**2 for match in matches]
        expected += [match.noise**2 for match in noise]
    np.testing.assert_allclose(expected, squares, rtol=0.15)


def test_orders_that_cost_too_much_are_left_out():
    assert comparable_order(Samples(np.zeros((10, 3))), 3) == 4
    assert comparable_order(truth(), 100) == 3
    assert comparable_order(truth(), 2000) == 2
    assert comparable_order(MomentTensors(2, 3), 2) == 3
    with pytest.raises(ValueError, match="Q holds moments up to order 3, not 4"):
        moment_match(truth(), MomentTensors.from_samples(np.eye(2), 3), 4)
    with pytest.raises(ValueError, match=r"P has 2 feature\(s\), but Q has 3"):
        moment_match(truth(), Samples(np.eye(3)))


def test_closeness_is_the_integral():
    a, b = (0.3, 1.7), (-0.5, 0.6)

    def root(x):
        return np.exp(
            sum(-0.25 * (x - m) ** 2 / v - 0.25 * np.log(2 * np.pi * v) for m, v in (a, b))
        )

    integral, _ = quad(root, -30, 30)
    for kind, covariances in (("diag", [[a[1]], [b[1]]]), ("full", [[[a[1]]], [[b[1]]]])):
        mixture = Mixture([0.4, 0.6], [[a[0]], [b[0]]], covariances, kind)
        np.testing.assert_allclose(closeness(mixture), [[1, integral], [integral, 1]], rtol=1e-9)


def test_remarks_say_what_is_wrong_and_nothing_else():
    good = Mixture([0.5, 0.5], [[0.0, 0], [5, 5]], np.ones((2, 2)), "diag")
    X, _ = good.sample(2000, 0)
    assert remarks(good, 2000, moment_match(good, Samples(X))) == []
    few = Mixture([0.003, 0.997], [[0.0, 0], [5, 5]], np.ones((2, 2)), "diag")
    assert "Component 0 rests on about 3 rows" in remarks(few, 1000)[0]
    assert remarks(few, 1_000_000) == []
    same = Mixture([0.5, 0.5], [[0.0, 0], [0.1, 0]], np.ones((2, 2)), "diag")
    assert remarks(same) == ["Components 0 and 1 nearly coincide; one component fewer may do as well."]  # fmt: skip  # noqa: E501
    flat = Mixture([0.5, 0.5], [[0.0, 0], [5, 5]], [[1.0, 1], [1.0, 1e-7]], "diag")
    assert remarks(flat)[0].startswith("Component 1 has almost no extent")
    full = Mixture([0.5, 0.5], flat.means, [np.eye(2), np.ones((2, 2)) + 1e-8 * np.eye(2)])
    assert remarks(full)[0].startswith("Component 1 has almost no extent")
    tied = Mixture([0.5, 0.5], flat.means, np.diag([1, 1e-7]), "tied")
    assert [r[:21] for r in remarks(tied)] == ["The covariance that a"]
    zero = Mixture([1.0], [[0.0, 0]], [0.0], "spherical")
    assert len(remarks(zero)) == 1
    alone = Mixture([1.0], [[0.0, 0]], full.covariances[1:])  # shares its covariance with nobody
    assert [r[:26] for r in remarks(alone)] == ["Component 0 has almost no "]
    one = Mixture([1.0], [X.mean(axis=0)], [X.var(axis=0)], "diag")
    found = remarks(one, len(X), moment_match(one, Samples(X)))
    assert len(found) == 1
    assert found[0].startswith("The moments of order 2, 4 differ")


def test_numbers_read_well():
    assert readable(0) == "0"
    assert readable(-1234.567) == "−1,235"
    assert readable(0.0123456) == "0.01235"
    assert readable(12, 2) == "12"
    assert readable(1e-9, 3) == "1.00e−09"
    assert readable(-2.5e9, 2) == "−2.5e+09"
