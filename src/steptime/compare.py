"""Two ways to compute one answer: are the answers the same, and how many times faster is the second?"""

import functools
import io
import math
import random
from contextlib import nullcontext, redirect_stdout
from numbers import Real
from operator import itemgetter
from statistics import median

from tqdm import tqdm

from steptime.answers import agreement
from steptime.claims import Verdict
from steptime.measure import SHORTEST, Stopwatch
from steptime.naming import name_of
from steptime.observe import guard, observe
from steptime.sequential import PairedRatios
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration, times

FIRST_LOOK = 24  # pairs; nothing can be said before 13
FIRST_SECONDS = 0.1  # a first look lasts at least this long, so that one moment does not speak for all
WARM_UP = 0.2  # of the budget, at most
INTERRUPTED = 0.02  # of a stretch that others had its core: such a one tells more of them than of us
PROGRESS = "{l_bar}{bar}| {n:.1f} of {total:.1f} s"  # shown once it lasts two seconds
CALLING = 150e-9  # seconds: a call that does nothing takes about this long, and the loop around it
PLACEMENT = 0.03  # two copies of one function can differ by this much for good, by where they lie in memory


def compare(a, b, *arguments, same=0.0, budget=10.0, guess=None):
    """Race `b(*arguments)` against `a(*arguments)`; the ratio is a's time over b's, above 1 where b is faster.

    same: how far b's answer may be from a's, relative to the largest magnitude in a's (see `answers.difference`).
    budget: seconds of measuring at most, after a first call of each; verdicts that need more pairs draw on it later.
    guess: how many times faster you think b is, to be shown beside the answer.
    Answers are compared first, and where they differ nothing is timed. Then pairs are drawn: one stretch of calls
    of each side in coin-flip order, both stretches equally long. Times are wall time.
    Raises RuntimeError when a or b raises, TypeError or ValueError for what makes no race: what is no function, a
    function that changes its arguments, one that returns before its work is done.
    """
    for function in (a, b):
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"compare needs two functions first, got a {kind}: pass the function without calling it.")
    if not (_is_number(same) and same >= 0):
        raise ValueError(f"compare: same is the difference allowed, 0 or more, not {same!r}.")
    if not (_is_number(budget) and budget > 0):
        raise ValueError(f"compare: budget is in seconds, above 0, not {budget!r}.")
    if not (guess is None or (_is_number(guess) and guess > 0)):
        raise ValueError(f"compare: guess is how many times faster, a number above 0, not {guess!r}.")
    seen = [observe(function, arguments) for function in (a, b)]
    verdict = agreement(*(each.answer for each in seen), same)
    sides = [Side(function, arguments, each) for function, each in zip((a, b), seen, strict=True)]
    race = Race(*sides, verdict, budget, guess, Stopwatch())
    if verdict.answer is not False:
        race.look()
    return race


class Race:
    """What a comparison saw so far. Shown in one line; its verdicts draw more pairs where they need them.

    same: Verdict on the answers.
    pairs: (a's, b's) wall time per call, in seconds, in the order they came.
    ratios: PairedRatios, a's time over b's.
    drawn: how many pairs were. interrupted: in how many of them a side lost its core for a while; these are betted on
        but not counted, unless most are.
    stopped: whether Ctrl-C ended the measuring.
    """

    def __init__(self, a, b, same, budget, guess, stopwatch):
        self.same, self.guess, self.budget = same, guess, budget
        self.pairs, self.ratios, self.drawn, self.interrupted, self.stopped = [], PairedRatios(), 0, 0, False
        self._a, self._b, self._stopwatch, self._coin = a, b, stopwatch, random.Random()
        self._spent = 0.0  # seconds of the budget

    @property
    def ratio(self):
        """The median of a's time over b's."""
        return self.ratios.median

    @property
    def interval(self):
        """(low, high): where the ratio can be, at an error rate of 0.001."""
        return self.ratios.interval

    def look(self):
        """Draw the pairs of a first look, unless the budget is spent before."""
        self._draw(lambda: len(self.ratios) >= FIRST_LOOK and self._spent >= FIRST_SECONDS)

    def at_least(self, x):
        """Verdict: is b at least x times faster than a? Draws pairs until that is certain or the budget is spent.

        Raises ValueError where x is not a number above 0.
        """
        if not (_is_number(x) and x > 0):
            raise ValueError(f"at_least: x is how many times faster, a number above 0, not {x!r}.")
        if self.same.answer is False:
            return Verdict(False, "the answers differ, so their times are no race")
        self._draw(lambda: self.ratios.above(x) is not None)
        return self.ratios.at_least(x)

    def within(self, share):
        """Verdict: does neither side take longer than the other by more than `share` of its time?

        Draws pairs until that is certain or the budget is spent. Raises ValueError where share is not a number above 0.
        """
        if not (_is_number(share) and share > 0):
            raise ValueError(f"within: share is a part of the time, a number above 0, not {share!r}.")
        if self.same.answer is False:
            return Verdict(None, "the answers differ, so their times are no race")
        self._draw(lambda: self.ratios.within(share).answer is not None)
        return self.ratios.within(share)

    def differs(self):
        """Verdict: does one side take longer than the other?

        For two different functions: True where their ratio is certainly outside 0.97 to 1.03, False where it is
        certainly inside; their places in memory alone can make that much. One function with other arguments
        (functools.partial) has one place, so any difference that is certain counts.
        """
        if self.same.answer is False:
            return Verdict(None, "the answers differ, so their times are no race")
        if _is_one_function(self._a.function, self._b.function):
            self._draw(lambda: self.ratios.shifted is not None)
            direction = {1: ", a takes longer", -1: ", b takes longer", None: ""}[self.ratios.shifted]
            return Verdict(self.ratios.shifted and True, f"{self.ratios}{direction}")
        alike = self.within(PLACEMENT)
        low, high = self.interval
        margin = max(low, 1 / high) / (1 + PLACEMENT)
        return Verdict(None if alike.answer is None else not alike.answer, f"{alike.evidence} for their places", margin)

    def plot(self):
        """A Picture of the pairs' ratios in the order they came, with the ratio and its interval as they narrowed."""
        if not len(self.ratios):
            raise ValueError("There is nothing to plot: no pair was timed.")
        came = [a / b for a, b in self.pairs]
        seen, medians, lows, highs = PairedRatios(), [], [], []
        for ratio in came:
            seen.add(ratio)
            low, high = seen.interval
            medians.append(seen.median)
            lows.append(low if high < math.inf else math.nan)
            highs.append(high if high < math.inf else math.nan)
        canvas, axes = figure()
        count = range(1, len(came) + 1)
        axes.scatter(count, came, s=10, color=COLOURS["pairs"], label="one pair")
        axes.plot(count, medians, color=COLOURS["estimate"], label="median so far")
        axes.fill_between(
            count, lows, highs, color=COLOURS["estimate"], alpha=0.2, linewidth=0, label="interval so far"
        )
        axes.axhline(1, color=COLOURS["threshold"], linewidth=1, linestyle="--", label="equally fast")
        axes.set(xlabel="pairs", ylabel="time of a / time of b", yscale="log")
        axes.yaxis.set_major_formatter(lambda ratio, _: times(ratio))
        axes.yaxis.set_minor_formatter(lambda ratio, _: times(ratio))
        axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), fontsize="small")
        alt = f"Ratios of {len(came)} pairs in the order they came; their median ends at {self.ratios}."
        return Picture(canvas, alt, "The interval narrows as pairs come in, and stays where the ratio is.")

    def __repr__(self):
        if self.same.answer is False:
            return f"different answers ({self.same.evidence}): not timed"
        sameness = "same answer" if self.same.answer else "cannot tell whether the answers agree"
        medians = " -> ".join(map(duration, self._medians()))
        line = f"{sameness} ({self.same.evidence}) · {medians} · {self.ratios}"
        if self.guess is not None:
            line += f" · your guess {self.guess:g}x"
        return "\n".join([line, *self._notes()])

    def _notes(self):
        if self.stopped:
            yield "Stopped by Ctrl-C: this is what was measured until then."
        elif len(self.ratios) < FIRST_LOOK:
            pair = self._spent / len(self.pairs) if self.pairs else 2 * max(self._medians())
            needed = math.ceil(FIRST_LOOK * pair / (1 - WARM_UP))
            yield f"The budget of {self.budget:g} s is spent: a first look takes about budget={needed}."
        for side, seconds in zip((self._a, self._b), self._medians(), strict=True):
            if side.printed:
                yield f"{side.name} prints: shown once, then swallowed, and part of its time."
            if seconds < CALLING:
                yield f"{side.name} is so short that this is mostly the time of calling it."

    def _medians(self):
        """Of the pairs; of what there is while there are none."""
        if self.pairs:
            return [median(times) for times in zip(*self.pairs, strict=True)]
        return [median(side.undisturbed or [side.first]) for side in (self._a, self._b)]

    def _draw(self, is_enough):
        """Draw pairs until there are enough or the budget is spent; Ctrl-C ends it and keeps what there is."""
        try:
            with tqdm(total=self.budget, initial=self._spent, delay=2, leave=False, bar_format=PROGRESS) as bar:
                start = self._stopwatch.now() - self._spent
                while self._spent < self.budget and not self.stopped and not is_enough():
                    self._draw_pair()
                    self._spent = self._stopwatch.now() - start
                    bar.update(min(self._spent, self.budget) - bar.n)
        except KeyboardInterrupt:
            self.stopped = True

    def _draw_pair(self):
        a, b = self._a, self._b
        is_warming = self._is_warming()  # asked first: what a pair shows must not decide whether it counts
        self._set_calls()
        for side in (a, b) if self._coin.random() < 0.5 else (b, a):
            side.read(self._stopwatch)
        if not is_warming:
            self._count()

    def _count(self):
        """Count the pair just read, if both sides kept their core; whichever lost it, it tells more of the neighbours.

        Where most pairs are interrupted, as those of long functions on a busy machine, such a pair is better than none.
        """
        a, b = self._a, self._b
        self.drawn += 1
        self.ratios.bet(a.undisturbed[-1] / b.undisturbed[-1])
        if max(a.interrupted, b.interrupted) > INTERRUPTED:
            self.interrupted += 1
            if self.interrupted <= 0.5 * max(self.drawn, FIRST_LOOK):
                return
        self.pairs.append((a.wall, b.wall))
        self.ratios.add(a.wall / b.wall)

    def _set_calls(self):
        """Let both stretches last equally long, within five percent: interruptions then fall on either alike."""
        (fast, taken), (slow, longer) = sorted(
            ((side, side.recent()) for side in (self._a, self._b)), key=itemgetter(1)
        )
        if not slow.undisturbed:  # the first calls, with their one-off costs, say nothing yet of those that follow
            return
        ratio = longer / taken
        if ratio < 1.2:  # equal functions must be exchangeable, to the last call
            fast.calls = slow.calls = math.ceil(SHORTEST / taken)
            return
        fits = [calls for calls in (1, 2, 3, 4) if abs(round(calls * ratio) / (calls * ratio) - 1) < 0.05]
        slow.calls = max(fits[0] if fits else 4, math.ceil(SHORTEST / longer))
        fast.calls = round(slow.calls * ratio)

    def _is_warming(self):
        """True for the first ten pairs and while a side still gets faster, but never beyond its part of the budget."""
        a, b = self._a, self._b
        spent = self._spent if a.undisturbed else a.first + b.first
        if self.drawn or spent > WARM_UP * self.budget:
            return False
        return a.is_warming() or b.is_warming()


class Side:
    """One of the two functions with what was read of it; times in seconds per call.

    seen: the Observation of its first call. calls: in one stretch. wall: the last stretch. undisturbed: all of them,
    without the time that others had the core. interrupted: the share of the last that they had it.
    """

    def __init__(self, function, arguments, seen):
        self.function, self.arguments, self.printed = function, arguments, seen.printed
        self.name, self.first = name_of(function), seen.seconds
        self.calls, self.wall, self.undisturbed, self.interrupted = 1, seen.seconds, [], 0.0

    def recent(self):
        """What a call takes these days, by the last nine stretches."""
        return max(median(self.undisturbed[-9:] or [self.first]), 1e-9)

    def read(self, stopwatch):
        """Read one more stretch off the stopwatch."""
        with redirect_stdout(io.StringIO()) if self.printed else nullcontext():
            reading = guard(self.function, stopwatch, self.function, self.arguments, self.calls)
        self.wall = reading.wall / self.calls
        self.undisturbed.append((reading.wall - reading.waited) / self.calls)
        self.interrupted = reading.waited / reading.wall

    def is_warming(self):
        times = self.undisturbed
        return len(times) < 10 or median(times[-3:]) < 0.95 * median(times[-6:-3])


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_one_function(a, b):
    """True for one function, perhaps with other arguments; a wrapper of two functions has two places in memory."""
    wrapped = []
    while isinstance(a, functools.partial) and isinstance(b, functools.partial):
        wrapped += [value for given in (a, b) for value in (*given.args, *given.keywords.values()) if callable(value)]
        a, b = a.func, b.func
    return a == b and not wrapped
