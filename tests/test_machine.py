"""The machine card."""

import os
import platform
import subprocess
import sys

import pytest

from steptime import machine


def test_the_card_names_what_a_reader_of_a_measurement_must_know():
    card = dict(machine.card().rows)
    assert list(card) == ["processor", "threads", "memory", "GPU", "system", "versions"]
    assert platform.python_version() in card["versions"] and "torch 2" in card["versions"]
    assert f"of {os.cpu_count()} cores usable" in card["processor"]


def test_the_card_is_a_table_with_a_line_for_each_row_and_each_thing_missing():
    card = machine.card()
    assert len(repr(card).splitlines()) == len(card.rows) + len(card.missing)


def test_a_machine_without_a_compiler_says_what_for_it_is_missed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not here   a C++ compiler: torch.compile cannot run on the CPU" in repr(machine.card())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot confine a process to one core")
def test_one_core_is_counted_as_one():
    program = "import os; os.sched_setaffinity(0, {0}); from steptime import machine; print(machine.usable_cores())"
    core = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert core.stdout == "1\n"


def test_importing_the_helper_does_not_wait_for_torch():
    program = "import sys, steptime; print('torch' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout == "False\n"
