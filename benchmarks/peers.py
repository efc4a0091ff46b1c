"""How others compare two timings: each takes two functions and two seconds, and says which is slower, if either."""

import random
import timeit
from statistics import median
from time import perf_counter

import torch.utils.benchmark
from scipy.stats import binom, ttest_ind

SECONDS = 2.0  # for one comparison


def one_after_the_other(a, b):
    """Readings of timeit for a, then for b, half of the time each; both rules below judge the same ones."""
    readings = []
    for function in (a, b):
        calls = max(1, round(1e-3 / timeit.timeit(function, number=1)))
        end, times = perf_counter() + SECONDS / 2, []
        while perf_counter() < end:
            times.append(timeit.timeit(function, number=calls) / calls)
        readings.append(times)
    return {
        "timeit, then Welch's t test at 5 %": _welch(*readings),
        "minimum of runs, 1 % tolerance": _minimum(*readings),
    }


def _welch(a, b):
    return _slower(sum(a) / len(a), sum(b) / len(b)) if ttest_ind(a, b, equal_var=False).pvalue < 0.05 else None


def _minimum(a, b):
    return _slower(min(a), min(b)) if abs(min(a) / min(b) - 1) > 0.01 else None


def torch_benchmark(a, b):
    """torch.utils.benchmark: blocked_autorange on each; a difference where the middle halves do not overlap."""
    measured = [_blocked(function) for function in (a, b)]
    medians = [each.median for each in measured]  # asked for first: the quartiles are filled in by it
    lows, highs = [each._p25 for each in measured], [each._p75 for each in measured]
    return {"torch.utils.benchmark, quartiles apart": _slower(*medians) if max(lows) > min(highs) else None}


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
    certain = outside >= 1 and not ratios[outside - 1] <= 1 <= ratios[-outside]
    return {"ABBA blocks, sign interval at 5 % (nanobench)": _slower(median(ratios), 1) if certain else None}


def _slower(a, b):
    return "a" if a > b else "b"


def take_turns(a, b, comparisons):
    """{the name of a rule: what it said in each comparison}; a coin says which side is passed first."""
    said, swapped = {}, {"a": "b", "b": "a", None: None}
    for _ in range(comparisons):
        for measure in (one_after_the_other, torch_benchmark, nanobench_abba):
            swap = random.random() < 0.5
            for rule, slower in (measure(b, a) if swap else measure(a, b)).items():
                said.setdefault(rule, []).append(swapped[slower] if swap else slower)
    return said
