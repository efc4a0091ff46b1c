"""What Python calls in a step: how often each function is called, and how long it takes without the profiler's part.

cProfile counts exactly but makes each call longer. What that costs is measured on a function that does nothing, and
taken off again. What a function calls counts for it by the share of the calls that are its own.
"""

import cProfile
import pstats
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

STEPTIME = str(Path(__file__).parents[1])
IN_C = "~"  # cProfile's file of a function that is not Python
TORCH_IN_C = ("torch", "TensorBase", "run_backward", "_engine")
OPERATORS = ("TensorBase", "_VariableFunctions", "torch._C._nn", "built-in method torch.")
WAITING = ("time.sleep", "'acquire'", "select.", "'poll'", "'recv", "waitpid")
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
    """The functions of a step by key, and who calls whom. profiled: seconds that a step took under the profiler.

    Functions that call one another in a circle are one group, entered as often as others call into it.
    """

    def __init__(self, functions, callees, profiled):
        self.functions, self._callees, self.profiled = functions, callees, profiled
        self._group = _groups(list(functions), callees)
        self._members, self._calls, self._entered = {}, {}, Counter()
        for key, group in self._group.items():
            self._members.setdefault(group, []).append(functions[key])
        for caller, row in callees.items():
            for callee, calls in row.items():
                here, there = self._group.get(caller), self._group[callee]
                if here != there:
                    self._calls.setdefault(here, Counter())[there] += calls
                    self._entered[there] += calls

    def seconds(self, chosen, barred=frozenset()):
        """Seconds a step spends in the functions for which `chosen(function)` is true and in what these call."""
        keys = self.keys(chosen) - barred
        return self._below(_everything, barred)[None] - self._below(_everything, barred | keys)[None]

    @property
    def operators(self):
        """How many calls of a step call an operator of torch by name."""
        return sum(
            function.calls
            for function in self.functions.values()
            if function.file == IN_C and any(word in function.name for word in OPERATORS)
        )

    def python(self, barred=frozenset()):
        """Seconds a step spends in Python that is not torch's, without what `barred` functions spend or call."""
        return self._below(_not_torch, barred)[None]

    def heaviest(self, barred=frozenset()):
        """The deepest Function in which most of that time is spent, alone or below; None where there is none."""
        below, group = self._below(_not_torch, barred), None
        while True:
            parts = {each: below[each] * self._part(group, each) for each in self._calls.get(group, ())}
            deeper = max(parts, key=parts.get, default=None)
            if deeper is None or parts[deeper] < 0.6 * below[None] or not parts[deeper]:
                return max(self._members.get(group, ()), key=_everything, default=None)
            group = deeper

    def share(self, words):
        """The part of all time, 0 to 1, that functions with one of the words in file or name take by themselves."""
        named = [
            function.own
            for function in self.functions.values()
            if not function.is_torch and any(word in f"{function.file} {function.name}" for word in words)
        ]
        return sum(named) / max(1e-9, sum(function.own for function in self.functions.values()))

    def keys(self, chosen):
        """The keys of the functions for which `chosen(function)` is true."""
        return frozenset(key for key, function in self.functions.items() if chosen(function))

    def that_grow(self, half, apart, barred=frozenset()):
        """The Functions that are called more often than in the Calls of `half` a batch, `apart` samples fewer.

        With them, those that call them and take longer for it: what they do for each sample may be no call. What only
        `barred` functions call is left out.
        """
        counts = {key: function.calls for key, function in half.functions.items()}
        reached = self._reached(barred)
        growing = {key for key in reached if grows(self.functions[key].calls, counts.get(key, 0), apart)}
        callers = {
            key
            for key, callees in self._callees.items()
            if key in half.functions and growing & callees.keys()
            if self.functions[key].own >= 1.4 * half.functions[key].own
        }
        return [self.functions[key] for key in growing | callers]

    def _reached(self, barred):
        """The keys of the functions that a step comes to without a call of a barred one."""
        reached, todo = set(), [None]
        while todo:
            new = self._callees.get(todo.pop(), {}).keys() - reached - barred
            reached |= new
            todo += new
        return reached

    def _part(self, caller, callee):
        return self._calls[caller][callee] / self._entered[callee]

    def _below(self, own, barred):
        """{group: seconds in it and below}, where `own(function)` are those in one alone; None stands for the step."""
        closed, seconds = {self._group[key] for key in barred}, {}

        def add(group):
            if group in closed:
                seconds[group] = 0.0
            elif group not in seconds:
                below = sum(self._part(group, each) * add(each) for each in self._calls.get(group, ()))
                seconds[group] = sum(map(own, self._members.get(group, ()))) + below
            return seconds[group]

        for group in (*self._members, None):
            add(group)
        return seconds


def _groups(keys, callees):
    """{key: number of its group}: those that reach one another by calls are one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    place = {key: number for number, key in enumerate(keys)}
    pairs = [(place[caller], place[key]) for caller, row in callees.items() if caller in place for key in row]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    graph = coo_array(([1] * len(pairs), (rows, columns)), shape=(len(keys), len(keys)))
    _, groups = connected_components(graph, directed=True, connection="strong")
    return dict(zip(keys, groups.tolist(), strict=True))


def see_calls(function, times, plain):
    """The Calls of `times` calls of a function, each of which takes `plain` seconds without a profiler.

    Raises ValueError where another profiler is at work, beside which cProfile cannot be.
    """
    return _corrected(_profiled(function, times), times, _price(), plain)


def _profiled(function, times):
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        for _ in range(times):
            function()
    finally:
        profiler.disable()
    return pstats.Stats(profiler).stats


@cache
def _price():
    """Seconds that cProfile adds to a call."""

    def nothing():
        pass

    def calls():
        for _ in range(300):
            nothing()

    def seconds(act):
        start = perf_counter()
        act()
        return perf_counter() - start

    def profiled():
        profiler.enable()
        calls()
        profiler.disable()

    profiler = cProfile.Profile()
    plain = min(seconds(calls) for _ in range(20))
    return max(0.0, min(seconds(profiled) for _ in range(20)) - plain) / 300


def _corrected(stats, times, price, plain):
    calls = {key: row[1] / times for key, row in stats.items()}
    callees = {}
    for key, (*_, callers) in stats.items():
        for caller, row in callers.items():
            callees.setdefault(caller, {})[key] = row[1] / times
    own = {}
    for key, (_, _, seconds, _, _) in stats.items():
        # Half of a call's price is paid before the clock of what is called starts, half after.
        paid = price * (calls[key] + sum(callees.get(key, {}).values())) / 2
        own[key] = max(0.0, seconds / times - paid)
    scale = plain / (sum(own.values()) or 1.0)  # the moment of the profile may have been a slow one
    functions = {
        key: Function(*key, calls[key], scale * own[key])
        for key in stats
        if not key[0].startswith(STEPTIME) and "_lsprof" not in key[2]
    }
    kept = {key: {each: n for each, n in row.items() if each in functions} for key, row in callees.items()}
    kept[None] = {}
    for key, function in functions.items():
        ours = sum(row[key] for caller, row in kept.items() if caller not in functions and key in row)
        if ours or not any(key in row for row in kept.values()):
            kept[None][key] = ours or function.calls
    return Calls(functions, kept, sum(row[2] for row in stats.values()) / times)


def grows(calls, fewer, apart):
    """Whether there is one call more for each of `apart` more samples, or for each fourth of them at least."""
    return calls - fewer >= max(2, apart / 4) and calls >= 1.5 * fewer


def is_waiting(function):
    """Whether a function does nothing but wait."""
    return function.file == IN_C and any(word in function.name for word in WAITING)


def _everything(function):
    return function.own


def _not_torch(function):
    return 0.0 if function.is_torch else function.own
