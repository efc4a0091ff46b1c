"""Races whose outcome is known, and the mistakes people make with them."""

import functools
import gc
import math
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from steptime import measure
from steptime.claims import Verdict
from steptime.compare import FIRST_LOOK, Race, Side, compare
from steptime.observe import Observation


def spin(rounds):
    """Work in proportion to `rounds`; the answer is always the same."""
    for _ in range(rounds):
        pass
    return 7


def slow():
    return spin(40_000)


def fast():
    return spin(2_000)


def test_a_ratio_of_twenty_is_found():
    race = compare(slow, fast)
    assert race.same.answer is True
    assert race.at_least(10).answer is True and race.at_least(40).answer is False
    low, high = race.interval
    assert low <= race.ratio <= high and low > 10 and high < 40


def test_the_verdict_carries_its_evidence_and_its_margin():
    race = compare(slow, fast)
    verdict = race.at_least(10)
    assert verdict.margin == pytest.approx(race.interval[0] / 10)
    assert "asked for 10x" in verdict.evidence and f"{len(race.ratios)} pairs" in verdict.evidence


def test_a_function_is_not_found_faster_than_itself():
    race = compare(fast, fast, budget=0.5)
    assert race.at_least(1).answer is None
    assert race.at_least(0.5).answer is True and race.at_least(2).answer is False


def test_a_verdict_draws_more_pairs_within_the_budget():
    race = compare(fast, fast, budget=1)
    before, start = len(race.ratios), time.perf_counter()
    race.at_least(race.ratio)
    assert len(race.ratios) > before and time.perf_counter() - start < 3


def test_drift_is_not_mistaken_for_speed():
    calls = 0

    def slowing():
        nonlocal calls
        calls += 1
        return spin(1_000 + 5 * calls)

    assert compare(slowing, slowing, budget=0.3).at_least(1.2).answer is False


def test_both_sides_get_the_same_time():
    spent = {"slow": 0.0, "fast": 0.0}

    def timed(name, rounds):
        start = time.perf_counter()
        spin(rounds)
        spent[name] += time.perf_counter() - start

    compare(lambda: timed("slow", 40_000), lambda: timed("fast", 2_000))
    assert 0.5 < spent["slow"] / spent["fast"] < 2


def test_a_race_is_shown_in_one_line():
    shown = repr(compare(slow, fast, guess=30))
    assert shown.startswith("same answer (exactly) · ") and " -> " in shown and shown.endswith("your guess 30x")
    assert "\n" not in shown


@pytest.mark.parametrize("other", [np.array([1.0, 2.0]), 8, None, "7", torch.ones(2)])
def test_another_answer_is_not_timed(other):
    race = compare(fast, lambda: other)
    assert race.same.answer is False and race.at_least(0.001).answer is False
    assert repr(race).startswith("different answers (") and repr(race).endswith("not timed")
    assert not race.pairs


def test_a_tolerance_lets_rounding_pass():
    x = np.random.default_rng(0).normal(size=1_000)

    def backwards(x):
        return sum(x[::-1].tolist())

    assert compare(lambda x: math.fsum(x), backwards, x, same=1e-9, budget=0.1).same.answer is True
    assert compare(lambda x: math.fsum(x), lambda x: backwards(x) + 0.1, x, same=1e-9).same.answer is False


def test_where_both_return_none_nobody_can_tell_whether_they_agree():
    race = compare(lambda: spin(9_000) and None, lambda: spin(900) and None)
    assert race.same.answer is None and race.at_least(3).answer is True
    assert repr(race).startswith("cannot tell whether the answers agree (both return None: let them")


def test_a_function_that_raises_is_named():
    def broken():
        raise KeyError("weights")

    with pytest.raises(RuntimeError, match="broken raised KeyError: 'weights'") as caught:
        compare(fast, broken)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_that_raises_later_is_named_too():
    left = iter(range(5))
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        compare(fast, lambda: next(left) * 0 + 7)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((7, fast), {}, "got a int: pass the function without calling it"),
        ((fast, fast()), {}, "got a int: pass the function without calling it"),
        ((fast, fast), {"same": -1}, "0 or more, not -1"),
        ((fast, fast), {"same": math.nan}, "0 or more, not nan"),
        ((fast, fast), {"budget": 0}, "above 0, not 0"),
        ((fast, fast), {"budget": None}, "above 0, not None"),
        ((fast, fast), {"same": "1e-3"}, "0 or more, not '1e-3'"),
        ((fast, fast), {"guess": "30x"}, "a number above 0, not '30x'"),
    ],
)
def test_what_is_no_race_is_a_sentence(arguments, options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        compare(*arguments, **options)


def test_a_budget_too_small_for_an_interval_says_so():
    race = compare(lambda: time.sleep(0.02), lambda: time.sleep(0.02), budget=0.1)
    assert "too few pairs for an interval" in repr(race) and race.at_least(1).answer is None


# Functions of every kind, each with a truth that is known.


def sleeping(seconds):
    time.sleep(seconds)
    return 7


def test_functions_that_sleep():
    race = compare(lambda: sleeping(0.006), lambda: sleeping(0.002))
    assert race.at_least(1.5).answer is True and race.at_least(5).answer is False


def test_functions_that_read_files(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(100_000))

    def read(times):
        return sum(len(file.read_bytes()) for _ in range(times)) * 0

    race = compare(lambda: read(40), lambda: read(2))
    assert race.at_least(10).answer is True and race.at_least(40).answer is False


def test_functions_that_run_threads():
    def two_threads(seconds):
        threads = [threading.Thread(target=time.sleep, args=(seconds,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return 7

    race = compare(lambda: sleeping(0.06), lambda: two_threads(0.006))  # the threads wait side by side
    assert race.at_least(2).answer is True and race.at_least(20).answer is False


def test_functions_that_release_the_lock_while_they_compute():
    small, large = torch.ones(96, 96), torch.ones(384, 384)  # 64 times the additions and multiplications
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        race = compare(lambda: (large @ large).sum() * 0, lambda: (small @ small).sum() * 0)
        assert race.at_least(8).answer is True and race.at_least(500).answer is False
    finally:
        torch.set_num_threads(threads)


def test_functions_that_alternate_between_fast_and_slow():
    def alternating(rounds):
        calls = 0

        def function():
            nonlocal calls
            calls += 1
            return spin(rounds * (1 + 2 * (calls % 2)))  # 1 and 3 times the work: 2 times in the mean

        return function

    race = compare(alternating(20_000), alternating(2_000), budget=2)
    assert race.at_least(3).answer is True and race.at_least(31).answer is False


def test_one_function_in_two_modes_is_not_found_different_from_itself():
    calls = 0

    def alternating():
        nonlocal calls
        calls += 1
        return spin(4_000 * (1 + calls % 2))

    assert compare(alternating, alternating, budget=1).differs().answer is not True


def test_a_side_that_warms_up_slowly_is_judged_by_what_it_settles_at():
    calls = 0

    def warming():
        nonlocal calls
        calls += 1
        return spin(4_000 + int(40_000 * 0.7**calls))

    race = compare(lambda: spin(40_000), warming)
    assert race.at_least(5).answer is True and race.at_least(20).answer is False
    assert race.interval[0] > 5


def test_functions_that_allocate():
    def allocate(pages):
        return np.ones(pages * 512).size * 0 + 7

    race = compare(lambda: allocate(20_000), lambda: allocate(200))
    assert race.at_least(10).answer is True


def test_functions_that_leave_garbage():
    def litter(rounds):
        for _ in range(rounds):
            ring = []
            ring.append(ring)
        return 7

    race = compare(lambda: litter(20_000), lambda: litter(2_000))
    assert race.at_least(4).answer is True and race.at_least(25).answer is False and gc.isenabled()


# Races on a stopwatch of our own: no clock, and a truth that is known exactly.


class Scripted:
    """A stopwatch on which each function takes as long as `truth` says, with noise, bursts and interruptions."""

    def __init__(self, truth, drawn):
        self.truth, self.drawn, self.time, self.calm = truth, drawn, 0.0, True

    def now(self):
        return self.time

    def __call__(self, function, arguments, calls):
        if self.drawn.random() < 0.02:
            self.calm = not self.calm
        wall = self.truth[function] * calls * math.exp(self.drawn.gauss(0, 0.01 if self.calm else 0.04))
        waited = 0.0
        if self.drawn.random() < (0.02 if self.calm else 0.4):  # somebody else has the core for a while
            waited = self.drawn.expovariate(1 / 3e-3)
        self.time += wall + waited + 20e-6
        return measure.Reading(wall + waited, waited)


def scripted_race(a, b, ratio, seed, budget=2.0):
    truth = {a: 1e-3 * ratio, b: 1e-3} if a is not b else {a: 1e-3}
    stopwatch = Scripted(truth, random.Random(seed))
    sides = [Side(function, (), Observation(7, truth[function], printed=False)) for function in (a, b)]
    race = Race(*sides, Verdict(True), budget, None, stopwatch)
    race.look()
    return race, stopwatch


def test_thresholds_near_the_truth_are_judged_right():
    for seed in range(100):
        for x in (2, 10):
            assert scripted_race(slow, fast, x * 1.05, seed)[0].at_least(x).answer in (True, None)
            assert scripted_race(slow, fast, x / 1.05, seed)[0].at_least(x).answer in (False, None)
    decided = [scripted_race(slow, fast, 2.1, seed)[0].at_least(2).answer for seed in range(40)]
    assert decided.count(True) >= 38


def test_equal_functions_are_told_to_be_equal_and_unequal_ones_unequal():
    for seed in range(20):
        assert scripted_race(slow, fast, 1.0, seed)[0].differs().answer is False
        assert scripted_race(slow, fast, 1.08, seed)[0].differs().answer is True
        assert scripted_race(slow, fast, 1 / 1.08, seed)[0].differs().answer is True
        assert scripted_race(slow, slow, 1.0, seed)[0].differs().answer is None


def test_a_function_is_as_fast_as_itself_within_five_percent_and_one_8_percent_slower_is_not():
    for seed in range(20):
        assert scripted_race(slow, slow, 1.0, seed)[0].within(0.05).answer is True
        assert scripted_race(slow, fast, 1.08, seed)[0].within(0.05).answer is False
        assert scripted_race(slow, fast, 1 / 1.08, seed)[0].within(0.05).answer is False


@pytest.mark.parametrize("share", [0, -0.1, math.nan, "5 %", True])
def test_within_what_is_no_share_is_a_sentence(share):
    with pytest.raises(ValueError, match="within: share is a part of the time, a number above 0, not"):
        scripted_race(slow, slow, 1.0, 1)[0].within(share)


def test_answers_that_differ_are_not_said_to_be_alike():
    assert compare(slow, lambda: 8).within(0.05).answer is None


@pytest.mark.parametrize("ratio", [1.05, 1.4, 1.5, 2.4, 3.3, 7.5, 30])
def test_stretches_of_both_sides_last_equally_long(ratio):
    race, _ = scripted_race(slow, fast, ratio, seed=1)
    assert 0.85 < race._a.calls * ratio / race._b.calls < 1.18


def test_interrupted_pairs_are_discarded_and_the_budget_is_kept():
    race, stopwatch = scripted_race(slow, slow, 1.0, seed=2)
    race.differs()
    assert race.interrupted > 20 and 2.0 <= stopwatch.now() < 2.1
    assert max(max(pair) for pair in race.pairs) < 1.3e-3  # none of the pairs holds an interruption


# Which of two takes longer.


def work(rounds):
    """One code object, made slower through its argument."""
    return spin(rounds) * 0 + 7


def test_one_function_slowed_by_five_percent_is_found_slower():
    verdict = compare(functools.partial(work, 21_000), functools.partial(work, 20_000)).differs()
    assert verdict.answer is True and verdict.evidence.endswith("a takes longer")


def test_a_function_does_not_differ_from_itself():
    assert compare(work, work, 10_000, budget=1).differs().answer is None


def test_two_copies_of_a_function_do_not_differ():
    def copy():
        return spin(20_000)

    def other():
        return spin(20_000)

    verdict = compare(copy, other, budget=3).differs()
    assert verdict.answer is not True and "3% allowed for their places" in verdict.evidence


def test_two_functions_of_which_one_takes_twice_as_long_differ():
    verdict = compare(slow, lambda: spin(20_000)).differs()
    assert verdict.answer is True and verdict.margin > 1


def test_two_functions_in_one_wrapper_are_two_functions():
    """A decorator gives them one code object, and yet they lie in two places."""

    def once():
        return spin(20_000)

    def again():
        return spin(20_000)

    for wrap in (torch.no_grad(), lambda function: functools.partial(lambda inner: inner(), function)):
        verdict = compare(wrap(once), wrap(again), budget=0.5).differs()
        assert "3% allowed for their places" in verdict.evidence and verdict.answer is not True


def test_answers_that_differ_leave_nothing_to_tell_about_speed():
    assert compare(slow, lambda: 8).differs().answer is None


# What people do to it.


def test_a_function_that_changes_its_argument_is_a_sentence():
    with pytest.raises(ValueError, match="sort changes its argument 1, so each call would get another one"):
        compare(sorted, list.sort, [3, 1, 2])


def test_answers_in_one_buffer_are_told_apart():
    buffer = np.zeros(2)

    def ones():
        buffer[:] = 1
        return buffer

    def fives():
        buffer[:] = 5
        return buffer

    assert compare(ones, fives).same.answer is False


def test_a_function_that_returns_before_its_work_is_done_is_a_sentence():
    with pytest.raises(TypeError, match="squares returns a generator"):

        def squares(x):
            return (n * n for n in x)

        compare(squares, squares, [1, 2])


def test_a_function_that_prints_is_heard_once(capsys):
    def chatty():
        print("working")
        return spin(2_000)

    race = compare(slow, chatty)
    assert capsys.readouterr().out == "working\n"
    assert "chatty prints: shown once, then swallowed, and part of its time." in repr(race)


def test_a_function_that_returns_at_once_is_told():
    assert "int is so short that this is mostly the time of calling it." in repr(compare(lambda: slow() * 0, int))


def test_a_function_too_slow_for_the_budget_is_told_what_budget_it_needs():
    start = time.perf_counter()
    race = compare(lambda: sleeping(0.3), lambda: sleeping(0.1), budget=0.3)
    assert time.perf_counter() - start < 1.2
    assert ", 1 pairs" in repr(race) and "budget of 0.3 s is spent: a first look takes about budget=" in repr(race)
    assert race.at_least(1).answer is None


def test_a_first_call_longer_than_the_budget_does_not_spend_it():
    compiled = []

    def lazy():
        if not compiled:
            time.sleep(0.6)
            compiled.append(1)
        return spin(2_000)

    assert compare(slow, lazy, budget=0.5).at_least(5).answer is True


def test_there_is_nothing_to_plot_where_nothing_was_timed():
    with pytest.raises(ValueError, match="no pair was timed"):
        compare(slow, lambda: 8).plot()


def test_where_every_pair_is_interrupted_they_are_kept_all_the_same(monkeypatch):
    monkeypatch.setattr(sys.modules["steptime.compare"], "INTERRUPTED", -1.0)
    race = compare(slow, fast)
    assert race.interrupted == race.drawn > len(race.ratios) > 0.2 * race.drawn
    assert race.at_least(10).answer is True


@pytest.mark.parametrize("budget", [0.5, 1.5])
def test_the_budget_is_kept(budget):
    start = time.perf_counter()
    race = compare(lambda: sleeping(0.02), lambda: sleeping(0.02), budget=budget)
    race.at_least(1)
    race.differs()
    assert budget - 0.1 < time.perf_counter() - start < budget + 0.5


def test_the_budget_is_kept_by_fast_functions_too():
    start = time.perf_counter()
    race = compare(fast, fast, budget=1)
    race.differs()
    assert 0.9 < time.perf_counter() - start < 1.5


def test_ctrl_c_keeps_what_was_measured():
    program = (
        "import _thread, threading, time\n"
        "from steptime import compare\n"
        "threading.Timer(1.5, _thread.interrupt_main).start()\n"
        "race = compare(lambda: time.sleep(0.01), lambda: time.sleep(0.01), budget=60)\n"
        "race.at_least(1)\n"
        "print(len(race.ratios), race)\n"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 20
    assert (
        int(done.stdout.split()[0]) > 10 and "Stopped by Ctrl-C: this is what was measured until then." in done.stdout
    )


def test_a_progress_bar_comes_after_two_seconds_and_not_before(capsys):
    compare(lambda: sleeping(0.01), lambda: sleeping(0.01), budget=1).at_least(1)
    assert capsys.readouterr().err == ""
    compare(lambda: sleeping(0.01), lambda: sleeping(0.01), budget=8).at_least(1)
    assert " of 8.0 s" in capsys.readouterr().err


@pytest.mark.parametrize("x", [0, -1, "10", None, math.nan, math.inf, True])
def test_a_threshold_that_is_none_is_a_sentence(x):
    with pytest.raises(ValueError, match="at_least: x is how many times faster, a number above 0, not"):
        compare(slow, fast, budget=0.1).at_least(x)


def test_the_random_numbers_of_others_are_left_alone():
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    compare(slow, fast, budget=0.2)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_without_scheduler_statistics_a_race_is_run_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "SCHEDULER", tmp_path / "none")
    race = compare(slow, fast)
    assert race.at_least(10).answer is True and race.interrupted == 0 and race.drawn


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot confine a process to one core")
@pytest.mark.skipif(not measure.SCHEDULER.exists(), reason="this system does not tell who waited for a core")
def test_beside_a_rival_on_one_core_pairs_are_interrupted_and_the_verdict_is_right():
    program = (
        "import os, subprocess, sys; sys.path.insert(0, 'tests')\n"
        "from test_compare import compare, fast, slow\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "rival = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "try:\n"
        "    race = compare(slow, fast, budget=2)\n"
        "    race.at_least(race.ratio)  # asks for its own ratio, so it draws for far longer than one turn on a core\n"
        "    print(race.at_least(10).answer, race.at_least(40).answer, race.interrupted > 0, len(race.ratios) > 13)\n"
        "finally: rival.kill()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True False True True\n"


def test_a_plot_shows_the_pairs_the_ratio_and_its_interval():
    race = compare(slow, fast)
    picture = race.plot()
    [axes] = picture.figure.axes
    assert len(axes.collections[0].get_offsets()) == len(race.ratios) >= FIRST_LOOK
    assert axes.lines[0].get_ydata()[-1] == race.ratio
    assert axes.get_xlabel() == "pairs" and axes.get_ylabel() == "time of a / time of b"
    shown = picture._repr_html_()
    assert f'alt="Ratios of {len(race.ratios)} pairs' in shown and "data:image/png;base64," in shown
    assert "<figcaption>" in shown
