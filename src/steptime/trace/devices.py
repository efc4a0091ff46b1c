"""What each device did: busy and idle, copies, and how much of copies and communication is hidden under compute."""

import re
from dataclasses import dataclass

import numpy as np

from steptime.trace.columns import UNKNOWN
from steptime.trace.intervals import covered, shared, total, union
from steptime.trace.kinds import COPY, KERNEL, ON_DEVICE
from steptime.trace.question import Absent, need

DIRECTION = re.compile(r"(?<![a-z])([HDAP])to([HDAP])(?![a-z])|(Host|Device|Peer)To(Host|Device|Peer)")
COMMUNICATION = re.compile(r"[nr]ccl", re.IGNORECASE)


@dataclass(frozen=True)
class Busy:
    """A device. busy_ms: the union of its work inside the span. idle: what is left of the span, 0 to 1."""

    busy_ms: float
    idle: float | None
    span_ms: float

    def __repr__(self):
        idle = "" if self.idle is None else f", idle {self.idle:.1%}"
        return f"busy {self.busy_ms:,.3f} of {self.span_ms:,.3f} ms{idle}"


@dataclass(frozen=True)
class Copies:
    """Copies of one direction. ms: the sum of their durations. bytes: their sum, None where no copy tells its size."""

    count: int
    ms: float
    bytes: int | None


@dataclass(frozen=True)
class Overlap:
    """On one device, in the whole file: how much time copies and communication take, and how much of it is hidden.

    Hidden is what runs while a kernel that is no communication runs; the rest delays the step.
    """

    copies_ms: float
    copies_hidden_ms: float
    communication_ms: float
    communication_hidden_ms: float


def unions(trace):
    """{device: (starts, ends)}: the union of kernels, copies and memsets on each, in microseconds."""
    work = trace.spans.of(*ON_DEVICE)
    if not len(work):
        raise Absent(_why_no_device(trace))
    return {name: union(those.start, those.end) for name, those in by_device(trace, work)}


def busy(trace):
    """{device: Busy}; work that was launched before the window counts as any other."""
    whole = need(trace, "span")

    def judge(merged):
        ms = covered(*merged, whole.start, whole.end) / 1e3
        return Busy(ms, 1 - ms / whole.ms if whole.ms else None, whole.ms)

    return {device: judge(merged) for device, merged in need(trace, "unions").items()}


def copies(trace):
    """{direction: Copies}, as HtoD; in the whole file."""
    need(trace, "unions")
    spans = trace.spans.of(COPY)
    directions = np.array([_direction(trace.names[name]) for name in spans.name], dtype=object)

    def judge(those):
        sizes = those.size[those.size != UNKNOWN]
        return Copies(len(those), float(those.duration.sum()) / 1e3, int(sizes.sum()) if len(sizes) else None)

    return {direction: judge(spans[directions == direction]) for direction in sorted(set(directions))}


def overlap(trace):
    """{device: Overlap}."""
    need(trace, "unions")
    communicates = list(trace.matches(COMMUNICATION))

    def judge(spans):
        kernels, moves = spans.of(KERNEL), spans.of(COPY)
        is_communication = np.isin(kernels.name, communicates)
        parts = kernels[~is_communication], moves, kernels[is_communication]
        compute, moved, spoken = (union(those.start, those.end) for those in parts)
        times = total(*moved), shared(moved, compute), total(*spoken), shared(spoken, compute)
        return Overlap(*(time / 1e3 for time in times))

    return {name: judge(spans) for name, spans in by_device(trace, trace.spans.of(*ON_DEVICE))}


def by_device(trace, spans):
    """(name of a device, those of `spans` that are its), the lowest number first."""
    names = sorted((trace.devices[number], number) for number in np.unique(spans.device))
    names.sort(key=lambda pair: (len(pair[0]), pair[0]))
    return [(name, spans[spans.device == number]) for name, number in names]


def _direction(name):
    match = DIRECTION.search(name)
    return f"{(match[1] or match[3])[0]}to{(match[2] or match[4])[0]}" if match else "other"


def _why_no_device(trace):
    if trace.launch_calls:
        launches = sum(trace.launch_calls.values())
        return (
            f"the GPU side was not recorded: {launches:,} launches and no GPU event (CUPTI could not start, "
            "lacked permission, or another profiler was attached)"
        )
    if trace.unknown:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in trace.unknown.most_common(3))
        return f"no GPU event of a known kind; kinds that this reader does not know: {kinds}"
    return "no GPU event: only the CPU was recorded"
