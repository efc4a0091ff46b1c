"""Amdahl's bound: what a part can give to the whole."""

import math

import pytest

from steptime.bounds import amdahl, rank


def test_a_tenth_of_a_step_never_gives_more_than_a_ninth():
    assert amdahl(0.1) == pytest.approx(1 / 0.9)
    assert amdahl(0.1, 2) == pytest.approx(1 / 0.95)


def test_the_bound_is_what_a_clock_would_say():
    loading, computing = 6.0, 4.0
    assert amdahl(loading / (loading + computing), 3) == pytest.approx((6 + 4) / (6 / 3 + 4))
    assert amdahl(1, 5) == 5 and amdahl(0, 5) == 1 and amdahl(1) == math.inf


def test_a_part_made_slower_slows_the_whole():
    assert amdahl(0.5, 0.5) == pytest.approx(1 / 1.5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [((1.2,), "from 0 to 1, not 1.2"), ((-0.1,), "not -0.1"), ((math.nan,), "not nan"), ((0.5, 0), "above 0, not 0")],
)
def test_what_makes_no_bound_is_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        amdahl(*arguments)


def test_parts_are_ranked_by_what_they_can_give():
    ranking = rank({"optimiser": 0.001, "loading": 0.006, "forward": 0.003})
    assert [part.name for part in ranking] == ["loading", "forward", "optimiser"]
    assert ranking[0].share == pytest.approx(0.6) and ranking[0].bound == pytest.approx(2.5)
    assert repr(ranking).splitlines()[1].split() == ["loading", "6.00", "ms", "60%", "2.50x", "faster"]


@pytest.mark.parametrize("seconds", [{}, {"forward": 0}, {"forward": -1, "backward": 2}, {"forward": math.nan}])
def test_parts_without_a_whole_are_a_sentence(seconds):
    with pytest.raises(ValueError, match="the parts need times"):
        rank(seconds)
