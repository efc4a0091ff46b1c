"""What a series of paired timings says about their ratio, valid whenever one stops.

If the true median ratio is x, a pair lies above x as often as below it: its side is the toss of a fair coin. Bet on
that coin. Nobody wins for long at a fair game: the chance that a capital of 1 ever grows to 1,000 is at most one in a
thousand, however often one looks and whenever one stops (Ville's inequality). So where a capital did grow that far, x
is not the median ratio. Ramdas, Grünwald, Vovk and Shafer, Game-theoretic statistics and safe anytime-valid inference,
2023.

Two games are played:

- About the median ratio, at every x, on sides alone: neither heavy tails nor bursts change the odds. Averaged over all
  stakes the capital has a closed form (Krichevsky and Trofimov, The performance of universal encoding, 1981), and the
  ratios at which it stays small are an interval between two of the pairs.
- About exchangeability, with stakes that depend on the pair's size: where a coin draws the order of a pair and both
  sides are the same function, the side is a fair coin whatever the size. A size that a true difference would make more
  often than noise is worth a higher stake; a pair torn apart by an interruption is worth none. The coin does not know
  how long either side waited for a core, so the pair may be betted on as if nobody had waited. This finds small
  differences with fewer pairs. It says nothing of two functions whose times are spread differently: those are not
  exchangeable even where their medians agree.
"""

import math
from bisect import insort
from functools import cache

from steptime.claims import Verdict
from steptime.units import times

ERROR_RATE = 0.001
"""The chance that a verdict is ever wrong, over the whole run: one rate for the whole book."""

GAMBLERS = [(noise, shift) for noise in (1 / 8, 1, 4) for shift in (1 / 4, 1 / 2, 1, 2, 4)]
"""What is betted on: the noise, in units of the log ratios' lower quartile, and the true shift in units of it."""

TORN = 8
"""The noise of half of the pairs, in the same units: on a machine that changes its speed they are torn apart."""

FINENESS = 16
"""Stakes are worked out for so many sizes within a factor of e, once each."""


def log_capital(above, pairs):
    """Natural logarithm of what 1 has grown to when `above` of `pairs` fair coins fell on one side."""

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return pairs * math.log(2) + log_beta(above + 0.5, pairs - above + 0.5) - log_beta(0.5, 0.5)


class PairedRatios:
    """The ratios of the pairs so far, with the interval and the verdicts they allow.

    pairs: (a's, b's) times, in any unit, read one right after the other; the ratio is a's over b's.
    Verdicts on the ratio are read off the interval, so they cannot contradict it or each other.
    """

    def __init__(self, pairs=()):
        self._sorted = []
        self._outside = 0  # how many pairs, from either end of the order, may not lie beyond the median ratio
        self._sizes = []  # of the log ratios, sorted
        self._above = [1.0] * len(GAMBLERS)  # capitals of those who bet on a ratio above 1
        self._below = [1.0] * len(GAMBLERS)
        for a, b in pairs:
            self.add(a / b)

    def __len__(self):
        return len(self._sorted)

    def add(self, ratio):
        """Count one pair's ratio. Raises ValueError where it is not a number above 0."""
        _check(ratio)
        insort(self._sorted, ratio)
        n, k = len(self._sorted), self._outside
        while log_capital(k, n) >= math.log(1 / ERROR_RATE):  # no ratio with only k pairs below it can be the median
            k += 1
        self._outside = k

    def bet(self, ratio):
        """Bet on one pair's ratio, counted or not. Raises ValueError where it is not a number above 0."""
        _check(ratio)
        log_ratio = math.log(ratio)
        size, seen = abs(log_ratio), self._sizes
        small = seen[len(seen) // 4] if seen else 0.0  # stakes may know the past and this pair's size, not its side
        if small and size:
            for gambler, share in enumerate(_stakes(round(FINENESS * math.log(size / small)))):
                won, lost = (2 * share, 2 - 2 * share) if log_ratio > 0 else (2 - 2 * share, 2 * share)
                self._above[gambler] *= won
                self._below[gambler] *= lost
        insort(seen, size)

    @property
    def median(self):
        """The median ratio; NaN before the first pair."""
        n = len(self._sorted)
        return (self._sorted[(n - 1) // 2] + self._sorted[n // 2]) / 2 if n else math.nan

    @property
    def interval(self):
        """(low, high): the median ratios that are not ruled out; (0, inf) while there are too few pairs."""
        k = self._outside
        return (self._sorted[k - 1], self._sorted[-k]) if k else (0.0, math.inf)

    @property
    def shifted(self):
        """1 if one function timed against itself is certainly slower on the first side, -1 on the second, None before.

        Only for two sides that would be exchangeable if they took equally long. None where the interval denies it.
        """
        won = 2 / ERROR_RATE * len(GAMBLERS)  # either direction may err half as often as the whole
        low, high = self.interval
        if sum(self._above) >= won and high > 1:
            return 1
        return -1 if sum(self._below) >= won and low < 1 else None

    def above(self, x):
        """True if the median ratio is above x, False if it is below, None while neither is certain."""
        low, high = self.interval
        return True if low > x else False if high < x else None

    def at_least(self, x):
        """Verdict: is the median ratio x or more?"""
        return Verdict(self.above(x), f"{self}, asked for {x:,}x", margin=self.interval[0] / x)

    def within(self, share):
        """Verdict: does neither side take longer than the other by more than `share` of its time?"""
        low, high = self.interval
        farthest = max(1 / low, high) if low else math.inf
        nearest = max(low, 1 / high)
        answer = True if farthest < 1 + share else False if nearest > 1 + share else None
        return Verdict(answer, f"{self}, {share:.0%} allowed", margin=share / (farthest - 1) if farthest > 1 else None)

    def __repr__(self):
        if not len(self):
            return "no pairs"
        low, high = self.interval
        span = f"({times(low)[:-1]}-{times(high)[:-1]})" if low else "(too few pairs for an interval)"
        return f"{times(self.median)} {span}, {len(self)} pairs"


def _check(ratio):
    if not 0 < ratio < math.inf:
        raise ValueError(f"A ratio of two times is a number above 0, not {ratio!r}.")


@cache
def _stakes(step):
    """For each gambler, which share of the capital goes on a pair of this size being on the side of the true shift.

    step: the size in units of a small one, as a logarithm to the base e^(1 / FINENESS).
    """
    size, shares = math.exp(step / FINENESS), []
    for noise, shift in GAMBLERS:
        on_its_side, on_the_other = (_density(size - side * shift * noise, noise) for side in (1, -1))
        shares.append(on_its_side / (on_its_side + on_the_other))
    return shares


def _density(deviation, noise):
    """Of a deviation from the true shift: half of them by the noise, half torn apart; but for a constant factor.

    Both are Student's t with 3 degrees of freedom: tails as heavy as timings have, so that the odds go back to even
    for a size that only an interruption explains.
    """
    return sum((3 + (deviation / width) ** 2) ** -2 / width for width in (noise, TORN))
