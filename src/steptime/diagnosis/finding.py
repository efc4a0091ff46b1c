"""One thing to try, with the most it can give and why."""

from dataclasses import dataclass

from steptime.bounds import amdahl

WORTH = 0.15
"""A part of a step below this is no finding: without it the step would be 1.18 times as fast."""

CERTAIN = 0.08
"""The same where calls were counted and the time alone is in doubt."""


@dataclass(frozen=True)
class Finding:
    """cause: in a few words. share: the part of a step, 0 to 1, that is gone at best once `advice` is followed.

    evidence: a sentence of what was measured. chapter: number and section that explain it. ends: whether the run ends
    by itself because of it, so that it comes first whatever time it takes. changes: whether it changes what is
    trained, so that it must promise half as much again as what does not. certain: whether calls were counted.
    """

    cause: str
    share: float
    advice: str
    evidence: str
    chapter: tuple
    ends: bool = False
    changes: bool = False
    certain: bool = False

    @property
    def is_worth_it(self):
        """Whether it can give enough, or the run ends without it."""
        return self.ends or self.share >= (CERTAIN if self.certain else WORTH)

    @property
    def bound(self):
        """How many times faster a step gets at most (Amdahl)."""
        return amdahl(min(1.0, self.share))


def ranked(findings):
    """Those worth it, the most promising first."""
    worth = [each for each in findings if each.is_worth_it]
    return tuple(sorted(worth, key=lambda each: (not each.ends, -each.share / (1.5 if each.changes else 1.0))))
