"""Make the problem sets into notebooks to hand out, without their solutions."""

import argparse
import shutil
import sys
import tempfile

from classroom import ROOT, folder_at
from classroom.course import Course
from classroom.sets import find_sets, seed_of_course

FOLDER = ROOT / "build" / "release"


def main(arguments):
    """Release all sets, or the one asked for, into a folder."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--set", default="", help="the number of one set; all without it")
    parser.add_argument("--to", default=FOLDER, type=folder_at, help="the folder to hand out")
    asked = parser.parse_args(arguments)
    try:
        sets, seed = find_sets(asked.set), seed_of_course()
    except ValueError as problem:
        return str(problem)
    with tempfile.TemporaryDirectory(prefix="course-") as folder:
        course = Course(folder)
        for problems in sets:
            target = asked.to / problems.name / f"{problems.name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(course.add(problems, seed), target)
            print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
