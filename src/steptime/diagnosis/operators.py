"""The operators of a step: how often each is called, in which part of the step, on what, and how long it takes.

torch.profiler makes each operator longer. What that costs is measured on an operator that does next to nothing, and taken
off again.
"""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter

from steptime.trace import read
from steptime.trace.operators import self_times
from steptime.trace.steps import STEP

FORWARD, BACKWARD, OPTIMIZER, UPDATE = "forward", "backward", "optimiser", "after backward"
"""Parts of a step: before and in the backward pass; in torch.optim's step or zero_grad; after the backward pass."""

BACKWARD_NAME = "autograd::engine::evaluate_function"
NEW_GRADIENT = "torch::autograd::AccumulateGrad"
SYNCHRONISING = ("aten::item", "aten::nonzero", "aten::is_nonzero")


@dataclass(frozen=True)
class Call:
    """One call of an operator or label. start, seconds, own: as measured, in seconds. outer: no other holds it."""

    name: str
    part: str
    shapes: tuple
    types: tuple
    start: float
    seconds: float
    own: float
    outer: bool


class Operators:
    """The calls of one step, in the order they began, labels left out, with times as they are without a profiler.

    plain: seconds of an unprofiled step. optimizer: name of the torch.optim class whose step ran, or None. trace: the
    steptime.trace of all recorded steps.
    """

    def __init__(self, calls, plain, profiled, optimizer, trace):
        self.calls, self.plain, self.optimizer, self.trace = calls, plain, optimizer, trace
        self._price = _price()
        self._scale = plain / max(sum(map(self._alone, calls)), profiled - self._price * len(calls), 1e-9)

    def own(self, chosen=lambda call: True):
        """Seconds of the step in the calls for which `chosen(call)` is true, and in none that they hold."""
        return self._scale * sum(self._alone(call) for call in self.calls if chosen(call))

    def _alone(self, call):
        return max(0.1 * call.own, call.own - self._price)

    @property
    def parameters(self):
        """How many gradients a step computes: tensors that it trains, counted once for each backward pass."""
        return sum(call.name == NEW_GRADIENT for call in self.calls)

    @property
    def parameter_shapes(self):
        return {call.shapes[0] for call in self.calls if call.name == NEW_GRADIENT and call.shapes}

    @property
    def counts(self):
        """{name: calls}."""
        return Counter(call.name for call in self.calls)

    @property
    def between(self):
        """Seconds of the step in which no operator runs: Python, and what the operators' callers do."""
        return max(0.0, self.plain - self.own())

    @property
    def by_own(self):
        """(name, calls, seconds of their own) of the step, the longest first."""
        seconds = Counter()
        for call in self.calls:
            seconds[call.name] += self._scale * self._alone(call)
        counts = self.counts
        return [(name, counts[name], time) for name, time in seconds.most_common()]

    def seconds(self, part):
        """Seconds of the step in its operators of this part."""
        return self.own(lambda call: call.part == part)

    @property
    def synchronising(self):
        """How many calls of the step make the host wait for a device, if there is one."""
        return sum(call.name in SYNCHRONISING for call in self.calls)


def see_operators(function, times, plain):
    """The Operators of the fastest of `times` calls, each of which takes `plain` seconds unprofiled."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    from steptime.allocations import _silent

    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_initialized()
    plan = schedule(wait=0, warmup=1, active=times, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with _silent():
            profiler = profile(
                activities=activities,
                record_shapes=True,
                schedule=plan,
                on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
            )
            profiler.start()
            try:
                for _ in range(times + 1):
                    function()
                    profiler.step()
            finally:
                profiler.stop()
        trace = read(path)
        events = json.loads(path.read_text())["traceEvents"]
    return _operators(events, trace, plain)


def _operators(events, trace, plain):
    spans = [event for event in events if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation")]
    steps = [event for event in spans if STEP.match(event["name"])]
    step = min(steps, key=lambda event: event["dur"])  # whoever interrupts a step only makes it longer
    inside = [
        event
        for event in spans
        if step["ts"] <= event["ts"] < step["ts"] + step["dur"] and not STEP.match(event["name"])
    ]
    optimizers = [event["name"] for event in inside if event["name"].startswith("Optimizer.step#")]
    calls = []
    for thread in {event["tid"] for event in inside}:
        calls += _calls([event for event in inside if event["tid"] == thread], thread == step["tid"])
    calls.sort(key=lambda call: call.start)
    last = max((call.start for call in calls if call.part == BACKWARD), default=float("inf"))
    calls = [_placed(call, last) for call in calls]
    name = optimizers[0].removeprefix("Optimizer.step#").partition(".")[0] if optimizers else None
    return Operators(calls, plain, step["dur"] / 1e6, name, trace)


def _calls(events, is_main):
    """The Calls of one thread, in the order they began. Other threads than the step's own run the backward pass."""
    events.sort(key=lambda event: (event["ts"], -event["dur"]))
    own, _ = self_times([event["ts"] for event in events], [event["ts"] + event["dur"] for event in events])
    calls, holders = [], []
    for event, alone in zip(events, own, strict=True):
        while holders and event["ts"] >= holders[-1][0]:
            holders.pop()
        part, is_operator = holders[-1][1:] if holders else (FORWARD if is_main else BACKWARD, False)
        if event["name"].startswith(BACKWARD_NAME):
            part = BACKWARD
        elif event["name"].startswith("Optimizer."):
            part = OPTIMIZER
        operator = event["cat"] == "cpu_op"
        holders.append((event["ts"] + event["dur"], part, operator or is_operator))
        if operator:
            arguments = event.get("args", {})
            shapes = tuple(map(_frozen, arguments.get("Input Dims", ())))
            types = tuple(map(str, arguments.get("Input type", ())))
            times = (event["ts"] / 1e6, event["dur"] / 1e6, alone / 1e6)
            calls.append(Call(event["name"], part, shapes, types, *times, not is_operator))
    return calls


def _placed(call, last):
    if call.part == FORWARD and call.start > last:
        return replace(call, part=UPDATE)
    return call


def _frozen(shape):
    return tuple(map(_frozen, shape)) if isinstance(shape, list) else shape


@cache
def _price():
    """Seconds that torch.profiler adds to an operator."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from steptime.allocations import _silent

    one = torch.ones(1)

    def seconds():
        start = perf_counter()
        for _ in range(300):
            one.add_(1)
        return (perf_counter() - start) / 300

    plain = min(seconds() for _ in range(5))
    profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    with _silent():
        profiler.start()
    profiled = min(seconds() for _ in range(5))
    with _silent():
        profiler.stop()
    return max(0.0, profiled - plain)
