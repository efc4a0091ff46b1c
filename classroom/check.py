"""Check the problem sets themselves: what the solution gets, an empty submission, wrong ones, and such as misbehave.

tests/submissions/NAME.toml and NAME.hostile.toml say of each submission which tests of the set NAME it has to lose.
"""

import argparse
import os
import re
import secrets
import shutil
import sys
import tempfile
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

import nbformat
from nbformat.v4 import new_code_cell

from book.run import errors, run
from classroom import ROOT
from classroom.course import Course
from classroom.grade import log_to
from classroom.rebuild import name_of
from classroom.sets import PUBLIC, find_sets

FOLDER = ROOT / "tests" / "submissions"
LOGS = ROOT / "build" / "check-sets"
EVERYTHING = "everything"
HOSTILE = ".hostile"


@dataclass(frozen=True)
class Submission:
    """A way to answer a set.

    loses: the names of the tests whose points it must not get, or EVERYTHING. solved: whether its answers are the
    solution's, or left out, where `cells` has no other. cells: what becomes of cells of the set, by their names.
    without: the cells deleted. added: a cell of its own, put first.
    """

    name: str
    loses: list | str
    solved: bool = True
    cells: dict = field(default_factory=dict)
    without: list = field(default_factory=list)
    added: str = ""

    def notebook(self, source, released):
        """What is handed in. source, released: the set with its solutions, and as it is handed out."""
        notebook = nbformat.from_dict(source if self.solved else released)
        notebook.cells = [cell for cell in notebook.cells if name_of(cell) not in self.without]
        for cell in notebook.cells:
            cell.source = self.cells.get(name_of(cell), cell.source)
        if self.added:
            notebook.cells.insert(0, new_code_cell(self.added))
        return notebook


SOLUTION = Submission("the solution", [])
EMPTY = Submission("as it was handed out", EVERYTHING, solved=False)


def submissions_of(problems, kind=""):
    """The submissions that tests/submissions says of a set: wrong, half right or right in another way, or HOSTILE."""
    path = FOLDER / f"{problems.name}{kind}.toml"
    if path.exists():
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["submission"]:
            yield Submission(**entry)


def main(arguments):
    """Grade them all, in the public variant and some in one of chance; 1 where one got another mark than it has to."""
    parser = argparse.ArgumentParser(prog="make check-sets", description=__doc__)
    parser.add_argument("--set", default="", help="the number of one set; all without it")
    parser.add_argument("--only", default="", help="submissions whose names hold this text")
    asked = parser.parse_args(arguments)
    try:
        sets = find_sets(asked.set)
    except ValueError as problem:
        return str(problem)
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    variants = [(problems, seed) for problems in sets for seed in (PUBLIC, secrets.token_hex(4))]
    wrong = 0
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), max_tasks_per_child=1) as pool:
        checks = [(problems, seed, pool.submit(check, problems, seed, asked.only)) for problems, seed in variants]
        for problems, seed, checked in checks:
            print(f"{problems.name}, variant {seed}", flush=True)
            for name, sentence in checked.result():
                wrong += bool(sentence)
                print(f"{name:<72} {sentence or 'as it has to be'}", flush=True)
    return int(wrong > 0)


def check(problems, seed, only=""):
    """[(name, what is wrong with its mark, in one sentence, or "")] of the submissions of a set in one variant.

    In each the solution; in the public one also nothing, wrong answers and such as misbehave, and the set is run as a
    student would run it.
    only: text that a name has to hold.
    """
    log = LOGS / f"{problems.name}-{seed}.log"
    log_to(log)
    source, submissions, sentences = problems.notebook(seed), [SOLUTION], []
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course(folder)
        released = nbformat.read(course.add(problems, seed), as_version=4)
        if seed == PUBLIC:
            submissions += [EMPTY, *(narrowed(submission, source) for submission in submissions_of(problems))]
            submissions += submissions_of(problems, HOSTILE)  # whole: they must not harm the rest
            sentences.append(
                ("the set in a student's own notebook", "; ".join(errors(run(answered(released, source), ROOT))))
            )
        for number, submission in enumerate(each for each in submissions if only in each.name):
            student = f"student-{number:02}"
            course.submit(problems, student, submission.notebook(source, released))
            if course.grade(problems, student) is None:
                sentences.append((submission.name, f"it cannot be graded: see {log.relative_to(ROOT)}"))
            else:
                sentences.append((submission.name, amiss(submission, course.points(problems, student))))
    return sentences


def narrowed(submission, source):
    """A submission less the solution's answers to the problems it says nothing of: what they get has been seen."""
    if not submission.solved or submission.added or submission.loses == EVERYTHING:
        return submission
    problem, labels = 0, {}
    for cell in source.cells:
        problem += bool(re.search(r"(?m)^## \d\. ", cell.source))
        if name_of(cell):
            labels[name_of(cell)] = problem, cell.metadata.nbgrader
    kept = {labels[name][0] for name in submission.cells}
    left_out = {name: label for name, (problem, label) in labels.items() if problem not in kept}
    return replace(
        submission,
        cells=submission.cells | {name: "" for name, label in left_out.items() if label.solution},
        loses=submission.loses + [name for name, label in left_out.items() if label.grade],
    )


def answered(released, source):
    """A set as it is handed out, with the solution's answers in it."""
    solved = {name_of(cell): cell.source for cell in source.cells}
    notebook = nbformat.from_dict(released)
    for cell in notebook.cells:
        if name_of(cell) and cell.metadata.nbgrader.solution:
            cell.source = solved[name_of(cell)]
    return notebook


def amiss(submission, points):
    """What is wrong with the points of a submission, in one sentence, or an empty text."""
    lost = [name for name, (got, most) in points.items() if got < most]
    loses = list(points) if submission.loses == EVERYTHING else submission.loses
    words = [f"keeps {name}" for name in loses if name not in lost] + [f"loses {n}" for n in lost if n not in loses]
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
