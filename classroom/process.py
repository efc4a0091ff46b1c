"""A student's process, seen from outside: run a cell in it, call a function in it, whatever it does to itself.

It runs only while it is asked something and is stopped in between, so that nothing of it goes on beside another's
measurement. Where it does not answer in time it is ended, and begun again when it is next needed.
"""

import builtins
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from book.run import ENVIRONMENT
from classroom import ROOT
from classroom.cells import Outcome
from classroom.wire import Wire

START = 60  # seconds until it is ready
CELL = 30  # seconds for a cell
CALL = 10  # seconds for a call
BEGINNINGS = 12  # so often it is begun before the rest of the notebook is given up
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")  # of the environment, which may hold secrets


class Ended(Exception):
    """The process is no more: it took too long, ended itself, or said what nobody can read."""


class Process:
    """Runs cells in a process of its own; to be used in a `with`.

    user: the account it runs under; empty for that of the grader. Another account needs root, and can neither read
    nor signal what is the grader's.
    """

    def __init__(self, user=""):
        self._user, self._ran, self._begun = user, [], 0
        self._process = self._wire = self._own = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._end()

    def run(self, source):
        """The Outcome of a cell. One that ends the process is left out when that is begun again."""
        try:
            printed, error = self._ask(["run", source], CELL)
            outcome = Outcome(str(printed), error and str(error))
        except Exception as error:
            return Outcome("", str(error))
        self._ran.append(source)
        return outcome

    def get(self, name):
        """What the cells called `name`: a value, or a function that calls theirs.

        Raises NameError where there is no such name, TypeError where it is no plain data, Ended.
        """
        return self._ask(["get", name], CALL)

    def function(self, name):
        """A function that calls what the cells called `name`. It raises what that raises, RuntimeError, Ended."""

        def function(*arguments, **named):
            return self._ask(["call", name, arguments, named], CALL)

        function.__name__ = function.__qualname__ = name
        return function

    def _ask(self, request, seconds):
        if self._process is None:
            self._begin()
        self._signal(signal.SIGCONT)
        reply = self._exchange(request, seconds)
        self._signal(signal.SIGSTOP)
        match reply:
            case ["answer", value]:
                return value
            case ["function", str(name)]:
                return self.function(name)
            case ["error", str(kind), str(message)]:
                raise _error(kind, message)
        self._end()
        raise Ended("it gave no answer but something else")

    def _exchange(self, request, seconds):
        """Send a request, serve the calls that come back meanwhile, and give the reply to it."""
        deadline, wire = time.monotonic() + seconds, self._wire
        wire.offered.clear()
        try:
            wire.send(request, deadline)
            while True:
                match wire.receive(deadline):
                    case ["callback", int(place), list(arguments)]:
                        wire.send(_called(wire.offered, place, arguments), deadline)
                    case reply:
                        return reply
        except TimeoutError:
            problem = f"it did not answer within {seconds} s"
        except OSError:
            problem = "it ended its process without an answer"
        except ValueError as error:
            problem = f"what it sent is no answer: {error}"
        except TypeError:  # a test, or a function it offered, gave what is no plain data: the test's own fault
            self._end()
            raise
        self._end()
        raise Ended(problem)

    def _begin(self):
        self._begun += 1
        if self._begun > BEGINNINGS:
            raise Ended("it ended its process too often")
        self._own = tempfile.mkdtemp(prefix="answers-")
        if self._user:
            shutil.chown(self._own, self._user)
        ours, theirs = socket.socketpair()
        with theirs:
            settings = {"socket": theirs.fileno(), "readable": _importable(), "own": self._own}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "classroom.worker", json.dumps(settings)],
                pass_fds=[theirs.fileno()],
                cwd=self._own,
                env=_environment(self._own),
                **account(self._user),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._wire = Wire(ours, offered=[])
        self._exchange(["run", ""], START)
        for source in self._ran:
            self._exchange(["run", source], CELL)

    def _end(self):
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._wire.close()
            shutil.rmtree(self._own, ignore_errors=True)
        self._process = self._wire = self._own = None

    def _signal(self, number):
        """To the process and to all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def account(user):
    """What makes a process run under an account; nothing where none is named.

    Raises ValueError, with one sentence, where there is no such account, or one is not root.
    """
    if not user:
        return {}
    if os.geteuid():
        raise ValueError("Only root can let students' code run under another account.")
    try:
        return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    except KeyError:
        raise ValueError(f"There is no account {user} here.") from None


def _called(offered, place, arguments):
    """The reply to a call of one of the functions that were offered."""
    try:
        return ["answer", offered[place](*arguments)]
    except Exception as error:
        return ["error", type(error).__name__, str(error)]


def _error(kind, message):
    """An exception of the kind that was raised over there, if it is one of Python's own."""
    builtin = getattr(builtins, kind, None)
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        with suppress(TypeError):  # UnicodeDecodeError, for one, takes more than a message
            return builtin(message)
    return RuntimeError(f"{kind}: {message}")


def _importable():
    """The folders from which packages come; the book's own is none, it holds solutions."""
    return [folder for folder in (*sys.path, sys.prefix, sys.base_prefix) if folder not in ("", str(ROOT))]


def _environment(own):
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    folders = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"), own)
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    return {**kept, **ENVIRONMENT, **folders, "PYTHONPATH": path, "MPLBACKEND": "agg", "TQDM_DISABLE": "1"}
