"""Plans and problems, and what a refused fit leaves as it was."""

import dataclasses
import signal

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from momentmix import (
    CollapseWarning,
    GaussianMixture,
    KnownCovarianceMixture,
    Mixture,
    MomentMixture,
    MomentTensors,
)
from momentmix.blocks.dask_rows import DaskRows
from momentmix.covariance import COVARIANCE_TYPES, Diagonal, Full, Spherical, covariance_type
from momentmix.estimators.gaussian_mixture import plan_likelihood
from momentmix.estimators.known_covariance import plan_known_noise
from momentmix.estimators.moment_mixture import plan_moments
from momentmix.fitting import solve as solve_module
from momentmix.fitting.em import Likelihood
from momentmix.fitting.plan import Sizes
from momentmix.fitting.problem import mixture_problem
from momentmix.fitting.solve import solve
from momentmix.rows.elsewhere import BlockData, ElsewhereRows
from momentmix.rows.memory import MemoryRows
from momentmix.support.stopping import stoppable

pytestmark = pytest.mark.usefixtures("passes_everywhere")

#: 300 rows of two features.
IN_MEMORY = Sizes(2, 300, None, "memory")


def clusters(rng, p=300):
    return rng.normal(size=(p, 2)) + np.repeat([[0, 0], [6, 0], [0, 7]], p // 3, axis=0)


def likelihood_plan(sizes=IN_MEMORY, last=None, **settings):
    return plan_likelihood(GaussianMixture(3, **settings), sizes, last)


def moment_plan(sizes=IN_MEMORY, last=None, **settings):
    return plan_moments(MomentMixture(3, **settings), sizes, last)


# Plans


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        likelihood_plan().m = 4


@pytest.mark.parametrize(
    ("place", "settings", "search", "tensors"),
    [
        ("memory", {}, "plain", False),
        ("memory", {"n_init": 5}, "plain", False),
        ("memory", {"n_init": 5, "init_params": "kmeans"}, "plain", False),
        ("memory", {"method": "newton"}, "plain", False),
        ("memory", {"n_init": 5, "init_params": "moments"}, "moments", False),
        ("memory", {"init_params": "moments"}, "estimate", True),
        ("memory", {"init_params": "moments", "method": "newton"}, "estimate", True),
        ("elsewhere", {}, "plain", False),
        ("elsewhere", {"n_init": 5, "init_params": "moments"}, "estimate", True),
        ("elsewhere", {"init_params": "moments", "method": "newton"}, "estimate", True),
    ],
)
def test_where_a_likelihood_fit_starts(place, settings, search, tensors):
    plan = likelihood_plan(Sizes(2, 300, None, place), **settings)
    assert (plan.search, plan.tensors, plan.polish) == (search, tensors, True)


@pytest.mark.parametrize(
    ("place", "settings", "tensors"),
    [
        ("memory", {}, True),
        ("memory", {"moments": "samples"}, False),
        ("elsewhere", {}, True),
        ("elsewhere", {"moments": "samples"}, False),
        ("moments", {}, False),
    ],
)
def test_what_a_moment_fit_works_on(place, settings, tensors):
    plan = moment_plan(Sizes(2, 300, None, place), **settings)
    assert (plan.search, plan.tensors, plan.polish) == ("estimate", tensors, False)


def test_a_plan_knows_the_type_and_its_prior():
    plan = likelihood_plan(covariance_type="diag")
    assert plan.kind is Diagonal
    assert plan.prior.strength == Diagonal.customary_strength(2)
    assert likelihood_plan(covariance_type="tied").prior is None
    assert likelihood_plan(prior=None).prior is None


def test_moments_that_are_known_bound_the_order():
    sizes = Sizes(2, 0, 5, "moments")
    assert moment_plan(sizes).model.order == 5
    with pytest.raises(ValueError, match="kept up to order 5"):
        moment_plan(sizes, order=6)


def test_the_plan_under_known_noise():
    plan = plan_known_noise(KnownCovarianceMixture(2, 1.0), Sizes(3), None)
    assert plan.kind is Spherical
    assert (plan.model.order, plan.prior, plan.polish) == (3, None, False)


# Problems


def test_a_problem_says_where_components_collapse(rng):
    """Too few rows, and no extent beyond the floor."""
    data = GaussianMixture(2)._data(clusters(rng), None)
    plan = plan_likelihood(GaussianMixture(2), IN_MEMORY, None)
    problem = mixture_problem(data, plan)
    assert isinstance(problem.likelihood.rows, MemoryRows)
    fit = solve(problem, plan, np.random.default_rng(0))
    assert not np.any(problem.collapse(fit).thin | problem.collapse(fit).flat)
    narrow = Full.repeat(2, 1e-12 * np.eye(2))
    parameters = fit.parameters._replace(weights=np.array([0.99, 0.01]), covariances=narrow)
    collapse = problem.collapse(dataclasses.replace(fit, parameters=parameters))
    assert collapse.thin.tolist() == [False, True]
    assert collapse.flat.tolist() == [True, True]
    np.testing.assert_allclose(collapse.counts, [297, 3])


def test_what_solve_gives_is_in_the_coordinates_of_the_problem(rng):
    X = clusters(rng) * [1, 1000]
    estimator = GaussianMixture(3, random_state=0).fit(X)
    data = estimator._data(X, None)
    plan = estimator._plan(IN_MEMORY)
    problem = mixture_problem(data, plan)
    fit = problem.restore(solve(problem, plan, np.random.default_rng(0)))
    np.testing.assert_allclose(fit.parameters.means, estimator.means_, rtol=1e-3)
    np.testing.assert_allclose(fit.log_likelihood, estimator.lower_bound_, atol=1e-4)


def test_stopped_before_it_begins_a_fit_takes_its_first_step(rng):
    data = GaussianMixture(3)._data(clusters(rng), None)
    plan = likelihood_plan()
    with stoppable():
        signal.raise_signal(signal.SIGINT)
        fit = solve(mixture_problem(data, plan), plan, rng)
    assert fit.interrupted
    assert not fit.converged
    assert np.isfinite(fit.log_likelihood)


def test_a_likelihood_of_sums_is_enough_for_em(rng):
    """On a cluster nothing but ``sums`` is asked for; the steps are those of rows in memory."""
    X = clusters(rng)
    estimator = GaussianMixture(3, random_state=0)
    plan = plan_likelihood(estimator, Sizes(2, 300, None, "elsewhere"), None)
    there = mixture_problem(BlockData(DaskRows(da.from_array(X, chunks=(100, 2)))), plan)
    fit = there.restore(solve(there, plan, rng))
    again = GaussianMixture(3, prior="auto", means_init=fit.parameters.means, random_state=0)
    np.testing.assert_allclose(again.fit(X).means_, fit.parameters.means, atol=1e-2)


def test_a_search_needs_sums_and_a_sample_alone(rng):
    """With some rows drawn, a likelihood of rows elsewhere is searched like one in memory."""
    X = clusters(rng)
    cluster = BlockData(DaskRows(da.from_array(X, chunks=(100, 2))))
    plan = likelihood_plan(Sizes(2, 300, None, "elsewhere"), prior=5.0)
    problem = mixture_problem(cluster, plan)

    drawn = MemoryRows(problem.frame.apply(X[::2]), None, Full)
    rows = ElsewhereRows(cluster.elsewhere, problem.frame, Full, len(X), drawn=drawn)
    likelihood = dataclasses.replace(problem.likelihood, rows=rows)
    problem = dataclasses.replace(problem, likelihood=likelihood, elsewhere=cluster.elsewhere)
    plan = dataclasses.replace(plan, search="plain")
    fit = problem.restore(solve(problem, plan, rng))
    here = GaussianMixture(3, prior=5.0, random_state=0).fit(X)
    assert fit.converged
    np.testing.assert_allclose(fit.log_likelihood, here.lower_bound_, atol=1e-4)
    np.testing.assert_allclose(
        sorted(fit.parameters.means.tolist()), sorted(here.means_.tolist()), atol=1e-2
    )


# Refused fits


def refusals():
    """A fit of each kind that is refused, after a stream with moments up to order 6."""
    rows = np.arange(12.0).reshape(6, 2)
    few = MomentTensors.from_samples(rows, 2)
    bad = rows.copy()
    bad[0, 0] = np.inf
    return {
        "rows": lambda e: e.fit(bad),
        "too few rows": lambda e: e.fit(rows[:1]),
        "weights": lambda e: e.fit(rows, sample_weight=-np.ones(6)),
        "moments": lambda e: e.fit_moments(few),
        "a batch": lambda e: e.partial_fit(np.ones((6, 3))),
        "a cluster": lambda e: e.fit(da.from_array(bad, chunks=(3, 2))),
        "an order on a cluster": lambda e: e.set_params(order=2).fit(da.from_array(rows)),
        "a batch on a cluster": lambda e: e.partial_fit(da.ones((6, 3))),
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", list(refusals()))
@pytest.mark.parametrize("known", [False, True])
def test_a_refused_fit_leaves_everything_as_it_was(name, known, rng):
    X = clusters(rng)
    estimator = KnownCovarianceMixture(3, 1.0) if known else MomentMixture(3)
    estimator.set_params(random_state=0).partial_fit(X)
    asked = {part: getattr(estimator, part) for part in ("means_", "weights_", "n_iter_")}
    before = dict(vars(estimator))
    with pytest.raises((ValueError, TypeError)):
        refusals()[name](estimator)
    after = dict(vars(estimator))
    before.pop("order"), after.pop("order")  # the one that the test itself has set
    assert set(after) == set(before)
    assert all(after[part] is before[part] for part in before)
    for part, value in asked.items():
        assert getattr(estimator, part) is value


def test_a_bad_noise_is_refused_before_a_cluster_is_read():
    def never(block):
        raise AssertionError("the rows were read")

    X = da.zeros((6, 2), chunks=(3, 2)).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match="covariance must"):
        KnownCovarianceMixture(2, [1.0, 2.0, 3.0]).fit(X)


def test_asking_whether_an_estimator_is_fitted_runs_no_fit(rng):
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    stream = MomentMixture(2, random_state=0).partial_fit(clusters(rng))
    check_is_fitted(stream)
    repr(stream), stream._repr_html_()
    assert "mixture_" not in vars(stream)
    with pytest.raises(NotFittedError):
        check_is_fitted(GaussianMixture())


@pytest.mark.parametrize("n", [2, 3])
def test_warm_start_after_another_covariance_type(n, rng):
    """The last solution is of another type, so the fit starts anew, even where shapes agree."""
    X = np.column_stack([clusters(rng), rng.normal(size=300)])[:, :n]
    estimator = GaussianMixture(3, covariance_type="tied", warm_start=True, random_state=0).fit(X)
    estimator.set_params(covariance_type="diag").fit(X)
    assert estimator.covariances_.shape == (3, n)
    fresh = GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    np.testing.assert_allclose(estimator.lower_bound_, fresh.lower_bound_, atol=1e-5)
    assert plan_likelihood(estimator, Sizes(n, 300, None, "memory"), estimator.mixture_).start


def test_one_component_on_a_cluster_has_its_likelihood(rng):
    X = clusters(rng)
    there = da.from_array(X, chunks=(100, 2))
    for estimator in (GaussianMixture(1), KnownCovarianceMixture(1, 9.0)):
        fit = estimator.fit(there)
        np.testing.assert_allclose(fit.lower_bound_, fit.score(X), rtol=1e-10)
        np.testing.assert_allclose(fit.means_[0], X.mean(axis=0), atol=1e-10)


def test_a_stream_asks_for_the_order_alone(rng):
    """Settings that only a fit from rows would refuse do not stop a stream."""
    stream = MomentMixture(2, moments="samples", weighting="optimal", random_state=0)
    stream.partial_fit(clusters(rng))
    assert stream.means_.shape == (2, 2)
    assert not hasattr(stream, "covariance_")


def test_a_batch_without_names_leaves_those_of_the_stream(rng):
    X = clusters(rng)
    stream = MomentMixture(2).partial_fit(pd.DataFrame(X, columns=["a", "b"]))
    stream.partial_fit(da.from_array(X, chunks=(100, 2)))
    assert stream.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_iterations_known_noise_gives_its_moment_start(rng):
    """A start of the decomposition, where GaussianMixture gives that of k-means."""
    X = clusters(rng)
    fit = KnownCovarianceMixture(3, 1.0, max_iter=0, random_state=0).fit(X)
    assert np.isfinite(fit.objective_)


# Ctrl-C


def interrupted_in(monkeypatch, owner, name, after=0):
    """Let Ctrl-C come in a method, after some calls of it."""
    original, calls = getattr(owner, name), []

    def method(self, *args, **settings):
        calls.append(None)
        if len(calls) == after + 1:
            signal.raise_signal(signal.SIGINT)
        return original(self, *args, **settings)

    monkeypatch.setattr(owner, name, method)
    return calls


@pytest.mark.filterwarnings("ignore:the fit was interrupted")
@pytest.mark.parametrize("after", [0, 5, 12])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_init": 3, "init_params": "moments"},
        {"covariance_type": "tied"},
        {"prior": "cv"},
        {"prior": None},
    ],
    ids=str,
)
def test_ctrl_c_ends_the_search_at_once(settings, after, rng, monkeypatch):
    """Within a few steps, however many starts there were to be."""
    calls = interrupted_in(monkeypatch, Likelihood, "step", after)
    fit = GaussianMixture(3, random_state=0, **settings).fit(clusters(rng))
    assert fit.interrupted_
    assert np.isfinite(fit.lower_bound_)
    assert len(calls) <= after + 3


@pytest.mark.filterwarnings("ignore:the fit was interrupted")
def test_ctrl_c_in_a_second_search_keeps_the_first(rng, monkeypatch):
    X = clusters(rng)
    first = GaussianMixture(3, prior=Full.customary_strength(2), random_state=0).fit(X)

    def cross_validate(likelihood, customary, start, rng):
        interrupted_in(monkeypatch, Likelihood, "step")
        return dataclasses.replace(customary, strength=0.5)

    monkeypatch.setattr(solve_module, "cross_validate", cross_validate)
    fit = GaussianMixture(3, prior="cv", random_state=0)
    fit.fit(X)
    assert fit.interrupted_
    np.testing.assert_allclose(fit.lower_bound_, first.lower_bound_, atol=1e-8)


@pytest.mark.filterwarnings("ignore:the fit was interrupted")
def test_ctrl_c_while_a_fit_is_scored_loses_nothing(rng, monkeypatch):
    X = clusters(rng)
    first = GaussianMixture(3, random_state=0).fit(X)
    interrupted_in(monkeypatch, Mixture, "log_prob")
    fit = GaussianMixture(3, random_state=0).fit(X)
    np.testing.assert_allclose(fit.means_, first.means_)


def test_a_mixture_is_fitted_from_its_own_moments():
    truth = Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 1.0]], [[1.0, 0.5], [0.5, 1.0]], "diag")
    fit = MomentMixture(2, covariance_type="diag", random_state=0).fit_moments(truth)
    np.testing.assert_allclose(fit.means_, truth.means, atol=1e-6)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_components_of_few_rows_are_told_for_every_type(kind, rng):
    """Under a prior they have a shape and a BIC, but it is not theirs."""
    X = np.concatenate([rng.normal(size=(200, 3)), rng.normal(60, 0.01, size=(1, 3))])
    with pytest.warns(CollapseWarning, match="rests on about 1 row"):
        fit = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
    assert len(fit.collapsed_) == 0 or covariance_type(kind).common
