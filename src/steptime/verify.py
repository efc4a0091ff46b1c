"""Faster, and still the same? Outputs, decisions, whole trainings, in that order, and the report of it in two lines.

Layer 1: outputs against float64, with a tolerance that fits the precision (`relative_error`, `outputs_agree`).
Layer 2: what is decided by them (`decisions`; `error_stays` for regression).
Layer 3: the final metric of trainings from scratch, over seeds (`over_seeds`, `equivalent`).
What cannot be compared is never called the same.
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from steptime.answers import Unlike, difference, is_tensor
from steptime.claims import Verdict
from steptime.equivalence import equivalent, plus_minus, runs
from steptime.seeds import over_seeds, same_bits, set_seeds
from steptime.sequential import ERROR_RATE
from steptime.units import duration

__all__ = [
    "decisions",
    "equivalent",
    "error_stays",
    "outputs_agree",
    "over_seeds",
    "relative_error",
    "report",
    "same_bits",
    "set_seeds",
]


def relative_error(exact, outputs):
    """The largest error of any output, relative to the largest magnitude among the exact ones; absolute if that is 0.

    exact: an array or a tensor of type float64, and computed in it; only the type can be seen, not what was computed
    in less and cast at the end. outputs: of the same shape, in any precision.
    Raises ValueError where exact is not float64 or not finite, where there is nothing to compare, where shapes differ
    and where outputs are not finite.
    """
    given = getattr(exact, "dtype", type(exact).__name__)
    if str(given).removeprefix("torch.") != "float64":
        raise ValueError(f"relative_error: exact must be of type float64, and computed in it, not {given}.")
    exact, outputs = _numbers("exact", exact), _numbers("outputs", outputs)
    _finite("exact outputs", exact)
    try:
        error = difference(exact, outputs)
    except Unlike as unlike:
        raise ValueError(f"relative_error: {unlike}.") from None
    _finite("outputs", outputs)
    return error


def outputs_agree(exact, outputs, tolerance):
    """Verdict: is the relative error at most `tolerance`? False where shapes differ or outputs are not finite.

    Raises ValueError, as `relative_error` does, where exact gives nothing to hold them against.
    """
    if not _is_share(tolerance):
        raise ValueError(f"outputs_agree: tolerance is a relative error between 0 and 1, not {tolerance!r}.")
    relative_error(exact, exact)  # whatever is wrong now is wrong with the outputs
    try:
        error = relative_error(exact, outputs)
    except ValueError as problem:
        return Verdict(False, str(problem).removeprefix("relative_error: ").rstrip("."))
    return Verdict(
        error <= tolerance, f"off by {error:.2g}, {tolerance:g} allowed", tolerance / error if error else None
    )


@dataclass(frozen=True)
class Decisions:
    """What two sets of scores decide: the class with the highest score.

    flipped: the samples, by number, that another class wins after, or none because a score is not a finite number.
    margins: for each sample, the highest score before less the second.
    """

    flipped: np.ndarray
    margins: np.ndarray

    @property
    def agreement(self):
        """The share of samples whose class stayed."""
        samples = len(self.margins)
        return (samples - len(self.flipped)) / samples  # 1 - 7 / 100 would be less than 0.93

    def at_least(self, share):
        """Verdict: do at least this share of the samples keep their class? Raises ValueError outside of 0 to 1."""
        if not (_is_share(share) or share == 1):
            raise ValueError(f"at_least: share is a part of the samples, above 0 and at most 1, not {share!r}.")
        return Verdict(bool(self.agreement >= share), f"{self}, {share:.2%} asked for")

    def are_near_ties(self, share):
        """Verdict: has no sample that flipped more than this share of all the margins below its own?

        Raises ValueError unless share lies between 0 and 1.
        """
        if not _is_share(share):
            raise ValueError(f"are_near_ties: share is a part of the samples, between 0 and 1, not {share!r}.")
        below = np.searchsorted(np.sort(self.margins), self.margins[self.flipped], side="left")
        farthest = below.max(initial=0) / len(self.margins)
        evidence = f"{self}, the farthest from a tie had {farthest:.1%} of the margins below it, {share:.1%} allowed"
        return Verdict(bool(farthest <= share), evidence, float(share / farthest) if farthest else None)

    def __repr__(self):
        return f"{len(self.flipped)} of {len(self.margins)} decisions flipped"


def decisions(before, after):
    """The Decisions by the scores before and after a change, each (samples, classes).

    Raises ValueError where the shapes differ, are no such table, or a score before is not finite.
    """
    before, after = _numbers("before", before), _numbers("after", after)
    if before.ndim != 2 or before.shape[1] < 2:
        raise ValueError(f"decisions: before must be (samples, classes), of 2 classes or more, not {before.shape}.")
    if before.shape != after.shape:
        raise ValueError(f"decisions: before has the shape {before.shape}, after {after.shape}.")
    _finite("scores before", before)
    undecided = ~np.isfinite(after).all(axis=1)
    second, first = np.sort(before, axis=1)[:, -2:].T
    return Decisions(np.flatnonzero(undecided | (before.argmax(1) != after.argmax(1))), first - second)


def error_stays(truth, before, after, share):
    """Verdict: does the root mean squared error of predictions move by at most this share of what it was?

    False where predictions after are not finite. Raises ValueError unless share lies between 0 and 1, where shapes
    differ, something else is not finite, or there was no error before, of which a move could be a share.
    """
    if not _is_share(share):
        raise ValueError(f"error_stays: share is a part of the error before, between 0 and 1, not {share!r}.")
    truth, before, after = (
        _numbers(name, given) for name, given in (("truth", truth), ("before", before), ("after", after))
    )
    if not truth.shape == before.shape == after.shape:
        raise ValueError(f"error_stays: the shapes are {truth.shape}, {before.shape} and {after.shape}.")
    _finite("true values", truth)
    _finite("predictions before", before)
    old, new = (math.sqrt(np.mean((predicted - truth) ** 2)) for predicted in (before, after))
    if not old:
        raise ValueError("error_stays: there was no error before, so a move of it has no share.")
    moved = new / old - 1
    evidence = f"root mean squared error {old:.4g} -> {new:.4g}, moved by {moved:+.2%}, {share:.2%} allowed"
    return Verdict(bool(abs(moved) <= share), evidence, share / abs(moved) if moved else None)


def report(race, before, after, margin, metric="metric", error_rate=ERROR_RATE):
    """The two lines that go together: the step's time before and after, and the final metric before and after.

    race: of one step before against one after, by `compare`. before, after, margin: as `equivalent` takes them.
    """
    if race.pairs:
        old, new = (duration(np.median(times)) for times in zip(*race.pairs, strict=True))
        ratio = str(race.ratios).replace(" pairs", " interleaved pairs")
        speed = f"{old} -> {new}, {ratio} (same machine, same batch, warm-up left out, median)"
    elif race.same.answer is False:
        speed = f"not timed, the answers differ: {race.same.evidence}"
    else:
        speed = "not timed, not one pair of steps was measured"
    if race.same.answer is None:
        speed += f"; cannot tell whether the answers agree: {race.same.evidence}"
    verdict = equivalent(before, after, margin, error_rate)
    word = {True: "equivalent", False: "not equivalent", None: "cannot tell whether equivalent"}[verdict.answer]
    quality = f"{plus_minus(before)} -> {plus_minus(after)} ({runs(before, after)}): {word} within {margin:g}"
    width = max(len("step time"), len(metric))
    return f"{'step time':<{width}}  {speed}\n{metric:<{width}}  {quality}"


def _is_share(given):
    return isinstance(given, Real) and 0 < given < 1


def _numbers(name, given):
    if is_tensor(given):
        given = given.detach().cpu().resolve_conj()
        given = given if given.is_complex() else given.double()  # NumPy has no bfloat16
    array = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, not {array.dtype}.")
    if not array.size:
        raise ValueError(f"{name} is empty: there is nothing to compare.")
    return array.astype(float)


def _finite(what, array):
    odd = np.count_nonzero(~np.isfinite(array))
    if odd:
        raise ValueError(f"{odd} of {array.size} {what} are not finite.")
