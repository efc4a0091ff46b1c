"""Events to columns: one entry per piece of work, in NumPy arrays, sorted by start."""

from array import array
from collections import Counter
from dataclasses import dataclass, fields
from decimal import Decimal

import numpy as np

from steptime.trace.kinds import ON_DEVICE, RUNTIME, kind_by_process, kind_of

DAY = 86_400e6
"""Microseconds: what lies so far from the rest was was stamped by no clock, or by another."""

UNKNOWN = -1


@dataclass(frozen=True)
class Spans:
    """Pieces of work, one per place in each array; sorted by start, and the longer first where two start together.

    start, duration: microseconds, counted from the first start. kind: see `kinds`. name, lane, device: places in
    the lists of that name. correlation: joins a launch to its kernels. size: bytes copied or set.
    UNKNOWN (-1) where an event has none.
    """

    start: np.ndarray
    duration: np.ndarray
    name: np.ndarray
    kind: np.ndarray
    lane: np.ndarray
    device: np.ndarray
    correlation: np.ndarray
    size: np.ndarray

    def __len__(self):
        return len(self.start)

    def __getitem__(self, chosen):
        """Those that a mask, a slice or an array of places chooses."""
        return Spans(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def of(self, *kinds):
        """Those of some kinds."""
        return self[np.isin(self.kind, kinds)]

    @property
    def end(self):
        return self.start + self.duration


@dataclass(frozen=True)
class Allocations:
    """Allocations and frees on devices, sorted by time (microseconds); reserved, allocated: bytes, NaN if not told."""

    time: np.ndarray
    device: np.ndarray
    reserved: np.ndarray
    allocated: np.ndarray


class Numbering(dict):
    """Gives each new key the next number."""

    def __missing__(self, key):
        self[key] = number = len(self)
        return number


class Columns:
    """Takes events in any order and keeps of each what the questions need.

    names, lanes, devices: Numberings; a lane is (process, thread), a device its number as text.
    categories: those seen -> their kind. unknown: those that no question knows -> how many events.
    allocations: how many memory events there were. cpu_allocations: how many of them were of the CPU, whose allocator
    reserves nothing.
    """

    def __init__(self, health):
        self._health, self._base = health, None
        self.names, self.lanes, self.devices = Numbering(), Numbering(), Numbering()
        self.categories, self.unknown = {}, Counter()
        self.allocations = self.cpu_allocations = 0
        self._start, self._duration = array("d"), array("d")
        self._name, self._kind, self._lane, self._device = array("i"), array("b"), array("i"), array("i")
        self._correlation, self._size = array("q"), array("q")
        self._memory = array("d"), array("i"), array("d"), array("d")
        self._lane_of, self._begun = {}, {}

    def add(self, event):
        """Take in one event; what cannot be used is counted."""
        try:
            phase = event["ph"]
            if phase == "X":
                self._add_span(event, event["ts"], event["dur"])
            elif phase == "i" and event["name"] == "[memory]":
                self._add_allocation(event)
            elif phase == "B":
                self._begun.setdefault((event["pid"], event["tid"]), []).append(event)
            elif phase == "E":
                begin = self._begun[event["pid"], event["tid"]].pop()
                start = _exact(begin["ts"])
                self._add_span(begin, start, _exact(event["ts"]) - start)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            self._health.skipped[_fault(event)] += 1

    def _add_span(self, event, start, duration):
        category = event.get("cat")
        try:
            kind = self.categories[category]
        except KeyError:
            kind = self._categorise(category, event)
        if kind is None:
            return
        if start.__class__ is not float or duration.__class__ is not float:
            start, duration = _exact(start), _exact(duration)
        if not 0 <= duration <= DAY:
            self._health.skipped[_misfit(duration)] += 1
            return
        start, duration = self._since_base(start), float(duration)
        if start - start != 0:
            raise ValueError("infinite, or not a number")
        lane = event["pid"], event["tid"]
        try:
            lane = self._lane_of[lane]
        except KeyError:
            lane = self._lane_of[lane] = self.lanes[str(lane[0]), str(lane[1])]
        name = self.names[str(event["name"])]
        device = correlation = size = UNKNOWN
        if kind >= RUNTIME:
            told = event.get("args") or {}
            correlation, size = _whole(told.get("correlation")), _whole(told.get("bytes"))
            if kind != RUNTIME:
                device = self.devices[_device(told, event)]
        self._start.append(start)
        self._duration.append(duration)
        self._name.append(name)
        self._kind.append(kind)
        self._lane.append(lane)
        self._device.append(device)
        self._correlation.append(correlation)
        self._size.append(size)

    def _categorise(self, category, event):
        """The kind of an event whose category comes for the first time, or says nothing."""
        try:
            if category is None:
                return kind_by_process(event["pid"], event["name"])
            kind = self.categories[category] = kind_of(category)
            return kind
        except KeyError:
            self.unknown[str(category)] += 1
            return None

    def _add_allocation(self, event):
        told = event["args"]
        self.allocations += 1
        if not told["Device Type"]:
            self.cpu_allocations += 1
            return
        totals = [_bytes(told.get(name)) for name in ("Total Reserved", "Total Allocated")]
        row = self._since_base(_exact(event["ts"])), self.devices[str(told["Device Id"])], *totals
        for column, value in zip(self._memory, row, strict=True):
            column.append(value)

    def _since_base(self, time):
        """Microseconds since the first event, exact before they become a float."""
        if self._base is None:
            self._base = int(time)
        return float(time - self._base)

    def finish(self):
        """(Spans, Allocations), their time counted from the first start; what lies far off is left out."""
        unended = sum(map(len, self._begun.values()))
        if unended:
            self._health.skipped["events that begin and do not end"] += unended
        columns = self._start, self._duration, self._name, self._kind, self._lane, self._device
        spans = Spans(*map(np.asarray, (*columns, self._correlation, self._size)))
        time, *rest = map(np.asarray, self._memory)
        if not len(spans):
            return spans, Allocations(time, *rest)
        spans = self._without_strays(spans)
        zero = spans.start.min()
        spans = Spans(spans.start - zero, *(getattr(spans, field.name) for field in fields(spans)[1:]))
        order = np.argsort(time, kind="stable")
        memory = Allocations(time[order] - zero, *(column[order] for column in rest))
        return spans[np.lexsort((-spans.duration, spans.start))], memory

    def _without_strays(self, spans):
        middle = np.sort(spans.start)[len(spans) // 2]  # of two, the later: a clock that was not read says 0
        stray = np.abs(spans.start - middle) > DAY
        if not stray.any():
            return spans
        unstamped, on_device = spans.start == -self._base, np.isin(spans.kind, ON_DEVICE)
        for where, here in (("GPU", on_device), ("CPU", ~on_device)):
            for what, those in (
                ("events without a time stamp", unstamped),
                ("events stamped a day or more away from the rest", ~unstamped),
            ):
                if count := int(np.count_nonzero(stray & here & those)):
                    self._health.skipped[f"{where} {what}"] += count
        return spans[~stray]


def _exact(time):
    """A time stamp as a number that a float need not hold. Raises TypeError or ValueError for what is none."""
    if isinstance(time, str):
        return Decimal(time)
    if isinstance(time, (int, float, Decimal)) and not isinstance(time, bool):
        return time
    raise TypeError("no time")


def _misfit(duration):
    """Why a duration is none, in a few words."""
    if duration < 0:
        return "events with a negative duration"
    return "events that last longer than a day" if duration > DAY else "events without a duration"


def _whole(value):
    """A correlation or a size, written as a number or as text."""
    if value.__class__ is int and 0 <= value < 2**63:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 19 else UNKNOWN


def _bytes(value):
    """A total as a float that stands for whole bytes; NaN where it is not told."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 2**63 else float("nan")


def _device(told, event):
    """The number of a device, as text: its argument, else its process, else (2019) its thread."""
    for place in (told.get("device"), event["pid"], event["tid"]):
        if str(place).isdecimal():
            return str(place)
    return "unknown"


def _fault(event):
    """Why an event could not be used, in a few words."""
    if not isinstance(event, dict) or "ph" not in event:
        return "entries that are no events"
    if event["ph"] == "E":
        return "ends without a beginning"
    for key, what in (("ts", "time stamp"), ("dur", "duration")):
        try:
            if not abs(float(_exact(event[key]))) < float("inf"):
                raise ValueError
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return f"events without a {what}"
    return "malformed events"
