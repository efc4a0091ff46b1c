"""How often `compare` is wrong and how soon it is right, quiet and beside noisy neighbours, with its peers.

    python benchmarks/compare_power.py            under 60 minutes; stop it and start it again as you like
    python benchmarks/compare_power.py --quick    five minutes, with wider bounds

One code object is made slower through its argument, so that the truth is known. Series of pairs are recorded once and
the race is replayed on them with a stopwatch that reads the recording: on windows that do not overlap where there is a
difference to find, and where there is none on the same windows again and again, with a coin that says which side of a
pair is called which. Where the length of a stretch depends on the race itself (`at_least`, copies of code) the race is
run. The figures land in `.compare_power/` as they come, apart for each state of the code.
"""

import functools
import hashlib
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
OWN_WORK = 80e-6  # seconds that a race spends on a pair beside its stretches and the looks at the clock; 55 to 90 seen
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
        self._now = 0.0

    def now(self):
        return self._now

    def _turn(self):
        """Go to the next pair; the race's own work goes by the clock too."""
        self._now += OWN_WORK
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
    """One race on a recorded series: (1, -1 or None for the side found slower, seconds it took, its interval)."""
    seen = Observation(0, pairs[start][0].wall, printed=False)
    both = [Side(functools.partial(loop, side), (), seen) for side in (0, 1)]
    stopwatch = Replay(pairs, start, swap)
    race = Race(*both, Verdict(True), budget, None, stopwatch)
    race.look()
    race.differs()
    return race.ratios.shifted, stopwatch.now(), race.interval


def differs_task(workload, slowdown, budget, windows, rounds):
    """Replays of `differs()` on one recorded series, `rounds` times on each of its windows."""
    pairs = record(workload, slowdown, budget * windows)
    truth = sides(workload, 1 + slowdown)[2]
    starts = [round(index * len(pairs) / windows) for index in range(windows)] * rounds
    outcomes = [replay(pairs, start, budget, swap=not slowdown) for start in starts]
    right = sorted(took for side, took, _ in outcomes if side == 1 and slowdown)
    return {
        "n": len(outcomes),
        "right": len(right),
        "wrong": sum(side is not None for side, _, _ in outcomes) - len(right),
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
    """(what, where, pool, function and arguments) of all that is measured; a pool's counts are added up in one row."""
    part = 0.1 if quick else 1
    for where in ("noisy", "quiet"):
        for workload, slowdown, budget, windows, rounds in (
            ("py200", 0, 2, 30, 8),
            ("th5ms", 0, 2, 30, 26),
            ("py200", 0.005, 2, 50, 1),
            ("th5ms", 0.02, 2, 50, 1),
            ("th5ms", 0.01, 5, 40, 1),
        ):
            what = f"differs(): {workload} slowed by {slowdown:.1%}, {budget} s"
            pool = "" if slowdown else "differs(): false alarms"
            windows, rounds = (windows, rounds) if where == "noisy" else (windows // 2, rounds * (2 - bool(slowdown)))
            yield what, where, pool, (differs_task, workload, slowdown, budget, max(3, round(windows * part)), rounds)
        for x in (2, 10):
            for ratio in (x / 1.05, x * 1.05):
                what = f"at_least({x}) at {ratio:.3g}x"
                yield what, where, "at_least(): 5 % off", (at_least_task, x, ratio, max(5, round(80 * part)))
        pool = "two copies of one function, fresh processes"
        yield pool, where, pool, (copies_task, max(3, round(32 * part)))
    for where, workload, slowdown in (
        ("noisy", "py200", 0),
        ("noisy", "py200", 0.02),
        ("noisy", "th5ms", 0),
        ("noisy", "th5ms", 0.02),
        ("quiet", "py200", 0),  # what is easiest to find, py200 in quiet, is left out to keep within the hour
        ("quiet", "th5ms", 0),
        ("quiet", "th5ms", 0.02),
    ):
        what = f"peers: {workload} slowed by {slowdown:.1%}, 2 s"
        yield what, where, "", (peers_task, workload, slowdown, 3 if quick else 50)


def at_most(count, n):
    """The largest share that `count` of `n` leaves plausible: one-sided, 95 % (Clopper and Pearson, 1934)."""
    return 1.0 if count == n else float(beta.ppf(0.95, count + 1, n - count))


def table(results):
    """All results so far as Markdown. results: (what, where, pool, counts) of each."""
    lines = ["| what | where | n | right | wrong | interval covers | median time of the right ones |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    pools = {}
    for what, where, pool, result in results:
        if pool:
            summed = pools.setdefault(pool, {})
            for count in ("n", "right", "wrong", "covered"):
                if count in result:
                    summed[count] = summed.get(count, 0) + result[count]
        if "n" in result:
            lines.append(line(what, where, result))
        else:
            lines += [line(what.replace("peers", peer), where, counts) for peer, counts in result.items()]
    lines += [line(f"**all of: {pool}**", "both", summed) for pool, summed in pools.items()]
    return "\n".join(lines)


def line(what, where, counts):
    n = counts["n"]
    right = f"{counts['right'] / n:.1%} (at least {1 - at_most(n - counts['right'], n):.1%})"
    wrong = f"{counts['wrong'] / n:.1%} (at most {at_most(counts['wrong'], n):.2%})"
    covers = f"{counts['covered'] / n:.1%}" if "covered" in counts else ""
    took = f"{counts['median_s']:.2f} s" if counts.get("median_s") else ""
    return f"| {what} | {where} | {n:,} | {right} | {wrong} | {covers} | {took} |"


def main(quick):
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py")))
    state = hashlib.sha256(code + repr(machine.card()).encode()).hexdigest()[:12]
    file = FOLDER / f"{'quick' if quick else 'full'}-{state}.jsonl"
    done = [json.loads(row) for row in file.read_text().splitlines()] if file.exists() else []
    started = time.perf_counter()
    for what, where, pool, (function, *arguments) in tasks(quick):
        if [what, where] in [row[:2] for row in done]:
            continue
        print(f"{time.perf_counter() - started:5.0f} s  {where}: {what}", flush=True)
        calibrated("py200"), calibrated("th5ms")  # in quiet
        with neighbours(seed=what) if where == "noisy" else nullcontext():
            done.append([what, where, pool, function(*arguments)])
        with file.open("a") as rows:
            rows.write(json.dumps(done[-1]) + "\n")
    print(repr(machine.card()), table(done), sep="\n\n")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
