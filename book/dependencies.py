"""What the verdicts of a chapter depend on: its code, the files it reads, and the parts of the helper it imports."""

import ast
import hashlib
import re

from book.chapters import ROOT, code_cells
from steptime.machine import card

HELPER = ROOT / "src" / "steptime"


def state(chapter):
    """A digest of a chapter's code, of the files and the helper's modules that it uses, and of the machine.

    Prose, comments and modules that it does not import leave it as it is.
    """
    cells = [cell.source for cell in code_cells(chapter.read_text().cells)]
    beside = files_beside(chapter, cells)
    scripts = [path.read_text(encoding="utf-8") for path in beside if path.suffix == ".py"]
    modules = modules_of([*cells, *scripts])
    parts = [code_of(source) for source in cells] + [path.read_bytes() for path in beside]
    parts += [code_of(path.read_text(encoding="utf-8")) for path in modules] + [repr(card()).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def code_of(source):
    """What a source does, whatever its comments and its layout."""
    return ast.dump(ast.parse(source)).encode()


def files_beside(chapter, cells):
    """The files in those folders beside the notebooks that a chapter's code names."""
    code = "\n".join(cells)
    folders = [folder for folder in sorted(chapter.notebooks.iterdir()) if folder.is_dir() and folder.name != "text"]
    named = [folder for folder in folders if re.search(rf"[\"'/]{re.escape(folder.name)}[\"'/]", code)]
    return [path for folder in named for path in sorted(folder.rglob("*")) if is_source(path)]


def is_source(path):
    """Whether a file was written or recorded, and did not come from running another."""
    return path.is_file() and path.suffix != ".pyc"


def modules_of(sources):
    """The files of the helper that sources import, and those that these import in turn, sorted."""
    found, waiting = set(), list(sources)
    while waiting:
        for path in imported(waiting.pop()) - found:
            found.add(path)
            waiting.append(path.read_text(encoding="utf-8"))
    return sorted(found)


def imported(source):
    """The files of the helper that one source imports."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return set().union(*(files_of(name.split(".")[1:]) for name in names if name.split(".")[0] == "steptime"))


def files_of(parts):
    """The files behind a dotted name below the helper: a module and its packages, or where `steptime` has it from."""
    found, folder = set(), HELPER
    for part in parts:
        if (folder / f"{part}.py").is_file():
            return found | {folder / f"{part}.py"}
        if (folder / part / "__init__.py").is_file():
            folder = folder / part
            found.add(folder / "__init__.py")
        elif folder == HELPER:
            return files_of(FRONT[part]) if part in FRONT else found
        else:
            return found
    return found


def front():
    """{name: the dotted name below the helper} of what `from steptime import name` finds in another module."""
    page = ast.parse((HELPER / "__init__.py").read_text(encoding="utf-8"))
    return {
        alias.name: [*node.module.split(".")[1:], alias.name]
        for node in page.body
        if isinstance(node, ast.ImportFrom) and node.module != "steptime"
        for alias in node.names
    }


FRONT = front()
