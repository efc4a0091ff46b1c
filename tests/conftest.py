"""What tests of several modules need: a limit for those that could wait for ever, and a real browser."""

import os
import shutil
import signal

import pytest
from playwright.sync_api import Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]


@pytest.fixture
def time_limit():
    """Fails a test that takes over a minute, and every 5 seconds again, should its clean-up wait too.

    Windows has no such alarm, and so no limit.
    """
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def end(*_):
        pytest.fail("It took over a minute.")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 60, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        try:
            chromium = playwright.chromium.launch(executable_path=found, args=QUIET + ["--no-sandbox"] * root)
        except Error as problem:
            said = f"no Chromium here to open the book in: {str(problem).splitlines()[0]}"
            pytest.fail(said) if os.environ.get("CI") else pytest.skip(said)
        yield chromium
        chromium.close()
