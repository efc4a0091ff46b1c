"""What a batch is made of: its samples, a part of it, and several of it in one."""

from collections.abc import Mapping


def samples(batch):
    """How many samples it has: the first dimension that all its tensors and arrays share; None where there is none."""
    lengths = {len(part) if part.ndim else None for part in _arrays(batch)}
    return lengths.pop() if len(lengths) == 1 else None


def part(batch, count):
    """The first `count` samples of it."""
    return _each(batch, lambda array: array[:count])


def several(batch, times):
    """A batch `times` as large, in which each sample comes so often."""

    def repeated(array):
        # Not `repeat`, whose arguments mean different things to tensors and to arrays.
        import numpy as np
        import torch

        parts = [array] * times
        return np.concatenate(parts) if isinstance(array, np.ndarray) else torch.cat(parts)

    return _each(batch, repeated)


def device_of(batch):
    """The device of its first tensor; None where it has none."""
    return next((array.device for array in _arrays(batch) if hasattr(array, "is_cuda")), None)


def _arrays(batch):
    if isinstance(batch, Mapping):
        batch = batch.values()
    elif _is_array(batch):
        yield batch
        return
    elif not isinstance(batch, (list, tuple)):
        return
    for member in batch:
        yield from _arrays(member)


def _each(batch, change):
    if _is_array(batch):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: _each(value, change) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        members = [_each(member, change) for member in batch]
        return type(batch)(*members) if hasattr(batch, "_fields") else type(batch)(members)
    return batch


def _is_array(thing):
    return hasattr(thing, "ndim") and hasattr(thing, "dtype") and hasattr(thing, "__getitem__")
