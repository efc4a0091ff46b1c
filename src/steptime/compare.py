"""Two ways to compute one answer: are the answers the same, and how many times faster is the second?"""

import math
import random
from statistics import median
from time import perf_counter

from steptime.answers import Unlike, difference
from steptime.claims import Verdict
from steptime.measure import SHORTEST, seconds, seconds_per_call
from steptime.sequential import PairedRatios
from steptime.units import duration, times

FIRST_LOOK = 24  # pairs; nothing can be said before 13
FIRST_SECONDS = 0.25  # a first look lasts at least this long, so that one moment does not speak for all


def compare(a, b, *arguments, same=0.0, budget=10.0, guess=None):
    """Race `b(*arguments)` against `a(*arguments)`; the ratio is a's time over b's, above 1 where b is faster.

    same: how far b's answer may be from a's, relative to the largest magnitude in a's (see `answers.difference`).
    budget: seconds of measuring at most; verdicts that need more pairs draw on it later.
    guess: how many times faster you think b is, to be shown beside the answer.
    Answers are compared first, and where they differ nothing is timed. Then pairs are drawn: one stretch of calls
    of each side in coin-flip order, both stretches equally long.
    Raises RuntimeError when a or b raises, TypeError or ValueError for arguments that make no race.
    """
    for function in (a, b):
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"compare needs two functions first, got a {kind}: pass the function without calling it.")
    if not same >= 0:
        raise ValueError(f"compare: same is the difference allowed, 0 or more, not {same!r}.")
    if not budget > 0:
        raise ValueError(f"compare: budget is in seconds, above 0, not {budget!r}.")
    verdict = _same_answer(a, b, arguments, same)
    race = Race(a, b, arguments, verdict, budget, guess)
    if verdict.answer is not False:
        race._first_look()
    return race


class Race:
    """What a comparison saw so far. Shown in one line; its verdicts draw more pairs where they need them.

    same: Verdict on the answers.
    ratios: PairedRatios, a's time over b's.
    seconds_a, seconds_b: wall time per call, one number a pair.
    """

    def __init__(self, a, b, arguments, same, budget, guess):
        self.same, self.guess = same, guess
        self.ratios, self.seconds_a, self.seconds_b = PairedRatios(), [], []
        self._a, self._b, self._arguments, self._left = a, b, arguments, budget

    @property
    def ratio(self):
        """The median of a's time over b's."""
        return self.ratios.median

    @property
    def interval(self):
        """(low, high): where the ratio can be, at an error rate of 0.001."""
        return self.ratios.interval

    def at_least(self, x):
        """Verdict: is b at least x times faster than a? Draws pairs until that is certain or the budget is spent."""
        if self.same.answer is False:
            return Verdict(False, "the answers differ, so their times are no race")
        while self.ratios.above(x) is None and self._left > 0:
            self._draw_pair()
        evidence = f"{self._figures()}, asked for {x:,}x"
        return Verdict(self.ratios.above(x), evidence, margin=self.interval[0] / x)

    def __repr__(self):
        if self.same.answer is False:
            return f"different answers ({self.same.evidence}): not timed"
        sameness = "same answer" if self.same.answer else "cannot tell whether the answers agree"
        medians = f"{duration(median(self.seconds_a))} -> {duration(median(self.seconds_b))}"
        line = f"{sameness} ({self.same.evidence}) · {medians} · {self._figures()}"
        return line if self.guess is None else f"{line} · your guess {self.guess:g}x"

    def _figures(self):
        low, high = self.interval
        span = f"({times(low)[:-1]}-{times(high)[:-1]})" if high < math.inf else "(too few for an interval)"
        return f"{times(self.ratio)} {span}, {len(self.ratios)} pairs"

    def _first_look(self):
        start = perf_counter()
        self.seconds_a.append(_run(self._a, seconds_per_call, self._arguments))
        self.seconds_b.append(_run(self._b, seconds_per_call, self._arguments))
        self._left -= perf_counter() - start
        warm_up = len(self.seconds_a)
        while self._left > 0 and (len(self.ratios) < FIRST_LOOK or perf_counter() - start < FIRST_SECONDS):
            self._draw_pair()
        if len(self.ratios):
            del self.seconds_a[:warm_up], self.seconds_b[:warm_up]

    def _draw_pair(self):
        start = perf_counter()
        a, b = median(self.seconds_a[-9:]), median(self.seconds_b[-9:])
        # Both stretches last as long as one call of the slower side: an interruption then falls on either alike.
        stretch = max(a, b, SHORTEST)
        sides = [(self._a, self.seconds_a, round(stretch / a)), (self._b, self.seconds_b, round(stretch / b))]
        random.shuffle(sides)
        for function, readings, calls in sides:
            readings.append(_run(function, seconds, self._arguments, calls) / calls)
        self.ratios.add(self.seconds_a[-1] / self.seconds_b[-1])
        self._left -= perf_counter() - start


def _same_answer(a, b, arguments, same):
    expected, actual = (_run(function, _answer, arguments) for function in (a, b))
    if expected is None and actual is None:
        return Verdict(None, "both return None")
    try:
        worst = difference(expected, actual)
    except Unlike as unlike:
        return Verdict(False, str(unlike))
    shown = f"{worst:.1g}" if worst else "exactly"
    evidence = shown if worst <= same else f"{shown} apart, {same:g} allowed"
    return Verdict(worst <= same, evidence, margin=same / worst if worst else None)


def _answer(function, arguments):
    return function(*arguments)


def _run(function, how, *rest):
    try:
        return how(function, *rest)
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        raise RuntimeError(f"compare: {name} raised {type(error).__name__}: {error}") from error
