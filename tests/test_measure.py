"""The clock: first call apart, fast functions looped, the scheduler asked where it answers."""

import gc
import os
import subprocess
import sys
import threading
import time

import pytest

from steptime import bench, measure
from steptime.measure import SCHEDULER, SHORTEST, Sample, Stopwatch

needs_scheduler = pytest.mark.skipif(not SCHEDULER.exists(), reason="this system does not tell who waited for a core")


def test_the_first_call_is_kept_apart():
    table = []

    def lazy():
        if not table:
            time.sleep(0.05)
            table.append(1)

    sample = bench(lazy, seconds=0.1)
    assert sample.first > 0.05 and sample.median < 0.005


def test_a_sleep_is_measured_as_wall_time():
    sample = bench(time.sleep, 0.01, seconds=0.2)
    low, high = sample.spread
    assert 0.01 <= low <= sample.median <= high < 0.03 and sample.n == len(sample.times) >= 5 and sample.calls == 1


def test_a_fast_function_is_looped_and_the_loop_is_named():
    sample = bench(len, "abc", seconds=0.05)
    assert sample.calls * sample.median > SHORTEST / 3 and sample.calls > 100
    assert f"readings of {sample.calls:,} calls" in repr(sample)


def test_a_slow_function_is_read_once_at_least():
    assert bench(time.sleep, 0.05, seconds=0.001).n == 1


def test_the_quartiles_of_a_sample():
    sample = Sample(first=9.0, times=(1.0, 2.0, 3.0, 4.0, 100.0), calls=1)
    assert sample.median == 3 and sample.spread == (2, 4) and sample.n == 5
    assert repr(sample) == "3.00 s (middle half 2.00 s to 4.00 s, 5 readings) · first call 9.00 s"
    assert Sample(9.0, (1.0,), 1).spread == (1, 1)


def test_no_time_at_all_is_a_sentence():
    with pytest.raises(ValueError, match="seconds must be above 0, not 0"):
        bench(time.sleep, 0.01, seconds=0)


def test_a_function_that_prints_is_heard_once(capsys):
    bench(print, "hello", seconds=0.01)
    assert capsys.readouterr().out == "hello\n"


def test_a_function_that_changes_its_input_is_a_sentence():
    with pytest.raises(ValueError, match="sort changes its argument 1"):
        bench(list.sort, [3, 1, 2])


def test_ctrl_c_keeps_the_readings():
    program = (
        "import _thread, threading, time\n"
        "from steptime import bench\n"
        "threading.Timer(1, _thread.interrupt_main).start()\n"
        "print(bench(time.sleep, 0.01, seconds=60).n)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert 10 < int(done.stdout) < 200


def test_what_is_no_function_is_a_sentence():
    with pytest.raises(TypeError, match="got a float: pass it without calling it"):
        bench(3.0)


def test_a_function_that_raises_is_named_and_the_collector_is_on_again():
    def broken():
        raise KeyError("weights")

    with pytest.raises(RuntimeError, match="broken raised KeyError: 'weights'"):
        bench(broken)
    assert gc.isenabled()


def test_the_garbage_collector_waits_and_is_left_as_it_was():
    seen = []
    Stopwatch()(lambda: seen.append(gc.isenabled()), (), 2)
    assert seen == [False, False] and gc.isenabled()
    gc.disable()
    try:
        Stopwatch()(lambda: None, (), 1)
        assert not gc.isenabled()
    finally:
        gc.enable()


@needs_scheduler
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot confine a process to one core")
def test_a_stretch_that_lost_its_core_says_how_long_it_waited():
    program = (
        "import os, subprocess, sys; from steptime.measure import Stopwatch\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "rival = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "try: print(*Stopwatch()(lambda: sum(range(100_000)), (), 400))\n"
        "finally: rival.kill()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wall, waited = map(float, done.stdout.split())
    assert 0.2 * wall < waited < wall  # two processes on one core: each waits about half of the time


def test_sleeping_is_not_waiting_for_a_core():
    reading = Stopwatch()(time.sleep, (0.05,), 1)
    assert reading.wall >= 0.05 and reading.waited < 0.04


@needs_scheduler
def test_a_thread_that_waits_its_turn_with_a_lock_is_never_said_to_have_waited_longer_than_it_lasted():
    def quarrel():
        while not done.is_set():
            sum(range(1_000))

    done, stopwatch = threading.Event(), Stopwatch()
    rivals = [threading.Thread(target=quarrel) for _ in range(3)]
    for rival in rivals:
        rival.start()
    try:
        for _ in range(300):
            reading = stopwatch(sum, (range(2_000),), 5)
            assert 0 <= reading.waited < reading.wall
    finally:
        done.set()
        for rival in rivals:
            rival.join()


def test_without_scheduler_statistics_nobody_is_known_to_have_waited(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "SCHEDULER", tmp_path / "none")
    assert Stopwatch()(time.sleep, (0.001,), 1).waited == 0


def test_another_thread_is_measured_without_asking_the_scheduler_of_the_first():
    stopwatch, readings = Stopwatch(), []
    other = threading.Thread(target=lambda: readings.append(stopwatch(sum, (range(1_000),), 5)))
    other.start()
    other.join()
    assert readings[0].wall > 0 and readings[0].waited == 0
