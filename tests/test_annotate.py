"""One label, seen by what records, and free where nothing does."""

import json
import subprocess
import sys
import timeit

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from steptime import annotate
from steptime.recorder import Recorder


def labels_of(recorder, path):
    recorder.export_chrome_trace(path)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event["name"] for event in events if event.get("cat") == "user_annotation"]


def profiled(run):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    return {event.key: event.count for event in profiler.key_averages()}


def nested():
    with annotate("attention"):
        for _ in range(3):
            with annotate("softmax"):
                torch.ones(2).softmax(0)


def test_the_profiler_sees_a_label():
    counts = profiled(nested)
    assert (counts["attention"], counts["softmax"], counts["aten::softmax"]) == (1, 3, 3)


def test_a_recorder_sees_the_same_label(tmp_path):
    with Recorder() as recorder:
        nested()
    assert labels_of(recorder, tmp_path / "trace.json") == ["attention", "softmax", "softmax", "softmax"]


def test_both_see_it_at_once(tmp_path):
    with Recorder() as recorder:
        counts = profiled(nested)
    assert counts["softmax"] == labels_of(recorder, tmp_path / "trace.json").count("softmax") == 3


def test_a_decorated_function_is_labelled_at_every_call_and_keeps_its_name(tmp_path):
    @annotate("count down")
    def count_down(number, *, by=1):
        return count_down(number - by) if number > 0 else number

    assert count_down.__name__ == "count_down" and count_down(2, by=2) == 0
    with Recorder() as recorder:
        count_down(2)
    assert labels_of(recorder, tmp_path / "trace.json") == ["count down"] * 3


def test_an_error_passes_through_and_ends_the_label(tmp_path):
    with Recorder() as recorder:
        with pytest.raises(KeyError, match="weights"), annotate("broken"):
            raise KeyError("weights")
        with annotate("next"):
            pass
    assert labels_of(recorder, tmp_path / "trace.json") == ["broken", "next"]


def test_a_label_is_a_text():
    with pytest.raises(TypeError, match="needs a text to show, got a function"):
        annotate(nested)


def test_it_costs_less_than_a_microsecond_where_nothing_records():
    program = "with annotate('step'): pass"
    times = timeit.repeat(program, globals={"annotate": annotate}, number=2_000, repeat=50)
    assert min(times) / 2_000 < 1e-6  # half of that where it was measured


def test_it_does_not_import_torch():
    program = "import sys; from steptime import annotate\nwith annotate('x'): print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.skipif(torch.version.cuda is None, reason="torch was built without CUDA, so without NVTX")
def test_nvtx_ranges_nest_and_end():
    depth = torch.cuda.nvtx.range_push("depth now")
    torch.cuda.nvtx.range_pop()
    with annotate("outer"):
        assert torch.cuda.nvtx.range_push("inner") == depth + 1
        torch.cuda.nvtx.range_pop()
    assert torch.cuda.nvtx.range_push("after") == depth
    torch.cuda.nvtx.range_pop()
