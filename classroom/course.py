"""A course as nbgrader lays it out in a folder, each step done by nbgrader: release, grading, feedback, export."""

import glob
import os
import sysconfig
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import CsvExportPlugin
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)
from traitlets.config import Config

from classroom.judging import Judging
from classroom.rebuild import Rebuild


def configure(config, user=""):
    """Let nbgrader, in whose configuration this is called, grade as this book does.

    user: the account that students' code runs under (see `Process`).
    """
    config.ClearSolutions.code_stub = {"python": "# your answer\nraise NotImplementedError"}
    config.Autograde.sanitize_preprocessors = [
        ClearOutput,
        Rebuild,
        OverwriteKernelspec,
        OverwriteCells,
        CheckCellMetadata,
    ]
    config.Autograde.autograde_preprocessors = [Judging, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
    config.Judging.user = user


class Course:
    """A folder with nbgrader's layout."""

    def __init__(self, folder, user=""):
        self.folder = Path(folder)
        os.environ["PATH"] = os.pathsep.join(
            [sysconfig.get_path("scripts"), os.environ["PATH"]]
        )  # nbgrader calls alembic
        self._config = Config()
        configure(self._config, user)
        self._config.CourseDirectory.root = str(self.folder)

    def add(self, problems, seed):
        """Put a set into the course and make what is handed out of it; the path of that notebook."""
        source = self.folder / "source" / problems.name / f"{problems.name}.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(problems.notebook(seed), source)
        self._convert(GenerateAssignment, problems.name)
        return self.folder / "release" / problems.name / source.name

    def submit(self, problems, student, notebook):
        """Put down a student's notebook, as it will be graded."""
        submitted = self.folder / "submitted" / student / problems.name / f"{problems.name}.ipynb"
        submitted.parent.mkdir(parents=True)
        nbformat.write(notebook, submitted)

    def grade(self, problems, student):
        """Grade what a student submitted, and write the feedback; its path, or None where that failed."""
        try:
            self._convert(Autograde, problems.name, student)
            self._convert(GenerateFeedback, problems.name, student)
        except NbGraderException:
            return None
        return self.folder / "feedback" / student / problems.name / f"{problems.name}.html"

    def points(self, problems, student):
        """{name of a test: (points, points at most)} of a graded submission."""
        with self._gradebook() as gradebook:
            grades = gradebook.find_submission_notebook(problems.name, problems.name, student).grades
            return {grade.name: (grade.score, grade.max_score) for grade in grades}

    def export(self, path):
        """Write the table of all grades, as nbgrader exports it."""
        with self._gradebook() as gradebook:
            CsvExportPlugin(to=str(path)).export(gradebook)

    def _gradebook(self):
        return Gradebook(CourseDirectory(config=self._config).db_url)

    def _convert(self, converter, name, student="*"):
        course = CourseDirectory(config=self._config, assignment_id=name)
        if student != "*":
            course.student_id = glob.escape(student)
        converter(coursedir=course, config=self._config).start()
