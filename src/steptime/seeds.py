"""What a seed fixes: one training over several seeds, and whether two runs are the same to the last bit.

A seed fixes what is drawn: first weights, order, augmentation, dropout. It fixes no sum's order, so another number of
threads, another machine or another version of torch can give other bits from the same seed.
"""

import random
from collections.abc import Sequence
from numbers import Number

import numpy as np
from tqdm import tqdm

from steptime.answers import is_tensor
from steptime.claims import Verdict
from steptime.equivalence import plus_minus


def same_bits(before, after):
    """Verdict: is it the same to the last bit? NaN then equals the same NaN, and 0 is not -0.

    Takes tensors, arrays, numbers, what has a state_dict, and dicts, lists and tuples of them.
    Raises ValueError where there is nothing to compare.
    """
    old, new = dict(_parts(before)), dict(_parts(after))
    if not old:
        raise ValueError("same_bits: there is nothing to compare.")
    if old.keys() != new.keys():
        return Verdict(False, f"{len(old.keys() ^ new.keys())} parts are in one of the two alone")
    differ = [name for name in old if old[name] != new[name]]
    if differ:
        return Verdict(
            False, f"{len(differ)} of {len(old)} parts differ, {'.'.join(map(str, differ[0])) or 'the only one'} first"
        )
    return Verdict(True, f"{len(old)} parts, bit for bit")


def set_seeds(seed):
    """Seed the generators that a training draws from unless it has its own: Python's, NumPy's global one, torch's."""
    import torch  # not at the top: it takes seconds

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Runs(Sequence):
    """The final metrics of trainings that differ in their seed alone, in the order of `seeds`."""

    def __init__(self, seeds, metrics):
        self.seeds, self.metrics = tuple(seeds), tuple(metrics)

    def __getitem__(self, place):
        return self.metrics[place]

    def __len__(self):
        return len(self.metrics)

    def __repr__(self):
        return f"{plus_minus(self.metrics)} ({len(self)} seeds)"


def over_seeds(train, seeds, seed_fixes=True):
    """Runs of `train(seed)`, which trains from scratch and returns the final metric, a number; with a progress bar.

    seeds: whole numbers, each once. seed_fixes: whether a seed fixes the run; the first is then trained once more, and
    must give the same number. Say False where it cannot, as with atomic additions on a GPU. No other seed is trained
    twice, and only the final metric is compared: a coarse one, say an accuracy, can hide a draw that was not seeded.
    Raises ValueError where it does not or a seed comes twice, TypeError where train returns no number, RuntimeError
    where it raises. To these, and to Ctrl-C, a note adds the metrics of the runs that were finished.
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"over_seeds: give at least one seed, and each once, for a copy of a run shows nothing: {seeds}."
        )
    todo = seeds + seeds[:1] * seed_fixes
    name = getattr(train, "__name__", type(train).__name__)
    metrics = []
    try:
        for seed in tqdm(todo, desc=name, unit="run", delay=1, leave=False):
            metrics.append(_final(train, name, seed))
        if seed_fixes and not same_bits(metrics[0], metrics[-1]):
            raise ValueError(
                f"over_seeds: {name}({seeds[0]}) gave {metrics[0]!r}, then {metrics[-1]!r}, so its seed does not fix "
                "it: seed all it draws from (set_seeds), or say seed_fixes=False."
            )
    except BaseException as error:  # Ctrl-C too: what took hours to train must not be lost
        if metrics:
            error.add_note(f"over_seeds: finished, {{seed: metric}}: {dict(zip(seeds, metrics, strict=False))}")
        raise
    return Runs(seeds, metrics[: len(seeds)])


def _final(train, name, seed):
    try:
        metric = train(seed)
    except Exception as error:
        raise RuntimeError(f"{name}({seed}) raised {type(error).__name__}: {error}") from error
    metric = metric.item() if hasattr(metric, "item") and getattr(metric, "shape", None) == () else metric
    if not isinstance(metric, Number) or isinstance(metric, (bool, complex)):
        raise TypeError(f"{name}({seed}) returned a {type(metric).__name__}: let it return its final metric, a number.")
    return float(metric)


def _parts(thing, path=()):
    """(path of keys, all that must be the same) of each tensor, array, number or other object in it."""
    if hasattr(thing, "state_dict"):
        thing = thing.state_dict()
    if isinstance(thing, (dict, list, tuple)):
        for key, part in thing.items() if isinstance(thing, dict) else enumerate(thing):
            yield from _parts(part, (*path, key))
    elif is_tensor(thing):
        import torch

        flat = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        yield path, (str(thing.dtype), tuple(thing.shape), flat.numpy().tobytes())
    elif isinstance(thing, (np.ndarray, Number)):
        array = np.asarray(thing)
        yield path, (array.dtype.str, array.shape, array.tobytes())
    else:
        yield path, thing
