"""The clock: how long a call takes, read so that the clock can resolve it."""

import gc
from itertools import repeat
from time import perf_counter

SHORTEST = 200e-6
"""Seconds: a shorter stretch is not read off the clock, so that reading it (about 50 ns) costs nothing that shows."""


def seconds(function, arguments, calls):
    """Wall time of `calls` calls in a row, in seconds. The garbage collector waits until they are over."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = perf_counter()
        for _ in repeat(None, calls):
            function(*arguments)
        return perf_counter() - start
    finally:
        if collecting:
            gc.enable()


def seconds_per_call(function, arguments):
    """A first estimate of one call's wall time, from a stretch of at least SHORTEST, in seconds."""
    calls = 1
    while (elapsed := seconds(function, arguments, calls)) < SHORTEST:
        calls *= 2
    return elapsed / calls
