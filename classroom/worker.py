"""The process in which a student's cells run: it runs cells, tells what they defined, and calls it.

Started by `process`, with nothing in its memory that a student may not see.
"""

import builtins
import json
import os
import socket
import sys
import traceback

from classroom import ROOT
from classroom.cells import Cells
from classroom.fence import enclose, limit
from classroom.wire import Wire


def main(settings):
    """Serve until the other side is gone.

    settings: socket, the number of an open one; readable, the folders from which may be imported; own, its folder.
    """
    wire = Wire(socket.socket(fileno=settings["socket"]), stub=lambda place: call_back(wire, place))
    cells = Cells()
    os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [folder for folder in sys.path if folder != str(ROOT)]
    limit()
    enclose(settings["readable"], ROOT, settings["own"])
    while True:
        try:
            reply = answer(cells, wire.receive())
        except ConnectionError:
            return
        try:
            wire.send(reply)
        except TypeError as problem:
            wire.send(["error", "TypeError", str(problem)])


def answer(cells, request):
    """What to reply to `run` and a cell, `get` and a name, `call` and a name with arguments and named arguments."""
    what, subject, *details = request
    if what == "run":
        outcome = cells.run(subject)
        return ["answer", [outcome.printed, outcome.error]]
    if subject not in cells.names:
        return ["error", "NameError", f"name {subject!r} is not defined"]
    found = cells.names[subject]
    if what == "get":
        return ["function", subject] if callable(found) else ["answer", found]
    try:
        arguments, named = details
        return ["answer", found(*arguments, **named)]
    except BaseException as error:  # sys.exit() in an answer is an error like any other
        return ["error", type(error).__name__, f"{str(error)[:1_000]}{place_of(error)}"]


def place_of(error):
    """Where in the student's cells an error came from, as far as it did: ` (line 3 of smooth)`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("<ipython")]
    return f" (line {frames[-1].lineno} of {frames[-1].name})" if frames else ""


def call_back(wire, place):
    """A function that calls the one which the other side offered at this place."""

    def function(*arguments):
        wire.send(["callback", place, list(arguments)])
        what, *details = wire.receive()
        if what == "answer":
            return details[0]
        raise getattr(builtins, details[0], RuntimeError)(details[1])

    return function


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
