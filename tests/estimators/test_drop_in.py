"""The one changed import: GaussianMixture takes what scikit-learn's takes, and answers alike."""

import inspect
from itertools import combinations

import numpy as np
import pytest
import sklearn.mixture
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import momentmix as mm
from momentmix import GaussianMixture, KnownCovarianceMixture, MomentMixture
from momentmix.covariance import covariance_type
from momentmix.fitting.plan import check_covariances_init

TYPES = ("full", "tied", "diag", "spherical")  # scikit-learn's
ARRAYS = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")
THEIRS = {
    name: parameter.default
    for name, parameter in inspect.signature(sklearn.mixture.GaussianMixture).parameters.items()
}
TRUTH = mm.Mixture(
    [0.5, 0.3, 0.2], [[0.0, 0.0], [6.0, 0.0], [0.0, 7.0]], [1.0, 2.0, 0.5], "spherical"
)
X = TRUTH.sample(400, random_state=0)[0]


def covariances(kind, m=3, n=2):
    """Those of unlike components, by type."""
    matrices = np.stack([(j + 1) * np.eye(n) + 0.3 for j in range(m)])
    return {
        "full": matrices,
        "tied": matrices[0],
        "diag": np.diagonal(matrices, axis1=1, axis2=2).copy(),
        "spherical": np.arange(1.0, m + 1),
        "tied-diag": np.diag(matrices[0]).copy(),
        "tied-spherical": np.array(1.3),
    }[kind]


def inverse(kind, array):
    return np.linalg.inv(array) if kind in ("full", "tied") else 1 / array


PARTS = {
    "weights_init": TRUTH.weights,
    "means_init": TRUTH.means,
    "precisions_init": inverse("full", covariances("full")),
}
#: Legal values of each parameter of scikit-learn's class besides its default.
LEGAL = {
    "n_components": [1, 3],
    "covariance_type": list(TYPES),
    "tol": [0.0, 1e-3, 0.1],
    "reg_covar": [0, 0.01],
    "max_iter": [0, 1, 50],
    "n_init": [1, 4],
    "init_params": ["kmeans", "k-means++", "random", "random_from_data"],
    **{name: [value, value.tolist()] for name, value in PARTS.items()},
    "random_state": [None, 3, np.random.RandomState(1)],
    "warm_start": [True, False],
    "verbose": [0, 1, True],
    "verbose_interval": [1, 100],
}


def test_every_parameter_has_values_here():
    assert set(LEGAL) == set(THEIRS)


def test_parameters_begin_with_those_of_scikit_learn():
    """By the same names, in the same order; and there are not too many others."""
    ours = list(inspect.signature(GaussianMixture).parameters)
    assert ours[: len(THEIRS)] == list(THEIRS)
    assert len(ours) <= 22


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in THEIRS for value in [THEIRS[name], *LEGAL[name]]]
)
def test_every_parameter_is_taken(name, value, capsys):
    """By itself, and together with all the others at scikit-learn's own defaults."""
    m = {"n_components": value if name == "n_components" else 3}
    for others in ({"random_state": 0} | m, THEIRS | m):
        settings = others | {name: value}
        ours, theirs = (
            GaussianMixture(**settings).fit(X),
            sklearn.mixture.GaussianMixture(**settings).fit(X),
        )
        assert ours.get_params()[name] is value
        assert clone(ours).set_params(**{name: value}).get_params()[name] is value
        for attribute in ARRAYS:
            assert getattr(ours, attribute).shape == getattr(theirs, attribute).shape
        assert ours.predict_proba(X).shape == theirs.predict_proba(X).shape


@pytest.mark.parametrize("init_params", LEGAL["init_params"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n_init", ["auto", 1, 3])
def test_the_fit_is_at_least_as_good(init_params, kind, n_init):
    """The same call, with the likelihood alone as scikit-learn has it."""
    settings = {"covariance_type": kind, "init_params": init_params, "random_state": 0}
    theirs = sklearn.mixture.GaussianMixture(3, n_init=3, tol=1e-6, max_iter=500, **settings).fit(X)
    ours = GaussianMixture(3, n_init=n_init, prior=None, **settings).fit(X)
    assert ours.score(X) > theirs.score(X) - 1e-4


def test_starts_of_each_kind():
    """With no iterations a fit is its start; each kind has its own, and all lead to one fit."""
    cloud, starts, ends = np.random.default_rng(0).normal(size=(300, 2)), {}, []
    for init_params in ("auto", *LEGAL["init_params"]):
        fit = GaussianMixture(3, init_params=init_params, random_state=0)
        with pytest.warns(UserWarning, match="did not converge in max_iter=0"):
            starts[init_params] = clone(fit).set_params(max_iter=0).fit(cloud).means_.tobytes()
        ends.append(fit.fit(X).log_posterior_)
    assert starts["auto"] == starts["kmeans"]
    assert len(set(starts.values())) == 4
    assert np.ptp(ends) < 1e-4


def test_a_number_of_starts_is_that_many():
    for n_init in (1, 2, 5):
        fit = GaussianMixture(3, init_params="random_from_data", n_init=n_init, random_state=0).fit(
            X
        )
        assert 1 <= len(fit.lower_bounds_) <= n_init


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"precisions_init": PARTS["precisions_init"], "covariances_init": covariances("full")},
         "covariances_init and precisions_init"),
        ({"precisions_init": np.ones((3, 2))}, r"precisions_init must have shape \(3, 2, 2\)"),
        ({"precisions_init": np.zeros((3, 2, 2))}, "precisions_init must be positive definite"),
        ({"precisions_init": np.ones((3, 2, 2))}, "precisions_init must be positive definite"),
        ({"precisions_init": -covariances("full")}, "precisions_init must be positive"),
        ({"precisions_init": np.full((3, 2, 2), np.nan)}, "precisions_init must be finite"),
        ({"precisions_init": np.triu(covariances("full"))}, "precisions_init must be symmetric"),
        ({"covariances_init": np.ones((3, 2))}, r"covariances_init must have shape \(3, 2, 2\)"),
        ({"covariances_init": np.ones((3, 2, 2))}, "covariances_init must be positive definite"),
        ({"weights_init": [0.5, 0.5]}, "weights_init must be 3 numbers"),
        ({"weights_init": [1.5, -1, 0.5]}, "weights_init must be 3 numbers"),
        ({"weights_init": [0.5, 0.5, np.nan]}, "weights_init must be 3 numbers"),
        ({"means_init": np.zeros((3, 3))}, r"means_init must have shape \(3, 2\)"),
        ({"means_init": np.full((3, 2), np.inf)}, "means_init must be finite"),
    ],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_errors_name_the_parameter(settings, match):
    with pytest.raises(ValueError, match=match):
        GaussianMixture(3, **settings).fit(X)
    with pytest.raises(ValueError, match=match):
        MomentMixture(3, **settings).fit_moments(mm.Samples(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [("init_params", "k-means"), ("verbose_interval", 0), ("verbose_interval", 2.5)],
)
def test_values_are_checked_by_the_table(name, value):
    for cls in (sklearn.mixture.GaussianMixture, GaussianMixture):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of GaussianMixture must be"):
            cls(3, **{name: value}).fit(X)


@pytest.mark.parametrize("kind", [*TYPES, "tied-diag", "tied-spherical"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precisions_are_inverses_of_covariances(kind, dtype):
    given = covariances(kind)
    precisions = inverse(kind, given).astype(dtype)
    found = check_covariances_init(covariance_type(kind), 3, 2, None, precisions)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, given, rtol=1e-5 if dtype == np.float32 else 1e-13)
    start = {"means_init": TRUTH.means, "weights_init": TRUTH.weights}
    fits = [
        GaussianMixture(3, covariance_type=kind, **start, **part).fit(X)
        for part in ({"covariances_init": given}, {"precisions_init": precisions})
    ]
    np.testing.assert_allclose(fits[0].means_, fits[1].means_, atol=1e-3)


SOME = [names for k in (1, 2, 3) for names in combinations(PARTS, k)]


@pytest.mark.parametrize("names", SOME, ids="+".join)
@pytest.mark.parametrize("source", ["rows", "pure", "moments", "stream", "Dask"])
def test_every_part_of_a_start(names, source):
    """Alone and together, wherever the data are; the fit is the one without a start."""
    cls = GaussianMixture if source in ("rows", "Dask") else MomentMixture
    fit = cls(3, random_state=0, **{name: PARTS[name] for name in names})
    if source in ("rows", "pure"):
        fit.fit(X)
    elif source == "moments":
        fit.fit_moments(mm.MomentTensors.from_samples(X, 6))
    elif source == "stream":
        fit.partial_fit(X[:100]).partial_fit(X[100:])
    else:
        da = pytest.importorskip("dask.array")
        fit.fit(da.from_array(X, chunks=(100, 2)))
    assert fit.score(X) > TRUTH.log_prob(X).mean() - 0.05
    if "means_init" in names:  # components stay where they were put
        np.testing.assert_allclose(fit.means_, TRUTH.means, atol=1.0)


def test_a_start_with_known_noise():
    rows = TRUTH.means[np.arange(600) % 3] + np.random.default_rng(0).normal(size=(600, 2))
    for start in ({"weights_init": [0.2, 0.3, 0.5]}, {"means_init": TRUTH.means}):
        for polish in ("em", None):
            fit = KnownCovarianceMixture(3, 1.0, polish=polish, random_state=0, **start).fit(rows)
            np.testing.assert_allclose(np.sort(fit.weights_), np.full(3, 1 / 3), atol=0.03)


KINDS = [np.float32, np.float64, np.int64]


@pytest.mark.filterwarnings("ignore:covariance is not symmetric")  # theirs, in float32
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("fitted", KINDS)
@pytest.mark.parametrize("asked", KINDS)
def test_shapes_and_dtypes(kind, fitted, asked):
    """Those of scikit-learn: float32 where all is float32."""
    found = []
    for cls in (GaussianMixture, sklearn.mixture.GaussianMixture):
        fit = cls(3, covariance_type=kind, random_state=0).fit((10 * X).astype(fitted))
        rows = (10 * X).astype(asked)
        arrays = [getattr(fit, name) for name in ARRAYS]
        arrays += [fit.predict(rows), fit.predict_proba(rows), fit.score_samples(rows)]
        arrays += [*fit.sample(), *fit.sample(5), clone(fit).fit_predict(rows, None)]
        numbers = fit.score(rows), fit.aic(rows), fit.bic(rows), fit.n_iter_, fit.converged_
        found.append((arrays, [type(number) for number in numbers]))
    (ours, our_numbers), (theirs, their_numbers) = found
    assert [a.shape for a in ours] == [a.shape for a in theirs]
    if fitted is np.float32 and theirs[0].dtype == np.float64:  # an old one, which makes that of it
        assert {a.dtype for a in ours[: len(ARRAYS)]} == {np.dtype(np.float32)}
    else:
        assert [a.dtype for a in ours] == [a.dtype for a in theirs]
    # Scores of old releases are NumPy's float64, which is a float.
    assert our_numbers == [float, float, float, int, bool]
    assert all(map(issubclass, their_numbers, our_numbers))


def test_signatures():
    for name in ("fit", "fit_predict", "predict", "predict_proba", "score", "score_samples",
                 "sample", "aic", "bic"):  # fmt: skip
        theirs = inspect.signature(getattr(sklearn.mixture.GaussianMixture, name)).parameters
        ours = inspect.signature(getattr(GaussianMixture, name)).parameters
        assert list(ours)[: len(theirs)] == list(theirs)
        for parameter, their in theirs.items():
            assert ours[parameter].default == their.default
            assert ours[parameter].kind == their.kind


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warm_start_goes_on():
    """From the last solution, whatever init_params says; what it learns of a prior may change."""
    for cls, prior in ((GaussianMixture, {"prior": None}), (sklearn.mixture.GaussianMixture, {})):
        fit = cls(3, warm_start=True, init_params="kmeans", max_iter=2, random_state=0, **prior)
        fit.fit(X)
        values = [fit.fit(X).score(X) for _ in range(20)]
        assert np.all(np.diff(values) > -1e-6)
        assert values[-1] > TRUTH.log_prob(X).mean()


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_the_most_common_call_keeps_its_meaning(load):
    """GaussianMixture(3, n_init=10), with the import exchanged and nothing else."""
    rows, kinds = StandardScaler().fit_transform(load().data), load().target
    theirs = sklearn.mixture.GaussianMixture(3, n_init=10, random_state=0).fit(rows)
    ours = GaussianMixture(3, n_init=10, random_state=0).fit(rows)
    scores = [adjusted_rand_score(kinds, fit.predict(rows)) for fit in (theirs, ours)]
    assert scores[1] >= scores[0] > 0.8
