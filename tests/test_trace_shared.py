"""The reader on traces that others recorded, and on files with faults that people really met."""

import json
import os
from pathlib import Path

import pytest

from book.chapters import ROOT
from steptime.trace import NotATrace, read
from steptime.trace.summary import summary

SHARED = Path(os.environ.get("STEPTIME_SHARED", ROOT.parent / "shared")) / "traces"

pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared traces are not here (STEPTIME_SHARED names them)"
)

TRUTHS = sorted((SHARED / "real").glob("*.truth.json"))


def close(expected):
    """To 0.1 %, and to the last digit that the truth is written with."""
    return pytest.approx(expected, rel=1e-3, abs=6e-4)


@pytest.fixture(scope="module", params=TRUTHS, ids=lambda path: path.name.removesuffix(".truth.json"))
def recorded(request):
    """(the truth, the answers) of one real trace."""
    truth = json.loads(request.param.read_text(encoding="utf-8"))
    return truth, summary(read(request.param.with_name(request.param.name.replace(".truth.json", ".json.gz"))))


def test_steps_and_span(recorded):
    truth, answers = recorded
    assert answers["steps_ms"] == close([step["ms"] for step in truth["steps"]])
    assert answers["span_ms"] == close(truth["span_ms"])
    assert answers["health"]["truncated"] is None and not answers["health"]["skipped"]


def test_busy_and_idle_of_each_device_and_step(recorded):
    truth, answers = recorded
    if not truth["devices"]:
        assert answers["devices"] is None and "no GPU event" in answers["reasons"]["devices"]
        return
    assert answers["devices"].keys() == truth["devices"].keys()
    for device, told in truth["devices"].items():
        assert answers["devices"][device]["busy_ms"] == close(told["busy_in_span_ms"])
        assert answers["devices"][device]["idle"] == close(told["idle_fraction"])
        for content, step in zip(answers["step_contents"], told["per_step"], strict=True):
            assert content["busy_ms"][device] == close(step["busy_ms"]) and content["kernels"] == step["kernels"]


def test_kernels_launches_and_copies(recorded):
    truth, answers = recorded
    if not truth["kernels"]:
        assert answers["kernels"] is answers["copies_ms"] is answers["launch_latency_us"] is None
        return
    assert answers["kernels"] == truth["kernels"]
    assert answers["kernel_median_us"] == close(truth["kernel_us"]["median"])
    for (name, ms, calls), top in zip(answers["top_kernels"], truth["top_kernels"], strict=False):
        assert name.startswith(top["name"]) and ms == close(top["total_ms"]) and calls == top["calls"]
    assert answers["launch_calls"] == truth["launch_calls"]
    latency = truth["launch_latency_us"]
    assert answers["launch_latency_us"]["median"] == close(latency["median"])
    assert answers["launch_latency_us"]["negative"] == latency["negative"]
    assert answers["launch_latency_us"]["launched_before_window"] == latency["kernels_without_launch"]
    assert answers["copies_ms"] == {kind: close(copies["ms"]) for kind, copies in truth["memcpy"].items()}
    for kind, copies in truth["memcpy"].items():
        told = answers["copies"][kind]
        assert (told["count"], told["bytes"] or 0) == (copies["n"], copies["bytes"])


def test_the_largest_gap_and_what_the_cpu_did(recorded):
    truth, answers = recorded
    gaps = [gap for device in truth["devices"].values() for gap in device["largest_gap"] if gap["which"] == "any"]
    if not gaps:
        assert answers["largest_gap_ms"] is answers["largest_gap_cpu"] is None
        return
    largest = max(gaps, key=lambda gap: gap["ms"])
    assert answers["largest_gap_ms"] == close(largest["ms"])
    deepest = largest["threads"][0]["deepest_op"]
    assert answers["largest_gap_cpu"] == deepest.partition(":")[2]


def test_waiting_and_memory(recorded):
    truth, answers = recorded
    wait = truth.get("dataloader_next")
    assert answers["data_wait_share"] == (close(wait["share_of_span"]) if wait else None)
    told = [each for name, each in truth.get("memory_events", {}).items() if name.startswith("type1")]
    if not told or told[0]["reserved_max"] is None:
        assert answers["memory"] is None and answers["reasons"]["memory"]
    else:
        assert answers["memory"]["reserved_max"] == told[0]["reserved_max"]
        assert answers["memory"]["drops"] == told[0]["reserved_drops"]


def odd(name):
    return read(SHARED / "odd" / f"{name}.json")


def test_01_windows_backslash():
    trace = odd("01-windows-backslash")
    assert len(trace.spans) == 2 and [step.ms for step in trace.steps] == [0.1]
    assert trace.health.repaired == {"unescaped backslashes": 2}
    assert r"my_env\Lib\toy\net.py(12): forward" in trace.names


def test_02_inf_bandwidth():
    copies = odd("02-inf-bandwidth").copies["HtoD"]
    assert (copies.count, copies.ms, copies.bytes) == (2, pytest.approx(0.004), 4352)


def test_03_raw_newline_in_name():
    trace = odd("03-raw-newline-in-name")
    assert len(trace.spans) == 2 and "control characters" in trace.health.repaired


def test_05_truncated():
    trace = odd("05-truncated")
    assert sorted(trace.names) == ["ProfilerStep#1", "aten::mm", "aten::relu", "cudaLaunchKernel", "toy_gemm"]
    assert trace.health.truncated == {"byte": 769, "events": 5} and len(trace.steps) == 1
    assert "the last step may be cut" in repr(trace)


def test_06_bare_list_legacy():
    trace = odd("06-bare-list-legacy")
    (operator,) = trace.operators
    assert (operator.name, operator.calls, operator.total_us) == ("aten::mul", 2, 61)
    assert (trace.kernels.count, trace.kernels.total_ms) == (1, pytest.approx(0.009))
    assert trace.steps is None and trace.launch_latency is None
    assert "no ProfilerStep" in repr(trace) and "no correlation" in repr(trace)


def test_09_ts_zero_kernels():
    trace = odd("09-ts-zero-kernels")
    assert trace.health.skipped == {"GPU events without a time stamp": 1}
    assert trace.span.ms == 1 and trace.busy["0"].busy_ms == 0.3 and trace.busy["0"].idle == pytest.approx(0.7)


def test_10_epoch_float_us_displayunit_ns():
    trace = odd("10-epoch-float-us-displayunit-ns")
    assert trace.steps[0].ms == 1.50025 and trace.kernels.total_ms == 0.600375
    assert trace.launch_latency.median_us == 10.75


def test_13_launches_without_kernels():
    trace = odd("13-launches-without-kernels")
    assert trace.launch_calls == {"cudaLaunchKernel": 5}
    assert trace.busy is trace.kernels is trace.gaps is None
    assert "the GPU side was not recorded" in repr(trace) and "100" not in repr(trace)


def test_14_kernels_without_launch():
    trace = odd("14-kernels-without-launch")
    assert trace.busy["0"].busy_ms == 0.4 and trace.busy["0"].idle == pytest.approx(0.6)
    latency = trace.launch_latency
    assert (latency.matched, latency.median_us, latency.unmatched) == (1, 20, 1)
    assert [content.busy_ms["0"] for content in trace.step_contents] == pytest.approx([0.38, 0.02])
    assert "launched before the window: 1 of 2 kernels" in repr(trace)


def test_16_child_outlives_parent():
    trace = odd("16-child-outlives-parent")
    totals = {operator.name: operator.total_us for operator in trace.operators}
    assert totals == {"aten::_local_scalar_dense": 448, "my_block": 260, "aten::add": 20, "ProfilerStep*": 400}
    assert sum(operator.self_us for operator in trace.operators) == 510
    assert min(operator.self_us for operator in trace.operators) >= 0
    assert "3 crossings" in repr(trace)


def test_18_cpu_only():
    trace = odd("18-cpu-only")
    assert [step.ms for step in trace.steps] == [1, 0.6]
    rows = {operator.name: (operator.calls, operator.total_us, operator.self_us) for operator in trace.operators}
    assert rows["aten::linear"] == (2, 790, 40) and rows["aten::addmm"] == (2, 750, 750)
    answers = summary(trace)
    for key in (
        "devices",
        "kernels",
        "kernel_median_us",
        "top_kernels",
        "copies_ms",
        "launch_latency_us",
        "largest_gap_ms",
    ):
        assert answers[key] is None and answers["reasons"][key]


def test_20_dataloader_workers():
    trace = odd("20-dataloader-workers")
    assert trace.data_wait.share == pytest.approx(710 / 1200) and trace.data_wait.each_ms == (0.7, 0.01)
    assert "what they do is not in this trace" in repr(trace)


def test_22_cuda_graph_one_to_many():
    trace = odd("22-cuda-graph-one-to-many")
    assert trace.kernels.count == 20 and trace.kernels.median_us == 9 and trace.kernels_per_launch == 20
    assert trace.launch_calls == {"cudaGraphLaunch": 1} and trace.busy["0"].busy_ms == pytest.approx(0.18)
    assert trace.launch_latency.matched == 20


def test_23_memory_oscillation():
    memory = odd("23-memory-oscillation").memory["0"]
    assert len(memory.reserved) == 7
    assert (memory.reserved_max, memory.drops, memory.allocated_max) == (4096, 2, 3100)


def test_24_empty():
    with pytest.raises(NotATrace, match="is empty: the profiler was stopped before writing"):
        odd("24-empty")


def test_26_overlapping_streams():
    trace = odd("26-overlapping-streams")
    assert {d: (b.busy_ms, round(b.idle, 9)) for d, b in trace.busy.items()} == {"0": (0.7, 0.3), "1": (0.1, 0.9)}
    overlap = trace.overlap["0"]
    assert overlap.communication_ms == 0.5 and overlap.communication_hidden_ms == pytest.approx(0.2)
