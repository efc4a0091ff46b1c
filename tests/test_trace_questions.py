"""The questions, on small traces whose answers follow from their definitions."""

import pytest

from steptime.trace import read
from steptime.trace.intervals import between, shared, union
from steptime.trace.operators import self_times
from steptime.trace.summary import summary
from tests.traces.write import document, launched, on_device, span, step, training


@pytest.fixture
def asks(tmp_path):
    """The Trace of some events."""

    def ask(*events):
        path = tmp_path / "trace.json"
        path.write_text(document(*events), encoding="utf-8")
        return read(path)

    return ask


def test_a_training_loop(asks):
    trace = asks(*training())
    assert [(s.number, s.ms) for s in trace.steps] == [(3, 1), (4, 1)] and trace.span.ms == 2
    assert trace.busy["0"].busy_ms == pytest.approx(0.7) and trace.busy["0"].idle == pytest.approx(0.65)
    assert trace.data_wait.share == pytest.approx(0.4)
    assert (trace.kernels.count, trace.kernels.median_us) == (4, 150)
    assert trace.kernels.by_name == (("gemm", pytest.approx(0.4), 2), ("relu", pytest.approx(0.2), 2))
    assert sum(trace.kernels.histogram) == 4 and trace.kernels.histogram[trace.kernels.edges.index(200)] == 2
    assert trace.launch_calls == {"cudaLaunchKernel": 4} and trace.kernels_per_launch == 1
    assert trace.launch_latency.median_us == pytest.approx((20 + 185) / 2)
    assert trace.copies["HtoD"].ms == pytest.approx(0.1) and trace.copies["HtoD"].bytes == 8192
    first = trace.step_contents[0]
    assert (first.kernels, first.copies_ms, first.wait_ms) == (2, 0.05, 0.4) and first.busy_ms["0"] == 0.35


def test_gaps_are_ranked_and_explained(asks):
    between_steps, start, end = asks(*training()).gaps
    assert [between_steps.ms, start.ms, end.ms] == pytest.approx([0.65, 0.45, 0.2])
    assert "DataLoader" in between_steps.cpu and "DataLoader" in between_steps.cause
    assert (
        start.at_edge
        and not between_steps.at_edge
        and end.cause == "the device had finished: nothing more was launched"
    )


def test_a_gap_after_the_cpu_waited_is_synchronisation(asks):
    events = [
        step(1, 0, 1000),
        *launched(1, "cudaLaunchKernel", 0, "k", 10, 100),
        span("cuda_runtime", "cudaDeviceSynchronize", 20, 100),
        span("cpu_op", "aten::mm", 300, 200),
        *launched(2, "cudaLaunchKernel", 490, "k", 500, 500),
    ]
    gap = asks(*events).gaps[0]
    assert (gap.start, gap.ms, gap.cpu) == (110, 0.39, "aten::mm") and "cudaDeviceSynchronize" in gap.cause


def test_a_long_call_in_the_first_step_is_a_first_call(asks):
    slow = span("cuda_runtime", "cudaLaunchKernel", 100, 800, correlation=1)
    trace = asks(step(1, 0, 1000), slow, on_device("kernel", "k", 910, 50, correlation=1))
    assert "probably a first call: one cudaLaunchKernel took 0.8 ms" in trace.gaps[0].cause


def test_a_gap_without_any_call_is_perhaps_python(asks):
    python = span("python_function", "train.py(3): augment", 100, 700)
    trace = asks(step(1, 0, 1000), python, *launched(1, "cudaLaunchKernel", 900, "k", 905, 50))
    assert trace.gaps[0].cpu is None and trace.gaps[0].python == "train.py(3): augment"
    assert trace.gaps[0].cause.startswith("perhaps Python") or trace.gaps[0].cause.startswith("probably Python")
    assert summary(trace)["reasons"]["largest_gap_cpu"]


def test_what_the_cpu_did_is_looked_up_on_the_thread_that_launched_the_next_work(asks):
    other = span("cpu_op", "busy_elsewhere", 0, 1000, tid=8)
    backward = span("cpu_op", "MulBackward0", 100, 500, tid=9)
    trace = asks(step(1, 0, 1000), other, backward, *launched(1, "cudaLaunchKernel", 590, "k", 600, 400, thread=9))
    assert trace.gaps[0].cpu == "MulBackward0"


def test_a_step_mirrored_on_the_device_does_not_count_twice(asks):
    mirrored = [step(1, 50, 100, pid=0, tid=7), span("gpu_user_annotation", "ProfilerStep#1", 50, 100, pid=0, tid=7)]
    trace = asks(step(1, 0, 100), *launched(1, "cudaLaunchKernel", 5, "k", 60, 10), *mirrored)
    assert [s.ms for s in trace.steps] == [0.1] and trace.kernels.count == 1


def test_steps_of_several_processes_are_not_mixed(asks):
    one = [step(n, 100 * n, 100, pid=1) for n in range(3)]
    trace = asks(*one, *(step(n, 100 * n + 5, 100, pid=2) for n in range(2)))
    assert len(trace.steps) == 3 and "steps of 2 processes: those of process 1 are taken" in repr(trace)


def test_missing_and_overlapping_steps_are_said(asks):
    trace = asks(step(1, 0, 100), step(2, 80, 100), step(5, 200, 100))
    assert trace.span.ms == 0.3
    assert "begin before the one before has ended: 1" in repr(trace) and "not in the file: 2" in repr(trace)


def test_a_kernel_before_its_launch_is_counted_as_negative(asks):
    trace = asks(*launched(1, "cudaLaunchKernel", 50, "k", 40, 10), *launched(2, "cudaLaunchKernel", 60, "k", 90, 10))
    assert (trace.launch_latency.negative, trace.launch_latency.median_us) == (1, 10)
    assert "the clocks of CPU and GPU disagree" in repr(trace)


@pytest.mark.parametrize(
    "call", ["cuLaunchKernelEx", "hipExtModuleLaunchKernel", "hipGraphLaunch", "cudaLaunchCooperativeKernel"]
)
def test_every_maker_has_launch_calls_of_its_own(asks, call):
    trace = asks(*launched(1, call, 0, "k", 10, 5), span("cuda_runtime", "cudaLaunchHostFunc", 20, 1, correlation=9))
    assert trace.launch_calls == {call: 1} and trace.launch_latency.matched == 1


def test_a_correlation_that_comes_again_belongs_to_the_last_call_before(asks):
    trace = asks(*launched(1, "cudaLaunchKernel", 0, "k", 10, 5), *launched(1, "cudaLaunchKernel", 100, "k", 130, 5))
    assert trace.launch_latency.median_us == 20 and trace.kernels_per_launch == 1


def test_copies_hidden_under_compute(asks):
    copy = on_device("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 50, 100, stream=9)
    trace = asks(*launched(1, "cudaLaunchKernel", 0, "k", 10, 100), copy)
    assert trace.overlap["0"].copies_ms == 0.1 and trace.overlap["0"].copies_hidden_ms == pytest.approx(0.06)
    assert trace.copies["DtoH"].bytes is None and "size unknown" in repr(trace)


def test_memory_of_each_device_and_none_of_the_cpu(asks):
    def event(time, reserved, device=0, kind=1):
        told = {"Device Type": kind, "Device Id": device, "Total Reserved": reserved, "Total Allocated": reserved // 2}
        return {"ph": "i", "name": "[memory]", "pid": 7, "tid": 7, "ts": time, "args": told}

    events = [event(3, 50), event(1, 100), event(2, 200), event(1, 70, device=1), event(9, 999, device=-1, kind=0)]
    trace = asks(step(1, 0, 10), *events)
    assert (trace.memory["0"].reserved_max, trace.memory["0"].drops) == (200, 1)
    assert summary(trace)["memory"]["reserved_max"] == 200 and trace.memory["1"].drops == 0
    alone = asks(step(1, 0, 10), event(1, 5, device=-1, kind=0))
    assert alone.memory is None and "of the CPU alone" in alone.reasons["memory"]


def test_what_is_absent_is_none_with_a_reason(asks):
    answers = summary(asks(span("cpu_op", "aten::mm", 0, 5)))
    absent = {key for key, value in answers.items() if value is None}
    assert absent == answers["reasons"].keys() and all(answers["reasons"].values())
    assert {"steps_ms", "devices", "kernels", "copies_ms", "data_wait_share", "memory", "largest_gap_ms"} <= absent


def test_sets_of_intervals():
    from numpy import array

    start, end = union(array([5.0, 0, 1, 9, 7]), array([6.0, 2, 3, 9, 8]))
    assert start.tolist() == [0, 5, 7] and end.tolist() == [3, 6, 8]
    free = between(start, end, -1, 7.5)
    assert [side.tolist() for side in free] == [[-1, 3, 6], [0, 5, 7]]
    assert shared((start, end), (array([2.0]), array([5.5]))) == 1.5


@pytest.mark.parametrize(
    ("start", "end", "own", "crossings"),
    [
        ([0, 1, 5], [10, 4, 9], [3, 3, 4], 0),
        ([0, 0], [5, 5], [0, 5], 0),
        ([0, 10, 15], [100, 20, 50], [60, 5, 35], 1),
        ([0, 5, 20], [10, 12, 21], [5, 7, 1], 1),
    ],
    ids=["nested", "alike", "outlives its parent", "apart"],
)
def test_self_times_add_up_to_what_is_covered(start, end, own, crossings):
    assert self_times(start, end) == (own, crossings)
