"""The process that judges one notebook: the tests, and what a set gives, run here; all that a student wrote, elsewhere.

A name in a test that no cell of the set defines is the student's: a function stands for theirs and calls it in its
process, a value is a copy. So nothing that a student wrote can reach the clock, `steptime` or a test.
"""

import builtins
import json
import symtable
import sys
from pathlib import Path

from classroom.cells import Cells, Outcome
from classroom.expect import expect
from classroom.gates import Gates
from classroom.process import Process

GIVEN, TEST, OWN = "given", "test", "own"


def judged(cells, user=""):
    """The Outcome of each cell, one after the other.

    cells: (role, source) of each. GIVEN is what the set gives, and runs on both sides; TEST judges; OWN is what the
    student wrote. user: the account of the student's process (see `Process`).
    Tests find `expect`, and `four_gates`, which makes `Gates` from the names of two functions and the rest.
    Raises RuntimeError where a given cell fails, which is the set's own fault.
    """
    here, known = Cells(), {"expect", "four_gates", *vars(builtins)}
    known = known.union(*(names_of(source)[1] for role, source in cells if role != OWN))
    with Process(user) as student, Process(user) as honest:
        due = []  # what the set gives, for the honest process: only a race whose answer is right needs that

        def honestly(name):
            def function(*arguments):
                while due:
                    run_given(honest, due.pop(0))
                return honest.function(name)(*arguments)

            return function

        here.names["expect"] = expect
        here.names["four_gates"] = lambda answer, given, **problem: Gates(
            student.function(answer), honestly(given), **problem
        )
        for role, source in cells:
            if role == TEST:
                yield tested(here, student, source, names_of(source)[0] - known)
                continue
            if role == GIVEN:
                run_given(here, source)
                due.append(source)
            yield student.run(source)


def run_given(place, source):
    """Run a cell that the set gives in `Cells` or a `Process`. Raises RuntimeError where it fails."""
    outcome = place.run(source)
    if outcome.error:
        raise RuntimeError(f"a cell that the set gives raises {outcome.error}")


def tested(here, student, source, lacking):
    """The Outcome of a test, with the names that it lacks taken from the student's process."""
    try:
        for name in lacking:
            here.names[name] = student.get(name)
        return here.run(source)
    except Exception as error:
        return Outcome("", f"{type(error).__name__}: {error}")
    finally:
        for name in lacking:
            here.names.pop(name, None)


def names_of(source):
    """(names that a cell uses, names that it defines)."""
    whole = symtable.symtable(source, "cell", "exec")
    defined = {s.get_name() for s in whole.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    return _used(whole), defined


def _used(table):
    is_whole = table.get_type() == "module"
    used = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_whole or s.is_global())}
    return used.union(*map(_used, table.get_children()))


def main(asked, outcomes):
    """Judge the cells in one file, as JSON, and write a line of JSON to another after each of them."""
    request = json.loads(Path(asked).read_text(encoding="utf-8"))
    with open(outcomes, "w", encoding="utf-8", buffering=1) as file:
        for outcome in judged(request["cells"], request["user"]):
            print(json.dumps([outcome.printed, outcome.error]), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
