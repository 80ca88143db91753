"""A real headless Chromium, with no way out to a network."""

import os
import shutil
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def executable():
    """CHROMIUM, else the system's; None for the one that Playwright brings."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


class Page:
    """A page opened from a file, with all it said and asked for while it loaded."""

    def __init__(self, browser, path, **options):
        self.said, self.asked = [], []
        self.page = browser.new_page(**options)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    @property
    def outside(self):
        return [url for url in self.asked if not url.startswith(("file:", "data:"))]

    def width(self):
        return self.page.evaluate("document.documentElement.scrollWidth")
