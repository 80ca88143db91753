"""Rows on a device: the same fits as in NumPy, made where the rows are.

There is a device on every machine: that of array-api-strict, whose arrays NumPy cannot read, as it
cannot read those of CUDA. PyTorch's arrays in the main memory are taken for arrays on a device too,
and CUDA's are tested where there is one.
"""

import collections
import dataclasses
import pickle
import threading

import array_api_strict
import matplotlib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from likelihoods import row_likelihood
from momentmix import (
    GaussianMixture,
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
    Samples,
    inner,
    inner_grad,
    select,
)
from momentmix.blocks import block_rows as batches
from momentmix.blocks import layout
from momentmix.cli import app
from momentmix.covariance import Zero, covariance_type
from momentmix.estimators import base
from momentmix.fit import Parameters
from momentmix.fitting.background import in_box
from momentmix.fitting.em import from_responsibilities, part_of, responsibilities
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import bilinear
from momentmix.plotting import plot_marginal, plot_pairs
from momentmix.rows import device as likelihood_device
from momentmix.rows import elsewhere as draw
from momentmix.rows.device import device_passes, device_sums
from momentmix.rows.memory import Box, Density, needs_no_features
from momentmix.support import array, device
from momentmix.tensors import rowsums
from momentmix.tensors.rowsums import row_sums

matplotlib.use("Agg")
TYPES = ("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")
PLACES = ("torch", "strict", "cuda") if torch.cuda.is_available() else ("torch", "strict")
CLOSE = {"rtol": 1e-10, "atol": 1e-10}

pytestmark = pytest.mark.usefixtures("main_memory_is_a_device")


class Place:
    """A device: arrays go there and back."""

    def __init__(self, name):
        self.name = name

    def __call__(self, a, dtype=np.float64):
        a = np.array(a, dtype=dtype)
        if self.name == "strict":
            return array_api_strict.asarray(a, device=array_api_strict.Device("device1"))
        return torch.asarray(a, device="cuda" if self.name == "cuda" else "cpu")

    def owns(self, x):
        one = self(0.0)
        return type(x) is type(one) and array.array_device(x) == array.array_device(one)


@pytest.fixture(params=PLACES)
def there(request):
    return Place(request.param)


def clusters(p=600, n=4, m=3, seed=0, apart=3.0):
    rng = np.random.default_rng(seed)
    means = apart * rng.normal(size=(m, n))
    X = rng.normal(size=(p, n)) * rng.uniform(0.5, 1.5, n) + means[rng.integers(m, size=p)]
    return X + 5.0


def mixture_of(kind, rng, m=3, n=4, scale=1.0):
    A = rng.normal(size=(n, n))
    spread = covariance_type(kind).repeat(m, scale * (A @ A.T + np.eye(n)))
    return Parameters(rng.dirichlet(np.ones(m)), rng.normal(size=(m, n)), spread)


# Passes


def on_device(rows, there):
    """Rows in memory whose passes are made on a device."""
    return rows.with_passes(device_passes(rows.X, rows.kind, there(np.empty((0, 4)))))


def comparable(sums, kind):
    """The sums; of a matrix that all components share, only the sum over them is asked for."""
    return sums._replace(seconds=sums.seconds.sum(axis=0)) if needs_no_features(kind, 0) else sums


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_passes_are_those_of_numpy(kind, scale, there, rng, monkeypatch):
    """Densities, sums, sums with responsibilities; also of narrow peaks, in several blocks."""
    monkeypatch.setattr(device, "UNKNOWN_BYTES", 1)
    X, own = rng.normal(size=(2500, 4)), covariance_type(kind)
    at = mixture_of(kind, rng, scale=scale)
    at.means[:] = X[:3]  # so that narrow components have rows
    weights = rng.dirichlet(np.ones(len(X)))
    for background in (False, True):
        here = row_likelihood(X, weights, own, 1e-12)
        other = dataclasses.replace(here, rows=on_device(here.rows, there))
        if background:
            box = Box(np.full(4, 10.0), 0.5, 0.3)
            here, other = (in_box(one, box) for one in (here, other))
            at = at._replace(weights=0.9 * at.weights)
        assert type(other.rows.passes) is not type(here.rows.passes)
        rows = rng.permutation(len(X))[:1000]
        parts = [part_of(one, rows, None, 0.4) for one in (here, other)]
        R = rng.dirichlet(np.ones(3), len(X))
        wanted, made = (
            [
                one.rows.log_joint(at),
                *responsibilities(one, at),
                *comparable(one.rows.sums(at, box=one.target.box), own),
                *from_responsibilities(one, R),
            ]
            for one in (here, other)
        )
        for a, b in zip(wanted, made, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
        sums = (comparable(part.rows.sums(at, box=part.target.box), own) for part in parts)
        for a, b in zip(*sums, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_steps_of_several_mixtures_at_once(kind, there, rng):
    X, own = rng.normal(size=(900, 4)), covariance_type(kind)
    starts = [mixture_of(kind, rng) for _ in range(3)]
    here = row_likelihood(X, None, own, 1e-6, prior=own.prior(4, "auto"))
    want = here.try_steps(starts, 5)
    other = dataclasses.replace(here, rows=on_device(here.rows, there))
    found = other.try_steps(starts, 5)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_allclose(b.log_posterior, a.log_posterior, **CLOSE)
        for one, other in zip(a.parameters, b.parameters, strict=True):
            np.testing.assert_allclose(other, one, **CLOSE)


class Calls(TorchDispatchMode):
    """Counts what PyTorch is asked to do."""

    def __init__(self):
        super().__init__()
        self.names = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names[str(function)] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("job", ["data term", "EM", "moments"])
def test_no_pass_waits_for_the_device(kind, job, rng, monkeypatch):
    """No number is asked for and nothing is copied between blocks, however many there are.

    The calls of a block are also few: so many launches of kernels does a block take.
    """
    p, n, own = 24_000, 6, covariance_type(kind)
    X = torch.asarray(rng.normal(size=(p, n)))
    at = mixture_of(kind, rng, n=n)
    P = Atoms(at.weights, at.means, own.of(at.covariances, n)).on(X)
    Q = Atoms(1 / p, X, Zero(n))
    density = Density.of(own, at)
    run = {
        "data term": lambda: bilinear(P, Q, [0.0, 1.0, 0.5, 0.2, 0.1], True),
        "EM": lambda: device_sums(X, None, own, density),
        "moments": lambda: row_sums(X, np.zeros(n), None, 4),
    }[job]
    run()  # brings tables to the device
    counts, back = [], []
    for module in (likelihood_device, rowsums):  # which are those that can read anything back
        monkeypatch.setattr(module, "to_numpy", lambda x: back.append(x) or array.to_numpy(x))
    for size in (1 << 20, 1 << 18):
        monkeypatch.setattr(device, "UNKNOWN_BYTES", size)
        back.clear()
        with Calls() as calls:
            run()
        counts.append(calls.names)
        assert len(back) == (0 if job == "data term" else 1)
    few, many = counts
    products = ("aten.mm.default", "aten.bmm.default")
    assert sum(many[name] for name in products) > 1.5 * sum(few[name] for name in products)
    for name in many:
        asks = ("_local_scalar", "nonzero", "item", "equal")
        assert not any(word in name for word in asks), name
        if "lift_fresh" in name:  # an array from NumPy
            assert many[name] == few[name]
    kernels = {"mul", "add", "sub", "div", "exp", "log", "sum", "mm", "bmm", "mv", "cat", "amax"}
    launched = sum(k for name, k in many.items() if name.split(".")[1].rstrip("_") in kernels)
    products_a_block = {"data term": 4, "EM": 4}.get(job)
    if products_a_block:
        blocks = many["aten.mm.default"] / products_a_block
        assert launched / blocks < {"data term": 45, "EM": 25}[job] + 2 * n


# Fits


def check_alike(found, want, there, X):
    """A fit on a device equals one in NumPy, and gives its arrays there."""
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert there.owns(getattr(found, name)), name
        np.testing.assert_allclose(
            array.to_numpy(getattr(found, name)), getattr(want, name), **CLOSE
        )
    for name in ("lower_bound_", "log_posterior_"):
        np.testing.assert_allclose(getattr(found, name), getattr(want, name), **CLOSE)
    assert (found.n_iter_, found.converged_) == (want.n_iter_, want.converged_)
    for name in ("predict", "predict_proba", "score_samples"):
        told = getattr(found, name)(there(X))
        assert there.owns(told), name
        np.testing.assert_allclose(array.to_numpy(told), getattr(want, name)(X), **CLOSE)
    for name in ("score", "bic", "aic"):
        np.testing.assert_allclose(
            getattr(found, name)(there(X)), getattr(want, name)(X), rtol=1e-10
        )


@pytest.mark.parametrize("kind", TYPES)
def test_fit_is_that_of_numpy(kind, there):
    X = clusters()
    settings = {"covariance_type": kind, "random_state": 0}
    want = GaussianMixture(3, **settings).fit(X)
    check_alike(GaussianMixture(3, **settings).fit(there(X)), want, there, X)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_init": 3, "init_params": "moments"},
        {"method": "newton"},
        {"init_params": "moments", "method": "newton"},
        {"prior": None, "tol": 1e-10},
        {"outliers": "auto"},
        {"means_init": clusters()[:3]},
        {"n_components": "auto"},
        {"covariance_type": "tied", "n_init": 2},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_settings(settings, there):
    X = clusters(400)
    settings = {"n_components": 3, "random_state": 0, **settings}
    want = GaussianMixture(**settings).fit(X)
    found = GaussianMixture(**settings).fit(there(X))
    check_alike(found, want, there, X)
    np.testing.assert_allclose(
        array.to_numpy(found.outlier_score(there(X))), want.outlier_score(X), rtol=1e-12
    )


def test_weights_gaps_and_errors(there, rng):
    X = clusters(300)
    weights = rng.integers(1, 4, len(X)).astype(float)
    want = GaussianMixture(3, random_state=0).fit(X, sample_weight=weights)
    found = GaussianMixture(3, random_state=0).fit(there(X), sample_weight=there(weights))
    check_alike(found, want, there, X)
    Y = np.where(rng.random(X.shape) < 0.05, np.nan, X)
    want = GaussianMixture(3, random_state=0).fit(Y, noise_covariance=0.01)
    found = GaussianMixture(3, random_state=0).fit(there(Y), noise_covariance=0.01)
    check_alike(found, want, there, Y)
    filled = found.impute(there(Y))
    assert there.owns(filled)
    np.testing.assert_allclose(array.to_numpy(filled), want.impute(Y), **CLOSE)
    np.testing.assert_allclose(
        array.to_numpy(found.denoise(there(Y), 0.01)[0]), want.denoise(Y, 0.01)[0], **CLOSE
    )


def test_known_covariance(there, rng):
    signals = rng.normal(size=(3, 5))
    X = signals[rng.integers(3, size=3000)] + 0.5 * rng.normal(size=(3000, 5))
    want = KnownCovarianceMixture(3, 0.25, random_state=0).fit(X)
    check_alike(KnownCovarianceMixture(3, 0.25, random_state=0).fit(there(X)), want, there, X)


def test_a_covariance_on_the_device_and_noise_in_a_stream(there, rng):
    X = clusters(3000, 3, 2)
    one, two = (
        KnownCovarianceMixture(2, covariance, random_state=0).fit(there(X))
        for covariance in (there(np.eye(3)), np.eye(3))
    )
    np.testing.assert_array_equal(array.to_numpy(one.means_), array.to_numpy(two.means_))
    for noise in (0.1, np.full(3, 0.1), rng.uniform(0.1, 0.2, (3000, 3))):
        want = MomentMixture(2).partial_fit(X, noise_covariance=noise).moments_
        found = MomentMixture(2).partial_fit(there(X), noise_covariance=there(noise)).moments_
        np.testing.assert_allclose(found.tensor(3), want.tensor(3), rtol=1e-10)


def test_streams_and_moments(there, rng):
    X, weights = clusters(3000, 3, 2), rng.uniform(0.5, 2, 3000)
    want, found = (MomentMixture(2, random_state=0) for _ in range(2))
    for part in np.array_split(np.arange(3000), 3):
        want.partial_fit(X[part], sample_weight=weights[part], half_life=900.0)
        found.partial_fit(there(X[part]), sample_weight=there(weights[part]), half_life=900.0)
    np.testing.assert_allclose(found.moments_.tensor(3), want.moments_.tensor(3), rtol=1e-10)
    assert there.owns(found.means_)
    np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, rtol=1e-8)
    one = MomentMixture(2, random_state=0).fit_moments(Samples(there(X)))
    assert there.owns(one.means_)
    two = MomentMixture(2, random_state=0).fit_moments(Samples(X))
    np.testing.assert_allclose(array.to_numpy(one.means_), two.means_, **CLOSE)
    updated = MomentTensors(3, 4).update(there(X), there(weights)).tensor(4)
    want = MomentTensors(3, 4).update(X, weights).tensor(4)
    np.testing.assert_allclose(updated, want, rtol=1e-10)


# Many rows


@pytest.fixture
def few_are_many(monkeypatch):
    """Rows are too many for a search from a few on, and so for the main memory."""
    monkeypatch.setattr(base, "LARGE_DATA", 1000)
    monkeypatch.setattr(draw, "LEAST_ROWS", 300)
    monkeypatch.setattr(draw, "MOST_ROWS", 400)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("method", ["em", "newton", "moments"])
def test_many_rows_are_those_of_a_batch(kind, method, there, few_are_many):
    """Rows in the main memory that come in one batch are drawn and summed up in the same way."""
    X = clusters(4000, 3, 2, seed=3, apart=4.0)
    cls, settings = MomentMixture, {"covariance_type": kind, "random_state": 0}
    if method != "moments":
        cls, settings["method"] = GaussianMixture, method
    want, found = cls(2, **settings).fit_batches([X]), cls(2, **settings).fit(there(X))
    assert there.owns(found.means_)
    assert found.n_passes_ == want.n_passes_
    np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        array.to_numpy(found.covariances_), want.covariances_, rtol=1e-8, atol=1e-8
    )
    if method == "moments":
        return
    np.testing.assert_allclose(found.lower_bound_, want.lower_bound_, **CLOSE)
    if method == "newton":
        errors = found.standard_errors()
        np.testing.assert_allclose(errors.means, want.standard_errors().means, rtol=1e-6)


def test_many_rows_of_known_noise_and_of_moments_from_rows(there, few_are_many, rng):
    X = clusters(4000, 3, 2, seed=3, apart=4.0)
    want = KnownCovarianceMixture(2, 1.0, random_state=0).fit_batches([X])
    found = KnownCovarianceMixture(2, 1.0, random_state=0).fit(there(X))
    np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, rtol=1e-8)
    weights = rng.uniform(0.5, 2, len(X))
    settings = {"moments": "samples", "random_state": 0}
    settings |= {"covariance_type": "diag", "max_iter": 30}
    want = MomentMixture(2, **settings).fit_batches([(X, weights)])
    found = MomentMixture(2, **settings).fit(there(X), sample_weight=there(weights))
    assert found.n_passes_ > 5  # each evaluation of the cost reads the rows
    np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, rtol=1e-6)


def test_many_rows_stay_where_they_are(few_are_many, monkeypatch):
    """Only a draw, sums and numbers leave the device."""
    strict, sizes = Place("strict"), []
    X = clusters(20_000, 3, 2, seed=3, apart=4.0)
    there, plain = strict(X), array.to_device

    def watched(x, device):
        sizes.append(x.size)
        return plain(x, device)

    monkeypatch.setattr(array, "to_device", watched)
    fit = GaussianMixture(2, random_state=0).fit(there)
    assert 0 < max(sizes) < X.size / 10
    sizes.clear()
    labels = fit.predict(there)
    fit.score(there)
    assert max(sizes, default=0) < X.size / 10
    assert labels.shape == (20_000,)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_float32_rows(kind, there, few_are_many):
    """Rows of half the size are worked at in float64, so nothing but their own rounding is lost."""
    X = clusters(4000, 3, 2, seed=3, apart=4.0)
    want = GaussianMixture(2, covariance_type=kind, random_state=0).fit(there(X))
    found = GaussianMixture(2, covariance_type=kind, random_state=0).fit(there(X, np.float32))
    for told in (found.means_, found.predict_proba(there(X, np.float32))):
        assert str(told.dtype).endswith("float32")
    np.testing.assert_allclose(array.to_numpy(found.means_), array.to_numpy(want.means_), rtol=1e-5)


@pytest.mark.parametrize("name", ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",))
def test_batches_brought_to_a_device(name, rng):
    X = clusters(5000, 3, 2)
    want = MomentTensors.from_batches(lambda: X, 3)
    for source in (lambda: X, [torch.asarray(X)]):
        found = MomentTensors.from_batches(source, 3, device=name)
        np.testing.assert_allclose(found.tensor(3), want.tensor(3), rtol=1e-10)
    parts = np.array_split(X, 7)
    for cls in (GaussianMixture, MomentMixture):
        want = cls(2, random_state=0).fit_batches(parts)
        found = cls(2, random_state=0).fit_batches(parts, device=name)
        np.testing.assert_allclose(found.means_, want.means_, rtol=1e-8)
    weights = rng.uniform(size=len(X))
    found = MomentTensors.from_batches([(X, weights)], 3, device=name)
    want = MomentTensors.from_samples(X, 3, weights)
    np.testing.assert_allclose(found.tensor(3), want.tensor(3), rtol=1e-10)
    Y = np.where(rng.random(X.shape) < 0.02, np.nan, X)
    want = GaussianMixture(2, random_state=0).fit_batches([Y])
    found = GaussianMixture(2, random_state=0).fit_batches([Y], device=name)
    np.testing.assert_allclose(found.means_, want.means_, rtol=1e-8)


def test_rows_of_a_device_stay_there_in_fit_batches(there, few_are_many, monkeypatch):
    """They are no batches that would be copied in each pass."""
    X, brought = clusters(4000, 3, 2, seed=3, apart=4.0), []
    want = GaussianMixture(2, random_state=0).fit_batches([X])
    rows = there(X)
    for module in (likelihood_device, rowsums, layout):
        monkeypatch.setattr(
            module, "to_numpy", lambda x: brought.append(np.prod(x.shape)) or array.to_numpy(x)
        )
    found = GaussianMixture(2, random_state=0).fit_batches(rows)
    assert max(brought) < X.size / 10
    np.testing.assert_allclose(found.means_, want.means_, rtol=1e-8)
    if there.name == "torch":
        again = GaussianMixture(2, random_state=0).fit_batches(rows, device="cpu")
        np.testing.assert_array_equal(again.means_, found.means_)


@pytest.mark.parametrize("shape", [(0, 3), (9, 0), (9,)])
def test_fit_batches_refuses_what_has_no_rows(shape, there):
    with pytest.raises(ValueError, match=r"no rows: the source|must have 2 dimension"):
        GaussianMixture(2).fit_batches(there(np.ones(shape)))


def test_a_function_stays_in_the_thread_of_its_user(few_are_many):
    """As connections of sqlite3 want it, also where batches are copied ahead."""
    X, threads = clusters(3000, 3, 2), []

    def rows():
        threads.append(threading.get_ident())
        return X

    GaussianMixture(2, random_state=0).fit_batches(rows, device="cpu")
    assert len(threads) > 1
    assert set(threads) == {threading.get_ident()}


@pytest.mark.parametrize("weighted", [True, False])
def test_standard_errors_of_many_rows(weighted, there, few_are_many, monkeypatch, rng):
    """Rows are brought here in pieces. Errors are those of rows in memory, of moments too."""
    monkeypatch.setattr(batches, "LARGE", 8 * 3 * 700)
    X = clusters(4000, 3, 2, seed=3, apart=4.0)
    weights = rng.uniform(0.5, 3, len(X)) if weighted else None
    on_device = None if weights is None else there(weights)
    for cls, own, close in (
        (GaussianMixture, {"method": "newton"}, 1e-3),
        (MomentMixture, {}, 1e-2),
    ):
        settings = {"covariance_type": "diag", "random_state": 0, **own}
        found = cls(2, **settings).fit(there(X), sample_weight=on_device)
        monkeypatch.setattr(base, "LARGE_DATA", 10**9)
        here = cls(2, **settings).fit(X, sample_weight=weights)
        monkeypatch.setattr(base, "LARGE_DATA", 1000)
        errors = here.standard_errors(X, sample_weight=weights).means
        told = found.standard_errors(there(X), sample_weight=on_device).means
        np.testing.assert_allclose(array.to_numpy(told), errors, rtol=close)


def test_bootstrap_of_many_rows(there, few_are_many):
    X = clusters(1000, 2, 2, seed=3, apart=4.0)
    fit = GaussianMixture(2, covariance_type="diag", random_state=0).fit(there(X))
    assert fit.bootstrap(there(X), 2).means.shape == (2, 2, 2)


# Manners


def test_answers_come_in_blocks(there, monkeypatch):
    X = clusters(500)
    gm = GaussianMixture(3, random_state=0).fit(X)
    want = gm.predict(X), gm.predict_proba(X), gm.score_samples(X), gm.score(X)
    monkeypatch.setattr(device, "UNKNOWN_BYTES", 32 * 7 * 60)  # of sixty rows each
    rows = there(X)
    found = gm.predict(rows), gm.predict_proba(rows), gm.score_samples(rows), gm.score(rows)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_allclose(array.to_numpy(b), a, **CLOSE)


def test_tensors_with_gradients():
    """They are refused by fits, and kept by the functions of moments."""
    X = torch.asarray(clusters(300)).requires_grad_(True)
    gm = GaussianMixture(3, random_state=0)
    with pytest.raises(TypeError, match="do not reach through estimators"):
        gm.fit(X)
    with torch.no_grad():
        assert not gm.fit(X).predict_proba(X).requires_grad
    mixture = gm.mixture_.on(X.detach())
    _, gradient = inner_grad(Samples(X.detach()), mixture, 3)
    inner(mixture, Samples(X), 3).backward()
    np.testing.assert_allclose(X.grad.numpy(), gradient.means.numpy(), rtol=1e-9)
    with pytest.raises(TypeError, match="do not reach through MomentTensors"):
        MomentTensors(4, 3).update(X)
    assert MomentTensors(4, 3).update(X.detach()).count == 300


def test_in_the_main_memory_arrays_are_numpys(monkeypatch):
    """Without a copy, so that fits are the same to the last bit."""
    monkeypatch.setattr(array, "MAIN_MEMORY", frozenset({"cpu"}))
    X = clusters()
    want = GaussianMixture(3, random_state=0).fit(X)
    found = GaussianMixture(3, random_state=0).fit(torch.asarray(X))
    assert isinstance(found.covariances_, torch.Tensor)
    np.testing.assert_array_equal(found.covariances_.numpy(), want.covariances_)
    labels = found.predict(torch.asarray(X))
    assert labels.dtype == torch.int64
    np.testing.assert_array_equal(labels.numpy(), want.predict(X))
    np.testing.assert_array_equal(found.predict(X), want.predict(X))  # X says what comes back


def test_mixed_places_are_refused(there):
    X, other = clusters(), array_api_strict.ones(600, device=array_api_strict.Device("device2"))
    for weights in (np.ones(600), other):
        with pytest.raises(TypeError, match=r"sample_weight is .* X is .* one library and one dev"):
            GaussianMixture(3).fit(there(X), sample_weight=weights)
    with pytest.raises(TypeError, match=r"sample_weight is .* but X is an array of numpy on cpu"):
        GaussianMixture(3).fit(X, sample_weight=there(np.ones(600)))


@pytest.mark.parametrize(
    ("spoil", "weights", "message"),
    [
        (lambda X: X[:1], None, "minimum of 2 sample"),
        (lambda X: X[:2], None, "n_samples = 2"),
        (lambda X: X[:, 0], None, "X must have 2 dimension"),
        (lambda X: np.where(X[0, 0] == X, np.inf, X), None, "contains infinity"),
        (lambda X: X, -np.ones(600), "not negative"),
        (lambda X: X, np.zeros(600), "at least one non-zero"),
        (lambda X: X, np.ones(3), "has 3 entries for 600 rows"),
        (lambda X: X, [1.0], "has 1 entries for 600 rows"),
    ],
)
def test_bad_rows_are_refused(spoil, weights, message, there):
    gm = GaussianMixture(3, random_state=0)
    if isinstance(weights, np.ndarray):
        weights = there(weights)
    with pytest.raises(ValueError, match=message):
        gm.fit(there(spoil(clusters())), sample_weight=weights)
    assert not hasattr(gm, "means_")


def test_a_device_without_float64_is_refused(there, monkeypatch):
    monkeypatch.setattr(base, "place_of", lambda x: "mps")
    with pytest.raises(TypeError, match=r"X is on mps, .* give X.cpu\(\)"):
        GaussianMixture(3).fit(there(clusters()))


def test_answers_have_the_precision_of_tables():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(clusters()).astype(np.float32).rename(columns=str)
    gm = GaussianMixture(3, random_state=0).fit(X)
    for found in (gm.means_, gm.predict_proba(X), gm.score_samples(X), gm.impute(X)):
        assert found.dtype == np.float32


def test_other_features_are_refused(there):
    X = clusters()
    gm = GaussianMixture(3, random_state=0).fit(there(X))
    with pytest.raises(ValueError, match="X has 3 features, but GaussianMixture is expecting 4"):
        gm.predict(there(X[:, :3]))
    with pytest.raises(ValueError, match="contains infinity"):
        gm.score_samples(there(np.full((2, 4), np.inf)))


def test_functions_of_moments_refuse_mixed_places(rng):
    strict, X = Place("strict"), rng.normal(size=(30, 2))
    elsewhere = array_api_strict.ones(30, device=array_api_strict.Device("device2"))
    mixture = Mixture([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], [1.0, 1.0], "spherical")
    there = mixture.on(strict(X))
    for wrong in (
        lambda: MomentTensors(2, 3).update(strict(X), elsewhere),
        lambda: Samples(strict(X), elsewhere),
        lambda: there.log_prob(array_api_strict.asarray(X)),
        lambda: inner(there, mixture.on(array_api_strict.asarray(X)), 3),
    ):
        with pytest.raises(TypeError, match=r"on different devices \(.*\); bring them to one"):
            wrong()
    with pytest.raises(TypeError, match="sample_weight is an array of numpy"):
        select(strict(X), [1], sample_weight=np.ones(30))


def test_a_number_is_the_weight_of_all_rows(there):
    X = clusters(100)
    want = GaussianMixture(2, random_state=0).fit(X, sample_weight=2.0)
    for weight in (2, np.float32(2), np.int64(2)):
        found = GaussianMixture(2, random_state=0).fit(there(X), sample_weight=weight)
        np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, **CLOSE)


@pytest.mark.parametrize("on_device", [True, False])
def test_bfloat16(on_device, monkeypatch):
    if not on_device:
        monkeypatch.setattr(array, "MAIN_MEMORY", frozenset({"cpu"}))
    X = torch.asarray(clusters(200)).to(torch.bfloat16)
    want = GaussianMixture(2, random_state=0).fit(X.double().numpy())
    for found in (
        GaussianMixture(2, random_state=0).fit(X),
        GaussianMixture(2, random_state=0).fit_batches([X]),
        select(X, [2], "full", random_state=0).best,
    ):
        np.testing.assert_allclose(array.to_numpy(found.means_), want.means_, rtol=1e-5)


def test_an_array_without_the_matrix_transpose_is_refused():
    """CuPy had none before version 14."""

    class Old:
        ndim, shape, dtype = 2, (3, 2), array_api_strict.float64
        device = array_api_strict.Device("device1")

        def __array_namespace__(self, api_version=None):
            return array_api_strict

    with pytest.raises(TypeError, match=r"without mT, .* CuPy has it from version 14 on"):
        GaussianMixture(2).fit(Old())


def test_pictures(there):
    X = clusters(200)
    gm = GaussianMixture(2, random_state=0).fit(there(X))
    for picture in (plot_pairs, plot_marginal):
        picture(gm, there(X))
        picture(gm.mixture_.on(there(X)))
        matplotlib.pyplot.close("all")


def test_select(there):
    X, weights = clusters(200), np.ones(200)
    want = select(X, [2, 3], sample_weight=weights, random_state=0)
    found = select(there(X), [2, 3], sample_weight=there(weights), random_state=0)
    assert [one.bic for one in found.table] == [one.bic for one in want.table]


def test_copies_are_light():
    """A fitted estimator keeps nothing of the rows, and goes through pickle and clone."""
    X = torch.asarray(clusters(5000))
    gm = GaussianMixture(3, random_state=0).fit(X)
    written = pickle.dumps(gm)
    assert len(written) < 40_000
    again = pickle.loads(written)  # our own, made a line before
    assert torch.equal(again.predict(X), gm.predict(X))
    assert again.sample(3)[0].dtype == torch.float64
    assert not hasattr(clone(gm), "means_")


def test_the_command_works_on_a_device(tmp_path):
    """What it says is the same to the last digit that it prints."""
    X, path = clusters(500, 3, 2), tmp_path / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="")
    said = {}
    for option in ([], ["--device", "cpu"]):
        model, moments = tmp_path / f"m{len(option)}.json", tmp_path / f"m{len(option)}.npz"
        said[len(option)] = [
            CliRunner().invoke(app, [str(word) for word in (*words, *option)])
            for words in (
                ("fit", path, "-k", 2, "-o", model),
                ("fit", path, "-k", 2, "--in-blocks"),
                ("score", model, path),
                ("predict", model, path),
                ("moments", path, "-o", moments),
            )
        ]
    for here, there in zip(said[0], said[2], strict=True):
        assert (here.exit_code, there.exit_code) == (0, 0), there.output
    for here, there in zip(said[0][1:3], said[2][1:3], strict=True):
        assert there.stdout == here.stdout
    a, b = (MomentTensors.load(tmp_path / f"m{k}.npz").tensor(4) for k in (0, 2))
    np.testing.assert_allclose(a, b, rtol=1e-10)
    labels = [
        [line.split(",")[0] for line in run[3].stdout.splitlines()] for run in (said[0], said[2])
    ]
    assert labels[0] == labels[1]
    for words, message in (
        (("fit", path, "-k", 2, "--device", "nowhere"), "no device 'nowhere'"),
        (("fit", path, "-k", "auto", "--device", "cpu"), "--device is for one number"),
        (("fit", tmp_path / "m0.npz", "-k", 2, "--device", "cpu"), "--device is for rows"),
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 1
        assert message in " ".join(done.output.split())


def test_a_device_that_is_not_there():
    for name, message in (
        ("nowhere", "no device 'nowhere'; give one that PyTorch has"),
        ("cuda:77", "PyTorch has no device 'cuda:77' here"),
    ):
        with pytest.raises(ValueError, match=message):
            GaussianMixture(2).fit_batches([clusters()], device=name)


def test_rows_of_a_cluster_do_not_come_to_a_device():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="leave device out"):
        GaussianMixture(2).fit_batches(da.from_array(clusters()), device="cpu")
