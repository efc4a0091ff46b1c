"""Producers in processes: their batches, in order, never too far ahead, and no process left whatever happens."""

import subprocess
import sys
import time
from contextlib import closing
from itertools import count, islice

import psutil
import pytest

from steptime.pipeline import pipeline

pytestmark = pytest.mark.usefixtures("time_limit")


class NoReturn(Exception):
    """It can be pickled and not be made again."""

    def __init__(self, one, two):
        super().__init__(one)


def square(job):
    return job * job


def uneven(job):
    time.sleep(0.02 * (job % 2))
    return job


def megabytes(job):
    return bytes(2_000_000)


def megabyte(job):
    return bytes(1_000_000)


def broken(job):
    if job == 3:
        raise KeyError("job 3")
    return job


def broken_oddly(job):
    raise NoReturn("it broke", job)


def killed(job):
    if job == 3:
        psutil.Process().kill()
    return bytes(100_000)


def no_batch(job):
    return lambda: job


def hang(job):
    time.sleep(0.01 if job < 2 else 1_000)
    return job


def producers():
    children = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    return [child for child in children if "resource_tracker" not in child]  # multiprocessing keeps that one


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert not producers()


@pytest.mark.parametrize("jobs", [0, 1, 3, 50])
@pytest.mark.parametrize("producers", [1, 3])
def test_every_batch_comes_once_and_in_order(jobs, producers):
    assert list(pipeline(square, range(jobs), producers)) == [job * job for job in range(jobs)]
    assert list(pipeline(uneven, range(min(jobs, 10)), producers, ahead=1)) == list(range(min(jobs, 10)))


@pytest.mark.parametrize("ahead", [1, 4])
def test_it_is_never_further_ahead_than_allowed(ahead):
    handed = count()
    batches = pipeline(square, handed, producers=2, ahead=ahead)
    assert list(islice(batches, 5)) == [0, 1, 4, 9, 16]
    assert next(handed) == 5 + 2 * ahead
    batches.close()


def test_batches_larger_than_a_pipe_and_a_consumer_that_stops_early():
    batches = pipeline(megabytes, count(), producers=2, ahead=3)
    assert len(next(batches)) == 2_000_000
    start = time.perf_counter()
    batches.close()
    assert time.perf_counter() - start < 2


LARGE = [bytes([number]) * 1_000_000 for number in range(12)]


@pytest.mark.parametrize(("jobs", "ahead"), [(LARGE, 4), (range(400), 350)], ids=["large", "many"])
@pytest.mark.parametrize("taken", [1, None])
def test_jobs_that_fill_a_pipe_do_not_wait_for_batches_that_fill_the_other(jobs, ahead, taken):
    with closing(pipeline(megabyte, jobs, producers=1, ahead=ahead)) as batches:
        assert sum(map(len, islice(batches, taken))) == (taken or len(jobs)) * 1_000_000


def test_large_jobs_arrive_whole():
    assert list(pipeline(bytes, LARGE, producers=2, ahead=4)) == LARGE


def test_a_job_that_cannot_be_made_again_is_noticed():
    with pytest.raises(RuntimeError, match="A producer died, with exit code 1"):
        list(pipeline(square, [NoReturn(1, 2)]))


def test_a_forgotten_pipeline_ends_its_producers():
    for batch in pipeline(square, count()):
        if batch > 10:
            break


def test_an_error_of_the_consumer_ends_the_producers_of_a_closing_pipeline():
    with pytest.raises(ZeroDivisionError) as caught, closing(pipeline(square, count())) as batches:
        for batch in batches:
            1 / (4 - batch)
    assert caught.traceback and not producers()


def test_the_error_is_the_producers_own():
    batches = pipeline(broken, range(10))
    assert list(islice(batches, 3)) == [0, 1, 2]
    with pytest.raises(KeyError, match="job 3") as caught:
        next(batches)
    assert "at job 3" in caught.value.__notes__[0] and "in broken" in caught.value.__notes__[0]


def test_an_error_of_the_jobs_is_their_own():
    with pytest.raises(ZeroDivisionError):
        list(pipeline(square, (1 / (5 - job) for job in range(10))))


@pytest.mark.parametrize(
    ("produce", "error", "sentence"),
    [(broken_oddly, RuntimeError, "NoReturn: it broke"), (no_batch, Exception, "[Pp]ickle")],
)
def test_what_cannot_be_sent_is_told(produce, error, sentence):
    with pytest.raises(error, match=sentence):
        list(pipeline(produce, range(3)))


@pytest.mark.parametrize("ahead", [1, 4])
def test_a_producer_that_is_killed_is_noticed(ahead):
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="A producer died, with exit code"):
        list(pipeline(killed, range(100), ahead=ahead))
    assert time.perf_counter() - start < 3


def test_a_producer_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("steptime.pipeline.PATIENCE", 0.3)
    assert list(islice(pipeline(hang, range(10)), 2)) == [0, 1]


def test_it_works_ahead():
    start = time.perf_counter()
    for _ in pipeline(uneven, [1] * 20, producers=2):
        time.sleep(0.02)
    assert time.perf_counter() - start < 0.02 * 40 * 0.8


def test_spawned_producers():
    from multiprocessing import get_context

    assert list(pipeline(abs, [-3, -4, 5], producers=1, context=get_context("spawn"))) == [3, 4, 5]


@pytest.mark.parametrize("bad", [{"producers": 0}, {"ahead": 0}])
def test_none_ahead_or_no_producer_is_a_sentence(bad):
    with pytest.raises(ValueError, match="one producer and one job ahead at least"):
        pipeline(square, range(3), **bad)


CONSUMER = """
import time
from itertools import count
import psutil
from steptime.pipeline import pipeline
for batch in pipeline(bytes, count(1), producers=3):
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    time.sleep(60)
"""


def test_producers_end_when_their_consumer_is_killed():
    consumer = subprocess.Popen([sys.executable, "-c", CONSUMER], stdout=subprocess.PIPE, text=True)
    try:
        producers = [int(number) for number in consumer.stdout.readline().split()]
    finally:
        consumer.kill()
        consumer.wait()
        consumer.stdout.close()
    end = time.perf_counter() + 5
    while any(map(psutil.pid_exists, producers)) and time.perf_counter() < end:
        time.sleep(0.02)
    assert len(producers) == 3 and not any(map(psutil.pid_exists, producers))
