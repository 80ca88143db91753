"""Bad input: each case works, or raises an error that names the argument and the remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import momentmix as mm
from momentmix.summary import FitSummary
from zoo import cases

EYE = np.eye(2)
NAN = [[np.nan, 0.0]]


def mixture(
    weights=(0.5, 0.5), means=((0.0, 0.0), (1.0, 1.0)), covariances=(EYE, EYE), kind="full"
):
    return mm.Mixture(weights, means, covariances, kind)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"weights": [0.5, 0.6]}, r"weights must sum to 1, but sum to 1\.1; divide"),
        ({"weights": [1.5, -0.5]}, "weights must not be negative"),
        ({"weights": [1.0]}, r"weights must have shape \(2,\)"),
        ({"weights": [np.nan, 1.0]}, "weights must be finite"),
        ({"weights": 1.0}, "weights must have 1 dimension"),
        ({"means": [0.0, 1.0]}, "means must have 2 dimension"),
        ({"means": [[0.0, np.inf], [0.0, 0.0]]}, "means must be finite"),
        ({"means": np.zeros((0, 2))}, "means must have at least one row"),
        ({"means": [[0.0], [0.0, 1.0]]}, "means cannot be read as an array"),
        ({"covariances": EYE}, r"covariances must have shape \(2, 2, 2\)"),
        ({"covariances": [EYE, [[1, 0.5], [0.4, 1]]]}, "covariances must be symmetric"),
        ({"covariances": [EYE, [[1, 2.0], [2.0, 1]]]}, "covariances must be positive semidefinite"),
        ({"covariances": [EYE, EYE * np.nan]}, "covariances must be finite"),
        ({"covariances": [1.0, -1.0], "kind": "spherical"}, "covariances must not be negative"),
        ({"covariances": [[1.0, -1.0]] * 2, "kind": "diag"}, "smallest variance is -1"),
        ({"covariances": [[1.0, 3.0], [3.0, 1.0]], "kind": "tied"}, "positive semidefinite"),
        ({"kind": "banana"}, "covariance_type must be one of"),
    ],
)
def test_mixture(arguments, match):
    with pytest.raises(ValueError, match=match):
        mixture(**arguments)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([["a", "b"], ["c", "d"]], "means must hold numbers"),
        (np.array([[1j, 0], [0, 0]]), "means must hold real numbers"),
        (scipy.sparse.csr_array(EYE), "means is a sparse matrix"),
        (np.ma.masked_array(EYE, mask=EYE), "means must be finite"),
        ([np.ma.masked_array([0.0, 1.0], mask=[True, False])] * 2, "means must be finite"),
        (np.zeros((2, 2), "M8[D]"), r"means holds dates or durations \(datetime64\[D\]\)"),
        (np.ma.masked_array(EYE + 0j), "means must hold real numbers"),
        (None, "means must have 2 dimension|means must hold numbers"),
        ({"a": [0.0]}, "means must hold numbers"),
        ([[None, 0.0], [0.0, 0.0]], "means must hold numbers|means must be finite"),
    ],
)
def test_what_is_not_numbers(value, match):
    with pytest.raises((TypeError, ValueError), match=match):
        mixture(means=value)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"X": np.zeros((0, 2))}, "X must have at least one row"),
        ({"X": np.zeros((2, 0))}, "X must have at least one row"),
        ({"X": np.zeros(3)}, "X must have 2 dimension"),
        ({"X": NAN}, "X must be finite.*drop or fill"),
        ({"X": [[np.inf, 0.0]]}, "X must be finite"),
        ({"weights": [0.5, 0.5, 0.5]}, "weights must sum to 1"),
        ({"weights": [0.5, 0.5]}, r"weights must have shape \(3,\)"),
        ({"weights": [2.0, -0.5, -0.5]}, "weights must not be negative"),
        ({"noise_covariance": -1.0}, "noise_covariance must not be negative"),
        ({"noise_covariance": np.ones((2, 5))}, "noise_covariance must be a scalar or have shape"),
        ({"noise_covariance": [[1.0, 2.0], [2.0, 1.0]]}, "noise_covariance must be positive semi"),
        ({"noise_covariance": [[1.0, 0.5], [0.0, 1.0]]}, "noise_covariance must be symmetric"),
        ({"noise_covariance": np.nan}, "noise_covariance must be finite"),
    ],
)
def test_samples(arguments, match):
    with pytest.raises(ValueError, match=match):
        mm.Samples(**{"X": np.arange(6.0).reshape(3, 2), **arguments})


@pytest.mark.parametrize(
    "order", [-1, 2.5, 3.0, "3", None, True, [], [np.nan], [[1.0, 2.0]], [0, "a"]]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda order: mm.inner(mixture(), mixture(), order),
        lambda order: mm.inner_grad(mixture(), mixture(), order),
        lambda order: mm.squared_distance(mixture(), mixture(), order),
        lambda order: mm.contract(mixture(), [1.0, 2.0], order),
        lambda order: mm.contract_grad(mixture(), [1.0, 2.0], order),
        lambda order: mm.dense_moment(mixture(), order),
    ],
)
def test_orders(call, order):
    with pytest.raises((TypeError, ValueError), match="order"):
        call(order)


def test_a_tensor_has_one_order():
    with pytest.raises(TypeError, match="order must be a whole number here"):
        mm.dense_moment(mixture(), [0.0, 1.0])


@pytest.mark.parametrize("order", [np.int64(2), np.uint8(2), torch.tensor(2), np.array(2)])
def test_whole_numbers_of_other_kinds(order):
    assert mm.inner(mixture(), mixture(), order) == mm.inner(mixture(), mixture(), 2)


@pytest.mark.parametrize(
    "weights", [(0, 1, 2), np.array([0, 1, 2]), torch.tensor([0.0, 1.0, 2.0]), pd.Series([0, 1, 2])]
)
def test_weights_over_orders_of_other_kinds(weights):
    assert mm.inner(mixture(), mixture(), weights) == mm.inner(mixture(), mixture(), [0, 1, 2])


def test_mismatched_pairs():
    one = mm.Mixture([1.0], [[0.0]], [1.0], "spherical")
    with pytest.raises(ValueError, match=r"P has 2 feature\(s\), but Q has 1"):
        mm.inner(mixture(), one, 2)
    with pytest.raises(
        TypeError, match=r"Q must be a Mixture, Samples, MomentTensors or Atoms, got ndarray; w"
    ):
        mm.inner(mixture(), np.zeros((3, 2)), 2)
    with pytest.raises(TypeError, match="P must be a Mixture, Samples, MomentTensors or Atoms"):
        mm.dense_moment(EYE, 2)
    with pytest.raises(TypeError, match="different array libraries"):
        mm.inner(mixture(), mm.Samples(torch.zeros((3, 2))), 2)
    with pytest.raises(TypeError, match="different array libraries"):
        mm.Mixture(torch.ones(1), np.zeros((1, 2)), np.ones(1), "spherical")


def test_bad_vectors():
    with pytest.raises(ValueError, match=r"A must have 2 column\(s\)"):
        mm.contract(mixture(), np.zeros((4, 3)), 2)
    with pytest.raises(ValueError, match="A must be finite"):
        mm.contract(mixture(), [np.nan, 0.0], 2)
    with pytest.raises(ValueError, match="A must have 1 or 2 dimension"):
        mm.contract(mixture(), 1.0, 2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: m.log_prob([[0.0]]), "X has 1 feature"),
        (lambda m: m.log_prob([[np.inf, 0.0]]), "X must not hold infinity; NaN is a gap"),
        (lambda m: m.sample(0), "n_samples must be at least 1"),
        (lambda m: m.marginal([]), "features must be one or more"),
        (lambda m: m.marginal([0, 0]), "features names a feature twice"),
        (lambda m: m.marginal([2]), r"features must lie in 0\.\.1"),
        (lambda m: m.marginal([0.5]), "features must be one or more"),
        (lambda m: m.marginal([True]), "mask must have 2"),
        (lambda m: m.condition([0, 1], [0.0, 0.0]), "leaves no feature"),
        (lambda m: m.condition([0], [0.0, 1.0]), r"values must hold 1 number"),
    ],
)
def test_methods_of_mixture(call, match):
    with pytest.raises(ValueError, match=match):
        call(mixture())


def test_conditioning_on_a_singular_feature():
    degenerate = mm.Mixture([1.0], [[0.0, 0.0]], [[0.0, 1.0]], "diag")
    with pytest.raises(ValueError, match="singular"):
        degenerate.condition([0], [0.0])


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.astype(np.int32),
        lambda X: X.tolist(),
        lambda X: np.asfortranarray(X),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: pd.DataFrame(X, columns=["a", "b"]),
        lambda X: pd.DataFrame(X).astype("Float64"),
        lambda X: X.astype(np.float16),
        lambda X: X.astype(object),
        lambda X: X.astype(">f8"),
    ],
)
def test_kinds_of_arrays_that_work(convert):
    X = np.arange(20.0).reshape(10, 2) % 7
    P = cases()["full"].build(np.asarray)
    want = mm.inner_grad(P, mm.Samples(X), 3)[0]
    np.testing.assert_allclose(mm.inner_grad(P, mm.Samples(convert(X)), 3)[0], want, rtol=1e-13)
    frozen = np.array(X)
    frozen.flags.writeable = False
    np.testing.assert_allclose(mm.inner_grad(P, mm.Samples(frozen), 3)[0], want, rtol=1e-13)


def test_samples_do_not_copy_but_refuse_writes():
    X = np.arange(6.0).reshape(3, 2)
    samples = mm.Samples(X)
    assert np.shares_memory(samples.X, X)
    with pytest.raises(ValueError, match="read-only"):
        samples.X[0, 0] = 1
    X[0, 0] = 5  # the caller's own array stays writable


def test_rounding_is_forgiven():
    weights = np.full(3, 1 / 3, dtype=np.float32)
    assert mm.Mixture(weights, np.zeros((3, 1), np.float32), weights, "spherical").n_components == 3
    nearly = EYE + np.array([[0.0, 1e-17], [0.0, 0.0]])
    C = mixture(covariances=[nearly, EYE]).covariances[0]
    assert np.array_equal(C, C.T)
    v = np.array([1.0, 1 / 3])
    assert mixture(covariances=[np.outer(v, v), EYE]).n_features == 2


def test_overflowing_sums_are_not_mistaken_for_infinities():
    assert mm.Samples([[1e308, 0.0], [1e308, 0.0]]).n_samples == 2


ROWS = np.concatenate([np.random.default_rng(0).normal(size=(40, 2)) + 6 * k for k in (0, 1)])
GAPS = np.where(np.arange(160).reshape(80, 2) % 23 == 3, np.nan, ROWS)
CLASSES = np.repeat([0, 1], 40)
HIDDEN = np.ma.masked_array(np.nan_to_num(GAPS, nan=-9999.0), mask=np.isnan(GAPS))
FITTED = mm.GaussianMixture(2, random_state=0).fit(GAPS)
#: Every way in for rows that may have gaps.
WAYS = {
    "fit": lambda X: mm.GaussianMixture(2, random_state=0).fit(X).means_,
    "noise": lambda X: mm.KnownCovarianceMixture(2, EYE, random_state=0).fit(X).means_,
    "predict": FITTED.predict_proba,
    "score": FITTED.score,
    "impute": FITTED.impute,
    "partial_fit": lambda X: mm.MomentMixture(2).partial_fit(X).moments_.mean,
    "fit_batches": lambda X: mm.GaussianMixture(2, random_state=0).fit_batches([X, X]).means_,
    "from_samples": lambda X: mm.MomentTensors.from_samples(X, 2, missing="pairwise").mean,
    "update": lambda X: mm.MomentTensors(2, 2, missing="pairwise").update(X).mean,
    "from_batches": lambda X: mm.MomentTensors.from_batches([X], 2, missing="pairwise").mean,
    "log_prob": FITTED.mixture_.log_prob,
    "select": lambda X: mm.select(X, [2], random_state=0).best.means_,
    "moment_test": lambda X: mm.moment_test(FITTED, X, random_state=0).tests[0].p_value,
    "summary": lambda X: FitSummary(FITTED.mixture_, "t", X=X).log_likelihood,
    "imputer": lambda X: mm.MixtureImputer(2, random_state=0).fit(X).transform(X),
    "classifier": lambda X: mm.MixtureClassifier().fit(X, CLASSES).predict_proba(X),
    "regressor": lambda X: mm.MixtureRegressor(2, random_state=0).fit(X, CLASSES).predict(X),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "gappy",
    [
        HIDDEN,
        list(HIDDEN),
        HIDDEN.filled(0.0).astype(object),
        pd.DataFrame(HIDDEN),
        pd.DataFrame(GAPS, columns=["a", "b"]).astype("Float64"),
        pl.DataFrame({"a": HIDDEN[:, 0].tolist(), "b": HIDDEN[:, 1].tolist()}),
        pa.table({"a": HIDDEN[:, 0].tolist(), "b": HIDDEN[:, 1].tolist()}),
    ],
    ids=["masked", "list of masked", "objects", "pandas", "Float64", "polars", "arrow"],
)
def test_what_is_hidden_is_a_gap(way, gappy):
    if isinstance(gappy, np.ndarray) and gappy.dtype == object:
        gappy = np.where(np.isnan(GAPS), None, GAPS)
    if way == "fit_batches" or way == "from_batches":
        gappy = HIDDEN if isinstance(gappy, list) else gappy
    np.testing.assert_allclose(WAYS[way](gappy), WAYS[way](GAPS), rtol=1e-9)


DATES = np.datetime64("2020-01-01", "ns") + np.arange(160).reshape(80, 2).astype("m8[D]")


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "dates",
    [
        DATES,
        np.where(DATES[0, 0] < DATES, DATES, np.datetime64("NaT")),
        DATES - DATES[0, 0],
        [list(row) for row in DATES],
        DATES.astype("M8[D]").tolist(),
        pd.DataFrame({"a": ROWS[:, 0], "when": DATES[:, 0]}),
        pd.DataFrame({"a": ROWS[:, 0], "when": pd.date_range("2020", periods=80, tz="UTC")}),
        pl.DataFrame({"a": ROWS[:, 0], "when": DATES[:, 0]}),
        pa.table({"a": DATES[:, 1], "when": DATES[:, 0]}),
    ],
    ids=["dates", "NaT", "durations", "list", "datetime", "pandas", "zone", "polars", "arrow"],
)
def test_dates_are_no_numbers(way, dates):
    with pytest.raises(
        (TypeError, ValueError), match=r"dates or durations|numbers.*(when|date)|float"
    ):
        WAYS[way](dates)


def test_masked_weights_and_answers():
    hidden = np.ma.masked_array(np.ones(80), mask=CLASSES)
    for refused in (
        lambda: mm.GaussianMixture(2).fit(ROWS, sample_weight=hidden),
        lambda: mm.MixtureClassifier().fit(ROWS, CLASSES, sample_weight=hidden),
        lambda: mm.MixtureRegressor(2).fit(ROWS, hidden),
        lambda: mm.MixtureRegressor(2).fit(ROWS, CLASSES).score(ROWS, hidden),
        lambda: mm.MixtureClassifier().fit(ROWS, np.ma.masked_array(CLASSES, mask=CLASSES)),
        lambda: mm.MomentTensors.from_samples(ROWS, 2, hidden),
        lambda: mm.GaussianMixture(2).fit_batches([(ROWS, hidden)]),
        lambda: mm.select(ROWS, [1], sample_weight=hidden),
        lambda: mm.Samples(HIDDEN),
        lambda: mm.GaussianMixture(2).fit(ROWS, noise_covariance=HIDDEN**2),
        lambda: FITTED.denoise(ROWS, HIDDEN**2),
    ):
        with pytest.raises(ValueError, match=r"NaN|finite|masked entries"):
            refused()
    with pytest.raises(TypeError, match="y holds dates or durations"):
        mm.MixtureRegressor(2).fit(ROWS, DATES[:, 0])


@pytest.mark.parametrize(
    "rows",
    [
        [[np.datetime64("2020-01-01"), 1.0], [np.datetime64("2021-01-01"), 2.0]],
        np.array([[np.timedelta64(1, "D"), 1.0], [np.timedelta64(2, "D"), 2.0]], dtype=object),
        pd.DataFrame({"a": pd.Series([pd.Timedelta(days=1), None], dtype=object), "b": [1.0, 2]}),
    ],
    ids=["list", "objects", "pandas"],
)
def test_dates_among_objects_are_no_numbers(rows):
    for way in (
        mm.Samples,
        mm.GaussianMixture(1).fit,
        lambda X: mm.MomentTensors.from_samples(X, 2),
    ):
        with pytest.raises(TypeError, match="dates or durations"):
            way(rows)


def test_durations_are_no_noise():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(TypeError, match="noise_covariance holds dates or durations"):
        mm.GaussianMixture(1).fit(X, noise_covariance=np.arange(20).astype("m8[s]"))


@pytest.mark.parametrize("absent", [None, pd.NA], ids=str)
def test_absent_numbers_in_lists_are_gaps_of_rows_and_refused_in_y(absent, rng):
    table = rng.normal(size=(30, 2))
    gaps = table.copy()
    gaps[3, 1] = np.nan
    rows = table.tolist()
    rows[3][1] = absent
    models = [mm.GaussianMixture(), mm.MomentMixture(), mm.MixtureImputer(1)]
    for given in (rows, np.array(rows, dtype=object)):
        for model in models:
            want = type(model)(1).fit(gaps)
            found = type(model)(1).fit(given)
            mine, its = (getattr(fit, "estimator_", fit).means_ for fit in (found, want))
            np.testing.assert_array_equal(mine, its)
        counts = mm.MomentTensors.from_samples(given, 2, missing="pairwise").presence
        np.testing.assert_allclose(counts, [1, 29 / 30])
    numbers, words = table[:, 0].tolist(), ["a", "b"] * 15
    numbers[2] = words[2] = absent
    for y in (numbers, np.array(numbers, dtype=object), pd.Series(numbers, dtype=object)):
        with pytest.raises(ValueError, match="contains NaN"):
            mm.MixtureRegressor(1).fit(table, y)
    with pytest.raises(ValueError, match="contains NaN"):
        mm.MixtureClassifier().fit(table, words)


@pytest.mark.parametrize("absent", [0, np.nan, 1])
def test_sparse_columns_of_pandas_become_dense(absent, rng):
    dense = pd.DataFrame({"a": rng.integers(0, 2, 30) * 1.0, "b": rng.normal(size=30)})
    sparse = dense.astype(pd.SparseDtype(float, absent))
    fit, want = (mm.GaussianMixture(1).fit(table) for table in (sparse, dense))
    np.testing.assert_array_equal(fit.means_, want.means_)
    np.testing.assert_array_equal(fit.predict_proba(sparse), want.predict_proba(dense))
    assert fit.feature_names_in_.tolist() == ["a", "b"]
    line = mm.MixtureRegressor(1).fit(sparse[["a"]], sparse["b"])
    np.testing.assert_array_equal(line.predict(sparse[["a"]]), line.predict(dense[["a"]]))
    twice = sparse.set_axis(["a", "a"], axis=1)
    np.testing.assert_array_equal(mm.Samples(twice).X, dense)
