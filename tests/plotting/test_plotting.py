"""Pictures against stored ones; ``python tests/plotting/test_plotting.py`` draws them anew."""

import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.testing.compare import compare_images
from matplotlib.testing.decorators import remove_ticks_and_titles

from momentmix import GaussianMixture, Mixture, MomentTensors, Samples, plotting
from momentmix.distributions.mixture import Background
from momentmix.plotting import MixtureDisplay
from momentmix.plotting.canvas import push_apart
from momentmix.plotting.mixtures import mass_levels

IMAGES = Path(__file__).parents[1] / "images"
PLANE = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0], [4, 1], [1, 5]],
    [[[1.0, 0.6], [0.6, 1]], [[2, -0.8], [-0.8, 0.5]], [[0.3, 0], [0, 0.3]]],
    feature_names=["width", "height"],
)
SPACE = Mixture(
    [0.6, 0.4],
    [[0.0, 0, 0, 0], [3, 0, -2, 0.1]],
    [[1.0, 2, 0.5, 1], [1, 1, 1, 1]],
    "diag",
    feature_names=["a", "b", "c", "d"],
)


def rows(mixture, p=400):
    return mixture.sample(p, 0)[0]


def density():
    return plotting.plot_density(PLANE, rows(PLANE))


def density_without_rows():
    return plotting.plot_density(SPACE, features=(2, 0), levels=4)


def ellipses():
    return plotting.plot_ellipses(PLANE, rows(PLANE))


def outliers():
    background = Background(0.02, [20.0, 20.0])
    odd = Mixture(PLANE.weights, PLANE.means, PLANE.covariances, background=background)
    X = np.vstack([rows(PLANE), [[7.0, 7], [-5, 3], [60, 0], [-4, -4]]])
    return plotting.plot_ellipses(odd, X)


def marginal():
    return plotting.plot_marginal(PLANE, rows(PLANE), feature=1)


def pairs():
    return plotting.plot_pairs(SPACE, rows(SPACE), most=3)


def history():
    return plotting.plot_history(SimpleNamespace(history_=[3.0, 1.0, 0.2, 0.05, 0.0499]))


def residuals():
    return plotting.plot_moment_residuals(SPACE, Samples(rows(SPACE)))


def residuals_of_tensors():
    return plotting.plot_moment_residuals(SPACE, MomentTensors.from_samples(rows(SPACE), 3))


def recovery():
    moved = Mixture([0.25, 0.27, 0.48], PLANE.means[[2, 1, 0]] + 0.2, PLANE.covariances[[2, 1, 0]])
    return plotting.plot_recovery(moved, PLANE)


def quantiles():
    return plotting.plot_quantiles(PLANE, rows(PLANE, 300) * 1.2)


def projections():
    X = rows(SPACE)
    X[::3, 1] += 2
    return plotting.plot_projections(SPACE, X, most=2)


PICTURES = [
    density,
    density_without_rows,
    ellipses,
    outliers,
    marginal,
    pairs,
    history,
    residuals,
    residuals_of_tensors,
    recovery,
    quantiles,
    projections,
]


def draw(picture, path):
    """Without words, which differ between fonts."""
    plt.close("all")
    with matplotlib.rc_context(matplotlib.rcParamsDefault | {"backend": "Agg"}):
        axes = np.ravel(picture())
        figure = axes[0].figure
        assert all(isinstance(ax, matplotlib.axes.Axes) for ax in axes)
        remove_ticks_and_titles(figure)
        for ax in axes:
            ax.set(xlabel="", ylabel="")
            for text in ax.texts:
                text.set_text("")
            for text in ax.get_legend().get_texts() if ax.get_legend() else []:
                text.set_text("")
        figure.savefig(path, dpi=60)
    plt.close("all")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
def test_picture(picture, tmp_path):
    name = f"{picture.__name__}.png"
    draw(picture, tmp_path / name)
    difference = compare_images(str(IMAGES / name), str(tmp_path / name), tol=3)
    assert difference is None, difference


def test_pictures_differ_when_the_mixture_does(tmp_path):
    """The comparison above would see a component that has moved by a fifth of its width."""
    moved = Mixture(
        PLANE.weights, np.add(PLANE.means, [[0, 0], [0.25, 0], [0, 0]]), PLANE.covariances
    )
    X = rows(PLANE)
    draw(lambda: plotting.plot_ellipses(moved, X), tmp_path / "moved.png")
    assert compare_images(str(IMAGES / "ellipses.png"), str(tmp_path / "moved.png"), tol=3)


def test_labels_and_axes_of_ones_own():
    _, ax = plt.subplots()
    assert plotting.plot_density(PLANE, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    assert plotting.plot_ellipses(PLANE, features=(1, 0)).get_xlabel() == "height"
    nameless = Mixture([1.0], [[0.0, 0]], [[1.0, 1]], "diag")
    assert plotting.plot_density(nameless).get_ylabel() == "x1"
    plt.close("all")


def test_contours_enclose_their_share():
    """Half of the samples lie within the contour of one half."""
    big = rows(PLANE, 20_000)
    x, y = (np.linspace(lo, hi, 400) for lo, hi in ((-5, 9), (-5, 8)))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    grid = np.exp(PLANE.log_prob(points))
    level = mass_levels(grid, np.array([0.5]))[0]
    assert abs(np.mean(np.exp(PLANE.log_prob(big)) > level) - 0.5) < 0.02
    ax = plotting.plot_ellipses(PLANE, mass=(0.5,))
    X, labels = PLANE.sample(20_000, 1)
    for j, ellipse in enumerate(ax.patches):
        own = X[labels == j]
        unit = ellipse.get_patch_transform().inverted().transform(own)
        assert abs(np.mean(np.linalg.norm(unit, axis=1) < 1) - 0.5) < 0.02
    plt.close("all")


def test_components_are_numbered():
    for ax in (
        plotting.plot_density(PLANE),
        plotting.plot_ellipses(PLANE),
        plotting.plot_marginal(PLANE),
        plotting.plot_pairs(SPACE, most=2)[1, 0],
    ):
        numbers = {text.get_text() for text in ax.texts} - {""}
        assert numbers == {"0", "1"} | ({"2"} if len(numbers) == 3 else set())
    assert not list(plotting.plot_marginal(PLANE, numbers=False).texts)
    plt.close("all")


def test_numbers_do_not_hide_each_other():
    places = np.array([[0.0, 0], [0, 0], [0, 0], [5, 0], [200, 0]])
    shifts = push_apart(places, 11)
    between = np.linalg.norm((places + shifts)[:, None] - (places + shifts), axis=2)
    assert np.min(between[np.triu_indices(5, 1)]) > 10
    np.testing.assert_array_equal(shifts[4], 0)
    assert np.max(np.abs(shifts)) < 40
    assert push_apart(places[:1], 11).tolist() == [[0, 0]]


def test_colours_differ_and_show_on_light_and_dark():
    assert len(set(plotting.COLOURS)) == len(plotting.COLOURS) >= 15
    for colour in plotting.COLOURS:
        for paper in ("#ffffff", "#15181b"):
            assert contrast(colour, paper) > 2
        assert contrast(colour, plotting.text_on(colour)) > 3.2
    assert plotting.component_colour(len(plotting.COLOURS)) == plotting.COLOURS[0]


def contrast(first, second):
    """By WCAG 2: from 1 to 21."""
    lights = []
    for colour in (first, second):
        c = np.array(matplotlib.colors.to_rgb(colour))
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        lights.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(lights) / min(lights)


def test_long_names_are_cut_in_small_pictures():
    names = ["x" * 40, "y"]
    axes = plotting.plot_pairs(PLANE.named(names))
    assert axes[1, 0].get_xlabel() == "x" * 21 + "…"
    assert plotting.plot_density(PLANE.named(names)).get_xlabel() == names[0]
    plt.close("all")


def test_display():
    X = rows(SPACE)
    fit = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(fit, X)
    assert display.features == [0, 2]
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "x0"
    assert len(MixtureDisplay.from_estimator(fit, X, kind="ellipses").ax_.patches) == 4
    alone = MixtureDisplay.from_mixture(SPACE, features=[1])
    assert alone.ax_.get_xlabel() == "b"
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax
    with pytest.raises(ValueError, match="kind must be"):
        display.plot(kind="cake")
    with pytest.raises(ValueError, match="features must be one or two positions"):
        MixtureDisplay(SPACE, features=[0, 1, 2])
    with pytest.raises(TypeError, match="call fit first"):
        MixtureDisplay.from_estimator(GaussianMixture(2))
    with pytest.raises(ValueError, match="the truth has 4"):
        plotting.plot_recovery(PLANE, SPACE)
    plt.close("all")


def test_no_moment_start_is_said():
    fit = GaussianMixture(1, random_state=0).fit(rows(SPACE))
    fit.history_ = []
    assert plotting.plot_history(fit).texts[0].get_text() == "no moment start led here"
    plt.close("all")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    for one in PICTURES:
        if not wanted or one.__name__ in wanted:
            draw(one, IMAGES / f"{one.__name__}.png")


def test_a_profile_is_a_line_of_means_for_each_component():
    X = rows(SPACE)
    fit = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    ax = plotting.plot_profile(fit, X)
    _, high = fit.confidence_intervals(X)
    spread = X.std(axis=0)
    for container in ax.containers:
        line, _, (bars,) = container.lines
        j = int(container.get_label().split()[0])
        np.testing.assert_allclose(
            line.get_ydata(), (fit.means_[j] - X.mean(axis=0)) / spread, rtol=0.02, atol=0.02
        )
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        want = (high.means[j] - fit.means_[j]) / spread
        np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, want, rtol=0.05)
    assert len(ax.containers) == 2
    plain = plotting.plot_profile(SPACE)
    assert [label.get_text() for label in plain.get_xticklabels()] == ["a", "b", "c", "d"]
