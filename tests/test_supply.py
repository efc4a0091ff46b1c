"""A watched loader: the same batches, the same errors, the same end; and what its log says of waits that are known."""

import copy
import gc
import multiprocessing
import time
import traceback
from itertools import count, islice

import psutil
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from steptime.sources import Remote
from steptime.stream import Stream
from steptime.supply import same_batch, watch

pytestmark = pytest.mark.usefixtures("time_limit")


class Numbers(Dataset):
    """The numbers below 12; one of them can be bad."""

    def __init__(self, bad=None, act=None):
        self.bad, self.act = bad, act

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == self.bad:
            self.act()
        return index


class Endless(IterableDataset):
    """All numbers from 0 on."""

    def __iter__(self):
        return count()


class Nested(Numbers):
    """Records that a DataLoader makes nested batches of."""

    def __getitem__(self, index):
        return {"x": torch.full((2,), index), "rest": (index, [str(index), {"y": index / 2}])}


def fail():
    raise KeyError("item 3")


def die():
    psutil.Process().kill()


def slow(number, seconds):
    """A loader that takes its time for each batch."""
    for item in range(number):
        time.sleep(seconds)
        yield item


def train(loader, seconds=0.0):
    watched = watch(loader)
    for _ in watched:
        time.sleep(seconds)
    return watched.log


def workers():
    """The worker processes of this one; the helper that multiprocessing keeps for spawn is none."""
    return [child for child in psutil.Process().children() if "resource_tracker" not in " ".join(child.cmdline())]


def left(seconds=5):
    """The worker processes that have not ended within that time."""
    gc.collect()  # an error holds on to the frames it came through, and they to the iterator
    end = time.perf_counter() + seconds
    while workers() and time.perf_counter() < end:
        time.sleep(0.02)
    return workers()


NESTED = [{"x": torch.ones(2), "rest": ([1, "two"], None)}, (torch.zeros(1), {"y": [3]}), [], None]


@pytest.mark.parametrize("batches", [[], NESTED, [[1]] * 5], ids=["none", "nested", "five"])
def test_batches_come_as_they_were(batches):
    watched = watch(batches)
    assert [id(batch) for batch in watched] == [id(batch) for batch in batches]
    assert len(watched) == len(batches) and len(watched.log) == len(batches)


def test_length_and_attributes_are_the_loaders():
    loader = DataLoader(Numbers(), batch_size=5)
    assert len(watch(loader)) == 3 and watch(loader).batch_size == 5 and watch(loader).dataset is loader.dataset
    with pytest.raises(TypeError, match="generator"):
        len(watch(slow(3, 0)))
    with pytest.raises(AttributeError, match="sampel"):
        _ = watch(loader).sampel


def test_attributes_are_set_on_the_loader():
    loader = DataLoader(Numbers())
    watched = watch(loader)
    watched.epoch = 3
    assert loader.epoch == watched.epoch == copy.copy(watched).epoch == 3 and "epoch" not in vars(watched)
    with pytest.raises(ValueError, match="batch_size"):  # a DataLoader forbids it
        watched.batch_size = 2


def test_what_can_be_indexed_still_can_and_is_as_true():
    assert watch([4, 5, 6])[-1] == 6 and watch([4, 5, 6])[1:] == [5, 6]
    with pytest.raises(TypeError, match="'DataLoader' object is not subscriptable"):
        watch(DataLoader(Numbers()))[0]
    assert watch([1]) and not watch([]) and watch(slow(3, 0))


@pytest.mark.parametrize("make", [lambda: slow(6, 0), lambda: iter(DataLoader(range(6), batch_size=None))])
def test_an_iterator_still_gives_its_next(make):
    watched = watch(make())
    assert [next(watched), next(watched)] == [0, 1] and len(watched.log) == 1
    assert list(islice(watched, 2)) == [2, 3] and next(watched) == 4 and list(watched) == [5]
    with pytest.raises(StopIteration):
        next(watched)
    assert not list(watched)
    with pytest.raises(TypeError, match="not an iterator"):
        next(watch([1]))


def test_each_pass_is_a_new_one():
    watched = watch(DataLoader(Numbers(), batch_size=4))
    assert [batch.tolist() for batch in watched] == [batch.tolist() for batch in watched]
    assert len(watched.log) == 6


@pytest.mark.parametrize("nothing", [7, None, len])
def test_what_cannot_be_iterated_is_a_sentence(nothing):
    with pytest.raises(TypeError, match="watch needs a loader or another iterable of batches, got a"):
        watch(nothing)


def test_an_error_at_item_3_is_the_loaders_own():
    watched = watch(DataLoader(Numbers(3, fail), batch_size=1))
    with pytest.raises(KeyError, match="item 3"):
        list(watched)
    assert len(watched.log) == 3


def test_a_loader_that_goes_on_after_an_error_still_does():
    loader = DataLoader(Numbers(3, fail), batch_size=None, num_workers=1)
    for batches in (iter(loader), iter(watch(loader))):
        came = list(islice(batches, 3))
        with pytest.raises(KeyError, match="item 3"):
            next(batches)
        assert [*came, *batches] == [number for number in range(12) if number != 3]


def test_an_error_of_the_step_leaves_the_steps_before_it():
    watched = watch(range(10))
    with pytest.raises(ZeroDivisionError):
        for number in watched:
            1 / (number - 4)
    assert len(watched.log) == 4


def test_an_infinite_loader_can_be_left_and_is_closed():
    closed = []

    def endless():
        try:
            yield from count()
        finally:
            closed.append(True)

    watched = watch(endless())
    log = watched.log
    for number in watched:
        if number == 5:
            break
    del watched
    assert closed and len(log) == 5


def test_a_loader_that_ends_early_says_how_many_steps_there_were():
    log = train(slow(2, 0.001))
    assert len(log) == 2 and repr(log).startswith("2 steps · wait ")


@pytest.mark.parametrize("is_read_to_the_end", [True, False])
def test_no_worker_is_left(is_read_to_the_end):
    for batch in watch(DataLoader(Numbers(), num_workers=2)):
        if batch.item() == 1 and not is_read_to_the_end:
            break
    assert not left()


def test_an_infinite_loader_with_workers_can_be_left():
    watched = watch(DataLoader(Endless(), batch_size=4, num_workers=2))
    for batch in watched:
        if 40 in batch:
            break
    assert len(watched.log) == 20 and not left()


def test_nested_batches_come_through_workers_as_they_were():
    loader = DataLoader(Nested(), batch_size=5, num_workers=2)
    came = list(watch(loader))
    assert len(came) == 3 and list(map(repr, came)) == list(map(repr, loader))
    assert came[2]["x"].tolist() == [[10, 10], [11, 11]] and came[2]["rest"][1][0] == ("10", "11")


def test_a_killed_worker_is_the_loaders_own_error_and_leaves_none():
    watched = watch(DataLoader(Numbers(3, die), batch_size=None, num_workers=2))
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        list(watched)
    assert len(watched.log) <= 3 and not left()


def test_spawned_workers_are_watched_too():
    loader = DataLoader(Remote(range(12), 0.001), batch_size=None, num_workers=1, multiprocessing_context="spawn")
    watched = watch(loader)
    assert list(watched) == list(range(12)) and not left()
    assert watched.log.first > 10 * watched.log.wait  # it starts Python and imports torch


def test_waits_and_computations_are_told_apart():
    log = train(slow(20, 0.03), 0.015)
    assert 0.030 <= log.wait < 0.045 and 0.015 <= log.compute < 0.030
    assert log.wait_share == pytest.approx(2 / 3, abs=0.1)
    assert log.serial == log.wait + log.compute
    assert log.bound() == log.wait and log.bound(8) == log.compute


def test_the_steps_fill_the_time():
    start = time.perf_counter()
    log = train(slow(20, 0.005), 0.005)
    assert sum(log.waits) + sum(log.computes) == pytest.approx(time.perf_counter() - start, rel=0.05)


def test_a_step_ends_when_the_device_is_done():
    with Stream() as stream:
        watched = watch(range(5))
        for _ in watched:
            stream.launch(time.sleep, 0.03)
    assert watched.log.compute >= 0.03 and watched.log.wait < 0.01


def test_the_first_step_of_each_pass_is_kept_apart():
    class Starting:
        def __iter__(self):
            time.sleep(0.1)
            return slow(5, 0.002)

    watched = watch(Starting())
    for _ in range(2):
        for _ in watched:
            time.sleep(0.002)
    assert len(watched.log) == 10 and watched.log.first >= 0.1
    assert watched.log.step < 0.05 and watched.log.wait < 0.05


def test_a_single_step_is_better_than_none():
    log = train([1], 0.01)
    assert log.step >= 0.01 and repr(log).startswith("1 step ·")


@pytest.mark.parametrize("figure", ["wait", "compute", "first", "step", "wait_share", "serial"])
def test_without_steps_there_are_no_figures(figure):
    log = train([])
    assert repr(log) == "no steps"
    with pytest.raises(ValueError, match="There are no steps in this log"):
        getattr(log, figure)


@pytest.mark.parametrize(("workers", "pace"), [(0, 0.045), (1, 0.03), (2, 0.015)])
def test_the_bound_is_reached_where_nothing_competes(workers, pace):
    source = Remote(range(40), 0.03)
    serial = train(DataLoader(Remote(range(15), 0.03), batch_size=None), 0.015)
    log = train(DataLoader(source, batch_size=None, num_workers=workers), 0.015)
    assert log.step == pytest.approx(pace, rel=0.25)
    assert serial.bound(max(workers, 1)) == pytest.approx(max(0.03 / max(workers, 1), 0.015), rel=0.25)
    ratios = log.reached(serial, max(workers, 1))
    assert len(ratios) >= 14 and ratios.median == pytest.approx(0.67 if workers == 0 else 1, abs=0.2)


def test_a_bound_needs_a_producer():
    log = train(range(3))
    for ask in (lambda: log.bound(0), lambda: log.reached(log, 0)):
        with pytest.raises(ValueError, match="needs one producer or more, not 0"):
            ask()
    with pytest.raises(ValueError, match="at least as many steps"):
        log.reached(log, 5)


def test_watching_costs_less_than_5_microseconds_a_step():
    def passes(loader):
        start = time.perf_counter()
        for _ in loader:
            pass
        return (time.perf_counter() - start) / len(loader)

    numbers = range(500)  # short passes, so that some are not interrupted
    plain = min(passes(numbers) for _ in range(200))
    assert min(passes(watch(numbers)) for _ in range(200)) - plain < 5e-6


def test_the_same_batch_shows_what_supply_costs():
    seen = same_batch(slow(12, 0.02), lambda _: time.sleep(0.01), steps=10)
    assert len(seen.supplied) == len(seen.kept) == 10
    assert seen.share == pytest.approx(2 / 3, abs=0.12)
    assert seen.share == pytest.approx(seen.supplied.wait_share, abs=0.1)


def test_the_same_batch_finds_supply_that_is_not_seen_waiting():
    """A batch that prepares itself when it is first used, in the step."""

    class Lazy:
        ready = False

        def use(self):
            time.sleep(0.005 if self.ready else 0.03)
            self.ready = True

    seen = same_batch((Lazy() for _ in range(10)), Lazy.use)
    assert seen.share > 0.5 and seen.supplied.wait_share < 0.1


def test_the_same_batch_ends_the_workers_before_it_goes_on():
    children = []
    same_batch(DataLoader(Numbers(), num_workers=1), lambda _: children.append(len(workers())), steps=3)
    assert children == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_batch_of_an_infinite_loader(workers):
    came = []
    seen = same_batch(DataLoader(Endless(), batch_size=None, num_workers=workers), came.append, steps=5)
    assert came[:5] == sorted(came[:5]) and came[5:] == [came[4]] * 5
    assert len(seen.supplied) == len(seen.kept) == 5 and not left()


@pytest.mark.parametrize(
    ("act", "workers", "error", "sentence"),
    [(fail, 0, KeyError, "item 3"), (fail, 2, KeyError, "item 3"), (die, 2, RuntimeError, "DataLoader worker")],
)
def test_the_same_batch_raises_what_the_loader_raises(act, workers, error, sentence):
    came = []
    with pytest.raises(error, match=sentence) as caught:
        same_batch(DataLoader(Numbers(3, act), batch_size=None, num_workers=workers), came.append)
    traceback.clear_frames(caught.tb)  # lest the iterator wait for `gc`, which costs a DataLoader 5 s a worker
    assert came == [0, 1, 2][: len(came)] and (act is die or len(came) == 3) and not left()


@pytest.mark.parametrize("batches", [NESTED[:1], NESTED[1:2]], ids=["dict", "tuple"])
def test_the_same_batch_leaves_nested_batches_as_they_are(batches):
    came = []
    same_batch(batches * 2, came.append)
    assert len(came) == 4 and all(batch is batches[0] for batch in came)


def test_a_supply_that_costs_nothing_is_not_made_to_cost_something():
    longer = iter([0.01] * 5 + [0.02] * 5)
    assert same_batch(range(5), lambda _: time.sleep(next(longer))).share < -0.5


@pytest.mark.parametrize(
    ("loader", "steps", "sentence"), [([], 5, "gave no batch"), ([1], 0, "steps must be 1 or more")]
)
def test_the_same_batch_needs_a_batch_and_a_step(loader, steps, sentence):
    with pytest.raises(ValueError, match=sentence):
        same_batch(loader, print, steps)


def test_the_plot_shows_every_step_and_the_bound():
    log = train(slow(12, 0.002), 0.001)
    picture = log.plot(bound=0.002)
    [axes] = picture.figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "ms") and len(axes.patches) == 24
    assert axes.lines[0].get_ydata()[0] == pytest.approx(2)
    assert picture.alt.startswith("12 steps as bars") and "waits take" in picture.caption


def test_no_process_is_left_behind():
    assert not left() and not multiprocessing.active_children()
