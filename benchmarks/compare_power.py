"""How often `compare` is wrong and how soon it is right, quiet and beside noisy neighbours, with its peers.

    python benchmarks/compare_power.py            under 60 minutes; stop it and start it again as you like
    python benchmarks/compare_power.py --quick    five minutes, with wider bounds

One code object is made slower through its argument, so that the truth is known. Series of pairs are recorded once and
the race is replayed on them with a stopwatch that reads the recording; where the length of a stretch depends on the
race itself (`at_least`, copies of code) the race is run. The figures land in `.compare_power/` as they come.
"""

import functools
import json
import random
import subprocess
import sys
import time
from contextlib import nullcontext
from itertools import repeat
from pathlib import Path

import torch
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.peers import take_turns
from book.chapters import ROOT
from book.neighbours import neighbours
from steptime import Verdict, compare, machine
from steptime.compare import Race, Side
from steptime.measure import Reading, Stopwatch
from steptime.observe import Observation

FOLDER = ROOT / ".compare_power"
NUMBERS = torch.rand(2_000_000) + 1
ANSWERS = torch.empty_like(NUMBERS)


def loop(rounds):
    """A Python loop, each round as long as the other; 200 microseconds after calibration."""
    total = 0.0
    for number in repeat(1.5, rounds):
        total += number
    return 0


def trigamma(count):
    """One torch operation on one thread, bound by arithmetic; 5 milliseconds after calibration."""
    torch.polygamma(1, NUMBERS[:count], out=ANSWERS[:count])
    return 0


WORKLOADS = {"py200": (loop, 210e-6), "th5ms": (trigamma, 5e-3)}


@functools.cache
def calibrated(workload):
    """The argument with which a workload takes as long as its name says."""
    function, target = WORKLOADS[workload]
    size, stopwatch = 10_000, Stopwatch()
    for _ in range(8):
        taken = sorted(stopwatch(function, (size,), 1).wall for _ in range(15))[7]
        size = round(size * target / taken)
    return size


def sides(workload, ratio):
    """The slower and the faster side, and the ratio of their arguments: the truth."""
    function, size = WORKLOADS[workload][0], calibrated(workload)
    slow = round(size * ratio)
    return functools.partial(function, slow), functools.partial(function, size), slow / size


def record(workload, slowdown, seconds):
    """A series of pairs in coin-flip order: (wall, waited) of the slower side and of the faster, and time between."""
    slow, fast, _ = sides(workload, 1 + slowdown)
    stopwatch, pairs, end = Stopwatch(), [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        if random.random() < 0.5:
            a, b = stopwatch(slow, (), 1), stopwatch(fast, (), 1)
        else:
            b, a = stopwatch(fast, (), 1), stopwatch(slow, (), 1)
        pairs.append((a, b, time.perf_counter() - start - a.wall - b.wall))
    return pairs


class Replay:
    """A stopwatch that reads a recorded series, from pair to pair as the race asks for stretches of either side.

    With `swap`, a coin says for each pair which of its readings is called the slower side's.
    """

    def __init__(self, pairs, start, swap):
        self._pairs, self._swap, self._now, self._place = pairs, swap, 0.0, start
        self._turn()

    def now(self):
        return self._now

    def _turn(self):
        """Go to the next pair."""
        *readings, self._between = self._pairs[self._place % len(self._pairs)]
        self._left = dict(enumerate(readings[::-1] if self._swap and random.random() < 0.5 else readings))
        self._place += 1

    def __call__(self, function, arguments, calls):
        readings = []
        for _ in range(calls):
            if function.args[0] not in self._left:
                self._turn()
            readings.append(self._left.pop(function.args[0]))
            self._now += readings[-1].wall + self._between / 2
        return Reading(sum(each.wall for each in readings), sum(each.waited for each in readings))


def replay(pairs, start, budget, swap):
    """One race on a recorded series: (True where it found the first side slower, seconds it took, its interval)."""
    seen = Observation(0, pairs[start][0].wall, printed=False)
    both = [Side(functools.partial(loop, side), (), seen) for side in (0, 1)]
    stopwatch = Replay(pairs, start, swap)
    race = Race(*both, Verdict(True), budget, None, stopwatch)
    race.look()
    differs = race.differs().answer
    return (race.interval[0] > 1 if differs else None), stopwatch.now(), race.interval


def differs_task(workload, slowdown, budget, seconds, replays):
    """Replays of `differs()` on one recorded series."""
    pairs = record(workload, slowdown, seconds)
    truth = sides(workload, 1 + slowdown)[2]
    starts = [round(index * len(pairs) / replays) for index in range(replays)]
    outcomes = [replay(pairs, start, budget, swap=not slowdown) for start in starts]
    found = [(answer, took) for answer, took, _ in outcomes if answer is not None]
    right = sorted(took for answer, took in found if answer and slowdown)
    return {
        "n": replays,
        "right": len(right),
        "wrong": len(found) - len(right),
        "covered": sum(low <= truth <= high for _, _, (low, high) in outcomes),
        "median_s": right[len(right) // 2] if right else None,
    }


def at_least_task(x, ratio, comparisons):
    """Races against a threshold that is 5 % off the truth, stopped as soon as they are certain."""
    slow, fast, truth = sides("py200", ratio)
    answers, covered, took = [], 0, []
    for _ in range(comparisons):
        start = time.perf_counter()
        race = compare(slow, fast, budget=2)
        answers.append(race.at_least(x).answer)
        took.append(time.perf_counter() - start)
        covered += race.interval[0] <= truth <= race.interval[1]
    right = answers.count(truth > x)
    wrong = answers.count(truth < x)
    return {
        "n": comparisons,
        "right": right,
        "wrong": wrong,
        "covered": covered,
        "median_s": sorted(took)[comparisons // 2],
    }


COPIES = """
from steptime import compare
source = "def spin(rounds):\\n    total = 0\\n    for number in range(rounds):\\n        total += number"
first, second = {}, {}
exec(compile(source, "first", "exec"), first)
exec(compile(source, "second", "exec"), second)
print(compare(first["spin"], second["spin"], %d, budget=3).differs().answer)
"""


def copies_task(processes):
    """Fresh processes that compare two copies of one function; a difference of 3 % or more is a false claim."""
    program = COPIES % calibrated("py200")
    said = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(processes)
    ]
    return {"n": processes, "wrong": said.count("True"), "right": said.count("False")}


def peers_task(workload, slowdown, comparisons):
    """What the peers say at two seconds a comparison."""
    slow, fast, _ = sides(workload, 1 + slowdown)
    result = {}
    for peer, said in take_turns(slow, fast, comparisons).items():
        right = said.count("a") if slowdown else 0
        result[peer] = {"n": comparisons, "right": right, "wrong": len(said) - said.count(None) - right}
    return result


def tasks(quick):
    """(key, condition, function and arguments) of all that is measured."""
    scale = 0.08 if quick else 1
    replays = 100 if quick else 500
    for condition in ("quiet", "noisy"):
        for workload, slowdown, budget, seconds in (
            ("py200", 0, 2, 60),
            ("py200", 0.005, 2, 60),
            ("th5ms", 0, 2, 60),
            ("th5ms", 0.02, 2, 100),
            ("th5ms", 0.01, 5, 120),
        ):
            length = max(budget * 2, seconds * scale)
            key = f"differs, {workload} slowed by {slowdown:.1%}, {budget} s"
            yield key, condition, (differs_task, workload, slowdown, budget, length, replays)
        for x in (2, 10):
            for ratio in (x / 1.05, x * 1.05):
                key = f"at_least({x}) at {ratio:.3g}x"
                yield key, condition, (at_least_task, x, ratio, max(5, round(100 * scale)))
        yield "two copies of one function, fresh processes", condition, (copies_task, max(3, round(32 * scale)))
    for workload in WORKLOADS:
        for slowdown in (0, 0.02):
            comparisons = max(2, round(50 * scale))
            key = f"peers, {workload} slowed by {slowdown:.1%}, 2 s"
            yield key, "noisy", (peers_task, workload, slowdown, comparisons)


def bound(count, n):
    """The largest share that `count` of `n` leaves plausible: one-sided, 95 % (Clopper and Pearson, 1934)."""
    return 1.0 if count == n else float(beta.ppf(0.95, count + 1, n - count))


def share(count, n):
    return f"{count / n:.1%} (at most {bound(count, n):.1%})"


def table(results):
    """All results so far as Markdown."""
    lines = ["| what | where | n | right | wrong | interval covers | median time to decide |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for key, condition, result in results:
        rows = {key: result} if "n" in result else {f"{peer}: {key[7:]}": row for peer, row in result.items()}
        for name, row in rows.items():
            covers = f"{row['covered'] / row['n']:.1%}" if "covered" in row else ""
            took = f"{row['median_s']:.2f} s" if row.get("median_s") else ""
            right = f"{row['right'] / row['n']:.1%}"
            cells = (name, condition, row["n"], right, share(row["wrong"], row["n"]), covers, took)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main(quick):
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    record_file = FOLDER / ("quick.jsonl" if quick else "full.jsonl")
    done = {}
    if record_file.exists():
        done = {tuple(row[:2]): row[2] for row in map(json.loads, record_file.read_text().splitlines())}
    started = time.perf_counter()
    for key, condition, (function, *arguments) in tasks(quick):
        if (key, condition) in done:
            continue
        print(f"{time.perf_counter() - started:5.0f} s  {condition}: {key}", flush=True)
        with neighbours(seed=key) if condition == "noisy" else nullcontext():
            done[key, condition] = function(*arguments)
        with record_file.open("a") as file:
            file.write(json.dumps([key, condition, done[key, condition]]) + "\n")
    print(repr(machine.card()), table([(*key, result) for key, result in done.items()]), sep="\n\n")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
