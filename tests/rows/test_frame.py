import numpy as np
import pytest
from scipy import stats

import momentmix as mm
from momentmix.covariance import Diagonal, Full, Tied, covariance_type
from momentmix.fit import Parameters
from momentmix.matching.model import POINTS, spectral_means
from momentmix.matching.orders import check_order, is_enough, needed_order, sampling_weights
from momentmix.rows.data import AtomData, TensorData
from momentmix.rows.frame import Frame

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


def skewed(rng, p=500):
    """Rows whose features are far from each other in place and scale, and correlated."""
    return rng.normal(size=(p, 3)) @ rng.normal(size=(3, 3)) * [1, 100, 1e-3] + [5, -7, 1e3]


def components(kind, rng, m=2, n=3):
    """Parameters as a fit finds them in a frame: no two numbers alike."""
    A = rng.normal(size=(m, n, n))
    matrices = A @ A.swapaxes(1, 2) / n + 0.1 * np.eye(n)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": rng.uniform(0.2, 2, (m, n)),
        "spherical": rng.uniform(0.2, 2, m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
    }[kind]
    return Parameters(rng.dirichlet(np.ones(m)), rng.normal(size=(m, n)), covariances)


def matrices_of(kind, covariances, m, n):
    """The (m, n, n) matrices that covariances of a type stand for."""
    C = np.asarray(covariances)
    if kind in ("full", "tied"):
        return np.broadcast_to(C, (m, n, n))
    columns = C[:, None] if kind == "spherical" else C
    return np.broadcast_to(columns, (m, n))[:, :, None] * np.eye(n)


def scipy_log_density(kind, parameters, X):
    weights, means, covariances = parameters
    parts = [
        np.log(w) + stats.multivariate_normal(mu, C).logpdf(X)
        for w, mu, C in zip(
            weights, means, matrices_of(kind, covariances, *means.shape), strict=True
        )
    ]
    return np.logaddexp.reduce(parts, axis=0)


def assert_standard(kind, covariance):
    """What data in a frame of their own have for a covariance."""
    if kind in ("full", "tied"):
        np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-8)
    elif kind == "diag":
        np.testing.assert_allclose(np.diag(covariance), 1, rtol=1e-8)
    else:
        np.testing.assert_allclose(np.trace(covariance) / len(covariance), 1, rtol=1e-8)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_data_in_their_frame_have_mean_zero_and_variance_one(kind, weighted, rng):
    X = skewed(rng)
    weights = rng.dirichlet(np.ones(len(X))) if weighted else None
    frame = Frame.of_samples(covariance_type(kind), X, weights)
    Z = frame.apply(X)
    np.testing.assert_allclose(np.average(Z, axis=0, weights=weights), 0, atol=1e-8)
    assert_standard(kind, np.cov(Z.T, aweights=weights, bias=True))
    np.testing.assert_allclose(frame.restore(Z), X, rtol=1e-12, atol=1e-9)
    if kind.endswith(
        "diag"
    ):  # correlations are left alone, and so are shapes where there is one unit
        np.testing.assert_allclose(np.corrcoef(Z.T), np.corrcoef(X.T), atol=1e-6)
    elif kind.endswith("spherical"):
        np.testing.assert_allclose(Z * frame.scale, X - frame.centre, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_read_in_blocks(kind, rng):
    X = rng.normal(size=(700_000, 3)) * [1, 2, 3] + 1  # two blocks of 16 MB
    frame = Frame.of_samples(covariance_type(kind), X, None)
    assert_standard(kind, np.cov(frame.apply(X).T, bias=True))


@pytest.mark.parametrize("kind", TYPES)
def test_back_and_forward_undo_each_other(kind, rng):
    frame = Frame.of_samples(covariance_type(kind), skewed(rng), None)
    inside = components(kind, rng)
    outside = frame.back(inside)
    C, D = (matrices_of(kind, p.covariances, 2, 3) for p in (inside, outside))
    A = np.asarray(frame.scale)
    A = np.eye(3) * A if kind not in ("full", "tied") else A
    np.testing.assert_allclose(outside.means, frame.centre + inside.means @ A, rtol=1e-12)
    np.testing.assert_allclose(D, A.T @ C @ A, rtol=1e-9)
    for again, given in (
        (frame.forward(outside), inside),
        (frame.back(frame.forward(outside)), outside),
    ):
        for a, b in zip(again, given, strict=True):
            assert np.shape(a) == np.shape(b)
            np.testing.assert_allclose(a, b, rtol=1e-7)


@pytest.mark.parametrize("kind", TYPES)
def test_log_densities_differ_by_the_volume(kind, rng):
    """p(x) dx = p(z) dz, by scipy's densities; with ours beside them."""
    X = skewed(rng) * [1, 0.1, 100]  # scipy takes the scales of skewed for singular
    frame = Frame.of_samples(covariance_type(kind), X, None)
    inside = components(kind, rng)
    outside = frame.back(inside)
    there = scipy_log_density(kind, inside, frame.apply(X[:5]))
    here = scipy_log_density(kind, outside, X[:5])
    np.testing.assert_allclose(here, there - frame.log_volume, rtol=1e-6)
    np.testing.assert_allclose(mm.Mixture(*outside, kind).log_prob(X[:5]), here, rtol=1e-6)
    scale = np.eye(3) * frame.scale if kind not in ("full", "tied") else frame.scale
    np.testing.assert_allclose(frame.log_volume, np.linalg.slogdet(scale)[1], rtol=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_features_that_do_not_vary(kind, rng):
    """They get the unit of the others; those keep their own."""
    X = np.column_stack([3 * rng.normal(size=50), np.full(50, 0.1), np.zeros(50)])
    frame = Frame.of_samples(covariance_type(kind), X, None)
    Z = frame.apply(X)
    np.testing.assert_allclose(Z[:, 1:], 0, atol=1e-12)
    spread = X[:, 0].std()
    unit = spread / np.sqrt(3) if kind.endswith("spherical") else spread
    np.testing.assert_allclose(Z[:, 0].std(), spread / unit, rtol=1e-9)
    np.testing.assert_allclose(frame.log_volume, 3 * np.log(unit), rtol=1e-9)
    constant = Frame.of_samples(covariance_type(kind), np.full((5, 2), 7.1), None)
    np.testing.assert_allclose(constant.apply(np.full((5, 2), 8.1)), 1)
    assert constant.log_volume == 0


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_directions_that_do_not_vary(kind, rng):
    """A feature that is the sum of two others: whitened where there is extent, finite elsewhere."""
    X = rng.normal(size=(200, 2)) * [1, 50]
    X = np.column_stack([X, X.sum(axis=1)])
    frame = Frame.of_samples(covariance_type(kind), X, None)
    variances = np.linalg.eigvalsh(np.cov(frame.apply(X).T, bias=True))
    np.testing.assert_allclose(variances, [0, 1, 1], atol=1e-6)
    np.testing.assert_allclose(frame.restore(frame.apply(X)), X, atol=1e-9)
    assert np.isfinite(frame.log_volume)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("noise", [0.2, [0.2, 0.7], [[0.2, 0.1], [0.1, 0.3]]])
def test_a_distribution_in_its_frame(kind, noise, rng):
    """Mean zero and variance one, the noise that is taken out included."""
    noise = np.asarray(noise)
    rows = rng.normal(size=(40, 2)) @ [[1, 1], [0, 2]] * [1, 5] + 3
    Q = mm.Samples(rows, noise_covariance=noise)
    frame = Frame.of_atoms(covariance_type(kind), Q.atoms)
    N = noise if noise.ndim == 2 else noise * np.eye(2)
    want = np.cov(rows.T, bias=True) - N
    np.testing.assert_allclose(frame.centre, rows.mean(axis=0), rtol=1e-12)
    scale = np.eye(2) * frame.scale if kind not in ("full", "tied") else frame.scale
    inverse = np.linalg.inv(scale)
    assert_standard(kind, inverse.T @ want @ inverse)
    scaled = frame.apply_atoms(Q.atoms)
    np.testing.assert_allclose(scaled.means, (rows - frame.centre) @ inverse, atol=1e-10)
    np.testing.assert_allclose(
        np.broadcast_to(scaled.covariance.matrices(), (1, 2, 2))[0],
        -inverse.T @ N @ inverse,
        atol=1e-12,
    )
    one = Frame.of_atoms(Full, scaled)  # which sees the whole covariance
    np.testing.assert_allclose(one.centre, 0, atol=1e-12)
    assert_standard(kind, one.scale.T @ one.scale)


@pytest.mark.parametrize("kind", TYPES)
def test_bound(kind, rng):
    """``least`` in the frame and variances outside of it, as a covariance in the frame."""
    X = skewed(rng)
    frame = Frame.of_samples(covariance_type(kind), X, None)
    variances = np.array([1e-4, 3.0, 1e-9])
    assert frame.bound(0.5, np.zeros(3)) == 0.5
    bound = frame.bound(0.5, variances)
    # Noise of these variances added to the data adds this much in the frame.
    inverse = np.eye(3) * frame.inverse if kind not in ("full", "tied") else frame.inverse
    noise = inverse.T @ np.diag(variances) @ inverse
    want = {
        "full": noise,
        "tied": noise,
        "diag": np.diag(noise),
        "spherical": np.trace(noise) / 3,
        "tied-diag": np.diag(noise),
        "tied-spherical": np.trace(noise) / 3,
    }[kind]
    assert np.shape(bound) == np.shape(want)
    np.testing.assert_allclose(bound - 0.5 * (np.eye(3) if np.ndim(want) == 2 else 1), want,
                               rtol=1e-6, atol=1e-9)  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_about_the_origin(kind, rng):
    """One unit for all, of the same volume, and the origin kept."""
    frame = Frame.of_samples(covariance_type(kind), skewed(rng), None)
    plain = Frame.about_the_origin(covariance_type(kind), frame)
    X = rng.normal(size=(4, 3))
    np.testing.assert_allclose(plain.apply(X), X / plain.unit, rtol=1e-9)
    np.testing.assert_allclose(plain.log_volume, frame.log_volume, rtol=1e-9)
    np.testing.assert_allclose(plain.log_volume, 3 * np.log(plain.unit), rtol=1e-9)


def test_numbers_whose_squares_overflow():
    with pytest.raises(ValueError, match="rescale the features"):
        Frame.of_samples(Diagonal, np.array([[1e200], [-1e200]]), None)


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
