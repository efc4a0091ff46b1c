"""Records what was labelled, launched and done on streams, in torch.profiler's trace format.

A stream's work stands in the lane of a device, joined to its launch by a number, as a GPU's does: whatever reads
torch.profiler's traces reads these. It is a thread, not a GPU, and the file says so. Names of calls: streamLaunch,
streamSynchronize, eventSynchronize, deviceSynchronize. The format: Google's Trace Event Format, with the categories
and arguments that PyTorch's Kineto writes.
"""

import json
import os
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter

from steptime import stream
from steptime.naming import name_of

DEVICE = 0
"""The number of the device on which all streams are drawn."""


class Recorder:
    """Records while its `with` block runs, then waits for all streams. Only one records at a time.

    Call `step()` at the end of every step, as with torch.profiler.
    """

    def __init__(self):
        self._spans, self._memory, self._correlations, self._zero = [], [], count(1), 0.0
        self._step, self._step_began = 0, 0.0

    def __enter__(self):
        """Raises RuntimeError where another one records."""
        if stream.recorder is not None:
            raise RuntimeError("Another Recorder is recording: end its block first.")
        stream.recorder = self
        self._zero = self._step_began = perf_counter()
        return self

    def __exit__(self, kind, *_):
        """Raises as a stream's synchronize does, unless the block raised already."""
        try:
            if kind is None:
                stream.synchronize()
        finally:
            stream.recorder = None

    def step(self):
        """End a step and begin the next."""
        self._add("user_annotation", f"ProfilerStep#{self._step}", self._step_began, perf_counter())
        self._step, self._step_began = self._step + 1, perf_counter()

    def memory(self, reserved, allocated):
        """Note how many bytes an allocator holds now, and how many of them are in use."""
        self._memory.append((perf_counter(), reserved, allocated))

    def label(self, name):
        """A `with` block that is recorded under a name."""
        return self._timed("user_annotation", name)

    def call(self, name, correlation=None):
        """A `with` block that is recorded as a call of a stream; the correlation joins it to the work it launches."""
        return self._timed("cuda_runtime", name, **({"correlation": correlation} if correlation else {}))

    def work(self, function, lane, size=None):
        """(what records `function` in a stream's lane when it runs, its correlation). size: bytes, if it copies."""
        correlation = next(self._correlations)
        category, name = ("kernel", name_of(function)) if size is None else ("gpu_memcpy", "Memcpy HtoD")
        arguments = {"device": DEVICE, "stream": lane, "correlation": correlation}
        if size is not None:
            arguments["bytes"] = size

        def recorded(*values):
            start = perf_counter()
            try:
                function(*values)
            finally:
                self._add(category, name, start, perf_counter(), place=(DEVICE, lane), **arguments)

        recorded.__name__ = name_of(function)
        return recorded, correlation

    def export_chrome_trace(self, path):
        """Write what was recorded as JSON that torch.profiler's readers, Perfetto and chrome://tracing open."""
        names = [
            _name_of_process(DEVICE, "streams of steptime: threads, no GPU"),
            _name_of_process(os.getpid(), "python"),
        ]
        spans = [self._event(*span) for span in sorted(self._spans, key=lambda span: span[2])]
        memory = [self._memory_event(*row) for row in self._memory]
        document = {"schemaVersion": 1, "recorder": "steptime.recorder", "traceEvents": names + spans + memory}
        Path(path).write_text(json.dumps(document), encoding="utf-8")

    @contextmanager
    def _timed(self, category, name, **arguments):
        start = perf_counter()
        try:
            yield
        finally:
            self._add(category, name, start, perf_counter(), **arguments)

    def _add(self, category, name, start, end, place=None, **arguments):
        place = place or (os.getpid(), threading.get_native_id())
        self._spans.append((category, name, start, end, place, arguments))

    def _event(self, category, name, start, end, place, arguments):
        """One event of the format; microseconds, written to the nanosecond."""
        times = {"ts": self._time(start), "dur": round(1e6 * (end - start), 3)}
        return {"ph": "X", "cat": category, "name": name, "pid": place[0], "tid": place[1], **times, "args": arguments}

    def _memory_event(self, time, reserved, allocated):
        told = {"Device Type": 1, "Device Id": DEVICE, "Total Reserved": reserved, "Total Allocated": allocated}
        return {"ph": "i", "name": "[memory]", "pid": DEVICE, "tid": 0, "ts": self._time(time), "args": told}

    def _time(self, seconds):
        return round(1e6 * (seconds - self._zero), 3)


def _name_of_process(process, name):
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
