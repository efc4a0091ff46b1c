"""Equality first: how far two answers are apart, or why they cannot be compared."""

import math

import numpy as np
import pytest
import torch

from steptime.answers import Unlike, difference


class Stubborn:
    """Compares like a table: with an answer that is neither true nor false."""

    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None


@pytest.mark.parametrize(
    ("expected", "actual", "apart"),
    [
        (4.0, 4.0, 0),
        (4.0, 5.0, 0.25),
        (0.0, 0.5, 0.5),  # nothing to be relative to
        (True, False, 1),
        (2 + 0j, 2 + 1j, 0.5),
        (2**60, 2**60 + 1, 2.0**-60),
        (np.array([1.0, 10.0]), np.array([2.0, 10.0]), 0.1),  # relative to the largest magnitude
        (np.array([1, 10]), [1, 10], 0),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0),
        (torch.tensor([1.0, 4.0]), torch.tensor([1.0, 5.0]), 0.25),
        (torch.tensor([1.0, 4.0], requires_grad=True), np.array([1.0, 4.0]), 0),
        (torch.tensor([1.0, 256.0], dtype=torch.bfloat16), torch.tensor([1.0, 256.0]), 0),
        ((1.0, {"loss": 2.0}), (1.0, {"loss": 3.0}), 0.5),
        ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)], 0),
        ("yes", "yes", 0),
        ("yes", "no", math.inf),
        ({}, {}, 0),
        (np.array(["a", "b"]), np.array(["a", "b"]), 0),
        (np.array(["a", "b"]), np.array(["a", "c"]), math.inf),
        (torch.eye(2).to_sparse(), torch.eye(2), 0),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), 0),
    ],
)
def test_difference(expected, actual, apart):
    assert difference(expected, actual) == pytest.approx(apart, abs=0 if apart == 0 else 1e-25)


@pytest.mark.parametrize(
    ("expected", "actual", "apart"),
    [
        ([math.nan, 1.0], [math.nan, 1.0], 0),
        ([math.nan, 1.0], [1.0, 1.0], math.inf),
        ([1.0, 1.0], [math.nan, 1.0], math.inf),
        ([math.inf, 1.0], [math.inf, 2.0], 1),
        ([math.inf], [-math.inf], math.inf),
        ([1.0], [math.inf], math.inf),
    ],
)
@pytest.mark.parametrize("kind", [np.array, torch.tensor, list])
def test_non_finite_answers(kind, expected, actual, apart):
    assert difference(kind(expected), kind(actual)) == apart


@pytest.mark.parametrize(
    ("expected", "actual", "sentence"),
    [
        (np.ones(3), np.ones((3, 1)), r"shape \(3,\), the other \(3, 1\)"),
        (1.0, np.ones(1), r"shape \(\), the other \(1,\)"),
        ((1, "a"), (1, "a", 2), "one has 2 items, the other 3"),
        ({"a": 1}, {"b": 1}, "keys a, the other b"),
        (1.0, None, "one is a float, the other None"),
        (1.0, "1.0", "one is a float, the other a str"),
        (np.ones(1), {"a": 1}, "one is a ndarray, the other a dict"),
        (Stubborn(), Stubborn(), "two of a Stubborn cannot be compared"),
    ],
)
def test_unlike_answers_are_a_sentence(expected, actual, sentence):
    with pytest.raises(Unlike, match=sentence):
        difference(expected, actual)
