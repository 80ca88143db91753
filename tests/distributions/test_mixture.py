import json
from fractions import Fraction

import numpy as np
import pytest
import sklearn.mixture
from scipy import stats

import momentmix as mm
from momentmix.distributions.mixture import Background
from momentmix.files.models import FORMAT
from zoo import cases

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


def random_mixture(kind, n=3, m=4, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(m, n, n))
    full = L @ np.swapaxes(L, 1, 2) + 0.1 * np.eye(n)
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.1, 2, (m, n)),
        "spherical": rng.uniform(0.1, 2, m),
        "tied-diag": np.linspace(0.3, 0.9, n),
        "tied-spherical": np.array(0.6),
    }[kind]
    return mm.Mixture(rng.dirichlet(np.ones(m)), rng.normal(size=(m, n)), covariances, kind)


def matrices(mixture):
    """Covariance matrices without the help of the package."""
    m, n, C = mixture.n_components, mixture.n_features, mixture.covariances
    return {
        "full": lambda: C,
        "tied": lambda: np.broadcast_to(C, (m, n, n)),
        "diag": lambda: np.array([np.diag(c) for c in C]),
        "spherical": lambda: np.array([c * np.eye(n) for c in C]),
        "tied-diag": lambda: np.broadcast_to(np.diag(C), (m, n, n)),
        "tied-spherical": lambda: np.broadcast_to(C * np.eye(n), (m, n, n)),
    }[mixture.covariance_type]()


def converted(mixture, backend):
    parameters = (mixture.weights, mixture.means, mixture.covariances)
    return mm.Mixture(*map(backend.array, parameters), mixture.covariance_type)


def density(mixture, X):
    return sum(
        w * stats.multivariate_normal(mu, C).pdf(X)
        for w, mu, C in zip(mixture.weights, mixture.means, matrices(mixture), strict=True)
    )


@pytest.mark.parametrize("kind", TYPES)
def test_log_prob_is_scipys(kind, backend, rng):
    mixture, X = random_mixture(kind), 3 * rng.normal(size=(50, 3))
    got = converted(mixture, backend).log_prob(backend.array(X))
    assert backend.owns(got)
    np.testing.assert_allclose(backend.numpy(got), np.log(density(mixture, X)), rtol=1e-11)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_log_prob_is_sklearns(kind, rng):
    X = rng.normal(size=(200, 3))
    gm = sklearn.mixture.GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    mixture = mm.Mixture(gm.weights_, gm.means_, gm.covariances_, kind)
    np.testing.assert_allclose(mixture.log_prob(X), gm.score_samples(X), rtol=1e-10)


def test_log_prob_is_stable_far_away_and_far_from_the_origin():
    mixture = mm.Mixture([0.5, 0.5], [[1e8], [1e8 + 1]], [1e-2, 1e-2], "spherical")
    got = mixture.log_prob([[1e8 + 0.1], [1e8 + 1e6]])
    near = np.log(0.5) + stats.norm(1e8, 0.1).logpdf(1e8 + 0.1)
    far = np.log(0.5) + stats.norm(1e8 + 1, 0.1).logpdf(1e8 + 1e6)
    np.testing.assert_allclose(got, [near, far], rtol=1e-6)


def test_a_component_of_weight_zero_does_not_count(rng):
    X = rng.normal(size=(5, 2))
    one = mm.Mixture([1.0], [[0.0, 0.0]], [1.0], "spherical")
    two = mm.Mixture([1.0, 0.0], [[0.0, 0.0], [3.0, 3.0]], [1.0, 1.0], "spherical")
    np.testing.assert_allclose(two.log_prob(X), one.log_prob(X))


@pytest.mark.parametrize(
    ("kind", "covariances"),
    [
        ("full", [np.eye(2), np.ones((2, 2))]),
        ("diag", [[1.0, 1.0], [1.0, 0.0]]),
        ("spherical", [1.0, 0.0]),
    ],
)
def test_degenerate_components_are_named(kind, covariances):
    mixture = mm.Mixture([0.5, 0.5], np.zeros((2, 2)), covariances, kind)
    with pytest.raises(ValueError, match=r"component\(s\) 1 is singular"):
        mixture.log_prob(np.zeros((1, 2)))


@pytest.mark.parametrize("kind", TYPES)
def test_sample_follows_the_mixture(kind):
    mixture = random_mixture(kind)
    X, labels = mixture.sample(100_000, random_state=3)
    counts = np.bincount(labels, minlength=4)
    assert stats.chisquare(counts, mixture.weights * len(X)).pvalue > 1e-4
    for j, C in enumerate(matrices(mixture)):
        Z = np.linalg.solve(np.linalg.cholesky(C), (X[labels == j] - mixture.means[j]).T)
        assert stats.kstest(Z.ravel(), "norm").pvalue > 1e-4
        assert np.abs(np.corrcoef(Z) - np.eye(3)).max() < 6 / np.sqrt(counts[j])


def test_sample_of_degenerate_components():
    mixture = mm.Mixture([0.5, 0.5], [[1.0, 2.0], [0.0, 0.0]], [np.zeros((2, 2)), np.ones((2, 2))])
    X, labels = mixture.sample(1000, 0)
    np.testing.assert_array_equal(X[labels == 0], np.tile([1.0, 2.0], (np.sum(labels == 0), 1)))
    np.testing.assert_allclose(X[labels == 1, 0], X[labels == 1, 1], atol=1e-12)


def test_sample_is_the_same_in_every_library(backend):
    mixture = random_mixture("full")
    X, labels = converted(mixture, backend).sample(20, 1)
    assert backend.owns(X)
    np.testing.assert_array_equal(backend.numpy(X), mixture.sample(20, 1)[0])
    np.testing.assert_array_equal(backend.numpy(labels), mixture.sample(20, 1)[1])


@pytest.mark.parametrize(
    "seed", [0, np.random.default_rng(0), np.random.RandomState(0), None], ids=type
)
def test_kinds_of_random_state(seed):
    assert random_mixture("diag").sample(3, seed)[0].shape == (3, 3)


@pytest.mark.parametrize("kind", TYPES)
def test_marginal(kind, backend, rng):
    mixture = random_mixture(kind)
    for features, kept in [([2, 0], [2, 0]), (1, [1]), (slice(1, 3), [1, 2]), ([-1], [2])]:
        part = converted(mixture, backend).marginal(features)
        C = matrices(mixture)[:, kept][:, :, kept]
        X = rng.normal(size=(6, len(kept)))
        want = sum(
            w * stats.multivariate_normal(mu[kept], c).pdf(X)
            for w, mu, c in zip(mixture.weights, mixture.means, C, strict=True)
        )
        got = backend.numpy(part.log_prob(backend.array(X)))
        np.testing.assert_allclose(got, np.log(want), rtol=1e-10)
        assert part.covariance_type == kind
    assert mixture.marginal([True, False, True]).n_features == 2


@pytest.mark.parametrize("kind", TYPES)
def test_condition_is_joint_over_marginal(kind, backend, rng):
    mixture, given, values = random_mixture(kind), [2, 0], np.array([0.3, -0.8])
    rest = converted(mixture, backend).condition(given, backend.array(values))
    x = rng.normal(size=(7, 1))
    X = np.column_stack([np.full(7, values[1]), x, np.full(7, values[0])])
    want = np.log(density(mixture, X)) - mixture.marginal(given).log_prob(values[None])
    np.testing.assert_allclose(backend.numpy(rest.log_prob(backend.array(x))), want, rtol=1e-9)
    assert rest.covariance_type == kind


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_save_and_load_to_the_last_bit(kind, dtype, tmp_path):
    m = random_mixture(kind)
    parameters = [np.asarray(a, dtype=dtype) for a in (m.weights, m.means, m.covariances)]
    parameters[0] = np.array([0.5, 0.25, 0.125, 0.125], dtype=dtype)
    mixture = mm.Mixture(*parameters, kind)
    mixture.save(tmp_path / "model.json")
    again = mm.Mixture.load(tmp_path / "model.json")
    for name in ("weights", "means", "covariances"):
        a, b = getattr(mixture, name), getattr(again, name)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert again.covariance_type == kind
    assert [f.name for f in tmp_path.iterdir()] == ["model.json"]


def good_file():
    return {
        "format": FORMAT,
        "version": 1,
        "covariance_type": "spherical",
        "dtype": "float64",
        "weights": [1.0],
        "means": [[0.0, 1.0]],
        "covariances": [1.0],
    }


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": "pickle"}, "does not say"),
        ({"version": 2}, "version is 2, this release reads version 1"),
        ({"extra": 1}, "keys missing or unknown"),
        ({"weights": None}, "something else than numbers"),
        ({"weights": ["1.0"]}, "something else than numbers"),
        ({"weights": [True]}, "something else than numbers"),
        ({"means": [[0.0], [1.0, 2.0]]}, "not a momentmix model"),
        ({"weights": [0.5]}, "sum to 1"),
        ({"weights": [1e400]}, "finite"),
        ({"weights": [10**400]}, "not a momentmix model"),
        ({"covariances": [-1.0]}, "negative"),
        ({"covariance_type": "__class__"}, "covariance_type"),
        ({"dtype": "object"}, "dtype"),
    ],
)
def test_load_refuses(change, match, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**good_file(), **change}).replace("Infinity", "1e400"))
    with pytest.raises(ValueError, match=match):
        mm.Mixture.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x80\x04\x95",
        b"[" * 100_000,
        b'{"format": NaN}',
        b"[1, 2]",
        json.dumps(good_file()).encode()[:-40],
        json.dumps(good_file()).replace("{", '{"version": 1, ', 1).encode(),
    ],
)
def test_load_refuses_what_is_not_a_model(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.json is not a momentmix model"):
        mm.Mixture.load(path)


def test_load_of_a_good_file(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(good_file()))
    assert mm.Mixture.load(path).n_features == 2


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    random_mixture("diag").save(path)
    before = path.read_bytes()
    monkeypatch.setattr(json, "dumps", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        random_mixture("full").save(path)
    assert path.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["model.json"]


def test_immutable():
    weights = np.array([0.5, 0.5])
    mixture = mm.Mixture(weights, np.zeros((2, 2)), [1.0, 1.0], "spherical")
    weights[0] = 9
    assert mixture.weights[0] == 0.5
    for name in ("weights", "means", "covariances"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mixture, name)[...] = 0
        with pytest.raises(AttributeError):
            setattr(mixture, name, None)


def test_printing():
    assert "4 components, 3 features, full, float64" in repr(random_mixture("full"))
    many = mm.Mixture(np.full(20, 0.05), np.zeros((20, 50)), np.ones(20), "spherical")
    assert "10 more" in repr(many)
    assert len(repr(many).splitlines()) < 15
    html = many._repr_html_()
    assert html.count("<tr>") == 12
    assert "20 components" in html


def test_every_library_prints(backend):
    assert "2 features" in repr(cases()["full"].build(backend.array))
    assert "2" in repr(cases()["noise-matrix"].build(backend.array))


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_condition_on_whole_numbers(kind):
    """Of float32 in PyTorch, which mixes no dtypes of itself."""
    torch = pytest.importorskip("torch")
    covariances = {"full": np.stack([np.eye(2)] * 2), "tied": np.eye(2),
                   "diag": np.ones((2, 2)), "spherical": np.ones(2),
                   "tied-diag": np.ones(2), "tied-spherical": np.array(1.0)}[kind]  # fmt: skip
    parts = [np.array([0.5, 0.5]), np.array([[0.0, 1], [2, 3]]), covariances]
    mixture = mm.Mixture(*(torch.tensor(x, dtype=torch.float32) for x in parts), kind)
    given = mixture.condition([0], torch.tensor([1]))
    assert given.means.dtype == torch.float32
    np.testing.assert_allclose(given.means.numpy(), [[1.0], [3.0]], atol=1e-6)


@pytest.mark.parametrize("value", [40.0, 1e20, 1e160, -1e160, 1e300, -1e308, 1.7e308])
@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_conditioning_far_out(value, kind, backend):
    """The weights against rational numbers, whose exponents have no bounds."""
    shares, means, variances = (0.4, 0.5, 0.1), (0.0, 3.0, 1.0), (1.0, 2.0, 3.0)
    covariances = {
        "full": [v * np.eye(2) for v in variances],
        "diag": [[v, v] for v in variances],
        "spherical": variances,
    }[kind]
    given = (backend.array(np.array(a)) for a in (shares, [[m, m] for m in means], covariances))
    found = mm.Mixture(*given, kind).condition([0], backend.array([value]))
    logs = [
        Fraction(np.log(w) - np.log(v) / 2) - (Fraction(value) - Fraction(m)) ** 2 / Fraction(v) / 2
        for w, m, v in zip(shares, means, variances, strict=True)
    ]
    want = np.exp([float(max(x - max(logs), -(10**4))) for x in logs])
    np.testing.assert_allclose(backend.numpy(found.weights), want / want.sum(), rtol=1e-9)
    np.testing.assert_array_equal(backend.numpy(found.means)[:, 0], means)


def test_densities_are_zero_where_distances_overflow_both_ways(backend):
    matrix = np.array([[2.0, 0.9], [0.9, 1.0]])
    mixture = mm.Mixture(
        *(
            backend.array(np.array(a))
            for a in ([0.5, 0.5], [[0.0, 0], [1, 1]], [matrix, 2 * matrix])
        )
    )
    X = backend.array(np.array([[1.7e308, -1.7e308], [1.7e308, 1.7e308], [0.0, 0.0]]))
    assert np.isneginf(backend.numpy(mixture.log_prob(X))).tolist() == [True, True, False]
    assert backend.numpy(mixture.predict(X)).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_comparing_components_far_out(kind, backend):
    """Where covariances agree, however far x is, the rest decides; against rational numbers."""
    shares, means = (0.4, 0.5, 0.1, 0.0), np.array([[0.0, 0, 3], [1, 0, 3], [0, 4, 3], [0, 0, 3]])
    matrix = (
        np.array([[4.0, 2, 0], [2, 4, 0], [0, 0, 1]]) if kind in ("full", "tied") else np.eye(3)
    )
    covariances = {
        "full": np.stack([matrix] * 4),
        "tied": matrix,
        "diag": np.ones((4, 3)),
        "spherical": np.ones(4),
        "tied-diag": np.ones(3),
        "tied-spherical": np.array(1.0),
    }[kind]
    mixture = mm.Mixture(*(backend.array(np.array(a)) for a in (shares, means, covariances)), kind)
    X = np.array(
        [[0.5, 1.5, 7.0], [0.5, 1.5, 1e9], [0.25, 2, -1e20], [0.5, 1, 1e150], [1e25, 0, 1],
         [0.5, 1.5, 1.7e308], [1.7e308, -1.7e308, 3]]
    )  # fmt: skip
    precision = np.linalg.inv(matrix)
    want = np.zeros((len(X), 4))
    for i, x in enumerate(X):
        logs = []
        for share, mean in zip(shares[:3], means[:3], strict=True):
            away = [Fraction(a) - Fraction(b) for a, b in zip(x, mean, strict=True)]
            squares = sum(
                away[a] * Fraction(precision[a, b]) * away[b] for a in range(3) for b in range(3)
            )
            logs.append(Fraction(np.log(share)) - squares / 2)
        want[i, :3] = np.exp([float(max(each - max(logs), -(10**4))) for each in logs])
    want /= want.sum(axis=1, keepdims=True)
    found = backend.numpy(mixture.predict_proba(backend.array(X)))
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-300)
    labels = backend.numpy(mixture.predict(backend.array(X)))
    np.testing.assert_array_equal(labels, want.argmax(axis=1))
    for x, share in zip(X, want, strict=True):
        mixed = mm.Mixture(
            *(backend.array(a) for a in wider(shares, means, covariances, kind)), kind
        )
        given = mixed.condition([0, 1, 2], backend.array(x))
        np.testing.assert_allclose(backend.numpy(given.weights), share, rtol=1e-9, atol=1e-300)
    gaps = backend.array(np.column_stack([X, np.full(len(X), np.nan)]))
    found = backend.numpy(mixed.predict_proba(gaps))
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-300)


def wider(shares, means, covariances, kind):
    """The same mixture with one more feature of mean 0, independent of the others."""
    means = np.column_stack([means, np.zeros(len(means))])
    if kind in ("full", "tied"):
        more = np.zeros((*covariances.shape[:-2], 4, 4))
        more[..., :3, :3], more[..., 3, 3] = covariances, 1.0
        covariances = more
    elif kind == "diag":
        covariances = np.column_stack([covariances, np.ones(len(covariances))])
    elif kind == "tied-diag":
        covariances = np.append(covariances, 1.0)
    return np.array(shares), means, covariances


def test_conditioning_on_what_is_no_number():
    mixture = mm.Mixture([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], [[[1.0, 0.9], [0.9, 1.0]]] * 2)
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="values must be finite; leave out of features what"):
            mixture.condition([0], [value])
    wide = mm.Mixture([1.0], [[0.0, 0.0]], [[1e-4, 0.009], [0.009, 1.0]], "tied")
    with pytest.raises(ValueError, match="means given them overflow"):
        wide.condition([0], [1e308])


def test_no_rows(backend):
    for background in (None, Background(0.1, np.ones(2))):
        given = (backend.array(np.array(a)) for a in ([1.0], [[0.0, 1.0]], [[1.0, 2.0]]))
        mixture = mm.Mixture(*given, "diag", background=background)
        none = backend.array(np.empty((0, 2)))
        assert mixture.log_prob(none).shape == mixture.outlier_probability(none).shape == (0,)
        assert mixture.log_joint(none).shape == (*mixture.log_prob(none, 0.1).shape, 1) == (0, 1)
        assert mixture.impute(none).shape == mixture.denoise(none)[0].shape == (0, 2)
        assert mixture.impute(none, 3, random_state=0).shape == (3, 0, 2)
