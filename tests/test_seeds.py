"""Trainings over seeds, with what must not pass for a spread; and bits."""

import math
import random
import time

import numpy as np
import pytest
import torch

from steptime.seeds import over_seeds, same_bits, set_seeds


def seeded(seed):
    set_seeds(seed)
    return torch.rand(()).item() + random.random() + np.random.rand()


def unseeded(seed):
    return torch.rand(())


def test_each_seed_is_trained_and_its_metric_kept_in_order():
    runs = over_seeds(seeded, range(4))
    assert list(runs) == [seeded(seed) for seed in range(4)] and runs.seeds == (0, 1, 2, 3)
    assert len(set(runs)) == 4 and str(runs).endswith("(4 seeds)")


def test_the_first_seed_is_trained_once_more_unless_a_seed_fixes_nothing():
    trained = []
    over_seeds(lambda seed: trained.append(seed) or float(seed), (5, 6))
    over_seeds(lambda seed: trained.append(seed) or float(seed), (7, 8), seed_fixes=False)
    assert trained == [5, 6, 5, 7, 8]


def test_a_seed_that_was_not_set_is_a_sentence():
    with pytest.raises(ValueError, match=r"unseeded\(3\) gave 0\.\d+, then 0\.\d+, so its seed does not fix it"):
        over_seeds(unseeded, [3, 4])
    assert len(over_seeds(unseeded, [3, 4], seed_fixes=False)) == 2


@pytest.mark.parametrize(
    ("stop", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (MemoryError, RuntimeError), (None, ValueError)]
)
def test_what_was_trained_before_the_end_is_not_lost(stop, raised):
    trained = []

    def train(seed):
        if seed == 9 and stop:
            raise stop
        trained.append(seed)
        return len(trained) / 4  # so the first seed, trained again, gives another number

    with pytest.raises(raised) as caught:
        over_seeds(train, [3, 4, 9])
    finished = "{3: 0.25, 4: 0.5}" if stop else "{3: 0.25, 4: 0.5, 9: 0.75}"
    assert caught.value.__notes__ == [f"over_seeds: finished, {{seed: metric}}: {finished}"]


def test_a_run_that_ends_in_nan_is_kept_to_be_judged():
    assert all(map(math.isnan, over_seeds(lambda seed: math.nan, range(3))))


@pytest.mark.parametrize(
    ("train", "seeds", "error", "sentence"),
    [
        (seeded, [], ValueError, "at least one seed, and each once"),
        (seeded, [1, 2, 1], ValueError, "a copy of a run shows nothing"),
        (lambda seed: None, [0], TypeError, r"\(0\) returned a NoneType: let it return its final metric"),
        (lambda seed: True, [0], TypeError, "returned a bool"),
        (lambda seed: torch.rand(2), [0], TypeError, "returned a Tensor"),
        (lambda seed: 1 / seed, [1, 0], RuntimeError, r"\(0\) raised ZeroDivisionError"),
    ],
)
def test_what_is_no_training_is_a_sentence(train, seeds, error, sentence):
    with pytest.raises(error, match=sentence):
        over_seeds(train, seeds)


def test_a_long_training_shows_a_progress_bar(capsys):
    over_seeds(lambda seed: time.sleep(0.4) or float(seed), range(4))
    assert "run" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_the_same_bits(dtype):
    tensor = torch.tensor([0, 1, 3]).to(dtype)
    assert same_bits({"a": [tensor, 1.5, None, "b"]}, {"a": [tensor.clone(), 1.5, None, "b"]})
    assert not same_bits([tensor], [tensor.flip(0)])


def test_bits_are_stricter_than_equality():
    assert not same_bits(torch.tensor(0.0), torch.tensor(-0.0))
    assert not same_bits(torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert not same_bits(np.ones(2), np.ones((2, 1)))
    assert not same_bits([1.0], [1.0, 2.0])
    assert not same_bits({1: 1.0, "1": 2.0}, {1: 3.0, "1": 2.0})
    assert not same_bits({1: 1.0}, {"1": 1.0})
    assert not same_bits({"a": {"b": 1.0}, "a.b": 2.0}, {"a": {"b": 3.0}, "a.b": 2.0})
    assert not same_bits(0.1 + 0.2, 0.3)
    assert same_bits(torch.tensor([math.nan]), torch.tensor([math.nan]))


def test_one_weight_of_a_network_is_found():
    set_seeds(0)
    one = torch.nn.Linear(3, 2)
    set_seeds(0)
    other = torch.nn.Linear(3, 2)
    assert same_bits(one, other)
    with torch.no_grad():
        other.bias[1] = torch.nextafter(other.bias[1], torch.tensor(9.0))
    verdict = same_bits(one, other)
    assert verdict.answer is False and verdict.evidence == "1 of 2 parts differ, bias first"


@pytest.mark.parametrize("nothing", [{}, [], ()])
def test_nothing_is_not_the_same_as_nothing(nothing):
    with pytest.raises(ValueError, match="nothing to compare"):
        same_bits(nothing, nothing)
