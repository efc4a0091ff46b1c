"""Times and ratios as a person writes them."""

import math


def duration(seconds):
    """Seconds with three significant digits in the unit that suits them: `41.2 µs`."""
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= 0.9995 * size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def times(ratio):
    """A ratio with three significant digits: `240x`."""
    return f"{_three_digits(ratio)}x"


def _three_digits(number):
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    mantissa, exponent = f"{number:.2e}".split("e")
    return f"{float(mantissa) * 10 ** int(exponent):,.{max(0, 2 - int(exponent))}f}"
