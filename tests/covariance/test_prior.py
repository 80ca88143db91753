"""The prior on covariances: its formula, EM that never lowers it, and what it does to fits."""

import warnings
from unittest import mock

import numpy as np
import pytest
import sklearn.mixture
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import eigh, logm
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import gamma, invgamma, invwishart, ortho_group
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from likelihoods import row_likelihood
from momentmix import CollapseWarning, GaussianMixture, Mixture, SharedValueWarning
from momentmix.covariance import Diagonal, Full, Strengths, Tied, covariance_type
from momentmix.covariance.prior import SHARES, log_evidence
from momentmix.datasets import paper_mixture
from momentmix.fit import Fit, Parameters
from momentmix.fitting.em import from_responsibilities
from momentmix.matching.orders import customary_order
from momentmix.rows.frame import Frame
from momentmix.rows.screening import rounding_variances

pytestmark = pytest.mark.usefixtures("passes_everywhere")

FREE = ("full", "diag", "spherical")
TYPES = (*FREE, "tied", "tied-diag", "tied-spherical")
IRIS = load_iris().data


def covariances(kind, rng, m=3, n=3):
    L = rng.normal(size=(m, n, n))
    full = L @ L.swapaxes(1, 2) + 0.1 * np.eye(n)
    return {"full": full, "diag": rng.lognormal(size=(m, n)), "spherical": rng.lognormal(size=m)}[
        kind
    ]


def matrices(kind, array, n=3):
    return {
        "full": lambda: array,
        "diag": lambda: np.array([np.diag(a) for a in array]),
        "spherical": lambda: array[:, None, None] * np.eye(n),
    }[kind]()


def penalty(kind, array, strength, n=3):
    """By SciPy's matrix logarithm."""
    logs = np.array([logm(S).real for S in matrices(kind, array, n)])
    return strength / 4 * np.sum((logs - logs.mean(axis=0)) ** 2)


@pytest.mark.parametrize("kind", FREE)
def test_the_penalty_is_that_of_matrix_logarithms(kind, rng):
    array = covariances(kind, rng)
    prior = covariance_type(kind).prior(3, 7.0)
    np.testing.assert_allclose(prior.at(array).penalties.sum(), penalty(kind, array, 7.0))
    two = np.concatenate([array, 2 * covariances(kind, rng)])
    both = prior.at(two, groups=2).penalties.reshape(2, -1).sum(axis=1)
    np.testing.assert_allclose(both, [penalty(kind, part, 7.0) for part in np.split(two, 2)])


@pytest.mark.parametrize("kind", FREE)
def test_a_step_starts_uphill_as_finite_differences_say(kind, rng):
    """The slope of the M-step's objective along the step, by the penalty of matrix logarithms."""
    counts, nu = np.array([5.0, 40.0, 12.0]), 9.0
    scatter, at = covariances(kind, rng), covariances(kind, rng)
    target = covariance_type(kind).prior(3, nu).at(at).step(counts, scatter)
    C = matrices(kind, scatter)

    def objective(t):
        array = at + t * (target - at)
        value = -penalty(kind, array, nu)
        for k, S in enumerate(matrices(kind, array)):
            value -= counts[k] / 2 * (np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, C[k])))
        return value

    slope = (objective(1e-5) - objective(-1e-5)) / 2e-5
    assert slope > 0
    # With L held, the surrogate has the same gradient at the place itself, whose slope is known.
    held = covariance_type(kind).prior(3, nu).at(at)
    target = held.prior.about(held.centre[0]).at(at).step(counts, scatter)
    expected = 0.0
    for k, (S, T) in enumerate(zip(matrices(kind, at), matrices(kind, target), strict=True)):
        D = np.linalg.solve(S, T - S)
        expected += np.sum((counts[k] + _rows(kind, at, nu)[k]) * np.diag(D @ D)) / 2
    slope = (objective(1e-5) - objective(-1e-5)) / 2e-5
    np.testing.assert_allclose(slope, expected, rtol=1e-4)


def _rows(kind, array, nu):
    """Rows ν' that stand for the prior, entry by entry for variances."""
    logs = np.array([logm(S).real for S in matrices(kind, array)])
    away = logs - logs.mean(axis=0)
    if kind == "full":
        turned = [np.linalg.eigh(S)[1] for S in array]
        far = [np.max(np.diag(V.T @ A @ V)) for V, A in zip(turned, away, strict=True)]
        return nu * (1 + np.maximum(far, 0))
    return nu * (1 + np.maximum(np.diagonal(away, axis1=1, axis2=2), 0))


@pytest.mark.parametrize("kind", FREE)
def test_the_end_of_em_is_stationary(kind):
    """No small change of a covariance raises the penalised likelihood, by finite differences."""
    X = IRIS[::3, :2]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    own = covariance_type(kind)
    likelihood = row_likelihood(X, None, own, 1e-9, prior=own.prior(2, 10.0))
    R = np.eye(2)[(X[:, 0] > 0).astype(int)]
    fit = likelihood.fit(from_responsibilities(likelihood, R), tol=1e-14, max_iter=5000)
    weights, means, array = fit.parameters

    def worth(change):
        mixture = Mixture(weights, means, array + change, kind)
        own = penalty(kind, array + change, 10.0, n=2) / len(X)
        return float(np.mean(mixture.log_prob(X))) - own

    np.testing.assert_allclose(worth(0 * array), fit.log_posterior, rtol=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(4):
        change = rng.normal(size=array.shape) * 1e-4
        if kind == "full":
            change = (change + change.swapaxes(1, 2)) / 2
        assert abs(worth(change) - worth(-change)) / 2e-4 < 1e-4


rows_of = st.builds(
    lambda seed, p, n, style, decimals: _awkward(seed, p, n, style, decimals),
    st.integers(0, 10**6),
    st.integers(8, 60),
    st.integers(1, 3),
    st.sampled_from(["plain", "rounded", "repeated", "collinear", "outlier"]),
    st.integers(0, 1),
)


def _awkward(seed, p, n, style, decimals):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(p, n)) * rng.lognormal(0, 2, n) + rng.integers(0, 2, (p, 1)) * 3
    if style == "rounded":
        X = np.round(X, decimals)
    if style == "repeated":
        X = X[rng.integers(0, max(2, p // 4), p)]
    if style == "collinear" and n > 1:
        X[:, -1] = 2 * X[:, 0] - 1
    if style == "outlier":
        X[0] += 1e3
    return X


@settings(max_examples=60, deadline=None)
# The covariance is on its floor in two directions, and rounding decides what a step gains.
@example(
    X=_awkward(1, 8, 3, "repeated", 0), kind="tied", strength=0.0, diagonal=0.0, m=2, seed=1,
    weighted=True,
)  # fmt: skip
@given(
    X=rows_of,
    kind=st.sampled_from(TYPES),
    strength=st.sampled_from([0.0, 0.5, 5.0, 60.0]),
    diagonal=st.sampled_from([0.0, 5.0, 300.0]),
    m=st.integers(2, 4),
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
)
def test_em_never_lowers_the_penalised_likelihood(X, kind, strength, diagonal, m, seed, weighted):
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0, 1, len(X)) if weighted else np.ones(len(X))
    weights /= weights.sum()
    frame = Frame.of_samples(covariance_type(kind), X, weights)
    prior = covariance_type(kind).prior(X.shape[1], strength)
    if prior is not None and kind == "full":
        prior = prior.along(frame.factor).of_strengths(Strengths(strength, diagonal))
    floor = frame.bound(1e-6, rounding_variances(X))
    likelihood = row_likelihood(frame.apply(X), weights, covariance_type(kind), floor, prior=prior)
    start = from_responsibilities(likelihood, rng.dirichlet(np.ones(m), len(X)))
    start = likelihood.step(start).after
    log_posteriors = []
    # A component that is moved elsewhere may cost something.
    with mock.patch("momentmix.fitting.em.revive", lambda likelihood, at: at):
        for steps in (*range(1, 9), 24, 25, 26, 27, 28):
            log_posteriors.append(likelihood.fit(start, tol=0.0, max_iter=steps).log_posterior)
    assert np.all(np.diff(log_posteriors) >= -1e-9 * (1 + np.abs(log_posteriors[0])))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(TYPES))
def test_the_objective_moves_with_the_data(seed, kind):
    """Units, shifts, permutations of components, and rotations where the type allows them."""
    rng = np.random.default_rng(seed)
    n, m = 3, 3
    X = rng.normal(size=(40, n)) + rng.integers(0, 2, (40, 1)) * 2
    A = {
        "spherical": 3.7 * np.eye(n),
        "diag": np.diag(rng.lognormal(0, 3, n)),
        "full": ortho_group.rvs(n, random_state=rng) * rng.lognormal(0, 2),
    }["full" if kind == "tied" else kind.removeprefix("tied-")]
    R = rng.dirichlet(np.ones(m), len(X))

    def worth(X, R):
        frame = Frame.of_samples(covariance_type(kind), X, None)
        prior = covariance_type(kind).prior(n, 8.0)
        likelihood = row_likelihood(frame.apply(X), None, covariance_type(kind), 1e-9, prior=prior)
        start = from_responsibilities(likelihood, R)
        return likelihood.fit(start, tol=0.0, max_iter=6).log_posterior - frame.log_volume

    base = worth(X, R)
    moved = worth(X @ A + rng.normal(size=n) * 10, R) + np.linalg.slogdet(A)[1]
    np.testing.assert_allclose(moved, base, atol=1e-6)
    np.testing.assert_allclose(worth(X, R[:, rng.permutation(m)]), base, atol=1e-9)
    np.testing.assert_allclose(worth(X[::-1], R[::-1]), base, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(X=rows_of, kind=st.sampled_from(TYPES), prior=st.sampled_from(["auto", None]))
def test_no_component_on_the_floor_without_a_warning(X, kind, prior):
    """Of rounded, repeated, collinear or few rows; the floor by generalised eigenvalues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = GaussianMixture(3, covariance_type=kind, prior=prior, random_state=0).fit(X)
    total = np.cov(X.T, bias=True).reshape(X.shape[1], -1)
    if kind.endswith("diag"):  # what the type can see of it
        total = np.diag(np.diag(total))
    elif kind.endswith("spherical"):
        total = np.trace(total) / len(total) * np.eye(len(total))
    own = np.broadcast_to(fit.mixture_.atoms.covariance.matrices(), (3, *total.shape))
    scale = np.sqrt(np.where(np.diag(total) > 0, np.diag(total), 1.0))
    flat = []
    for k, S in enumerate(own):
        S, T = S / np.outer(scale, scale), total / np.outer(scale, scale)
        if eigh(T, eigvals_only=True)[0] > 1e-8 and eigh(S, T, eigvals_only=True)[0] < 0.9e-6:
            flat.append(k)
    assert set(flat) <= set(fit.collapsed_)
    told = [str(w.message) for w in caught if w.category is CollapseWarning]
    # Few rows under a prior are told too, but then the BIC keeps its meaning.
    assert any("BIC and AIC mean little" in words for words in told) == (len(fit.collapsed_) > 0)


def test_the_floor_is_the_best_covariance_above_it(rng):
    """log|S| + tr C S⁻¹ has its least value, of all S ⪰ F, where ``raise_to`` puts it."""
    C = np.diag([4.0, 1e-4, 0.5])
    L = rng.normal(size=(3, 3)) * 0.3
    F = L @ L.T + 0.05 * np.eye(3)
    S = Full.raise_to(C, F)
    assert np.linalg.eigvalsh(S - F)[0] > -1e-12
    assert Full.on_floor(S, F)[0]

    def cost(S):
        return np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, C))

    for _ in range(50):
        D = rng.normal(size=(3, 3)) * 0.1
        other = Full.raise_to(S + (D + D.T) / 2, F)
        assert cost(other) >= cost(S) - 1e-9


def test_what_the_strength_counts():
    """Near equality the penalty is that of so many rows with the common covariance."""
    for kind, n in (("full", 4), ("diag", 4), ("spherical", 4)):
        assert covariance_type(kind).customary_strength(1) == 2
        assert covariance_type(kind).customary_strength(n) == (11 if kind == "full" else 2)
    spread = 1e-3
    array = np.exp(np.array([[spread], [-spread]]))
    penalties = Diagonal.prior(1, 10.0).at(array).penalties
    # 10/2 (tr ΛΣ⁻¹ - log ΛΣ⁻¹ - 1), twice the Kullback–Leibler divergence of normal densities
    np.testing.assert_allclose(penalties, 5 * (np.exp(-spread) + spread - 1), rtol=1e-3)


def test_rounding_is_seen_in_units_of_the_column(rng):
    X = rng.normal(size=(400, 4)) * [1, 1, 10, 1]
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = rng.integers(0, 2, 400) / 3  # kinds, not measurements
    want = np.array([0, 0.1, 1, 0]) ** 2 / 12
    np.testing.assert_allclose(rounding_variances(X), want, rtol=1e-6)
    moved = (X - 3.3) * [1, 7.1, 1e-3, 1]
    np.testing.assert_allclose(rounding_variances(moved), want * [1, 7.1**2, 1e-6, 1], rtol=1e-4)
    np.testing.assert_array_equal(rounding_variances(np.ones((5, 2))), 0)
    # δ²/12 is the variance of what rounding takes away.
    fine = rng.normal(size=100_000) * 5
    np.testing.assert_allclose(np.var(fine - np.round(fine)), 1 / 12, rtol=0.02)


def test_a_component_is_no_narrower_than_rounding(rng):
    """Two clusters of ages; many share a year, on which the likelihood alone would sit."""
    ages = np.round(np.concatenate([rng.normal(30, 6, 300), rng.normal(50, 6, 300)]))[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = GaussianMixture(2, random_state=0).fit(ages)
    np.testing.assert_allclose(np.sort(fit.means_[:, 0]), [30, 50], atol=2.5)
    assert np.min(fit.covariances_) > 10
    spike = np.r_[np.full(200, 41.0), rng.normal(30, 6, 100).round()][:, None]
    with pytest.warns(SharedValueWarning, match="in column 0 a component has a single value"):
        fit = GaussianMixture(2, random_state=0).fit(spike)
    assert np.min(fit.covariances_) >= 1 / 12
    assert len(fit.collapsed_) == 0


def test_one_huge_column_leaves_the_others_as_they_are():
    stamps = 1.7e18 + 1e9 * np.arange(len(IRIS))[:, None]  # nanoseconds
    for column in (stamps, np.full((len(IRIS), 1), 1e16)):
        frame = Frame.of_samples(Diagonal, np.hstack([IRIS, column]), None)
        np.testing.assert_allclose(frame.scale[:4], IRIS.std(axis=0))


@pytest.fixture(scope="module")
def wine():
    return StandardScaler().fit_transform(load_wine().data), load_wine().target


def test_ordinary_tables_get_the_right_groups(wine):
    """The README's and the switching page's examples: no spikes, at least as good as EM."""
    for X, y in (wine, (IRIS, load_iris().target)):
        theirs = sklearn.mixture.GaussianMixture(3, n_init=10, random_state=0).fit(X)
        best = adjusted_rand_score(y, theirs.predict(X))
        for seed in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                fit = GaussianMixture(3, random_state=seed).fit(X)
            assert adjusted_rand_score(y, fit.predict(X)) >= best - 1e-9
            assert len(fit.collapsed_) == 0
            assert fit.prior_strength_ in (3 * X.shape[1] - 1) * SHARES
            np.testing.assert_allclose(fit.lower_bound_, fit.score(X), atol=1e-9)
            assert fit.log_posterior_ < fit.lower_bound_
            assert np.all(np.diff(fit.weights_) <= 1e-9)


def test_without_the_prior_the_likelihood_is_higher_and_says_so(wine):
    X, _ = wine
    held = GaussianMixture(3, random_state=0).fit(X)
    with pytest.warns(CollapseWarning, match=r"rests? on about .* rows"):
        free = GaussianMixture(3, prior=None, random_state=0).fit(X)
    assert free.lower_bound_ > held.lower_bound_
    assert free.log_posterior_ == free.lower_bound_
    assert free.prior_strength_ == 0


def test_cross_validation_chooses_a_strength_that_fits():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    alike = rng.normal(size=(60, 4)) + 4 * labels[:, None]
    fit = GaussianMixture(2, prior="cv", random_state=0).fit(alike)
    assert fit.prior_strength_ >= Full.customary_strength(4)
    unlike = rng.normal(size=(60, 4)) * np.where(labels, 0.01, 10.0)[:, None]
    fit = GaussianMixture(2, prior="cv", random_state=0).fit(unlike)
    assert fit.prior_strength_ < Full.customary_strength(4)


def highest(function, low, high):
    found = minimize_scalar(lambda x: -function(x), bounds=(low, high), options={"xatol": 1e-9})
    return -found.fun


def test_the_evidence_of_variances_is_an_integral():
    """Variances from an inverse gamma distribution, and scatter given each, integrated over it."""
    rows, scatter = np.array([3.0, 20.0, 7.5]), np.array([1.2, 30.0, 2.0])

    def value(d, log_scale):
        total = 0.0
        for f, w in zip(rows, scatter, strict=True):
            own = invgamma(d / 2, scale=np.exp(log_scale) / 2)
            density, _ = quad(
                lambda t, f=f, w=w, own=own: (
                    gamma.pdf(w, f / 2, scale=2 * np.exp(t)) * own.pdf(np.exp(t)) * np.exp(t)
                ),
                -12,
                12,
                epsabs=0,
                limit=200,
            )
            total += np.log(density)
        return total

    degrees = np.array([3.0, 5.0, 40.0])
    expected = np.array([highest(lambda u, d=d: value(d, u), -3, 8) for d in degrees])
    found = log_evidence(degrees, rows, scatter[:, None], 1)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-6)
    # Independent features, of which each has the same scatter, count as often as there are.
    twice = log_evidence(degrees, rows, np.repeat(scatter[:, None], 2, axis=1), 1)
    np.testing.assert_allclose(np.diff(twice), 2 * np.diff(expected), rtol=1e-6)


def test_the_evidence_of_matrices_is_a_mean_over_draws(rng):
    """Covariances drawn from an inverse Wishart distribution, and Wishart densities at each."""
    rows = np.array([4.0, 9.0])
    L = rng.normal(size=(2, 2, 2))
    scatter = rows[:, None, None] * (L @ L.swapaxes(1, 2) + 0.2 * np.eye(2))
    spectra = np.linalg.eigvalsh(scatter)

    def value(draws, log_scale):
        inverses, logs = draws
        total = 0.0
        for f, W in zip(rows, scatter, strict=True):
            traces = np.einsum("sij,ij->s", inverses, W) * np.exp(-log_scale)
            one = -traces / 2 - f / 2 * (logs + 2 * log_scale)
            total += one.max() + np.log(np.mean(np.exp(one - one.max())))
        return total

    degrees, expected = np.array([4.0, 8.0, 30.0]), []
    for d in degrees:
        drawn = invwishart(d, np.eye(2)).rvs(200_000, random_state=0)
        draws = np.linalg.inv(drawn), np.linalg.slogdet(drawn)[1]
        expected.append(highest(lambda u, draws=draws: value(draws, u), -3, 8))
    found = log_evidence(degrees, rows, spectra, 2)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=0.03)


@pytest.mark.parametrize("kind", FREE)
def test_a_fit_learns_how_alike_its_shapes_are(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    noise, usual = rng.normal(size=(400, 4)), covariance_type(kind).customary_strength(4)
    alike = noise + 8 * labels[:, None]
    unlike = noise * np.where(labels, 0.03, 30.0)[:, None]
    for X, share in ((alike, 16 * usual), (unlike, usual / 2)):
        fit = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
        assert fit.prior_strength_ >= share if share > usual else fit.prior_strength_ == share
        for same in (X * 1e3 - 7, X[::-1]):
            again = GaussianMixture(2, covariance_type=kind, random_state=0).fit(same)
            assert again.prior_strength_ == fit.prior_strength_
        few, weights = X[:60], rng.integers(1, 4, 60)
        counted, repeated = (
            GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows, sample_weight=w)
            for rows, w in ((few, weights), (np.repeat(few, weights, axis=0), None))
        )
        assert counted.prior_strength_ == repeated.prior_strength_
        np.testing.assert_allclose(counted.lower_bound_, repeated.lower_bound_, rtol=1e-6)
        # A given start learns too, and errors of the parameters are those of this fit.
        start = fit.weights_, fit.means_, fit.covariances_
        near = dict(zip(("weights_init", "means_init", "covariances_init"), start, strict=True))
        again = GaussianMixture(2, covariance_type=kind, **near).fit(X)
        assert again.prior_strength_ == fit.prior_strength_
        np.testing.assert_allclose(again.log_posterior_, fit.log_posterior_, atol=1e-5)
        assert np.all(np.isfinite(again.standard_errors(X).means))


def held_to_axes(rng, n=3, m=2):
    """A prior with both strengths in some coordinates, matrices there, and the same in X."""
    axes = rng.normal(size=(n, n))
    prior = Full.prior(n, 4.0).along(axes).of_strengths(Strengths(4.0, 7.0))
    array = covariances("full", rng, m, n)
    return prior, array, axes @ array @ axes.T


def test_the_second_penalty_is_that_of_the_best_diagonal(rng):
    """Of 7 rows with a diagonal covariance, which an optimiser looks for."""
    prior, array, in_features = held_to_axes(rng)
    expected = penalty("full", array, 4.0)
    for S in in_features:

        def cost(logs, S=S):
            D = np.exp(logs)
            return 3.5 * (np.trace(np.linalg.solve(S, np.diag(D))) + np.linalg.slogdet(S)[1]
                          - logs.sum() - 3)  # fmt: skip

        expected += minimize(cost, np.log(np.diag(S)), method="BFGS", options={"gtol": 1e-9}).fun
    np.testing.assert_allclose(prior.at(array).penalties.sum(), expected, rtol=1e-7)
    change = rng.normal(size=array.shape)
    change += change.swapaxes(1, 2)

    def value(t):
        return prior.at(array + t * change).penalties.sum()

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    np.testing.assert_allclose(np.sum(prior.at(array).gradients() * change), slope, rtol=1e-6)


def test_em_ends_where_both_penalties_and_the_likelihood_balance(rng):
    X = IRIS[::3] @ np.diag([1.0, 10, 0.1, 3])
    frame = Frame.of_samples(Full, X, None)
    prior = Full.prior(4, 10.0).along(frame.factor).of_strengths(Strengths(10.0, 40.0))
    likelihood = row_likelihood(frame.apply(X), None, Full, 1e-9, prior=prior)
    R = np.eye(2)[(X[:, 2] > X[:, 2].mean()).astype(int)]
    fit = likelihood.fit(from_responsibilities(likelihood, R), tol=1e-14, max_iter=5000)

    def worth(change):
        return likelihood.evaluate(Fit(fit.parameters._replace(covariances=array + change)))

    array = fit.parameters.covariances
    root = np.linalg.cholesky(array)
    for _ in range(4):
        change = rng.normal(size=array.shape) * 1e-4
        change = root @ (change + change.swapaxes(1, 2)) @ root.swapaxes(1, 2)
        slope = worth(change).log_posterior - worth(-change).log_posterior
        assert abs(slope) / 2e-4 < 1e-4
    # The value is that of the rows in other units and in another order of the columns.
    A = np.diag([2.0, 0.3, 7.0, 100.0])[[2, 0, 3, 1]]
    other = Frame.of_samples(Full, X @ A.T, None)
    moved = row_likelihood(other.apply(X @ A.T), None, Full, 1e-9, prior=prior.along(other.factor))
    again = moved.fit(from_responsibilities(moved, R), tol=1e-14, max_iter=5000)
    np.testing.assert_allclose(again.log_posterior, fit.log_posterior, rtol=1e-10)


def test_a_fit_learns_whether_features_depend_on_each_other(rng):
    """Balls that overlap in many columns are found; correlations turn with the rows."""
    labels = np.repeat([0, 1], 400)
    balls = (rng.normal(size=(800, 16)) + 0.8 * labels[:, None]) * rng.lognormal(0, 2, 16)
    fit = GaussianMixture(2, random_state=0).fit(balls)
    assert fit.diagonal_strength_ > 400
    plain = GaussianMixture(2, covariance_type="tied-diag", random_state=0).fit(balls)
    found, best = (adjusted_rand_score(labels, one.predict(balls)) for one in (fit, plain))
    assert found > best - 0.05 > 0.6
    assert np.all(np.isfinite(fit.standard_errors(balls).means))
    L = rng.normal(size=(2, 4, 4))
    related = np.einsum("pi,pij->pj", rng.normal(size=(800, 4)), L[labels]) + 6 * labels[:, None]
    turn = ortho_group.rvs(4, random_state=0)
    one, two = (GaussianMixture(2, random_state=0).fit(X) for X in (related, related @ turn))
    assert one.diagonal_strength_ == two.diagonal_strength_ == 0
    np.testing.assert_allclose(one.log_posterior_, two.log_posterior_, rtol=1e-6)


def test_gaps_and_backgrounds_learn_too():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 3)) + 8 * labels[:, None]
    usual = Full.customary_strength(3)
    gaps = np.where(rng.uniform(size=X.shape) < 0.1, np.nan, X)
    odd = np.concatenate([X, rng.uniform(-40, 40, (15, 3))])
    for rows, outliers in ((gaps, None), (odd, "auto")):
        fit = GaussianMixture(2, outliers=outliers, random_state=0).fit(rows)
        assert fit.prior_strength_ >= 8 * usual
        assert fit.diagonal_strength_ >= 4 * usual


def test_a_number_is_a_strength_and_bad_ones_are_refused():
    weak = GaussianMixture(3, prior=0.1, random_state=0).fit(IRIS)
    firm = GaussianMixture(3, prior=1e4, random_state=0).fit(IRIS)
    tied = GaussianMixture(3, covariance_type="tied", random_state=0).fit(IRIS)
    apart = [np.ptp(np.log(f.covariances_[:, 0, 0])) for f in (weak, firm)]
    assert apart[0] > 0.3
    assert apart[1] < 0.05
    np.testing.assert_allclose(firm.covariances_[0], tied.covariances_, rtol=0.3, atol=0.02)
    for bad in (-1, "strong"):
        with pytest.raises(ValueError, match="prior"):
            GaussianMixture(2, prior=bad).fit(IRIS)


def test_orders_that_auto_takes():
    assert customary_order(Full, 3, 10) == 4
    assert customary_order(Full, 3, 20) == 4
    assert customary_order(Full, 5, 5) == 6
    assert customary_order(Full, 5, 5, start=True) == 5
    assert customary_order(Full, 5, 10) == 5
    assert customary_order(Diagonal, 20, 100) == 3
    assert customary_order(Tied, 2, 10) == 5
    assert customary_order(Diagonal, 3, 5) == 5
    assert customary_order(Diagonal, 3, 10) == 4
    assert customary_order(Diagonal, 3, 10, start=True) == 3
    for kind in ("full", "tied"):
        for n in (1, 2, 5, 10, 30):
            assert customary_order(covariance_type(kind), 3, n) >= 4


def test_parameters_as_one_vector_go_there_and_back():
    from momentmix.fitting.em import _decode, _encode

    likelihood = row_likelihood(IRIS, None, Full, 1e-6)
    start = from_responsibilities(likelihood, np.eye(3)[load_iris().target])
    back = _decode(likelihood.target, _encode(start), start)
    assert isinstance(back, Parameters)
    for a, b in zip(start, back, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_eigenvalues_far_apart():
    """Fewer rows than features, on which LAPACK's fastest way to eigenvalues has failed."""
    X = paper_mixture(0.1, 0).sample(8000, 0)[0][:50]
    fit = GaussianMixture(2, max_iter=2000, random_state=24).fit(X)
    assert np.isfinite(fit.lower_bound_)
