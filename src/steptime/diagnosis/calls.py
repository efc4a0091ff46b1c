"""What Python calls in a step: how often each function is called, and how long it takes without the profiler's own part.

cProfile counts exactly but makes each call longer. The difference between a profiled and an unprofiled step, spread over
all calls, is taken off again. What a function calls counts for it by the share of the calls that are its own.
"""

import cProfile
import pstats
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

STEPTIME = str(Path(__file__).parents[1])
IN_C = "~"  # cProfile's file of a function that is not Python
TORCH_IN_C = ("torch", "TensorBase", "run_backward", "_engine")
TO_PYTHON = ("'tolist'",)  # torch's, but what it makes is Python's


@dataclass(frozen=True)
class Function:
    """One function: how often a step calls it, and the seconds a step spends in it alone."""

    file: str
    line: int
    name: str
    calls: float
    own: float

    @property
    def is_torch(self):
        """Whether it is torch's, in Python or in C."""
        if self.file == IN_C:
            return any(word in self.name for word in TORCH_IN_C) and not any(word in self.name for word in TO_PYTHON)
        return "/torch/" in Path(self.file).as_posix()

    def __str__(self):
        if self.file == IN_C:
            name = self.name.strip("{}<>").removeprefix("built-in method ").removeprefix("method ")
            return name.removesuffix(" objects").replace("'", "")
        return f"{self.name} ({Path(self.file).name}, line {self.line})"


class Calls:
    """The functions of a step by key, and who calls whom."""

    def __init__(self, functions, callees):
        self.functions, self._callees = functions, callees

    def seconds(self, chosen, barred=frozenset()):
        """Seconds a step spends in the functions for which `chosen(function)` is true and in what these call."""
        keys = {key for key, function in self.functions.items() if chosen(function)} - barred
        return self._below(_everything, barred)[None] - self._below(_everything, barred | keys)[None]

    def keys(self, chosen):
        """The keys of those functions."""
        return frozenset(key for key, function in self.functions.items() if chosen(function))

    def python(self, barred=frozenset()):
        """Seconds a step spends in Python that is not torch's, without what `barred` functions spend or call."""
        return self._below(_not_torch, barred)[None]

    def heaviest(self, barred=frozenset()):
        """The deepest Function in which most of that time is spent, alone or below; None where there is none."""
        below, key, seen = self._below(_not_torch, barred), None, {None}
        while True:
            callees = [callee for callee in self._callees.get(key, {}) if callee not in seen | barred]
            callee = max(callees, key=lambda each: below[each] * self._part(key, each), default=None)
            if callee is None or below[callee] * self._part(key, callee) < 0.6 * below[None]:
                return self.functions.get(key)
            key = callee
            seen.add(key)

    def _part(self, caller, callee):
        return min(1.0, self._callees[caller][callee] / self.functions[callee].calls)

    def _below(self, own, barred):
        """{key: seconds in it and below}, where `own(function)` are those in it alone; None stands for the step."""
        seconds = {}

        def add(key, above):
            if key in barred:
                return 0.0
            if key not in seconds:
                here = own(self.functions[key]) if key else 0.0
                callees = [callee for callee in self._callees.get(key, {}) if callee not in above]
                seconds[key] = here + sum(self._part(key, each) * add(each, above | {each}) for each in callees)
            return seconds[key]

        add(None, frozenset([None]))
        return {**dict.fromkeys(self.functions, 0.0), **seconds}


def see_calls(function, times, plain):
    """The Calls of `times` calls of a function, each of which takes `plain` seconds without a profiler.

    Raises ValueError where another profiler is at work, beside which cProfile cannot be.
    """
    profiler = cProfile.Profile()
    start = perf_counter()
    profiler.enable()
    try:
        for _ in range(times):
            function()
    finally:
        profiler.disable()
    profiled = (perf_counter() - start) / times
    return _corrected(pstats.Stats(profiler).stats, times, profiled, plain)


def _corrected(stats, times, profiled, plain):
    calls = {key: row[1] / times for key, row in stats.items()}
    price = max(0.0, profiled - plain) / max(1, sum(calls.values()))
    callees = {}
    for key, (*_, callers) in stats.items():
        for caller, row in callers.items():
            callees.setdefault(caller, {})[key] = row[1] / times
    functions = {}
    for key, (_, _, own, _, _) in stats.items():
        if key[0].startswith(STEPTIME) or "_lsprof" in key[2]:
            continue
        # Half of a call's price is paid before the clock of what is called starts, half after.
        paid = price * (calls[key] + sum(callees.get(key, {}).values())) / 2
        functions[key] = Function(*key, calls[key], max(0.0, own / times - paid))
    kept = {key: {each: n for each, n in row.items() if each in functions} for key, row in callees.items()}
    kept[None] = {}
    for key, function in functions.items():
        ours = sum(row[key] for caller, row in kept.items() if caller not in functions and key in row)
        if ours or not any(key in row for row in kept.values()):
            kept[None][key] = ours or function.calls
    return Calls(functions, kept)


def _everything(function):
    return function.own


def _not_torch(function):
    return 0.0 if function.is_torch else function.own
