import numpy as np
import pytest

import momentmix as mm
from momentmix.covariance import Diagonal, Full, Tied, covariance_type
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, TensorData
from momentmix.matching.identifiability import check_order, is_enough, needed_order
from momentmix.matching.order_weights import sampling_weights
from momentmix.matching.starts import POINTS, spectral_means

TYPES = ("full", "tied", "diag", "spherical")


@pytest.mark.parametrize("kind", TYPES)
def test_there_and_back(kind, rng):
    X = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) * [1, 100, 1e-3] + [5, -7, 1e3]
    frame = Frame.of_samples(covariance_type(kind), X, None)
    Z = frame.apply(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-9)
    if kind in ("full", "tied"):
        np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(3), atol=1e-6)
    elif kind == "diag":
        np.testing.assert_allclose(Z.std(axis=0), 1)
    C = {
        "full": np.tile(np.eye(3), (2, 1, 1)),
        "tied": np.eye(3),
        "diag": np.ones((2, 3)),
        "spherical": np.ones(2),
    }[kind]
    given = Parameters(np.array([0.4, 0.6]), rng.normal(size=(2, 3)), C)
    back = frame.back(given)
    again = frame.forward(back)
    np.testing.assert_allclose(again.means, given.means, atol=1e-7)
    np.testing.assert_allclose(again.covariances, given.covariances, atol=1e-7)
    inside = mm.Mixture(*given, kind).log_prob(Z[:5])
    outside = mm.Mixture(*back, kind).log_prob(X[:5])
    np.testing.assert_allclose(outside, inside - frame.log_volume, rtol=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_features_that_do_not_vary(kind, rng):
    X = np.column_stack([rng.normal(size=50), np.full(50, 3.0), np.zeros(50)])
    frame = Frame.of_samples(covariance_type(kind), X, None)
    assert np.all(np.isfinite(frame.apply(X)))
    assert np.isfinite(frame.log_volume)
    constant = Frame.of_samples(covariance_type(kind), np.full((5, 2), 7.0), None)
    np.testing.assert_allclose(constant.apply(np.full((5, 2), 7.0)), 0)


@pytest.mark.parametrize("kind", TYPES)
def test_a_distribution_in_the_frame(kind, rng):
    Q = mm.Samples(rng.normal(size=(40, 2)) * [1, 5] + 3, noise_covariance=[[0.2, 0.1], [0.1, 0.3]])
    frame = Frame.of_atoms(covariance_type(kind), Q.atoms)
    scaled = frame.apply_atoms(Q.atoms)
    one = Frame.of_atoms(Full, scaled)
    np.testing.assert_allclose(one.centre, 0, atol=1e-12)


def test_orders_needed():
    assert needed_order(Full, 3, 1) == 10  # 4m - 2
    assert needed_order(Full, 2, 1) == 6
    assert needed_order(Full, 3, 2) >= 5
    assert needed_order(Diagonal, 20, 100) == 3
    assert needed_order(Full, 1, 5) == 3
    assert not is_enough(Tied, 3, 6, 3)  # 83 moments, yet the means are not determined
    assert is_enough(Tied, 3, 6, 4)
    with pytest.raises(
        ValueError, match=r"order=3 is too low for 3 full components in 2 .*order=6"
    ):
        check_order(Full, 3, 2, 3)


def test_order_weights_of_normal_data(rng):
    w = sampling_weights(rng.normal(size=(200_000, 3)), None, 4)
    np.testing.assert_allclose(w, [1, 1, 1 / 2, 1 / 6, 1 / 24], rtol=0.05)
    heavy = sampling_weights(rng.standard_t(3, size=(50_000, 3)), None, 4)
    assert heavy[4] < 0.2 * w[4]


@pytest.mark.parametrize("name", POINTS)
def test_starts(name, rng):
    centres = 8 * rng.normal(size=(3, 4))
    X = np.concatenate([c + rng.normal(size=(300, 4)) for c in centres])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for weights in (None, np.full(len(X), 1 / len(X))):
        points = POINTS[name](X, weights, 3, rng)
        assert points.shape == (3, 4)
        assert np.all(np.isfinite(points))


@pytest.mark.parametrize("form", ["rows", "atoms", "moments"])
def test_spectral_start_points_at_the_means(form, rng):
    """Equal weights, directions of the centred means: the CP of the third moment."""
    means = 4 * np.eye(4)[:3]
    X = np.concatenate([m + 0.3 * rng.normal(size=(2000, 4)) for m in means])
    X = X - X.mean(axis=0)
    data = {
        "rows": lambda: AtomData.of_rows(X, None),
        "atoms": lambda: AtomData(mm.Samples(X, noise_covariance=0.01).atoms),
        "moments": lambda: TensorData(mm.MomentTensors.from_samples(X, 3)),
    }[form]()
    points = spectral_means(data, 3, rng)
    centred = means - means.mean(axis=0)
    cosine = (points @ centred.T) / (
        np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(centred, axis=1)
    )
    assert np.sum(cosine.max(axis=0) > 0.9) >= 2
