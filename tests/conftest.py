"""A limit for tests that start processes and could wait for them for ever."""

import signal

import pytest


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
