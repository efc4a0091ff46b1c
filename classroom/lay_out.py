"""Lay a course out in a folder for nbgrader's own commands and pages, as JupyterHub uses them."""

import argparse
import sys

from classroom import ROOT, folder_at
from classroom.course import Course
from classroom.sets import find_sets, seed_of_course

CONFIGURATION = """\
# nbgrader reads this in the course's folder. Students' code runs under the account named here; empty: under yours.
import sys

sys.path.insert(0, {root!r})

from classroom.course import configure

configure(get_config(), user="")
"""


def main(arguments):
    """Put the sets and nbgrader's configuration into a folder; what is there already stays."""
    parser = argparse.ArgumentParser(prog="make course", description=__doc__)
    parser.add_argument("folder", help="the course's folder, outside of the repository")
    parser.add_argument("--set", default="", help="the number of one set; all without it")
    asked = parser.parse_args(arguments)
    try:
        sets, seed = find_sets(asked.set), seed_of_course()
    except ValueError as problem:
        return str(problem)
    if not asked.folder:
        return "Say where to lay the course out: make course TO=folder."
    folder = folder_at(asked.folder).resolve()
    if folder.is_relative_to(ROOT):
        return f"{asked.folder} lies in the repository: a course, with its grades, belongs elsewhere."
    course = Course(folder)
    for problems in sets:
        if (folder / "source" / problems.name).exists():
            print(f"{problems.name} is there already, and stays as it is")
        else:
            print(course.add(problems, seed))
    configuration = folder / "nbgrader_config.py"
    if not configuration.exists():
        configuration.write_text(CONFIGURATION.format(root=str(ROOT)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
