"""Does training wait for its data? A loader watched step by step, and what its log says could be gained.

A step is a wait for the next batch and the computation on it. Where nothing overlaps it takes their sum, t_d + t_c. A
producer that prepares the next batch meanwhile makes that max(t_d, t_c); w of them make it max(t_d / w, t_c), as long
as they have w cores to compute on or wait for something that answers w requests at once. It is the bound of any
pipeline in which every batch passes through its stages: the slowest stage sets the pace.
"""

from collections.abc import Iterator
from itertools import repeat
from statistics import median
from time import perf_counter

import numpy as np

from steptime.machine import synchronise
from steptime.sequential import PairedRatios
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration


def watch(loader):
    """The loader again, with a `log` of its steps.

    Give it to the training loop in the loader's place: `for batch in watch(loader)`. Items, order, length, exceptions,
    attributes, also those you set, and the end of its workers stay what they are; only `log` is not the loader's. Only
    iteration is logged, and `next` of an iterator; `loader[i]` is not. A step costs about 2 µs more. The device is
    synchronised at the end of each step, so that the computation is seen where it belongs.
    Raises TypeError for what cannot be iterated.
    """
    return _WatchedIterator(loader) if isinstance(loader, Iterator) else Watched(loader)


class Watched:
    """A loader whose steps are written to `log`, pass after pass."""

    def __init__(self, loader):
        if not (hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")):
            raise TypeError(f"watch needs a loader or another iterable of batches, got a {type(loader).__name__}.")
        self._watched, self.log = loader, StepLog()

    def __iter__(self):
        return _Pass(self._watched, self.log)

    def __len__(self):
        return len(self._watched)

    def __bool__(self):
        return bool(self._watched)

    def __getitem__(self, index):
        return self._watched[index]

    def __getattr__(self, name):
        if name == "_watched":  # not there yet while a copy is made
            raise AttributeError(name)
        return getattr(self._watched, name)

    def __setattr__(self, name, value):
        if name in ("_watched", "log", "_pass"):
            super().__setattr__(name, value)
        else:
            setattr(self._watched, name, value)


class _WatchedIterator(Watched):
    """A loader that is its own iterator, such as a generator: `next` takes a step of the pass that was begun last."""

    _pass = None

    def __iter__(self):
        self._pass = super().__iter__()
        return self._pass

    def __next__(self):
        return next(self._pass or iter(self))


class _Pass:
    """One pass over a loader. No generator: one of those ends at the first exception, and a loader may go on."""

    def __init__(self, loader, log):
        start = perf_counter()
        self._batches, self._log = iter(loader), log
        self._starting = perf_counter() - start  # of the first wait: a DataLoader starts its workers here
        self._wait = self._given = None  # of the step that is being computed

    def __iter__(self):
        return self

    def __next__(self):
        if self._wait is None:
            asked = perf_counter()
        else:
            synchronise()
            asked = perf_counter()
            self._log._add(self._wait, asked - self._given, self._starting is not None)
            self._wait = self._starting = None
        batch = next(self._batches)
        self._given = perf_counter()
        self._wait = self._given - asked + (self._starting or 0.0)
        return batch

    def __getattr__(self, name):
        if name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)


class StepLog:
    """Steps that are over, in the order they came; a step is over when the next batch is asked for.

    waits, computes: seconds of each. The first step of a pass also pays for the start of the workers and for filling
    the pipeline, so unless there are no others its figures are kept apart: all but `waits`, `computes` and `first` are
    about the other steps, and raise ValueError where there are no steps.
    """

    def __init__(self):
        self.waits, self.computes, self._firsts = [], [], []

    def _add(self, wait, compute, is_first):
        if is_first:
            self._firsts.append(len(self.waits))
        self.waits.append(wait)
        self.computes.append(compute)

    def __len__(self):
        return len(self.waits)

    @property
    def first(self):
        """The median wait for the first batch of a pass, in seconds."""
        self._demand_steps()
        return median(self.waits[place] for place in self._firsts)

    @property
    def wait(self):
        """The median wait in seconds; t_d where nothing overlaps."""
        return median(self._others()[0])

    @property
    def compute(self):
        """The median computation in seconds: t_c."""
        return median(self._others()[1])

    @property
    def step(self):
        """Seconds a step: the mean, since workers deliver in bursts and the median may fall between two of them."""
        return float(np.sum(self._others(), axis=0).mean())

    @property
    def wait_share(self):
        """The part of the time that is waiting, 0 to 1."""
        waits, computes = self._others()
        return float(waits.sum() / (waits.sum() + computes.sum()))

    @property
    def serial(self):
        """Seconds a step where nothing overlaps, by the medians: t_d + t_c."""
        return self.wait + self.compute

    def bound(self, workers=1):
        """Seconds a step if `workers` producers prepare at the same time and never compete: max(t_d / w, t_c).

        Only for the log of a loader without workers, whose waits are the preparation. Raises ValueError for less
        than one worker.
        """
        _check_workers(workers)
        return max(self.wait / workers, self.compute)

    def reached(self, serial, workers=1):
        """PairedRatios: how much of the bound with `workers` producers these steps reach, 1 where they reach it all.

        serial: the StepLog of the same loader without workers. A pair is the bound of one of its steps and the mean of
        `workers` steps in a row here, in which each worker delivers once.
        """
        _check_workers(workers)
        waits, computes = serial._others()
        bounds = np.maximum(waits / workers, computes)
        steps = np.sum(self._others(), axis=0)
        if len(steps) < workers:
            raise ValueError(f"The bound with {workers} workers needs at least as many steps after the first.")
        paces = steps[: len(steps) // workers * workers].reshape(-1, workers).mean(axis=1)
        return PairedRatios(zip(bounds, paces, strict=False))

    def plot(self, bound=None):
        """A Picture of the steps, waits and computations stacked; `bound`: seconds, drawn as a line."""
        self._demand_steps()
        waits, computes = 1e3 * np.array(self.waits), 1e3 * np.array(self.computes)
        canvas, axes = figure()
        count = np.arange(1, len(self) + 1)
        width = {"width": 1.0 if len(self) > 100 else 0.8}
        axes.bar(count, computes, color=COLOURS["estimate"], label="computation", **width)
        axes.bar(count, waits, bottom=computes, color=COLOURS["pairs"], label="wait for the batch", **width)
        if bound is not None:
            axes.axhline(1e3 * bound, color=COLOURS["threshold"], linewidth=1, linestyle="--", label="bound")
        axes.set(xlabel="step", ylabel="ms")
        axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), fontsize="small")
        what = f"The waits take {self.wait_share:.0%} of the time."
        return Picture(canvas, f"{len(self)} steps as bars of wait and computation. {what} {self!r}.", what)

    def __repr__(self):
        if not len(self):
            return "no steps"
        medians = f"wait {duration(self.wait)}, computation {duration(self.compute)}"
        count = f"{len(self)} step{'s' * (len(self) > 1)}"
        return f"{count} · {medians} · {self.wait_share:.0%} waiting · first batch after {duration(self.first)}"

    def _others(self):
        """(waits, computes) of the steps that are not the first of a pass; of all where there are no others."""
        self._demand_steps()
        both = np.array([self.waits, self.computes])
        others = np.delete(both, self._firsts, axis=1)
        return others if others.size else both

    def _demand_steps(self):
        if not len(self):
            raise ValueError("There are no steps in this log: a step is over when the next batch is asked for.")


class SameBatch:
    """What `same_batch` saw. supplied: the StepLog of the loader's steps; kept: of those on one batch kept in place."""

    def __init__(self, supplied, kept):
        self.supplied, self.kept = supplied, kept

    @property
    def share(self):
        """The part of a step that goes when the batch is there already: below 0 where it took longer, as by noise."""
        return 1 - self.kept.step / self.supplied.step

    def __repr__(self):
        steps = f"{duration(self.supplied.step)} a step -> {duration(self.kept.step)} on a batch kept in place"
        return f"{steps} · supply costs {self.share:.0%} of a step · {self.supplied.wait_share:.0%} was seen waiting"


def same_batch(loader, step, steps=30):
    """Call `step(batch)` for `steps` batches of the loader, then as often on one batch kept in place: a SameBatch.

    What the steps lose is the price of supply, also where it does not show as waiting. The loader comes first and
    alone: one that works ahead would catch up during the other steps. `step` trains, so hand it a copy of the model.
    Raises ValueError where the loader gives no batch or `steps` is less than 1.
    """
    if steps < 1:
        raise ValueError(f"same_batch: steps must be 1 or more, not {steps!r}.")
    supplied = watch(loader)
    kept = None
    for count, batch in enumerate(supplied):
        if count == steps:
            break
        kept = batch
        step(batch)
    if not len(supplied.log):
        raise ValueError("same_batch: the loader gave no batch.")
    again = watch(repeat(kept, len(supplied.log)))
    for batch in again:
        step(batch)
    return SameBatch(supplied.log, again.log)


def _check_workers(workers):
    if workers < 1:
        raise ValueError(f"A bound needs one producer or more, not {workers!r}.")
