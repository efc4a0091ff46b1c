"""How others compare two timings: each takes two functions and two seconds, and says which is slower, if either."""

import random
import timeit
from statistics import median
from time import perf_counter

import torch.utils.benchmark
from scipy.stats import binom, ttest_ind

SECONDS = 2.0  # for one comparison


def timeit_welch(a, b):
    """timeit for a, then for b, then Welch's t test at 5 %, as in most blog posts."""
    times = []
    for function in (a, b):
        calls = max(1, round(1e-3 / timeit.timeit(function, number=1)))
        end, readings = perf_counter() + SECONDS / 2, []
        while perf_counter() < end:
            readings.append(timeit.timeit(function, number=calls) / calls)
        times.append(readings)
    differ = ttest_ind(*times, equal_var=False).pvalue < 0.05
    return _slower(sum(times[0]) / len(times[0]), sum(times[1]) / len(times[1])) if differ else None


def minimum_of_runs(a, b):
    """The fastest of many runs of each, one block after the other; more than 1 % apart counts."""
    fastest = []
    for function in (a, b):
        end, readings = perf_counter() + SECONDS / 2, []
        while perf_counter() < end:
            readings.append(timeit.timeit(function, number=1))
        fastest.append(min(readings))
    return _slower(*fastest) if abs(fastest[0] / fastest[1] - 1) > 0.01 else None


def torch_benchmark(a, b):
    """torch.utils.benchmark: blocked_autorange on each; a difference where the middle halves do not overlap."""
    measured = [_blocked(function) for function in (a, b)]
    lows, highs = [each._p25 for each in measured], [each._p75 for each in measured]
    return _slower(measured[0].median, measured[1].median) if max(lows) > min(highs) else None


def _blocked(function):
    timer = torch.utils.benchmark.Timer("function()", globals={"function": function}, num_threads=1)
    return timer.blocked_autorange(min_run_time=SECONDS / 2)


def nanobench_abba(a, b):
    """Blocks of at least 1 ms in the order a b b a, and the sign interval of their ratios' median at 5 %."""
    calls = max(1, round(1e-3 / timeit.timeit(a, number=3) * 3))
    end, ratios = perf_counter() + SECONDS, []
    while perf_counter() < end:
        first, second, third, fourth = (timeit.timeit(function, number=calls) for function in (a, b, b, a))
        ratios.append((first + fourth) / (second + third))
    ratios.sort()
    outside = int(binom.ppf(0.025, len(ratios), 0.5))
    if outside < 1 or ratios[outside - 1] <= 1 <= ratios[-outside]:
        return None
    return _slower(median(ratios), 1)


def _slower(a, b):
    return "a" if a > b else "b"


PEERS = (timeit_welch, minimum_of_runs, torch_benchmark, nanobench_abba)


def take_turns(a, b, comparisons):
    """{the name of a peer: what it said in each comparison}; the slower side is passed first or second by a coin."""
    said = {peer.__name__: [] for peer in PEERS}
    for _ in range(comparisons):
        for peer in PEERS:
            if random.random() < 0.5:
                said[peer.__name__].append(peer(a, b))
            else:
                said[peer.__name__].append({"a": "b", "b": "a", None: None}[peer(b, a)])
    return said
