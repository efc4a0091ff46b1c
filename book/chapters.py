"""What the book is made of: chapters, their cells, their sections, their claims."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Chapter:
    """One chapter: its source as text and the executed notebook made from it."""

    name: str
    notebooks: Path = ROOT / "notebooks"

    @property
    def number(self):
        """What a person calls it by: `01`."""
        return self.name.partition("_")[0]

    @property
    def text(self):
        return self.notebooks / "text" / f"{self.name}.py"

    @property
    def notebook(self):
        return self.notebooks / f"{self.name}.ipynb"

    def read_text(self):
        """The notebook as its text says it, without outputs; a cell's id is its place.

        Raises ValueError, with one sentence, where a code cell is no plain Python.
        """
        notebook = jupytext.read(self.text, fmt="py:percent")
        for place, cell in enumerate(notebook.cells):
            cell.id = f"cell-{place:02}"
            if cell.cell_type == "code":
                try:
                    ast.parse(cell.source)
                except SyntaxError as error:
                    raise ValueError(f"Cell {place} of {self.text.name} is no plain Python: {error}.") from None
        notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        return notebook

    def read_notebook(self):
        """The notebook with its stored outputs."""
        return nbformat.read(self.notebook, as_version=4)


def all_chapters(notebooks=ROOT / "notebooks"):
    """Every chapter that has a text or a notebook, in reading order."""
    names = {path.stem for path in (*notebooks.glob("*.ipynb"), *(notebooks / "text").glob("*.py"))}
    return [Chapter(name, notebooks) for name in sorted(names)]


def find_chapters(number=""):
    """The chapters called `number` (`01`), or all. Raises ValueError with one sentence where there is none."""
    chapters = [chapter for chapter in all_chapters() if number in ("", chapter.number)]
    if not chapters:
        known = ", ".join(chapter.number for chapter in all_chapters())
        raise ValueError(f"There is no chapter {number}: there are {known}.")
    return chapters


@dataclass(frozen=True)
class Section:
    """A heading of the second level and the cells below it."""

    title: str
    cells: tuple

    @property
    def claims(self):
        """The texts of the claims made in this section."""
        return [text for cell in code_cells(self.cells) for text in claim_texts(cell.source)]


def code_cells(cells):
    """The cells that run."""
    return [cell for cell in cells if cell.cell_type == "code"]


def sections(notebook):
    """(opening cells, sections): what stands before the first `##` heading, and what each such heading begins."""
    opening, found = [], []
    for cell in notebook.cells:
        heading = re.match(r"## (.+)", cell.source) if cell.cell_type == "markdown" else None
        if heading:
            found.append((heading[1].strip(), []))
        (found[-1][1] if found else opening).append(cell)
    return opening, [Section(title, tuple(cells)) for title, cells in found]


def claim_texts(source):
    """The texts claimed by a cell of Python, in order; None for one that is not written out as a plain string."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    claims = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "claim"]
    texts = [call.args[0] if call.args else None for call in sorted(claims, key=lambda call: call.lineno)]
    return [text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None for text in texts]
