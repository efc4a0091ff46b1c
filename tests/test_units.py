"""Times and ratios as a person writes them."""

import math

import pytest

from steptime.units import duration, times


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ns"),
        (121e-9, "121 ns"),
        (999.4e-9, "999 ns"),
        (999.6e-9, "1.00 µs"),
        (41.23e-6, "41.2 µs"),
        (9.8e-3, "9.80 ms"),
        (0.9996, "1.00 s"),
        (75, "75.0 s"),
        (3600, "3,600 s"),
    ],
)
def test_duration(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0.4217, "0.422x"), (1, "1.00x"), (9.996, "10.0x"), (239.7, "240x"), (14_321, "14,300x"), (math.inf, "infx")],
)
def test_times(ratio, shown):
    assert times(ratio) == shown
