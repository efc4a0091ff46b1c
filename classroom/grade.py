"""Grade a folder of submissions: grades.csv, and feedback for each student.

In the folder each student has one, named by the student's id; in that lie, at any depth, the notebooks, named as they
were handed out.
"""

import argparse
import logging
import shutil
import sys
import tempfile
import time

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook

from classroom import ROOT, folder_at
from classroom.course import Course
from classroom.process import account
from classroom.sets import find_sets, seed_of_course

FOLDER = ROOT / "build" / "grades"


def main(arguments):
    """Grade, and say of each submission what it got."""
    parser = argparse.ArgumentParser(prog="make grade", description=__doc__)
    parser.add_argument("submissions", help="the folder of submissions")
    parser.add_argument("--to", default=FOLDER, type=folder_at, help="the folder for grades.csv and the feedback")
    parser.add_argument("--user", default="", help="the account that students' code runs under; needs root")
    asked = parser.parse_args(arguments)
    if not asked.submissions:
        return "Say which folder to grade: make grade SUBMISSIONS=folder."
    try:
        submissions, seed = find_submissions(folder_at(asked.submissions)), seed_of_course()
        account(asked.user)
    except ValueError as problem:
        return str(problem)
    asked.to.mkdir(parents=True, exist_ok=True)
    log_to(asked.to / "nbgrader.log")
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course(folder, asked.user)
        for problems in dict.fromkeys(problems for _, problems, _ in submissions):
            course.add(problems, seed)
        for student, problems, path in submissions:
            start = time.monotonic()
            course.submit(problems, student, read(path))
            feedback = course.grade(problems, student)
            if feedback:
                target = asked.to / "feedback" / student / feedback.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(feedback, target)
            got, most = map(sum, zip(*course.points(problems, student).values(), strict=True))
            said = f"{got:g} of {most:g} points" if feedback else "0 points: it cannot be graded, see nbgrader.log"
            print(f"{student:<20} {problems.name:<20} {said} ({time.monotonic() - start:.0f} s)", flush=True)
        course.export(asked.to / "grades.csv")
    print(asked.to / "grades.csv")
    return 0


def find_submissions(folder):
    """(student, set, path) of every submission in a folder. Raises ValueError, with one sentence, for no such one."""
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}: name the one that holds a folder for each student.")
    found = []
    for student in sorted(path for path in folder.iterdir() if path.is_dir()):
        if "," in student.name:
            raise ValueError(f"The folder {student.name!r} has a comma in its name: grades.csv could not be read.")
        for problems in find_sets():
            paths = sorted(student.rglob(f"{problems.name}.ipynb"))
            if len(paths) > 1:
                raise ValueError(f"{student.name} has {len(paths)} notebooks {problems.name}.ipynb: leave one.")
            found += [(student.name, problems, path) for path in paths]
    if not found:
        names = ", ".join(f"{problems.name}.ipynb" for problems in find_sets())
        raise ValueError(f"No student's folder in {folder} holds a notebook {names}.")
    return found


def read(path):
    """A submitted notebook; where it cannot be read, an empty one that says so, which gets no points."""
    try:
        return nbformat.read(path, as_version=4)
    except Exception:  # whatever the bytes in a student's file do to the reader
        return new_notebook(cells=[new_markdown_cell("**This file is no notebook that can be read.**")])


def log_to(path):
    """Let nbgrader, and who warns it, write to a file, not to the screen."""
    file = logging.FileHandler(path, "w", encoding="utf-8")
    logging.captureWarnings(True)
    for log in map(logging.getLogger, ("traitlets", "py.warnings")):
        log.addHandler(file)
        log.propagate = False
        log.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
