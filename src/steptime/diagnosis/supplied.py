"""Steps as the loader supplies them, pass after pass: the waits, what they are made of, and what a pass costs first."""

from collections.abc import Iterator
from itertools import repeat
from statistics import median

from steptime.diagnosis import clock
from steptime.supply import SameBatch, watch

STEPS, PASSES = 40, 4
"""How many steps are wanted, and how many passes."""

LONGEST, MOST = 16, 8
"""How many steps of a pass are enough, and how many passes are at most begun."""

STRETCH = 8


class Supply:
    """What is seen of a loader while `step` is called with its batches.

    log: the StepLog. batch: the last one that came. taken: how many came. length: steps in a pass, None where that is
    not known.
    """

    def __init__(self, loader):
        self.loader, self.once = loader, isinstance(loader, Iterator)
        self.workers = getattr(loader, "num_workers", 0) or 0
        self.length, self.batch, self.taken = _length(loader), None, 0
        self._waits, self._starts, self._whole = [], [], []
        self._watched = watch(_Counted(self))
        self.log = self._watched.log

    def see(self, step, may_go_on):
        """Call `step` with batch after batch until enough is seen or `may_go_on()` is false; one call at least."""
        self._may_go_on = may_go_on
        for _ in range(1 if self.once else MOST):
            before = self.taken
            for batch in self._watched:
                step(batch)
            enough = len(self._starts) >= PASSES and len(self.log) >= STEPS
            if enough or self.taken == before or not may_go_on():
                return

    def _pass(self):
        """One pass over the loader, cut where it is long enough. Its start is part of its first wait."""
        self._starts.append(len(self._waits))
        self._whole.append(False)
        count, limit = 0, STEPS if self.once else LONGEST
        moment = clock.now()
        batches = _guarded(iter, self.loader, self.taken)
        while count < limit and (self._may_go_on() or not self.taken):
            try:
                self.batch = _guarded(next, batches, self.taken)
            except StopIteration:
                self.length, self._whole[-1] = count, True
                return
            self._waits.append(clock.since(moment))
            count, self.taken = count + 1, self.taken + 1
            yield self.batch
            moment = clock.now()
        self._whole[-1] = count == self.length

    @property
    def others(self):
        """A clock.Stretch for each wait that is not the first of its pass; for each, where there are no others."""
        return [wait for place, wait in enumerate(self._waits) if place not in self._starts] or self._waits

    @property
    def wait(self):
        """Seconds a step waits: the median over stretches of STRETCH steps, or as many as there are workers.

        A single wait says little: workers take turns, and who reads ahead lets one batch wait for all of a chunk.
        """
        walls = [each.wall for each in self.others]
        size = max(1, self.workers, min(STRETCH, len(walls) // 2))
        return median(sum(walls[at : at + size]) / len(walls[at : at + size]) for at in range(0, len(walls), size))

    @property
    def idle_share(self):
        """The part of the waiting, 0 to 1, in which this process neither computed nor stood in line for a core."""
        return sum(each.idle for each in self.others) / max(1e-9, sum(each.wall for each in self.others))

    @property
    def start(self):
        """Seconds by which the first wait of a pass is longer than others: the least that was seen, and 0 of one pass.

        The first pass is left out, which pays for more. So is one that follows a cut pass of workers who go on living:
        they first finish what nobody asks for.
        """
        goes_on = bool(getattr(self.loader, "persistent_workers", False))
        fair = [
            self._waits[start].wall
            for before, start in zip(self._whole, self._starts[1:], strict=False)
            if start < len(self._waits) and (before or not goes_on)
        ]
        return max(0.0, min(fair) - self.wait) if fair else 0.0

    @property
    def passes(self):
        """How many passes were begun."""
        return len(self._starts)


class _Counted:
    """A loader again, each of whose passes is one that a Supply sees."""

    def __init__(self, supply):
        self._supply = supply

    def __iter__(self):
        return self._supply._pass()


def keep_batch(supplied, batch, step, steps):
    """Take so many steps on one batch that stays in place: a SameBatch against the StepLog of the supplied steps."""
    watched = watch(repeat(batch, steps))
    for same in watched:
        step(same)
    return SameBatch(supplied, watched.log)


def serial_twin(loader):
    """The DataLoader's batches, prepared by this process instead of its workers; None where it is no such loader."""
    from torch.utils.data import DataLoader, IterableDataset

    if not isinstance(loader, DataLoader) or not loader.num_workers:
        return None
    same = {"num_workers": 0, "collate_fn": loader.collate_fn, "generator": loader.generator}
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return DataLoader(
            loader.dataset, batch_size=loader.batch_size, drop_last=loader.drop_last, **_sampler(loader), **same
        )
    return DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, **same)


class LoaderRaised(RuntimeError):
    """The loader raised; the text is one sentence."""


def _guarded(act, loader, taken):
    try:
        return act(loader)
    except StopIteration:
        raise
    except Exception as error:
        when = f"after {taken:,} batches" if taken else "before its first batch"
        raise LoaderRaised(f"The loader raised {type(error).__name__} {when}: {error}") from error


def _sampler(loader):
    from torch.utils.data import IterableDataset

    return {} if isinstance(loader.dataset, IterableDataset) else {"sampler": loader.sampler}


def _length(loader):
    try:
        return len(loader)
    except TypeError:  # it has none, or an iterable data set has none
        return None
