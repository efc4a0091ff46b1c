"""The machine card, on this machine and on machines that lack something."""

import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time

import psutil
import pytest
import torch

from steptime import machine
from steptime.stream import Stream


def command(folder, name, answer):
    """A command of that name which prints a line, in a folder for PATH."""
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{answer}'\n")
    file.chmod(0o755)


def printed(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


def test_the_card_names_what_a_reader_of_a_measurement_must_know():
    card = dict(machine.card().rows)
    assert list(card) == ["processor", "threads", "memory", "GPU", "system", "versions", "compiler"]
    assert platform.python_version() in card["versions"] and "torch 2" in card["versions"]
    assert f"of {os.cpu_count()} cores usable" in card["processor"]
    assert re.fullmatch(r"[1-9]\d* GiB", card["memory"])


def test_the_threads_are_those_of_now():
    program = "from steptime import machine; import torch; torch.set_num_threads(3); print(machine.card().rows[1][1])"
    assert printed(program, OPENBLAS_NUM_THREADS="1") == b"torch 3, BLAS 1\n"


def test_the_card_is_a_table_with_a_line_for_each_row_and_each_thing_missing():
    card = machine.card()
    assert len(repr(card).splitlines()) == len(card.rows) + len(card.missing)


@pytest.mark.skipif(os.name == "nt", reason="the compiler of this test is a shell script")
def test_the_compiler_is_the_one_that_torch_would_take(tmp_path, monkeypatch):
    command(tmp_path, "g++", "g++ 99.1")
    command(tmp_path, "clang++", "clang++ 99.2")
    command(tmp_path, "mine", "mine 99.3")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert ("compiler", "clang++ 99.2" if sys.platform == "darwin" else "g++ 99.1") in machine.card().rows
    monkeypatch.setenv("CXX", "mine")
    assert ("compiler", "mine 99.3") in machine.card().rows


def test_a_machine_without_a_compiler_says_what_for_it_is_missed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    card = machine.card()
    assert "not here   a C++ compiler: torch.compile cannot run on the CPU" in repr(card)
    assert ("compiler", "none") in card.rows


@pytest.mark.skipif(os.name == "nt", reason="the compiler of this test is a shell script")
def test_a_compiler_that_fails_is_none(tmp_path, monkeypatch):
    (tmp_path / "broken").write_text("#!/bin/sh\necho broken 1.0\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "broken"))
    assert ("compiler", "none") in machine.card().rows


SPACE = pytest.mark.skipif(" " in torch.__file__, reason="torch lies in a folder with a space")


@SPACE
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="no C++ compiler here")
def test_a_compiler_that_builds_with_pythons_headers_is_there():
    assert machine.has("a C++ compiler") and "torch.compile cannot run" not in repr(machine.card())


@pytest.mark.skipif(os.name == "nt", reason="on Windows a compiler need only be there")
def test_no_compiler_counts_where_torch_lies_in_a_folder_with_a_space(tmp_path, monkeypatch):
    (tmp_path / "a b" / "torch").mkdir(parents=True)
    (tmp_path / "a b" / "torch" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.syspath_prepend(tmp_path / "a b")
    assert not machine.has("a C++ compiler")


@SPACE
@pytest.mark.skipif(os.name == "nt", reason="the compiler of this test is a shell script")
def test_a_compiler_without_headers_names_itself_does_not_count_and_is_tried_once(tmp_path, monkeypatch):
    tried = tmp_path / "tried"
    (tmp_path / "bare").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo bare 1.0 && exit\necho >>{tried}\nexit 1\n'
    )
    (tmp_path / "bare").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "bare"))
    card = machine.card()
    assert not machine.has("a C++ compiler") and ("compiler", "bare 1.0") in card.rows
    assert any(what.startswith("headers for the C++ compiler") for what in card.missing)
    assert tried.read_text() == "\n"


def test_a_cxx_that_points_nowhere_is_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert not machine.has("a C++ compiler") and ("compiler", "none") in machine.card().rows


def test_threads_share_the_last_level_caches_of_their_cores(tmp_path, monkeypatch):
    for core, cores in enumerate(("0-1", "0-1", "2-3", "2-3")):
        for level, size in ((1, 32), (2, 512), (3, 32_768)):
            index = tmp_path / f"cpu{core}" / "cache" / f"index{level}"
            index.mkdir(parents=True)
            shared = cores if level == 3 else str(core)
            for name, text in (("level", level), ("size", f"{size}K"), ("shared_cpu_list", shared)):
                (index / name).write_text(f"{text}\n")
    monkeypatch.setattr(machine, "CORES", tmp_path)
    assert [machine.last_level_cache(threads) for threads in (1, 2, 4)] == [2**25, 2**26, 2**26]
    monkeypatch.setattr(machine, "CORES", tmp_path / "none")
    assert machine.last_level_cache(1) == 0


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch is built with CUDA")
@pytest.mark.skipif(os.name == "nt", reason="the driver's command of this test is a shell script")
def test_a_driver_that_torch_cannot_use_is_told(tmp_path, monkeypatch):
    line = "not here   CUDA in torch: there is an NVIDIA driver, but this torch was built without it"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert line not in repr(machine.card())
    command(tmp_path, "nvidia-smi", "")
    assert line in repr(machine.card())


def test_without_scheduler_statistics_the_card_says_what_is_not_seen(tmp_path, monkeypatch):
    line = "not here   the scheduler's statistics: a reading that was interrupted cannot be told from others"
    monkeypatch.setattr(machine, "SCHEDULER", tmp_path / "none")
    assert line in repr(machine.card())
    (tmp_path / "none").touch()
    assert line not in repr(machine.card())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_a_linux_without_proc_still_has_a_card(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert ("memory", "unknown") in machine.card().rows


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot confine a process to one core")
def test_one_core_is_counted_as_one():
    program = "import os; os.sched_setaffinity(0, {0}); from steptime import machine; print(machine.card().rows[0][1])"
    assert f"1 of {os.cpu_count()} cores usable".encode() in printed(program)


@pytest.mark.parametrize(
    ("files", "told", "cores"),
    [
        (["max 100000"], None, math.inf),
        (["50000 100000"], "a quota allows the time of 0.5", 1),
        (["-1", "100000"], None, math.inf),
        (["125000", "100000"], "a quota allows the time of 1.25", 2),
    ],
)
def test_a_containers_quota_limits_the_cores(files, told, cores, tmp_path, monkeypatch):
    paths = [tmp_path / str(number) for number in range(len(files))]
    for path, text in zip(paths, files, strict=True):
        path.write_text(text + "\n")
    monkeypatch.setattr(machine, "QUOTAS", ())
    free = machine.usable_cores()
    monkeypatch.setattr(machine, "QUOTAS", ((tmp_path / "none",), paths))
    assert machine.card().rows[0][1].endswith(told or "cores usable")
    assert machine.usable_cores() == min(cores, free)


@pytest.mark.parametrize(
    "environment", [{"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp949"}]
)
def test_the_card_prints_on_any_screen(environment):
    assert b"cores usable" in printed("from steptime import machine; print(machine.card())", **environment)


def test_the_device_is_one_that_torch_computes_on():
    device = machine.device()
    assert torch.ones(2, device=device).sum().item() == 2
    assert (device.type == "cpu") is (dict(machine.card().rows)["GPU"] == "none")


def test_synchronise_waits_for_streams():
    came = []
    with Stream() as stream:
        stream.launch(lambda: (time.sleep(0.1), came.append(1)))
        machine.synchronise()
        assert came == [1]


def test_importing_the_helper_does_not_wait_for_torch():
    assert printed("import sys, steptime; print('torch' in sys.modules)") == b"False\n"
