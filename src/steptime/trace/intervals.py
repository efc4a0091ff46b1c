"""Sets of intervals on one time line: union, intersection, what is left between. Pure; any unit of time."""

import numpy as np


def union(start, end):
    """(starts, ends) of the union, sorted and apart; intervals that touch become one, empty ones vanish."""
    full = end > start
    start, end = start[full], end[full]
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([begins[1:], [True]])
    return start[begins], reach[last]


def clip(start, end, low, high):
    """The intervals cut to [low, high]; those outside become empty."""
    return np.clip(start, low, high), np.clip(end, low, high)


def total(start, end):
    """The sum of their lengths."""
    return float((end - start).sum())


def covered(start, end, low, high):
    """How much of [low, high] the union of the intervals covers."""
    return total(*union(*clip(start, end, low, high)))


def shared(one, other):
    """How much of the time line two unions have in common."""
    both = union(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))
    return max(0.0, total(*one) + total(*other) - total(*both))


def between(start, end, low, high):
    """(starts, ends) of what a union leaves free of [low, high], edges included."""
    start, end = clip(start, end, low, high)
    free_from, free_to = np.concatenate([[low], end]), np.concatenate([start, [high]])
    free = free_to > free_from
    return free_from[free], free_to[free]
