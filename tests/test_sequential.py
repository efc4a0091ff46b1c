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


def other_shape(drawn):
    """The median of `gaussian`, and a slow mode on one side: not exchangeable, and yet no slower in the median."""
    return gaussian(drawn) * (1.05 if drawn.random() < 0.45 else 1 / 1.001)


def one_run(seed, kind):
    """Of one run: was the truth ever ruled out, was an equal pair ever called shifted, did anything contradict?"""
    make_level, noise, truth = KINDS[kind]
    drawn, level, ratios = random.Random(seed), make_level(), PairedRatios()
    missed = shifted = contradicted = False
    for pair in range(PAIRS):
        first, second = level(drawn, 2 * pair) * noise(drawn), level(drawn, 2 * pair + 1) * noise(drawn)
        a, b = (first, second) if drawn.random() < 0.5 else (second, first)
        ratios.add(truth * a / b)
        ratios.bet(truth * a / b)
        low, high = ratios.interval
        missed |= ratios.above(truth) is not None
        shifted |= truth == 1 and ratios.shifted is not None
        contradicted |= not low <= ratios.median <= high or (ratios.shifted, ratios.above(1)) in (
            (1, False),
            (-1, True),
        )
    return missed, shifted, contradicted


def runs_of(kind):
    return [sum(outcome) for outcome in zip(*(one_run(f"{kind} {run}", kind) for run in range(RUNS)), strict=True)]


@pytest.fixture(scope="module")
def outcomes():
    with ProcessPoolExecutor() as pool:
        return dict(zip(KINDS, pool.map(runs_of, KINDS), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_is_ruled_out_at_most_once_in_a_thousand_runs_however_often_one_looks(kind, outcomes):
    missed, shifted, contradicted = outcomes[kind]
    expected = RUNS * ERROR_RATE
    assert max(missed, shifted) <= expected + 3 * math.sqrt(expected)
    assert not contradicted


def test_over_all_kinds_together_the_rate_is_held_more_closely(outcomes):
    expected = len(KINDS) * RUNS * ERROR_RATE
    for which in (0, 1):
        assert sum(outcome[which] for outcome in outcomes.values()) <= expected + 2 * math.sqrt(expected)


def test_the_chance_that_the_interval_ever_misses_is_at_most_the_rate_exactly():
    """All sequences of 400 fair coins at once: the chance of each count, less what was ruled out on the way."""
    alive, ruled_out = {0: 1.0}, 0.0
    for pairs in range(1, 401):
        after = {}
        for above, chance in alive.items():
            for count in (above, above + 1):
                after[count] = after.get(count, 0.0) + chance / 2
        gone = [count for count in after if log_capital(count, pairs) >= math.log(1 / ERROR_RATE)]
        ruled_out += sum(after.pop(count) for count in gone)
        alive = after
    assert 0.1 * ERROR_RATE < ruled_out <= ERROR_RATE


def test_the_bet_on_sizes_is_fair_whatever_the_sizes():
    """Of each pair's two possible sides, each gambler wins on one what it loses on the other."""
    drawn = random.Random(6)
    for _ in range(50):
        past = [drawn.gauss(0, 0.02) for _ in range(drawn.randrange(1, 40))]
        size = abs(drawn.gauss(0, 0.03))
        after = []
        for log_ratio in (size, -size):
            ratios = PairedRatios()
            for earlier in past:
                ratios.bet(math.exp(earlier))
            before = list(ratios._above)
            ratios.bet(math.exp(log_ratio))
            after.append(ratios._above)
        for gambler, capital in enumerate(before):
            assert (after[0][gambler] + after[1][gambler]) / 2 == pytest.approx(capital)


def test_a_slow_mode_on_one_side_does_not_move_the_interval_off_the_median():
    """Two functions with one median and other shapes: only the game on sides may judge their ratio."""
    for seed in range(20):
        drawn, ratios = random.Random(seed), PairedRatios()
        centre = sorted(other_shape(drawn) / gaussian(drawn) for _ in range(4_001))[2_000]
        for _ in range(1_500):
            ratios.add(other_shape(drawn) / gaussian(drawn) / centre * 0.995)
            assert ratios.above(1) is not True
            low, high = ratios.interval
            assert low <= ratios.median <= high


@pytest.mark.parametrize("ratio", [0, -1, math.nan, math.inf])
def test_what_is_no_ratio_is_a_sentence(ratio):
    with pytest.raises(ValueError, match="is a number above 0, not"):
        PairedRatios().add(ratio)
    with pytest.raises(ValueError, match="is a number above 0, not"):
        PairedRatios().bet(ratio)


def noisy_ratio(drawn, truth):
    return truth * interrupted(drawn) / interrupted(drawn)


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
        ratios, count = PairedRatios(), 0
        while ratios.shifted is None and count < 2_000:
            ratios.bet(truth * math.exp(drawn.gauss(0, 0.02)))
            count += 1
        assert ratios.shifted == (1 if truth > 1 else -1)


def test_size_finds_a_small_difference_with_fewer_pairs_than_sides_alone():
    needed, alone = [], []
    for seed in range(30):
        drawn, ratios, count = random.Random(seed), PairedRatios(), 0
        while ratios.shifted is None:
            ratios.bet(1.005 * math.exp(drawn.gauss(0, 0.02)))
            count += 1
        needed.append(count)
        drawn, count, above = random.Random(seed), 0, 0
        while log_capital(above, count) < math.log(1 / ERROR_RATE):
            above += drawn.gauss(0, 0.02) + math.log(1.005) > 0
            count += 1
        alone.append(count)
    assert sorted(needed)[15] < 0.85 * sorted(alone)[15]


def test_on_a_machine_that_changes_its_speed_the_few_pairs_it_left_alone_are_enough():
    """Three pairs in four meet two speeds; those that meet one find half a percent."""
    needed = []
    for seed in range(30):
        drawn, ratios, count = random.Random(seed), PairedRatios(), 0
        while ratios.shifted is None:
            ratios.bet(1.005 * math.exp(drawn.gauss(0, 0.1 if drawn.random() < 0.75 else 0.003)))
            count += 1
        assert ratios.shifted == 1
        needed.append(count)
    assert sorted(needed)[15] < 200


def test_nothing_is_certain_before_thirteen_pairs():
    ratios = PairedRatios()
    for _ in range(12):
        ratios.add(5.0)
    assert ratios.interval == (0, math.inf) and ratios.above(1) is None
    ratios.add(5.0)
    assert ratios.interval == (5, 5) and ratios.above(1) is True and ratios.above(9) is False


def test_pairs_timed_by_hand_get_the_verdicts_of_a_race():
    ratios = PairedRatios((3.0 + 0.01 * number, 1.0) for number in range(21))
    assert repr(ratios) == "3.10x (3.01-3.19), 21 pairs" and ratios.median == pytest.approx(3.1)
    assert ratios.at_least(2).answer is True and ratios.at_least(2).margin == pytest.approx(3.01 / 2)
    assert ratios.at_least(4).answer is False and ratios.at_least(3.1).answer is None
    assert ratios.at_least(2).evidence == "3.10x (3.01-3.19), 21 pairs, asked for 2x"


def test_within_is_judged_on_both_sides_of_one():
    close = PairedRatios((1 + 0.001 * (number % 5), 1.02) for number in range(40))  # b takes about 2 % longer
    assert close.within(0.05).answer is True and close.within(0.01).answer is False
    assert close.within(0.02).answer is None and close.within(0.05).margin == pytest.approx(2.5)
    assert PairedRatios([(1, 1)] * 5).within(0.05).answer is None  # too few
    assert repr(PairedRatios()) == "no pairs"
    assert repr(PairedRatios([(2, 1)])) == "2.00x (too few pairs for an interval), 1 pairs"


def test_before_the_first_pair_there_is_no_median():
    assert math.isnan(PairedRatios().median) and len(PairedRatios()) == 0


def test_the_bet_is_fair():
    """Whatever the number of coins, the capital's mean over all outcomes is what one started with."""
    for coins in (1, 2, 10, 40):
        mean = sum(math.comb(coins, n) * math.exp(log_capital(n, coins)) for n in range(coins + 1)) / 2**coins
        assert mean == pytest.approx(1)
    assert ERROR_RATE == 0.001
