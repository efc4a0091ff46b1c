"""Steps of the training loop, the span they make up, and how long of it the loop waits for data."""

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steptime.trace.intervals import covered
from steptime.trace.kinds import COPY, KERNEL, LABEL, ON_CPU, ON_DEVICE, OPERATOR
from steptime.trace.question import Absent, need

STEP = re.compile(r"^ProfilerStep#(\d{1,15})$")
WAIT = re.compile(r"^enumerate\(DataLoader\)#.*__next__")


@dataclass(frozen=True)
class Step:
    """One ProfilerStep on the CPU side. number: as the profiler counts. start: microseconds. ms: how long it took."""

    number: int
    start: float
    ms: float

    @property
    def end(self):
        return self.start + 1e3 * self.ms


@dataclass(frozen=True)
class Span:
    """What shares are shares of. start, end: microseconds. of: in words, from what to what."""

    start: float
    end: float
    of: str

    @property
    def ms(self):
        return (self.end - self.start) / 1e3


@dataclass(frozen=True)
class StepContent:
    """What was recorded of a step. busy_ms: per device; kernels: started in it; copies_ms: of copies started in it.

    wait_ms: for the DataLoader. None where the trace does not tell.
    """

    step: Step
    busy_ms: dict | None
    kernels: int | None
    copies_ms: float | None
    wait_ms: float | None


@dataclass(frozen=True)
class Wait:
    """Waiting for the DataLoader. share: of the span, 0 to 1. each_ms: of every call of __next__, in order."""

    share: float
    ms: float
    each_ms: tuple

    def __repr__(self):
        longest = max(self.each_ms)
        return (
            f"{self.share:.1%} of the span, {self.ms:.3g} ms in {len(self.each_ms)} calls, the longest {longest:.3g} ms"
        )


def steps(trace):
    """The Steps, in the order they began; those that a profiler mirrors on a device do not count.

    Where several processes recorded steps, those of the process that recorded most.
    """
    spans = trace.spans.of(OPERATOR, LABEL)
    numbers = trace.matches(STEP)
    on_devices = np.unique(trace.spans.of(*ON_DEVICE).lane)
    spans = spans[np.isin(spans.name, list(numbers)) & ~np.isin(spans.lane, on_devices)]
    if not len(spans):
        raise Absent("no ProfilerStep: the profiler had no schedule, or step() was never called")
    processes = np.array([trace.lanes[lane][0] for lane in spans.lane])
    names, counts = np.unique(processes, return_counts=True)
    if len(names) > 1:
        trace.health.note(f"steps of {len(names)} processes: those of process {names[counts.argmax()]} are taken")
        spans = spans[processes == names[counts.argmax()]]
    rows = zip(spans.name.tolist(), spans.start.tolist(), spans.duration.tolist(), strict=True)
    found = tuple(Step(int(numbers[name][1]), start, duration / 1e3) for name, start, duration in dict.fromkeys(rows))
    overlapping = sum(later.start < step.end - 1 for step, later in pairwise(found))
    if overlapping:
        trace.health.note(f"steps that begin before the one before has ended: {overlapping}")
    recorded = {step.number for step in found}
    if missing := max(recorded) - min(recorded) + 1 - len(recorded):
        trace.health.note(f"steps between the first and the last that are not in the file: {missing:,}")
    return found


def span(trace):
    """The Span: from the first step's start to the last step's end; from first to last event where no step is."""
    if trace.steps:
        return Span(
            trace.steps[0].start, max(step.end for step in trace.steps), "first step's start to last step's end"
        )
    if not len(trace.spans):
        raise Absent("no event with a duration")
    return Span(
        float(trace.spans.start.min()), float(trace.spans.end.max()), "first event to last, as there are no steps"
    )


def step_contents(trace):
    """A StepContent for each step."""
    found = need(trace, "steps")
    kernels, copies = trace.spans.of(KERNEL), trace.spans.of(COPY)
    waits = _waits(trace)

    def content(step):
        def started(spans):
            return spans[(spans.start >= step.start) & (spans.start < step.end)]

        return StepContent(
            step,
            trace.unions and {d: covered(*u, step.start, step.end) / 1e3 for d, u in trace.unions.items()},
            len(started(kernels)) if trace.unions else None,
            float(started(copies).duration.sum()) / 1e3 if trace.unions else None,
            covered(waits.start, waits.end, step.start, step.end) / 1e3 if len(waits) else None,
        )

    return tuple(map(content, found))


def data_wait(trace):
    """The Wait for the DataLoader: the union of its __next__ on the CPU side, over the span."""
    waits, whole = _waits(trace), need(trace, "span")
    if not len(waits):
        raise Absent("no DataLoader was iterated while the profiler recorded")
    if not whole.ms:
        raise Absent("the span has no length")
    if any("MultiProcessing" in trace.names[name] for name in np.unique(waits.name)):
        trace.health.note("the DataLoader has workers: what they do is not in this trace, only the wait for them")
    waited = covered(waits.start, waits.end, whole.start, whole.end) / 1e3
    return Wait(waited / whole.ms, waited, tuple((waits.duration / 1e3).tolist()))


def _waits(trace):
    spans = trace.spans.of(*ON_CPU)
    return spans[np.isin(spans.name, list(trace.matches(WAIT)))]
