"""A submission put back into the set it belongs to: of it count the answers, and the cells that a student added.

All else, tests and what was given, comes from the set as it was released: whatever a student did to one of its cells,
or to the metadata, has no effect.
"""

from collections import defaultdict
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.preprocessors import NbGraderPreprocessor


class Rebuild(NbGraderPreprocessor):
    """The step of nbgrader's autograde, before its own, that does this."""

    def preprocess(self, notebook, resources):
        course, names = self.parent.parent.coursedir, resources["nbgrader"]
        released = Path(course.format_path(course.release_directory, ".", names["assignment"]))
        master = nbformat.read(released / f"{names['notebook']}.ipynb", as_version=4)
        return rebuilt(notebook, master), resources


def rebuilt(notebook, master):
    """A notebook's answers and own cells in the frame of the master's cells.

    An own cell stays behind the cell of the set that it stood behind. Of an answer given twice the last counts.
    """
    names = {name_of(cell) for cell in master.cells} - {None}
    answers, own, behind = {}, defaultdict(list), None
    for cell in notebook.cells:
        if name_of(cell) in names:
            behind = name_of(cell)
            answers[behind] = cell.source
        elif cell.cell_type in ("code", "markdown"):
            new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
            own[behind].append(new(cell.source))
    cells = own[None]
    for cell in master.cells:
        name = name_of(cell)
        if name is None:
            continue
        if cell.metadata.nbgrader.solution:
            cell.source = answers.get(name, cell.source)
        cells += [cell, *own[name]]
    master.cells = cells
    return master


def name_of(cell):
    """What the set calls a cell, None for one that is not the set's."""
    labels = cell.metadata.get("nbgrader", {})
    return labels.get("grade_id") if isinstance(labels, dict) else None
