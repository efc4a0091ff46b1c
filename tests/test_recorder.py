"""What streams are told and do, in torch.profiler's format."""

import json
import threading
import time
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from steptime import annotate, trace
from steptime.recorder import Recorder
from steptime.stream import Event, Stream


@pytest.fixture
def record(tmp_path):
    """The events of a run, those of one category; the run gets a stream and the recorder."""

    def record(run, category):
        with Recorder() as recorder, Stream() as stream:
            run(stream, recorder)
        recorder.export_chrome_trace(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
        return [event for event in events if event.get("cat") in category.split()]

    return record


def rest(seconds):
    time.sleep(seconds)


def test_work_stands_on_the_device_joined_to_its_launch(record):
    def run(stream, _):
        for _ in range(3):
            stream.launch(partial(rest, 0.01))

    events = record(run, "cuda_runtime kernel")
    launches = {e["args"]["correlation"]: e for e in events if e["name"] == "streamLaunch"}
    works = {e["args"]["correlation"]: e for e in events if e["cat"] == "kernel"}
    assert launches.keys() == works.keys() and len(works) == 3
    for correlation, work in works.items():
        assert (work["name"], work["pid"], work["args"]["device"]) == ("rest", 0, 0)
        assert work["dur"] >= 10_000 and work["tid"] == work["args"]["stream"]
        assert launches[correlation]["ts"] <= work["ts"]
        assert launches[correlation]["tid"] == threading.get_native_id()


def test_a_launch_is_short_and_waiting_is_as_long_as_the_work(record):
    def run(stream, _):
        stream.launch(rest, 0.2)
        stream.synchronize()

    launch, wait, *_ = record(run, "cuda_runtime")
    assert (launch["name"], wait["name"]) == ("streamLaunch", "streamSynchronize")
    assert launch["dur"] < 100_000 < 150_000 < wait["dur"]


def test_every_kind_of_waiting_is_named(record):
    def run(stream, _):
        event = Event()
        event.record(stream)
        event.synchronize()
        stream.synchronize()

    names = [event["name"] for event in record(run, "cuda_runtime")]
    assert names[:2] == ["eventSynchronize", "streamSynchronize"]  # then closing waits, and the recorder for all


@pytest.mark.parametrize("make", [np.ones, torch.ones], ids=["NumPy", "torch"])
def test_a_copy_is_told_from_other_work_with_its_bytes(record, make):
    source, into = make(1_000), 0 * make(1_500)
    [copy] = record(lambda stream, _: stream.copy(into[:1_000], source), "gpu_memcpy")
    assert copy["name"] == "Memcpy HtoD" and copy["args"]["bytes"] == source.nbytes
    assert into.sum() == 1_000


def test_a_copy_lets_the_caller_go_on():
    source, into, turns = torch.ones(20_000_000), torch.zeros(20_000_000), 0
    with Stream() as stream:
        here = Event()
        stream.copy(into, source)
        here.record(stream)
        while not here.query():
            turns += 1
    assert turns > 1_000 and into.sum() == 20_000_000


def test_what_is_no_array_is_not_copied():
    with Stream() as stream, pytest.raises(TypeError, match="copy needs an array or a tensor to copy from, got a list"):
        stream.copy(np.zeros(2), [1, 2])


def test_steps_follow_one_another(record):
    def run(_, recorder):
        for _ in range(3):
            rest(0.01)
            recorder.step()

    steps = record(run, "user_annotation")
    assert [step["name"] for step in steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert all(step["dur"] >= 10_000 for step in steps)
    assert all(0 <= later["ts"] - step["ts"] - step["dur"] < 5_000 for step, later in pairwise(steps))


def test_work_still_queued_at_the_end_is_recorded(tmp_path):
    with Stream() as stream:
        with Recorder() as recorder:
            stream.launch(rest, 0.1)
        recorder.export_chrome_trace(tmp_path / "trace.json")
        stream.launch(rest, 0)
    assert (tmp_path / "trace.json").read_text(encoding="utf-8").count('"rest"') == 1


def test_work_that_fails_is_recorded_and_reported(tmp_path):
    def fail():
        raise KeyError("weights")

    stream = Stream()
    with pytest.raises(RuntimeError, match="fail, launched on a stream, raised KeyError"), Recorder() as recorder:
        stream.launch(fail)
    recorder.export_chrome_trace(tmp_path / "trace.json")
    assert '"fail"' in (tmp_path / "trace.json").read_text(encoding="utf-8")
    with Recorder(), Stream() as another:  # the failed one has ended, and streams go on
        another.launch(rest, 0)


def test_one_recorder_records_at_a_time():
    with Recorder(), pytest.raises(RuntimeError, match="Another Recorder is recording"), Recorder():
        pass
    with Recorder():
        pass


def test_what_an_allocator_holds_is_read_back(tmp_path):
    with Recorder() as recorder:
        for held in (100, 200, 50):
            recorder.memory(held, held // 2)
        recorder.step()
    recorder.export_chrome_trace(tmp_path / "trace.json")
    memory = trace.read(tmp_path / "trace.json").memory["0"]
    assert (memory.reserved_max, memory.allocated_max, memory.drops) == (200, 100, 1)


def test_the_trace_reader_finds_steps_launches_copies_and_gaps(tmp_path):
    with Recorder() as recorder, Stream() as stream:
        for _ in range(2):
            with annotate("load"):
                rest(0.05)
            stream.copy(np.empty(1_000), np.ones(1_000))
            stream.launch(rest, 0.02)
            stream.synchronize()
            recorder.step()
    recorder.export_chrome_trace(tmp_path / "trace.json")
    seen = trace.read(tmp_path / "trace.json")
    assert [step.number for step in seen.steps] == [0, 1] and seen.kernels.by_name[0][0] == "rest"
    assert seen.launch_calls == {"streamLaunch": 4} and seen.kernels_per_launch == 1
    assert seen.copies["HtoD"].bytes == 16_000 and seen.gaps[0].cpu == "load"
    assert 0.5 < seen.busy["0"].idle < 0.9
