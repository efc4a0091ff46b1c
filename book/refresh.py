"""Run the chapters whose text changed, or the one asked for, and store their outputs."""

import hashlib
import json
import sys

import nbformat

from book.chapters import code_cells, find_chapters
from book.run import errors, printed, run

ASK_MACHINE = "from steptime import machine\nprint(machine.card())"


def main(arguments):
    """Refresh; `arguments` may hold a chapter's number."""
    asked = arguments[0] if arguments else ""
    try:
        chapters = find_chapters(asked)
    except ValueError as problem:
        return str(problem)
    for chapter in chapters:
        if not chapter.text.exists():
            return (
                f"{chapter.notebook.name} has no text: write notebooks/text/{chapter.name}.py or delete the notebook."
            )
        if not asked and chapter.notebook.exists() and not differences(chapter):
            continue
        print(f"running {chapter.name}", flush=True)
        notebook = chapter.read_text()
        notebook.cells.append(nbformat.v4.new_code_cell(ASK_MACHINE))
        run(notebook, chapter.notebooks)
        card = printed(notebook.cells.pop())
        if errors(notebook):
            return f"{chapter.name} is not stored, because it raised {errors(notebook)[0]}"
        doubtful = [line for line in printed(notebook.cells[-1]).splitlines() if line.startswith("cannot tell")]
        if doubtful:
            return f"{chapter.name} is not stored, because a claim says {doubtful[0]}: try again on a quieter machine."
        try:
            store(notebook, chapter, card)
        except OSError as problem:
            return f"{chapter.name} is not stored: {problem}."
    return 0


def differences(chapter):
    """The places where a notebook says something else than its text, each in one sentence."""
    text, notebook = chapter.read_text(), chapter.read_notebook()
    if len(text.cells) != len(notebook.cells):
        return [f"{chapter.notebook.name} has {len(notebook.cells)} cells and its text {len(text.cells)}"]
    return [
        f"cell {place} of {chapter.notebook.name} is not what its text says"
        for place, (wanted, stored) in enumerate(zip(text.cells, notebook.cells, strict=True))
        if (wanted.cell_type, wanted.source, wanted.metadata) != (stored.cell_type, stored.source, stored.metadata)
    ]


def store(notebook, chapter, card):
    """Write an executed notebook, less what changes from run to run and says nothing, sealed against later edits.

    card: the machine that ran it, as `machine.card` shows it; the web pages tell it.
    """
    notebook.metadata.pop("language_info", None)
    for cell in code_cells(notebook.cells):
        cell.outputs = [output for output in cell.outputs if not is_blank(output)]
    notebook.metadata["steptime"] = {"outputs": seal(notebook), "machine": card}
    nbformat.write(notebook, chapter.notebook)


def is_blank(output):
    """True for what a progress bar leaves when it is over: blanks, which Lab shows as an empty red stripe."""
    return output.output_type == "stream" and not output.text.strip()


def seal(notebook):
    """A digest of all code and outputs: it no longer fits once one was edited by hand or run elsewhere."""
    outputs = [[cell.source, cell.execution_count, cell.outputs] for cell in code_cells(notebook.cells)]
    return hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument]))
