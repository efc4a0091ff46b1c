"""Run the cells of a notebook one by one, as a kernel would, and keep what they print within bounds."""

import io
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

ROOM = 20_000  # characters that one cell may print


@dataclass(frozen=True)
class Outcome:
    """What a cell did: the text it printed, cut after ROOM, and `name: message` of what it raised, or None."""

    printed: str
    error: str | None


class Cells:
    """A place to run cells in, one after the other; one for each process. names: what they defined."""

    def __init__(self):
        without_history = Config()
        without_history.HistoryManager.enabled = False
        self._shell = Shell.instance(config=without_history)
        self.names = self._shell.user_ns

    def run(self, source):
        """The Outcome of one cell; it never raises."""
        with bounded() as screen:
            result = self._shell.run_cell(source)
        error = result.error_before_exec or result.error_in_exec
        return Outcome(screen.kept(), error and f"{type(error).__name__}: {error}"[:ROOM])


class Shell(InteractiveShell):
    """IPython, less the traceback it prints and the second copy, without bounds, of all that a cell prints."""

    def _showtraceback(self, *_):
        pass

    def _tee(self, channel):
        return nullcontext()


@contextmanager
def bounded():
    """Put a Screen in the place of standard output and standard error."""
    screen = Screen()
    with redirect_stdout(screen), redirect_stderr(screen):
        yield screen


class Screen(io.TextIOBase):
    """Takes all that is printed and keeps the first ROOM characters."""

    def __init__(self):
        self._parts, self._room = [], ROOM

    def write(self, text):
        if self._room > 0:
            self._parts.append(text[: self._room])
        self._room -= len(text)
        return len(text)

    def kept(self):
        """What was printed, as far as there was room."""
        return "".join(self._parts) + ("\n(cut off here)\n" if self._room < 0 else "")
