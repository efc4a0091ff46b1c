"""Any file of torch.profiler, read into columns; the questions to it are its attributes."""

from pathlib import Path

from steptime.trace.columns import Columns
from steptime.trace.devices import busy, copies, overlap, unions
from steptime.trace.gaps import gaps
from steptime.trace.health import Health, NotATrace
from steptime.trace.kernels import kernels, kernels_per_launch, launch_calls, launch_latency
from steptime.trace.memory import memory
from steptime.trace.operators import operators
from steptime.trace.parse import Parser
from steptime.trace.question import question
from steptime.trace.source import Source
from steptime.trace.steps import data_wait, span, step_contents, steps

UNESCAPED = {ord(control): f"\\{letter}" for control, letter in zip("\b\f\n\r\t", "bfnrt", strict=True)}


class Trace:
    """What a file recorded. Every question is answered once; None where the file does not tell, see `reasons`.

    path, format (the file's era), health. spans, allocations: the columns, times in microseconds from the first event.
    names, lanes (process, thread), devices: what the numbers in the columns stand for.
    reasons: {question: why its answer is None}, for those that were asked.
    """

    steps, span = question(steps), question(span)
    step_contents, data_wait = question(step_contents), question(data_wait)
    unions, busy, gaps = question(unions), question(busy), question(gaps)
    copies, overlap = question(copies), question(overlap)
    kernels, launch_calls = question(kernels), question(launch_calls)
    launch_latency, kernels_per_launch = question(launch_latency), question(kernels_per_launch)
    operators, memory = question(operators), question(memory)

    def __init__(self, path, era, health, columns, names):
        self.path, self.format, self.health, self.reasons = path, era, health, {}
        self.spans, self.allocations = columns.finish()
        self.names, self.lanes, self.devices = names, list(columns.lanes), list(columns.devices)
        self.unknown, self.cpu_allocations = columns.unknown, columns.cpu_allocations
        self._matches = {}

    def matches(self, pattern):
        """{number of a name: its match} for the names in which a compiled pattern is found."""
        if pattern not in self._matches:
            found = ((number, pattern.search(name)) for number, name in enumerate(self.names))
            self._matches[pattern] = {number: match for number, match in found if match}
        return self._matches[pattern]

    def plot(self, first=None, last=None):
        """A Picture of the timeline: the steps numbered `first` to `last`, or a typical one.

        Raises ValueError where the file has no such step.
        """
        from steptime.trace.timeline import timeline  # draws, and few ask for it

        return timeline(self, first, last)

    def __repr__(self):
        from steptime.trace.page import page

        return page(self)


def read(path):
    """The Trace in a file: JSON of torch.profiler, of any era, plain or gzip, an object or a bare list.

    A broken file gives what can be saved; `health` tells what was repaired, skipped and missing.
    Raises NotATrace, with one sentence, for a file that cannot be read or that torch.profiler did not write.
    """
    path, health = Path(path), Health()
    try:
        parser, columns = Parser(Source(path, health)), Columns(health)
        for event in parser.read():
            columns.add(event)
        if not columns.names and not columns.allocations:
            raise NotATrace(_nothing_known(parser, columns))
    except NotATrace as problem:
        raise NotATrace(f"{path} {problem}.") from None
    names = list(columns.names)
    if parser.names_unescaped:  # then the TABs of other names are no TABs either
        names = [name.translate(UNESCAPED) for name in names]
    return Trace(path, _era(parser, columns), health, columns, names)


def _era(parser, columns):
    """Which of the formats since 2019 a file has."""
    if not columns.categories:
        return "torch.autograd.profiler: no categories, the process tells CPU from GPU"
    form = " (a bare list of events)" if parser.is_list else ""
    if columns.categories.keys() & {"Operator", "Kernel", "Runtime", "Memcpy", "Memset"}:
        return f"torch.profiler of 2021: capital categories{form}"
    if "baseTimeNanoseconds" in parser.keys:
        return f"torch.profiler of today: times from a base{form}"
    return f"torch.profiler between 2021 and today: times from 1970{form}"


def _nothing_known(parser, columns):
    """Why a document with a list of events is of no use, as the end of a sentence."""
    if not parser.events:
        return "holds no events: the profiler was stopped before it recorded any"
    if columns.unknown:
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in columns.unknown.most_common(3))
        return f"holds no event of a kind that torch.profiler writes, but {kinds}: another tool wrote it"
    return f"holds no event with a time and a duration, only {parser.events:,} others"
