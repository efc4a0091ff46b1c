"""Experiments on a step: a larger batch, fewer threads; each beside the step as it is, in turn."""

from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from steptime.diagnosis.batches import several

LARGER = 4


@dataclass(frozen=True)
class Sizes:
    """Seconds of a step on the batch, and on one LARGER times as large; by one thread, and the least that was seen.

    One thread, since several that wait for each other on busy cores look like a fixed cost. The least, since whoever
    interrupts a step only makes it longer.
    """

    one: float
    larger: float

    @property
    def fixed(self):
        """The part of a step, 0 to 1, that does not grow with the batch, if the rest grows in proportion to it."""
        return min(1.0, max(0.0, (LARGER - self.larger / self.one) / (LARGER - 1)))


def see_sizes(step, batch, pairs):
    """Sizes of a step, over so many pairs.

    A call alike, not timed, comes before each: after another size the caches hold that one's numbers.
    """
    large, times = several(batch, LARGER), []
    with _threads() as use:
        use(1)
        for _ in range(pairs):
            pair = []
            for each in (batch, large):
                step(each)
                pair.append(_seconds(step, each))
            times.append(pair)
    return Sizes(*map(min, zip(*times, strict=True)))


@dataclass(frozen=True)
class Threads:
    """Seconds of a step with as many threads as it has now, `count`, and with `best` of them, one or one each core."""

    count: int
    best: int
    now: float
    fewer: float


def see_threads(function, count, cores, may_go_on):
    """Threads of a function that may use `count`: medians of calls in turns, the first after a change not counted.

    It goes on while `may_go_on()`, three rounds at most.
    """
    from threadpoolctl import threadpool_limits

    times = {number: [] for number in dict.fromkeys([None, cores, 1])}
    with _threads() as use:
        for _ in range(3):
            for number, seconds in times.items():
                use(number)
                with threadpool_limits(number):
                    function()
                    seconds += [_seconds(function) for _ in range(3)]
            if not may_go_on():
                break
    now = median(times.pop(None))
    best = min(times, key=lambda number: median(times[number]))
    return Threads(count, best, now, median(times[best]))


@contextmanager
def _threads():
    """Gives a function that sets torch's threads, to what they were for None. torch.set_num_threads does nothing then.

    Otherwise a step that sets them itself would undo it.
    """
    import torch

    setting, count = torch.set_num_threads, torch.get_num_threads()
    torch.set_num_threads = lambda number: None
    try:
        yield lambda number: setting(number or count)
    finally:
        torch.set_num_threads = setting
        setting(count)


def _seconds(function, *arguments):
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start
