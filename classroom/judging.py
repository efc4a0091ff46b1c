"""The step of nbgrader's autograde that has a notebook judged, in the place of nbgrader's own, which executes it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from book.run import ENVIRONMENT
from classroom import ROOT
from classroom.judge import GIVEN, OWN, TEST

SECONDS = 600  # for one notebook


class Judging(NbGraderPreprocessor):
    """Puts under each code cell what came of it; nbgrader reads a test's points off that."""

    user = Unicode("", help="the account that students' code runs under; another than one's own needs root").tag(
        config=True
    )

    def preprocess(self, notebook, resources):
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        outcomes = judge([[role_of(cell), cell.source] for cell in cells], self.user)
        for place, (cell, (printed, error)) in enumerate(zip(cells, outcomes, strict=True), start=1):
            cell.execution_count = place
            cell.outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
            if error:
                kind, _, message = error.partition(": ")
                cell.outputs.append(new_output("error", ename=kind, evalue=message, traceback=[error]))
        return notebook, resources


def role_of(cell):
    """What the judge does with a code cell."""
    labels = cell.metadata.get("nbgrader", {})
    if labels.get("grade"):
        return TEST
    return GIVEN if labels.get("locked") else OWN


def judge(cells, user):
    """[printed, error] of each cell, from a process of its own. Where that ends early, the rest says why."""
    with tempfile.TemporaryDirectory(prefix="judging-") as folder:
        asked, outcomes, said = (Path(folder, name) for name in ("asked", "outcomes", "said"))
        asked.write_text(json.dumps({"cells": cells, "user": user}), encoding="utf-8")
        outcomes.touch()
        with said.open("w") as screen:
            process = subprocess.Popen(
                [sys.executable, "-m", "classroom.judge", str(asked), str(outcomes)],
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT, "TQDM_DISABLE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=screen,
            )
            try:
                ended = f"the judge ended with {process.wait(SECONDS)}"
            except subprocess.TimeoutExpired:
                ended = f"not judged: all cells together took over {SECONDS} s"
                process.kill()
                process.wait()
        judged = [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()]
        if len(judged) < len(cells) and said.stat().st_size:
            ended += f", {said.read_text(encoding='utf-8').splitlines()[-1]}"
    return judged + [["", ended]] * (len(cells) - len(judged))
