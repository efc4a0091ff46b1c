"""What the allocator held on each device, over time."""

from dataclasses import dataclass, field

import numpy as np

from steptime.trace.question import Absent


@dataclass(frozen=True)
class Memory:
    """One device. drops: how often reserved memory fell, so that the allocator gave some back.

    reserved_max, allocated_max: bytes. time (microseconds) and reserved (bytes): the curve.
    """

    reserved_max: int
    allocated_max: int | None
    drops: int
    time: np.ndarray = field(repr=False)
    reserved: np.ndarray = field(repr=False)


def memory(trace):
    """{device: Memory}."""
    events = trace.allocations
    if not len(events.time):
        if trace.cpu_allocations:
            raise Absent("memory was recorded of the CPU alone, whose allocator reserves nothing")
        raise Absent("memory was not recorded (profile_memory=True records it)")
    if np.isnan(events.reserved).all():
        raise Absent("the file tells single allocations, not what was reserved, as those of 2021 do")

    def judge(mine):
        told = mine & ~np.isnan(events.reserved)
        time, reserved, allocated = events.time[told], events.reserved[told], events.allocated[told]
        most = None if np.isnan(allocated).all() else int(np.nanmax(allocated))
        return Memory(int(reserved.max()), most, int(np.count_nonzero(np.diff(reserved) < 0)), time, reserved)

    told = np.unique(events.device[~np.isnan(events.reserved)])
    names = sorted((trace.devices[number], number) for number in told)
    return {name: judge(events.device == number) for name, number in names}
