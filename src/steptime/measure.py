"""The clock: how long a call takes, read so that the clock can resolve it, with the device at rest."""

import gc
import io
import os
import threading
import weakref
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import repeat
from statistics import median, quantiles
from time import perf_counter, thread_time
from typing import NamedTuple

from steptime.machine import SCHEDULER, synchronise
from steptime.observe import observe
from steptime.units import duration

try:
    import resource
except ImportError:  # on Windows, which has no SCHEDULER either
    resource = None

SHORTEST = 200e-6
"""Seconds: no shorter stretch is read off the clock, so that reading it (about 50 ns) costs nothing that shows."""


class Reading(NamedTuple):
    """A stretch of calls, in seconds: wall time, and how long of it others had the core that the caller wanted."""

    wall: float
    waited: float


class Stopwatch:
    """Times stretches of calls on the wall clock.

    CUDA or MPS work is waited for before each look at the clock. The garbage collector waits until a stretch is over.
    """

    def __init__(self):
        self._thread, self._scheduler = threading.get_ident(), None
        if SCHEDULER.exists():
            self._scheduler = SCHEDULER.open("rb", buffering=0)
            weakref.finalize(self, self._scheduler.close)

    def __call__(self, function, arguments, calls):
        """Make `calls` calls in a row; a Reading of all of them together."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            synchronise()
            before, computed, start = self._scheduled(), thread_time(), perf_counter()
            for _ in repeat(None, calls):
                function(*arguments)
            synchronise()
            wall, computed, after = perf_counter() - start, thread_time() - computed, self._scheduled()
            return Reading(wall, _waited(wall, computed, before, after))
        finally:
            if collecting:
                gc.enable()

    def now(self):
        """The time on its clock, in seconds from some moment on."""
        return perf_counter()

    def calls_for(self, function, arguments, stretch=SHORTEST):
        """How many calls last `stretch` seconds: a power of two, and twice in a row, lest a pause pass for work."""
        calls = 1
        while min(self(function, arguments, calls).wall for _ in range(2)) < stretch:
            calls *= 2
        return calls

    def _scheduled(self):
        """(seconds in line for a core, rests taken) by this thread so far; None where the system does not tell."""
        if self._scheduler is None or threading.get_ident() != self._thread:
            return None
        queued = int(os.pread(self._scheduler.fileno(), 64, 0).split()[1]) / 1e9
        return queued, resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _waited(wall, computed, before, after):
    """Seconds of a stretch in which the thread wanted a core and had none.

    One that never rested, for a sleep, a lock or a disk, wanted it all the time; what it did not compute, others had,
    be it a core's other threads or the machine's host. Of one that rested only its time in line is known.
    """
    if before is None:
        return 0.0
    idle = max(wall - computed, 0.0)
    return idle if after[1] == before[1] else min(after[0] - before[0], idle)


@dataclass(frozen=True)
class Sample:
    """How long one function takes. All times in seconds of wall time per call.

    first: the first call, one-off costs included, which `times` leaves out.
    times: one number a stretch, in the order they came.
    calls: how many calls a stretch is made of, so that the clock's resolution does not matter.
    """

    first: float
    times: tuple
    calls: int

    @property
    def n(self):
        """How many stretches were read."""
        return len(self.times)

    @property
    def median(self):
        return median(self.times)

    @property
    def spread(self):
        """(low, high): the quartiles, between which the middle half of the times lies."""
        if self.n < 2:
            return self.times[0], self.times[0]
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return low, high

    def __repr__(self):
        low, high = self.spread
        each = f" of {self.calls:,} calls" if self.calls > 1 else ""
        middle = f"middle half {duration(low)} to {duration(high)}"
        return f"{duration(self.median)} ({middle}, {self.n} readings{each}) · first call {duration(self.first)}"


def bench(function, *arguments, seconds=0.5):
    """Time `function(*arguments)`: the first call apart, then one reading after the other.

    seconds: to be spent on readings after the first call; at least one is taken. Ctrl-C ends it and keeps them.
    Raises TypeError for what is no function or returns before its work is done, ValueError where the function changes
    its arguments or `seconds` is not above 0, RuntimeError where the function raises.
    """
    if not callable(function):
        raise TypeError(f"bench needs a function first, got a {type(function).__name__}: pass it without calling it.")
    if not seconds > 0:
        raise ValueError(f"bench: seconds must be above 0, not {seconds!r}.")
    seen, stopwatch, times = observe(function, arguments), Stopwatch(), []
    with redirect_stdout(io.StringIO()) if seen.printed else nullcontext():
        calls = stopwatch.calls_for(function, arguments) if seen.seconds < 1 else 1
        start = perf_counter()
        try:
            while not times or perf_counter() - start < seconds:
                times.append(stopwatch(function, arguments, calls).wall / calls)
        except KeyboardInterrupt:
            if not times:
                raise
    return Sample(seen.seconds, tuple(times), calls)
