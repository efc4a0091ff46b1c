"""The allocator's model: each of the rules it documents, on sequences whose counts can be worked out by hand."""

import math
import random

import pytest
import torch

from steptime.allocations import peak, record, replay
from steptime.allocator import MIB, Allocator, OutOfMemory


def counts(allocator):
    return allocator.device_mallocs, allocator.device_frees, allocator.reserved // MIB


def ask(allocator, *sizes):
    return [allocator.malloc(int(size * MIB)) for size in sizes]


@pytest.mark.parametrize(
    ("size", "rounded"), [(1, 512), (512, 512), (513, 1_024), (1_000_000, 1_000_448), (3 * MIB + 1, 3 * MIB + 512)]
)
def test_sizes_are_rounded_up_to_512_bytes(size, rounded):
    allocator = Allocator()
    assert allocator.malloc(size).size == allocator.allocated == rounded


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (21 * MIB + 1, 22 * MIB),
    ],
)
def test_the_size_of_a_segment_depends_on_the_request(size, segment):
    allocator = Allocator()
    allocator.malloc(size)
    assert allocator.reserved == segment and allocator.device_mallocs == 1


def test_small_requests_share_a_segment_until_it_is_full():
    allocator = Allocator()
    ask(allocator, 1, 0.5, 0.5)
    assert counts(allocator) == (1, 0, 2)
    ask(allocator, 0.1)
    assert counts(allocator) == (2, 0, 4)


def test_a_small_request_never_takes_from_the_large_pool():
    allocator = Allocator()
    ask(allocator, 2, 0.5)
    assert counts(allocator) == (2, 0, 22)


def test_a_freed_block_is_reused_without_the_device():
    allocator = Allocator()
    for _ in range(100):
        [block] = ask(allocator, 50)
        allocator.free(block)
    assert counts(allocator) == (1, 0, 50) and allocator.allocated == 0


def test_of_several_free_blocks_the_smallest_that_fits_is_taken():
    allocator = Allocator()
    large, fitting, small = ask(allocator, 60, 40, 30)
    for block in (large, fitting, small):
        allocator.free(block)
    assert ask(allocator, 35) == [fitting] and fitting.size == 35 * MIB


def test_what_is_left_over_of_a_large_block_is_kept_only_above_1_mib():
    allocator = Allocator()
    [block] = ask(allocator, 12)
    allocator.free(block)
    assert ask(allocator, 11)[0].size == 12 * MIB  # 1 MiB left over stays with it
    allocator = Allocator()
    [block] = ask(allocator, 12)
    allocator.free(block)
    assert ask(allocator, 10.5)[0].size == 10.5 * MIB


def test_free_neighbours_merge():
    allocator = Allocator()
    first, second, third = ask(allocator, 6, 6, 6)
    for block in (first, third, second):
        allocator.free(block)
    assert ask(allocator, 9.9)[0] is first and counts(allocator) == (1, 0, 20)


def test_what_is_in_use_between_two_free_blocks_keeps_them_apart():
    allocator = Allocator()
    first, _, third = ask(allocator, 6, 6, 6)
    allocator.free(first)
    allocator.free(third)  # 6 MiB, and 6 + 2 at the end
    ask(allocator, 9)
    assert counts(allocator) == (2, 0, 40)


def test_emptying_gives_back_only_segments_that_are_wholly_free():
    allocator = Allocator()
    used, freed, shared, _ = ask(allocator, 30, 40, 5, 5)
    allocator.free(freed)
    allocator.free(shared)
    allocator.empty_cache()
    assert counts(allocator) == (3, 1, 50) and allocator.curve[-1] == (allocator.allocated, 50 * MIB)
    allocator.free(used)
    allocator.empty_cache()
    assert counts(allocator) == (3, 2, 20)


def test_lengths_that_grow_never_fit_what_is_cached():
    allocator = Allocator()
    for size in range(20, 40, 2):
        allocator.free(*ask(allocator, size))
    assert allocator.device_mallocs == 10 and allocator.reserved == sum(range(20, 40, 2)) * MIB


def test_a_full_device_gets_its_free_segments_back_and_is_asked_again():
    allocator = Allocator(capacity=100 * MIB)
    one, other = ask(allocator, 40, 40)
    allocator.free(one)
    allocator.free(other)
    ask(allocator, 50)
    assert counts(allocator) == (3, 2, 50) and allocator.retries == 1


def test_out_of_memory_says_how_much_is_free_in_pieces():
    allocator = Allocator(capacity=100 * MIB)
    [whole] = ask(allocator, 90)
    allocator.free(whole)
    ask(allocator, 30)  # splits the 90: the other 60 cannot be given back
    with pytest.raises(OutOfMemory, match=r"73,400,320 bytes asked for.* 62,914,560 reserved but free in pieces"):
        ask(allocator, 70)
    assert allocator.allocated == 30 * MIB


def test_blocks_above_max_split_are_handed_out_whole_and_to_large_requests_only():
    allocator = Allocator(max_split=64 * MIB)
    [block] = ask(allocator, 100)
    allocator.free(block)
    ask(allocator, 30)
    assert counts(allocator) == (2, 0, 130)  # not cut from the 100
    assert ask(allocator, 90)[0].size == 100 * MIB
    allocator.free(block)
    ask(allocator, 80)  # 20 MiB too large for it
    assert counts(allocator) == (3, 0, 210)


def test_with_max_split_a_full_device_gets_back_one_that_is_large_enough_first():
    allocator = Allocator(capacity=300 * MIB, max_split=64 * MIB)
    for block in ask(allocator, 70, 120, 100):
        allocator.free(block)
    ask(allocator, 75)  # 100 is too large to be handed out, and enough to give back
    assert counts(allocator) == (4, 1, 70 + 120 + 76) and allocator.retries == 0


def test_above_the_threshold_the_oldest_segments_are_collected():
    allocator = Allocator(capacity=200 * MIB, collect_above=0.5)
    old, young = ask(allocator, 60, 61)
    allocator.free(old)
    for _ in range(5):  # the first grows old meanwhile
        allocator.free(young)
        [young] = ask(allocator, 61)
    allocator.free(young)
    ask(allocator, 70)
    assert counts(allocator) == (3, 1, 61 + 1 + 70)


def test_below_the_threshold_nothing_is_collected():
    allocator = Allocator(capacity=1_000 * MIB, collect_above=0.5)
    allocator.free(*ask(allocator, 60))
    ask(allocator, 70)
    assert counts(allocator) == (2, 0, 130)


def test_an_expandable_segment_grows_by_what_is_missing():
    allocator = Allocator(expandable=True)
    for size in range(20, 40, 2):
        allocator.free(*ask(allocator, size))
    assert counts(allocator) == (2, 0, 40)  # 20, and one page more from 22 on
    allocator.empty_cache()
    assert counts(allocator) == (2, 1, 0)


def test_the_end_of_an_expandable_segment_is_taken_only_if_nothing_else_fits():
    allocator = Allocator(expandable=True)
    first, _ = ask(allocator, 30, 5)  # two pages, of which 5 MiB are free at the end
    allocator.free(first)
    assert ask(allocator, 4) == [first]  # the end would be the better fit
    allocator.empty_cache()
    assert counts(allocator) == (1, 0, 40)  # less than a page is free at the end


def test_whatever_happens_the_books_agree():
    drawn = random.Random(0)
    for options in ({}, {"max_split": 32 * MIB}, {"collect_above": 0.6}, {"expandable": True}):
        allocator, held = Allocator(capacity=400 * MIB, **options), []
        for _ in range(2_000):
            try:
                held.append(allocator.malloc(int(2 ** drawn.uniform(8, 25))))
            except OutOfMemory:
                assert allocator.allocated > 0
            while len(held) > 12:
                allocator.free(held.pop(drawn.randrange(len(held))))
            assert allocator.allocated == sum(block.size for block in held) <= allocator.reserved <= 400 * MIB
        for block in held:
            allocator.free(block)
        allocator.empty_cache()
        assert (allocator.allocated, allocator.reserved) == (0, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"capacity": 0}, "capacity is in bytes, above 0"),
        ({"max_split": MIB}, "max_split must be above 20,971,520 bytes"),
        ({"collect_above": 0.5}, "a share of a finite capacity"),
        ({"capacity": MIB, "collect_above": 2}, "between 0 and 1"),
    ],
)
def test_options_that_make_no_sense_are_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Allocator(**options)


def test_what_cannot_be_asked_or_freed_is_a_sentence():
    allocator = Allocator()
    with pytest.raises(ValueError, match="1 or more, not 0"):
        allocator.malloc(0)
    block = allocator.malloc(100)
    allocator.free(block)
    with pytest.raises(ValueError, match="this block is free already"):
        allocator.free(block)


def test_the_picture_says_what_it_shows():
    allocator = Allocator()
    ask(allocator, 30)
    assert allocator.plot().alt == "Reserved memory reaches 30 MiB with 1 device mallocs."
    assert repr(allocator) == "30.0 MiB allocated, 30.0 MiB reserved, 1 device mallocs, 0 frees"


def test_a_function_is_recorded_byte_by_byte_and_replayed():
    def work(x):
        return (x * 2 + 1).sum()

    events = record(work, torch.rand(1_000))
    assert [size for _, size in events if size > 100] == [4_000, 4_000]
    assert 8_000 <= peak(events) < 8_100
    allocator = Allocator()
    held = replay(events, allocator.malloc, allocator.free)
    assert all(block.is_free is False for block in held.values())
    assert max(allocated for allocated, _ in allocator.curve) == 2 * 4_096 + 2 * 512  # and two scalars
    assert math.isclose(allocator.reserved, 2 * MIB)


def test_what_was_there_before_is_left_alone():
    old = [torch.rand(1_000)]
    allocator = Allocator()
    assert replay(record(old.clear), allocator.malloc, allocator.free) == {} and allocator.allocated == 0


def test_recording_writes_nothing_beside_what_the_function_writes(capfd):
    record(print, "hello")
    assert capfd.readouterr() == ("hello\n", "")
