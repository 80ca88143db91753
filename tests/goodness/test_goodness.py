"""Tests of fit: against textbook statistics, brute force, refits and the bootstrap."""

import itertools
import math
import signal

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy.integrate import quad
from scipy.stats import chi, kstest, norm

import momentmix as mm
from momentmix import GaussianMixture, Mixture, compare, moment_test
from momentmix.goodness.given import (
    FAR_OUT,
    drawn_in,
    excess,
    hermite_features,
    lengths,
    null_draws,
)
from momentmix.goodness.residuals import Explained, Refits, Standardised
from momentmix.plotting.diagnostics import distance_quantiles, projections
from momentmix.report.evidence import goodness_section
from momentmix.summary import FitSummary
from momentmix.summary.fit_summary import affordable_features
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import order_slice

TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")


def three(kind="full"):
    """Three components of two features, of any type."""
    full = np.array(
        [[[1.0, 0.4], [0.4, 0.7]], [[0.6, -0.2], [-0.2, 1.2]], [[0.8, 0.1], [0.1, 0.5]]]
    )
    covariances = {
        "full": full,
        "tied": full[0],
        "diag": np.array([[1.0, 0.7], [0.6, 1.2], [0.8, 0.5]]),
        "spherical": np.array([1.0, 0.6, 0.8]),
        "tied-diag": np.array([1.0, 0.7]),
        "tied-spherical": np.array(0.8),
    }
    means = [[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]]
    return Mixture([0.4, 0.35, 0.25], means, covariances[kind], kind)


def refitted(truth, X):
    """The fit that EM reaches from the truth."""
    return GaussianMixture(
        truth.n_components,
        covariance_type=truth.covariance_type,
        weights_init=truth.weights,
        means_init=truth.means,
        covariances_init=truth.covariances,
        prior=None,
        tol=1e-9,
        max_iter=1000,
    ).fit(X)


@pytest.fixture(scope="module")
def normal():
    """Rows of three components, their fit, and its test."""
    X, _ = three().sample(1200, random_state=4)
    fit = refitted(three(), X)
    return X, fit, moment_test(fit, X, random_state=0)


def one_gaussian(X):
    return Mixture([1.0], [X.mean(axis=0)], [np.cov(X.T, bias=True)])


def test_hermite_features_are_products_of_hermite_polynomials():
    Z = np.random.default_rng(0).normal(size=(7, 3))
    found = hermite_features(Z, 4)
    place = 0
    for k in range(5):
        for index in itertools.combinations_with_replacement(range(3), k):
            powers = [index.count(a) for a in range(3)]
            want = np.ones(7)
            for a, power in enumerate(powers):
                want = want * hermite_e.hermeval(Z[:, a], [0] * power + [1])
            want /= math.sqrt(math.prod(math.factorial(power) for power in powers))
            np.testing.assert_allclose(found[:, place], want, rtol=1e-12, atol=1e-12)
            place += 1
    assert found.shape == (7, place)


def radial_moment(n, power, reach):
    """E min(|x|, c)^power of x from N(0, I), by numerical integration."""
    inside = quad(lambda r: r**power * chi.pdf(r, n), 0, reach, epsabs=1e-13)[0]
    return inside + reach**power * chi.sf(reach, n)


def drawn_in_rows(Z):
    """Standard rows, those beyond the distance of one in a hundred put there, of variance 1."""
    n = Z.shape[1]
    reach = chi.isf(FAR_OUT, n)
    stretch = 1 / np.sqrt(radial_moment(n, 2, reach) / n)
    far = np.linalg.norm(Z, axis=1)[:, None]
    return np.where(far > reach, Z * reach / far, Z) * stretch


def test_one_component_is_mardias_test_of_rows_drawn_in():
    """Third and fourth moments of whitened rows by brute force, about what is expected of them."""
    X = np.random.default_rng(1).gamma(3, size=(150, 2)) @ [[1.0, 0.3], [0.0, 2.0]]
    found = moment_test(one_gaussian(X), X, estimated=False, random_state=0)
    L = np.linalg.cholesky(np.linalg.inv(np.cov(X.T, bias=True)))
    before = (X - X.mean(axis=0)) @ L
    Z, eye = drawn_in_rows(before), np.eye(2)
    assert np.sum(np.any(np.abs(Z - before) > 0.1, axis=1)) > 3
    third = np.einsum("pa,pb,pc->abc", Z, Z, Z) / 150
    for s in ("a,bc->abc", "b,ac->abc", "c,ab->abc"):
        third = third - np.einsum(s, Z.mean(axis=0), eye)
    assert found[3].statistic == pytest.approx(150 * np.sum(third**2) / 6, rel=1e-9)
    fourth = np.einsum("pa,pb,pc,pd->abcd", Z, Z, Z, Z) / 150
    second = Z.T @ Z / 150
    for s in ("ab,cd", "ac,bd", "ad,bc", "cd,ab", "bd,ac", "bc,ad"):
        fourth = fourth - np.einsum(f"{s}->abcd", second, eye)
    pairs = sum(np.einsum(s, eye, eye) for s in ("ab,cd->abcd", "ac,bd->abcd", "ad,bc->abcd"))
    reach = chi.isf(FAR_OUT, 2)
    share = radial_moment(2, 4, reach) / (radial_moment(2, 2, reach) / 2) ** 2 / (2 * 4)
    apart = fourth + pairs - (share - 1) * pairs  # E zzzz is this share of that of normal rows
    assert found[4].statistic == pytest.approx(150 * np.sum(apart**2) / 24, rel=1e-9)
    assert np.isnan(moment_test(one_gaussian(X), X, random_state=0).p_values[:2]).all()


@pytest.mark.parametrize(("n", "d"), [(1, 6), (2, 4), (4, 4)])
def test_what_is_expected_of_rows_drawn_in(n, d):
    """By a great many normal rows, with their plain polynomials taken off to steady the mean."""
    x = np.random.default_rng(17).standard_normal((400_000 // n, n))
    z = drawn_in_rows(x)
    reach, stretch, expected = drawn_in(n, d)
    assert np.linalg.norm(z, axis=1).max() == pytest.approx(reach * stretch, rel=1e-7)
    difference = hermite_features(z, d) - hermite_features(x, d)
    errors = difference.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(difference.mean(axis=0) - expected) <= 4.5 * errors + 1e-12)
    assert np.abs(expected[: order_slice(n, 2).stop]).max() < 1e-12
    assert n > 1 or abs(expected[4]) > 0.01


def test_absurd_rows_do_not_hide_what_else_is_wrong():
    """Five of them among 2,000 rows of three components, and a fit of one."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        means = 3 * np.array([[0.0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0]])
        X = means[rng.choice(3, 2000, p=[0.4, 0.35, 0.25])] + rng.standard_normal((2000, 5))
        X[:5] += rng.choice([-1, 1], size=(5, 5)) * rng.uniform(50, 200, size=(5, 1))
        found = moment_test(GaussianMixture(1).fit(X), X, n_boot=199, random_state=0)
        assert found.p_values[2:].tolist() == [0.005, 0.005]


def test_excess_is_mardias_kurtosis():
    X = np.random.default_rng(2).standard_t(6, size=(400, 3))
    mean = hermite_features(X, 4).mean(axis=0)
    squares = np.sum(X**2, axis=1)
    want = np.mean(squares**2 - 2 * (3 + 2) * squares + 3 * (3 + 2)) / np.sqrt(24)
    assert excess(mean, 3) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("kind", TYPES)
def test_features_have_mean_zero_under_the_mixture(kind):
    model = Standardised(three(kind), 4)
    h = model.features(model.draw(40_000, None, np.random.default_rng(3)))[:, 1:]
    assert np.max(np.abs(h.mean(axis=0)) / h.std(axis=0)) < 4.5 / np.sqrt(40_000)


def residual_covariance(model, rng, rows=40_000):
    """Of what one row contributes, under the mixture."""
    explained = Explained.by_parameters(model, None, rng)
    return np.cov(explained.residuals(model, model.draw(rows, None, rng)).T, bias=True)


def test_variances_of_residuals_are_those_of_refits_in_closed_form():
    """Diagonal covariance of one component: mean and variances are the fit.

    Of the polynomials of rows drawn in, that part is left out which the means and variances of rows
    drawn in explain.
    """
    rng, p, n = np.random.default_rng(5), 300, 2
    S = np.array([[1.0, 0.0], [0.0, 2.0]])
    X = rng.multivariate_normal(np.zeros(n), S, size=(4000, p))
    Z = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    features = hermite_features(drawn_in_rows(Z.reshape(-1, n)), 4)
    fresh = hermite_features(drawn_in_rows(rng.standard_normal((400_000, n))), 4)
    scores = [1, 2, 3, 5]  # z_a and z_a² - 1
    explained = np.linalg.lstsq(fresh[:, scores], fresh - fresh.mean(axis=0), rcond=None)[0]
    left = features - features[:, scores] @ explained
    want = p * left.reshape(4000, p, -1).mean(axis=1).var(axis=0)
    truth = Mixture([1.0], [[0.0, 0.0]], np.array([[1.0, 2.0]]), "diag")
    found = np.diag(residual_covariance(Standardised(truth, 4), rng))
    np.testing.assert_allclose(found[1:], want[1:], rtol=0.15, atol=1e-3)


def test_variances_of_residuals_are_those_of_refits_by_em():
    """Three overlapping components, order by order: traces of Monte Carlo over 250 refits."""
    truth, rng, p = three(), np.random.default_rng(6), 800
    refits = Refits(truth, 4, 0, None)
    refits._settings["prior"] = None
    statistics = refits.draws(np.zeros((p, 2)), p, 250, rng)
    covariance = residual_covariance(Standardised(truth, 4), rng)
    for k in (3, 4):
        want = np.mean(statistics[:, k])
        assert np.trace(covariance[order_slice(2, k), order_slice(2, k)]) == pytest.approx(
            want, rel=0.15
        )


def test_signs_give_the_quantiles_of_the_bootstrap(normal):
    X, fit, _ = normal
    rng = np.random.default_rng(7)
    refits = Refits(fit, 4, 0, None).draws(X, len(X), 250, rng)
    model = Standardised(fit.mixture_, 4)
    explained, here = Explained.by_parameters(model, None, rng), model.rows(X, rng)
    e = explained.residuals(model, here)
    draws = null_draws(lambda rows: e[rows], np.ones(len(X)), e.mean(axis=0), 2, 4, 2000, rng)
    for k in (3, 4):
        for share in (0.5, 0.9):
            assert np.quantile(draws[:, k], share) == pytest.approx(
                np.quantile(refits[:, k], share), rel=0.3
            )


def test_grouped_rows_have_the_same_null_distribution():
    """Of very many rows, sums of some with random signs take their place."""
    rng = np.random.default_rng(8)
    e = hermite_features(rng.standard_normal((30_000, 1)), 4)
    draws = null_draws(lambda rows: e[rows], np.ones(len(e)), e.mean(axis=0), 1, 4, 4000, rng)
    # Each order is one number with variance 1, so the statistic is chi-squared with one degree.
    assert np.mean(draws[:, 3] > 3.841) == pytest.approx(0.05, abs=0.02)
    assert np.mean(draws[:, 1]) == pytest.approx(1, abs=0.1)


def test_the_statistic_does_not_depend_on_which_good_estimate_is_tested(normal):
    X, fit, found = normal
    rng = np.random.default_rng(9)
    steps = rng.normal(size=(3, 2)) / np.sqrt(len(X))
    moved = Mixture(fit.weights_, fit.means_ + steps, fit.covariances_)
    near = moment_test(moved, X, random_state=0)
    plain = moment_test(moved, X, estimated=False, random_state=0)
    assert plain[1].statistic > 0.2
    assert near[1].statistic < 1e-9
    np.testing.assert_allclose(near.statistics[2:], found.statistics[2:], rtol=0.15)


def test_mixtures_that_fit_are_seldom_rejected():
    """Twelve tables with two tests each: one below 0.05 is to be expected, and four are not."""
    values = []
    for seed in range(12):
        X, _ = three().sample(1200, random_state=seed)
        found = moment_test(refitted(three(), X), X, n_boot=199, random_state=0)
        values += found.p_values[2:].tolist()
    assert np.sum(np.array(values) <= 0.05) <= 3
    assert 0.35 < np.mean(values) < 0.65


def test_a_mixture_that_fits_is_told_so(normal):
    found = normal[2]
    assert np.isnan(found.p_values[:2]).all()
    assert found[3].p_value > 0.05
    assert found[4].p_value > 0.01
    assert found.sentences[0] == (
        "First moments: the fit itself matches them, so there is nothing to test."
    )
    assert "no sign of skewness that the mixture misses" in found.sentences[2]
    assert repr(found).splitlines()[0] == "MomentTest(1,200 rows, 999 draws)"
    assert "<td>—</td>" in found._repr_html_()
    assert [test.order for test in found] == [1, 2, 3, 4]
    assert len(found) == 4


def test_orders_that_are_matched_follow_from_the_type(normal):
    X = normal[0]
    matched = {
        kind: np.isnan(moment_test(refitted(three(kind), X), X, random_state=0).p_values).tolist()
        for kind in TYPES
    }
    assert matched["full"] == matched["tied"] == [True, True, False, False]
    assert matched["diag"] == matched["spherical"] == [True, False, False, False]
    fresh = moment_test(three(), X, estimated=False, random_state=0)
    assert np.isfinite(fresh.p_values).all()


def test_skewness_tails_and_correlations_are_told_apart():
    rng, truth = np.random.default_rng(10), three()
    X, labels = truth.sample(900, random_state=1)
    centred = X - truth.means[labels]
    heavy = truth.means[labels] + centred / np.sqrt(rng.chisquare(5, 900) / 5)[:, None]
    found = moment_test(refitted(truth, heavy), heavy, random_state=0)
    assert found[3].p_value > 0.05
    assert found[4].p_value <= 0.02
    assert found.sentences[3].endswith("the data have heavier tails than the mixture.")
    light = truth.means[labels] + rng.uniform(-1.7, 1.7, size=X.shape)
    found = moment_test(refitted(truth, light), light, random_state=0)
    assert found.sentences[3].endswith("the data have lighter tails than the mixture.")
    skewed = truth.means[labels] + (rng.gamma(6, size=X.shape) - 6) / 2.5
    found = moment_test(refitted(truth, skewed), skewed, random_state=0)
    assert found[3].p_value == 0.001
    assert "skewed" in found.sentences[2]
    wrong = GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    found = moment_test(wrong, X, random_state=0)
    assert found[2].p_value == 0.001
    assert found[3].p_value > 0.01


def test_linear_maps_change_nothing(normal):
    X, fit, found = normal
    A, b = np.array([[3.0, -1.0], [0.5, 40.0]]), np.array([100.0, -7.0])
    mapped = Mixture(fit.weights_, fit.means_ @ A.T + b, A @ fit.covariances_ @ A.T)
    again = moment_test(mapped, X @ A.T + b, random_state=0)
    # What the parameters explain is found from rows drawn from each, and so agrees about.
    np.testing.assert_allclose(again.statistics[2:], found.statistics[2:], rtol=0.01)
    found = moment_test(fit.mixture_, X, estimated=False, random_state=0)
    again = moment_test(mapped, X @ A.T + b, estimated=False, random_state=0)
    np.testing.assert_allclose(again.statistics, found.statistics, rtol=1e-6, atol=1e-12)


def test_a_weight_is_so_many_rows():
    X, _ = three().sample(60, random_state=2)
    counts = np.arange(60) % 3
    repeated = moment_test(three(), np.repeat(X, counts, axis=0), estimated=False, random_state=0)
    found = moment_test(three(), X, estimated=False, sample_weight=counts, random_state=0)
    np.testing.assert_allclose(found.statistics, repeated.statistics)
    np.testing.assert_allclose(found.p_values, repeated.p_values, atol=0.06)
    assert found.rows == "60 rows"


def test_rows_with_gaps():
    """A fit that is right is left alone, and skewness is still found."""
    rng, truth = np.random.default_rng(11), three()
    X, labels = truth.sample(800, random_state=3)
    gaps = rng.random(X.shape) < 0.15
    X[gaps] = np.nan
    found = moment_test(refitted(truth, X), X, random_state=0)
    assert np.isnan(found.p_values[:2]).all()
    assert np.all(found.p_values[2:] > 0.05)
    skewed = truth.means[labels] + (rng.gamma(4, size=X.shape) - 4) / 2
    skewed[gaps] = np.nan
    found = moment_test(refitted(truth, skewed), skewed, random_state=0)
    assert found[3].p_value <= 0.005
    by_refits = moment_test(refitted(truth, X), X, method="bootstrap", n_boot=29, random_state=0)
    assert by_refits[3].p_value > 0.05


def test_the_bootstrap_agrees_with_the_multipliers(normal):
    X, fit, found = normal
    by_refits = moment_test(fit, X, method="bootstrap", n_boot=59, random_state=0)
    assert np.isnan(by_refits.p_values[:2]).all()
    np.testing.assert_allclose(by_refits.statistics[2:], found.statistics[2:], rtol=0.02)
    np.testing.assert_allclose(by_refits.p_values[2:], found.p_values[2:], atol=0.2)
    again = moment_test(fit, X, method="bootstrap", n_boot=59, random_state=0, n_jobs=1)
    np.testing.assert_array_equal(again.p_values, by_refits.p_values)


def test_ctrl_c_keeps_what_the_bootstrap_has(normal, monkeypatch):
    X, fit, _ = normal
    refits, own, calls = Refits(fit, 3, 0, 1), Refits.residual, []

    def interrupted(self, *arguments):
        calls.append(0)
        if len(calls) > enough:
            signal.raise_signal(signal.SIGINT)
        return own(self, *arguments)

    monkeypatch.setattr(Refits, "residual", interrupted)
    enough = 20
    assert refits.draws(X, 200, 50, np.random.default_rng(0)).shape == (20, 4)
    calls.clear()
    enough = 3
    with pytest.raises(KeyboardInterrupt):
        refits.draws(X, 200, 50, np.random.default_rng(0))


def test_compare_is_a_loop_over_permutations():
    """Dense tensors of whitened rows, those far out pulled in, one permutation after the other."""
    rng = np.random.default_rng(12)
    X, Y = rng.gamma(3, size=(30, 2)), rng.gamma(2, size=(20, 2))
    found = compare(X, Y, 3, permutations=60, random_state=0)
    Z, far = np.concatenate([X, Y]), np.full(50, 2.0)
    while far.max() >= 1.01:  # the 99 % point of the distance of a Gaussian in the plane
        Z = (Z - Z.mean(axis=0)) @ np.linalg.cholesky(np.linalg.inv(np.cov(Z.T, bias=True)))
        far = np.hypot(*Z.T) / np.sqrt(-2 * np.log(0.01))
        if far.max() >= 1.01:
            Z = Z / np.maximum(far, 1)[:, None]
    thirds = np.einsum("pa,pb,pc->pabc", Z, Z, Z)
    for s in ("a,bc", "b,ac", "c,ab"):
        thirds = thirds - np.einsum(f"p{s}->pabc", Z, np.eye(2))

    def statistic(chosen):
        apart = thirds[chosen].mean(axis=0) - thirds[~chosen].mean(axis=0)
        return 30 * 20 / 50 * np.sum(apart**2) / 6

    labels = np.arange(50) < 30
    assert found[3].statistic == pytest.approx(statistic(labels), rel=1e-9)
    generator = mm.support.checks.generator(0)
    dealt = generator.permuted(np.tile(labels, (60, 1)), axis=1)
    above = sum(statistic(row) >= statistic(labels) for row in dealt)
    assert found[3].p_value == (1 + above) / 61
    assert repr(found).startswith(
        "Comparison(30 and 20 rows, 60 draws)\n  order  statistic  p-value"
    )


def test_compare_tells_what_differs():
    rng = np.random.default_rng(15)
    X, Y = rng.standard_normal((400, 2)), rng.standard_normal((300, 2))
    same = compare(X, Y, random_state=0)
    assert np.all(same.p_values > 0.05)
    assert same.sentences[0].endswith("no sign that the tables differ in their means.")
    moved = compare(X, Y + np.array([0.4, 0.0]), random_state=0)
    assert moved[1].p_value == 0.001
    heavy = compare(X, rng.standard_t(4, size=(300, 2)) / np.sqrt(2), random_state=0)
    assert heavy[1].p_value > 0.05
    assert heavy[4].p_value < 0.05


@pytest.mark.parametrize("size", [1e2, 1e4, 1e9])
def test_a_handful_of_rows_far_out_hide_no_difference(size):
    """In both tables; and in one they make no difference where there is none."""
    rng = np.random.default_rng(15)
    X, Y = rng.standard_normal((2, 400, 2))
    Y += [0.4, 0.0]
    X[:4], Y[:4] = size * rng.standard_normal((2, 4, 2))
    assert compare(X, Y, 2, permutations=199, random_state=0)[1].p_value == 0.005
    same = compare(X, X[::-1].copy(), 2, permutations=99, random_state=0)
    assert np.all(same.p_values > 0.9)


def test_compare_with_a_mixture_is_a_test_of_new_rows(normal):
    X = normal[0]
    want = moment_test(three(), X, 3, estimated=False, n_boot=99, random_state=1)
    for pair in ((three(), X), (X, three())):
        found = compare(*pair, 3, permutations=99, random_state=1)
        np.testing.assert_array_equal(found.p_values, want.p_values)


def test_higher_orders_and_one_feature():
    X = np.random.default_rng(14).standard_normal((200, 1))
    found = moment_test(one_gaussian_1d(X), X, 6, random_state=0)
    assert found[6].sentence.startswith("Moments of order 6: p = ")
    assert lengths(np.ones(5), 1, 4).tolist() == [1, 1, 1, 1, 1]
    assert len(packed_indices(1, 6)) == 1


def one_gaussian_1d(X):
    return Mixture([1.0], [X.mean(axis=0)], [[[X.var()]]])


def test_errors_say_what_to_do(normal):
    X, fit, found = normal
    with pytest.raises(ValueError, match="call fit first"):
        moment_test(GaussianMixture(2), X)
    with pytest.raises(TypeError, match="MomentMixture, is needed, got list"):
        moment_test([1], X)
    with pytest.raises(ValueError, match=r"X has 3 feature\(s\), but the mixture has 2"):
        moment_test(fit, np.zeros((20, 3)))
    with pytest.raises(ValueError, match="at least 8 rows, got 5"):
        moment_test(fit, X[:5])
    with pytest.raises(ValueError, match="infinity"):
        moment_test(fit, np.full((20, 2), np.inf))
    with pytest.raises(ValueError, match="sample_weight must be 1200 numbers"):
        moment_test(fit, X, sample_weight=-np.ones(1200))
    with pytest.raises(ValueError, match="method must be one of"):
        moment_test(fit, X, method="guess")
    with pytest.raises(ValueError, match="order must be a whole number"):
        moment_test(fit, X, 0)
    with pytest.raises(ValueError, match="up to order 20"):
        moment_test(fit, X, 21)
    with pytest.raises(ValueError, match="n_boot must be a whole number"):
        moment_test(fit, X, n_boot=0)
    with pytest.raises(ValueError, match="component 1 has no width"):
        moment_test(Mixture([0.5, 0.5], np.eye(2), [1.0, 0.0], "spherical"), X, estimated=False)
    with pytest.raises(KeyError, match="orders 1 to 4 were tested, got 5"):
        found[5]
    with pytest.raises(TypeError, match="two mixtures have no rows"):
        compare(three(), three())
    with pytest.raises(ValueError, match=r"X has 2 feature\(s\), but Y has 1"):
        compare(X, X[:, :1])
    with pytest.raises(ValueError, match="at least 8 rows of each, got 1200 and 3"):
        compare(X, X[:3])
    with pytest.raises(ValueError, match="Y must not hold NaN here"):
        compare(X, np.full((20, 2), np.nan))
    with pytest.raises(ValueError, match="permutations must be a whole number"):
        compare(X, X, permutations=0)


def test_distances_of_samples_are_chi_squared():
    """Against SciPy's distribution: overlapping components, rows counted by probability."""
    X, _ = three().sample(40_000, random_state=5)
    whole, each = distance_quantiles(three(), X)
    middle = (whole.expected > 0.3) & (whole.expected < 3)
    np.testing.assert_allclose(whole.found[middle], whole.expected[middle], rtol=0.02)
    assert len(each) == 3
    X, _ = three().sample(2000, random_state=8)
    whole, _ = distance_quantiles(three(), X)
    assert np.mean((whole.low <= whole.found) & (whole.found <= whole.high)) > 0.8
    with pytest.raises(ValueError, match=r"X has 3 feature\(s\)"):
        distance_quantiles(three(), np.zeros((9, 3)))


def test_projections_begin_with_the_worst():
    truth = three().named(["a", "b"])
    X, _ = truth.sample(3000, random_state=6)
    found = projections(truth, X, most=9)
    assert {one.name for one in found} == {"a", "b", "components' axis 1", "components' axis 2"}
    for one in found:
        # Kolmogorov's distance by its definition, on the rows themselves.
        assert one.distance < 1.63 / np.sqrt(3000)
        assert np.mean(one.quantiles.found - one.quantiles.expected) == pytest.approx(0, abs=0.15)
    X[:, 1] += 0.5
    gaps = np.where(np.arange(6000).reshape(3000, 2) % 11 == 0, np.nan, X)
    assert projections(truth, gaps, most=1)[0].name == "b"
    line = truth.marginal([1])

    def cdf(x):
        deviations = np.sqrt(line.covariances[:, 0, 0])
        return norm.cdf((x[:, None] - line.means[:, 0]) / deviations) @ line.weights

    assert projections(line, X[:, 1:])[0].distance == pytest.approx(
        kstest(X[:, 1], cdf).statistic, abs=1e-5
    )


def test_a_summary_tells_what_the_tests_have_found():
    rng = np.random.default_rng(16)
    X = rng.gamma(3, size=(600, 2))
    fit = GaussianMixture(1).fit(X)
    summary = FitSummary.from_estimator(fit, X)
    assert summary.tests[3].p_value < 0.01
    (remark,) = [one for one in summary.remarks if "does not fit well" in one]
    assert "skewness p = 0.002" in remark
    assert "They do not describe the rows well (skewness p = 0.002" in " ".join(summary.verdict)
    assert FitSummary(fit.mixture_, "few", X=X[:4]).tests is None
    assert FitSummary(fit.mixture_, "noisy", X=X, errors=np.ones_like(X)).tests is None
    assert FitSummary(fit.mixture_, "model").tests is None
    good = rng.standard_normal((6000, 2))
    summary = FitSummary.from_estimator(GaussianMixture(1).fit(good), good)
    assert summary.tests.rows == "5,000 rows"
    assert summary.remarks == []
    assert "find nothing that chance does not explain" in summary.verdict[-1]
    assert "matches" not in vars(summary)  # tests tell more, and moments of all rows take long
    assert "5,000 rows, drawn at random, are tested" in goodness_section(summary, "").html


SIZES = [
    (150, 4, 3, "full"),
    (630, 42, 3, "full"),
    (5000, 12, 3, "full"),
    (500, 600, 1, "diag"),
    (12, 20_000, 1, "diag"),
    (2000, 60, 40, "diag"),
    (10**6, 30, 8, "full"),
]


def wide(n, m, kind):
    """Standard components, of which nothing but their sizes matters."""
    covariances = np.ones((m, n)) if kind == "diag" else np.broadcast_to(np.eye(n), (m, n, n))
    means = 4.0 * np.arange(m)[:, None] * np.ones(n)
    return Mixture(np.full(m, 1 / m), means, covariances, kind)


@pytest.mark.parametrize(("p", "n", "m", "kind"), SIZES)
def test_tests_of_fit_cost_no_more_than_the_fit(p, n, m, kind):
    """Counted are the products of the three large matrix products, from sizes alone."""
    mixture = wide(n, m, kind)
    count = affordable_features(mixture, p)
    assert (count == n) == (n == 4)

    def products(n):
        of_one = n * (n + 1) // 2 if kind == "full" else n
        parameters = m - 1 + m * n + m * of_one
        moments = math.comb(n + 4, 4)
        drawn = max(10_000, 20 * parameters)
        rows = min(p, 5000)
        return drawn * parameters * (parameters + moments) + rows * moments * (parameters + 499)

    each = n * (n + 1) // 2 if kind == "full" else n
    search = 0 if m == 1 else 800 * min(p, 50_000) * (m - 1 + m * n + m * each)
    most = max(2.5e8, search)
    assert products(count) <= most
    assert count == n or count == 0 or products(count + 2) > min(most, 2e10) / 4


def test_some_columns_are_tested_where_all_would_take_long():
    rng = np.random.default_rng(18)
    X = rng.gamma(2, size=(600, 42))
    summary = FitSummary(wide(42, 1, "full"), "wide", X=X - X.mean(axis=0))
    count = affordable_features(summary.mixture, 600)
    some = np.sort(np.random.default_rng(0).choice(42, count, replace=False))
    want = moment_test(
        summary.mixture.marginal(some), summary.X[:, some], 4, n_boot=499, random_state=0
    )
    np.testing.assert_array_equal(summary.tests.p_values, want.p_values)
    assert summary.tests[3].p_value == 0.002
    assert summary.tests.rows == f"600 rows of {count} of the 42 columns"
    html = goodness_section(summary, "").html
    assert f"600 rows of {count} of the 42 columns, drawn at random, are tested" in html
    assert "moment_test" in html


def test_nothing_is_computed_where_the_fit_matches_all(monkeypatch):
    """Of a wide table only two orders are affordable, and a full covariance matches both."""
    X = np.random.default_rng(19).standard_normal((300, 42))
    monkeypatch.setattr(Explained, "by_parameters", None)
    found = moment_test(Mixture([1.0], [X.mean(axis=0)], [np.cov(X.T, bias=True)]), X)
    assert np.isnan(found.p_values).all()
    assert len(found) == 2


def test_too_many_moments_are_refused_at_once():
    """Of 2,100 features those of order 2 alone are 2.2 million; their indices would take 35 MB."""
    n = 2100
    wide = mm.Mixture([1.0], np.zeros((1, n)), np.ones((1, n)), "diag")
    with pytest.raises(ValueError, match=r"distinct moments; .* so take fewer features"):
        mm.moment_test(wide, np.random.default_rng(0).normal(size=(20, n)))
