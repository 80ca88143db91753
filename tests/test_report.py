import re

import numpy as np
import pytest

from browser import Page, chromium
from momentmix import Mixture, MomentMixture, MomentTensors
from momentmix.report import page, write_report
from momentmix.selection import choose_components
from momentmix.summary import FitSummary, Rival

TRUTH = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 100, -3], [4, 300, -3], [9, 150, 3]],
    [[1.0, 900, 1], [1, 400, 1], [1, 100, 1]],
    "diag",
    feature_names=["width", "price in $", "<b>bold</b> & co"],
)
X, _ = TRUTH.sample(3000, 0)


def whole_summary():
    best, choices = choose_components(X, covariance_type="diag", random_state=0, most=4)
    return FitSummary(
        best.fit.mixture_.named(TRUTH.feature_names),
        "data.csv",
        X=X,
        seconds=1.25,
        choices=choices,
        rivals=[Rival("EM", best.log_likelihood - 50, 2.5)],
        notes=["The fit <did> not converge."],
    )


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
    for words in ("3,000", "Components", "How well the moments are matched", "Against EM",
                  "How many components", "Using the model", "momentmix predict model.json",
                  "The fit <did> not converge.", "<b>bold</b> & co", "price in $"):  # fmt: skip
        assert words in text
    assert opened.page.locator("figure svg").count() == 3
    assert opened.page.locator("figure svg text", has_text="price in $").count() >= 1


def test_tables_sort_by_number(browser, report):
    opened = Page(browser, report)
    table = opened.page.locator("table").first

    def column(i):
        return [float(v) for v in table.locator(f"tbody td:nth-child({i})").evaluate_all(
            "cells => cells.map(cell => cell.dataset.value)")]  # fmt: skip

    assert column(2) == sorted(column(2), reverse=True)
    head = table.locator("th").nth(4)
    head.locator("button").click()
    assert column(5) == sorted(column(5))
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(2) != sorted(column(2), reverse=True)
    head.locator("button").press("Enter")  # by keyboard too
    assert column(5) == sorted(column(5), reverse=True)
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


def test_prints(browser, report, tmp_path):
    opened = Page(browser, report, color_scheme="dark")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert len(opened.page.pdf()) > 20_000


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
    assert page(whole_summary(), "some/model.json") == text
    other = whole_summary()
    other.seconds += 1
    assert page(other, "some/model.json") != text


def test_of_moments_one_column_and_many(browser, tmp_path):
    moments = MomentTensors.from_samples(X[:, :2], 4)
    fit = MomentMixture(3, covariance_type="diag", random_state=0).fit_moments(moments)
    line = MomentMixture(2, random_state=0).fit(X[:, :1])
    wide = np.random.default_rng(0).normal(size=(400, 30)) + 3 * (np.arange(400) % 2)[:, None]
    many = MomentMixture(2, covariance_type="diag", random_state=0).fit(wide)
    for name, report, words in (
        ("moments", FitSummary(fit.mixture_, "m.npz", moments=moments), "Contours of the density"),
        ("line", FitSummary(line.mixture_, "x.csv", X=X[:, :1]), "over a histogram of the rows"),
        ("many", FitSummary(many.mixture_, "w.csv", X=wide), "Of 30 columns, the 20 in which"),
        ("model", FitSummary(TRUTH, "model"), "Ellipses hold half"),
    ):
        write_report(tmp_path / f"{name}.html", report)
        opened = Page(browser, tmp_path / f"{name}.html")
        assert opened.said == []
        assert words in opened.page.inner_text("main")
    assert "expected from sampling" not in (tmp_path / "moments.html").read_text()
