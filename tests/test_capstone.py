"""The capstone: its mends lead from the slow script to the fast one, and its checker cannot be fooled cheaply."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
from PIL import Image

from book.chapters import ROOT
from notebooks.capstone import check, sheets, steps

CAPSTONE = ROOT / "notebooks" / "capstone"


def classes(script, folder, seed=0):
    with redirect_stdout(io.StringIO()):
        return script.train(folder, seed)


@pytest.fixture(scope="module")
def dealt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("capstone") / "digits"
    return folder, sheets.deal(folder, seed=0)


def test_the_mends_lead_from_the_slow_script_to_the_fast_one_exactly():
    assert len(steps.NAMES) == 9
    assert steps.text(*steps.NAMES) == (CAPSTONE / "train_fast.py").read_text(encoding="utf-8")


def test_a_mend_that_does_not_fit_says_which_lines_are_missing():
    with pytest.raises(ValueError, match="stand 0 times"):
        steps.text("09_keep_numbers", "09_keep_numbers")


def test_the_optimiser_can_be_mended_first():
    assert "fused=True" in steps.text("08_fused_adam") and "class Adam" not in steps.text("08_fused_adam")


def test_all_mends_but_the_new_order_keep_every_class(dealt):
    folder, truth = dealt
    found = [classes(steps.after(done), folder) for done in range(len(steps.NAMES) + 1)]
    assert all(each == found[0] for each in found[:7])
    assert all(each == found[7] for each in found[7:])
    assert all(np.mean(np.array(each) == truth) > 0.8 for each in found)


def test_sheets_hold_the_digits_that_the_labels_say(dealt):
    folder, truth = dealt
    labels = (folder / "labels.txt").read_text(encoding="ascii").split()
    assert [len(line) for line in labels] == [100, 100, 100] and len(truth) == 300
    assert Image.open(folder / "train" / "sheet-01.png").size == (80, 80)
    assert len(list((folder / "test").iterdir())) == 3


def test_another_deal_has_other_digits_and_renamed_classes_other_names(tmp_path):
    plain, renamed = (sheets.deal(tmp_path / str(name), 1, renamed=name) for name in (False, True))
    names = dict(zip(plain.tolist(), renamed.tolist(), strict=True))
    assert [names[each] for each in plain] == renamed.tolist() and len(set(names.values())) == 10
    assert not np.array_equal(plain, sheets.deal(tmp_path / "other", 2))
    assert not np.array_equal(plain, renamed)


def graded(path):
    """(exit status, what the checker printed) for a script."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, CAPSTONE / "check.py", path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, [tuple(line.split(maxsplit=1)) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.long
def test_the_fast_script_passes_all_gates():
    status, lines, _ = graded(CAPSTONE / "train_fast.py")
    assert [word for word, _ in lines] == ["passed"] * 4, lines
    assert [gate.split("  ")[0].strip() for _, gate in lines] == [
        "correct",
        "changed",
        "beyond the noise",
        "beyond the target",
    ]
    assert status == 0


@pytest.mark.long
def test_the_slow_script_fails_at_changed_whatever_its_comments(tmp_path):
    copy = tmp_path / "mine.py"
    text = (CAPSTONE / "train_slow.py").read_text(encoding="utf-8")
    copy.write_text('"""Mine."""\n# faster!\n' + text.partition('"""\n\n')[2], encoding="utf-8")
    status, [correct, changed], _ = graded(copy)
    assert correct[0] == "passed" and changed[0] == "failed"
    assert changed[1].startswith("changed") and status == 1


CHEATS = {
    "prints an accuracy": (
        "def train(folder, seed):\n    print('accuracy 0.95')\n    return 0.95\n",
        "one class for each",
    ),
    "skips the training": (
        (CAPSTONE / "train_fast.py").read_text(encoding="utf-8").replace("EPOCHS, BATCH = 3,", "EPOCHS, BATCH = 0,"),
        "Another accuracy",
    ),
    "keeps its first answer on the disk": (
        "import json, pathlib, sys\n"
        f"sys.path.insert(0, {str(CAPSTONE)!r})\n"
        "import train_fast\n"
        "kept = pathlib.Path(__file__).with_suffix('.json')\n"
        "def train(folder, seed):\n"
        "    if not kept.exists():\n"
        "        kept.write_text(json.dumps(train_fast.train(folder, seed)))\n"
        "    return json.loads(kept.read_text())\n",
        "Another accuracy",
    ),
    "ends its process": ("import os\ndef train(folder, seed):\n    os._exit(0)\n", "ended without an answer"),
    "is not Python": ("def train(:\n", "could not be loaded: SyntaxError"),
}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["seven"] * 300, "from 0 to 9"),
        ([1.0] * 300, "from 0 to 9"),
        ([True] * 300, "from 0 to 9"),
        ([10] * 300, "from 0 to 9"),
        ([0] * 200, "200 classes for 300"),
        ("0.95", "one class for each"),
    ],
)
def test_an_answer_of_another_form_is_refused(given, sentence):
    with pytest.raises(check.NotCorrect, match=sentence):
        check.in_form(given, 300)


@pytest.mark.long
@pytest.mark.parametrize(("text", "sentence"), CHEATS.values(), ids=CHEATS)
def test_a_cheat_fails_at_correct(text, sentence, tmp_path):
    (tmp_path / "cheat.py").write_text(text, encoding="utf-8")
    status, lines, errors = graded(tmp_path / "cheat.py")
    assert len(lines) == 1 and lines[0][0] == "failed" and lines[0][1].startswith("correct"), errors
    assert sentence in lines[0][1] and status == 1


def test_a_script_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "LIMIT", 20)
    (tmp_path / "endless.py").write_text("def train(folder, seed):\n    while True: pass\n", encoding="utf-8")
    with check.Trainer(tmp_path / "endless.py") as endless:
        monkeypatch.setattr(check, "LIMIT", 0.5)
        with pytest.raises(check.NotCorrect, match=r"endless\.py did not train within 0\.5 s"):
            endless.ask(str(tmp_path), 0)
    assert not endless._process.is_alive()


def test_no_file_is_a_sentence(tmp_path):
    status, lines, errors = graded(tmp_path / "none.py")
    assert status == 2 and not lines and errors.startswith("There is no file")
