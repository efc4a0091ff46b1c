"""Operators, labels and CUDA or HIP calls on the CPU: how often, how long in all, how long by themselves."""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from steptime.trace.kinds import LABEL, OPERATOR, RUNTIME
from steptime.trace.question import Absent
from steptime.trace.steps import STEP

ROUNDING = 0.0015
"""Microseconds: times are written to the nanosecond, so ends that differ by less are one."""


@dataclass(frozen=True)
class Operator:
    """total_us: the sum of its durations. self_us: how long of it nothing ran that began later on its thread."""

    name: str
    calls: int
    total_us: float
    self_us: float


def operators(trace):
    """Operators, the longest self time first; all steps count as one, ProfilerStep*.

    The self times of a thread add up to the time it was covered, also where a child outlives its parent.
    """
    spans = trace.spans.of(OPERATOR, LABEL, RUNTIME)
    if not len(spans):
        raise Absent("no operator: the CPU was not recorded")
    own, crossings = np.zeros(len(spans)), 0
    order = np.argsort(spans.lane, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(spans.lane[order])) + 1):
        own[places], crossed = self_times(spans.start[places].tolist(), spans.end[places].tolist())
        crossings += crossed
    if crossings:
        trace.health.note(f"{crossings:,} crossings: pairs of events on one thread of which neither holds the other")
    step_names = list(trace.matches(STEP))
    names = np.where(np.isin(spans.name, step_names), len(trace.names), spans.name)
    labels = [*trace.names, "ProfilerStep*"]
    unique, where, calls = np.unique(names, return_inverse=True, return_counts=True)
    totals, selves = (np.bincount(where, weights=column) for column in (spans.duration, own))
    rows = zip(unique.tolist(), calls.tolist(), totals.tolist(), selves.tolist(), strict=True)
    found = (Operator(labels[name], *figures) for name, *figures in rows)
    return tuple(sorted(found, key=lambda operator: (-operator.self_us, operator.name)))


def self_times(start, end):
    """([self time of each], how many pairs cross) for intervals on one thread, sorted by start, longer ones first.

    Each moment belongs to the interval that began last among those that cover it.
    """
    own, running, ends, now, crossings = [0.0] * len(start), [], [], 0.0, 0
    for place, (begins, stops) in enumerate(zip(start, end, strict=True)):
        _spend(running, own, end, now, begins)
        now = begins
        del ends[: bisect_right(ends, begins)]
        crossings += bisect_left(ends, stops - ROUNDING)
        insort(ends, stops)
        running.append(place)
    _spend(running, own, end, now, float("inf"))
    return own, crossings


def _spend(running, own, end, now, until):
    """Give the time from now on to whatever runs deepest, until `until`."""
    while running and now < until:
        deepest = running[-1]
        stops = min(end[deepest], until)
        if stops > now:
            own[deepest] += stops - now
            now = stops
        if end[deepest] <= until:
            running.pop()
