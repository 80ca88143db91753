import functools
import re

import numpy as np
import pytest

from browser import Page, chromium
from momentmix import GaussianMixture, Mixture, MomentTensors, merge_components
from momentmix.report import page, write_report
from momentmix.report.evidence import choices_section
from momentmix.selection import select
from momentmix.summary import FitSummary, Origin

TRUTH = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 100, -3], [4, 300, -3], [9, 150, 3]],
    [[1.0, 900, 1], [1, 400, 1], [1, 100, 1]],
    "diag",
    feature_names=["width", "price in $", "<b>bold</b> & co"],
)
X, _ = TRUTH.sample(3000, 0)


@functools.cache
def chosen():
    found = select(X, range(1, 5), "diag", random_state=0)
    return found.chosen, found.table


def whole_summary():
    best, choices = chosen()
    return FitSummary(
        best.fit.mixture_.named(TRUTH.feature_names),
        "data.csv",
        X=X,
        seconds=1.25,
        choices=choices,
        notes=["The fit <did> not converge."],
        origin=Origin(
            command="momentmix fit '<data>.csv' -k auto",
            seed=7,
            settings={"--prior": "<auto>"},
            rows_read=3010,
            rows_dropped=10,
            gaps={"width": 4, "<b>bold</b> & co": 6},
            left_out=[
                ("<i>id</i>", "running numbers"),
                ("name", "words"),
                ("town", "words"),
                ("", "no name"),
            ],
        ),
    )


def many_components(m=15, n=2):
    """A fit of many components, without the time that fitting takes."""
    rng = np.random.default_rng(n)
    means = 40 * rng.normal(size=(m, n))
    weights = np.r_[np.full(4, 0.004), np.full(m - 4, (1 - 0.016) / (m - 4))]
    L = rng.normal(size=(m, n, n))
    names = ["a_name_that_is_rather_long_for_a_column", "in mm", *(f"sensor_{i}" for i in range(n))]
    S = L @ L.swapaxes(1, 2) + np.eye(n)
    mixture = Mixture(weights, means, S, feature_names=names[:n])
    return FitSummary(mixture, "a-table-with-a-long-name.csv", X=mixture.sample(600, 0)[0])


@pytest.fixture(scope="module")
def reports(report, tmp_path_factory):
    """Paths of pages by what is particular to them."""
    folder = tmp_path_factory.mktemp("reports")
    moments = MomentTensors.from_samples(X[:, :2], 3)
    paths = {"usual": report}
    for name, summary in (
        ("tall", many_components(15, 2)),
        ("wide", many_components(15, 30)),
        ("square", many_components(6, 13)),
        ("moments", FitSummary(TRUTH.marginal([0, 1]), "m.npz", moments=moments)),
        ("model", FitSummary(TRUTH, "model.json")),
        ("line", FitSummary(TRUTH.marginal([0]), "x.csv", X=X[:, :1])),
    ):
        paths[name] = folder / f"{name}.html"
        write_report(paths[name], summary)
    return paths


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, whole_summary(), "some/model.json")
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def test_loads_without_errors_or_outside_requests(browser, report):
    opened = Page(browser, report)
    assert opened.said == []
    assert opened.outside == []
    assert len(opened.asked) == 1 + sum(url.startswith("data:") for url in opened.asked)
    assert opened.page.title() == "3 Gaussian components in data.csv"
    text = opened.page.inner_text("main")
    for words in ("3,000", "Components", "How well the moments are matched",
                  "Does it fit",
                  "How many components", "Using the model", "momentmix predict model.json",
                  "The fit <did> not converge.", "<b>bold</b> & co", "price in $"):  # fmt: skip
        assert words in text
    assert opened.page.locator("figure svg").count() == 4
    assert opened.page.locator("figure svg text", has_text="price in $").count() >= 1


def test_tables_sort_by_number(browser, report):
    opened = Page(browser, report)
    table = opened.page.locator("#certainty table")

    def column(i):
        return [float(v) for v in table.locator(f"tbody td:nth-child({i})").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value)")]  # fmt: skip

    assert column(2) == sorted(column(2), reverse=True)
    head = table.locator("th").nth(2)
    head.locator("button").click()
    assert column(3) == sorted(column(3))
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(2) != sorted(column(2), reverse=True)
    head.locator("button").press("Enter")  # by keyboard too
    assert column(3) == sorted(column(3), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_light_and_dark(browser, report, scheme, tmp_path):
    phone = Page(browser, report, viewport={"width": 375, "height": 800}, color_scheme=scheme)
    assert phone.width() <= 375
    ink, paper = (
        [int(v) for v in re.findall(r"\d+", phone.page.evaluate(
            f"getComputedStyle(document.body).{name}"))[:3]]
        for name in ("color", "backgroundColor")
    )  # fmt: skip
    assert (np.mean(paper) > 200) == (scheme == "light")
    assert abs(np.mean(ink) - np.mean(paper)) > 150
    # Lines and words of the pictures are in the colour of the text.
    label = phone.page.locator("figure svg text").first
    fill = label.evaluate("node => getComputedStyle(node).fill")
    assert [int(v) for v in re.findall(r"\d+", fill)[:3]] == ink


#: What sticks out of the window without lying in something that scrolls and says so.
OUTSIDE = """() => [...document.querySelectorAll("main *")].filter((node) => {
  if (node.getBoundingClientRect().right <= innerWidth + 1) return false;
  const scroll = node.closest(".scroll");
  const hint = scroll && scroll.closest(".wide").querySelector(".hint");
  return !(hint && getComputedStyle(hint).display !== "none");
}).map((node) => node.outerHTML.slice(0, 80))"""
#: Scrolling parts whose hint is not shown exactly where something is out of sight.
WRONG_HINTS = """() => [...document.querySelectorAll(".scroll")].filter((node) => {
  const shown = getComputedStyle(node.closest(".wide").querySelector(".hint")).display !== "none";
  return shown !== (node.scrollWidth > node.clientWidth + 1);
}).map((node) => node.getAttribute("aria-label"))"""
#: How many tiles each row of them has.
TILES = """() => {
  const rows = {};
  for (const tile of document.querySelectorAll(".tiles li"))
    (rows[Math.round(tile.getBoundingClientRect().top)] ??= []).push(tile);
  return Object.values(rows).map((row) => row.length);
}"""


@pytest.mark.parametrize("width", [390, 1100, 1440])
def test_nothing_is_clipped_without_a_sign(browser, reports, width):
    for name, path in reports.items():
        opened = Page(browser, path, viewport={"width": width, "height": 900})
        assert opened.said == []
        assert opened.width() <= width, name
        assert opened.page.evaluate(OUTSIDE) == [], name
        assert opened.page.evaluate(WRONG_HINTS) == [], name
        tiles = opened.page.evaluate(TILES)
        assert len(set(tiles)) == 1, (name, tiles)  # no row of them is shorter than the others
        if (
            name == "wide" and width == 390
        ):  # what is out of sight can be scrolled to, and the names stay
            box = opened.page.locator("#components .scroll").first
            first = box.locator("tbody th").first
            before = first.bounding_box()["x"]
            box.evaluate("node => { node.scrollLeft = node.scrollWidth }")
            opened.page.wait_for_function("() => document.querySelector('.wide.left')")
            assert first.bounding_box()["x"] == pytest.approx(before, abs=1)
        opened.page.close()


def test_every_component_has_a_mark_of_its_own(browser, reports):
    for name in ("tall", "wide"):
        opened = Page(browser, reports[name], color_scheme="dark")
        for section in ("#components", "#certainty"):
            marks = opened.page.locator(f"{section} th .mark, {section} td:first-child .mark")
            found = marks.evaluate_all(
                "all => all.map(one => [one.innerText, getComputedStyle(one).backgroundColor])"
            )
            assert sorted(int(number) for number, _ in found) == list(range(15))
            assert len({colour for _, colour in found}) == 15
        numbers = opened.page.locator("#components svg text").all_text_contents()
        assert {str(j) for j in range(15)} <= {number.strip() for number in numbers}


def test_remarks_are_grouped(browser, reports):
    opened = Page(browser, reports["wide"])
    remarks = opened.page.locator(".remarks li").all_inner_texts()
    few = [remark for remark in remarks if "rest on few rows" in remark]
    assert len(few) == 1
    assert few[0].startswith("Components 0, 1, 2, 3,")


def test_where_it_comes_from(browser, report):
    opened = Page(browser, report)
    again, columns = (opened.page.inner_text(name) for name in ("#again", "#columns"))
    for words in ("momentmix fit '<data>.csv' -k auto", "seed\n7", "--prior\n<auto>", "1.2 s",
                  "momentmix", f"NumPy {np.__version__}", "Python 3", "scikit-learn"):  # fmt: skip
        assert words in again
    assert "Of 3,010 rows, 10 have gaps and were left out, so that 3,000 rows were used." in columns
    assert "“<i>id</i>” (running numbers), “name” and “town” (words) and one without a name." in columns  # fmt: skip  # noqa: E501
    cells = opened.page.locator("#columns tbody tr").first.locator("td")
    values = cells.evaluate_all("cells => cells.slice(1).map(cell => Number(cell.dataset.value))")
    x = X[:, 0]
    np.testing.assert_allclose(values, [x.mean(), x.std(), x.min(), np.median(x), x.max(), 4])
    assert opened.page.locator("main i, main b").filter(has_text="id").count() == 0


def test_nothing_is_said_of_what_is_not_known(reports):
    text = reports["tall"].read_text(encoding="utf-8")
    assert "Making it again" in text
    assert "<dt>seed" not in text
    assert "Left out" not in text
    assert "gaps" not in text
    assert "How surely" not in reports["moments"].read_text(encoding="utf-8")


def test_parameters_have_their_standard_errors(tmp_path):
    """And a doubt is told where components overlap too much."""
    rng = np.random.default_rng(0)
    apart = np.vstack([rng.normal(0, 1, (150, 2)), rng.normal(8, 1, (50, 2))])
    near = rng.normal(0, 1, (120, 2))
    for name, X in (("apart", apart), ("near", near)):
        gm = GaussianMixture(2, random_state=0).fit(X)
        write_report(tmp_path / f"{name}.html", FitSummary.from_estimator(gm, X))
    text = (tmp_path / "apart.html").read_text(encoding="utf-8")
    assert "How sure the parameters are" in text
    assert "75.0 % <small>69 % to 81 %</small>" in text
    assert "Not to be trusted here" not in text
    assert "Not to be trusted here" in (tmp_path / "near.html").read_text(encoding="utf-8")


def test_certainty_is_that_of_scikit_learn(browser, reports):
    import sklearn.mixture

    summary = many_components(15, 2)
    em = sklearn.mixture.GaussianMixture(15)
    em.weights_, em.means_ = summary.mixture.weights, summary.mixture.means
    em.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(summary.mixture.covariances))
    p, labels = em.predict_proba(summary.X), em.predict(summary.X)
    opened = Page(browser, reports["tall"])
    rows = opened.page.locator("#certainty tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => Number(cell.dataset.value)))"
    )
    for j, taken, mean, doubtful, _ in rows:
        own = p[labels == j, int(j)]
        assert taken == len(own)
        assert doubtful == np.sum(own < 0.8)
        np.testing.assert_allclose(mean, own.mean(), rtol=1e-7)
    words, largest = opened.page.inner_text("#certainty"), p.max(axis=1)
    assert f"{100 * np.mean(largest >= 0.9):.0f} % of the rows belong to their component" in words
    assert np.sum(largest < 0.8) > 1
    assert f"{np.sum(largest < 0.8)} rows are doubtful" in words


def test_correlations_are_those_of_the_covariances(browser, reports):
    matrices = many_components(6, 13).mixture.covariances
    r = [S / np.sqrt(np.outer(np.diag(S), np.diag(S))) for S in matrices]
    opened = Page(browser, reports["square"])
    rows = opened.page.locator("#correlations tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => Number(cell.dataset.value)))"
    )
    assert len(rows) == 10
    for j, value, _, a, b in rows:
        np.testing.assert_allclose(value, r[int(j)][int(a), int(b)])
    sizes = np.sort(np.abs([one[np.triu_indices(13, 1)] for one in r]), axis=None)[::-1]
    np.testing.assert_allclose([abs(row[1]) for row in rows], sizes[:10])
    # The covariances of the usual page are diagonal.
    assert Page(browser, reports["usual"]).page.locator("#correlations").count() == 0


def test_the_map_has_the_standardised_means(browser, report):
    mixture = whole_summary().mixture
    mean = mixture.weights @ mixture.means
    variance = mixture.weights @ (mixture.covariances + (mixture.means - mean) ** 2)
    z = (mixture.means - mean) / np.sqrt(variance)
    opened = Page(browser, report)
    cells = opened.page.locator("#apart tbody td").all_inner_texts()
    heads = [int(text) for text in opened.page.locator("#apart thead .mark").all_inner_texts()]
    names = opened.page.locator("#apart tbody th").all_inner_texts()
    for name, row in zip(names, np.reshape(cells, (3, 3)), strict=True):
        i = TRUTH.feature_names.index(name)
        shown = [float(text.replace("−", "-")) for text in row]
        np.testing.assert_allclose(shown, z[heads, i], atol=0.051)


def test_the_limit_of_the_search_is_said():
    summary = whole_summary()
    assert "It is least for 3. </p>" in choices_section(summary, "").html
    summary.choices = summary.choices[:3]
    words = "3 is the most components that were tried; more may be better still."
    assert words in choices_section(summary, "").html
    assert words in summary.remarks
    summary.choices = [choice._replace(collapsed=choice.n_components) for choice in summary.choices]
    assert "in which the fewest components have collapsed" in choices_section(summary, "").html


def test_prints(browser, report, tmp_path):
    opened = Page(browser, report, color_scheme="dark")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert len(opened.page.pdf()) > 20_000


def test_paper_has_room_for_every_table(browser, reports):
    for name, path in reports.items():
        opened = Page(browser, path, viewport={"width": 718, "height": 1000})  # A4 at 96 a inch
        opened.page.emulate_media(media="print")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 718, name


def test_names_of_parts_do_not_clash(report):
    text = report.read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 50
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    assert used <= set(ids)
    assert "http-equiv" in text
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)


def test_the_same_fit_is_the_same_page(report):
    """Fitted, summed up and drawn anew, it has the bytes of the report that was written before."""
    text = report.read_text(encoding="utf-8")
    chosen.cache_clear()
    assert page(whole_summary(), "some/model.json") == text
    other = whole_summary()
    other.seconds += 1
    assert page(other, "some/model.json") != text


def test_of_moments_one_column_and_many(browser, reports):
    for name, words in (
        ("moments", "Contours of the density"),
        ("line", "over a histogram of the rows"),
        ("wide", "Of 30 columns, the 20 in which"),
        ("model", "Ellipses hold half"),
    ):
        opened = Page(browser, reports[name])
        assert opened.said == []
        assert words in opened.page.inner_text("main")
    assert "expected from sampling" not in reports["moments"].read_text(encoding="utf-8")


def test_clusters_are_shown_where_they_were_asked_for():
    summary = whole_summary()
    assert 'id="clusters"' not in page(summary)
    summary.clusters = merge_components(summary.mixture, X, 2)
    text = page(summary)
    section = text[text.index('<section id="clusters">') :]
    section = section[: section.index("</section>")]
    assert "3 components are 2 clusters" in section
    assert section.count("<svg") == 1
    rows = re.findall(r"<tr>(.*?)</tr>", section, re.S)[1:]
    for cluster, row in enumerate(rows):
        marks = re.findall(r'class="mark"[^>]*>(\d+)<', row)
        assert [int(one) for one in marks] == summary.clusters.members(cluster)
        assert f"{np.sum(summary.clusters.labels_ == cluster):,}" in row
