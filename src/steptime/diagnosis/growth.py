"""What a step leaves in memory: bytes, and graphs of backward passes that somebody still holds."""

import gc
from dataclasses import dataclass


@dataclass(frozen=True)
class Growth:
    """What each step leaves behind: tensors, nodes of graphs that they hold on to, and bytes, on device and host.

    steps_left: how many more steps fit into the memory that is free; infinite where none is left behind.
    """

    tensors: float
    nodes: float
    bytes: float
    steps_left: float


MOST_NODES = 100_000
"""No more nodes of graphs than these are counted: such a graph grows, or would not fit."""


def see_growth(function, steps):
    """Growth over so many calls of a function. A few calls before and beside them are not counted.

    What a step frees of older memory is not recorded, so a long record is held against a short one.
    """
    short = _recorded(function, 2)
    before, device = _held(), _device_bytes()
    long = _recorded(function, 2 + steps)
    after, device = _held(), _device_bytes() - device
    tensors, nodes = ((new - old) / (2 + steps) for old, new in zip(before, after, strict=True))
    left = (long - short) / steps + device / (2 + steps)
    return Growth(tensors, nodes, left, _free() / left if left > 0 else float("inf"))


def _recorded(function, calls):
    """Bytes that so many calls ask for and do not free."""
    from steptime.allocations import record, silent

    def act():
        for _ in range(calls):
            function()

    with silent():  # memory that is older than the record is complained of when it is freed
        return sum(size for _, size in record(act))


def _held():
    """(tensors that are alive, nodes of the graphs that they hold)."""
    import torch

    gc.collect()
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    todo = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(todo)
    while todo and len(seen) < MOST_NODES:
        for node, _ in todo.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                todo.append(node)
    return len(tensors), len(seen)


def _device_bytes():
    import torch

    return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0


def _free():
    import psutil
    import torch

    return torch.cuda.mem_get_info()[0] if torch.cuda.is_initialized() else psutil.virtual_memory().available
