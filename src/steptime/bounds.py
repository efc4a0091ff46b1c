"""How much faster the whole can get if one of its parts does: the bound to know before any work on that part.

Amdahl, Validity of the single processor approach to achieving large scale computing capabilities, 1967.
"""

import math
from dataclasses import dataclass

from steptime.units import duration, times


def amdahl(share, speedup=math.inf):
    """How many times faster the whole gets when a part of it, `share` of its time, gets `speedup` times faster.

    Without a speedup: the bound, for a part that takes no time at all. Raises ValueError where share is not within
    0 and 1, or speedup is not above 0.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"amdahl: share is a part of the whole, from 0 to 1, not {share!r}.")
    if not speedup > 0:
        raise ValueError(f"amdahl: speedup is how many times faster, above 0, not {speedup!r}.")
    rest = 1 - share + share / speedup
    return 1 / rest if rest else math.inf


@dataclass(frozen=True)
class Part:
    """One part of a step: its name, its seconds, its share of all of them, and Amdahl's bound on the whole."""

    name: str
    seconds: float
    share: float
    bound: float


class Ranking(tuple):
    """Parts, those with the highest bound first; shown as a table."""

    def __repr__(self):
        width = max(len("part"), *(len(part.name) for part in self))
        lines = [f"{'part':<{width}}  {'time':>8}  share  the whole gets at most"]
        lines += [
            f"{part.name:<{width}}  {duration(part.seconds):>8}  {part.share:>4.0%}   {times(part.bound)} faster"
            for part in self
        ]
        return "\n".join(lines)


def rank(seconds):
    """The Ranking of the parts of a whole by what can be gained from each.

    seconds: {name: how long it takes}, for parts that follow one another and together are the whole.
    Raises ValueError where there is none, one is negative, or all are 0.
    """
    whole = sum(seconds.values())
    if not seconds or min(seconds.values()) < 0 or not 0 < whole < math.inf:
        raise ValueError(f"rank: the parts need times of 0 s or more, and not all 0, got {seconds!r}.")
    parts = [Part(name, time, time / whole, amdahl(time / whole)) for name, time in seconds.items()]
    return Ranking(sorted(parts, key=lambda part: -part.seconds))
