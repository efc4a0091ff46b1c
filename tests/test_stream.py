"""The queue that stands in for a CUDA stream: real threads, real work, real time."""

import gc
import os
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

from steptime import bench
from steptime.stream import DEPTH, Event, Stream, synchronize


@pytest.fixture
def stream():
    with Stream() as stream:
        yield stream


@pytest.fixture
def restless():
    """Threads take turns as often as they can, so that more of their orders come up."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "steptime stream"]


def gone(seconds=5):
    """Whether all streams' threads end within that time."""
    end = time.perf_counter() + seconds
    while threads() and time.perf_counter() < end:
        time.sleep(0.01)
    return not threads()


def fail():
    raise KeyError("weights")


def run(program, **options):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, **options)


def test_work_runs_in_the_order_it_was_launched(stream):
    came = []
    for number in range(100):
        stream.launch(came.append, number)
    stream.synchronize()
    assert came == list(range(100))


def test_a_launch_returns_before_the_work_is_done_and_synchronize_after(stream):
    done = []
    start = time.perf_counter()
    assert stream.launch(lambda: (time.sleep(0.3), done.append(1))) is None
    launched = time.perf_counter() - start
    assert launched < 0.1 and not done
    stream.synchronize()
    assert done and time.perf_counter() - start >= 0.3


def test_the_caller_goes_on_while_the_work_runs(stream):
    start = time.perf_counter()
    stream.launch(time.sleep, 0.5)
    time.sleep(0.5)
    stream.synchronize()
    assert time.perf_counter() - start < 0.9


def test_numpy_lets_the_caller_go_on(stream):
    numbers = np.random.default_rng(0).random((700, 700))
    out, turns = np.empty_like(numbers), 0
    here = Event()
    for _ in range(10):
        stream.launch(np.matmul, numbers, numbers, out)
    here.record(stream)
    while not here.query():  # the switch interval alone would let the caller in once for each piece of work
        turns += 1
    assert turns > 1_000
    np.testing.assert_allclose(out, numbers @ numbers)


def test_a_launch_costs_microseconds(stream):
    stream.launch(time.sleep, 0.2)
    costs = []
    for _ in range(500):
        start = time.perf_counter()
        stream.launch(int)
        costs.append(time.perf_counter() - start)
    assert sorted(costs)[250] < 50e-6  # 1 to 3 where it was measured


def test_a_full_queue_makes_the_launch_wait(stream):
    gate = threading.Event()
    stream.launch(gate.wait)
    for _ in range(DEPTH - 1):
        stream.launch(int)
    threading.Timer(0.3, gate.set).start()
    start = time.perf_counter()
    stream.launch(int)
    assert time.perf_counter() - start > 0.2


def test_events_time_the_work_between_them_in_milliseconds(stream):
    start, end = Event(), Event()
    stream.launch(time.sleep, 0.1)
    start.record(stream)
    stream.launch(time.sleep, 0.2)
    end.record(stream)
    end.synchronize()
    assert 200 <= start.elapsed_time(end) < 290
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_an_event_waits_for_no_later_work(stream):
    event, gate = Event(), threading.Event()
    event.record(stream)
    stream.launch(gate.wait)
    event.synchronize()
    assert event.query()
    gate.set()


def test_an_event_that_is_not_reached_says_so_and_has_no_time(stream):
    start, end, gate = Event(), Event(), threading.Event()
    start.record(stream)
    stream.launch(gate.wait)
    end.record(stream)
    assert not end.query()
    with pytest.raises(RuntimeError, match="must be recorded and reached"):
        start.elapsed_time(end)
    gate.set()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def test_an_event_that_was_never_recorded_is_nothing_to_wait_for():
    event = Event()
    event.synchronize()
    assert event.query()
    with pytest.raises(RuntimeError, match="must be recorded"):
        event.elapsed_time(event)


def test_an_event_recorded_again_forgets_its_first_place(stream):
    start, event, gate = Event(), Event(), threading.Event()
    start.record(stream)
    stream.launch(gate.wait)
    event.record(stream)
    stream.launch(time.sleep, 0.2)
    event.record(stream)
    gate.set()
    event.synchronize()
    assert start.elapsed_time(event) >= 200


def test_an_exception_surfaces_at_the_next_synchronize_once_with_its_own_traceback(stream):
    stream.launch(fail)
    stream.launch(int)  # a launch does not raise
    with pytest.raises(RuntimeError, match="fail, launched on a stream, raised KeyError: 'weights'") as raised:
        stream.synchronize()
    assert traceback.extract_tb(raised.value.__cause__.__traceback__)[-1].name == "fail"
    stream.synchronize()


def test_work_after_a_failure_is_skipped_until_that_is_reported(stream):
    came, event = [], Event()
    stream.launch(fail)
    stream.launch(came.append, "skipped")
    event.record(stream)
    stream.launch(came.append, "skipped too")
    with pytest.raises(RuntimeError, match="fail, launched"):
        event.synchronize()
    stream.launch(came.append, "done")
    stream.synchronize()
    assert came == ["done"]
    assert event.query()
    with pytest.raises(RuntimeError, match="must be recorded and reached"):
        event.elapsed_time(event)


def test_a_failure_reported_early_still_spoils_all_that_was_launched_after_it(stream, restless):
    came = []
    for _ in range(20):
        event = Event()
        event.record(stream)
        stream.launch(fail)
        for number in range(500):
            stream.launch(came.append, number)
        with pytest.raises(RuntimeError, match="fail, launched"):
            while True:  # the event is reached before the failure, so one wait for it may be too early to hear of it
                event.synchronize()
    stream.synchronize()
    assert not came


def test_leaving_the_block_finishes_the_work_and_the_thread():
    came = []
    with Stream() as stream:
        stream.launch(time.sleep, 0.1)
        stream.launch(came.append, 1)
        assert threads()
    assert came == [1] and not threads()


def test_a_failure_surfaces_where_the_block_ends_and_no_thread_is_left():
    with pytest.raises(RuntimeError, match="fail, launched"), Stream() as stream:
        stream.launch(fail)
    assert not threads()


def test_an_exception_in_the_block_drops_what_is_queued_and_leaves_no_thread():
    came, gate = [], threading.Event()
    with pytest.raises(ZeroDivisionError), Stream() as stream:
        stream.launch(gate.wait)
        stream.launch(came.append, 1)
        threading.Timer(0.1, gate.set).start()
        _ = 1 / 0
    assert not came and not threads()


def test_a_closed_stream_takes_no_work_and_may_be_closed_again():
    stream = Stream()
    stream.close()
    stream.close()
    stream.synchronize()
    with pytest.raises(RuntimeError, match=r"This stream is closed.*: no more work can be launched on it"):
        stream.launch(int)
    with pytest.raises(RuntimeError, match="This stream is closed"):
        Event().record(stream)


def test_work_on_a_stream_that_is_being_closed_can_launch_no_more():
    told, gate = [], threading.Event()

    def late():
        gate.wait()
        try:
            stream.launch(int)
        except RuntimeError as error:
            told.append(str(error))

    with pytest.raises(ZeroDivisionError), Stream() as stream:
        stream.launch(late)
        threading.Timer(0.1, gate.set).start()
        _ = 1 / 0
    assert len(told) == 1 and "no more work can be launched" in told[0]


def test_a_forgotten_stream_finishes_its_work_and_its_thread():
    came = []
    stream = Stream()
    stream.launch(time.sleep, 0.1)
    stream.launch(came.append, 1)
    del stream
    gc.collect()
    assert gone() and came == [1]


def test_a_forgotten_failure_is_printed():
    program = "from steptime.stream import Stream; stream = Stream(); stream.launch(int, 'x'); del stream"
    done = run(program + "; import time; time.sleep(0.5)")
    assert "ValueError: invalid literal for int()" in done.stderr


@pytest.mark.parametrize(
    ("work", "limit"),
    [("[stream.launch(time.sleep, 0.1) for _ in range(1000)]", 10), ("stream.launch(time.sleep, 99)", 15)],
)
def test_python_exits_while_a_stream_works(work, limit):
    start = time.perf_counter()
    done = run(f"import time; from steptime.stream import Stream; stream = Stream(); {work}; print('end')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert time.perf_counter() - start < limit


def test_python_exits_in_the_midst_of_torch():
    program = (
        "import torch; from steptime.stream import Stream\n"
        "x, stream = torch.ones(300, 300), Stream()\n"
        "for _ in range(1000): stream.launch(torch.mm, x, x)\n"
    )
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("wait", ["stream.synchronize()", "stream.close()"])
def test_ctrl_c_ends_the_waiting(wait):
    program = (
        "import _thread, threading, time\n"
        "from steptime.stream import Stream\n"
        "with Stream() as stream:\n"
        "    for _ in range(100): stream.launch(time.sleep, 1)\n"
        "    threading.Timer(0.3, _thread.interrupt_main).start()\n"
        f"    {wait}\n"
    )
    start = time.perf_counter()
    done = run(program)
    assert "KeyboardInterrupt" in done.stderr and time.perf_counter() - start < 20


@pytest.mark.parametrize("ask", [Stream.synchronize, Stream.close, lambda stream: synchronize()])
def test_work_that_waits_for_its_own_stream_is_a_sentence(ask, stream):
    stream.launch(ask, stream)
    with pytest.raises(RuntimeError, match="Work on a stream cannot wait for that stream"):
        stream.synchronize()
    stream.launch(int)
    stream.synchronize()


def test_work_may_launch_work_until_the_queue_is_full(stream):
    came = []
    stream.launch(lambda: stream.launch(came.append, 1))
    stream.synchronize()
    stream.synchronize()
    assert came == [1]

    def flood():
        for _ in range(DEPTH + 1):
            stream.launch(int)

    stream.launch(flood)
    with pytest.raises(RuntimeError, match="cannot wait for that stream"):
        stream.synchronize()


def test_what_is_no_function_is_a_sentence(stream):
    with pytest.raises(TypeError, match="got a int: pass it without calling it"):
        stream.launch(3)


def test_an_idle_stream_keeps_no_buffer_alive(stream):
    class Buffer:
        alive = 0

        def __init__(self):
            Buffer.alive += 1

        def __del__(self):
            Buffer.alive -= 1

    stream.launch(id, Buffer())
    stream.synchronize()
    assert Buffer.alive == 0


@pytest.mark.parametrize("seconds", [(0, 0.2), (0.2, 0)])
def test_all_streams_can_be_waited_for(seconds):
    came = []
    with Stream() as first, Stream() as second:
        for stream, each in zip((first, second), seconds, strict=True):
            stream.launch(time.sleep, each)
            stream.launch(came.append, each)
        synchronize()
        assert len(came) == 2


def test_bench_waits_for_what_a_function_launches(stream):
    assert bench(stream.launch, time.sleep, 0.02, seconds=0.2).median >= 0.02


def test_bench_tells_of_a_failure_on_a_stream(stream):
    with pytest.raises(RuntimeError, match="fail, launched on a stream, raised KeyError"):
        bench(stream.launch, fail)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_stream_of_the_parent_process_is_a_sentence_in_a_forked_one():
    program = (
        "import os, time; from steptime.stream import Stream, synchronize\n"
        "stream = Stream(); stream.launch(time.sleep, 1)\n"
        "if os.fork():\n"
        "    stream.close(); os.wait()\n"
        "else:\n"
        "    synchronize()\n"
        "    for act in (stream.synchronize, lambda: stream.launch(int)):\n"
        "        try: act()\n"
        "        except RuntimeError as error: print(error)\n"
    )
    told = run(program).stdout.splitlines()
    assert len(told) == 2 and all("the process that this one was forked from" in line for line in told)
