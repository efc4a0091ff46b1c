"""The commands a reader and a maintainer type, and the one sentence each gives when something is missing."""

import ast
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time

import psutil
import pytest

from book import install, lab, refresh, steady
from book.chapters import ROOT, Chapter, find_chapters
from book.neighbours import neighbours
from steptime import machine

needs_make = pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")


def make(*arguments, folder=ROOT):
    return subprocess.run(["make", "-s", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@needs_make
def test_make_alone_lists_the_targets():
    said = make().stdout
    for target in ("lab", "test", "refresh", "sabotage", "steady", "lint", "release", "grade", "check-sets"):
        assert f"make {target} " in said


@needs_make
@pytest.mark.parametrize("target", ["lab", "test"])
def test_a_python_that_is_not_there_is_a_sentence(target):
    done = make(target, "PYTHON=python9")
    assert done.returncode and "There is no python9 here: install Python 3.11 or newer" in done.stdout


ANY = importlib.util.find_spec


@pytest.mark.parametrize(
    ("version", "find", "free", "sentence"),
    [
        ((3, 10, 9), ANY, 1e12, "Step Time needs Python 3.11 or newer and this is 3.10"),
        ((3, 6, 15), ANY, 1e12, "Step Time needs Python 3.11 or newer and this is 3.6"),
        ((3, 11, 0), lambda name: None if name == "ensurepip" else name, 1e12, "Python's venv module is missing"),
        ((3, 14, 0), ANY, 2.9e9, "No room on the disk: the book needs 3 GB in"),
    ],
)
def test_what_an_installation_lacks_is_one_sentence(version, find, free, sentence):
    said = install.missing(version, find, free)
    assert said.startswith(sentence) and "\n" not in said


@pytest.mark.skipif(os.name == "nt", reason="the folder of a venv's packages has another name there")
def test_python_starts_in_a_folder_with_korean_letters_where_the_language_is_c(tmp_path, monkeypatch):
    folder = tmp_path / "책"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (folder / "src").mkdir()
    (folder / "src" / "found.py").touch()
    [packages] = (folder / ".venv" / "lib").glob("python*/site-packages")
    monkeypatch.setattr(install, "ROOT", str(folder))
    install.point_to_sources(packages / "__editable__.steptime-1.pth")
    command = [folder / ".venv" / "bin" / "python", "-c", "import found"]
    subprocess.run(command, check=True, env={"LANG": "C", "LC_ALL": "C"})


def test_a_machine_with_all_of_it_lacks_nothing():
    assert install.missing((3, 11), ANY, 4e9) is None


@pytest.mark.parametrize(
    ("pip_says", "sentence"),
    [
        (
            "ERROR: OSError: [Errno 28] No space left on device",
            "The disk filled up: free 3 GB",
        ),
        ("ERROR: [Errno 13] Permission denied: '.venv'", "cannot be written: copy the book to a folder of your own"),
        ("ERROR: No matching distribution found for torch", "pip could not get the packages"),
        ("ERROR: something else", "The installation stopped at the error above"),
    ],
)
def test_an_installation_that_stops_says_why(pip_says, sentence, capsys):
    said = install.run([sys.executable, "-c", f"print({pip_says!r}); raise SystemExit(1)"])
    assert sentence in said and "\n" not in said
    assert pip_says in capsys.readouterr().out  # nothing of pip's own words is lost


def test_an_installation_step_that_works_says_nothing():
    assert install.run([sys.executable, "-c", ""]) is None


def test_old_pythons_can_read_the_installer():
    for name in ("__init__.py", "install.py"):
        ast.parse((ROOT / "book" / name).read_text(encoding="utf-8"), feature_version=(3, 6))
    assert "f'" not in install.missing.__code__.co_consts


def test_a_changed_list_of_packages_is_installed_again(tmp_path, monkeypatch):
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(install, "ROOT", str(tmp_path))
    before = install.wanted()
    (tmp_path / "constraints.txt").write_text("torch==2.14.1\n", encoding="utf-8")
    assert install.wanted() != before


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_asked_for_and_taken_is_a_sentence(taken):
    done = subprocess.run(
        [sys.executable, "-m", "book.lab", str(taken)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Port {taken} is taken: choose another, or let make lab find a free one.\n"


def test_without_a_port_the_next_free_one_is_taken_and_named(taken, capsys):
    chosen = lab.choose_port(first=taken)
    assert chosen > taken and lab.is_free(chosen)
    assert capsys.readouterr().out == f"Port {taken} is taken, so the book opens on {chosen}.\n"


@pytest.mark.parametrize("port", ["nine", "-1", "0", "80", "70000", "88.8"])
def test_what_is_no_port_is_a_sentence(port):
    with pytest.raises(ValueError, match="is no port for it: choose one from 1024"):
        lab.choose_port(port)


def test_a_chapter_that_is_not_there_is_a_sentence():
    with pytest.raises(ValueError, match=r"There is no chapter 77: there are 00, 01"):
        find_chapters("77")
    for command in ("book.refresh 77", "book.steady --chapter=77", "pytest --chapter=77"):
        done = subprocess.run(
            [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode and "There is no chapter 77: there are 00, 01" in done.stderr


def test_one_chapter_can_be_tested_alone():
    command = [sys.executable, "-m", "pytest", "--chapter=01", "--collect-only", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert all("01_measurement" in line for line in collected)
    assert {line.partition("::")[0] for line in collected} >= {
        "notebooks/01_measurement.ipynb",
        "tests/test_chapters.py",
        "tests/test_sabotage.py",
    }


def test_neighbours_keep_every_core_busy_and_are_gone_afterwards():
    here = psutil.Process()
    before = set(here.children())
    with neighbours(seed=3):
        started = [process for process in here.children() if process not in before]
        time.sleep(6)
        busy = [sum(process.cpu_times()[:2]) for process in started]
    assert len(started) == machine.usable_cores() and min(busy) > 0.3
    assert not any(process.is_running() for process in started)


def test_the_steady_table_counts_verdicts_and_finds_the_smallest_margin():
    def seen(claim, word, margin, evidence):
        return {"claim": claim, "word": word, "margin": margin, "evidence": evidence}

    runs = [
        {"claims": [seen("fast", "True", 3.0, "30x"), seen("same", "True", None, "")], "loaded": False, "seconds": 2.0},
        {"claims": [seen("fast", "cannot tell", 0.9, "11x")], "loaded": True, "seconds": 4.0},
    ]
    table = steady.table({"01_measurement": [{**run, "errors": []} for run in runs]})
    assert "| fast | 2 | 1 | 1 | 1 | 0 | 0.9x | 11x |" in table and "| same |" not in table
    chapter = (
        "| **01_measurement**, 2 s quiet and 4 s beside neighbours | 2 | 1 | 2 | 1 | 0 |  | 2 claims, 1 of them exact |"
    )
    assert chapter in table


@pytest.mark.parametrize(
    ("claims", "errors", "fine"),
    [
        ([{"claim": "a", "word": "True"}, {"claim": "b", "word": "True"}], [], True),
        ([{"claim": "a", "word": "True"}, {"claim": "b", "word": "cannot tell"}], [], False),
        ([{"claim": "a", "word": "True"}, {"claim": "b", "word": "True"}], ["ValueError: no"], False),
        ([{"claim": "a", "word": "True"}], [], False),  # b was never made
        ([], [], False),
    ],
)
def test_a_pass_holds_only_if_every_claim_was_true(claims, errors, fine):
    assert steady.held({"claims": claims, "errors": errors}, ["a", "b"]) == fine


def test_a_neighbour_that_ends_early_is_noticed():
    with pytest.raises(RuntimeError, match="ended early"), neighbours():
        for process in psutil.Process().children():
            if "book.neighbours" in process.cmdline():
                process.kill()
                process.wait()


@pytest.mark.parametrize("runs", ["0", "-1", "many"])
def test_no_number_of_passes_is_a_sentence(runs):
    command = [sys.executable, "-m", "book.steady", f"--runs={runs}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is no number of passes: ask for at least 1." in done.stderr


@pytest.fixture
def read_only(tmp_path):
    """A folder that this process may not write to; root, who always may, becomes nobody for the time."""
    folder = tmp_path / "read only"
    folder.mkdir()
    for parent in (folder, *folder.parents[:-1]):
        if os.stat(parent).st_uid == os.geteuid():
            parent.chmod(0o755)
    folder.chmod(0o555)
    if os.geteuid():
        yield folder
    else:
        os.seteuid(65534)
        yield folder
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no user to become")
def test_a_folder_that_cannot_be_written_to_is_a_sentence_and_the_book_opens_all_the_same(read_only, tmp_path):
    assert f"You may not write to {read_only}: the chapters run, but changes are lost." in lab.unsaved(read_only)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no user to become")
def test_a_refresh_that_cannot_be_stored_is_a_sentence(read_only, monkeypatch):
    chapter = Chapter("specimen", read_only)
    monkeypatch.setattr(refresh, "find_chapters", lambda asked: [chapter])
    monkeypatch.setattr(Chapter, "text", property(lambda chapter: ROOT / "notebooks" / "text" / "00_start_here.py"))
    monkeypatch.setattr(refresh, "run", lambda notebook, folder: notebook)
    said = refresh.main(["00"])
    assert said.startswith("specimen is not stored: ") and "Permission denied" in said and "\n" not in said


def test_a_folder_of_ones_own_needs_no_warning(tmp_path):
    assert lab.unsaved(tmp_path) is None
