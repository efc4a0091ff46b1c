"""When a device had nothing to do, what the CPU was doing meanwhile, and what that usually means."""

import re
from dataclasses import dataclass

import numpy as np

from steptime.trace.columns import UNKNOWN
from steptime.trace.intervals import between, covered
from steptime.trace.kernels import LAUNCH, launch_of
from steptime.trace.kinds import LABEL, ON_CPU, ON_DEVICE, OPERATOR, PYTHON, RUNTIME
from steptime.trace.question import need
from steptime.trace.steps import STEP, WAIT

RANKED = 10
SYNCHRONISES = re.compile(r"Synchronize$|^aten::(_local_scalar_dense|item|nonzero)$")
NOTHING = -2
BLOCKS = 100.0  # microseconds: a launch takes a few; a call that lasts longer waits for something
MOST = 0.5  # of a gap: what fills less does not explain it


@dataclass(frozen=True)
class Gap:
    """A stretch of the span in which a device did nothing.

    start: microseconds. ms: its length. at_edge: whether it touches the span's start or end.
    cpu: the deepest operator or label over its middle, on the thread that launched the work which ends it; None where
    none is. python: likewise the deepest Python function. cause: a guess at why.
    """

    device: str
    start: float
    ms: float
    at_edge: bool
    cpu: str | None
    python: str | None
    cause: str

    @property
    def end(self):
        return self.start + 1e3 * self.ms


def gaps(trace):
    """The longest Gaps of all devices, the longest first; those at the span's edges included."""
    whole, found = need(trace, "span"), []
    for device, merged in need(trace, "unions").items():
        start, end = between(*merged, whole.start, whole.end)
        longest = np.argsort(start - end, kind="stable")[:RANKED]
        found += [(float(end[place] - start[place]), device, float(start[place])) for place in longest]
    found.sort(key=lambda gap: -gap[0])
    return tuple(_explain(trace, device, start, start + length) for length, device, start in found[:RANKED])


def _explain(trace, device, start, end):
    launch = _ending_launch(trace, device, end)
    middle = (start + end) / 2
    over = trace.spans[(trace.spans.start <= middle) & (trace.spans.end > middle)]
    named = over[np.isin(over.kind, (OPERATOR, LABEL)) & ~np.isin(over.name, list(trace.matches(STEP)))]
    lane = trace.spans.lane[launch] if launch >= 0 else _likely_launcher(trace, named.lane)
    thread, over, named = (those[those.lane == lane] for those in (trace.spans, over, named))
    edge = start <= trace.span.start or end >= trace.span.end
    cpu, python = (trace.names[those.name[-1]] if len(those) else None for those in (named, over.of(PYTHON)))
    cause = (
        "the device had finished: nothing more was launched" if launch == NOTHING else _cause(trace, thread, start, end)
    )
    return Gap(device, start, (end - start) / 1e3, edge, cpu, python, cause)


def _ending_launch(trace, device, end):
    """The place of the call that launched the work which ends a gap; UNKNOWN, or NOTHING where no work follows."""
    spans = trace.spans
    work = np.flatnonzero(np.isin(spans.kind, ON_DEVICE) & (spans.device == trace.devices.index(device)))
    following = work[np.searchsorted(spans.start[work], end, "left") :][:1]
    return launch_of(trace, spans[following])[0] if len(following) else NOTHING


def _likely_launcher(trace, occupied):
    """The thread that launches most of those that do something just then, or of all; without launches, does most."""
    calls = trace.spans.of(RUNTIME)
    launches = calls[np.isin(calls.name, list(trace.matches(LAUNCH)))]
    for spans in (launches[np.isin(launches.lane, occupied)], launches, calls, trace.spans.of(*ON_CPU)):
        if len(spans):
            return np.bincount(spans.lane).argmax()
    return UNKNOWN


def _cause(trace, thread, start, end):
    """What usually makes such a gap, as a hedged sentence."""

    def part(spans):
        return covered(spans.start, spans.end, start, end) / (end - start)

    cpu = trace.spans.of(*ON_CPU)
    if not len(cpu):
        return "unknown: the CPU was not recorded"
    if part(cpu[np.isin(cpu.name, list(trace.matches(WAIT)))]) > MOST:
        return "probably data: the loop waits for the DataLoader"
    busy = thread[(thread.start < end) & (thread.end > start)]
    waits = busy[np.isin(busy.name, list(trace.matches(SYNCHRONISES)))]
    if part(waits) > MOST or (waits.start <= start).any():
        name = trace.names[waits.name[0]]
        return f"probably synchronisation: the CPU waited in {name}, so nothing was launched ahead"
    calls = busy.of(RUNTIME)
    longest = calls[calls.duration.argmax()] if len(calls) else None
    if (
        longest is not None
        and longest.duration > BLOCKS
        and covered(longest.start, longest.end, start, end) / (end - start) > MOST
    ):
        name, ms = trace.names[longest.name], longest.duration / 1e3
        if trace.steps and start < trace.steps[0].end:
            return f"probably a first call: one {name} took {ms:.3g} ms in the first step recorded"
        return f"probably a call that blocks: one {name} took {ms:.3g} ms"
    if not len(busy.of(OPERATOR, RUNTIME)):
        return "perhaps Python: no operator ran on the thread that launches"
    return "probably Python or launch: the CPU was still preparing what it launched next"
