"""Python that a step runs beside its operators: what is saved, printed, traced back, looped over."""

from steptime.diagnosis.calls import IN_C, is_waiting
from steptime.diagnosis.finding import Finding
from steptime.diagnosis.operators import BACKWARD, time_of_call
from steptime.units import duration

WHICH = ("02", "Which function takes the time?")

SAVING = (
    ("torch/serialization.py", "save"),
    (IN_C, "_pickle.dump"),
    (IN_C, "method 'dump' of '_pickle"),
    (IN_C, "serialize_file"),
    ("_npyio_impl.py", "save"),
    ("/copy.py", "deepcopy"),
    (IN_C, "fsync"),
)
PRINTING = (
    ("torch/_tensor_str.py", "_str"),
    ("arrayprint.py", "array2string"),
    ("arrayprint.py", "array_repr"),
    ("arrayprint.py", "array_str"),
    (IN_C, "'tolist'"),
    (IN_C, "builtins.print"),
    ("logging/__init__.py", "_log"),
    ("json/__init__.py", "dump"),
)
TRACING_BACK = (("torch/fx/traceback.py", "format_stack"),)
"""(how the file's name ends, what its function's name holds) of functions that do it."""


def claimed(calls):
    """The keys of the functions that these findings speak of by name."""
    return calls.keys(lambda it: _is_saving(it) or _is_printing(it) or _is_tracing_back(it))


def python_findings(evidence):
    """Findings about functions of a step."""
    if evidence.calls is None:
        return []
    return [_saving(evidence), _printing(evidence), _anomaly_mode(evidence)]


def python_seconds(evidence):
    """Seconds of a step that these findings speak of, if all are right."""
    return named_seconds(evidence) + _rest_seconds(evidence) if evidence.calls else 0.0


def named_seconds(evidence):
    """Seconds of a step in functions that save, print or trace back."""
    if evidence.calls is None:
        return 0.0
    return evidence.calls.seconds(lambda it: _is_saving(it) or _is_printing(it) or _is_tracing_back(it))


def _rest_seconds(evidence):
    """Seconds of a step in Python that is neither torch's nor saves nor prints nor traces back.

    An operator that is written as a sign, as in a * b, is no call to cProfile: its time counts as that of the function
    around it. As many operators as have no call are taken off, at what one takes on average.
    """
    calls, operators = evidence.calls, evidence.operators
    seconds = calls.python(claimed(calls))
    if operators is None:
        return seconds
    outer = [call for call in operators.calls if call.outer and call.part != BACKWARD]
    unnamed = max(0.0, len(outer) - calls.operators)
    each = operators.own(lambda call: call.part != BACKWARD) / max(1, len(outer)) + time_of_call()
    return min(max(0.0, seconds - unnamed * each), operators.between)


def _saving(evidence):
    return _named(
        evidence,
        _is_saving,
        "a checkpoint in each step: the state is saved or copied",
        "write one every few minutes, or in a thread on a copy",
        WHICH,
    )


def _printing(evidence):
    return _named(
        evidence,
        _is_printing,
        "logging writes numbers as text in each step",
        "log a few numbers, every hundredth step; keep whole tensors as arrays",
        WHICH,
        evidence.calls.keys(_is_saving),
    )


def _anomaly_mode(evidence):
    """Anomaly mode writes down at each operator of the forward pass where in Python it was called."""
    return _named(
        evidence,
        _is_tracing_back,
        "anomaly mode is on",
        "leave out torch.autograd.set_detect_anomaly and detect_anomaly until there is a NaN to be found",
        ("02", "What does looking cost?"),
    )


def _named(evidence, chosen, cause, advice, section, barred=frozenset()):
    """A finding about the functions for which `chosen(function)` is true, known by their names."""
    seconds = evidence.calls.seconds(chosen, barred)
    spent = f"a step spends {duration(seconds)} of {duration(evidence.plain)} in {_names(evidence, chosen)}"
    return Finding(cause, evidence.share(seconds), advice, spent, section, certain=True)


def rest_finding(evidence, claimed_seconds):
    """The Python of a step of which no other finding speaks, without `claimed_seconds`, of which others do."""
    calls = evidence.calls
    if calls is None:
        return None
    seconds = _rest_seconds(evidence) - claimed_seconds
    function = calls.heaviest(claimed(calls))
    if function is None:
        return None
    advice = "see its lines with a line profiler; use tensors for what it does one by one, or do it less often"
    if is_waiting(function):
        advice = "do not wait in the step: let a thread or the loader do that"
    return Finding(
        "Python in the step, outside of torch",
        evidence.share(seconds),
        advice,
        f"a step spends {duration(seconds)} of {duration(evidence.plain)} in Python that is not torch's, most of it in "
        f"{function}, {function.calls:,.3g} calls a step",
        ("02", "Which line takes the time?"),
    )


def _names(evidence, chosen):
    """The function that does it most, and how often."""
    functions = [function for function in evidence.calls.functions.values() if chosen(function)]
    if not functions:
        return "none"
    function = max(functions, key=lambda each: each.calls)
    return f"{function}, {function.calls:,.3g} calls a step"


def _is_saving(function):
    return _is_any(function, SAVING)


def _is_printing(function):
    return _is_any(function, PRINTING)


def _is_tracing_back(function):
    return _is_any(function, TRACING_BACK)


def _is_any(function, places):
    file = function.file.replace("\\", "/")
    for place, name in places:
        if place == IN_C:
            if file == IN_C and name in function.name:
                return True
        elif file.endswith(place) and function.name.startswith(name):
            return True
    return False
