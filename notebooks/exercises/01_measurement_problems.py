# %% [markdown]
# # Problem set 01: Measurement
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 01, Measurement.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
GOAL = draw.choice((0.9, 0.92, 0.94))
WIDTH = draw.randrange(180, 241)
LENGTH = draw.randrange(3_800, 4_400)
TIMES = draw.choice((10, 11, 12))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
import re
from statistics import median
from time import perf_counter, sleep

import numpy as np

from steptime import PairedRatios, compare
from steptime.stream import Stream
from steptime.units import duration

# %% [markdown]
# ## 1. What does a line say?
#
# Somebody ran four races last week and kept what was printed.


# %% nbgrader={"schema_version": 3, "grade_id": "lines", "grade": false, "solution": false, "locked": true, "task": false}
def printed(ratio, pairs, random, guess=""):
    """A race as `compare` prints it."""
    seconds = random.uniform(2e-6, 2e-3)
    ratios = PairedRatios(
        (ratio * (1 + off), 1) for off in random.permutation(np.linspace(-0.05, 0.05, pairs))
    )
    took = f"{duration(ratio * seconds)} -> {duration(seconds)}"
    return f"same answer (2e-16) · {took} · {ratios}{guess}"


random = np.random.default_rng(SEED)
lines = [
    printed(7.3, 60, random),
    printed(0.52, 9, random),
    printed(3_140, 48, random, " · your guess 2,000x"),
    "different answers (0.2 apart, 1e-09 allowed): not timed",
]
print("\n".join(lines))

# %% [markdown]
# Write `verdict(line, x)`. It says whether the line shows that the second function is at least `x` times as fast as the
# first:
#
# - `True` where the whole interval lies above `x`, `False` where it lies below, `None` where nobody can tell;
# - `None`, too, where there is no interval;
# - `False` where the answers differ: whatever the second function does, it does not do the same faster.
#
# <details><summary>Hint: where is the interval?</summary>
#
# In the parentheses in front of the number of pairs. Large numbers have commas: `float` does not take them. A guess, where
# there is one, comes last and is no measurement.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "verdict", "grade": false, "solution": true, "locked": false, "task": false}
def verdict(line, x):
    ### BEGIN SOLUTION
    if line.startswith("different"):
        return False
    interval = re.search(r"\(([\d.,]+)-([\d.,]+)\), [\d,]+ pairs", line)
    if interval is None:
        return None
    low, high = (float(number.replace(",", "")) for number in interval.groups())
    return True if low > x else False if high < x else None
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "verdict-three-answers", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert verdict(lines[0], 5) is True
assert verdict(lines[0], 9) is False
assert verdict(lines[0], 7.3) is None
### BEGIN HIDDEN TESTS
for _ in range(20):
    ratio = np.random.default_rng().uniform(0.5, 90)
    line = printed(ratio, 60, np.random.default_rng())
    expect([verdict(line, share * ratio) for share in (0.8, 1, 1.25)], [True, None, False])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "verdict-nothing-shown", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert verdict(lines[1], 0.1) is None
assert verdict(lines[3], 0.1) is False
### BEGIN HIDDEN TESTS
few = printed(40, 12, np.random.default_rng())
expect([verdict(few, 2), verdict(few, 900)], [None, None])
unlike = (
    "different answers (one has the shape (3,), the other (24 pairs, 9.1-9.3x)): not timed"
)
expect(verdict(unlike, 1), False)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "verdict-large", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert verdict(lines[2], 1_000) is True
### BEGIN HIDDEN TESTS
large = printed(52_000, 99, np.random.default_rng(), " · your guess 7x")
expect([verdict(large, x) for x in (9, 40_000, 70_000)], [True, True, False])
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Faster at what?
#
# A training wrote down every step: how many seconds it took, how many samples its batch had, and, after every tenth step, the
# accuracy on held-out data; `None` after the others.


# %% nbgrader={"schema_version": 3, "grade_id": "log", "grade": false, "solution": false, "locked": true, "task": false}
def training(random, steps, step, batch):
    """(seconds, samples, accuracy or None) of each step; the first one sets things up, and
    some are interrupted.
    """
    log = []
    for number in range(1, steps + 1):
        seconds = step * random.lognormal(0, 0.05) * (40 if number == 1 else 1)
        seconds += 20 * step * (random.random() < 0.03)
        accuracy = 1 - 0.9 * 0.98**number if number % 10 == 0 else None
        log.append((float(seconds), batch if number % 29 else batch // 3, accuracy))
    return log


log = training(np.random.default_rng(SEED), 200, 0.004, 64)
log[:2], log[9:11]

# %% [markdown]
# Write `speeds(log, goal)`. It gives the three quantities of the chapter, as a dict:
#
# - `"latency"`: the median seconds of a step, the first one left out;
# - `"throughput"`: samples a second, over all steps but the first;
# - `"to_goal"`: seconds until the accuracy was seen to be at least `goal`, from the start of the first step on; `None` where that
#   was never seen.
#
# Which of the three needs the first step, and why not the others?
#
# <details><summary>Hint: a mean of rates is no rate</summary>
#
# Batches differ in size, and steps in time. A throughput is all samples over all seconds.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "speeds", "grade": false, "solution": true, "locked": false, "task": false}
def speeds(log, goal):
    ### BEGIN SOLUTION
    later = log[1:]
    elapsed, to_goal = 0.0, None
    for seconds, _, accuracy in log:
        elapsed += seconds
        if accuracy is not None and accuracy >= goal:
            to_goal = elapsed
            break
    return {
        "latency": median(seconds for seconds, _, _ in later),
        "throughput": sum(samples for _, samples, _ in later)
        / sum(seconds for seconds, _, _ in later),
        "to_goal": to_goal,
    }
    ### END SOLUTION


# %%
speeds(log, GOAL)

# %% nbgrader={"schema_version": 3, "grade_id": "speeds-latency", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert speeds(log, GOAL)["latency"] < 0.006
### BEGIN HIDDEN TESTS
other = training(np.random.default_rng(), 151, 0.03, 96)
expect(speeds(other, GOAL)["latency"], median([seconds for seconds, _, _ in other[1:]]), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "speeds-throughput", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert 4_000 < speeds(log, GOAL)["throughput"] < 17_000
### BEGIN HIDDEN TESTS
other = training(np.random.default_rng(), 151, 0.03, 96)
seconds, samples = (
    sum(column) for column in zip(*((s, n) for s, n, _ in other[1:]), strict=True)
)
expect(speeds(other, GOAL)["throughput"], samples / seconds, 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "speeds-to-goal", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert speeds(log, GOAL)["to_goal"] > log[0][0]
### BEGIN HIDDEN TESTS
for step in (0.02, 0.5):
    other = training(np.random.default_rng(), 240, step, 32)
    for goal in (0.5, GOAL, 0.98):
        passed = next(
            n for n, (_, _, accuracy) in enumerate(other, 1) if (accuracy or 0) >= goal
        )
        expect(
            speeds(other, goal)["to_goal"],
            sum(seconds for seconds, _, _ in other[:passed]),
            1e-9,
        )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "speeds-never", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert speeds(log, 1.1)["to_goal"] is None

# %% [markdown]
# ## 3. Which line gets the blame?
#
# A program is a list of lines. `("launch", s)` puts work of `s` seconds into a queue and goes on at once; `("compute", s)` works
# for `s` seconds itself; `("wait", 0)` waits until the queue is empty. The queue does one piece of work after the other, while the
# program goes on. `run` does it for real, with a stream and a clock around every line.


# %% nbgrader={"schema_version": 3, "grade_id": "run", "grade": false, "solution": false, "locked": true, "task": false}
def run(program):
    """The seconds each line of a program took, by the clock."""
    stream, took = Stream(), []
    doing = {
        "launch": lambda s: stream.launch(sleep, s),
        "compute": sleep,
        "wait": lambda _: stream.synchronize(),
    }
    for line, seconds in program:
        start = perf_counter()
        doing[line](seconds)
        took.append(perf_counter() - start)
    stream.close()
    return took


program = [("launch", 0.03), ("compute", 0.01), ("launch", 0.02), ("wait", 0), ("wait", 0)]

# %% [markdown]
# Write `blame(program)`: the seconds the clock will show for each line, as a list. Launching takes no time at all. Predict
# the five numbers for `program` on paper before you write a line.
#
# <details><summary>Hint: two clocks</summary>
#
# Keep two times: the one that the program has reached, and the one at which the queue will be empty. A piece of work begins when
# it is launched or when the one before it is done, whichever is later.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "blame", "grade": false, "solution": true, "locked": false, "task": false}
def blame(program):
    ### BEGIN SOLUTION
    now, empty, took = 0.0, 0.0, []
    for line, seconds in program:
        before = now
        if line == "launch":
            empty = max(now, empty) + seconds
        elif line == "compute":
            now += seconds
        else:
            now = max(now, empty)
        took.append(now - before)
    return took
    ### END SOLUTION


# %%
for (line, seconds), predicted, measured in zip(program, blame(program), run(program)):
    print(
        f"{line:<8} {seconds:<5} predicted {duration(predicted):>8}, "
        f"measured {duration(measured):>8}"
    )

# %% nbgrader={"schema_version": 3, "grade_id": "blame-who-waits-pays", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert np.allclose(blame([("launch", 3), ("launch", 4), ("wait", 0)]), [0, 0, 7])
assert np.allclose(blame([("launch", 3), ("wait", 0), ("wait", 0)]), [0, 3, 0])

# %% nbgrader={"schema_version": 3, "grade_id": "blame-overlap", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert np.allclose(blame([("launch", 3), ("compute", 2), ("wait", 0)]), [0, 2, 1])
### BEGIN HIDDEN TESTS
late = [("launch", 3), ("compute", 5), ("wait", 0), ("launch", 2), ("compute", 1), ("wait", 0)]
expect(blame(late), [0, 5, 0, 0, 1, 1], 1e-9)
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "blame-any-program", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# Any program: these tests are not shown.
### BEGIN HIDDEN TESTS
def right(program):
    now = empty = 0.0
    for line, seconds in program:
        reached = max(now, empty) if line == "wait" else now + seconds * (line == "compute")
        empty = max(now, empty) + seconds if line == "launch" else empty
        yield reached - now
        now = reached


for _ in range(30):
    random = np.random.default_rng()
    kinds = random.choice(["launch", "launch", "compute", "wait"], 20).tolist()
    other = [(line, 0.0 if line == "wait" else float(random.uniform(1, 9))) for line in kinds]
    expect(blame(other), list(right(other)), 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. A race of your own
#
# The machine gets slower while you measure. Write `paired(a, b, clock, flip, pairs)`, which compares two functions all the same:
#
# 1. It calls `a()` and `b()` once each, and forgets these calls.
# 2. For each of `pairs` pairs it calls `flip()` once. On `True` it times `a` and then `b`, on `False` `b` and then `a`.
# 3. To time a call it reads `clock()` right before and right after it.
# 4. It returns a list with one ratio for each pair: the time of `a` over the time of `b`.
#
# <details><summary>Hint: one function to time</summary>
#
# Write `read(function)` first, which gives the seconds of one call. Then a pair is two calls of `read`, in one order or the other.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "paired", "grade": false, "solution": true, "locked": false, "task": false}
def paired(a, b, clock, flip, pairs):
    ### BEGIN SOLUTION
    def read(function):
        start = clock()
        function()
        return clock() - start

    a(), b()
    ratios = []
    for _ in range(pairs):
        if flip():
            first, second = read(a), read(b)
        else:
            second, first = read(b), read(a)
        ratios.append(first / second)
    return ratios
    ### END SOLUTION


# %%
coin = np.random.default_rng()
ratios = paired(
    lambda: sum(range(6_000)),
    lambda: sum(range(2_000)),
    perf_counter,
    lambda: coin.random() < 0.5,
    200,
)
median(ratios)


# %% nbgrader={"schema_version": 3, "grade_id": "drifting", "grade": false, "solution": false, "locked": true, "task": false}
class Drifting:
    """Two functions and a clock on a machine that slows down by 1 % with every call; a first
    call takes 30 times as long.

    called: the names of the functions, in the order of their calls. flipped: what the coin
    said.
    """

    def __init__(self, a, b, random):
        self.seconds, self.random = {"a": a, "b": b}, random
        self.now, self.called, self.flipped, self.looked = 0.0, [], [], 0

    def a(self):
        self._work("a")

    def b(self):
        self._work("b")

    def clock(self):
        self.looked += 1
        return self.now

    def flip(self):
        self.flipped.append(bool(self.random.random() < 0.5))
        return self.flipped[-1]

    def _work(self, name):
        slower = 1.01 ** len(self.called) * (1 if name in self.called else 30)
        self.now += self.seconds[name] * slower
        self.called.append(name)


# %% nbgrader={"schema_version": 3, "grade_id": "paired-ratio", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
machine = Drifting(3, 2, np.random.default_rng(SEED))
assert (
    abs(median(paired(machine.a, machine.b, machine.clock, machine.flip, 100)) / 1.5 - 1)
    < 0.03
)
### BEGIN HIDDEN TESTS
for a, b in np.random.default_rng().uniform(1, 9, (5, 2)):
    machine = Drifting(a, b, np.random.default_rng())
    ratio = median(paired(machine.a, machine.b, machine.clock, machine.flip, 200))
    assert abs(ratio / (a / b) - 1) < 0.03, f"the ratio is {a / b:.3f}, not {ratio:.3f}"
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "paired-first-calls", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
machine = Drifting(3, 2, np.random.default_rng(SEED))
assert max(paired(machine.a, machine.b, machine.clock, machine.flip, 50)) < 2
### BEGIN HIDDEN TESTS
machine = Drifting(2, 3, np.random.default_rng())
assert min(paired(machine.a, machine.b, machine.clock, machine.flip, 50)) > 0.5
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "paired-order", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
machine = Drifting(3, 2, np.random.default_rng(SEED))
paired(machine.a, machine.b, machine.clock, machine.flip, 30)
wanted = [name for a_first in machine.flipped for name in ("ab" if a_first else "ba")]
assert len(machine.flipped) == 30 and machine.called[2:] == wanted

# %% nbgrader={"schema_version": 3, "grade_id": "paired-calls", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
machine = Drifting(3, 2, np.random.default_rng(SEED))
assert len(paired(machine.a, machine.b, machine.clock, machine.flip, 30)) == 30
assert (machine.called.count("a"), machine.called.count("b"), machine.looked) == (31, 31, 120)

# %% [markdown]
# ## 5. Make it faster
#
# A loss curve is noisy, so a script plots the mean of every {{WIDTH}} losses in a row. It takes as long as the training.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
def smooth_slowly(losses, width):
    """The mean of every `width` numbers in a row: an array of len(losses) - width + 1."""
    return np.array([losses[i : i + width].mean() for i in range(len(losses) - width + 1)])


losses = np.random.default_rng(SEED).normal(2, 0.3, LENGTH) + np.linspace(3, 0, LENGTH)

# %% [markdown]
# Write `smooth(losses, width)`, which returns the same and is at least {{TIMES}} times as fast on {{LENGTH}} losses. There are
# four gates, each with its points, and each opens only behind the one before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: an array of the same type and shape, its values within 1e-9, on losses you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# NumPy computes the means already. So where does the time go? Guess how much you gain with a plain list in the place of the
# array, then try it.
#
# <details><summary>Hint: count</summary>
#
# How many times is NumPy called, and how many numbers are added up in all? Chapter 01, *What does a Python loop cost?*
#
# </details>
#
# <details><summary>Hint: two neighbours</summary>
#
# Two windows next to each other share all but two of their numbers. A sum over a window is the difference of two sums from the
# start: `np.cumsum`.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "smooth", "grade": false, "solution": true, "locked": false, "task": false}
def smooth(losses, width):
    ### BEGIN SOLUTION
    sums = np.cumsum(np.concatenate(([0.0], losses)))
    return (sums[width:] - sums[:-width]) / width
    ### END SOLUTION


# %%
race = compare(smooth_slowly, smooth, losses, WIDTH, same=1e-9, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "smooth-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    width = int(random.integers(WIDTH - 20, WIDTH + 20))
    length = int(random.integers(LENGTH - 20, LENGTH + 20))
    return random.normal(2, 0.3, length) + np.linspace(3, 0, length), width


gates = four_gates("smooth", "smooth_slowly", draw=draw, same=1e-9, target=TIMES)
### END HIDDEN TESTS
assert np.allclose(smooth(np.array([1.0, 2.0, 6.0]), 2), [1.5, 4.0])
assert np.allclose(smooth(np.array([1.0, 2.0, 6.0]), 3), [3.0])
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "smooth-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert smooth(losses, WIDTH)[0] != smooth(losses + 1, WIDTH)[0]
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "smooth-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "smooth-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
