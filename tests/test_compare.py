"""Races whose outcome is known, and the mistakes people make with them."""

import math
import time

import numpy as np
import pytest
import torch

from steptime.compare import compare


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
    assert not race.seconds_a


def test_a_tolerance_lets_rounding_pass():
    x = np.random.default_rng(0).normal(size=1_000)

    def backwards(x):
        return sum(x[::-1].tolist())

    assert compare(lambda x: math.fsum(x), backwards, x, same=1e-9, budget=0.1).same.answer is True
    assert compare(lambda x: math.fsum(x), lambda x: backwards(x) + 0.1, x, same=1e-9).same.answer is False


def test_where_both_return_none_nobody_can_tell_whether_they_agree():
    race = compare(lambda: spin(9_000) and None, lambda: spin(900) and None)
    assert race.same.answer is None and race.at_least(3).answer is True
    assert repr(race).startswith("cannot tell whether the answers agree (both return None)")


def test_a_function_that_raises_is_named():
    def broken():
        raise KeyError("weights")

    with pytest.raises(RuntimeError, match="compare: broken raised KeyError: 'weights'") as caught:
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
    ],
)
def test_what_is_no_race_is_a_sentence(arguments, options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        compare(*arguments, **options)


def test_a_budget_too_small_for_an_interval_says_so():
    race = compare(lambda: time.sleep(0.02), lambda: time.sleep(0.02), budget=0.1)
    assert "too few for an interval" in repr(race) and race.at_least(1).answer is None
