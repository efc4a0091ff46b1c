"""Claims: three answers, one ledger a chapter, a clear sentence for every mistake."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell

from book.run import run_claims
from steptime import machine
from steptime.claims import CannotTell, ClaimFailed, Ledger, Verdict


@pytest.fixture
def ledger():
    return Ledger()


def test_close_lists_every_claim_and_says_how_many_hold(ledger, capsys):
    ledger.claim("water is wet", True)
    ledger.claim("the fast one is faster", Verdict(True, "3x (2-4)"))
    capsys.readouterr()
    ledger.close()
    assert capsys.readouterr().out == (
        "True   water is wet\nTrue   the fast one is faster\n2 of 2 claims hold on this machine\n"
    )


def test_a_claim_prints_its_verdict_with_the_evidence(ledger, capsys):
    ledger.claim("the fast one is faster", Verdict(True, "3x (2-4)"))
    assert capsys.readouterr().out == "True   the fast one is faster · 3x (2-4)\n"


def test_close_raises_on_false_and_prints_what_was_measured(ledger, capsys):
    ledger.claim("water is dry", Verdict(False, "99 % wet"))
    ledger.claim("two is two", True)
    with pytest.raises(ClaimFailed, match="1 of 2 claims are False"):
        ledger.close()
    said = capsys.readouterr().out
    assert "False  water is dry\n" in said and "measured: 99 % wet" in said and "1 of 2 claims hold" in said


def test_close_tells_what_to_do_about_cannot_tell(ledger, capsys):
    ledger.claim("a is faster than itself", Verdict(None, "1.00x (0.98-1.02)"))
    ledger.close()
    said = capsys.readouterr().out
    assert "cannot tell a is faster than itself" in said and "stop what else runs" in said and "0 of 1" in said


def test_close_twice_says_the_same_twice(ledger, capsys):
    ledger.claim("water is wet", True)
    capsys.readouterr()
    ledger.close()
    first = capsys.readouterr().out
    ledger.close()
    assert capsys.readouterr().out == first


def test_close_without_a_claim_is_an_error(ledger):
    with pytest.raises(ValueError, match="No claim was made"):
        ledger.close()


def test_two_claims_with_one_text_are_an_error(ledger):
    ledger.claim("water is wet", False)
    with pytest.raises(ValueError, match=r"Two claims say 'water is wet'"):
        ledger.claim("water is wet", True)
    assert ledger.verdicts["water is wet"].answer is False


@pytest.mark.parametrize("true", [True, np.bool_(True), np.array(True), torch.tensor(True), torch.tensor([1]).all()])
def test_single_booleans_of_numpy_and_torch_count(ledger, true):
    ledger.claim("it holds", true)
    assert ledger.verdicts["it holds"].answer is True


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (None, "forget to return"),
        (np.array([True, True]), r"shape \(2,\): reduce them to one with .all\(\)"),
        (torch.ones(2, 3) > 0, r"shape \(2, 3\)"),
        (3, r"got 3 \(int\): compare it with something"),
        ("True", r"got 'True' \(str\)"),
        (torch.tensor(3.0), "compare it with something"),
    ],
)
def test_a_broken_condition_is_a_clear_sentence(ledger, broken, sentence):
    with pytest.raises(TypeError, match=sentence):
        ledger.claim("it holds", broken)
    assert not ledger.verdicts


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", None, True])
def test_a_claim_needs_a_sentence(ledger, text):
    with pytest.raises(ValueError, match="sentence on one line"):
        ledger.claim(text, True)


@pytest.mark.parametrize("answer", ["False", 2, np.bool_(True), []])
def test_a_verdict_takes_three_answers_and_no_other(answer):
    with pytest.raises(TypeError, match="A Verdict answers True, False or None, not"):
        Verdict(answer)


def test_a_verdict_that_cannot_tell_refuses_to_be_a_bool():
    assert bool(Verdict(True)) and not bool(Verdict(False))
    with pytest.raises(CannotTell, match=r"cannot tell \(1.0x\)"):
        bool(Verdict(None, "1.0x"))


def in_notebook(*cells):
    """What the last of some (cell id, code) prints when they run in a shell of their own, as Lab would run them."""
    program = (
        "import json, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "for cell, code in json.loads(sys.argv[1]):\n"
        "    print('@@')\n"
        "    shell.run_cell(code, cell_id=cell)\n"
    )
    command = [sys.executable, "-c", program, json.dumps(cells)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("@@\n")[-1]


FIRST = ("first", "from steptime import claim, claims")
CLOSE = ("close", "claims.close()")


def test_a_claim_on_what_this_machine_has_is_measured_and_no_part_of_the_list(ledger, capsys, monkeypatch):
    monkeypatch.setattr(machine, "has", lambda need: need == "CUDA")
    ledger.claim_on("CUDA", "the GPU is faster", lambda: Verdict(True, "7x"))
    assert capsys.readouterr().out == "True   the GPU is faster · 7x\n" and not ledger.verdicts
    with pytest.raises(ClaimFailed, match="the GPU is faster: False on this machine"):
        ledger.claim_on("CUDA", "the GPU is faster", lambda: False)


def test_a_claim_on_what_this_machine_lacks_says_that_it_was_not_run(ledger, capsys, monkeypatch):
    monkeypatch.setattr(machine, "has", lambda need: False)
    ledger.claim_on("CUDA", "the GPU is faster", lambda: 1 / 0)
    assert capsys.readouterr().out == "not run here: it needs CUDA (the GPU is faster)\n" and not ledger.verdicts


def test_a_claim_on_something_unknown_is_a_sentence(ledger):
    with pytest.raises(ValueError, match='has \'luck\': ask for "CUDA" or "a C\\+\\+ compiler"'):
        ledger.claim_on("luck", "it holds", lambda: True)


def test_running_a_cell_again_replaces_its_claims():
    said = in_notebook(FIRST, ("a", "claim('it holds', False)"), ("a", "claim('it holds', True)"), CLOSE)
    assert said == "True   it holds\n1 of 1 claims hold on this machine\n"


def test_a_claim_that_left_its_cell_leaves_the_list():
    said = in_notebook(FIRST, ("a", "claim('old', False)"), ("a", "claim('new', True)"), CLOSE)
    assert said == "True   new\n1 of 1 claims hold on this machine\n"


def test_a_cell_that_now_raises_no_longer_counts_as_true():
    said = in_notebook(FIRST, ("a", "claim('a', True)"), ("b", "claim('b', True)"), ("a", "claim('a', 1 / 0)"), CLOSE)
    assert said == "True   b\n1 of 1 claims hold on this machine\n"


def test_the_cell_that_imports_can_be_run_again_too(tmp_path):
    cell = "from steptime import claim; claim('it holds', True)"
    verdicts, errors = run_claims([new_code_cell(cell), new_code_cell(cell)], tmp_path)
    assert list(verdicts) == ["it holds"] and not errors


def test_two_cells_cannot_claim_one_text():
    said = in_notebook(FIRST, ("a", "claim('it holds', False)"), ("b", "claim('it holds', True)"))
    assert "Two claims say 'it holds'" in said


def test_cells_without_an_id_are_told_apart_by_their_code():
    again = (None, "claim('it holds', True)")
    assert "Two claims" not in in_notebook(FIRST, again, again)
