"""How sure a fit is: against known formulas, refitted samples, and itself in other units."""

import signal

import dask.array as da
import numpy as np
import pytest

from momentmix import GaussianMixture, KnownCovarianceMixture, Mixture, MomentMixture, MomentTensors
from momentmix.rows.memory import MemoryRows
from momentmix.support.messages import UncertaintyWarning

KINDS = ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
TRUTH = Mixture([0.7, 0.3], [[0.0, 0.0], [9.0, 3.0]], [[1.0, 4.0], [2.0, 0.5]], "diag")


@pytest.fixture(scope="module")
def X():
    return np.asarray(TRUTH.sample(2000, 1)[0])


@pytest.fixture(scope="module")
def fits(X):
    return {
        kind: GaussianMixture(2, covariance_type=kind, random_state=0, n_jobs=1).fit(X)
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", ["observed", "opg", "sandwich"])
def test_far_components_have_the_errors_of_samples(X, fits, kind):
    """√(λ(1-λ)/p), √(σ²/n_k), σ²√(2/n_k): those of rows whose component is known."""
    gm = fits["diag"]
    found = gm.standard_errors(X, kind=kind)
    counts = 2000 * gm.weights_[:, None]
    np.testing.assert_allclose(found.weights, np.sqrt(0.21 / 2000), rtol=0.02)
    np.testing.assert_allclose(found.means, np.sqrt(gm.covariances_ / counts), rtol=0.03)
    expected = gm.covariances_ * np.sqrt(2 / counts)
    np.testing.assert_allclose(found.covariances, expected, rtol=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_the_covariance_of_all_errors(X, fits, kind):
    gm = fits[kind]
    V, names = gm.parameter_covariance(X), gm.parameter_names()
    assert V.shape == (len(names), len(names))
    assert len(set(names)) == len(names)
    errors = gm.standard_errors(X)
    np.testing.assert_allclose(np.sqrt(np.diag(V))[:2], errors.weights)
    np.testing.assert_allclose(np.sqrt(np.diag(V))[2:6], errors.means.ravel())
    assert errors.covariances.shape == gm.covariances_.shape
    entries = np.sqrt(np.diag(V))[6:]
    assert set(np.round(entries, 12)) == set(np.round(errors.covariances.ravel(), 12))
    np.testing.assert_allclose(V[:2, :2].sum(axis=0), 0, atol=1e-15)
    low, high = gm.confidence_intervals(X, level=0.9)
    for ends, fitted in ((low, np.less), (high, np.greater)):
        assert np.all(fitted(ends.weights, gm.weights_))
        assert np.all(fitted(ends.means, gm.means_))
        assert np.all(fitted(ends.covariances, gm.covariances_))


def test_units(X, fits):
    """Of aX + b all errors are those of X in other units."""
    a = np.array([100.0, 0.01])
    there = GaussianMixture(2, random_state=0).fit(X * a + 7)
    one, other = fits["full"].standard_errors(X), there.standard_errors(X * a + 7)
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-6)
    np.testing.assert_allclose(other.means, one.means * a, rtol=1e-6)
    np.testing.assert_allclose(other.covariances, one.covariances * np.outer(a, a), rtol=1e-4)


def test_weights_count_rows(X, fits):
    gm, counts = fits["full"], np.full(len(X), 3.0)
    heavy = gm.standard_errors(X, sample_weight=counts)
    three = gm.standard_errors(np.tile(X, (3, 1)))
    np.testing.assert_allclose(heavy.means, three.means, rtol=1e-9)
    # The prior weighs less beside more rows, so this is not exact.
    np.testing.assert_allclose(heavy.means * np.sqrt(3), gm.standard_errors(X).means, rtol=1e-2)


def test_a_cluster_has_the_errors_of_rows_in_memory(X, fits):
    far = da.from_array(X, chunks=(500, 2))
    one, other = fits["full"].standard_errors(X), fits["full"].standard_errors(far)
    np.testing.assert_allclose(other.covariances, one.covariances, rtol=1e-8)


def test_gaps_and_noise_make_it_less_sure(X, fits, rng):
    gm = fits["full"]
    whole = gm.standard_errors(X)
    seen = np.where(rng.uniform(size=X.shape) < 0.4, np.nan, X)
    seen = seen[~np.isnan(seen).all(axis=1)]
    assert np.all(gm.standard_errors(seen).means > whole.means)
    km = GaussianMixture(2, random_state=0).fit(X, noise_covariance=0.2)
    noisy = km.standard_errors(X, noise_covariance=0.2)
    expected = (km.covariances_[0].diagonal() + 0.2) / (2000 * km.weights_[0])
    np.testing.assert_allclose(noisy.means[0] ** 2, expected, rtol=0.03)


def test_what_was_chosen_by_the_rows_is_known(X, fits):
    """With "auto" the errors are those of the number and the type that were found."""
    auto = GaussianMixture("auto", covariance_type="auto", random_state=0).fit(X)
    assert (auto.n_components_, auto.covariance_type_) == (2, "diag")
    found, expected = auto.standard_errors(X), fits["diag"].standard_errors(X)
    np.testing.assert_allclose(found.covariances, expected.covariances, rtol=1e-3)
    assert auto.bootstrap(X, 3).means.shape == (3, 2, 2)


def test_known_covariances():
    X = np.asarray(TRUTH.sample(500, 0)[0])
    km = KnownCovarianceMixture(2, covariance=2.0, random_state=0).fit(X)
    found = km.standard_errors(X)
    np.testing.assert_allclose(
        found.means, np.sqrt(2.0 / (500 * km.weights_))[:, None] + [[0, 0]], rtol=1e-2
    )
    assert found.covariances.shape == km.covariances_.shape
    assert not np.any(found.covariances)
    assert km.parameter_covariance(X).shape == (6, 6)
    assert len(km.parameter_names()) == 6
    low, high = km.confidence_intervals(X)
    np.testing.assert_array_equal(low.covariances, high.covariances)


def test_one_component_has_a_weight_that_is_sure(X):
    for cls in (GaussianMixture, MomentMixture):
        gm = cls(1).fit(X)
        found = gm.standard_errors(X)
        assert found.weights == pytest.approx([0.0])
        np.testing.assert_allclose(found.means[0], X.std(axis=0) / np.sqrt(2000), rtol=1e-6)
        low, high = gm.confidence_intervals(X)
        assert low.weights == high.weights == [1.0]


def test_moment_fits_spread_as_they_say():
    """A hundred moment fits of new samples vary by what one says of itself."""
    truth = Mixture([0.6, 0.4], [[0.0], [3.5]], [[1.0], [0.5]], "diag")
    settings = {"covariance_type": "diag", "order": 6, "n_jobs": 1}
    ends = []
    for seed in range(100):
        rows = np.asarray(truth.sample(4000, seed)[0])
        gm = MomentMixture(2, means_init=[[0.0], [3.5]], **settings).fit(rows)
        ends.append(np.concatenate([gm.weights_, gm.means_[:, 0], gm.covariances_[:, 0]]))
    found = gm.standard_errors(rows)
    said = np.concatenate([found.weights, found.means[:, 0], found.covariances[:, 0]])
    np.testing.assert_allclose(np.std(ends, axis=0), said, rtol=0.3)
    # The moments alone say the same.
    tensors = MomentTensors.from_samples(rows, 6)
    again = gm.standard_errors(tensors)
    np.testing.assert_allclose(again.means, found.means, rtol=1e-6)


def test_the_bootstrap_agrees(X, fits):
    gm = fits["full"]
    said = gm.standard_errors(X)
    for kind in ("rows", "weights", "parametric"):
        found = gm.bootstrap(X, 150, kind)
        assert found.n_boot == 150
        assert found.covariances.shape == (150, 2, 2, 2)
        errors = found.standard_errors()
        np.testing.assert_allclose(errors.means, said.means, rtol=0.25)
        np.testing.assert_allclose(errors.weights, said.weights, rtol=0.25)
        low, high = found.confidence_intervals(0.9)
        assert np.all((low.means < gm.means_) & (gm.means_ < high.means))
    again = gm.bootstrap(X, 3)
    np.testing.assert_array_equal(again.means, gm.bootstrap(X, 3).means)  # by its seed


def test_a_parametric_bootstrap_has_the_gaps_of_the_rows(X, fits, rng):
    seen = np.where(rng.uniform(size=X.shape) < 0.3, np.nan, X)
    gm = GaussianMixture(2, random_state=0).fit(seen)
    found, said = gm.bootstrap(seen, 60, "parametric"), gm.standard_errors(seen)
    np.testing.assert_allclose(found.standard_errors().means, said.means, rtol=0.4)


def test_labels_are_put_back(X, fits):
    from momentmix.covariance import covariance_type
    from momentmix.fit import Parameters
    from momentmix.uncertainty import match_components

    for name, gm in fits.items():
        fitted, kind = Parameters.of(gm.mixture_), covariance_type(name)
        turned = Parameters(
            fitted.weights[::-1],
            fitted.means[::-1],
            kind.take_components(fitted.covariances, np.array([1, 0])),
        )
        back = match_components(kind, turned, fitted)
        np.testing.assert_array_equal(back.means, fitted.means)
        np.testing.assert_array_equal(back.covariances, fitted.covariances)


def test_components_that_might_be_one_are_told_of():
    X = np.asarray(Mixture([1.0], [[0.0, 0.0]], [1.0], "spherical").sample(300, 0)[0])
    gm = GaussianMixture(2, random_state=0).fit(X)
    with pytest.warns(UncertaintyWarning, match="overlap too much, or rest on too few"):
        gm.standard_errors(X)


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_what_is_not_at_a_maximum_has_nan(X):
    """Far from a maximum the likelihood curves upwards in some direction, which says nothing."""
    gm = GaussianMixture(2, max_iter=0, means_init=[[3.0, 0.0], [3.1, 0.0]], prior=None).fit(X)
    with pytest.warns(UncertaintyWarning, match="do not determine all parameters"):
        found = gm.standard_errors(X)
    assert np.any(np.isnan(found.means))


def test_a_singular_covariance_has_no_errors(X):
    """Of a mixture that somebody has put in place of the fitted one."""
    gm = GaussianMixture(1).fit(X)
    gm.mixture_ = Mixture([1.0], [[0.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0]]], "full")
    with pytest.raises(ValueError, match="a fitted covariance is singular"):
        gm.standard_errors(X)


def test_ctrl_c_keeps_what_there_is(X, fits, monkeypatch):
    original, calls = MemoryRows.reweight, []

    def reweight(self, weights):
        calls.append(None)
        if len(calls) == 6:
            signal.raise_signal(signal.SIGINT)
        return original(self, weights)

    monkeypatch.setattr(MemoryRows, "reweight", reweight)
    with pytest.warns(UserWarning, match=r"interrupted after \d+ of 50"):
        found = fits["full"].bootstrap(X, 50)
    assert found.interrupted
    assert 2 <= found.n_boot <= 6


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_bad_input(X, fits):
    gm = fits["full"]
    with pytest.raises(ValueError, match="kind must be one of"):
        gm.standard_errors(X, kind="fisher")
    with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
        gm.confidence_intervals(X, level=95)
    with pytest.raises(ValueError, match="X is needed"):
        gm.standard_errors()
    with pytest.raises(ValueError, match="n_boot must be a whole number of at least 2"):
        gm.bootstrap(X, 1)
    with pytest.raises(ValueError, match="3 features, but GaussianMixture is expecting 2"):
        gm.standard_errors(np.ones((5, 3)))
    with pytest.raises(ValueError, match="fit of moments alone"):
        MomentMixture(2, random_state=0).fit(X).bootstrap(X)
    wide = np.random.default_rng(0).normal(size=(300, 70))
    with pytest.raises(ValueError, match="has 5,112 parameters"):
        GaussianMixture(2, max_iter=1, random_state=0, n_init=1).fit(wide).standard_errors(wide)
