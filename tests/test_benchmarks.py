"""The benchmark of `compare`: its replay finds what was recorded, its peers what is plain, its bounds are right."""

import pytest

from benchmarks import compare_power, peers


def test_a_replayed_race_finds_which_side_was_slower_and_the_coin_hides_it():
    pairs = compare_power.record("py200", 0.2, seconds=0.6)
    side, took, (low, high) = compare_power.replay(pairs, 0, budget=0.5, swap=False)
    assert side == 1 and 0 < took < 0.5 and low < 1.2 < high
    sides = [compare_power.replay(pairs, 0, budget=0.5, swap=True)[0] for _ in range(20)]
    assert sides.count(None) >= 19


def test_each_peer_finds_a_function_slower_that_takes_five_times_as_long(monkeypatch):
    monkeypatch.setattr(peers, "SECONDS", 0.3)
    slow, fast, _ = compare_power.sides("py200", 5.0)
    for rule, said in peers.take_turns(slow, fast, comparisons=3).items():
        assert said == ["a"] * 3, rule


def test_a_share_comes_with_a_one_sided_bound():
    assert compare_power.at_most(0, 2_040) == pytest.approx(0.00147, rel=0.01)  # 1 - 0.05 ** (1 / n)
    assert compare_power.at_most(5, 5) == 1


def test_the_table_adds_up_what_belongs_together():
    counts = {"n": 100, "right": 0, "wrong": 1, "covered": 99, "median_s": None}
    rows = compare_power.table([["x", "quiet", "alarms", counts], ["y", "noisy", "alarms", counts]]).splitlines()
    assert len(rows) == 5 and rows[-1].startswith("| **all of: alarms** | both | 200 |") and "99.0%" in rows[-1]
    assert "| 1.0% (at most 3.11%) |" in rows[-1]


def test_every_task_of_the_quick_form_is_one_of_the_full_form():
    full, quick = ([task[:2] for task in compare_power.tasks(form)] for form in (False, True))
    assert full == quick and len(full) == len(set(map(tuple, full)))
