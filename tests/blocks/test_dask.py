"""On a real cluster of worker processes: the same results as in memory, whatever happens to it."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from unittest import mock

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster

from momentmix import GaussianMixture, Mixture, MomentMixture, MomentTensors
from momentmix.blocks.dask_rows import DaskRows
from momentmix.rows.elsewhere import BlockData

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, about ports and the like


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        yield client


def sample(n=4, m=3, p=6000):
    rng = np.random.default_rng(5)
    mixture = Mixture(
        np.full(m, 1 / m), 4 * rng.normal(size=(m, n)), rng.uniform(0.5, 1.5, (m, n)), "diag"
    )
    return mixture.sample(p, 1)[0]


def made_slowly(X, blocks, seconds):
    """A Dask array whose blocks take their time wherever they are made."""

    def make(part):
        time.sleep(seconds)
        return part

    parts = np.array_split(X, blocks)
    return da.concatenate(
        [da.from_delayed(dask.delayed(make)(part), part.shape, dtype=float) for part in parts]
    )


def assert_same(a, b, atol=1e-8):
    for name in ("weights_", "means_", "covariances_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=atol)


class Killed:
    """Kills a worker process some time into a block of code, and checks that it did."""

    def __init__(self, client, after):
        self.client, self.after = client, after

    def __enter__(self):
        self.pids = set(self.client.run(os.getpid).values())
        self.timer = threading.Timer(self.after, os.kill, (min(self.pids), signal.SIGKILL))
        self.start = time.monotonic()
        self.timer.start()

    def __exit__(self, kind, *_):
        ended = time.monotonic() - self.start
        self.timer.cancel()
        if kind is None:
            assert ended > self.after, "the work was over before the worker was killed"
            self.client.wait_for_workers(3)
            assert set(self.client.run(os.getpid).values()) != self.pids


def test_tensors_of_arrays_and_tables(client, rng):
    X, w = sample(), rng.random(6000)
    array = da.from_array(X, chunks=(1000, 3))
    table = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=5)
    want = MomentTensors.from_samples(X, 4)
    for data in (array, table):
        got = MomentTensors.from_samples(data, 4)
        assert got.count == 6000
        np.testing.assert_allclose(got.tensor(4), want.tensor(4), rtol=1e-11)
    want = MomentTensors.from_samples(X, 3, w, noise_covariance=0.2)
    weights = da.from_array(w, chunks=1000)
    for given in (w, weights):
        got = MomentTensors.from_samples(array, 3, given, noise_covariance=0.2)
        np.testing.assert_allclose(got.tensor(3), want.tensor(3), rtol=1e-11)


@pytest.mark.parametrize(
    "kind", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_fit_is_that_in_memory(client, kind):
    X = sample()
    options = {"covariance_type": kind, "random_state": 0}
    array = da.from_array(X, chunks=(900, 2))
    pure = MomentMixture(3, **options).fit(X)
    there = MomentMixture(3, **options).fit(array)
    assert_same(pure, there)
    assert there.n_passes_ == 1
    assert_same(*(GaussianMixture(3, **options).fit(rows) for rows in (X, array)))  # all are drawn
    options["prior"] = 5.0  # else it is learned from the rows that are drawn
    polished = GaussianMixture(3, **options).fit(X)
    with few_drawn(1500):
        there = GaussianMixture(3, **options).fit(array)
    assert there.n_passes_ == 1 + there.n_iter_  # one look, and scoring steps
    assert there.n_iter_ < 8
    assert there.log_posterior_ == pytest.approx(polished.log_posterior_, abs=1e-5)
    np.testing.assert_allclose(there.means_, polished.means_, atol=0.02)


@contextmanager
def few_drawn(rows):
    """Searches look at so many rows, and the others stay where they are."""
    with mock.patch("momentmix.rows.elsewhere.draw_size", return_value=rows):
        yield


def test_the_search_is_that_in_memory(client):
    """Eight clusters on a ring, where one start of EM seldom finds all, from a draw of the rows."""
    angles = 2 * np.pi * np.arange(8) / 8
    centres = np.column_stack([6 * np.cos(angles), 6 * np.sin(angles)])
    X = Mixture(np.full(8, 1 / 8), centres, np.ones((8, 2)), "diag").sample(20_000, 0)[0]
    here = GaussianMixture(8, prior=5.0, random_state=0).fit(X)
    with few_drawn(4000):
        there = GaussianMixture(8, prior=5.0, random_state=0).fit(
            da.from_array(X, chunks=(2000, 2))
        )
    assert there.log_posterior_ == pytest.approx(here.log_posterior_, abs=1e-5)
    assert there.n_passes_ <= 7


def test_a_draw_does_not_depend_on_the_blocks(client, rng):
    """Rows of a draw count for all rows on average, by weight, and few of them travel."""
    X, w = sample(), rng.uniform(0, 3, 6000)
    rows = BlockData(DaskRows(da.from_array(X, chunks=(1000, 4)), w))
    with few_drawn(2000):
        draw = rows.look(2)[1]
    assert not draw.whole
    assert 500 < len(draw.rows) <= 2000
    assert draw.counts.sum() == pytest.approx(w.sum(), rel=0.05)
    means = draw.counts @ draw.rows.X / draw.counts.sum()
    np.testing.assert_allclose(means, w @ X / w.sum(), atol=0.4)
    every = rows.look(2)[1]
    assert every.whole
    np.testing.assert_allclose(np.sort(every.counts), np.sort(w))


def test_many_features_are_read_at_every_step(client):
    X = sample(n=40, p=2000)
    options = {"covariance_type": "diag", "random_state": 0, "n_init": 1, "moments": "samples"}
    array = da.from_array(X, chunks=(500, 40))
    here = MomentMixture(3, **options).fit(X)
    there = MomentMixture(3, **options).fit(array)
    assert_same(here, there)
    assert there.n_passes_ >= there.n_iter_ + 2
    spectral = MomentMixture(3, init="spectral", **options).fit(array)
    order = np.argsort(spectral.means_[:, 0])  # its last direction is noise, and labels follow it
    np.testing.assert_allclose(
        spectral.means_[order], here.means_[np.argsort(here.means_[:, 0])], atol=1e-3
    )


def test_batches_may_be_on_the_cluster(client):
    X = sample()
    stream = MomentMixture(3, random_state=0)
    stream.partial_fit(da.from_array(X[:4000], chunks=(1000, 4))).partial_fit(X[4000:])
    assert stream.moments_.count == 6000
    assert_same(stream, MomentMixture(3, random_state=0).fit(X))


def test_predictions_stay_on_the_cluster(client):
    X = sample()
    array = da.from_array(X, chunks=(1000, 4))
    table = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=4)
    fit = GaussianMixture(3, random_state=0).fit(table)
    assert fit.feature_names_in_.tolist() == list("abcd")
    for data in (array, table):
        labels, densities = fit.predict(data), fit.score_samples(data)
        assert isinstance(labels, da.Array)
        np.testing.assert_array_equal(labels.compute(), fit.mixture_.log_joint(X).argmax(axis=1))
        np.testing.assert_allclose(densities.compute(), fit.mixture_.log_prob(X))
        assert fit.score(data) == pytest.approx(fit.mixture_.log_prob(X).mean())
        assert fit.predict_proba(data).compute().sum(axis=1) == pytest.approx(np.ones(6000))
        frame = pd.DataFrame(X, columns=list("abcd"))
        assert fit.bic(data) == pytest.approx(fit.bic(frame))
        assert fit.aic(data) == pytest.approx(fit.aic(frame))
    with pytest.raises(ValueError, match="expecting 4 features"):
        fit.predict(array[:, :2])


def test_empty_blocks_and_columns_of_other_kinds(client):
    frame = pd.DataFrame({"a": np.arange(90), "b": np.arange(90) % 2 == 0})
    table = dd.from_pandas(frame, npartitions=3)
    table = table.map_partitions(lambda part: part[part.index > 40])
    fit = GaussianMixture(1).fit(table)
    assert fit.means_[0] == pytest.approx([65, frame["b"][41:].mean()])
    assert fit.predict(table).compute().shape == (49,)
    assert fit.predict_proba(table).compute().shape == (49, 1)
    with pytest.raises(ValueError, match="the columns are b, a, but were a, b in fit"):
        fit.score(table[["b", "a"]])


def test_polish_recovers_from_a_flat_moment_estimate(client, rng):
    """Few rows: a covariance of the moment estimate ends at the floor, the polish does not."""
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 4])
    here = GaussianMixture(2, random_state=0).fit(X)
    there = GaussianMixture(2, random_state=0).fit(da.from_array(X, chunks=(200, 2)))
    assert there.lower_bound_ > here.lower_bound_ - 1e-3


def test_rows_do_not_travel(client):
    """What comes back from the workers is a small part of the data."""
    array = da.random.default_rng(0).normal(size=(400_000, 4), chunks=(20_000, 4))
    before = bytes_between(client)
    MomentMixture(2, random_state=0).fit(array)
    moved = bytes_between(client) - before
    assert moved < 0.01 * 8 * 400_000 * 4


def bytes_between(client):
    """Bytes that workers have sent to each other so far."""

    def sent(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total

    return sum(client.run(sent).values())


def test_a_worker_killed_in_the_middle_of_the_pass(client):
    X = sample()
    want = MomentTensors.from_samples(X, 4)
    with Killed(client, after=0.4):
        got = MomentTensors.from_samples(made_slowly(X, 24, 0.15), 4)
    assert got.count == 6000
    np.testing.assert_allclose(got.tensor(4), want.tensor(4), rtol=1e-11)


def test_a_worker_killed_in_the_middle_of_the_fit(client):
    X = sample(n=12, p=2000)
    options = {"covariance_type": "diag", "random_state": 0, "n_init": 1, "moments": "samples"}
    here = MomentMixture(3, **options).fit(X)
    start = {"means_init": here.means_, "weights_init": here.weights_,
             "covariances_init": here.covariances_}  # fmt: skip
    options = {"covariance_type": "diag", "prior": 2.0, "random_state": 0}
    polished = GaussianMixture(3, **options, **start).fit(X)
    with Killed(client, after=0.5), few_drawn(300):  # while it climbs, pass by pass
        there = GaussianMixture(3, **options, **start).fit(made_slowly(X, 12, 0.1))
    assert_same(polished, there, atol=1e-6)


def test_a_block_that_raises_surfaces_its_own_error(client):
    X = sample()

    def broken():
        raise RuntimeError("disk 7 is gone")

    bad = da.concatenate(
        [
            da.from_array(X[:3000], chunks=(1000, 4)),
            da.from_delayed(dask.delayed(broken)(), (1000, 4), dtype=float),
        ]
    )
    with pytest.raises(RuntimeError, match="disk 7 is gone"):
        GaussianMixture(3, random_state=0).fit(bad)
    X[4321, 2] = np.inf
    with pytest.raises(ValueError, match="block 4 of X: row 321, column 2 of X is inf"):
        GaussianMixture(3, random_state=0).fit(da.from_array(X, chunks=(1000, 4)))


def test_bad_input(client):
    X = da.from_array(sample(), chunks=(1000, 4))
    table = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "city": ["x", "y"]}), npartitions=1)
    with pytest.raises(ValueError, match="columns city do not hold numbers"):
        GaussianMixture(2).fit(table)
    with pytest.raises(ValueError, match="two dimensions"):
        GaussianMixture(2).fit(X[:, 0])
    with pytest.raises(ValueError, match="with the 6 blocks of X"):
        GaussianMixture(2).fit(X, sample_weight=da.ones(6000, chunks=3000))
    unknown = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0]}), npartitions=1)
    with pytest.raises(ValueError, match="known block lengths"):
        GaussianMixture(1).fit(unknown, sample_weight=np.ones(2))


def test_without_a_cluster_dask_runs_here():
    X = sample(p=1000)
    with dask.config.set(scheduler="synchronous"):
        there = MomentMixture(3, random_state=0).fit(da.from_array(X, chunks=(100, 4)))
    assert_same(there, MomentMixture(3, random_state=0).fit(X))
