"""The benchmarks: what they hold the helper against is right itself."""

import os
import shutil

import pytest
import torch

from benchmarks import compare_power, peers, roofs


def test_a_replayed_race_finds_which_side_was_slower_and_the_coin_hides_it():
    pairs = compare_power.record("py200", 0.2, seconds=0.6)
    side, took, (low, high) = compare_power.replay(pairs, 0, budget=0.5, swap=False)
    assert side == 1 and 0 < took < 0.5 and low < 1.22 and high > 1.18  # two speeds of the machine can move it a little
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


@pytest.mark.skipif(not shutil.which(os.environ.get("CC", "gcc")), reason="no C compiler here")
def test_the_triad_in_c_computes_what_it_says_and_the_clock_is_one_of_this_century(tmp_path):
    functions = roofs.built(tmp_path)
    bandwidth, is_right = roofs.triad_bandwidth(functions, count=2**20, runs=3)
    assert is_right and 1e8 < bandwidth < 1e13
    assert 3e8 < functions.clock_rate() < 1e10


def test_a_row_of_the_roofs_says_whether_its_bound_holds():
    held = [roofs.row(ours * 1e9, 1e9, bound=0.15).split(" | ")[3:] for ours in (0.8, 0.9, 1.1, 1.2)]
    assert held == [["15%", answer] for answer in ("False", "True", "True", "False")]


def test_without_a_compiler_the_roofs_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/gcc")
    with pytest.raises(RuntimeError, match="A C compiler is needed"):
        roofs.built(tmp_path)


def test_the_theoretical_peak_is_cores_times_clock_times_width(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert roofs.peak(torch.float32, 2e9, threads=1) == "64"  # 2 units x 2 operations x 8 numbers
    assert roofs.peak(torch.float64, 2e9, threads=1) == "32" and roofs.peak(torch.bfloat16, 2e9, 1) == ""
