"""Break what a claim says and see whether it notices: one changed line must turn it False."""

import tomllib
from dataclasses import dataclass

from book.chapters import ROOT, code_cells, sections

FOLDER = ROOT / "tests" / "sabotage"


@dataclass(frozen=True)
class Sabotage:
    """In the section that makes `claim`, `line` becomes `becomes`."""

    claim: str
    line: str
    becomes: str


def sabotages(chapter, folder=FOLDER):
    """The sabotages of a chapter, from tests/sabotage/NAME.toml; none where that file is missing."""
    path = folder / f"{chapter.name}.toml"
    if not path.exists():
        return []
    return [Sabotage(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["sabotage"]]


def sabotaged_cells(notebook, sabotage):
    """The code cells of the claim's section, with the line changed.

    Raises ValueError, with one sentence, where the claim or the line is not found exactly once, or the line is the
    claim itself.
    """
    if "claim(" in sabotage.line:
        raise ValueError(f"The line {sabotage.line!r} is the claim itself: break what it claims, not what it says.")
    makers = [section for section in sections(notebook)[1] if sabotage.claim in section.claims]
    if len(makers) != 1:
        raise ValueError(f"The claim {sabotage.claim!r} is made by {len(makers)} sections, not by one.")
    cells = code_cells(makers[0].cells)
    holders = [cell for cell in cells for line in cell.source.splitlines() if line == sabotage.line]
    if len(holders) != 1:
        raise ValueError(f"The line {sabotage.line!r} stands {len(holders)} times in the section, not once.")
    lines = holders[0].source.splitlines()
    lines[lines.index(sabotage.line)] = sabotage.becomes
    holders[0].source = "\n".join(lines)
    return cells
