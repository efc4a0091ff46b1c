"""The book's own rules: what each chapter must keep to, whatever it teaches.

Each rule takes a chapter (or a page of Markdown) and gives the breaches it finds, each one sentence.
"""

import re
import subprocess
import sys
from statistics import median

from book.chapters import ROOT, claim_texts, code_cells, sections
from book.refresh import differences, seal

LONGEST_CELL = 25  # lines
MEDIAN_CELL = 4  # lines
LONGEST_LINE = 95  # characters: what follows is cut off in JupyterLab on a laptop
CLOSING = "claims.close()"
COMPARED = "nbval-check-output"


def is_a_pair(chapter):
    """A chapter is a text and the notebook made from it."""
    if not chapter.text.exists():
        yield f"{chapter.notebook.name} has no text: write notebooks/text/{chapter.name}.py or delete the notebook."
    elif not chapter.notebook.exists():
        yield f"{chapter.text.name} has no notebook: run make refresh CHAPTER={chapter.number}."


def agrees_with_its_text(chapter):
    """The notebook says what the text says."""
    for difference in differences(chapter):
        yield f"{difference}: run make refresh CHAPTER={chapter.number}."


def was_run_from_top_to_bottom(chapter):
    """Every code cell has a stored run, in order and without an error."""
    for place, cell in enumerate(code_cells(chapter.read_notebook().cells), start=1):
        if cell.execution_count != place:
            run = f"run number {cell.execution_count}" if cell.execution_count else "no stored run"
            yield f"Code cell {place} has {run}: run make refresh CHAPTER={chapter.number}."
        if any(output.output_type == "error" for output in cell.outputs):
            yield f"Code cell {place} stores an error: mend it, then run make refresh CHAPTER={chapter.number}."


def stores_what_the_machine_said(chapter):
    """The stored outputs are those of the refresh, not edited by hand and not of another run."""
    notebook = chapter.read_notebook()
    if notebook.metadata.get("steptime", {}).get("outputs") != seal(notebook):
        yield (
            f"The stored outputs of {chapter.notebook.name} are not those that make refresh wrote: "
            f"run make refresh CHAPTER={chapter.number}, or git restore it."
        )


def closes(chapter):
    """The last cell closes the claims and alone is compared; all it stores is True."""
    cells = chapter.read_notebook().cells
    last = cells[-1]
    if last.cell_type != "code" or last.source.strip() != CLOSING:
        yield f"The last cell must be {CLOSING}."
        return
    if last.metadata.get("tags") != [COMPARED]:
        yield f"The last cell must carry the tag {COMPARED} and no other, or nbval compares nothing."
    for place, cell in enumerate(code_cells(cells[:-1]), start=1):
        if CLOSING in cell.source:
            yield f"Code cell {place} closes the claims: only the last cell may."
        if cell.metadata.get("tags") or re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)_", cell.source):
            yield f"Code cell {place} is tagged for nbval: only the last cell is compared, and none is excused."
    *verdicts, summary = "".join(output.get("text", "") for output in last.outputs).splitlines() or [""]
    made = [text for cell in code_cells(cells) for text in claim_texts(cell.source)]
    if verdicts != [f"{'True':<6} {text}" for text in made]:
        yield "The last cell does not store a True for each claim of the chapter, and nothing else."
    if summary != f"{len(made)} of {len(made)} claims hold on this machine":
        yield f"The last cell stores {summary!r} as its summary."


def names_its_claims(chapter):
    """Every claim is a plain sentence, made once, so that a sabotage can find it."""
    seen = set()
    opening, found = sections(chapter.read_text())
    if any(claim_texts(cell.source) for cell in code_cells(opening)):
        yield "A claim stands before the first section: move it into one, so that a sabotage can run it."
    for section in found:
        for text in section.claims:
            if text is None:
                yield f"A claim under {section.title!r} is not written out: give it a plain string."
            elif text in seen:
                yield f"Two claims say {text!r}: give each a text of its own."
            seen.add(text)


def has_short_cells(chapter):
    """Code comes in small pieces."""
    lengths = []
    for place, cell in enumerate(code_cells(chapter.read_text().cells), start=1):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        lengths.append(len(lines))
        if len(lines) > LONGEST_CELL:
            yield f"Code cell {place} has {len(lines)} lines: at most {LONGEST_CELL}."
        if any(len(line) > LONGEST_LINE for line in lines):
            yield f"Code cell {place} has a line of {max(map(len, lines))} characters: at most {LONGEST_LINE}."
    if lengths and median(lengths) > MEDIAN_CELL:
        yield f"Half of the code cells are longer than {MEDIAN_CELL} lines: the median is {median(lengths):g}."


def describes_its_figures(chapter):
    """Every picture has alt text, in the prose and in the outputs."""
    for place, cell in enumerate(chapter.read_notebook().cells):
        bundles = [output for output in cell.get("outputs", ()) if "data" in output]
        for output in bundles:
            for kind in output.data:
                if kind.startswith("image/") and not output.metadata.get(kind, {}).get("alt", "").strip():
                    yield f"Cell {place} shows a picture without alt text."
        html = [output.data.get("text/html", "") for output in bundles]
        for shown in [cell.source] * (cell.cell_type == "markdown") + html:
            yield from (f"Cell {place} shows a picture without alt text." for _ in pictures_without_alt(shown))


def pictures_without_alt(markdown):
    """The pictures of a piece of Markdown or HTML that have no alt text."""
    empty = re.findall(r"!\[\s*\]", markdown)
    tags = re.findall(r"<img\b[^>]*>", markdown, flags=re.IGNORECASE)
    return empty + [tag for tag in tags if not re.search(r"""\balt\s*=\s*(["'])\s*[^"'\s]""", tag)]


def has_links_that_resolve(chapter):
    """Every link of the prose leads somewhere."""
    for cell in chapter.read_text().cells:
        if cell.cell_type == "markdown":
            yield from dead_links(cell.source, chapter.notebooks)


def dead_links(markdown, folder):
    """The relative links of a piece of Markdown, seen from `folder`, that lead to no file. No address is visited."""
    prose = re.sub(r"`[^`]*`", "", markdown)
    links = re.findall(r"\]\(\s*([^)\s]+)[^)]*\)", prose)
    links += re.findall(r"""\b(?:href|src)\s*=\s*["']([^"']+)""", prose) + re.findall(
        r"(?m)^\[[^\]]+\]:\s*(\S+)", prose
    )
    for target in links:
        if re.match(r"https://\S+\.\S+|mailto:\S+@\S+|data:", target) or target.startswith("#"):
            continue
        if target.startswith("http:"):
            yield f"The link to {target} is not encrypted: write https."
        elif not (folder / target.partition("#")[0]).exists():
            yield f"The link to {target} leads nowhere."


def starts_each_section_with_a_cell(chapter):
    """A heading of the second level opens its cell, so that a section is a row of whole cells."""
    for cell in chapter.read_text().cells:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^(?<!\A)## .+", cell.source, flags=re.MULTILINE):
                yield f"The heading {heading!r} stands inside a cell: let it begin one."


def has_sections_that_stand_alone(chapter):
    """Every section runs after the first code cell alone: each name it uses is made there, in it, or by Python.

    This is the quick look. The sections with claims are also run so, in tests/test_sabotage.py.
    """
    opening, found = sections(chapter.read_text())
    first = code_cells(opening)
    if len(first) != 1:
        yield "One code cell must stand before the first section, and no other: the sections run after it alone."
    for section in found:
        code = "\n\n".join(cell.source for cell in [*first, *code_cells(section.cells)])
        ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "--output-format=concise"]
        ruff += ["--config=builtins = ['display', 'get_ipython']", "-"]
        check = subprocess.run(ruff, input=code, capture_output=True, text=True, cwd=ROOT, check=False)
        if check.returncode not in (0, 1) or "invalid-syntax" in check.stdout:
            yield f"The section {section.title!r} could not be checked: {(check.stderr or check.stdout).strip()}"
        for name in re.findall(r"F821 Undefined name `(\w+)`", check.stdout):
            yield f"The section {section.title!r} uses {name}, which neither it nor the first cell makes."


RULES = (
    agrees_with_its_text,
    was_run_from_top_to_bottom,
    stores_what_the_machine_said,
    closes,
    names_its_claims,
    has_short_cells,
    describes_its_figures,
    has_links_that_resolve,
    starts_each_section_with_a_cell,
    has_sections_that_stand_alone,
)
