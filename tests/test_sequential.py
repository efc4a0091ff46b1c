"""The statistics, on 100,000 runs whose truth is known; no clock."""

import math
import random
from concurrent.futures import ProcessPoolExecutor

import pytest

from steptime.sequential import ERROR_RATE, PairedRatios, log_capital

RUNS = 12_500  # of each of the eight kinds of noise: 100,000 in all
PAIRS = 40


def steady(drawn, at):
    return 1.0


def drift(drawn, at):
    """The machine gets slower and slower, for both sides alike."""
    return 1 + at / 10


def bursts(drawn, at):
    """Stretches of calm and of storm: what one call meets, the next meets too."""
    return 1.5 if math.sin(at / 7) > 0.6 else 1.0


class Autocorrelated:
    """A level that wanders, so that neighbouring pairs are not independent."""

    def __init__(self):
        self.level = 0.0

    def __call__(self, drawn, at):
        self.level = 0.95 * self.level + drawn.gauss(0, 0.1)
        return math.exp(self.level)


def gaussian(drawn):
    return math.exp(drawn.gauss(0, 0.02))


def heavy(drawn):
    """Cauchy: no mean, no variance."""
    return math.exp(max(-5, min(5, 0.01 * math.tan(math.pi * (drawn.random() - 0.5)))))


def interrupted(drawn):
    """One stretch in ten loses its core for a while; both sides last equally long, so both are hit alike."""
    return gaussian(drawn) + (drawn.expovariate(1) if drawn.random() < 0.1 else 0)


KINDS = {  # the machine's level, the noise of a stretch, the true ratio
    "steady, equal": (lambda: steady, gaussian, 1.0),
    "drift": (lambda: drift, gaussian, 1.0),
    "bursts": (lambda: bursts, interrupted, 1.0),
    "heavy tails": (lambda: steady, heavy, 1.0),
    "autocorrelated": (Autocorrelated, gaussian, 1.0),
    "interrupted": (lambda: steady, interrupted, 1.0),
    "unequal times, truth at the threshold": (lambda: steady, interrupted, 10.0),
    "unequal times, heavy tails and drift": (lambda: drift, heavy, 0.5),
}


def one_run(seed, kind):
    """Whether the truth was ever ruled out, and whether a verdict ever contradicted the interval, in one run."""
    make_level, noise, truth = KINDS[kind]
    drawn, level, ratios, missed, contradicted = random.Random(seed), make_level(), PairedRatios(), False, False
    for pair in range(PAIRS):
        first, second = level(drawn, 2 * pair) * noise(drawn), level(drawn, 2 * pair + 1) * noise(drawn)
        a, b = (first, second) if drawn.random() < 0.5 else (second, first)
        ratios.add(truth * a / b)
        low, high = ratios.interval
        missed |= not low <= truth <= high
        for x in (truth, low, high, 1.0):
            contradicted |= ratios.above(x) is not (True if x < low else False if x > high else None)
    return missed, contradicted


def runs_of(kind):
    outcomes = [one_run(f"{kind} {run}", kind) for run in range(RUNS)]
    return sum(missed for missed, _ in outcomes), sum(contradicted for _, contradicted in outcomes)


@pytest.fixture(scope="module")
def outcomes():
    with ProcessPoolExecutor() as pool:
        return dict(zip(KINDS, pool.map(runs_of, KINDS), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_ruled_out_at_most_once_in_a_thousand_runs_however_often_one_looks(kind, outcomes):
    missed, contradicted = outcomes[kind]
    expected = RUNS * ERROR_RATE
    assert missed <= expected + 4 * math.sqrt(expected)
    assert not contradicted


def noisy_ratio(drawn, truth):
    return truth * interrupted(drawn) / interrupted(drawn)


def test_a_rate_above_the_promised_one_would_be_seen(monkeypatch):
    """The check above can fail: with bets won a thousand times too early it does."""
    monkeypatch.setattr("steptime.sequential.ERROR_RATE", 0.9)
    missed = sum(one_run(f"loose {run}", "steady, equal")[0] for run in range(500))
    assert missed > 500 * 0.01


def test_the_interval_narrows_around_the_truth():
    drawn, ratios, widths = random.Random(2), PairedRatios(), []
    for count in range(1, 1_001):
        ratios.add(noisy_ratio(drawn, truth=3))
        if count in (20, 100, 1_000):
            low, high = ratios.interval
            assert low < 3 < high
            widths.append(high / low)
    assert widths == sorted(widths, reverse=True) and widths[-1] < 1.02


@pytest.mark.parametrize("truth", [1.005, 1 / 1.005])
def test_a_small_difference_is_found_in_the_right_direction(truth):
    drawn = random.Random(4)
    for _ in range(20):
        ratios = PairedRatios()
        while ratios.above(1) is None and len(ratios) < 2_000:
            ratios.add(truth * math.exp(drawn.gauss(0, 0.02)))
        assert ratios.above(1) is (truth > 1)


def test_size_finds_a_small_difference_with_fewer_pairs_than_sides_alone():
    needed, alone = [], []
    for seed in range(30):
        drawn, ratios = random.Random(seed), PairedRatios()
        while ratios.above(1) is None:
            ratios.add(1.005 * math.exp(drawn.gauss(0, 0.02)))
        needed.append(len(ratios))
        drawn, count, above = random.Random(seed), 0, 0
        while log_capital(above, count) < math.log(1 / ERROR_RATE):
            above += drawn.gauss(0, 0.02) + math.log(1.005) > 0
            count += 1
        alone.append(count)
    assert sorted(needed)[15] < 0.85 * sorted(alone)[15]


def test_nothing_is_certain_before_fourteen_pairs():
    ratios = PairedRatios()
    for _ in range(13):
        ratios.add(5.0)
    assert ratios.interval == (0, math.inf) and ratios.above(1) is None
    ratios.add(5.0)
    assert ratios.interval == (5, 5) and ratios.above(1) is True and ratios.above(9) is False


def test_before_the_first_pair_there_is_no_median():
    assert math.isnan(PairedRatios().median) and len(PairedRatios()) == 0


def test_the_bet_is_fair():
    """Whatever the number of coins, the capital's mean over all outcomes is what one started with."""
    for coins in (1, 2, 10, 40):
        mean = sum(math.comb(coins, n) * math.exp(log_capital(n, coins)) for n in range(coins + 1)) / 2**coins
        assert mean == pytest.approx(1)
    assert ERROR_RATE == 0.001
