"""One label for a piece of a script, seen by whatever records: torch.profiler, Nsight Systems, a stream's Recorder."""

import sys
from contextlib import ExitStack
from functools import wraps

from steptime import stream

_loaded = sys.modules.get  # torch records nothing before it is imported, and this module does without it


class annotate:
    """A label around a `with` block, or around every call of a function that it decorates.

    torch.profiler shows it as it shows record_function's, Nsight Systems as an NVTX range (where torch was built with
    CUDA; not tried, no such machine was at hand), a Recorder in the lane of the thread. Where nothing records, a label
    costs under 1 µs, and one of record_function about ten times as much. Labels nest; one object labels one block at
    a time. Raises TypeError for a label that is no text.
    """

    __slots__ = ("_label", "_opened")

    def __init__(self, label):
        if not isinstance(label, str):
            raise TypeError(f"annotate needs a text to show, got a {type(label).__name__}.")
        self._label, self._opened = label, None

    def __call__(self, function):
        @wraps(function)
        def labelled(*arguments, **options):
            with annotate(self._label):
                return function(*arguments, **options)

        return labelled

    def __enter__(self):
        recorder, profiler, version = stream.recorder, _loaded("torch.autograd.profiler"), _loaded("torch.version")
        if recorder or (profiler and (profiler._is_profiler_enabled or version.cuda)):
            self._opened = _open(self._label, recorder, profiler, version)

    def __exit__(self, *exception):
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened.__exit__(*exception)


def _open(label, recorder, profiler, version):
    """Open the label for all that would see it; closing what this gives closes it."""
    opened = ExitStack()
    if version and version.cuda:
        nvtx = _loaded("torch.cuda.nvtx")
        nvtx.range_push(label)
        opened.callback(nvtx.range_pop)
    if profiler and profiler._is_profiler_enabled:
        opened.enter_context(profiler.record_function(label))
    if recorder:
        opened.enter_context(recorder.label(label))
    return opened
