"""One observed call of a function: its answer, and what else it did that spoils a comparison."""

import sys
import threading
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from steptime.answers import Unlike, difference, is_tensor
from steptime.machine import synchronise
from steptime.naming import name_of

PATIENCE = 5.0  # seconds of a first call, after which a person wants to know what goes on


@dataclass(frozen=True)
class Observation:
    """What one call did.

    answer: a copy, which later calls cannot write over. seconds: of wall time, one-off costs included.
    printed: whether it wrote to standard output.
    """

    answer: Any
    seconds: float
    printed: bool


def observe(function, arguments):
    """Call a function once and watch it.

    Raises RuntimeError where it raises, ValueError where it changes an argument, so that each call would get another
    one, and TypeError where it returns before its work is done.
    """
    before = [_snapshot(argument) for argument in arguments]
    with redirect_stdout(_Ear(sys.stdout)) as ear, _told_after(PATIENCE, name_of(function)):
        start = perf_counter()
        answer = guard(function, function, *arguments)
        synchronise()
        seconds = perf_counter() - start
    if hasattr(answer, "__next__") or hasattr(answer, "__await__"):
        kind = type(answer).__name__
        raise TypeError(f"{name_of(function)} returns a {kind}, whose work is still to be done: let it finish.")
    for place, (old, new) in enumerate(zip(before, arguments, strict=True), start=1):
        if not _equal(old, new):
            raise ValueError(
                f"{name_of(function)} changes its argument {place}, so each call would get another one: "
                "let it work on a copy."
            )
    return Observation(_snapshot(answer), seconds, ear.heard)


def guard(function, act, *arguments):
    """Do something with a function. Raises RuntimeError, which says whose fault it is, where that raises."""
    try:
        return act(*arguments)
    except Exception as error:
        raise RuntimeError(f"{name_of(function)} raised {type(error).__name__}: {error}") from error


@contextmanager
def _told_after(seconds, name):
    """Say on standard error that the first call is still running, once it has run so long."""
    told = f"{name} is still in its first call after {seconds:g} s. Ctrl-C ends it."
    clock = threading.Timer(seconds, print, [told], {"file": sys.stderr, "flush": True})
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()


class _Ear:
    """Passes on what is printed and remembers that something was."""

    def __init__(self, screen):
        self.screen, self.heard = screen, False

    def write(self, text):
        self.heard = True
        return self.screen.write(text)

    def __getattr__(self, name):
        return getattr(self.screen, name)


def _snapshot(thing):
    """A copy of numbers, arrays and containers of them; anything else, a model say, may change and is not watched."""
    if is_tensor(thing) and thing.device.type != "meta":
        return thing.detach().clone()
    if isinstance(thing, bytearray) or (isinstance(thing, np.ndarray) and thing.dtype.kind in "biufc"):
        return thing.copy()
    if isinstance(thing, dict):
        return {key: _snapshot(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_snapshot(item) for item in thing]
    return thing


def _equal(old, new):
    if old is new:
        return True
    try:
        return difference(old, new) == 0
    except Unlike:
        return False
