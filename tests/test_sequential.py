"""The statistics, on ratios whose truth is known; no clock."""

import math
import random

import pytest

from steptime.sequential import ERROR_RATE, PairedRatios, capital


def noisy_ratio(random, truth):
    """One pair's ratio: heavy tails, and now and then an interruption that falls on either side alike."""
    noise = random.gauss(0, 0.02) * random.choice((1, 1, 1, 10))
    return truth * math.exp(noise + random.choice((-1, 1)) * (0.7 if random.random() < 0.1 else 0))


def test_the_interval_misses_the_truth_about_once_in_a_thousand_runs_however_often_one_looks():
    drawn, runs, missed = random.Random(1), 1_000, 0
    for _ in range(runs):
        ratios, ever = PairedRatios(), False
        for _ in range(200):
            ratios.add(noisy_ratio(drawn, truth=3))
            ever = ever or ratios.above(3) is not None
        missed += ever
    assert missed <= 6  # at a rate of 0.001 seven or more of 1,000 come once in 10,000 test runs


def test_the_interval_narrows_around_the_truth():
    drawn, ratios, widths = random.Random(2), PairedRatios(), []
    for count in range(1, 1_001):
        ratios.add(noisy_ratio(drawn, truth=3))
        if count in (20, 100, 1_000):
            low, high = ratios.interval
            assert low < 3 < high
            widths.append(high / low)
    assert widths == sorted(widths, reverse=True) and widths[-1] < 1.02


def test_nothing_is_certain_before_thirteen_pairs():
    ratios = PairedRatios()
    for _ in range(12):
        ratios.add(5.0)
    assert ratios.interval == (0, math.inf) and ratios.above(1) is None
    ratios.add(5.0)
    assert ratios.interval == (5, 5) and ratios.above(1) is True and ratios.above(9) is False


def test_verdicts_and_interval_never_contradict_each_other():
    drawn, ratios = random.Random(3), PairedRatios()
    for _ in range(300):
        ratios.add(noisy_ratio(drawn, truth=2))
        low, high = ratios.interval
        for x in (0.5, 1.9, low, ratios.median, high, 2.1, 8):
            assert ratios.above(x) is (True if x < low else False if x > high else None)


def test_before_the_first_pair_there_is_no_median():
    assert math.isnan(PairedRatios().median) and len(PairedRatios()) == 0


def test_the_bet_is_fair():
    """Whatever the number of coins, the capital's mean over all outcomes is what one started with."""
    for coins in (1, 2, 10, 40):
        mean = sum(math.comb(coins, heads) * math.exp(capital(heads, coins)) for heads in range(coins + 1)) / 2**coins
        assert mean == pytest.approx(1)
    assert ERROR_RATE == 0.001
