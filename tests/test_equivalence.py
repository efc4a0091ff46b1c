"""The equivalence test's own error rates, on metrics whose truth is known, and what it says where it cannot judge."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from steptime.equivalence import FEWEST, equivalent, interval_of_move, plus_minus
from steptime.sequential import ERROR_RATE

DRAWS = 10_000
MARGIN = 1.0


def normal(drawn, shape):
    return drawn.normal(0, 1, shape)


def accuracies(drawn, shape):
    """Of 500 held-out samples 95 % are right, more or less: steps, and skewed. One unit is a standard deviation."""
    right = drawn.binomial(500, 0.95, shape)
    return (right - 475) / math.sqrt(500 * 0.95 * 0.05)


def heavy(drawn, shape):
    """Student's t with 4 degrees of freedom: now and then a run strays far."""
    return drawn.standard_t(4, shape) / math.sqrt(2)


def exponential(drawn, shape):
    """Far more skewed than a metric should be: most runs end near the best, a few far off."""
    return drawn.exponential(1, shape) - 1


def called_equivalent(noise, seeds, move, error_rate, spread=1.0, seeds_after=None, draws=DRAWS):
    """The share of trials that are called equivalent; the margin is wide enough to be reached at all."""
    drawn = np.random.default_rng(seeds)
    margin = 6 * max(1.0, spread) / math.sqrt(seeds / 10)
    before = noise(drawn, (draws, seeds))
    after = spread * noise(drawn, (draws, seeds_after or seeds)) + move * margin
    low, high = interval_of_move(before, after, error_rate)
    return np.mean((low > -margin) & (high < margin))


def most(rate):
    """What is seen of a true rate in DRAWS trials, at most, but for one time in 30,000."""
    return binom.isf(1 / 30_000, DRAWS, rate) / DRAWS


@pytest.mark.parametrize("error_rate", [0.05, ERROR_RATE])
@pytest.mark.parametrize("seeds", [5, 10, 30])
@pytest.mark.parametrize("move", [1, -1])
def test_at_the_margins_edge_it_errs_at_most_at_its_rate(seeds, move, error_rate):
    assert called_equivalent(normal, seeds, move, error_rate) <= most(error_rate)


def test_the_rate_is_used_up():
    """An instrument that never says equivalent would pass the test above."""
    assert called_equivalent(normal, 10, 1, 0.05) > 0.04


@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_the_two_sides_may_spread_differently(spread):
    """Welch's test is an approximation there: a fifth more than the rate is let pass."""
    assert called_equivalent(normal, 8, 1, 0.05, spread) <= most(0.06)


@pytest.mark.parametrize("noise", [accuracies, heavy])
@pytest.mark.parametrize("seeds", [5, 10])
def test_metrics_need_not_be_normal(noise, seeds):
    assert called_equivalent(noise, seeds, 1, 0.05) <= most(0.06)
    assert called_equivalent(noise, seeds, -1, 0.05) <= most(0.06)


@pytest.mark.parametrize(
    ("noise", "seeds", "seeds_after", "spread", "true_rate"),
    [
        (normal, 5, 5, 1, 0.001),
        (normal, 20, 20, 1, 0.001),
        (exponential, 20, 20, 1, 0.001),  # equal skew on both sides cancels
        (normal, 5, 5, 5, 0.002),
        (normal, 20, 20, 3, 0.0012),
        (normal, 5, 20, 1, 0.003),
        (normal, 5, 20, 3, 0.001),  # where the wider side has the more runs
        (normal, 20, 5, 3, 0.003),
        (accuracies, 5, 5, 3, 0.002),
        (accuracies, 5, 20, 1, 0.003),
        (accuracies, 20, 5, 3, 0.003),
    ],
)
def test_the_books_rate_at_the_margins_edge_and_where_it_is_exceeded(noise, seeds, seeds_after, spread, true_rate):
    for move in (1, -1):
        assert called_equivalent(noise, seeds, move, ERROR_RATE, spread, seeds_after) <= most(true_rate)


@pytest.mark.parametrize(
    ("noise", "seeds", "seeds_after", "spread", "at_least", "at_most"),
    [
        (normal, 5, 20, 1, 0.002, 0.003),
        (exponential, 20, 5, 3, 0.03, 0.04),
    ],
)
def test_the_docstrings_warning_is_true(noise, seeds, seeds_after, spread, at_least, at_most):
    """In 100,000 trials: so much more than its rate does it err with unequal numbers of runs, and with skew."""
    erred = called_equivalent(noise, seeds, 1, ERROR_RATE, spread, seeds_after, draws=100_000)
    assert at_least < erred < at_most


def test_what_did_not_move_is_found_equivalent():
    assert called_equivalent(normal, 10, 0, ERROR_RATE) > 0.95


def test_the_verdict_is_what_the_interval_says():
    drawn = np.random.default_rng(0)
    seen = set()
    for move in (0, 0.5, 1, 3):
        for _ in range(50):
            before, after = drawn.normal(0, 0.3, 10), drawn.normal(move, 0.5, 10)
            low, high = interval_of_move(before, after)
            expected = True if low > -1 and high < 1 else False if low > 1 or high < -1 else None
            for one, other in ((before, after), (-before, -after), (after, before)):
                verdict = equivalent(one, other, margin=1)
                assert verdict.answer is expected, verdict
                assert expected is not True or verdict.margin > 1
            seen.add(expected)
    assert seen == {True, False, None}


GOOD = [0.94, 0.95, 0.96, 0.95, 0.94, 0.955]


@pytest.mark.parametrize(
    ("before", "after", "answer", "sentence"),
    [
        (GOOD, GOOD[:4], None, "4 runs after are too few: train at least 5"),
        ([], GOOD, None, "0 runs before are too few"),
        ([0.95] * 8, GOOD, None, "all 8 runs before ended in exactly 0.95: does the seed reach the training"),
        (GOOD, [0.95] * 8, None, "all 8 runs after ended in exactly 0.95"),
        ([0.95] * 8, [0.95] * 8, None, "all 8 runs before"),
        (GOOD, [*GOOD, math.nan], False, "1 of 7 runs after ended without a finite metric"),
        (GOOD, [*GOOD, math.inf], False, "1 of 7 runs after"),
        ([*GOOD, math.nan], GOOD, None, "1 of 7 runs before"),
        ([math.nan] * 6, [math.nan] * 6, None, "6 of 6 runs before"),
    ],
)
def test_where_it_cannot_judge_it_never_says_equivalent(before, after, answer, sentence):
    verdict = equivalent(before, after, margin=10)
    assert verdict.answer is answer and sentence in verdict.evidence


def test_a_collapse_to_one_number_is_no_doubt_about_the_seed():
    collapsed = equivalent(GOOD, [0.1] * 10, margin=0.02)
    assert collapsed.answer is False and "-> 0.1 ± 0 (6 and 10 seeds)" in collapsed.evidence
    assert equivalent(GOOD, [0.97] * 10, margin=0.02).answer is None  # moved by about the margin
    assert equivalent([0.1] * 10, GOOD, margin=0.02).answer is None
    assert equivalent([0.1] * 10, [0.9] * 10, margin=0.02).answer is None


def test_a_wide_margin_does_not_make_up_for_few_runs():
    assert len(GOOD[: FEWEST - 1]) < FEWEST
    assert equivalent(GOOD[: FEWEST - 1], GOOD, margin=1e9).answer is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((GOOD, GOOD[::-1], 0), "margin is how far the mean may move"),
        ((GOOD, GOOD[::-1], math.nan), "margin is how far the mean may move"),
        ((GOOD, GOOD[::-1], "0.1"), "margin is how far the mean may move, a number above 0, not '0.1'"),
        ((GOOD, GOOD[::-1], None), "margin is how far the mean may move"),
        ((GOOD, GOOD[::-1], 0.1, 0.5), "error_rate lies between 0 and 0.5"),
        ((GOOD, GOOD[::-1], 0.1, "0.05"), "error_rate lies between 0 and 0.5"),
        ((GOOD, GOOD, 0.1), "the same runs"),
        ((0.95, GOOD, 0.1), "before is a row of final metrics"),
        ((GOOD, "0.95", 0.1), "after is a row of final metrics"),
        ((GOOD, ["high"] * 5, 0.1), "after holds something that is no number"),
        ((GOOD, ["0.95"] * 3 + ["0.94"] * 3, 0.1), "after holds something that is no number"),
        ((GOOD, np.array([0.95, "0.94"] * 3, dtype=object), 0.1), "after holds something that is no number"),
        ((GOOD, [*GOOD, None], 0.1), "after holds something that is no number"),
        ((GOOD, [[0.9, 0.8], [0.9]], 0.1), "after holds something that is no number"),
        ((GOOD, [[0.9, 0.8]] * 5, 0.1), "after has 2 dimensions"),
    ],
)
def test_what_cannot_be_judged_is_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        equivalent(*arguments)


def test_mean_and_spread_have_digits_that_mean_something():
    assert plus_minus([0.95, 0.96, 0.94]) == "0.950 ± 0.010"
    assert plus_minus([1234.0, 1334.0]) == "1284 ± 71"
    assert plus_minus([0.5]) == "0.5 ± nan"
