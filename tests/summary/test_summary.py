import numpy as np
import pytest
from scipy.integrate import quad

import oracles
from momentmix import GaussianMixture, Mixture, MomentTensors, Samples
from momentmix.goodness import comparable_order, moment_match
from momentmix.report.components import uncertainty_section
from momentmix.report.evidence import moments_section
from momentmix.selection import select, why_no_more
from momentmix.summary import FitSummary, Origin
from momentmix.summary.components import (
    components,
    correlation_matrices,
    features_by_tellingness,
    listed,
    mean_and_deviation,
    names_of,
    percent,
    readable,
    standardised_means,
    strongest_correlations,
    telling_features,
)
from momentmix.summary.fit_summary import closeness, remarks, rows_for_errors, uncertainty_of
from momentmix.summary.rows import assignment_of, column_summaries


def truth(n=2):
    rng = np.random.default_rng(0)
    L = rng.normal(size=(2, n, n))
    means = 2 * rng.normal(size=(2, n)) + 5
    return Mixture([0.3, 0.7], means, L @ L.swapaxes(1, 2) + np.eye(n))


def test_components_by_falling_weight():
    mixture = Mixture([0.2, 0.5, 0.3], [[0.0, 1], [2, 3], [4, 5]], [[4.0, 9]] * 3, "diag",
                      feature_names=["a", "b"])  # fmt: skip
    parts = components(mixture)
    assert [part.number for part in parts] == [1, 2, 0]
    np.testing.assert_array_equal(parts[0].mean, [2, 3])
    np.testing.assert_array_equal(parts[0].deviation, [2, 3])
    assert names_of(mixture) == ["a", "b"]
    assert names_of(Mixture([1.0], [[0.0, 0]], [1.0], "spherical")) == ["x0", "x1"]


@pytest.mark.parametrize("kind", ["samples", "tensors", "mixture"])
def test_moment_distances_are_those_of_the_tensors(kind, rng):
    n, order = 2, 4
    P = truth(n)
    X = truth(n).sample(50, 3)[0] + rng.normal(size=(50, n))
    atoms = [(1 / len(X), x, np.zeros((n, n))) for x in X]
    Q = Samples(X) if kind == "samples" else MomentTensors.from_samples(X, order)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    if kind == "mixture":
        Q = Mixture([0.5, 0.5], [[0.0, 1], [3, 2]], [[1.0, 2], [0.5, 1]], "diag")
        atoms = [(0.5, Q.means[j], np.diag(Q.covariances[j])) for j in range(2)]
        first, second = (oracles.moment_tensor(atoms, k) for k in (1, 2))
        mean, deviation = first, np.sqrt(np.diag(second) - first**2)

    def scaled(atoms):
        return [(w, (m - mean) / deviation, S / np.outer(deviation, deviation))
                for w, m, S in atoms]  # fmt: skip

    ours = scaled(zip(P.weights, P.means, P.covariances, strict=True))
    matches = moment_match(P, Q, order)
    assert [match.order for match in matches] == [1, 2, 3, 4]
    for match in matches:
        M, M_hat = (oracles.moment_tensor(a, match.order) for a in (ours, scaled(atoms)))
        distance = np.linalg.norm(M - M_hat)
        np.testing.assert_allclose(match.distance, distance, rtol=1e-8)
        if match.order > 1:
            np.testing.assert_allclose(match.relative, distance / np.linalg.norm(M_hat), rtol=1e-8)
        assert np.isfinite(match.noise) == (kind == "samples")


def test_expected_noise_is_what_sampling_gives():
    """Of many samples of a mixture, the mean square of the distance to its own moments."""
    mixture, p, trials = truth(), 400, 300
    squares, expected = np.zeros(3), np.zeros(3)
    for seed in range(trials):
        X, _ = mixture.sample(p, seed)
        # In the coordinates of the mixture itself, so that no error hides in the scaling.
        matches = moment_match(Samples(X), mixture, 3)
        noise = moment_match(mixture, Samples(X), 3)
        squares += [match.distance**2 for match in matches]
        expected += [match.noise**2 for match in noise]
    np.testing.assert_allclose(expected, squares, rtol=0.15)


def test_orders_that_cost_too_much_are_left_out():
    assert comparable_order(Samples(np.zeros((10, 3))), 3) == 4
    assert comparable_order(truth(), 100) == 3
    assert comparable_order(truth(), 1900) == 2
    assert comparable_order(truth(), 2500) == 1
    assert comparable_order(MomentTensors(2, 3), 2) == 3
    with pytest.raises(ValueError, match="Q holds moments up to order 3, not 4"):
        moment_match(truth(), MomentTensors.from_samples(np.eye(2), 3), 4)
    with pytest.raises(ValueError, match=r"P has 2 feature\(s\), but Q has 3"):
        moment_match(truth(), Samples(np.eye(3)))


def test_closeness_is_the_integral():
    a, b = (0.3, 1.7), (-0.5, 0.6)

    def root(x):
        return np.exp(
            sum(-0.25 * (x - m) ** 2 / v - 0.25 * np.log(2 * np.pi * v) for m, v in (a, b))
        )

    integral, _ = quad(root, -30, 30)
    for kind, covariances in (("diag", [[a[1]], [b[1]]]), ("full", [[[a[1]]], [[b[1]]]])):
        mixture = Mixture([0.4, 0.6], [[a[0]], [b[0]]], covariances, kind)
        np.testing.assert_allclose(closeness(mixture), [[1, integral], [integral, 1]], rtol=1e-9)


def test_remarks_say_what_is_wrong_and_nothing_else():
    good = Mixture([0.5, 0.5], [[0.0, 0], [5, 5]], np.ones((2, 2)), "diag")
    X, _ = good.sample(2000, 0)
    assert remarks(good, 2000, moment_match(good, Samples(X))) == []
    few = Mixture([0.003, 0.997], [[0.0, 0], [5, 5]], np.ones((2, 2)), "diag")
    assert "Component 0 rests on few rows (about 3), too few" in remarks(few, 1000)[0]
    assert remarks(few, 1_000_000) == []
    same = Mixture([0.5, 0.5], [[0.0, 0], [0.1, 0]], np.ones((2, 2)), "diag")
    assert remarks(same) == ["Components 0 and 1 nearly coincide; one component fewer may do as well."]  # fmt: skip  # noqa: E501
    flat = Mixture([0.5, 0.5], [[0.0, 0], [5, 5]], [[1.0, 1], [1.0, 1e-7]], "diag")
    assert remarks(flat)[0].startswith("Component 1 has almost no width")
    full = Mixture([0.5, 0.5], flat.means, [np.eye(2), np.ones((2, 2)) + 1e-8 * np.eye(2)])
    assert remarks(full)[0].startswith("Component 1 has almost no width")
    tied = Mixture([0.5, 0.5], flat.means, np.diag([1, 1e-7]), "tied")
    assert [r[:21] for r in remarks(tied)] == ["The covariance that a"]
    zero = Mixture([1.0], [[0.0, 0]], [0.0], "spherical")
    assert len(remarks(zero)) == 1
    alone = Mixture([1.0], [[0.0, 0]], full.covariances[1:])  # shares its covariance with nobody
    assert [r[:26] for r in remarks(alone)] == ["Component 0 has almost no "]
    one = Mixture([1.0], [X.mean(axis=0)], [X.var(axis=0)], "diag")
    found = remarks(one, len(X), moment_match(one, Samples(X)))
    assert len(found) == 1
    assert found[0].startswith("The moments of order 2 and 4 differ")


def test_one_remark_names_all_that_it_is_true_of():
    m = 15
    weights = np.r_[np.full(11, 0.002), np.full(4, 0.978 / 4)]
    means = 9.0 * np.arange(m)[:, None] + np.zeros(2)
    means[12:14] = means[11]
    mixture = Mixture(weights, means, np.r_[np.ones((9, 2)), np.full((2, 2), 1e-3), np.ones((4, 2))], "diag")  # fmt: skip  # noqa: E501
    few, flat, same = remarks(mixture, 1000)
    assert few.startswith("Components 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 rest on few rows (about ")
    assert few.count("2, ") == 10
    assert flat.startswith("Components 9 and 10 have almost no width in some direction")
    assert "set by the fit's lower limit, not by the data" in flat
    assert same == "Components 11, 12 and 13 nearly coincide; fewer components may do as well."
    two = Mixture(np.full(4, 0.25), [[0.0], [0], [9], [9]], np.ones((4, 1)), "diag")
    assert remarks(two) == ["Components 0 and 1 nearly coincide, and so do 2 and 3; fewer components may do as well."]  # fmt: skip  # noqa: E501
    told = remarks(mixture, 1000, collapsed=range(1, 11))
    assert told[0].startswith("Component 0 rests on few rows (about 2), too few")
    assert not any("reg_covar" in remark for remark in remarks(mixture, 1000))


def test_correlations_are_those_of_the_covariances():
    rng = np.random.default_rng(1)
    L = rng.normal(size=(3, 4, 4))
    S, weights, means = L @ L.swapaxes(1, 2), np.array([0.2, 0.5, 0.3]), rng.normal(size=(3, 4))
    full = Mixture(weights, means, S)
    expected = [matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix))) for matrix in S]
    np.testing.assert_allclose(correlation_matrices(full), expected, rtol=1e-12)
    found = strongest_correlations(full, 5)
    above = np.sort([abs(r[a, b]) for r in expected for a in range(4) for b in range(a + 1, 4)])
    np.testing.assert_allclose([abs(one.value) for one in found], above[::-1][:5])
    X, _ = full.sample(200_000, 0)
    for j, a, b, value, together in found:
        np.testing.assert_allclose(value, expected[j][a, b])
        np.testing.assert_allclose(together, np.corrcoef(X[:, a], X[:, b])[0, 1], atol=0.02)
    tied = Mixture(weights, means, S[0], "tied")
    assert correlation_matrices(tied).shape == (1, 4, 4)
    assert {one.component for one in strongest_correlations(tied)} == {None}
    assert correlation_matrices(Mixture([1.0], means[:1], np.ones((1, 4)), "diag")) is None
    assert strongest_correlations(Mixture([1.0], [[0.0]], [[[1.0]]])) == []
    dead = Mixture([1.0], [[0.0, 0]], [[[1.0, 0], [0, 0]]])
    np.testing.assert_array_equal(correlation_matrices(dead)[0, 0], [1, 0])


def test_certainty_is_that_of_scikit_learn(monkeypatch):
    import sklearn.mixture
    from scipy.stats import entropy

    mixture = Mixture([0.3, 0.4, 0.3], [[0.0, 0], [2, 0], [0, 9]], np.ones((3, 2)), "diag")
    X, _ = mixture.sample(500, 0)
    em = sklearn.mixture.GaussianMixture(3, covariance_type="diag")
    em.weights_, em.means_ = mixture.weights, mixture.means
    em.precisions_cholesky_ = 1 / np.sqrt(mixture.covariances)
    p, labels = em.predict_proba(X), em.predict(X)
    monkeypatch.setattr("momentmix.summary.rows._BLOCK_NUMBERS", 300)  # many blocks
    found = assignment_of(mixture, X)
    np.testing.assert_array_equal(found.taken, [np.sum(labels == j) for j in range(3)])
    doubtful = p.max(axis=1) < 0.8
    np.testing.assert_array_equal(found.doubtful, [np.sum(doubtful & (labels == j)) for j in range(3)])  # fmt: skip  # noqa: E501
    assert found.sure == np.sum(p.max(axis=1) >= 0.9)
    mean = [p[labels == j, j].mean() for j in range(3)]
    np.testing.assert_allclose(found.mean_probability, mean, rtol=1e-9)
    assert found.uncertainty == pytest.approx(1 - p.max(axis=1).mean())
    entropies = [entropy(row) for row in p]
    assert found.relative_entropy == pytest.approx(1 - np.mean(entropies) / np.log(3))
    (pair,) = found.confused_pairs()
    assert pair[:2] == (0, 1)
    np.testing.assert_allclose(pair.rows, p[labels == 0, 1].sum() + p[labels == 1, 0].sum())
    nobody = assignment_of(Mixture([1.0, 0.0], X[:2], [1.0, 1.0], "spherical"), X)
    assert nobody.taken.tolist() == [500, 0]
    assert np.isnan(nobody.mean_probability[1])
    far = assignment_of(mixture, np.array([[1e200, 0.0]]))  # on the side of the second
    assert (far.sure, far.taken.tolist()) == (1, [0, 1, 0])


def test_standardised_means_and_tellingness():
    mixture = Mixture([0.5, 0.5], [[0.0, 1, 7], [10, 1.5, 7]], np.ones((2, 3)), "diag")
    z = standardised_means(mixture)
    np.testing.assert_allclose(z[:, 0], [-5 / np.sqrt(26), 5 / np.sqrt(26)])
    np.testing.assert_array_equal(z[:, 2], 0)
    assert features_by_tellingness(mixture) == [0, 1, 2]
    assert telling_features(mixture.marginal([2, 1, 0]), 2) == [1, 2]
    point = Mixture([1.0], [[3.0]], [0.0], "spherical")
    np.testing.assert_array_equal(standardised_means(point), 0)


def test_columns_and_their_gaps():
    X = np.array([[1.0, 5], [2, np.nan], [6, 5]])
    first, second = column_summaries(X, ["a", "b"])
    assert first[:8] == ("a", 3, np.std([1, 2, 6]), 1, 2, 6, 0, 3)
    assert second[:8] == ("b", 5, 0, 5, 5, 5, 1, 3)
    origin = Origin(gaps={"x1": 4}, rows_read=6)
    summary = FitSummary(truth(), "t", X=X[[0, 2]], origin=origin)
    assert [column.gaps for column in summary.columns] == [0, 4]
    assert summary.columns[1].gap_share == 4 / 6
    (empty,) = column_summaries(np.full((2, 1), np.nan), ["e"])
    assert empty.gaps == 2
    assert readable(empty.mean) == "—"


def test_the_number_tried_last_is_said_to_be_the_last():
    X, _ = truth().sample(60, 0)

    def words(best, choices, **changes):
        choices = [c._replace(bic=float(abs(c.n_components - best)), collapsed=0) for c in choices]
        for name, value in changes.items():
            setattr(choices[-1].fit, name, value)
        return why_no_more(choices, len(X))

    choices = select(X, range(1, 4), "spherical", random_state=0).table
    assert words(2, choices) == ""
    assert words(3, choices) == "3 is the most components that were tried; more may be better still."  # fmt: skip  # noqa: E501
    assert (
        FitSummary(truth(), "t", X=X, choices=[choices[0]]).remarks[0].startswith("1 is the most")
    )
    assert words(3, choices, interrupted_=True).startswith("The search was interrupted at 3")
    choices = select(X[:7], range(1, 10), "spherical", random_state=0).table
    assert why_no_more(choices[:1], 7) == "1 is the largest number of components that so few rows allow."  # fmt: skip  # noqa: E501


def test_lists_and_shares_read_well():
    assert [listed(range(k)) for k in range(4)] == ["", "0", "0 and 1", "0, 1 and 2"]
    assert listed(range(20), 3) == "0, 1, 2 and 17 more"
    assert [percent(x) for x in (0, 0.001, 0.5, 0.999, 1)] == [
        "0 %", "less than 1 %", "50 %", "more than 99 %", "100 %"]  # fmt: skip


def test_a_collapse_is_said_once():
    summary = FitSummary(truth(), "t", X=truth().sample(500, 0)[0], collapsed=[1, 0])
    assert summary.remarks[0].startswith("Components 0 and 1 have collapsed onto so few rows")
    told = "Component(s) 0, 1 rest on few rows; BIC and AIC mean little."
    again = FitSummary(truth(), "t", X=summary.X, collapsed=[1, 0], notes=[told])
    assert again.remarks == [told]


def test_means_have_the_decimals_of_their_deviations():
    assert mean_and_deviation(554.712, 52.3) == ("555", "52")
    assert mean_and_deviation(-1234.5678, 0.296) == ("−1,234.57", "0.30")
    assert mean_and_deviation(-1e-9, 3.0) == ("0.0", "3.0")
    assert mean_and_deviation(2.5e9, 3.0) == (readable(2.5e9), "3.0")
    assert mean_and_deviation(1.5, 0.0) == ("1.500", "0")


def test_numbers_read_well():
    assert readable(0) == "0"
    assert readable(-1234.567) == "−1,235"
    assert readable(0.0123456) == "0.01235"
    assert readable(12, 2) == "12"
    assert readable(1e-9, 3) == "1.00e−09"
    assert readable(-2.5e9, 2) == "−2.5e+09"


def test_one_absurd_row_says_nothing_of_the_others():
    """It makes up a moment and its error: their ratio would be 1, whatever the mixture is."""
    X = np.random.default_rng(0).standard_normal((2000, 2))
    X[7] = 60
    matches = moment_match(Mixture([1.0], [X.mean(axis=0)], [np.cov(X.T, bias=True)]), Samples(X))
    assert np.isfinite(matches[0].noise)
    assert [np.isnan(match.ratio) for match in matches[1:]] == [True, True, True]
    summary = FitSummary(Mixture([1.0], [np.zeros(2)], [np.eye(2)]), "absurd", X=X)
    html = moments_section(summary, "").html
    assert html.count("—</td>") >= 6
    assert "one row makes up nearly all of a moment" in html
    X[7] = 0
    sound = moment_match(Mixture([1.0], [np.zeros(2)], [np.eye(2)]), Samples(X))
    assert all(np.isfinite(match.ratio) for match in sound)


def test_a_large_distance_that_sampling_explains_is_no_good_match():
    """A mixture that misses all of a fourth moment is not as good as the rows allow."""
    rng = np.random.default_rng(1)
    heavy = np.sign(rng.normal(size=(3000, 2))) * rng.pareto(2.2, (3000, 2))
    one = Mixture([1.0], [heavy.mean(axis=0)], [np.cov(heavy.T, bias=True)])
    fourth = moment_match(one, Samples(heavy))[3]
    assert fourth.relative > 0.9
    assert fourth.ratio < 1.5
    assert fourth.untold
    html = moments_section(FitSummary(one, "heavy", X=heavy), "").html
    assert "too few rows</td>" in html
    assert "do not tell if it is matched" in html
    plain = rng.normal(size=(3000, 2))  # its third moment is noise, and small
    matches = moment_match(Mixture([1.0], [np.zeros(2)], [np.eye(2)]), Samples(plain))
    assert matches[2].relative > 0.9
    assert not any(match.untold for match in matches)


def test_moments_of_very_many_features_are_not_formed():
    X = np.random.default_rng(0).standard_normal((12, 3000))
    mixture = Mixture([1.0], [X.mean(axis=0)], [X.var(axis=0)], "diag")
    assert comparable_order(mixture, 3000) == comparable_order(Samples(X), 3000) == 1
    assert [match.order for match in FitSummary(mixture, "wide", X=X).matches] == [1]


def test_standard_errors_cost_no_more_than_the_fit():
    """Rows times squares of parameters, counted; a sample of the rows gives about the same."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((900, 24)), 5 + rng.standard_normal((900, 24))])
    fit = GaussianMixture(2, random_state=0).fit(X)
    parameters = len(fit.parameter_names())
    assert parameters == 650
    assert rows_for_errors(fit, len(X)) == 0  # a few rows for each parameter, but not ten
    summary = FitSummary.from_estimator(fit, X)
    assert summary.uncertainty is None
    assert "standard_errors(X) of the estimator" in uncertainty_section(summary).html
    X = rng.standard_normal((12_000, 24)) @ rng.standard_normal((24, 24))
    one = GaussianMixture(1).fit(X)
    most = rows_for_errors(one, len(X))
    assert 5000 < most < len(X)
    assert most * 324**2 <= 1e9
    assert rows_for_errors(one, most) == most
    part, whole = uncertainty_of(one, X), one.standard_errors(X)
    np.testing.assert_allclose(part.errors.means, whole.means, rtol=0.05)
    assert not np.array_equal(part.errors.means, whole.means)
