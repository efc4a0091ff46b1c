"""Kernels, the calls that launched them, and how long each took from call to start."""

import re
from dataclasses import dataclass

import numpy as np

from steptime.trace.columns import UNKNOWN
from steptime.trace.kinds import KERNEL, RUNTIME
from steptime.trace.question import Absent, need

LAUNCH = re.compile(r"launch(?!hostfunc)", re.IGNORECASE)
EDGES = (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, np.inf)


@dataclass(frozen=True)
class Kernels:
    """All kernels of the file. by_name: (name, total ms, calls), the longest total first.

    histogram: how many last from edges[i] up to edges[i + 1] microseconds.
    """

    count: int
    median_us: float
    total_ms: float
    by_name: tuple
    histogram: tuple
    edges: tuple = EDGES

    def __repr__(self):
        return f"{self.count:,} kernels, median {self.median_us:,.3g} µs, {self.total_ms:,.3f} ms in all"


@dataclass(frozen=True)
class Latency:
    """From the start of a launch call to the start of its kernel.

    median_us: over the matched kernels. negative: how many seem to start before their launch, so that the clocks of
    CPU and GPU disagree. matched, unmatched: kernels whose launch is in the file, or was before the window.
    """

    median_us: float
    negative: int
    matched: int
    unmatched: int


def kernels(trace):
    """Kernels."""
    need(trace, "unions")
    spans = trace.spans.of(KERNEL)
    if not len(spans):
        raise Absent("no kernel: the device only copied")
    names, which, calls = np.unique(spans.name, return_inverse=True, return_counts=True)
    totals = np.bincount(which, weights=spans.duration) / 1e3
    rows = zip((trace.names[name] for name in names), totals.tolist(), calls.tolist(), strict=True)
    by_name = tuple(sorted(rows, key=lambda row: (-row[1], row[0])))
    counts = np.histogram(spans.duration, EDGES)[0]
    median = float(np.median(spans.duration))
    return Kernels(len(spans), median, float(spans.duration.sum()) / 1e3, by_name, tuple(counts.tolist()))


def launch_calls(trace):
    """{name of a launching call: how many}."""
    spans = _launches(trace)
    if not len(spans):
        raise Absent("no launch call: CUDA or HIP calls were not recorded, or there were none")
    names, counts = np.unique(spans.name, return_counts=True)
    pairs = sorted(zip(counts.tolist(), names.tolist(), strict=True), reverse=True)
    return {trace.names[name]: count for count, name in pairs}


def launch_latency(trace):
    """Latency."""
    spans, matched, launches = _matched(trace)
    latencies = spans.start[matched] - launches.start
    unmatched = len(spans) - len(latencies)
    if unmatched:
        trace.health.note(f"launched before the window: {unmatched:,} of {len(spans):,} kernels")
    negative = int(np.count_nonzero(latencies < 0))
    if negative:
        trace.health.note(
            f"kernels that seem to start before their launch: {negative:,}; the clocks of CPU and GPU disagree"
        )
    return Latency(float(np.median(latencies)), negative, len(latencies), unmatched)


def kernels_per_launch(trace):
    """Kernels over the calls that launched them; a CUDA graph launches many at once."""
    _, matched, launches = _matched(trace)
    return np.count_nonzero(matched) / len(set(zip(launches.start, launches.lane, launches.correlation, strict=True)))


def launch_of(trace, spans):
    """For each of `spans` the place in trace.spans of the call that launched it, or UNKNOWN.

    Correlations are one to many, and may come again where traces were merged: then the last call before the work.
    """
    callers = np.flatnonzero((trace.spans.kind == RUNTIME) & (trace.spans.correlation != UNKNOWN))
    is_launch = np.isin(trace.spans.name[callers], list(trace.matches(LAUNCH)))
    found = _last_call_before(trace, spans, callers[is_launch])
    rest = _last_call_before(trace, spans, callers[~is_launch])
    return np.where(found != UNKNOWN, found, rest)


def _last_call_before(trace, spans, callers):
    if not len(callers):
        return np.full(len(spans), UNKNOWN)
    callers = callers[np.argsort(trace.spans.correlation[callers], kind="stable")]
    correlation, start = trace.spans.correlation[callers], trace.spans.start[callers]
    low = np.searchsorted(correlation, spans.correlation, "left")
    high = np.searchsorted(correlation, spans.correlation, "right")
    chosen = low.copy()
    for place in np.flatnonzero(high - low > 1):
        before = np.searchsorted(start[low[place] : high[place]], spans.start[place], "right")
        chosen[place] += max(0, before - 1)
    return np.where(high > low, callers[np.minimum(chosen, len(callers) - 1)], UNKNOWN)


def _launches(trace):
    calls = trace.spans.of(RUNTIME)
    return calls[np.isin(calls.name, list(trace.matches(LAUNCH)))]


def _matched(trace):
    """(kernels, mask of those whose launch is known, those launches)."""
    need(trace, "kernels")
    spans = trace.spans.of(KERNEL)
    places = launch_of(trace, spans)
    matched = places != UNKNOWN
    if not matched.any():
        raise Absent("no kernel can be joined to a launch call: no correlation, or none of the calls is in the file")
    return spans, matched, trace.spans[places[matched]]
