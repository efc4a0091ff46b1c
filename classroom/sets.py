"""The problem sets: what there is, and each as a notebook with the constants of one variant.

A set is a text, notebooks/exercises/NN_name_problems.py, its cells marked by nbgrader's own metadata. The cell tagged
`variant` draws the set's constants from `draw`, a random.Random. The notebook holds what was drawn: as that cell, and
in the prose, where that says {{NAME}}. Solutions and tests use the names.
"""

import hashlib
import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

import jupytext

from classroom import ROOT

FOLDER = ROOT / "notebooks" / "exercises"
PUBLIC = "public"


@dataclass(frozen=True)
class ProblemSet:
    """One problem set."""

    name: str
    folder: Path = FOLDER

    @property
    def number(self):
        """The chapter it goes with: `01`."""
        return self.name.partition("_")[0]

    def notebook(self, seed=PUBLIC):
        """The whole set, solutions and tests included, in the variant that a seed draws.

        Raises ValueError, with one sentence, where the prose names a constant that is not drawn.
        """
        notebook = jupytext.read(self.folder / f"{self.name}.py", fmt="py:percent")
        constants = {}
        for place, cell in enumerate(notebook.cells):
            cell.id = f"cell-{place:02}"
            if "variant" in cell.metadata.pop("tags", ()):
                constants |= drawn(cell.source, random.Random(f"{seed} {self.name}"))
                cell.source = "\n".join(f"{name} = {value!r}" for name, value in constants.items())
            elif cell.cell_type == "markdown":
                cell.source = filled(cell.source, constants)
        notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        notebook.metadata["steptime"] = {"variant": hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()[:8]}
        return notebook


def drawn(source, draw):
    """{name: value} of the constants, in capitals, that a variant's cell draws."""
    names = {"draw": draw}
    exec(source, names)
    return {name: value for name, value in names.items() if name.isupper()}


def filled(prose, constants):
    """Prose with its {{NAME}} replaced by the constants."""

    def value(match):
        if match[1] not in constants:
            raise ValueError(f"The prose names {match[1]}, and the variant draws {', '.join(constants) or 'nothing'}.")
        constant = constants[match[1]]
        return f"{constant:,}" if isinstance(constant, int) else str(constant)

    return re.sub(r"\{\{(\w+)\}\}", value, prose)


def find_sets(number="", folder=FOLDER):
    """The set of a chapter (`01`), or all. Raises ValueError, with one sentence, where there is none."""
    every = [ProblemSet(path.stem, folder) for path in sorted(folder.glob("*_problems.py"))]
    found = [problems for problems in every if number in ("", problems.number)]
    if not found:
        raise ValueError(f"There is no set {number}: there are {', '.join(problems.number for problems in every)}.")
    return found


def seed_of_course():
    """What draws the constants: the variable STEPTIME_SEED, or what the file named by STEPTIME_SEED_FILE says.

    Without either, the public variant. Raises ValueError, with one sentence, for a file that is in the repository or
    cannot be read.
    """
    if seed := os.environ.get("STEPTIME_SEED"):
        return seed
    if not (named := os.environ.get("STEPTIME_SEED_FILE")):
        return PUBLIC
    path = Path(named).resolve()
    if path.is_relative_to(ROOT):
        raise ValueError(f"The seed in {named} lies in the repository, where it may get public: put it elsewhere.")
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise ValueError(f"The seed's file {named} cannot be read: {problem.strerror}.") from None
