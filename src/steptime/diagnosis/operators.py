"""The operators of a step: how often each is called, in which part of the step, on what, and how long it takes.

torch.profiler makes each operator longer. What that costs is measured on an operator that does next to nothing, and
taken off again.
"""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from steptime.trace import read
from steptime.trace.steps import STEP

FORWARD, BACKWARD, OPTIMIZER, UPDATE = "forward", "backward", "optimiser", "after backward"
"""Parts of a step: before and in the backward pass; in torch.optim's step or zero_grad; after the backward pass."""

BACKWARD_NAME = "autograd::engine::evaluate_function"
NEW_GRADIENT = "torch::autograd::AccumulateGrad"
SYNCHRONISING = ("aten::item", "aten::nonzero", "aten::is_nonzero")


@dataclass(frozen=True)
class Call:
    """One call of an operator. start, own: seconds; own are those in it alone. outer: no other holds it."""

    name: str
    part: str
    shapes: tuple
    types: tuple
    start: float
    own: float
    outer: bool


class Operators:
    """The calls of one step, in the order they began, labels left out, with times as they are without a profiler.

    plain: seconds of an unprofiled step. between: seconds of it in which no operator runs: Python, and what calls
    operators costs. optimizer: name of the torch.optim class whose step ran, or None; optimizer_seconds: how long its
    step and zero_grad took. trace: the steptime.trace of all recorded steps.
    """

    def __init__(self, seen, plain, trace):
        self.calls, self.plain, self.optimizer, self.trace = seen.calls, plain, seen.optimizer, trace
        self._scale = plain / max(seen.between + sum(call.own for call in self.calls), 1e-9)
        self.between, self.optimizer_seconds = self._scale * seen.between, self._scale * seen.optimizing

    def own(self, chosen=lambda call: True):
        """Seconds of the step in the calls for which `chosen(call)` is true, and in none that they hold."""
        return self._scale * sum(call.own for call in self.calls if chosen(call))

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
    def by_own(self):
        """(name, calls, seconds of their own) of the step, the longest first."""
        seconds = Counter()
        for call in self.calls:
            seconds[call.name] += self._scale * call.own
        counts = self.counts
        return [(name, counts[name], time) for name, time in seconds.most_common()]

    def seconds(self, part):
        """Seconds of the step in its operators of this part."""
        return self.own(lambda call: call.part == part)

    @property
    def is_compiled(self):
        """Whether a part of the step is torch.compile's."""
        return any(call.name.startswith("Torch-Compiled Region") for call in self.calls)

    @property
    def synchronising(self):
        """How many calls of the step make the host wait for a device, if there is one."""
        return sum(call.name in SYNCHRONISING for call in self.calls)


def see_operators(function, times, plain):
    """The Operators of the fastest of `times` calls, each of which takes `plain` seconds unprofiled."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    from steptime.allocations import silent

    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_initialized()
    plan = schedule(wait=0, warmup=1, active=times, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with silent():
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
    steps = sorted((event for event in spans if STEP.match(event["name"])), key=lambda event: event["dur"])
    seen = [_step(spans, step) for step in steps]
    names = [call.name for call in seen[0].calls]
    # Whoever interrupts a step only makes it longer, and not twice at one place: the least of each call is taken.
    alike = [each for each in seen if [call.name for call in each.calls] == names]
    own = [min(calls) for calls in zip(*([call.own for call in each.calls] for each in alike), strict=True)]
    calls = [replace(call, own=least) for call, least in zip(seen[0].calls, own, strict=True)]
    between, optimizing = (min(getattr(each, name) for each in alike) for name in ("between", "optimizing"))
    return Operators(_Step(calls, between, seen[0].optimizer, optimizing), plain, trace)


class _Step(NamedTuple):
    """One recorded step: its Calls, seconds between them, the optimiser's name and its seconds."""

    calls: list
    between: float
    optimizer: str | None
    optimizing: float


def _step(spans, step):
    start, end = step["ts"], step["ts"] + step["dur"]
    inside = [event for event in spans if start <= event["ts"] < end and event is not step]
    calls, between = [], step["dur"] / 1e6
    for thread in {event["tid"] for event in inside}:
        found, outer = _calls([event for event in inside if event["tid"] == thread], thread == step["tid"])
        calls += found
        if thread == step["tid"]:
            between -= outer + _price() * sum(call.outer for call in found)
    calls.sort(key=lambda call: call.start)
    last = max((call.start for call in calls if call.part == BACKWARD), default=float("inf"))
    after = [call.part == FORWARD and call.start > last for call in calls]
    placed = [replace(call, part=UPDATE) if is_after else call for call, is_after in zip(calls, after, strict=True)]
    labels = [event for event in inside if event["name"].startswith("Optimizer.")]
    names = [event["name"].partition("#")[2].partition(".")[0] for event in labels if ".step#" in event["name"]]
    spent = sum(event["dur"] for event in labels) / 1e6 - _price() * sum(call.part == OPTIMIZER for call in calls)
    return _Step(placed, max(0.0, between), names[0] if names else None, max(0.0, spent))


def _calls(events, is_main):
    """(Calls of one thread in the order they began, seconds in the outer ones); labels are left out.

    Other threads than the step's own run the backward pass.
    """
    events.sort(key=lambda event: (event["ts"], -event["dur"]))
    calls, holders, seconds = [], [], 0.0
    for event in events:
        while holders and event["ts"] >= holders[-1].end:
            holders.pop()
        above = holders[-1] if holders else _Holder(float("inf"), FORWARD if is_main else BACKWARD, None)
        part = above.part
        if event["name"].startswith(BACKWARD_NAME):
            part = BACKWARD
        elif event["name"].startswith("Optimizer."):
            part = OPTIMIZER
        place = above.place
        if event["cat"] == "cpu_op":
            if place is None:
                seconds += event["dur"] / 1e6
            else:  # what it took, and what recording it took, is not its holder's
                calls[place] = replace(calls[place], own=max(0.0, calls[place].own - event["dur"] / 1e6 - _price()))
            arguments = event.get("args", {})
            shapes = tuple(map(_frozen, arguments.get("Input Dims", ())))
            types = tuple(map(str, arguments.get("Input type", ())))
            calls.append(Call(event["name"], part, shapes, types, event["ts"] / 1e6, event["dur"] / 1e6, place is None))
            place = len(calls) - 1
        holders.append(_Holder(event["ts"] + event["dur"], part, place))
    return calls, seconds


class _Holder(NamedTuple):
    """An event that others may lie in: its end, its part of the step, the place of the Call that it is or lies in."""

    end: float
    part: str
    place: int | None


def _frozen(shape):
    return tuple(map(_frozen, shape)) if isinstance(shape, list) else shape


def time_of_call():
    """Seconds that calling an operator takes which does next to nothing: what any call costs on this machine."""
    return _calibrated()[0]


def _price():
    """Seconds that torch.profiler adds to an operator."""
    return _calibrated()[1]


@cache
def _calibrated():
    import torch
    from torch.profiler import ProfilerActivity, profile

    from steptime.allocations import silent

    one = torch.ones(1)

    def seconds():
        start = perf_counter()
        for _ in range(30):
            one.add_(1)
        return (perf_counter() - start) / 30

    plain = min(seconds() for _ in range(50))
    profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    with silent():
        profiler.start()
    profiled = min(seconds() for _ in range(50))
    with silent():
        profiler.stop()
    return plain, max(0.0, profiled - plain)
