"""One observed call of a function: its answer, and what else it did that spoils a comparison."""

import io
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from steptime.answers import Unlike, difference, is_tensor


@dataclass(frozen=True)
class Observation:
    """What one call did.

    answer: a copy, which later calls cannot write over. seconds: of wall time, one-off costs included.
    printed: whether it wrote to standard output. changed: the place of the first argument it changed, or None.
    """

    answer: Any
    seconds: float
    printed: bool
    changed: int | None


def observe(function, arguments):
    """Call a function once and watch it. Raises TypeError where it returns before its work is done."""
    before = [_snapshot(argument) for argument in arguments]
    with redirect_stdout(_Ear(sys.stdout)) as ear:
        start = perf_counter()
        answer = function(*arguments)
        seconds = perf_counter() - start
    if hasattr(answer, "__next__") or hasattr(answer, "__await__"):
        raise TypeError(f"it returns a {type(answer).__name__}, whose work is still to be done: let it finish.")
    changed = [place for place, old in enumerate(before) if not _equal(old, arguments[place])]
    return Observation(_snapshot(answer), seconds, ear.heard, changed[0] if changed else None)


class _Ear(io.TextIOBase):
    """Passes on what is printed and remembers that something was."""

    def __init__(self, screen):
        self.screen, self.heard = screen, False

    def write(self, text):
        self.heard = True
        return self.screen.write(text)

    def flush(self):
        self.screen.flush()


def _snapshot(thing):
    """A copy of numbers, arrays and containers of them; anything else, a model say, may change and is not watched."""
    if is_tensor(thing):
        return thing.detach().clone()
    if isinstance(thing, (np.ndarray, bytearray)):
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
