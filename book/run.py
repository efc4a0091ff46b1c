"""Run a notebook in a fresh kernel and read what its claims came to."""

import json
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from steptime.claims import Verdict

# For every kernel, a reader's too. One thread for each operation, unless a chapter says otherwise: two threads on two
# busy cores stall each other.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "KINETO_LOG_LEVEL": "99",  # or torch's profiler writes a line to the screen whenever it starts or stops
}

READ_CLAIMS = """\
import json
from steptime import claims
print(json.dumps([[text, v.answer, v.evidence, v.margin] for text, v in claims.verdicts.items()]))
"""


def run(notebook, folder):
    """Run every cell in place, in `folder`; a cell that raises keeps its error as its output, and the rest goes on."""
    notebook.metadata.setdefault("kernelspec", {"name": "python3", "display_name": "Python 3", "language": "python"})
    client = NotebookClient(
        notebook,
        timeout=300,
        allow_errors=True,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(Path(folder))}},
        extra_arguments=["--Application.log_level=40"],  # errors only: a kernel warns that it listens on TCP
    )
    client.execute(env={**os.environ, **ENVIRONMENT})
    return notebook


def run_claims(cells, folder):
    """Run cells in a fresh kernel; {the text of a claim: its Verdict} and the errors met, each `name: message`."""
    notebook = nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_code_cell(READ_CLAIMS)])
    run(notebook, folder)
    said = printed(notebook.cells[-1])
    return verdicts_of(json.loads(said) if said.startswith("[") else []), errors(notebook)


def verdicts_of(claims):
    """{the text of a claim: its Verdict} from [text, answer, evidence, margin] of each."""
    return {text: Verdict(*rest) for text, *rest in claims}


def printed(cell):
    """What a cell wrote to standard output."""
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def errors(notebook):
    """What its cells raised, each as `name: message`."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]
