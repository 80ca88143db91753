"""Long streams: rows that fade, windows by subtraction, and drift away from a mixture."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from momentmix import (
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
    drift,
)
from momentmix.goodness.drifts import Orthonormal, orthonormal_rows
from momentmix.goodness.results import order_sentence
from momentmix.tensors.isserlis import moment_covariance


def two(n=2):
    """Two overlapping components with full covariances."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(2, n, n)) / np.sqrt(n)
    covariances = A @ A.swapaxes(1, 2) + 0.3 * np.eye(n)
    return Mixture([0.4, 0.6], 1.5 * rng.normal(size=(2, n)), covariances)


def assert_same_moments(a, b, tolerance=1e-12):
    """Counts and weights, and central moments in units of the deviation."""
    assert a.count == b.count
    np.testing.assert_allclose(a.weight, b.weight, rtol=tolerance)
    np.testing.assert_allclose(a.effective_count, b.effective_count, rtol=tolerance)
    deviation = np.sqrt(np.max(np.diag(b.covariance)))
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=tolerance * (1 + np.abs(b.mean).max()))
    for k in range(2, a.order + 1):
        here, there = (m.tensor(k, central=True) / deviation**k for m in (a, b))
        np.testing.assert_allclose(here, there, rtol=0, atol=tolerance * np.abs(there).max() * 10)


# Rows that fade


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    factor=st.floats(0.05, 1.0),
    level=st.sampled_from([0.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_decay_is_a_weight_of_the_age(sizes, factor, level, seed):
    rng = np.random.default_rng(seed)
    batches = [level + rng.normal(size=(p + 3, 2)) for p in sizes]
    moments = MomentTensors(2, 4)
    for X in batches:
        assert moments.decay(factor) is moments
        moments.update(X)
    ages = np.repeat(np.arange(len(batches))[::-1], [len(X) for X in batches])
    w = factor**ages
    weighted = MomentTensors.from_samples(np.concatenate(batches), 4, weights=w)
    assert_same_moments(moments, weighted, 1e-10 if level else 1e-12)
    np.testing.assert_allclose(moments.effective_count, w.sum() ** 2 / (w**2).sum(), rtol=1e-9)


def test_decay_changes_weights_and_nothing_else(tmp_path):
    X, _ = two().sample(100, 0)
    moments = MomentTensors.from_samples(X, 4)
    before = moments.tensor(4)
    assert moments.weight == moments.effective_count == moments.count == 100
    moments.decay(0.25)
    assert (moments.count, moments.weight, moments.effective_count) == (100, 25.0, 100.0)
    np.testing.assert_array_equal(moments.tensor(4), before)
    moments.update(X[:40])
    assert moments.effective_count == pytest.approx(65**2 / (100 / 16 + 40))
    moments.save(tmp_path / "m.npz")
    again = MomentTensors.load(tmp_path / "m.npz")
    assert (again.weight, again.effective_count) == (moments.weight, moments.effective_count)
    state = moments.state()
    del state["squares"]  # as in files of moments that were never weighted
    assert MomentTensors.from_state(state).effective_count == 140
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="factor must be a number from 0 to 1"):
            moments.decay(wrong)
    for wrong in (np.array(-1.0), np.array([1.0]), np.array(1), np.array(np.nan)):
        with pytest.raises(ValueError, match="squares of weights"):
            MomentTensors.from_state(state | {"squares": wrong})


def test_forgetting_all():
    X, _ = two().sample(50, 0)
    moments = MomentTensors.from_samples(1e6 + X, 3).decay(0.0)
    assert (moments.count, moments.weight, moments.effective_count) == (50, 0.0, 0.0)
    with pytest.raises(ValueError, match="only rows of weight zero"):
        moments.tensor(1)
    np.testing.assert_allclose(moments.update(X).mean, X.mean(axis=0), rtol=1e-9)


def test_equal_weights_are_worth_all_rows():
    X, _ = two().sample(7, 0)
    for weight in (0.1, 1 / 7, 3.0, 1e-200, 1e200):
        moments = MomentTensors.from_samples(X, 2, weights=np.full(7, weight))
        assert moments.effective_count == 7


@pytest.mark.parametrize("cuts", [[], [1], [500, 501, 900], list(range(50, 1000, 50))])
def test_half_lives_do_not_depend_on_the_batches(cuts):
    X, _ = two().sample(1000, 0)
    stream = MomentMixture(2, random_state=0)
    for part in np.split(X, cuts):
        assert stream.partial_fit(part, half_life=150) is stream
    w = 0.5 ** (np.arange(1000)[::-1] / 150)
    expected = MomentTensors.from_samples(X, stream.moments_.order, weights=w)
    assert_same_moments(stream.moments_, expected, 1e-11)
    if cuts:
        return
    fitted = MomentMixture(2, random_state=0).fit_moments(expected)
    np.testing.assert_allclose(stream.means_, fitted.means_, atol=1e-6)


def test_half_lives_weights_gaps_and_errors():
    X, _ = two().sample(400, 0)
    weights = np.random.default_rng(0).uniform(0.5, 2, 400)
    stream = MomentMixture(2)
    for half in (slice(0, 200), slice(200, 400)):
        stream.partial_fit(X[half], sample_weight=weights[half], half_life=100)
    w = weights * 0.5 ** (np.arange(400)[::-1] / 100)
    order = stream.moments_.order
    assert_same_moments(stream.moments_, MomentTensors.from_samples(X, order, weights=w), 1e-11)
    X[250, 1] = np.nan
    with_gaps = MomentMixture(2).partial_fit(X[:200], half_life=100)
    with_gaps.partial_fit(X[200:], half_life=100)
    w = 0.5 ** (np.arange(400)[::-1] / 100)
    expected = MomentTensors.from_samples(X, order, weights=w, missing="pairwise")
    np.testing.assert_allclose(with_gaps.moments_.tensor(3), expected.tensor(3), rtol=1e-9)
    before = with_gaps.moments_
    for wrong in (0, -5, np.nan, "100"):
        with pytest.raises(ValueError, match="half_life must be a positive number"):
            with_gaps.partial_fit(X, half_life=wrong)
    assert with_gaps.moments_ is before
    other = KnownCovarianceMixture(2, np.eye(2)).partial_fit(X[:200], half_life=50)
    assert other.moments_.effective_count < 200


def test_a_fading_stream_follows_a_change():
    """Plain batches stay between the mixtures; with a half-life the fit is at the last one."""
    before = Mixture([0.4, 0.6], [[0.0, 0.0], [5.0, 1.0]], [[1.0, 1.0], [1.0, 2.0]], "diag")
    after = Mixture(before.weights, before.means + np.array([0.0, 3.0]), before.covariances, "diag")
    options = {"covariance_type": "diag", "random_state": 0}
    plain, fading = MomentMixture(2, **options), MomentMixture(2, **options)
    for i in range(12):
        X, _ = (before if i < 6 else after).sample(1000, i)
        plain.partial_fit(X)
        fading.partial_fit(X, half_life=800)
    found, target = fading.mixture_.moment(1), after.moment(1)
    assert (
        np.linalg.norm(found - target)
        < 0.15
        < 1
        < np.linalg.norm(plain.mixture_.moment(1) - target)
    )
    # errors are those of the rows that still count
    worth = fading.moments_.effective_count
    assert worth == pytest.approx(2 * 800 / np.log(2), rel=1e-3)
    whole = MomentTensors.from_samples(after.sample(round(worth), 0)[0], fading.moments_.order)
    alike = MomentMixture(2, **options).fit_moments(whole)
    ratio = fading.standard_errors().weights / alike.standard_errors(whole).weights
    np.testing.assert_allclose(ratio, 1, rtol=0.3)


def test_half_lives_of_dask_batches():
    da = pytest.importorskip("dask.array")
    X, _ = two().sample(300, 0)
    stream = MomentMixture(2)
    for part in np.split(X, 3):
        stream.partial_fit(da.from_array(part, chunks=(40, 2)), half_life=100)
    w = np.repeat([0.25, 0.5, 1.0], 100)
    expected = MomentTensors.from_samples(X, stream.moments_.order, weights=w)
    assert_same_moments(stream.moments_, expected, 1e-11)


# Windows


@settings(max_examples=30, deadline=None)
@given(
    kept=st.integers(10, 60),
    gone=st.integers(0, 60),
    shift=st.sampled_from([0.0, 3.0, 50.0]),
    level=st.sampled_from([0.0, 1e5]),
    seed=st.integers(0, 99),
)
def test_subtraction_leaves_the_rest(kept, gone, shift, level, seed):
    rng = np.random.default_rng(seed)
    X, Y = level + rng.normal(size=(kept, 2)), level + shift + rng.normal(size=(gone, 2))
    w, v = rng.uniform(0.5, 2, kept), rng.uniform(0.5, 2, gone)
    a, b = MomentTensors.from_samples(X, 4, weights=w), MomentTensors(2, 4).update(Y, weights=v)
    rest = (a + b) - b
    # what leaves is larger by so many powers of its distance, and rounding of that stays behind
    assert_same_moments(rest, a, {0.0: 1e-11, 3.0: 1e-10, 50.0: 1e-6}[shift])
    assert ((a + b) - (b + a)).count == 0


def test_nothing_is_left_of_nothing():
    X, _ = two().sample(30, 0)
    a = MomentTensors.from_samples(1e6 + X, 4)
    nothing = a - a
    assert (nothing.count, nothing.weight, nothing.effective_count) == (0, 0.0, 0.0)
    np.testing.assert_array_equal(
        nothing.update(X).tensor(4), MomentTensors.from_samples(X, 4).tensor(4)
    )
    assert (a - MomentTensors(2, 4)).count == 30
    zero = MomentTensors.from_samples(X, 4, weights=np.zeros(30))
    rest = (a + zero) - a
    assert (rest.count, rest.weight) == (30, 0.0)


def test_subtraction_with_gaps_and_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    parts = [MomentTensors.from_samples(part, 3, missing="pairwise") for part in np.split(X, 4)]
    rest = sum(parts, MomentTensors(3, 3, missing="pairwise")) - parts[0]
    expected = MomentTensors.from_samples(X[20:], 3, missing="pairwise")
    np.testing.assert_allclose(rest.tensor(3), expected.tensor(3), atol=1e-12)
    np.testing.assert_allclose(rest.presence, expected.presence)
    named = MomentTensors(3, 3, feature_names=["a", "b", "c"]).update(np.ones((4, 3)))
    assert (named - named.copy()).feature_names == ("a", "b", "c")


def test_what_cannot_be_subtracted():
    X, _ = two().sample(30, 0)
    a, b = MomentTensors.from_samples(X[:20], 4), MomentTensors.from_samples(X, 4)
    with pytest.raises(ValueError, match="30 rows cannot be taken out of 20"):
        a - b
    for other in (
        MomentTensors(2, 3),
        MomentTensors(3, 4),
        MomentTensors(2, 4, missing="pairwise"),
    ):
        with pytest.raises(ValueError, match=r"cannot be taken out of .* other features or orders"):
            a - other
    with pytest.raises(TypeError):
        a - 1
    faded = b.copy().decay(0.5)
    with pytest.raises(
        ValueError, match=r"weight 20 cannot be taken out of .* weight 15; if these"
    ):
        faded - a
    assert_same_moments(
        faded - a.copy().decay(0.5), MomentTensors.from_samples(X[20:], 4).decay(0.5)
    )


@pytest.mark.parametrize(("level", "drift_by"), [(0.0, 0.0), (1e6, 0.0), (0.0, 0.05)])
def test_windows_of_many_steps(level, drift_by):
    """600 steps of window + new - oldest, against the batches added anew."""
    rng = np.random.default_rng(0)
    window, recent = MomentTensors(2, 4), deque()
    for i in range(600):
        recent.append(
            MomentTensors.from_samples(level + i * drift_by + rng.normal(size=(20, 2)), 4)
        )
        window = window + recent[-1]
        if len(recent) > 10:
            window = window - recent.popleft()
    assert_same_moments(window, sum(recent, MomentTensors(2, 4)), 1e-9)


# Drift


def test_drift_of_one_gaussian_by_hand():
    """Orders 1 and 2 of N(μ, Σ): Hotelling's T² with known Σ, and that of z zᵀ - 1."""
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    mixture = Mixture([1.0], [mean], [covariance])
    X = np.random.default_rng(0).multivariate_normal(mean + 0.1, covariance, size=200)
    found = drift(mixture, MomentTensors.from_samples(X, 4))
    Z = np.linalg.solve(np.linalg.cholesky(covariance), (X - mean).T).T
    first = 200 * np.sum(Z.mean(axis=0) ** 2)
    S = Z.T @ Z / 200 - np.eye(2)
    second = 200 * np.sum(S**2) / 2
    np.testing.assert_allclose([t.statistic for t in found.tests], [first, second], rtol=1e-8)
    np.testing.assert_allclose(found.statistic, first + second, rtol=1e-8)
    assert (found.moments, found.rows) == (5, 200.0)
    assert found.tests[0].p_value == pytest.approx(chi2.sf(first, 2), rel=0.05)
    z = (X[:, 1] - mean[1]) / np.sqrt(covariance[1, 1])
    alone = 200 * (z.mean() ** 2 + np.mean(z**2 - 1) ** 2 / 2)
    assert found.features[1].statistic == pytest.approx(alone, rel=1e-8)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_polynomials_are_orthonormal(order):
    """By draws from the mixture; and E‖φ‖² is their number."""
    X, _ = two().sample(200_000, 0)
    phi = Orthonormal(two(), order)
    sample = [phi.means(MomentTensors.from_samples(part, order)) for part in np.split(X, 1000)]
    errors = np.sqrt(200) * np.array(sample)
    np.testing.assert_allclose(errors.mean(axis=0), 0, atol=0.15)
    np.testing.assert_allclose(np.cov(errors.T), np.eye(len(phi.orders)), atol=0.1 * 2**order)


def p_values(truth, drawn_from, rows, count, order=2, seed=0, **options):
    rng = np.random.default_rng(seed)
    windows = (
        MomentTensors.from_samples(drawn_from.sample(rows, rng)[0], order) for _ in range(count)
    )
    return np.array([drift(truth, window, order, **options).p_value for window in windows])


@pytest.mark.parametrize(("n", "rows"), [(2, 60), (3, 300)])
def test_the_level_of_drift(n, rows):
    found = p_values(two(n), two(n), rows, 150)
    assert 0.01 < np.mean(found < 0.05) < 0.1
    assert 0.4 < np.mean(found) < 0.6


def test_the_power_of_drift():
    truth, rows = two(3), 400
    deviation = np.sqrt(np.diag(MomentTensors.from_samples(truth.sample(9999, 0)[0], 2).covariance))
    shifted = Mixture(truth.weights, truth.means + [0.25, 0, 0] * deviation, truth.covariances)
    reweighted = Mixture([0.55, 0.45], truth.means, truth.covariances)
    added = Mixture(
        [0.38, 0.57, 0.05],
        np.vstack([truth.means, truth.means[0] - [3, 0, 0] * deviation]),
        np.concatenate([truth.covariances, 0.3 * np.eye(3)[None]]),
    )
    for other in (shifted, reweighted, added):
        assert np.mean(p_values(truth, other, rows, 20) < 0.05) > 0.8
    result = drift(truth, MomentTensors.from_samples(shifted.sample(4000, 0)[0], 3), 3)
    assert result.sentence.endswith("most in feature 0, and most in their first moments.")
    wider = Mixture(truth.weights, truth.means, truth.covariances * [[[1.3]], [[1.3]]])
    result = drift(truth, MomentTensors.from_samples(wider.sample(4000, 0)[0], 3))
    assert result.sentence.endswith("second moments.")
    assert result.ratio > 5
    assert "order 2" in repr(result)
    assert result.tests[1].sentence.endswith("they have moved.")


def test_errors_of_the_fit_are_allowed_for():
    """The statistic shrinks by 1 + N / rows, and rows in plenty change nothing."""
    window = MomentTensors.from_samples(two().sample(500, 3)[0], 3)
    exact, half = drift(two(), window), drift(two(), window, fitted_rows=500)
    assert half.statistic == pytest.approx(exact.statistic / 2)
    assert drift(two(), window, fitted_rows=1e15).p_value == pytest.approx(exact.p_value)
    fit = MomentMixture(2, random_state=0).partial_fit(two().sample(2000, 0)[0])
    assert drift(fit, window, fitted_rows=2000).p_value > 0.01
    assert drift(fit, window).statistic == drift(fit.mixture_, window).statistic


def test_drift_does_not_depend_on_units_or_weights():
    X, _ = two().sample(300, 5)
    found = drift(two(), MomentTensors.from_samples(X, 3), 3)
    A, b = np.array([[1e3, 200.0], [0.0, 1e-2]]), np.array([1e5, -3.0])
    mapped = Mixture(two().weights, two().means @ A.T + b, A @ two().covariances @ A.T)
    other = drift(mapped, MomentTensors.from_samples(X @ A.T + b, 3), 3)
    np.testing.assert_allclose(
        [t.statistic for t in found.tests], [t.statistic for t in other.tests], rtol=1e-5
    )
    alike = drift(two(), MomentTensors.from_samples(X, 3).decay(0.3), 3)
    assert alike.statistic == pytest.approx(found.statistic)
    faded = MomentTensors.from_samples(X, 3, weights=0.99 ** np.arange(300.0))
    assert drift(two(), faded).rows == faded.effective_count < 210


def test_orders_that_follow_from_the_lower_ones():
    """Two points and no width: x² is linear in x, so order 2 has nothing to test."""
    covariance = moment_covariance(
        np.full(2, 0.5), np.array([[-1.0], [1.0]]), np.zeros((2, 1, 1)), 2
    )
    assert orthonormal_rows(covariance, 1, 2)[1].tolist() == [1]
    assert "nothing to test" in order_sentence(2, np.nan)


def test_what_drift_refuses():
    X, _ = two().sample(100, 0)
    window = MomentTensors.from_samples(X, 2)
    with pytest.raises(
        TypeError, match="window must be MomentTensors, got ndarray; make them from rows"
    ):
        drift(two(), X)
    with pytest.raises(TypeError, match=r"a Mixture.*is needed"):
        drift(window, window)
    with pytest.raises(ValueError, match=r"the window has 2 feature\(s\), but the mixture has 3"):
        drift(two(3), window)
    with pytest.raises(ValueError, match="moments up to order 2, not 3"):
        drift(two(), window, 3)
    with pytest.raises(ValueError, match="a whole number of at least 1, got 0"):
        drift(two(), window, 0)
    with pytest.raises(ValueError, match="fitted_rows must be a positive number, got 0"):
        drift(two(), window, fitted_rows=0)
    with pytest.raises(ValueError, match="at least 8 rows, and the window is worth 5"):
        drift(two(), MomentTensors.from_samples(X[:5], 2))
    X[3, 0] = np.nan
    gaps = MomentTensors.from_samples(X, 2, missing="pairwise")
    with pytest.raises(ValueError, match="have gaps"):
        drift(two(), gaps)
    wide = Mixture([1.0], np.zeros((1, 30)), np.ones((1, 30)), "diag")
    with pytest.raises(ValueError, match=r"has 5,455 moments; up to 2,000"):
        drift(
            wide, MomentTensors.from_samples(np.random.default_rng(0).normal(size=(50, 30)), 3), 3
        )
