"""`diagnose`: gather the evidence within some seconds, give everything back, and draw the conclusions."""

import inspect
import os
import warnings
from contextlib import redirect_stdout
from numbers import Real

from tqdm import tqdm

from steptime.diagnosis.batches import device_of
from steptime.naming import name_of


class Unfinished(RuntimeError):
    """A diagnosis that ended early, as the text says in one sentence. diagnosis: what was measured until then."""

    def __init__(self, diagnosis):
        super().__init__(diagnosis.problem)
        self.diagnosis = diagnosis


def diagnose(loader, step, model=None, optimizer=None, seconds=20.0):
    """Where does a training step go, and what should be tried first? A Diagnosis, shown as a page.

    loader: an iterable of batches; a DataLoader, best. step: `step(batch)` takes one training step; it is called a few
    hundred times, with batches of the loader and parts of one. model, optimizer: what it trains, or objects with their
    state_dict and load_state_dict, to be given back as they were. seconds: to be spent at most, if a step is shorter
    than a tenth of them. Ctrl-C ends it and keeps what was measured.
    Random states and the loader are given back as they were; what `step` prints is dropped.
    Raises TypeError or ValueError for what cannot be diagnosed: an empty loader, a step that is no function of one
    batch or returns before its work is done. Raises Unfinished, with what was measured so far, where loader or
    step raise.
    """
    from steptime.diagnosis.gathering import Gathering, NotSeen, StepRaised
    from steptime.diagnosis.report import Diagnosis
    from steptime.diagnosis.restore import as_it_was
    from steptime.diagnosis.supplied import LoaderRaised

    _check(loader, step, model, optimizer, seconds)
    gathering = Gathering(loader, step, model, optimizer, seconds)
    evidence, problem, cause = gathering.evidence, None, None
    phases = tqdm(gathering.phases, desc="diagnose", unit="look", delay=2, leave=False)
    with as_it_was(loader, model, optimizer), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            for phase in phases:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        phase()
                except NotSeen as why:
                    evidence.absent[phase.__name__] = str(why)
                except (StepRaised, LoaderRaised):
                    raise
                except Exception as error:  # one look that fails, as beside another profiler, leaves the others
                    evidence.absent[phase.__name__] = f"{type(error).__name__}: {error}"
                if not evidence.supply.taken:
                    raise ValueError("diagnose: the loader gave no batch.")
        except StepRaised as error:
            problem, cause = f"{error}{_hint(error, model)}", error
        except LoaderRaised as error:
            problem, cause = str(error), error
        except KeyboardInterrupt:
            problem = "It was stopped by Ctrl-C."
        finally:
            phases.close()
    diagnosis = Diagnosis(name_of(step), evidence, problem)
    if cause:
        raise Unfinished(diagnosis) from cause
    return diagnosis


def _check(loader, step, model, optimizer, seconds):
    if not (hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")):
        raise TypeError(f"diagnose needs a loader or another iterable of batches, got a {type(loader).__name__}.")
    if not callable(step):
        raise TypeError(
            f"diagnose needs a function that takes a step on a batch, got a {type(step).__name__}: pass it without "
            "calling it."
        )
    for kind in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        if kind(step):
            raise TypeError(f"{name_of(step)} returns before its work is done: let it take a whole step.")
    try:
        inspect.signature(step).bind(None)
    except ValueError:  # some functions of C tell nothing
        pass
    except TypeError as error:
        raise TypeError(
            f"{name_of(step)} is called with one argument, a batch ({error}): wrap it, as in "
            "lambda batch: step(*batch)."
        ) from None
    for name, given in (("model", model), ("optimizer", optimizer)):
        if given is not None and not (hasattr(given, "state_dict") and hasattr(given, "load_state_dict")):
            raise TypeError(
                f"diagnose: {name} needs a state_dict to be given back, and a {type(given).__name__} has none."
            )
    if not (isinstance(seconds, Real) and seconds > 0):
        raise ValueError(f"diagnose: seconds must be above 0, not {seconds!r}.")


def _hint(error, model):
    """What often is the reason, where it can be seen."""
    place = device_of(error.batch)
    devices = {each.device for each in model.parameters()} if hasattr(model, "parameters") else set()
    if place is not None and devices and place not in devices:
        return f" (the batch is on {place}, the model on {', '.join(map(str, devices))})"
    return ""
