"""`python -m steptime trace FILE`: a page, one JSON object, a picture, or one sentence."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from book.chapters import ROOT
from steptime.__main__ import main
from steptime.trace import read
from tests.traces.write import document, training

RECORDED = ROOT / "tests" / "traces" / "cpu.json.gz"


def command(*arguments, **environment):
    """Run it as a reader does."""
    words = [sys.executable, "-m", "steptime", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, cwd=ROOT / "src", env=os.environ | environment, check=False)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(document(*training()), encoding="utf-8")
    return path


def test_a_page_in_under_a_second_without_torch(tmp_path):
    large = tmp_path / "large.json"
    events = training() * 300
    large.write_text(document(*events), encoding="utf-8")
    assert large.stat().st_size > 1_000_000
    before = os.times()
    done = command("trace", large)
    after = os.times()
    assert done.returncode == 0 and b"Kernels: 1,200" in done.stdout
    computed = after.children_user + after.children_system - before.children_user - before.children_system
    assert 0 <= computed < 1  # not on the clock on the wall: neighbours would have a say
    loads = "import sys; from steptime.__main__ import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", loads, "trace", str(large)], capture_output=True, check=True)
    assert b"steptime.trace" in told.stderr and not {b"torch", b"matplotlib"} & set(told.stderr.split())


def test_json_is_one_object_with_every_key(file, capsys):
    assert main(["trace", str(file), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert answers["steps_ms"] == [1, 1] and answers["devices"]["0"]["idle"] == pytest.approx(0.65)
    assert answers["largest_gap_cpu"].startswith("enumerate(DataLoader)")
    wanted = """format health steps_ms span_ms devices kernels kernel_median_us top_kernels copies_ms launch_calls
        kernels_per_launch launch_latency_us largest_gap_ms largest_gap_cpu data_wait_share memory operators"""
    assert set(wanted.split()) <= answers.keys()
    assert {"repaired", "skipped", "truncated", "notes"} <= answers["health"].keys()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trace", "none.json"], "none.json cannot be read: No such file or directory."),
        (["trace", "none.json", "--json"], "none.json cannot be read: No such file or directory."),
        (["trace"], "python -m steptime trace: the following arguments are required: FILE (-h lists what it takes)"),
        (["trace", "x", "--step", "two"], "'two' is no step: write a number, or a range as 3-5"),
        (["trace", RECORDED, "--plot", "x.png", "--step", "99"], "has no such step: its steps are 2 to 4."),
        (["trace", RECORDED, "--plot", "no/such/folder/x.png"], "cannot be written: No such file or directory."),
        (["trace", RECORDED, "--plot", "x.unheard"], "unheard"),
        (["trace", RECORDED, "--step", "2"], "--step chooses what --plot draws"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr(arguments, sentence):
    done = command(*arguments)
    assert done.returncode == 2 and not done.stdout
    assert sentence in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_terminal_that_lacks_characters_and_a_reader_that_leaves(file):
    text = file.read_text(encoding="utf-8").replace("gemm", r"g\ud800\u001b[31mmm\u00fc")
    file.write_text(text, encoding="utf-8")
    done = command("trace", file, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and b"\x1b" not in done.stdout and not done.stderr
    line = f"{shlex.quote(sys.executable)} -m steptime trace {shlex.quote(str(file))} | head -1"
    left = subprocess.run(line, shell=True, capture_output=True, cwd=ROOT / "src", check=False)
    assert left.stdout.count(b"\n") == 1 and not left.stderr


def test_the_timeline_is_drawn_with_its_lanes_gaps_and_steps(file, tmp_path):
    picture = read(file).plot(3, 4)
    axes = picture.figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["thread 7", "GPU 0 stream 7"]
    assert axes.get_xlabel() == "ms from the start of steps 3 to 4" and axes.get_xlim() == (0, 2)
    words = {text.get_text() for text in axes.texts}
    assert {"step 3", "step 4", "gemm"} <= words
    assert "2 lanes, 3 gaps shaded" in picture.alt and "<img alt=" in picture._repr_html_()
    assert main(["trace", str(file), "--plot", str(tmp_path / "x.png"), "--step", "3"]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_nesting_is_drawn_one_row_below_the_other(file):
    collections = read(file).plot(3).figure.axes[0].collections
    rows = {round(float(path.get_extents().y0), 2) for bars in collections for path in bars.get_paths()}
    assert len(rows) >= 5  # step, label or operator, call; shade and bars of the stream


@pytest.mark.parametrize("name", ["$x_1$ and $\\bad$", "\u6838 \U0001f600", "", "a\nb"])
@pytest.mark.filterwarnings("error")
def test_any_name_can_be_drawn(file, tmp_path, name):
    file.write_text(document(*[event | {"name": name} for event in training()]), encoding="utf-8")
    assert main(["trace", str(file), "--plot", str(tmp_path / "x.png")]) == 0
