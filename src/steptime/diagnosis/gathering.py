"""The looks at a training step, one after the other, as long as there is time."""

from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from steptime import machine
from steptime.diagnosis import batches
from steptime.diagnosis.calls import see_calls
from steptime.diagnosis.compiled import compilations
from steptime.diagnosis.evidence import Evidence
from steptime.diagnosis.forwards import see_forwards
from steptime.diagnosis.growth import see_growth
from steptime.diagnosis.operators import see_operators
from steptime.diagnosis.supplied import Supply, keep_batch, serial_twin
from steptime.diagnosis.trials import see_sizes, see_threads
from steptime.naming import name_of

NOTABLE = 0.1
"""A part of a step below this is not looked into: without it the step would be 1.11 times as fast."""

READING = 2e-4
"""Seconds at most that recording an operator and reading its record take, each time."""


class Gathering:
    """One diagnosis under way: what is seen goes into `evidence` at once, so that nothing is lost if it is stopped."""

    def __init__(self, loader, step, model, optimizer, seconds):
        self.loader, self._step, self._end = loader, step, perf_counter() + seconds
        self.evidence = Evidence(Supply(loader), seconds, model is not None, optimizer is not None)
        self.phases = (
            self.supplied,
            self.kept,
            self.threads,  # early: too many threads make every look after it slow
            self.without_workers,
            self.preparation,
            self.pass_start,
            self.operators,
            self.calls,
            self.forwards,
            self.half,
            self.growth,
            self.sizes,
        )

    def step(self, batch):
        self.evidence.calls_of_step += 1
        try:
            self._step(batch)
        except Exception as error:
            raise StepRaised(name_of(self._step), self.evidence.calls_of_step, batch, error) from error
        self.evidence.is_autocast |= any(map(torch.is_autocast_enabled, ("cpu", "cuda")))

    def again(self):
        """The step on the batch kept in place."""
        self.step(self.evidence.supply.batch)

    def supplied(self):
        evidence, before = self.evidence, compilations()
        first, until = None, 0.0

        def step(batch):
            nonlocal first, until
            self.step(batch)
            if first is None:  # which may have compiled for long
                first, until = compilations(), perf_counter() + 0.3 * evidence.seconds

        def may_go_on():
            # One graph more is no rule yet: wait for another, or for the end.
            waits = first is not None and (compilations() - first).graphs == 1
            return perf_counter() < min(self._end, until + 0.3 * evidence.seconds * waits)

        try:
            evidence.supply.see(step, may_go_on)
        finally:
            if first:
                evidence.compiled = compilations() - first
                evidence.graphs = (compilations() - before).graphs

    def kept(self):
        self._demand(3)
        steps = self._times(0.06, 3, 30)
        self.evidence.same = keep_batch(self.evidence.supply.log, self.evidence.supply.batch, self.step, steps)

    def operators(self):
        self._demand(8)
        self.evidence.operators = see_operators(self.again, 1, self.evidence.plain)
        if len(self.evidence.operators.calls) < 3_000:  # else the profile of more steps is slow to read
            self.evidence.operators = see_operators(self.again, self._times(0.05, 1, 8), self.evidence.plain)

    def calls(self):
        self._demand(3)
        seen = [see_calls(self.again, self._times(0.02, 1, 4), self.evidence.plain) for _ in range(3)]
        self.evidence.calls = min(seen, key=lambda each: each.profiled)
        self.evidence.is_autocast |= bool(self.evidence.calls.keys(_enters_autocast))

    def forwards(self):
        if self.evidence.is_compiled:
            raise NotSeen("what is compiled is not seen module by module")
        self._demand(4)
        seen = [see_forwards(self.again) for _ in range(self._times(0.03, 1, 5))]
        self.evidence.forwards = min(seen, key=lambda each: each.step)

    def growth(self):
        self._demand(12, 10 * READING * len(self.evidence.operators.calls) if self.evidence.operators else 0.0)
        self.evidence.growth = see_growth(self.again, 3)

    def without_workers(self):
        twin = serial_twin(self.loader)
        if twin is None:
            return
        until = perf_counter() + 0.08 * self.evidence.seconds
        seen = Supply(twin)
        seen.see(lambda batch: None, lambda: perf_counter() < until)
        self.evidence.serial = seen

    def preparation(self):
        supply = self.evidence.supply
        loader = serial_twin(self.loader) or self.loader
        wait = (self.evidence.serial or supply).wait
        if supply.wait / self.evidence.step < NOTABLE or (supply.once and supply.length is not None):
            return
        self._demand(0, 12 * wait)
        waiting = iter(loader)
        next(waiting, None)
        times = min(self._times(0.05, 2, 5, wait), (supply.length or 6) - 1)
        if times > 0:
            self.evidence.preparation = see_calls(lambda: next(waiting, None), times, wait)
        supply.taken += (1 + times) * supply.once

    def pass_start(self):
        supply = self.evidence.supply
        if supply.once or supply.workers or self.evidence.start / self.evidence.step < NOTABLE:
            return
        self._demand(0, 4 * supply.start)
        self.evidence.pass_start = _pass_start(self.loader, supply.start + supply.wait)

    def threads(self):
        count, cores = most_threads(), machine.usable_cores()
        if count <= cores:
            return
        self._demand(20)
        until = perf_counter() + 0.15 * self.evidence.seconds
        self.evidence.threads = see_threads(self.again, count, cores, lambda: perf_counter() < until)

    def sizes(self):
        if self.evidence.plain > 0.2:
            return  # no fixed cost of calls is that long
        self._demand(55)
        pairs = self._times(0.2, 5, 40, 10 * self.evidence.plain)
        self._cut("sizes", lambda batch: see_sizes(self.step, batch, pairs), 1)

    def half(self):
        self._demand(10, 2 * READING * len(self.evidence.operators.calls) if self.evidence.operators else 0.0)
        self._cut("half", self._on_half, 4)

    def _on_half(self, batch):
        small = batches.part(batch, batches.samples(batch) // 2)
        self.step(small)
        plain = median(self._timed(small) for _ in range(3))
        return see_operators(lambda: self.step(small), 1, plain), see_calls(lambda: self.step(small), 1, plain)

    def _timed(self, batch):
        start = perf_counter()
        self.step(batch)
        return perf_counter() - start

    def _cut(self, name, act, least):
        """Do something with a batch of another size, where there can be one."""
        batch, count = self.evidence.supply.batch, self.evidence.samples
        if self.evidence.is_compiled:
            raise NotSeen("a compiled step would be compiled anew for another size of batch")
        if count is None:
            raise NotSeen("the batch has no first dimension that all its tensors share")
        if count < least:
            raise NotSeen(f"a batch of fewer than {least} samples is not cut")
        try:
            setattr(self.evidence, name, act(batch))
        except StepRaised:
            raise NotSeen("the step takes no batch of another size") from None

    def _times(self, share, least, most, each=None):
        """How many calls of so many seconds fit into a share of the time."""
        return max(least, min(most, int(share * self.evidence.seconds / (each or self.evidence.plain))))

    def _demand(self, steps, seconds=0.0):
        if perf_counter() + steps * self.evidence.plain + seconds > self._end:
            self.evidence.is_cut = True
            raise NotSeen(f"no time was left of the {self.evidence.seconds:g} s")


class NotSeen(Exception):
    """A phase that is left out; the text says why."""


class StepRaised(RuntimeError):
    """The step raised; the text is one sentence."""

    def __init__(self, name, call, batch, error):
        self.call, self.batch, self.error = call, batch, error
        super().__init__(f"{name} raised {type(error).__name__} in its call {call}: {error}")


def _enters_autocast(function):
    return Path(function.file).as_posix().endswith("torch/amp/autocast_mode.py") and function.name == "__enter__"


def most_threads():
    """How many threads a library may start for one operator: torch or BLAS."""
    from threadpoolctl import threadpool_info

    return max([torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())])


def _pass_start(loader, plain):
    """(Calls, bytes allocated at once) of getting the first batch of a pass."""
    import tracemalloc

    from steptime.allocations import peak, record

    def first():
        next(iter(loader))

    calls = see_calls(first, 1, plain)
    tracemalloc.start()
    try:
        events = record(first)
        return calls, peak(events) + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
