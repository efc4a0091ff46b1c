"""The three layers on answers that are right, rounded, wrong, or no answer at all; and the report of two lines."""

import math
import time

import numpy as np
import pytest
import torch

from steptime import compare
from steptime.verify import decisions, error_stays, outputs_agree, relative_error, report

EXACT = np.array([[4.0, 1.0], [2.0, -8.0]])
OFF = np.array([[4.0, 1.0], [2.4, -8.0]])  # by 0.4 of 8


def test_the_error_is_relative_to_the_largest_output():
    assert relative_error(EXACT, OFF) == pytest.approx(0.05)
    assert relative_error(torch.tensor(EXACT), torch.tensor(EXACT).bfloat16()) == 0
    third = torch.tensor([1 / 3], dtype=torch.float64, requires_grad=True)
    assert 0 < relative_error(third, third.float()) < 6e-8
    assert 1e-4 < relative_error(third, third.bfloat16()) < 4e-3


def test_the_tolerance_decides():
    assert outputs_agree(EXACT, OFF, 0.06) and not outputs_agree(EXACT, OFF, 0.04)
    assert outputs_agree(EXACT, OFF, 0.1).margin == pytest.approx(2)


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (np.full((2, 2), math.nan), "4 of 4 outputs are not finite"),
        ([[4.0, 1.0], [2.0, math.inf]], "1 of 4 outputs are not finite"),
        (EXACT.ravel(), "one has the shape (2, 2), the other (4,)"),
        (EXACT[:, :1], "one has the shape"),
        (np.empty((0, 2)), "outputs is empty"),
        (np.array([["a", "b"]] * 2), "outputs must hold real numbers"),
        (EXACT + 1j, "outputs must hold real numbers, not complex128"),
        (torch.tensor(EXACT + 1j), "outputs must hold real numbers, not complex128"),
        (torch.tensor(EXACT + 1j).conj(), "outputs must hold real numbers, not complex128"),
    ],
)
def test_outputs_that_are_no_answer_never_agree(outputs, sentence):
    verdict = outputs_agree(EXACT, outputs, 0.5)
    assert verdict.answer is False and sentence in verdict.evidence
    with pytest.raises(ValueError):
        relative_error(EXACT, outputs)


@pytest.mark.parametrize(
    ("exact", "sentence"),
    [
        (EXACT.astype(np.float32), "exact must be of type float64, and computed in it, not float32"),
        (torch.ones(2), "exact must be of type float64, and computed in it, not torch.float32"),
        ([1.0], "exact must be of type float64, and computed in it, not list"),
        (np.array([1.0, math.nan]), "1 of 2 exact outputs are not finite"),
        (np.array([]), "exact is empty"),
    ],
)
def test_an_original_that_shows_nothing_is_a_sentence(exact, sentence):
    for judge in (relative_error, lambda *both: outputs_agree(*both, 0.5)):
        with pytest.raises(ValueError, match=sentence):
            judge(exact, exact)


def test_nan_against_nan_is_no_agreement():
    both = np.array([1.0, math.nan])
    with pytest.raises(ValueError, match="not finite"):
        outputs_agree(both, both, 0.5)


@pytest.mark.parametrize("tolerance", [0, 1, -1e-6, math.nan, "1e-6"])
def test_a_tolerance_that_lets_anything_pass_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance is a relative error between 0 and 1"):
        outputs_agree(EXACT, EXACT, tolerance)


SCORES = np.array([[5.0, 1.0, 0.0], [2.0, 2.1, 0.0], [0.0, 3.0, 9.0], [1.0, 0.0, 4.0]])


def test_a_near_tie_that_flips_is_told_from_a_clear_decision_that_does():
    near, clear = SCORES.copy(), SCORES.copy()
    near[1] = [2.1, 2.0, 0.0]
    clear[2] = [0.0, 9.0, 3.0]
    assert decisions(SCORES, near).flipped.tolist() == [1] and decisions(SCORES, clear).flipped.tolist() == [2]
    assert decisions(SCORES, near).margins == pytest.approx([4, 0.1, 6, 3])
    assert decisions(SCORES, near).are_near_ties(0.25) and not decisions(SCORES, clear).are_near_ties(0.25)
    assert decisions(SCORES, near).at_least(0.75) and not decisions(SCORES, near).at_least(0.76)
    assert decisions(SCORES, SCORES).agreement == 1


def test_a_share_is_reached_where_it_is_met_exactly():
    before = np.tile([1.0, 0.0], (100, 1))
    after = before.copy()
    after[:7] = [0.0, 1.0]
    assert decisions(before, after).agreement == 0.93 and decisions(before, after).at_least(0.93)
    assert decisions(before, before).at_least(1)


def test_of_equal_margins_none_is_farther_from_a_tie():
    before = np.array([[1.0, 0.0]] * 9 + [[9.0, 0.0]])
    for place, near in ((0, True), (8, True), (9, False)):
        after = before.copy()
        after[place] = [0.0, 1.0]
        assert decisions(before, after).are_near_ties(0.1).answer is near


@pytest.mark.parametrize("share", [0, -0.1, 1.01, 95, math.nan, "0.9", None])
def test_what_is_no_share_is_a_sentence(share):
    flips = decisions(SCORES, SCORES)
    for judge in (
        flips.at_least,
        flips.are_near_ties,
        lambda share: error_stays(np.zeros(2), *[np.ones(2)] * 2, share),
    ):
        with pytest.raises(ValueError, match="share is a part of the"):
            judge(share)


def test_a_share_that_lets_anything_pass_is_refused():
    with pytest.raises(ValueError, match="are_near_ties: share is"):
        decisions(SCORES, SCORES).are_near_ties(1)
    with pytest.raises(ValueError, match="error_stays: share is"):
        error_stays(np.zeros(2), np.ones(2), np.ones(2), 1)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_score_that_is_no_number_decides_nothing(odd):
    after = SCORES.copy()
    after[3, 2] = odd  # the class that won before: argmax alone would not notice
    assert decisions(SCORES, after).flipped.tolist() == [3]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (SCORES, SCORES[:3], "before has the shape"),
        (SCORES[0], SCORES[0], "must be"),
        (SCORES[:, :1], SCORES[:, :1], "of 2 classes or more"),
        (np.full((2, 2), math.nan), np.ones((2, 2)), "4 of 4 scores before are not finite"),
        (np.empty((0, 3)), np.empty((0, 3)), "before is empty"),
    ],
)
def test_scores_that_decide_nothing_are_a_sentence(before, after, sentence):
    with pytest.raises(ValueError, match=sentence):
        decisions(before, after)


def test_the_error_of_predictions_moves():
    truth = np.zeros(4)
    before, after = np.array([1.0, -1, 1, -1]), np.array([1.02, -1.02, 1.02, -1.02])
    assert error_stays(truth, before, after, 0.03) and not error_stays(truth, before, after, 0.01)
    better = error_stays(truth, before, before / 2, 0.1)
    assert better.answer is False and "moved by -50.00%" in better.evidence
    assert not error_stays(truth, before, np.full(4, math.nan), 0.5)


@pytest.mark.parametrize(
    ("truth", "before", "after", "sentence"),
    [
        (np.zeros(2), np.ones((2, 1)), np.ones((2, 1)), "the shapes are"),
        (np.zeros(2), np.array([1, math.nan]), np.ones(2), "1 of 2 predictions before are not finite"),
        (np.array([0, math.inf]), np.ones(2), np.ones(2), "1 of 2 true values are not finite"),
        (np.ones(2), np.ones(2), np.ones(2), "no error before"),
    ],
)
def test_predictions_that_show_nothing_are_a_sentence(truth, before, after, sentence):
    with pytest.raises(ValueError, match=sentence):
        error_stays(truth, before, after, 0.1)


BEFORE, AFTER = [0.94, 0.95, 0.96, 0.95, 0.94], [0.95, 0.94, 0.96, 0.95, 0.95]


def nap(seconds):
    time.sleep(seconds)
    return 1


def test_the_report_has_two_lines_of_what_was_measured():
    race = compare(lambda: nap(0.008), lambda: nap(0.002), budget=1)
    speed, quality = report(race, BEFORE, AFTER, margin=0.2, metric="accuracy").splitlines()
    assert speed.startswith("step time  ") and " -> " in speed and "same machine, same batch" in speed
    assert str(race.ratios).split(",")[0] in speed
    assert quality == "accuracy   0.9480 ± 0.0084 -> 0.9500 ± 0.0071 (5 seeds each): equivalent within 0.2"


@pytest.mark.parametrize(
    ("after", "margin", "words"),
    [
        (AFTER, 0.001, "cannot tell whether equivalent within 0.001"),
        ([0.5, 0.51, 0.5, 0.49, 0.5], 0.1, "(5 seeds each): not equivalent within 0.1"),
        ([*AFTER, math.nan], 0.1, "(5 and 6 seeds): not equivalent"),
        (AFTER[:3], 0.2, "(5 and 3 seeds): cannot tell"),
    ],
)
def test_the_report_praises_no_speed_of_a_wrong_answer(after, margin, words):
    race = compare(lambda: 1, lambda: 2)
    speed, quality = report(race, BEFORE, after, margin).splitlines()
    assert "not timed, the answers differ" in speed and words in quality


def test_the_report_says_where_nobody_compared_the_answers():
    speed = report(compare(lambda: nap(0.002) and None, lambda: nap(0.002) and None, budget=0.2), BEFORE, AFTER, 0.2)
    assert " -> " in speed and "cannot tell whether the answers agree: both return None" in speed


def test_the_report_of_a_race_stopped_before_its_first_pair():
    calls = []

    def stopped():
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return nap(0.01)

    race = compare(lambda: nap(0.01), stopped)
    assert race.same and not race.pairs
    speed = report(race, BEFORE, AFTER, margin=0.2).splitlines()[0]
    assert speed == "step time  not timed, not one pair of steps was measured"
