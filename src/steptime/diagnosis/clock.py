"""Wall time, and what the processor did meanwhile."""

from dataclasses import dataclass
from time import perf_counter, process_time

from steptime.machine import SCHEDULER


@dataclass(frozen=True)
class Stretch:
    """Seconds of wall time; of them, computed in this process; and in line for a core that others had."""

    wall: float
    computed: float
    queued: float

    @property
    def idle(self):
        """Seconds in which it neither computed nor wanted a core: it waited for a disk, a server, another process."""
        return max(0.0, self.wall - self.computed - self.queued)


def now():
    """A moment: pass it to `since`."""
    return (_queued(), process_time(), perf_counter())


def since(moment):
    """The Stretch from that moment to this.

    The wall clock is read last before and first after: what reading the others takes, or who comes between, is not in.
    """
    queued, computed, wall = moment
    wall = perf_counter() - wall
    return Stretch(wall, process_time() - computed, _queued() - queued)


def _queued():
    try:
        return int(SCHEDULER.read_text().split()[1]) / 1e9
    except OSError:  # only Linux tells
        return 0.0
