"""Experiments on a step: a larger batch, fewer threads; each beside the step as it is, in turn."""

from dataclasses import dataclass
from statistics import median
from time import perf_counter

from steptime.diagnosis.batches import several

LARGER = 4


@dataclass(frozen=True)
class Sizes:
    """Seconds of a step on the batch, and on one LARGER times as large."""

    one: float
    larger: float

    @property
    def fixed(self):
        """Seconds of the step that do not grow with the batch, if the rest grows in proportion to it."""
        return min(self.one, max(0.0, (LARGER * self.one - self.larger) / (LARGER - 1)))


def see_sizes(step, batch, pairs=7):
    """Sizes of a step: medians over so many pairs, after one that is not counted."""
    large = several(batch, LARGER)
    times = [(_seconds(step, batch), _seconds(step, large)) for _ in range(pairs + 1)][1:]
    return Sizes(*map(median, zip(*times, strict=True)))


@dataclass(frozen=True)
class Threads:
    """Seconds of a step with as many threads as it has now, `count`, and with one for each of the `cores`."""

    count: int
    cores: int
    now: float
    fewer: float


def see_threads(function, cores, rounds=3, steps=3):
    """Threads of a function: medians of calls in turns, the first after each change not counted.

    torch.set_num_threads does nothing meanwhile, lest the function undo it.
    """
    import torch
    from threadpoolctl import threadpool_info, threadpool_limits

    setting, count = torch.set_num_threads, torch.get_num_threads()
    most = max([count, *(pool["num_threads"] for pool in threadpool_info())])
    sides = ((count, None, []), (min(count, cores), cores, []))
    torch.set_num_threads = lambda number: None
    try:
        for _ in range(rounds):
            for threads, limit, seconds in sides:
                setting(threads)
                with threadpool_limits(limit):
                    function()
                    seconds += [_seconds(function) for _ in range(steps)]
    finally:
        torch.set_num_threads = setting
        setting(count)
    return Threads(most, cores, *(median(seconds) for _, _, seconds in sides))


def _seconds(function, *arguments):
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start
