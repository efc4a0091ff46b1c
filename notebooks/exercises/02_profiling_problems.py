# %% [markdown]
# # Problem set 02: Profiling
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 02, Profiling.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
STEPS = draw.randrange(30, 61)
LOOKS = draw.randrange(1_500, 3_001)
PIXELS = draw.choice((7, 8, 9)) ** 2
PICTURES = draw.randrange(13_000, 15_000) // PIXELS
LIMIT = draw.choice((2.0, 2.5, 3.0))
TIMES = draw.choice((16, 17, 18))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
import json
import sys
from cProfile import Profile
from io import StringIO
from math import inf
from pstats import Stats
from time import perf_counter

import numpy as np

from steptime import compare
from steptime.units import duration

# %% [markdown]
# ## 1. Self and total
#
# A profiler that is told of each call and each return can write them down: what happened, the name of the function, the
# seconds on the clock. `log_of` makes such a log of a call that is described by a tuple: the name of the function and a list
# of what it does. A number is that many seconds of its own work, a tuple is a call of another function.


# %% nbgrader={"schema_version": 3, "grade_id": "log", "grade": false, "solution": false, "locked": true, "task": false}
def log_of(call, clock=0.0):
    """(what, name, seconds) of each call and each return, in the order they come; the first
    begins at `clock`.
    """
    name, parts = call
    log = [("call", name, clock)]
    for part in parts:
        if isinstance(part, tuple):
            log += log_of(part, clock)
            clock = log[-1][2]
        else:
            clock += part
    return [*log, ("return", name, clock)]


def noted(function, *arguments):
    """The log of a real call of a function of Python."""
    log = []

    def note(frame, what, _):
        if what in ("call", "return"):
            log.append((what, frame.f_code.co_name, perf_counter()))

    sys.setprofile(note)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return log


def column(rows, place):
    """One column of a table."""
    return {name: row[place] for name, row in rows.items()}


loading = ("load", [0.2, ("decode", [3.0]), 0.1, ("decode", [4.0]), 0.2])
program = ("train", [0.5, loading, ("layer", [2.5]), loading, ("layer", [2.5]), 0.5])
packed = ("unpack", [1.0, ("unpack", [2.0, ("decode", [3.0])]), ("unpack", [4.0])])
log_of(program)[:5]

# %% [markdown]
# Write `table_of(log)`. It makes the table of the profiler: a dict from the name of each function to a tuple of three
# numbers,
#
# - *calls*: how often it was called;
# - *self*: the seconds in which it was at work itself, and nothing that it had called was running;
# - *total*: the seconds in which it, or anything it had called, was running. A function that calls itself is open several
#   times at once. No second counts twice, so no total is longer than the program.
#
# `cProfile` prints the three as `ncalls`, `tottime` and `cumtime`. Predict before you write: which function of `program` has
# the longest self, which of `load` and `decode` the longer total, and what is the total of `unpack` in `packed`?
#
# <details><summary>Hint: what is open?</summary>
#
# Keep a list of the calls that have not returned yet, the latest last. A return belongs to the latest. Note beside each
# open call how many seconds went into what it called.
#
# </details>
#
# <details><summary>Hint: no second twice</summary>
#
# When a call returns while another one of the same function is still open, the seconds will be counted when that one
# returns.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "table-of", "grade": false, "solution": true, "locked": false, "task": false}
def table_of(log):
    ### BEGIN SOLUTION
    rows, running = {}, []
    for what, name, clock in log:
        if what == "call":
            running.append([name, clock, 0.0])
            continue
        _, began, below = running.pop()
        took = clock - began
        calls, own, total = rows.get(name, (0, 0.0, 0.0))
        is_outermost = all(name != other for other, _, _ in running)
        rows[name] = (calls + 1, own + took - below, total + took * is_outermost)
        if running:
            running[-1][2] += took
    return rows
    ### END SOLUTION


# %% [markdown]
# With `noted` your function is a profiler. Here it looks at a loader of text. Before Python 3.12 a list that is built in
# square brackets counts as a call, `<listcomp>`.


# %%
samples = [
    json.dumps(sample) for sample in np.random.default_rng(SEED).random((64, 200)).tolist()
]


def parse(text):
    return json.loads(text)


def load_batch():
    return np.array([parse(text) for text in samples])


def step():
    return load_batch().mean()


for name, (calls, own, total) in sorted(
    table_of(noted(step)).items(), key=lambda row: -row[1][1]
)[:6]:
    print(f"{calls:>5} calls  {duration(own):>8} self  {duration(total):>8} total  {name}")


# %% nbgrader={"schema_version": 3, "grade_id": "table-calls", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
### BEGIN HIDDEN TESTS
def some_call(random, functions, depth=0):
    """A call as `log_of` takes it, four calls deep; functions: from a depth to the names that
    it can have.
    """
    parts = [float(random.uniform(1, 9))]
    for _ in range(random.integers(1, 4) if depth < 4 else 0):
        parts += [some_call(random, functions, depth + 1), float(random.uniform(1, 9))]
    return (str(random.choice(functions(depth))), parts)


def by_depth(depth):
    return [f"{'abcde'[depth]}{number}" for number in (1, 2)]


def right_table(call, rows, above=()):
    """Put a call and all below it into the rows; the seconds it takes."""
    name, parts = call
    row = rows.setdefault(name, [0, 0.0, 0.0])
    took = own = sum(part for part in parts if not isinstance(part, tuple))
    took += sum(
        right_table(part, rows, (*above, name)) for part in parts if isinstance(part, tuple)
    )
    row[:] = row[0] + 1, row[1] + own, row[2] + took * (name not in above)
    return took


### END HIDDEN TESTS
assert column(table_of(log_of(program)), 0) == {"train": 1, "load": 2, "decode": 4, "layer": 2}
### BEGIN HIDDEN TESTS
for _ in range(5):
    call, rows = some_call(np.random.default_rng(), by_depth), {}
    right_table(call, rows)
    expect(column(table_of(log_of(call)), 0), column(rows, 0))
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "table-self", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert abs(column(table_of(log_of(program)), 1)["load"] - 1.0) < 1e-9
assert abs(sum(column(table_of(log_of(program)), 1).values()) - 21.0) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(5):
    call, rows = some_call(np.random.default_rng(), by_depth), {}
    right_table(call, rows)
    expect(column(table_of(log_of(call)), 1), column(rows, 1), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "table-total", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(column(table_of(log_of(program)), 2)["load"] - 15.0) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(5):
    call, rows = some_call(np.random.default_rng(), by_depth), {}
    right_table(call, rows)
    expect(column(table_of(log_of(call)), 2), column(rows, 2), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "table-recursion", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(column(table_of(log_of(packed)), 2)["unpack"] - 10.0) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(5):
    call, rows = some_call(np.random.default_rng(), lambda depth: ["a", "b", "c"]), {}
    right_table(call, rows)
    expect(column(table_of(log_of(call)), 2), column(rows, 2), 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What did the profiler add?
#
# A training of {{STEPS}} steps ran twice: once under a profiler that notes each call, once without. Of each function the table
# says how often it was called, how many calls it made itself, and its self seconds under the profiler. `plain` is what the
# training took without.

# %% nbgrader={"schema_version": 3, "grade_id": "profiled", "grade": false, "solution": false, "locked": true, "task": false}
pictures, numbers = 64 * STEPS, 64 * 200 * STEPS
profiled = {
    "train": (1, 2 * STEPS, 9.8e-5 * STEPS),
    "load": (STEPS, pictures, 4.7e-4 * STEPS),
    "decode": (pictures, numbers, 1.404e-4 * pictures),
    "clip": (numbers, 0, 5.1e-7 * numbers),
    "layer": (STEPS, 0, 5.23e-3 * STEPS),
}
plain = 0.011 * STEPS
for name, (calls, made, own) in sorted(profiled.items(), key=lambda row: -row[1][2]):
    print(f"{calls:>8,} calls  {made:>8,} made  {duration(own):>8} self  {name}")
print(
    f"{duration(sum(column(profiled, 2).values()))} with the profiler, "
    f"{duration(plain)} without"
)

# %% [markdown]
# Noting takes the same time for each call. Half of it passes before the clock of the called function starts, and so it lands
# in the self seconds of the function that calls. The other half lands in those of the one that is called. Who called the
# outermost function is not in the table, and neither is that half.
#
# Write `honest(rows, plain)`: the self seconds of each function without the profiler, as a dict from names to numbers. Together
# they are `plain`. Which of the functions is the longest now? Guess first: which two look worse under the profiler than they
# are, and which one should be mended before them?
#
# <details><summary>Hint: count the halves</summary>
#
# How many halves does each function hold? How many are there in all, and how many seconds are there too many?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "honest", "grade": false, "solution": true, "locked": false, "task": false}
def honest(rows, plain):
    ### BEGIN SOLUTION
    halves = sum(calls + made for calls, made, _ in rows.values())
    half = (sum(own for _, _, own in rows.values()) - plain) / halves
    return {name: own - half * (calls + made) for name, (calls, made, own) in rows.items()}
    ### END SOLUTION


# %%
for name, own in sorted(honest(profiled, plain).items(), key=lambda row: -row[1]):
    print(f"{duration(own):>8}  {name}")

# %% nbgrader={"schema_version": 3, "grade_id": "honest-seconds", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert abs(sum(honest(profiled, plain).values()) / plain - 1) < 1e-9
small = honest({"outer": (1, 9, 14.0), "inner": (9, 0, 20.0)}, 15.0)
assert abs(small["outer"] - 4) < 1e-9 and abs(small["inner"] - 11) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(10):
    random = np.random.default_rng()
    half, true = random.uniform(1e-7, 9e-7), {}
    inner, steps = int(random.integers(10_000, 90_000)), int(random.integers(10, 90))
    true["train"] = (1, steps, float(random.uniform(0.1, 0.9)))
    true["layer"] = (steps, inner, float(random.uniform(0.1, 0.9)))
    true["double"] = (inner, 0, float(random.uniform(0.1, 0.9)))
    seen = {
        name: (calls, made, own + half * (calls + made))
        for name, (calls, made, own) in true.items()
    }
    expect(honest(seen, sum(own for _, _, own in true.values())), column(true, 2), 1e-7)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "honest-order", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert len(honest(profiled, plain)) == 5
### BEGIN HIDDEN TESTS
for seen, whole, longest in (
    (profiled, plain, "layer"),
    (
        {"run": (1, 80_000, 0.06), "step": (40, 0, 0.05), "tiny": (80_000, 0, 0.07)},
        0.1,
        "step",
    ),
    (
        {"run": (1, 80_000, 0.06), "step": (40, 0, 0.03), "tiny": (80_000, 0, 0.09)},
        0.1,
        "tiny",
    ),
):
    seconds = honest(seen, whole)
    assert max(seconds, key=seconds.get) == longest, (
        f"without the profiler {longest} takes longest"
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Whose line, and does it work?
#
# A sampling profiler looked at this training {{LOOKS}} times:
#
# ```
# 31  def train(steps):
# 32      for step in range(steps):
# 33          texts = fetch(step)
# 34          batch = torch.tensor([parse(text) for text in texts])
# 35          loss = network(batch)
# 36          loss.backward()
# 37          print(float(loss))
# ```
#
# Each look met a stack: the functions that were running and the line that each was at, the outermost first. `looks` is a
# list of stacks, each with the number of looks that met it.


# %% nbgrader={"schema_version": 3, "grade_id": "looks", "grade": false, "solution": false, "locked": true, "task": false}
# functions that ask the system for something and rest until it comes
WAITING = {
    "recv",
    "poll",
    "acquire",
    "sleep",
}
STACKS = {
    (("train", 33), ("fetch", 12), ("recv", 706)): 33,
    (("train", 33), ("fetch", 12), ("recv", 709), ("decrypt", 88)): 4,
    (("train", 33), ("fetch", 14), ("decompress", 343)): 5,
    (("train", 34), ("parse", 21), ("loads", 346)): 14,
    (("train", 34), ("parse", 24), ("parse", 21), ("loads", 346)): 9,
    (("train", 34), ("parse", 24), ("parse", 24)): 3,
    (("train", 35), ("network", 52)): 13,
    (("train", 36), ("backward", 581)): 11,
    (("train", 36), ("backward", 581), ("acquire", 327)): 5,
    (("train", 37),): 3,
}


def looked(stacks, looks, random):
    """What so many looks met, by chance. stacks: from each stack to its part of the time."""
    parts = np.array(list(stacks.values()), float)
    met = random.multinomial(looks, parts / parts.sum()).tolist()
    return [(stack, count) for stack, count in zip(stacks, met) if count]


looks = looked(STACKS, LOOKS, np.random.default_rng(SEED))
looks[:3]

# %% [markdown]
# Write `by_line(looks, function)`. It gives the time of a function to its lines: a dict from each line at which the function was
# met to a tuple of two numbers,
#
# - which share of all looks met the function at that line. Where the function calls itself, it is at several lines in one
#   look: the innermost counts, and no other;
# - which share of these looks waited. A look waits where the innermost function of the stack is one of `WAITING`. A function
#   of `WAITING` that has called another, which works, does not wait.
#
# Then write `on_faster(looks, times)`: how many times faster the training gets on a processor that is `times` times as fast, when
# waiting takes as long as before. First look at the lines of `train`, and guess what `on_faster(looks, 1_000)` will be.
#
# <details><summary>Hint: two parts of a second</summary>
#
# Take all looks together for one second. How long does the part that waits take on the faster processor, and how long the
# rest?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "by-line", "grade": false, "solution": true, "locked": false, "task": false}
def by_line(looks, function):
    ### BEGIN SOLUTION
    every, met, waited = sum(count for _, count in looks), {}, {}
    for stack, count in looks:
        lines = [line for name, line in stack if name == function]
        if lines:
            innermost, _ = stack[-1]
            met[lines[-1]] = met.get(lines[-1], 0) + count
            waited[lines[-1]] = waited.get(lines[-1], 0) + count * (innermost in WAITING)
    return {line: (met[line] / every, waited[line] / met[line]) for line in met}
    ### END SOLUTION


# %%
for line, (share, waiting) in sorted(by_line(looks, "train").items()):
    print(f"line {line}: {share:4.0%} of all looks, {waiting:4.0%} of these waited")


# %% nbgrader={"schema_version": 3, "grade_id": "lines-shares", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def some_looks(random):
    """Looks at a program of chance, in which a function can call itself; each stack comes
    once.
    """
    stacks = {}
    for _ in range(random.integers(20, 60)):
        names = [
            "main",
            *random.choice(
                ["load", "read", "recv", "poll", "parse"], random.integers(1, 6)
            ).tolist(),
        ]
        stacks[tuple((name, int(random.integers(10, 14))) for name in names)] = int(
            random.integers(1, 99)
        )
    return list(stacks.items())


def right_lines(looks, function, place):
    """One of the two columns of by_line."""
    found = {}
    for stack, count in looks:
        for name, line in reversed(stack):
            if name == function:
                found.setdefault(line, []).append((count, stack[-1][0] in WAITING))
                break
    every = sum(count for _, count in looks)
    return {
        line: sum(count for count, waits in rows if waits or place == 0)
        / (every if place == 0 else sum(count for count, _ in rows))
        for line, rows in found.items()
    }


### END HIDDEN TESTS
assert abs(sum(column(by_line(looks, "train"), 0).values()) - 1) < 1e-9
assert set(by_line(looks, "fetch")) == {12, 14} and by_line(looks, "nobody") == {}
### BEGIN HIDDEN TESTS
for _ in range(10):
    other = some_looks(np.random.default_rng())
    for function in ("main", "load", "recv", "nobody"):
        expect(column(by_line(other, function), 0), right_lines(other, function, 0), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "lines-waiting", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert by_line(looks, "train")[34][1] == 0
assert 0.6 < by_line(looks, "train")[33][1] < 1
### BEGIN HIDDEN TESTS
for _ in range(10):
    other = some_looks(np.random.default_rng())
    for function in ("main", "load", "recv"):
        expect(column(by_line(other, function), 1), right_lines(other, function, 1), 1e-9)
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "on-faster", "grade": false, "solution": true, "locked": false, "task": false}
def on_faster(looks, times):
    ### BEGIN SOLUTION
    every = sum(count for _, count in looks)
    waits = sum(count for stack, count in looks if stack[-1][0] in WAITING)
    return every / (waits + (every - waits) / times)
    ### END SOLUTION


# %%
on_faster(looks, 2), on_faster(looks, 1_000)

# %% nbgrader={"schema_version": 3, "grade_id": "faster-processor", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(on_faster([((("main", 1),), 6), ((("main", 2), ("recv", 9)), 2)], 3) - 2) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(10):
    other = some_looks(np.random.default_rng())
    waits = sum(count for stack, count in other if stack[-1][0] in WAITING) / sum(
        count for _, count in other
    )
    for times in (1, 2, 1_000):
        expect(on_faster(other, times), 1 / (waits + (1 - waits) / times), 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. What can a mend give?
#
# From a table one can tell what a mend is worth before anybody writes it. Here is one that was taken of another training. It
# has for each function the one that calls it (no function is called from two) and its self seconds. And here are six
# mends that somebody proposes:
#
# - `("rewrite", name, x)`: the function's own code gets `x` times as fast. What it calls takes as long as before.
# - `("fewer", name, x)`: it is called `x` times less often, and with it all that it calls.
#
# `x` may be `inf`: then that code, or that call, is gone.

# %% nbgrader={"schema_version": 3, "grade_id": "mends", "grade": false, "solution": false, "locked": true, "task": false}
noise = np.random.default_rng(SEED).uniform(-0.05, 0.05, 4).round(2).tolist()
training = {
    "train": (None, 0.4),
    "load": ("train", 0.6),
    "decode": ("load", 9.0 + 10 * noise[0]),
    "scale": ("load", 3.0 + 2 * noise[1]),
    "layer": ("train", 6.0 + 4 * noise[2]),
    "report": ("train", 0.2),
    "plot": ("report", 2.3 + 2 * noise[3]),
}
mends = [
    ("fewer", "load", 2.0),
    ("rewrite", "decode", 10.0),
    ("rewrite", "layer", 1.5),
    ("fewer", "report", 50.0),
    ("rewrite", "report", inf),
    ("rewrite", "train", inf),
]
training

# %% [markdown]
# Write `gain(rows, mends)`: how many times faster the program gets when all mends of a list are made. Then write `plan(rows,
# mends)`: the list of those mends that are worth it, in the order in which to make them. Each time it takes the one that gives
# most then, after those that it took before. It ends when none is left, or when the best of those left makes the program, as it
# is then, less than 1.05 times faster.
#
# Predict, on paper: which of the six gives most, which gives nothing to speak of, and in which order will the plan take them?
# Two mends in different parts of a program give 1.5x and 1.4x alone. Do both together give 2.1x, or less, or more?
#
# <details><summary>Hint: how often still?</summary>
#
# For each function: what becomes of the number of its calls when it, or any of those above it, is called less often? Its self
# seconds shrink with it.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "gain", "grade": false, "solution": true, "locked": false, "task": false}
def gain(rows, mends):
    ### BEGIN SOLUTION
    def divided(seconds, kind, name):
        for mend, whose, x in mends:
            if (mend, whose) == (kind, name):
                seconds /= x
        return seconds

    after = 0.0
    for name, (caller, own) in rows.items():
        seconds = divided(divided(own, "rewrite", name), "fewer", name)
        while caller is not None:
            seconds, caller = divided(seconds, "fewer", caller), rows[caller][0]
        after += seconds
    return sum(own for _, own in rows.values()) / after
    ### END SOLUTION


# %%
for mend in mends:
    print(f"{gain(training, [mend]):.2f}x  {mend}")
print(f"{gain(training, mends):.2f}x  all of them")

# %% nbgrader={"schema_version": 3, "grade_id": "gain-rewrite", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert (
    abs(
        gain({"outer": (None, 6.0), "inner": ("outer", 4.0)}, [("rewrite", "outer", 2.0)])
        - 10 / 7
    )
    < 1e-9
)
assert gain(training, []) == 1


### BEGIN HIDDEN TESTS
def some_rows(random):
    """A table of chance, its functions in any order."""
    names = [f"function{number}" for number in range(int(random.integers(6, 12)))]
    callers = [
        None,
        *(
            names[random.integers(max(0, place - 2), place + 1)]
            for place in range(len(names) - 1)
        ),
    ]
    rows = list(zip(names, zip(callers, random.exponential(3, len(names)).tolist())))
    return {rows[place][0]: rows[place][1] for place in random.permutation(len(rows))}


def some_mend(random, rows, kinds=("rewrite", "fewer")):
    """A mend of chance. No x is one of both kinds, so no two mends of a function that calls
    none give the same.
    """
    kind, name = str(random.choice(kinds)), str(random.choice(list(rows)))
    return (
        kind,
        name,
        float(random.choice([1.5, 3, 10, inf] if kind == "rewrite" else [2, 4, 50])),
    )


def seconds_with(rows, mends, name=None, often=1.0):
    """Seconds of all that is called from `name` when the mends are made."""
    whole = 0.0
    for callee, (caller, own) in rows.items():
        if caller == name:
            calls = often * np.prod(
                [1 / x for kind, whose, x in mends if (kind, whose) == ("fewer", callee)]
            )
            faster = np.prod(
                [1 / x for kind, whose, x in mends if (kind, whose) == ("rewrite", callee)]
            )
            whole += own * calls * faster + seconds_with(rows, mends, callee, calls)
    return float(whole)


for _ in range(20):
    random = np.random.default_rng()
    rows = some_rows(random)
    mend = some_mend(random, rows, ["rewrite"])
    expect(gain(rows, [mend]), seconds_with(rows, []) / seconds_with(rows, [mend]), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "gain-fewer", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert (
    abs(
        gain({"a": (None, 6.0), "b": ("a", 3.0), "c": ("b", 1.0)}, [("fewer", "b", 2.0)])
        - 10 / 8
    )
    < 1e-9
)
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    rows = some_rows(random)
    name = random.choice([name for name, (caller, _) in rows.items() if caller is not None])
    for x in (2.0, 3.5, inf):
        mend = ("fewer", str(name), x)
        expect(gain(rows, [mend]), seconds_with(rows, []) / seconds_with(rows, [mend]), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "gain-together", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
both = [("fewer", "load", 2.0), ("rewrite", "decode", 10.0)]
assert gain(training, both) < 0.9 * gain(training, both[:1]) * gain(training, both[1:])
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    rows = some_rows(random)
    several = [some_mend(random, rows) for _ in range(5)]
    several = [(kind, name, 2.0 if rows[name][0] is None else x) for kind, name, x in several]
    expect(gain(rows, several), seconds_with(rows, []) / seconds_with(rows, several), 1e-9)
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "plan", "grade": false, "solution": true, "locked": false, "task": false}
def plan(rows, mends):
    ### BEGIN SOLUTION
    made, left = [], list(mends)
    while left:
        best = max(left, key=lambda mend: gain(rows, [*made, mend]))
        if gain(rows, [*made, best]) < 1.05 * gain(rows, made):
            break
        left.remove(best)
        made.append(best)
    return made
    ### END SOLUTION


# %%
planned = plan(training, mends)
for count, mend in enumerate(planned, 1):
    print(f"{gain(training, planned[:count]):.2f}x so far  {mend}")

# %% nbgrader={"schema_version": 3, "grade_id": "plan-order", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert plan(training, mends)[0] == ("rewrite", "decode", 10.0)
assert plan(training, mends[4:]) == []
### BEGIN HIDDEN TESTS
two_parts = {
    "main": (None, 1.0),
    "load": ("main", 0.3),
    "decode": ("load", 50.0),
    "layer": ("main", 30.0),
}
proposed = [
    ("fewer", "load", 2.0),
    ("rewrite", "layer", 2.0),
    ("rewrite", "decode", 50.0),
    ("fewer", "decode", 1.5),
]
expect(plan(two_parts, proposed), [proposed[2], proposed[1]])
for _ in range(20):
    random = np.random.default_rng()
    rows = some_rows(random)
    whole, steps = seconds_with(rows, []), []
    below = {name: row for name, row in rows.items() if row[0] is not None}
    proposed = list(dict.fromkeys(some_mend(random, below) for _ in range(6)))
    left = list(proposed)
    while left:
        after = {mend: seconds_with(rows, [*steps, mend]) for mend in left}
        best = min(left, key=after.get)
        if whole / after[best] < 1.05:
            break
        whole = after[best]
        left.remove(best)
        steps.append(best)
    expect(plan(rows, proposed), steps)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# Small pictures were exported from a database as text: two hexadecimal digits a pixel, from `00` for black to `ff` for white. A
# script loads {{PICTURES}} of them at a time, with {{PIXELS}} pixels each. It shifts and scales each picture so that its mean is 0
# and its spread 1, and cuts off what lies beyond {{LIMIT}} on either side. A picture whose pixels are all alike has no
# spread: it is not scaled.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
def value(text, place):
    return int(text[2 * place : 2 * place + 2], 16)


def pixels(text):
    return [value(text, place) for place in range(len(text) // 2)]


def mean_of(text):
    numbers = pixels(text)
    return sum(numbers) / len(numbers)


def spread_of(text):
    mean, numbers = mean_of(text), pixels(text)
    return (sum((number - mean) ** 2 for number in numbers) / len(numbers)) ** 0.5


def scaled(text):
    mean, spread = mean_of(text), spread_of(text) or 1.0
    return [min(max((number - mean) / spread, -LIMIT), LIMIT) for number in pixels(text)]


def load_slowly(texts):
    """A batch of scaled pictures: an array of float32, a row for each text."""
    return np.array([scaled(text) for text in texts], dtype=np.float32)


def exported(random, pictures, width):
    """An array of pictures as text. Every twentieth, from the first on, has pixels that are
    all alike.
    """
    grey = np.minimum(random.gamma(1.5, 40, (pictures, width)), 255).astype(np.uint8)
    grey[::20] = random.integers(256, size=(len(grey[::20]), 1))
    return np.array([picture.tobytes().hex().encode() for picture in grey])


texts = exported(np.random.default_rng(SEED), PICTURES, PIXELS)
texts[1][:40]

# %% [markdown]
# Before you mend anything, read. How many times is each text decoded for one batch? Write a guess down. Then write
# `counted(texts)`: it runs `load_slowly(texts)` once under `cProfile` and returns a dict with the number of calls of `value`,
# `pixels`, `mean_of`, `spread_of` and `scaled`, by these names and no others.
#
# <details><summary>Hint: where are the calls?</summary>
#
# Chapter 02, *Which function takes the time?*, makes a table of a recording and takes the calls out of its rows. To see the
# table as a page: `Stats(recording).sort_stats("tottime").print_stats(8)`.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "counted", "grade": false, "solution": true, "locked": false, "task": false}
def counted(texts):
    ### BEGIN SOLUTION
    recording = Profile()
    recording.runcall(load_slowly, texts)
    stats = Stats(recording, stream=StringIO()).stats
    calls = {name: row[1] for (_, _, name), row in stats.items()}
    return {
        name: calls[name] for name in ("value", "pixels", "mean_of", "spread_of", "scaled")
    }
    ### END SOLUTION


# %%
counted(texts)

# %% nbgrader={"schema_version": 3, "grade_id": "counted-calls", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert counted(texts[:3])["scaled"] == 3
assert set(counted(texts[:3])) == {"value", "pixels", "mean_of", "spread_of", "scaled"}
### BEGIN HIDDEN TESTS
for rows, width in ((1, 9), (5, 30), (17, 12)):
    right = {
        "value": 4 * rows * width,
        "pixels": 4 * rows,
        "mean_of": 2 * rows,
        "spread_of": rows,
        "scaled": rows,
    }
    expect(counted(exported(np.random.default_rng(), rows, width)), right)
### END HIDDEN TESTS

# %% [markdown]
# Which function has the longest self time? Is that for its work or for its calls (problem 2)? And what can it give at most to
# decode each text once (problem 4)? With a guess written down, write `load(texts)`, which returns the same as `load_slowly` and is at
# least {{TIMES}} times as fast on {{PICTURES}} texts of {{PIXELS}} pixels. No one mend gets there. Mend what is largest, then
# profile again.
#
# | gate | points |
# | --- | ---: |
# | the answer is right: an array of the same type and shape, its values within 1e-3, on pictures you never saw | 2 |
# | the work is done: it is right at every call of a race in which no picture comes twice | 1 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 3 |
#
# <details><summary>Hint: all digits at once</summary>
#
# `bytes.fromhex` reads a text of any length, and not only two digits: the digits of all pictures one after the other,
# `texts.tobytes().decode()`, are such a text. `np.frombuffer` makes an array of the bytes that come out.
#
# </details>
#
# <details><summary>Hint: all pictures at once</summary>
#
# A mean for each row of an array: `axis=1`, and `keepdims=True` so that it can be taken away from the rows. Mind the pictures
# without spread.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "load", "grade": false, "solution": true, "locked": false, "task": false}
def load(texts):
    ### BEGIN SOLUTION
    numbers = np.frombuffer(bytes.fromhex(texts.tobytes().decode()), np.uint8).reshape(
        len(texts), -1
    )
    centred = numbers - numbers.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True))
    spread[spread == 0] = 1
    return np.clip(centred / spread, -LIMIT, LIMIT).astype(np.float32)
    ### END SOLUTION


# %%
race = compare(load_slowly, load, texts, same=1e-3, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "load-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
class Anew(np.ndarray):
    """Texts that all move on by one digit when the race takes hold of them to change one: no
    picture comes twice.
    """

    def reshape(self, *shape):
        digits = np.asarray(self).view(np.uint8)
        digits[:] = np.roll(digits, 1)
        return np.array(self).reshape(*shape)


def draw(random):
    width = PIXELS + int(random.integers(-2, 3))
    return (exported(random, PICTURES + int(random.integers(-2, 3)), width).view(Anew),)


gates = four_gates("load", "load_slowly", draw=draw, same=1e-3, target=TIMES)
### END HIDDEN TESTS
assert np.allclose(load(np.array([b"00ff"])), [[-1, 1]])
assert np.allclose(load(np.array([b"0a0a0a", b"0a1410"]))[0], [0, 0, 0])
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "load-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert np.allclose(load(texts[::-1].copy()), load(texts)[::-1], atol=1e-5)
assert load(texts)[1].std() > 0.5
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "load-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "load-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 3}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
