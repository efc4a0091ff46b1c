"""What a function asks of memory: recorded once, replayed on the model of an allocator or on a GPU's own."""

import json
import os
import tempfile
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def record(function, *arguments):
    """Call a function once under torch.profiler; [(address, bytes)] of what it asked for (above 0) and freed (below).

    Memory of the CPU, in the order it happened; on a CPU the bytes are those of the tensors, without any rounding.
    """
    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with silent():
        profiler.start()
    try:
        function(*arguments)
    finally:
        with silent():
            profiler.stop()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    memory = [event for event in events if event["name"] == "[memory]" and event["args"]["Device Type"] == 0]
    memory.sort(key=lambda event: (event["ts"], event["args"]["Ev Idx"]))
    return [(event["args"]["Addr"], event["args"]["Bytes"]) for event in memory]


@contextmanager
def silent():
    """Drop what is written to standard error meanwhile: the profiler writes there from C when it starts and stops."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def peak(events):
    """The most bytes that were in use at once, beyond those in use at the start."""
    return max(accumulate((size for _, size in events), initial=0))


def replay(events, malloc, free):
    """Repeat recorded events; {address: what malloc gave} for what is still in use at the end.

    malloc: takes bytes. free: takes what malloc gave. An Allocator's are two such functions, and so are
    torch.cuda.caching_allocator_alloc and torch.cuda.caching_allocator_delete.
    What was freed but not asked for in these events, because it is older, is left alone.
    """
    held = {}
    for address, size in events:
        if size > 0:
            held[address] = malloc(size)
        elif address in held:
            free(held.pop(address))
    return held
