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
        (EXACT.astype(np.float32), "exact must be computed in float64, not float32"),
        (torch.ones(2), "exact must be computed in float64, not torch.float32"),
        ([1.0], "exact must be computed in float64, not list"),
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


@pytest.mark.parametrize("tolerance", [0, 1, -1e-6, math.nan])
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
    assert "not timed" in speed and words in quality
