"""Is the final metric still the same? Two one-sided tests, on the metrics of runs before and after a change.

"No significant difference" is no evidence of sameness: few runs and a wide spread never show a difference. So the
burden is turned round. Fix in advance how far the mean may move; ask whether a move of that size or more is ruled out,
upwards and downwards, each by a one-sided t test. Schuirmann, A comparison of the two one-sided tests procedure and the
power approach for assessing the equivalence of average bioavailability, 1987. The two groups may spread differently:
Welch, The generalization of "Student's" problem when several different population variances are involved, 1947.
"""

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
from scipy.special import stdtrit

from steptime.claims import Verdict
from steptime.sequential import ERROR_RATE

FEWEST = 5
"""Runs on each side: of fewer nobody can see whether one of them strayed."""


def equivalent(before, after, margin, error_rate=ERROR_RATE):
    """Verdict: does the mean metric lie within `margin` of what it was?

    before, after: the final metric of each run, in any unit; each a list of numbers or what `over_seeds` gave.
    margin: how far the mean may move, in that unit, up or down; fixed before you look.
    error_rate: the chance of "equivalent", at most, where the mean truly moved by the margin; see below.
    True where the interval of the move lies inside of the margin, False where it lies outside or a run after the change
    ended without a finite metric; nobody can tell where neither is so, with fewer than FEWEST runs on a side, where the
    runs before were not all finite or all ended in the same number. Where those after did, it is never True.
    Raises ValueError for a margin that is no number above 0, an error rate outside 0 to 0.5, for what is
    no row of numbers and for the same runs given twice.

    The runs are taken as independent, on a side and between the sides, and their number as fixed in advance: who adds
    seeds until the answer suits errs more often. Welch's test is approximate. Simulated at a rate of 0.001, normal
    metrics keep to it with as many runs on each side and equal spread; with 5 runs on each side and one spread 5 times
    as wide it was 0.002, with 5 runs against 20 or 50 it was 0.003. Skew that differs between the sides costs more: for
    accuracies of 99 % on 500 samples up to 0.005, for exponential metrics 0.04. So train as many runs before as after.
    A failure that strikes one run in a hundred is seen by neither side.
    """
    if not (isinstance(margin, Real) and 0 < margin < math.inf):
        raise ValueError(f"equivalent: margin is how far the mean may move, a number above 0, not {margin!r}.")
    if not (isinstance(error_rate, Real) and 0 < error_rate < 0.5):
        raise ValueError(f"equivalent: error_rate lies between 0 and 0.5, not at {error_rate!r}.")
    if before is after:
        raise ValueError("equivalent: before and after are the same runs.")
    sides = [_metrics(name, metrics) for name, metrics in (("before", before), ("after", after))]
    worst = next(_problems(*sides), None)
    if worst:
        return Verdict(*worst)
    low, high = interval_of_move(*sides, error_rate)
    farthest = float(max(-low, high))
    answer = True if farthest < margin else False if low > margin or high < -margin else None
    constant = _constant("after", sides[1])
    if constant and answer is not False:  # far away it is a collapse; nearby a seed that does not reach the training
        return Verdict(None, constant)
    evidence = (
        f"{plus_minus(sides[0])} -> {plus_minus(sides[1])} ({runs(*sides)}), "
        f"moved by {low:+.2g} to {high:+.2g}, {margin:g} allowed"
    )
    return Verdict(answer, evidence, margin=margin / farthest)


def interval_of_move(before, after, error_rate=ERROR_RATE):
    """(low, high): by how much the mean metric moved; each end misses the truth with a chance of about `error_rate`.

    before, after: arrays with one run in each place of the last axis; the axes before it are carried along.
    """
    sides = [np.asarray(side, dtype=float) for side in (before, after)]
    shares = [side.var(axis=-1, ddof=1) / side.shape[-1] for side in sides]  # of the variance of the move
    terms = [share**2 / (side.shape[-1] - 1) for share, side in zip(shares, sides, strict=True)]
    reach = stdtrit(sum(shares) ** 2 / sum(terms), 1 - error_rate) * np.sqrt(sum(shares))
    move = sides[1].mean(axis=-1) - sides[0].mean(axis=-1)
    return move - reach, move + reach


def plus_minus(metrics):
    """Mean and standard deviation as a person writes them: `0.9541 ± 0.0043`."""
    if not len(metrics):
        return "no run"
    shifted = np.asarray(metrics) - metrics[0]  # so that the same number ten times has no spread, not 1e-17
    mean, sd = np.mean(metrics), np.std(shifted, ddof=1) if len(metrics) > 1 else math.nan
    if not 0 < sd < math.inf:
        return f"{mean:.4g} ± {sd:.2g}"
    decimals = max(0, 1 - math.floor(math.log10(sd)))
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def runs(before, after):
    """How many runs there are on each side: `10 seeds each`."""
    return f"{len(before)} seeds each" if len(before) == len(after) else f"{len(before)} and {len(after)} seeds"


def _metrics(name, metrics):
    if not isinstance(metrics, (Sequence, np.ndarray)) or isinstance(metrics, str):
        raise ValueError(f"equivalent: {name} is a row of final metrics, one for each run, not {metrics!r}.")
    try:
        row = np.asarray(metrics)
        if row.dtype.kind not in "iuf":  # as floats, "0.95" would be a number, and None NaN
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"equivalent: {name} holds something that is no number: {metrics!r}.") from None
    if row.ndim != 1:
        raise ValueError(f"equivalent: {name} has {row.ndim} dimensions: give one final metric for each run.")
    return row.astype(float)


def _problems(before, after):
    """What keeps the two from being compared, the worst first: (the answer it leaves, one sentence)."""
    failed = [int(np.count_nonzero(~np.isfinite(side))) for side in (before, after)]
    if failed[0]:
        yield None, f"{failed[0]} of {len(before)} runs before ended without a finite metric"
    if failed[1]:
        yield False, f"{failed[1]} of {len(after)} runs after ended without a finite metric"
    for name, side in (("before", before), ("after", after)):
        if len(side) < FEWEST:
            yield None, f"{len(side)} runs {name} are too few: train at least {FEWEST}"
    constant = _constant("before", before)
    if constant:
        yield None, constant


def _constant(name, side):
    """A sentence where all runs of this side ended in the same number, else None."""
    if len(set(side.tolist())) == 1:
        return f"all {len(side)} runs {name} ended in exactly {side[0]:g}: does the seed reach the training?"
    return None
