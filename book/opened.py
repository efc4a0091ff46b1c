"""A chapter with its first cell run once; from there each section runs in a process of its own.

Imports are most of what a section's run costs. A fork starts from the state that the first cell left, and ends without
leaving anything behind, so that no section can lean on another. Where processes cannot be forked, a fresh kernel runs
the first cell each time.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from book.chapters import ROOT, code_cells, sections
from book.run import ENVIRONMENT, run_claims, verdicts_of

CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"  # on macOS libraries that started threads may crash
SECONDS = 120  # for one section


@contextmanager
def opened(chapter):
    """Open a chapter; gives a function from cells to ({the text of a claim: its Verdict}, errors met)."""
    first = code_cells(sections(chapter.read_text())[0])[:1]
    if not CAN_FORK:
        yield lambda cells: run_claims([*first, *cells], chapter.notebooks)
        return
    command = [sys.executable, "-m", "book.opened", str(chapter.notebooks)]
    environment = {**os.environ, **ENVIRONMENT}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=ROOT, **pipes) as process:

        def ask(cells):
            process.stdin.write(json.dumps([cell.source for cell in cells]) + "\n")
            process.stdin.flush()
            claims, errors = json.loads(process.stdout.readline() or '[[], ["the chapter closed"]]')
            return verdicts_of(claims), errors

        _, errors = ask(first)
        yield lambda cells: ({}, errors) if errors else ask(cells)


def serve(folder):
    """Run the first request's cells here and each other's in a fork; answer with the claims and the errors of each."""
    from IPython.core.interactiveshell import InteractiveShell

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what cells print is no answer
    os.chdir(folder)
    sys.path.insert(0, "")
    shell = InteractiveShell.instance()
    print(json.dumps(outcome(shell, json.loads(sys.stdin.readline()))), file=answers, flush=True)
    for request in iter(sys.stdin.readline, ""):
        print(forked(shell, json.loads(request)), file=answers, flush=True)


def forked(shell, cells):
    """The outcome of cells in a fork, as JSON."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.setpgrp()  # so that what it starts, workers say, can be ended with it
        signal.alarm(SECONDS)
        with os.fdopen(theirs, "w") as pipe:
            json.dump(outcome(shell, cells), pipe)
        os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    return said or json.dumps([[], [f"the section ended without an answer, or lasted over {SECONDS} s"]])


def outcome(shell, cells):
    """(claims, errors) after the cells ran; a cell that raises does not keep the others from running."""
    from steptime import claims

    errors = []
    for place, source in enumerate(cells):
        result = shell.run_cell(source, store_history=False, cell_id=f"{os.getpid()}-{place}")
        if error := result.error_before_exec or result.error_in_exec:
            errors.append(f"{type(error).__name__}: {error}")
    return [[text, v.answer, v.evidence, v.margin] for text, v in claims.verdicts.items()], errors


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
