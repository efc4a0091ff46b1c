"""`python -m steptime diagnose module:function`: the loop that a function returns, diagnosed."""

import importlib
import sys

from steptime.diagnosis.run import Unfinished, diagnose

BAD_INPUT = 2


class NoLoop(Exception):
    """There is no loop to be diagnosed; the text says why in one sentence."""


def diagnose_place(place, seconds, plot=None):
    """Print the Diagnosis of what `module:function` returns, and draw it into the file `plot`; the exit status.

    Raises NoLoop where there is nothing to diagnose.
    """
    loop = _loop(place)
    try:
        diagnosis = diagnose(*loop, seconds=seconds)
    except Unfinished as unfinished:
        print(unfinished.diagnosis)
        raise NoLoop(str(unfinished)) from unfinished
    except (TypeError, ValueError) as problem:
        raise NoLoop(str(problem)) from problem
    print(diagnosis, flush=True)
    if plot:
        try:
            diagnosis.plot().figure.savefig(plot, dpi=110)
        except (OSError, ValueError) as error:
            raise NoLoop(f"{plot} cannot be written: {error}.") from error
    return 0 if not diagnosis.problem else BAD_INPUT


def _loop(place):
    module, _, name = place.partition(":")
    if not (module and name):
        raise NoLoop(f"{place!r} names no function: write module:function, as in train:loop.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # where the reader stands
    try:
        function = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise NoLoop(f"{module} has no function {name}.") from None
    except BaseException as error:  # whatever a module does when it is imported, sys.exit too
        if isinstance(error, KeyboardInterrupt):
            raise
        raise NoLoop(f"{module} cannot be imported: {type(error).__name__}: {error}.") from error
    if not callable(function):
        raise NoLoop(f"{place} is a {type(function).__name__}, no function.")
    try:
        loop = function()
    except Exception as error:
        raise NoLoop(f"{place} raised {type(error).__name__}: {error}.") from error
    if not (isinstance(loop, (tuple, list)) and 2 <= len(loop) <= 4):
        raise NoLoop(
            f"{place} returns a {type(loop).__name__}: let it return loader, step and at best model, optimizer."
        )
    return loop
