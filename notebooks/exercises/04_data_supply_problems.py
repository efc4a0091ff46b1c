# %% [markdown]
# # Problem set 04: Data supply
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 04, Data supply.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
PREPARE = draw.choice((26, 30, 34))
COMPUTE = draw.choice((7, 8, 9))
STALL = draw.choice((32, 40, 48))
PERCENT = draw.choice((4, 5, 6))
WORKERS = draw.choice((3, 4, 5))
EPOCHS = draw.choice((20, 30, 40))
EDGE = draw.choice((9, 10))
SIDE = draw.choice((5, 6))
COUNT = draw.randrange(640, 700)
MEAN = [draw.randrange(400, 500) / 1000 for _ in range(3)]
DEVIATION = [draw.randrange(210, 260) / 1000 for _ in range(3)]
TIMES = draw.choice((7, 8))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
from itertools import pairwise
from math import ceil
from statistics import median

import numpy as np

from steptime import compare

# %% [markdown]
# ## 1. How many workers are enough?
#
# A training without workers wrote down every step: the number of its epoch, the seconds it waited for its batch, the
# seconds it computed. The first step of each epoch also opens the files. Some waits were interrupted by what else ran on
# the machine.


# %% nbgrader={"schema_version": 3, "grade_id": "log", "grade": false, "solution": false, "locked": true, "task": false}
def training(random, epochs, steps, prepare, compute):
    """(epoch, wait, computation) of each step."""
    log = []
    for number in range(epochs * steps):
        wait, computation = (
            seconds * random.lognormal(0, 0.05) for seconds in (prepare, compute)
        )
        wait += 60 * prepare * (number % steps == 0) + 20 * prepare * (random.random() < 0.04)
        log.append((number // steps, float(wait), float(computation)))
    return log


log = training(np.random.default_rng(SEED), 3, 100, PREPARE / 1000, COMPUTE / 1000)
log[:2], log[100]

# %% [markdown]
# To prepare a batch takes about {{PREPARE}} ms, to compute on it {{COMPUTE}} ms. Before you write a line: how many
# workers are enough, and what would two more bring?
#
# Write `plan(log, cores=None)`. It leaves out the first step of each epoch and gives a dict:
#
# - `"wait_share"`: the part of the time that is waiting, 0 to 1;
# - `"workers"`: the number of workers with which the bound is as low as it can get, and no more of them than that takes;
# - `"step"`: this bound, in seconds a step.
#
# Take medians for t_d and t_c. Where `cores` is `None`, preparation waits for a server and workers never compete. Where
# it is a number, preparation computes: w workers take t_d / min(w, `cores`) for a batch. Count no core for the training.
#
# <details><summary>Hint: where does it end?</summary>
#
# The bound is max(t_d / w, t_c). More workers lower it until t_d / w is no more than t_c, or until the cores end. Even
# where t_d is below t_c one worker is worth having: without any, a step takes t_d + t_c.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "plan", "grade": false, "solution": true, "locked": false, "task": false}
def plan(log, cores=None):
    ### BEGIN SOLUTION
    later = [step for before, step in pairwise(log) if before[0] == step[0]]
    waits, computations = [step[1] for step in later], [step[2] for step in later]
    prepare, compute = median(waits), median(computations)
    workers = ceil(prepare / compute)
    if cores is not None:
        workers = min(workers, cores)
    return {
        "wait_share": sum(waits) / (sum(waits) + sum(computations)),
        "workers": workers,
        "step": max(prepare / workers, compute),
    }
    ### END SOLUTION


# %%
plan(log), plan(log, cores=2)

# %% nbgrader={"schema_version": 3, "grade_id": "plan-wait-share", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert (
    abs(
        plan([(0, 90, 2), (0, 5, 2), (0, 7, 2), (1, 80, 9), (1, 6, 2)])["wait_share"] - 18 / 24
    )
    < 1e-9
)
### BEGIN HIDDEN TESTS
other = training(np.random.default_rng(), 4, 60, 0.03, 0.02)
waited, computed = (
    sum(step[part] for n, step in enumerate(other) if n % 60) for part in (1, 2)
)
expect(plan(other)["wait_share"], waited / (waited + computed), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "plan-workers", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert plan([(0, 90, 2), (0, 5, 2), (0, 7, 2), (0, 6, 2)])["workers"] == 3
### BEGIN HIDDEN TESTS
for ratio in (0.4, 1.3, 2.7, 4.4, 6.6):
    other = training(np.random.default_rng(), 3, 120, 0.01 * ratio, 0.01)
    expect(plan(other)["workers"], ceil(ratio))
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "plan-step", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(plan([(0, 90, 2), (0, 5, 2), (0, 7, 2), (0, 6, 2)])["step"] - 2) < 1e-9
### BEGIN HIDDEN TESTS
for ratio in (0.4, 2.7, 6.6):
    other = training(np.random.default_rng(), 3, 120, 0.01 * ratio, 0.01)
    t_d, t_c = (
        median(step[part] for n, step in enumerate(other) if n % 120) for part in (1, 2)
    )
    expect(plan(other)["step"], max(t_d / ceil(ratio), t_c), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "plan-cores", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
cramped = plan([(0, 90, 2), (0, 9, 2), (0, 9, 2)], cores=3)
assert cramped["workers"] == 3 and abs(cramped["step"] - 3) < 1e-9
### BEGIN HIDDEN TESTS
other = training(np.random.default_rng(), 3, 120, 0.046, 0.01)
t_d, t_c = (median(step[part] for n, step in enumerate(other) if n % 120) for part in (1, 2))
for cores, workers in ((1, 1), (2, 2), (4, 4), (16, 5)):
    found = plan(other, cores)
    expect([found["workers"], found["step"]], [workers, max(t_d / workers, t_c)], 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. When does a step wait?
#
# A `DataLoader` with w workers keeps to these rules:
#
# - Batch number i is prepared by worker i mod w. A worker prepares one batch at a time, in their order.
# - It prepares no batch that was not handed out. At the start the first w × `prefetch_factor` batches are handed out.
#   Whenever the training takes a batch, one more is.
# - The training takes the batches in their order. It asks for one, takes it as soon as it is prepared, computes on it,
#   and asks for the next.
#
# Write `simulate(prepare, compute, workers, factor)`: the seconds that each step waits for its batch, as a list.
# `prepare[i]` are the seconds that batch i takes to prepare, `compute[i]` the seconds of the computation on it. At time 0
# the workers begin, and the training asks for the first batch. Nothing else takes time.
#
# Four batches take 1, 1, 6 and 1 s to prepare, each computation 3 s. There is one worker. Write the four waits for a
# factor of 1 and of 2 on paper before you write a line.
#
# <details><summary>Hint: three times for each batch</summary>
#
# When is it handed out? When is it prepared? When is it taken? To be handed out it has to wait until an earlier batch is
# taken: which one? To be begun it has to be handed out, and its worker has to be done with an earlier one: which?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "simulate", "grade": false, "solution": true, "locked": false, "task": false}
def simulate(prepare, compute, workers, factor):
    ### BEGIN SOLUTION
    prepared, taken, waits, asked = [], [], [], 0.0
    for number, (preparing, computing) in enumerate(zip(prepare, compute)):
        handed_out = taken[number - workers * factor] if number >= workers * factor else 0.0
        free = prepared[number - workers] if number >= workers else 0.0
        prepared.append(max(handed_out, free) + preparing)
        taken.append(max(asked, prepared[-1]))
        waits.append(taken[-1] - asked)
        asked = taken[-1] + computing
    return waits
    ### END SOLUTION


# %%
for factor in (1, 2):
    print(f"a factor of {factor}: {simulate([1, 1, 6, 1], [3] * 4, 1, factor)}")

# %% [markdown]
# The chapter's uneven source: every eighth batch takes {{STALL}} ms, the others nothing, and a computation takes
# {{COMPUTE}} ms. What part of the time does the training wait, with a factor of 1, 2, 4 and 8? Guess, then look.

# %%
uneven, steady = ([0.0] * 7 + [STALL / 1000]) * 20, [COMPUTE / 1000] * 160
for factor in (1, 2, 4, 8):
    waiting = sum(simulate(uneven, steady, 1, factor))
    print(f"a factor of {factor}: {waiting / (waiting + sum(steady)):.0%} waiting")


# %% nbgrader={"schema_version": 3, "grade_id": "simulate-one-worker", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
### BEGIN HIDDEN TESTS
def drawn_times(random, steps):
    prepare, compute = random.exponential(2, steps), random.uniform(1, 3, steps)
    return prepare.tolist(), compute.tolist()


def right_waits(prepare, compute, workers, factor):
    ready, left, asked = {}, {}, 0.0
    for i, seconds in enumerate(prepare):
        begun = max(left.get(i - workers * factor, 0.0), ready.get(i - workers, 0.0))
        ready[i] = begun + seconds
        left[i] = max(asked, ready[i])
        yield left[i] - asked
        asked = left[i] + compute[i]


### END HIDDEN TESTS
assert np.allclose(simulate([1, 1, 6, 1], [3, 3, 3, 3], 1, 4), [1, 0, 1, 0])
### BEGIN HIDDEN TESTS
for _ in range(5):
    prepare, compute = drawn_times(np.random.default_rng(), 30)
    expect(simulate(prepare, compute, 1, 30), list(right_waits(prepare, compute, 1, 30)), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "simulate-factor", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert np.allclose(simulate([1, 1, 6, 1], [3, 3, 3, 3], 1, 1), [1, 0, 3, 0])
assert np.allclose(simulate([1, 1, 6, 1], [3, 3, 3, 3], 1, 2), [1, 0, 1, 0])
### BEGIN HIDDEN TESTS
for factor in (1, 2, 3, 5):
    prepare, compute = drawn_times(np.random.default_rng(), 40)
    expect(
        simulate(prepare, compute, 1, factor),
        list(right_waits(prepare, compute, 1, factor)),
        1e-9,
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "simulate-workers", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert np.allclose(simulate([4, 4, 4, 4], [1, 1, 1, 1], 2, 2), [4, 0, 2, 0])
### BEGIN HIDDEN TESTS
for workers in (2, 3, 5):
    prepare, compute = drawn_times(np.random.default_rng(), 60)
    prepare = [workers * seconds for seconds in prepare]
    expect(
        simulate(prepare, compute, workers, 60),
        list(right_waits(prepare, compute, workers, 60)),
        1e-9,
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "simulate-any", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
# Any number of workers with any factor: these tests are not shown.
### BEGIN HIDDEN TESTS
for _ in range(20):
    workers, factor = np.random.default_rng().integers(1, 5, 2).tolist()
    prepare, compute = drawn_times(np.random.default_rng(), 60)
    prepare = [workers * seconds for seconds in prepare]
    expect(
        simulate(prepare, compute, workers, factor),
        list(right_waits(prepare, compute, workers, factor)),
        1e-9,
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 3. What does a larger prefetch_factor help against?
#
# One worker prepares from a source that stalls: of every `every` batches, all but one take `quick` seconds, and one takes
# longer. A computation takes `compute` seconds, more than `quick`. If the stall is too long, no `prefetch_factor` makes
# up for it.
#
# Write `longest_stall(quick, compute, every)`: the seconds of the longest stall with which a training without end still
# keeps its pace, if the factor is as large as it likes. The chapter asks why none helps where every eighth batch takes 80
# ms and a computation 8 ms. Your function has the answer in one number.
#
# <details><summary>Hint: one round</summary>
#
# How long does the training compute while it uses up `every` batches? How long does the worker take to prepare as many?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "longest-stall", "grade": false, "solution": true, "locked": false, "task": false}
def longest_stall(quick, compute, every):
    ### BEGIN SOLUTION
    return every * compute - (every - 1) * quick
    ### END SOLUTION


# %%
longest_stall(0, 0.008, 8)

# %% nbgrader={"schema_version": 3, "grade_id": "stall-longest", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert longest_stall(2, 3, 1) == 3
### BEGIN HIDDEN TESTS
for quick, compute, every in ((0, 8, 8), (2, 3, 5), (0.5, 4, 20), (6, 7, 12)):
    longest = longest_stall(quick, compute, every)
    expect(longest, every * compute - (every - 1) * quick, 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# Batches in store take memory, so nobody wants a larger factor than it takes. `run(factor)` trains an epoch with a factor
# and gives two lists: the waits and the computations of its steps, in seconds. An epoch is expensive.
#
# Write `smallest_factor(run, prepare, compute, workers)`. `prepare` and `compute` are the seconds of a batch and of a
# computation on average, from an epoch without workers: a stall of the source comes again and counts here. Workers do not
# compete, and stalls fall on all of them alike. It gives
#
# - the smallest factor, from 1 to 64, with which the wait share is at most {{PERCENT}} %, the first step of the epoch
#   left out;
# - 0 where preparation is too slow on average for any factor. Then it runs nothing.
#
# Where preparation keeps up on average, 64 is always enough here. Seven runs have to do.
#
# <details><summary>Hint: seven runs</summary>
#
# A larger factor never makes a training wait longer. So one run with 32 says in which half the smallest one is.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "smallest-factor", "grade": false, "solution": true, "locked": false, "task": false}
def smallest_factor(run, prepare, compute, workers):
    ### BEGIN SOLUTION
    if prepare / workers > compute:
        return 0
    low, high = 1, 64
    while low < high:
        middle = (low + high) // 2
        waits, computations = run(middle)
        waiting, computing = sum(waits[1:]), sum(computations[1:])
        if waiting <= PERCENT / 100 * (waiting + computing):
            high = middle
        else:
            low = middle + 1
    return low
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "factor-smallest", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
### BEGIN HIDDEN TESTS
class Epochs:
    """Epochs of a source that stalls, counted. use: t_d / w over t_c, on average."""

    def __init__(self, use, workers):
        random, every = (
            np.random.default_rng(),
            int(np.random.default_rng().choice([7, 11, 23])),
        )
        self.compute, quick = (
            random.uniform(0.9, 1.1, 1_000),
            workers * random.uniform(0.1, 0.4),
        )
        self.prepare, self.workers, self.ran = np.full(1_000, quick), workers, []
        self.prepare[every - 1 :: every] = workers * use * every - (every - 1) * quick
        self.arguments = (
            self.run,
            float(self.prepare.mean()),
            float(self.compute.mean()),
            workers,
        )

    def run(self, factor):
        self.ran.append(factor)
        return self.waits(factor), self.compute.tolist()

    def waits(self, factor):
        ready, left, asked, waits = {}, {}, 0.0, []
        for i, (preparing, computing) in enumerate(
            zip(self.prepare.tolist(), self.compute.tolist())
        ):
            begun = max(
                left.get(i - self.workers * factor, 0.0), ready.get(i - self.workers, 0.0)
            )
            ready[i] = begun + preparing
            left[i] = max(asked, ready[i])
            waits.append(left[i] - asked)
            asked = left[i] + computing
        return waits

    def is_enough(self, factor):
        waiting, computing = sum(self.waits(factor)[1:]), float(self.compute[1:].sum())
        return waiting / (waiting + computing) <= PERCENT / 100


### END HIDDEN TESTS
runs = [([9.0] + [1.0 if factor < 5 else 0.01] * 20, [1.0] * 21) for factor in range(65)]
assert smallest_factor(lambda factor: runs[factor], 0.7, 1.0, 1) == 5
### BEGIN HIDDEN TESTS
for workers in (1, 2, 3):
    for use in (0.6, 0.8):
        epochs = Epochs(use, workers)
        smallest = next(factor for factor in range(1, 65) if epochs.is_enough(factor))
        expect(smallest_factor(*epochs.arguments), smallest)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "factor-none", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
asked = []
assert smallest_factor(asked.append, 1.3, 1.0, 1) == 0 and asked == []
### BEGIN HIDDEN TESTS
for workers in (1, 2, 3):
    too_slow = Epochs(1.25, workers)
    expect([smallest_factor(*too_slow.arguments), too_slow.ran], [0, []])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "factor-few-runs", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
asked = []
late = ([9.0] + [1.0] * 20, [1.0] * 21), ([9.0] + [0.01] * 20, [1.0] * 21)
assert (
    smallest_factor(lambda factor: asked.append(factor) or late[factor >= 37], 0.7, 1.0, 1)
    >= 37
)
assert 1 <= len(asked) <= 7
### BEGIN HIDDEN TESTS
for workers in (1, 3):
    epochs = Epochs(0.8, workers)
    found = smallest_factor(*epochs.arguments)
    assert 1 <= len(epochs.ran) <= 7, f"{len(epochs.ran)} runs"
    assert epochs.is_enough(found), f"with a factor of {found} it waits too long"
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Each record once, and no draw twice
#
# A stream lies in shards of different lengths. Somebody splits it by files:


# %% nbgrader={"schema_version": 3, "grade_id": "by-files", "grade": false, "solution": false, "locked": true, "task": false}
def by_files(lengths, worker, workers):
    """(shard, first, stop) of what a worker reads, where every w-th shard is its own: the
    records first to stop - 1.
    """
    return [(shard, 0, lengths[shard]) for shard in range(worker, len(lengths), workers)]


lengths = np.random.default_rng(SEED).integers(200, 900, WORKERS + 2).tolist()
lengths

# %% [markdown]
# There are {{WORKERS}} workers, and the epoch is over when the last of them is done. All records take equally long. How
# many times longer does the epoch take than it has to? Estimate it from the lengths.

# %%
reads = [
    sum(stop - first for _, first, stop in by_files(lengths, worker, WORKERS))
    for worker in range(WORKERS)
]
f"{max(reads) / (sum(lengths) / WORKERS):.2f} times"

# %% [markdown]
# Write `stretch(lengths, worker, workers)`. It gives the same kind of list, of tuples `(shard, first, stop)` in the order
# of the shards, but each worker reads one stretch of the stream: worker 0 the beginning, the next one what follows, and
# so on.
#
# - Together they read every record once.
# - No worker reads more than one record more than another.
# - A shard of which a worker reads nothing is not in its list. There may be more workers than records.
#
# <details><summary>Hint: number the records</summary>
#
# Number the records through, over all shards. Where does the stretch of a worker begin, so that it ends where the next
# one begins? Then cut each shard with it.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "stretch", "grade": false, "solution": true, "locked": false, "task": false}
def stretch(lengths, worker, workers):
    ### BEGIN SOLUTION
    begin, end = (number * sum(lengths) // workers for number in (worker, worker + 1))
    pieces, start = [], 0
    for shard, length in enumerate(lengths):
        first, stop = max(begin - start, 0), min(end - start, length)
        if first < stop:
            pieces.append((shard, first, stop))
        start += length
    return pieces
    ### END SOLUTION


# %%
[stretch(lengths, worker, WORKERS) for worker in range(WORKERS)]

# %% nbgrader={"schema_version": 3, "grade_id": "stretch-once", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
halves = [[tuple(piece) for piece in stretch([5, 3], worker, 2)] for worker in (0, 1)]
assert halves == [[(0, 0, 4)], [(0, 4, 5), (1, 0, 3)]]
### BEGIN HIDDEN TESTS
for shards, workers in ((6, 4), (3, 7), (9, 2), (5, 1), (2, 3)):
    others = np.random.default_rng().integers(0, 40, shards).tolist() if shards > 2 else [1, 1]
    pieces = [piece for worker in range(workers) for piece in stretch(others, worker, workers)]
    read = [(shard, record) for shard, first, stop in pieces for record in range(first, stop)]
    assert read == [
        (shard, record) for shard, length in enumerate(others) for record in range(length)
    ]
    assert all(first < stop for _, first, stop in pieces)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "stretch-even", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
read = [
    sum(stop - first for _, first, stop in stretch([4, 3, 4], worker, 4))
    for worker in range(4)
]
assert sorted(read) == [2, 3, 3, 3]
### BEGIN HIDDEN TESTS
for shards, workers in ((2, 10), (6, 4), (3, 7), (40, 16)):
    others = (
        np.random.default_rng().integers(1, 40, shards).tolist() if shards > 2 else [10, 7]
    )
    read = [
        sum(stop - first for _, first, stop in stretch(others, worker, workers))
        for worker in range(workers)
    ]
    assert max(read) > 0 and max(read) - min(read) in (0, 1)
### END HIDDEN TESTS

# %% [markdown]
# Each worker also draws crops and flips at random. To have the same draws again in another run, somebody gives it a
# generator of its own at the start of each epoch: `np.random.default_rng(seed + epoch + worker)`. Epochs and workers are
# counted from 0.
#
# In {{EPOCHS}} epochs with {{WORKERS}} workers there should be {{EPOCHS}} × {{WORKERS}} different sequences of draws. How
# many are there? Write `sequences(epochs, workers)`, which says so for any numbers.


# %% nbgrader={"schema_version": 3, "grade_id": "sequences", "grade": false, "solution": true, "locked": false, "task": false}
def sequences(epochs, workers):
    ### BEGIN SOLUTION
    return epochs + workers - 1
    ### END SOLUTION


# %%
sequences(EPOCHS, WORKERS), EPOCHS * WORKERS

# %% nbgrader={"schema_version": 3, "grade_id": "sequences-different", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert sequences(1, 1) == 1
### BEGIN HIDDEN TESTS
for epochs, workers in ((1, 6), (7, 1), (2, 2), (31, 8)):
    expect(
        sequences(epochs, workers),
        len({epoch + worker for epoch in range(epochs) for worker in range(workers)}),
    )
### END HIDDEN TESTS

# %% [markdown]
# Write `draws(seed, epoch, worker, count)`: an array of `count` numbers of float64 from 0 to 1, drawn at random. The same
# four arguments always give the same array, whatever was drawn before. With another seed, epoch or worker, a neighbour's
# too, no number comes again.
#
# <details><summary>Hint: a seed need not be one number</summary>
#
# A sum forgets what it was made of. `np.random.default_rng` also takes a list of numbers.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "draws", "grade": false, "solution": true, "locked": false, "task": false}
def draws(seed, epoch, worker, count):
    ### BEGIN SOLUTION
    return np.random.default_rng([seed, epoch, worker]).random(count)
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "draws-again", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert draws(1, 2, 3, 5).shape == (5,)
### BEGIN HIDDEN TESTS
seed = int(np.random.default_rng().integers(10**6))
cases = [(seed, epoch, worker, 50) for epoch in (0, 5) for worker in (0, 3)]
before = [draws(*case) for case in cases]
expect([draws(*case) for case in reversed(cases)], before[::-1])
for numbers in before:
    expect(numbers, np.array(numbers, dtype="float64"))
    assert numbers.shape == (50,) and 0 <= numbers.min() < 0.3 and 0.7 < numbers.max() < 1
### END HIDDEN TESTS
assert (draws(1, 2, 3, 5) == draws(1, 2, 3, 5)).all()

# %% nbgrader={"schema_version": 3, "grade_id": "draws-never-twice", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert not set(draws(SEED, 0, 1, 9)) & set(draws(SEED, 1, 0, 9))
### BEGIN HIDDEN TESTS
seed = int(np.random.default_rng().integers(10**6))
every = [
    (number, epoch, worker)
    for number in (seed, seed + 1)
    for epoch in range(25)
    for worker in range(12)
]
seen = np.concatenate([draws(*case, 4) for case in every])
assert len(seen) == 4 * len(every)
assert len(set(seen.tolist())) == len(seen), (
    f"of {len(seen)} draws {len(set(seen.tolist()))} are different"
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# A training on pieces of photographs makes each batch sample by sample. It picks a piece, crops it, flips it or not,
# changes its contrast and normalises it. What is drawn at random comes as arguments, so that the batch can be made again.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
import torch

torch.set_num_threads(1)
mean, deviation = torch.tensor(MEAN), torch.tensor(DEVIATION)


def make_batch_slowly(pieces, chosen, corners, flips, contrasts):
    """A batch of float32, (samples, 3 colours, SIDE, SIDE).

    pieces: uint8, (pieces, EDGE, EDGE, 3 colours). For each sample: the number of its piece,
    the (top, left) corner of the
    crop, whether left and right are swapped, how many times its contrast.
    """
    samples = []
    choices = (column.tolist() for column in (chosen, corners, flips, contrasts))
    for number, (top, left), flip, contrast in zip(*choices):
        pixels = pieces[number, top : top + SIDE, left : left + SIDE].permute(2, 0, 1) / 255
        if flip:
            pixels = pixels.flip(2)
        level = pixels.mean()
        pixels = (level + contrast * (pixels - level)).clamp(0, 1)
        samples.append((pixels - mean[:, None, None]) / deviation[:, None, None])
    return torch.stack(samples)


# %% nbgrader={"schema_version": 3, "grade_id": "arguments", "grade": false, "solution": false, "locked": true, "task": false}
def drawn(random, count):
    """The arguments for a batch of `count` samples."""
    pieces = random.integers(0, 256, (200, EDGE, EDGE, 3), dtype=np.uint8)
    chosen, flips = random.integers(0, len(pieces), count), random.random(count) < 0.5
    corners = random.integers(0, EDGE - SIDE + 1, (count, 2))
    contrasts = random.uniform(0.5, 1.8, count).astype(np.float32)
    return tuple(map(torch.from_numpy, (pieces, chosen, corners, flips, contrasts)))


arguments = drawn(np.random.default_rng(SEED), COUNT)
[(tuple(tensor.shape), tensor.dtype) for tensor in arguments]

# %% [markdown]
# Write `make_batch(pieces, chosen, corners, flips, contrasts)`, which returns the same and is at least {{TIMES}} times as
# fast for {{COUNT}} samples. There are four gates, each with its points, and each opens only behind the one before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: a tensor of the same type and shape, its values within 1e-5 of the largest, on draws you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# A worker would hide some of this, on a core of its own. Less work needs no core. Guess how much you gain if only the
# last line of the loop, the normalising, is done for the whole batch, then try it.
#
# <details><summary>Hint: count</summary>
#
# How many times is torch called for a sample, and how many numbers does it work on at each call? Which of these calls
# could work on all samples at once? Chapter 01, *What does a Python loop cost?*
#
# </details>
#
# <details><summary>Hint: each sample has a corner of its own</summary>
#
# A tensor can be indexed by tensors: `pieces[numbers, rows, columns]` takes one pixel for each place of the three, whose
# shapes are brought together as in a sum. The rows of a sample are its top plus 0, 1, 2, … To flip it, what has to happen
# to its columns?
#
# </details>
#
# <details><summary>Hint: each sample has a level of its own</summary>
#
# `mean` takes the dimensions to average over, and `keepdim=True` leaves the result in a shape that fits the batch.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "make-batch", "grade": false, "solution": true, "locked": false, "task": false}
def make_batch(pieces, chosen, corners, flips, contrasts):
    ### BEGIN SOLUTION
    rows, columns = corners.T[:, :, None] + torch.arange(SIDE)
    columns = torch.where(flips[:, None], columns.flip(1), columns)
    places = chosen[:, None, None], rows[:, :, None], columns[:, None, :]
    pixels = pieces[places].permute(0, 3, 1, 2) / 255
    level = pixels.mean(dim=(1, 2, 3), keepdim=True)
    pixels = (level + contrasts[:, None, None, None] * (pixels - level)).clamp(0, 1)
    return (pixels - mean[:, None, None]) / deviation[:, None, None]
    ### END SOLUTION


# %%
race = compare(make_batch_slowly, make_batch, *arguments, same=1e-5, budget=5)
race


# %% nbgrader={"schema_version": 3, "grade_id": "batch-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    return drawn(random, COUNT + int(random.integers(-20, 20)))


gates = four_gates("make_batch", "make_batch_slowly", draw=draw, same=1e-5, target=TIMES)
### END HIDDEN TESTS
few = drawn(np.random.default_rng(SEED), 6)
assert make_batch(*few).shape == (6, 3, SIDE, SIDE)
assert torch.allclose(make_batch(*few), make_batch_slowly(*few), atol=1e-5)
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "batch-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
brighter = arguments[0] // 2 + 128
assert not torch.equal(make_batch(*arguments), make_batch(brighter, *arguments[1:]))
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "batch-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "batch-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
