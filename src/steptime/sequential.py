"""What a series of paired timings says about their ratio, valid whenever one stops.

Each pair gives a ratio. If the true median ratio is x, a pair lies above x as often as below it, so the pairs
above x are the heads of a fair coin. Bet on that coin: put a share of the capital on "above" or on "below", and
average the capital over all shares. Nobody wins for long at a fair game: the chance that the capital ever grows
a thousandfold is at most one in a thousand, however often one looks and whenever one stops (Ville's inequality).
So an x at which it did grow a thousandfold is not the median ratio.

Averaging over Beta(1/2, 1/2)-distributed shares gives the capital in closed form (Krichevsky and Trofimov, The
performance of universal encoding, 1981; Ramdas, Grünwald, Vovk and Shafer, Game-theoretic statistics and safe
anytime-valid inference, 2023). Only signs are used: neither heavy tails nor bursts change the odds.
"""

import math
from bisect import insort

ERROR_RATE = 0.001
"""The chance that an interval ever misses, over the whole run: one rate for the whole book."""


def capital(above, pairs):
    """Natural logarithm of what a capital of 1 has grown to after `above` of `pairs` fair coins fell one way."""

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return pairs * math.log(2) + log_beta(above + 0.5, pairs - above + 0.5) - log_beta(0.5, 0.5)


class PairedRatios:
    """The ratios of the pairs so far, with the interval and the verdicts they allow.

    All answers are read off one interval, so they cannot contradict each other.
    """

    def __init__(self):
        self._sorted = []
        self._outside = 0  # how many pairs, from either end of the order, may not lie beyond the median ratio

    def __len__(self):
        return len(self._sorted)

    def add(self, ratio):
        """Take in one pair's ratio, a positive number."""
        insort(self._sorted, ratio)
        n, k = len(self._sorted), self._outside
        while capital(k, n) >= -math.log(ERROR_RATE):  # no ratio with only k pairs below it can be the median
            k += 1
        self._outside = k

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

    def above(self, x):
        """True if the median ratio is above x, False if it is below, None while neither is certain."""
        low, high = self.interval
        return True if low > x else False if high < x else None
