# %% [markdown]
# # Problem set 08: Verification
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 08, Verification.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
FASTER = draw.choice((2, 2.5, 3))
MARGIN = draw.choice((0.005, 0.01, 0.02))
SAMPLES = draw.randrange(55, 64)
BATCH = draw.choice((16, 17, 18))
FEATURES = draw.choice((4, 5, 6))
RUNS = draw.choice((5, 6, 7))
FAULTY = draw.randrange(2_500, 2_700)
GOOD = draw.randrange(7_000, 7_400)
TIMES = draw.choice((18, 19, 20))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
import re
from copy import deepcopy
from math import isnan, nan
from types import SimpleNamespace

import numpy as np
import torch
from scipy.special import stdtrit

from steptime import PairedRatios, Verdict, compare, verify
from steptime.equivalence import interval_of_move

torch.set_num_threads(1)

# %% [markdown]
# ## 1. Do you take the change?
#
# Four people made a step faster. Each of them wrote the report in two lines.


# %% nbgrader={"schema_version": 3, "grade_id": "reports", "grade": false, "solution": false, "locked": true, "task": false}
def written(ratio, move, random, margin=MARGIN, pairs=60, metric="accuracy"):
    """A report, as `verify.report` writes it.

    ratio: how many times faster the step got, or None where the answers differ. move: of the
    mean metric, in margins.
    """
    off = random.permutation(np.linspace(-0.04, 0.04, pairs))
    seconds, same = random.uniform(1e-4, 1e-2), Verdict(True, "3e-08")
    timed = (
        []
        if ratio is None
        else [(float(ratio * (1 + share) * seconds), float(seconds)) for share in off]
    )
    if ratio is None:
        same = Verdict(False, "0.03 apart, 1e-06 allowed")
    race = SimpleNamespace(pairs=timed, ratios=PairedRatios(timed), same=same)
    spread = np.linspace(-margin, margin, 8) / 3
    mean = random.uniform(0.8, 0.84)
    before, after = (mean + shift + random.permutation(spread) for shift in (0, move * margin))
    return verify.report(race, before.tolist(), after.tolist(), margin, metric)


random = np.random.default_rng(SEED)
reports = [
    written(1.3 * FASTER, 0, random),
    written(1.7 * FASTER, -3, random),
    written(1.6 * FASTER, 1, random),
    written(None, 0, random),
]
print("\n\n".join(reports))

# %% [markdown]
# You take a change where it makes the step at least {{FASTER}} times as fast and the mean accuracy stays within
# {{MARGIN}}. Which of the four do you take, which not, and where can you not tell? Decide before you write a line.
#
# Then write `take(report, x, margin)`, for reports of any metric:
#
# - `True` where both lines show what is asked: the step is at least `x` times as fast, the whole interval above `x`, and
#   the training is equivalent within `margin`;
# - `False` where one line shows the contrary: the whole interval lies below `x`, the answers differ, or the mean moved by
#   more than `margin`. Whatever the other line says, you do not take it;
# - `None` in all other cases.
#
# The margin in the report is not always yours. What does "equivalent within 0.02" say to somebody who can give away 0.03,
# and what to somebody who can give away 0.001? And "not equivalent within 0.02"?
#
# <details><summary>Hint: one line at a time</summary>
#
# Let each line give `True`, `False` or `None` first, then put the two together. The interval stands in parentheses in front
# of the number of pairs; where there are too few pairs, there is none.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "take", "grade": false, "solution": true, "locked": false, "task": false}
def take(report, x, margin):
    ### BEGIN SOLUTION
    step, metric = report.splitlines()
    interval = re.search(r"\(([\d.,]+)-([\d.,]+)\), [\d,]+ interleaved pairs", step)
    fast = False if "answers differ" in step else None
    if interval:
        low, high = (float(number.replace(",", "")) for number in interval.groups())
        fast = True if low > x else False if high < x else None
    words, within = re.search(r"\): (.+) within (\S+)$", metric).groups()
    same = None
    if words == "equivalent" and margin >= float(within):
        same = True
    elif words == "not equivalent" and margin <= float(within):
        same = False
    if fast is False or same is False:
        return False
    return True if fast and same else None
    ### END SOLUTION


# %%
[take(report, FASTER, MARGIN) for report in reports]

# %% nbgrader={"schema_version": 3, "grade_id": "take-both-lines", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert take(reports[0], FASTER, MARGIN) is True
assert take(reports[0], 9 * FASTER, MARGIN) is False
assert take(reports[1], FASTER, MARGIN) is False
assert take(reports[2], FASTER, MARGIN) is None
### BEGIN HIDDEN TESTS
for metric in ("F1", "top-5 accuracy", "accuracy"):
    random = np.random.default_rng()
    ratio, allowed = float(random.uniform(0.5, 40)), float(random.choice([0.001, 0.003, 0.04]))
    for move, answers in (
        (0, [True, None, False]),
        (1, [None, None, False]),
        (3, [False, False, False]),
    ):
        report = written(ratio, move, random, margin=allowed, metric=metric)
        expect([take(report, share * ratio, allowed) for share in (0.8, 1, 1.25)], answers)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "take-other-margin", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert take(reports[0], FASTER, 1.5 * MARGIN) is True
assert take(reports[0], FASTER, 0.1 * MARGIN) is None
### BEGIN HIDDEN TESTS
for allowed in (0.002, 0.03):
    random = np.random.default_rng()
    same, between, moved = (written(5, move, random, margin=allowed) for move in (0, 1, -1.6))
    expect([take(same, 4, share * allowed) for share in (3, 1, 0.3)], [True, True, None])
    expect([take(between, 4, share * allowed) for share in (1.2, 1, 0.8)], [None, None, None])
    expect([take(moved, 4, share * allowed) for share in (1.6, 1, 0.1)], [None, False, False])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "take-nothing-timed", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert take(reports[3], FASTER, MARGIN) is False
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
few = [written(30, move, random, pairs=9) for move in (0, 1, 3)]
expect([take(report, 2, MARGIN) for report in few], [None, None, False])
expect(
    [take(written(None, move, random), 0.1, MARGIN) for move in (0, 1, 3)],
    [False, False, False],
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Which gradient is wrong?
#
# Somebody finds automatic differentiation slow for a small network, derives its gradients on paper and computes them in
# float32. Somebody else cuts the batch into micro-batches. The loss itself is a function in float64 that both trust.


# %% nbgrader={"schema_version": 3, "grade_id": "gradients", "grade": false, "solution": false, "locked": true, "task": false}
def network(random, unit=1.0):
    """(weights just set up, inputs, targets) of a network with one hidden layer; the inputs
    are about one unit large.
    """
    weights = {
        "first": random.normal(0, 0.5, (FEATURES, 4)) / unit,
        "shift": np.zeros(4),
        "last": random.normal(0, 1, 4),
    }
    return (
        weights,
        random.normal(0, 1, (SAMPLES, FEATURES)) * unit,
        random.normal(1, 1, SAMPLES),
    )


def loss_on(x, y):
    """The loss, a mean squared error, as a function of the weights."""

    def loss(weights):
        hidden = np.tanh(x @ weights["first"] + weights["shift"])
        return float(((hidden @ weights["last"] - y) ** 2).mean())

    return loss


def by_hand(weights, x, y):
    """The gradient of the loss by each array of weights, derived on paper."""
    first, shift, last, x, y = (array.astype("float32") for array in (*weights.values(), x, y))
    hidden = np.tanh(x @ first + shift)
    error = 2 * (hidden @ last - y) / len(y)
    back = error[:, None] * last * (1 - hidden**2)
    return {"first": x.T @ back, "shift": back.sum(0), "last": hidden.T @ error}


def in_parts(weights, x, y, rows):
    """The same in micro-batches of so many rows: the mean of their gradients."""
    parts = [
        by_hand(weights, x[i : i + rows], y[i : i + rows]) for i in range(0, len(y), rows)
    ]
    return {name: np.mean([part[name] for part in parts], axis=0) for name in weights}


weights, x, y = network(np.random.default_rng(SEED))

# %% [markdown]
# Write `wrong(loss_of, weights, gradients, allowed)`. It finds the true gradient from the loss alone: move one weight by
# a little up and by as much down, and see how far the loss moves. It returns a list with the names of the arrays whose
# gradient is wrong, in the order of `weights`.
#
# - `loss_of(weights)` is the loss, a number, of a dict of weights. `weights` and `gradients` are dicts of arrays, with the
#   same names and shapes.
# - The gradient of an array is wrong where one of its numbers is off by more than `allowed` times the largest magnitude
#   in the true gradient of this array, not of all.
# - Some arrays hold zeros only. And the inputs of some networks are counted in bytes, or measured in kilometres: all that
#   they are multiplied by is then tiny, or large.
#
# There are {{SAMPLES}} samples. Guess: in micro-batches of {{BATCH}}, which of the three gradients are wrong, and does a
# tolerance of a hundredth notice?
#
# <details><summary>Hint: how little is a little?</summary>
#
# Too little, and the two losses share all digits that float64 has. Too much, and the loss is no straight line between
# them. A hundred-thousandth of what? A step of 0.00001 is nothing to a weight of 3, and turns a weight of 0.00002 into
# another one.
#
# </details>
#
# <details><summary>Hint: one number in many</summary>
#
# `np.ndindex(array.shape)` gives the place of each number in an array of any shape. Move it in a copy of the array, and
# hand on `{**weights, name: moved}`.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "wrong", "grade": false, "solution": true, "locked": false, "task": false}
def wrong(loss_of, weights, gradients, allowed):
    ### BEGIN SOLUTION
    found = []
    for name, array in weights.items():
        step, true = 1e-5 * (np.abs(array).max() or 1.0), np.empty(array.shape)
        for place in np.ndindex(array.shape):
            up, down = array.copy(), array.copy()
            up[place] += step
            down[place] -= step
            true[place] = (
                loss_of({**weights, name: up}) - loss_of({**weights, name: down})
            ) / (2 * step)
        if np.abs(gradients[name] - true).max() > allowed * np.abs(true).max():
            found.append(name)
    return found
    ### END SOLUTION


# %%
parts = in_parts(weights, x, y, BATCH)
[wrong(loss_on(x, y), weights, parts, allowed) for allowed in (1e-4, 1e-2, 1)]

# %% nbgrader={"schema_version": 3, "grade_id": "wrong-named", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
weights, x, y = network(np.random.default_rng(SEED))
assert wrong(loss_on(x, y), weights, by_hand(weights, x, y), 1e-4) == []
assert wrong(loss_on(x, y), weights, in_parts(weights, x, y, BATCH), 1e-4) == list(weights)
### BEGIN HIDDEN TESTS
faults = [
    lambda gradient: 8 * gradient,
    lambda gradient: -gradient,
    lambda gradient: gradient / 1.02,
]
faults += [lambda gradient: np.where(np.abs(gradient) == np.abs(gradient).max(), 0, gradient)]
for number, fault in enumerate(faults):
    weights, x, y = network(np.random.default_rng())
    gradients = by_hand(weights, x, y)
    names = [name for name in weights if name != list(weights)[number % 3]]
    gradients |= {name: fault(gradients[name]) for name in names}
    expect(wrong(loss_on(x, y), weights, gradients, 1e-4), names)
    expect(wrong(loss_on(x, y), weights, by_hand(weights, x, y), 1e-4), [])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "wrong-relative-to-its-own", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
weights, x, y = network(np.random.default_rng(SEED))
gradients = by_hand(weights, x, y)
gradients["last"] = gradients["last"] + 0.005 * np.abs(gradients["last"]).max()
assert wrong(loss_on(x, y), weights, gradients, 1e-3) == ["last"]
assert wrong(loss_on(x, y), weights, gradients, 1e-2) == []
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
weights, x, y = network(random)
weights["last"] *= 1e-3  # so the gradients of the other two are a thousand times smaller
right = by_hand(weights, x, y)
rounded = {
    name: g + 5e-5 * np.abs(g).max() * random.uniform(-1, 1, g.shape)
    for name, g in right.items()
}
expect(wrong(loss_on(x, y), weights, rounded, 1e-4), [])
for name in ("first", "shift"):
    expect(wrong(loss_on(x, y), weights, right | {name: 1.01 * right[name]}, 1e-4), [name])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "wrong-in-other-units", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
weights, x, y = network(np.random.default_rng(SEED), unit=1e5)
assert wrong(loss_on(x, y), weights, by_hand(weights, x, y), 1e-4) == []
assert wrong(loss_on(x, y), weights, in_parts(weights, x, y, BATCH), 1e-4) == list(weights)
### BEGIN HIDDEN TESTS
for unit in (1e7, 1e5, 1e-5, 1e-6):
    weights, x, y = network(np.random.default_rng(), unit)
    right = by_hand(weights, x, y)
    expect(wrong(loss_on(x, y), weights, right, 1e-4), [])
    for name in weights:
        expect(wrong(loss_on(x, y), weights, right | {name: 1.01 * right[name]}, 1e-4), [name])
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Seed by seed
#
# Some seeds are lucky: what they draw trains well, before a change and after it. The chapter's test takes the two sides
# as independent and does not see that. Here are ten runs on each side. They were trained side by side and were written
# down as they finished; on each side one more was trained that the other lacks.


# %% nbgrader={"schema_version": 3, "grade_id": "finished", "grade": false, "solution": false, "locked": true, "task": false}
def finished(random, seeds, move, own, luck=0.01):
    """{seed: accuracy} before and after a change that moves the mean by `move`.

    luck: the spread of what a seed brings to both sides. own: the spread of what it brings to
    one of them.
    """
    numbers = random.permutation(100)[: seeds + 2].tolist()
    lucky = {number: float(0.9 + luck * random.normal()) for number in numbers}
    mine = random.permutation(np.linspace(-own, own, seeds)).tolist()
    before = {number: lucky[number] for number in random.permutation(numbers[:-1]).tolist()}
    after = {number: lucky[number] + move + off for number, off in zip(numbers[1:-1], mine)}
    after[numbers[-1]] = lucky[numbers[-1]]
    return before, {
        number: after[number] for number in random.permutation(list(after)).tolist()
    }


before, after = finished(
    np.random.default_rng(SEED), 10, 0.2 * MARGIN, 0.3 * MARGIN, luck=1.5 * MARGIN
)
before, after

# %% [markdown]
# Write `same_training(before, after, margin)`, for two such dicts. Only seeds that both sides have count, except in the
# first line below. The answer is, in this order:
#
# 1. `False` where any run after the change ended in NaN, whatever the others did. (No run before it did.)
# 2. `None` where fewer than five seeds count, or where all that count ended in the same number on one side: perhaps the
#    seed does not reach the training.
# 3. By the interval of the move. Take the move of each of the n seeds, their mean and their standard deviation s, with
#    n - 1 in its denominator. The interval is the mean ± t·s/√n, where a value of Student's t distribution with
#    n - 1 degrees of freedom lies above t once in a thousand: `stdtrit(n - 1, 0.999)`. `True` where it lies inside of
#    the margin, `False` where it lies outside of it, above or below, and else `None`.
#
# What does the chapter's test say of the runs above, with a margin of {{MARGIN}}, and what will yours say? Does it help
# to pair the runs in the order in which they finished?


# %% nbgrader={"schema_version": 3, "grade_id": "same_training", "grade": false, "solution": true, "locked": false, "task": false}
def same_training(before, after, margin):
    ### BEGIN SOLUTION
    if any(isnan(metric) for metric in after.values()):
        return False
    seeds = [seed for seed in before if seed in after]
    old, new = (np.array([side[seed] for seed in seeds]) for side in (before, after))
    if len(seeds) < 5 or len(set(old.tolist())) == 1 or len(set(new.tolist())) == 1:
        return None
    moves = new - old
    reach = stdtrit(len(seeds) - 1, 0.999) * moves.std(ddof=1) / len(seeds) ** 0.5
    low, high = moves.mean() - reach, moves.mean() + reach
    if -margin < low and high < margin:
        return True
    return False if low > margin or high < -margin else None
    ### END SOLUTION


# %%
print(verify.equivalent(list(before.values()), list(after.values()), MARGIN))
same_training(before, after, MARGIN)

# %% nbgrader={"schema_version": 3, "grade_id": "same-three-answers", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
alike = [
    {seed: 0.9 + seed / 50 + (0.0, 0.01 * seed)[side] for seed in range(5)} for side in (0, 1)
]
# The moves are 0 to 0.04: a mean of 0.02, s = 0.0158, t = 7.17 with 4 degrees of freedom, so
# the interval is -0.031 to 0.071.
assert [same_training(*alike, margin) for margin in (0.01, 0.07, 0.072)] == [None, None, True]
assert (
    same_training(alike[0], {seed: metric - 1 for seed, metric in alike[1].items()}, 0.9)
    is False
)
### BEGIN HIDDEN TESTS
for seeds in (5, 8, 20):
    for move in (-0.02, 0.002, 0.03):
        random = np.random.default_rng()
        before, after = finished(random, seeds, move, 0.002)
        moves = np.array([after[seed] - before[seed] for seed in before.keys() & after.keys()])
        reach = stdtrit(seeds - 1, 0.999) * moves.std(ddof=1) / seeds**0.5
        near, far = abs(moves.mean()) - reach, abs(moves.mean()) + reach
        margins = [1.02 * far, 0.98 * far, *([0.98 * near] if near > 0 else [])]
        expect(
            [same_training(before, after, margin) for margin in margins],
            [True, None, False][: len(margins)],
        )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "same-by-seed", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
before, after = finished(
    np.random.default_rng(SEED), 10, 0.2 * MARGIN, 0.3 * MARGIN, luck=1.5 * MARGIN
)
assert same_training(before, after, MARGIN) is True
### BEGIN HIDDEN TESTS
for move, answer in ((0, True), (0.004, None), (-0.01, False)):
    before, after = finished(np.random.default_rng(), 12, move, 0.001, luck=0.02)
    alone, failed = list(before.keys() - after.keys()), list(after.keys() - before.keys())
    expect(same_training({**before, alone[0]: 0.1}, {**after, failed[0]: 0.3}, 0.004), answer)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "same-nothing-shown", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
few = finished(np.random.default_rng(SEED), 4, 0, 0.001)
five = finished(np.random.default_rng(SEED), 5, 0, 0.001)
assert (same_training(*few, 0.5), same_training(*five, 0.5)) == (None, True)
### BEGIN HIDDEN TESTS
before, after = finished(np.random.default_rng(), 9, 0, 0.001)
both = before.keys() & after.keys()
constant = {seed: 0.95 if seed in both else metric for seed, metric in after.items()}
expect([same_training(before, side, 0.5) for side in (after, constant)], [True, None])
constant = {seed: 0.95 if seed in both else metric for seed, metric in before.items()}
expect(
    [
        same_training(constant, after, 0.5),
        same_training(*finished(np.random.default_rng(), 3, 9, 0.1), 0.5),
    ],
    [None] * 2,
)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "same-failed", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
before, after = finished(np.random.default_rng(SEED), 10, 0, 0.001)
assert same_training(before, after, 0.5) is True
assert same_training(before, {**after, next(iter(after)): nan}, 0.5) is False
### BEGIN HIDDEN TESTS
for seeds in (3, 30):
    before, after = finished(np.random.default_rng(), seeds, 0, 0.001)
    for failed in after:
        expect(same_training(before, {**after, failed: nan}, 0.5), False)
### END HIDDEN TESTS

# %% [markdown]
# **What can few runs show?** Your training costs a day, and you can pay for {{RUNS}} runs on each side, independent of
# each other. The change you made changes nothing, but you do not know that. Guess: how wide must the margin be, in
# standard deviations of a run, for the chapter's test to say "equivalent" in 9 of 10 such trials, at its rate of one
# error in a thousand?
#
# Write `margin_for(runs, share, error_rate)`: the margin, in standard deviations, with which an unchanged training passes
# in that share of trials. Draw the trials: metrics of both sides, all from one normal distribution with a standard
# deviation of 1. `interval_of_move(before, after, error_rate)` gives the interval of each; it takes arrays of (trials,
# runs). To be off by 3 % is allowed.
#
# <details><summary>Hint: no search</summary>
#
# Ask each trial which margin it would just have passed. Then ask which margin is wide enough for nine tenths of them.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "margin_for", "grade": false, "solution": true, "locked": false, "task": false}
def margin_for(runs, share, error_rate):
    ### BEGIN SOLUTION
    before, after = np.random.default_rng().normal(size=(2, 20_000, runs))
    low, high = interval_of_move(before, after, error_rate)
    return float(np.quantile(np.maximum(-low, high), share))
    ### END SOLUTION


# %%
{runs: margin_for(runs, 0.9, 0.001) for runs in (RUNS, 10, 20, 40)}

# %% nbgrader={"schema_version": 3, "grade_id": "margin-for", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert margin_for(RUNS, 0.9, 0.001) > 1.5 * margin_for(3 * RUNS, 0.9, 0.001)
assert 0.9 < margin_for(20, 0.9, 0.05) < 1.2
### BEGIN HIDDEN TESTS
for runs, share, error_rate in ((RUNS, 0.9, 0.001), (10, 0.8, 0.05), (30, 0.95, 0.01)):
    before, after = np.random.default_rng().normal(size=(2, 40_000, runs))
    low, high = interval_of_move(before, after, error_rate)
    right = np.quantile(np.maximum(-low, high), share)
    found = margin_for(runs, share, error_rate)
    assert abs(found / right - 1) < 0.04, (
        f"the margin is {right:.3f} standard deviations, not {found:.3f}"
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Go on where you stopped
#
# A long training is stopped half-way and goes on the next day. The loss falls as before, so all seems well. But is it the
# same training? Here is a small one that has what large ones have: an order drawn anew for each pass, a last batch that
# is smaller, noise on the inputs, dropout, momentum, a learning rate that falls, and a running mean of the weights for
# the evaluation.


# %% nbgrader={"schema_version": 3, "grade_id": "training", "grade": false, "solution": false, "locked": true, "task": false}
data = torch.from_numpy(np.random.default_rng(SEED).normal(size=(SAMPLES, FEATURES + 1)))
inputs, targets = data[:, :FEATURES], data[:, FEATURES]
STILL = {"shuffle": False, "noise": 0.0, "dropout": 0.0}


class Training:
    """A training that can be stopped after any step."""

    def __init__(self, seed, shuffle=True, noise=0.1, dropout=0.3):
        torch.manual_seed(seed)
        layers = (
            torch.nn.Linear(FEATURES, 8),
            torch.nn.Tanh(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(8, 1),
        )
        self.net = torch.nn.Sequential(*layers).double()
        self.running = deepcopy(self.net).eval()
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda steps: 1 / (1 + steps / 5)
        )
        self.shuffle, self.noise = shuffle, noise
        self.orders = torch.Generator().manual_seed(seed)
        self.noises = np.random.default_rng(seed)
        self.left = []  # the samples that are still to come in this pass

    def step(self):
        """Train on the next batch; its loss."""
        if not self.left:
            order = (
                torch.randperm(SAMPLES, generator=self.orders)
                if self.shuffle
                else torch.arange(SAMPLES)
            )
            self.left = order.tolist()
        chosen, self.left = self.left[:BATCH], self.left[BATCH:]
        noise = torch.from_numpy(self.noises.normal(0, 1, (len(chosen), FEATURES)))
        outputs = self.net(inputs[chosen] + self.noise * noise)[:, 0]
        loss = torch.nn.functional.mse_loss(outputs, targets[chosen])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        with torch.no_grad():
            for mean, weight in zip(self.running.parameters(), self.net.parameters()):
                mean.lerp_(weight, 0.1)
        return loss.item()

    def error(self):
        """The mean squared error of the running mean."""
        with torch.no_grad():
            return torch.nn.functional.mse_loss(self.running(inputs)[:, 0], targets).item()


def straight(seed, settings, stop, steps):
    """(losses of `steps` steps after the first `stop`, error at the end) of a training that
    nobody interrupts.
    """
    training = Training(seed, **settings)
    losses = [training.step() for _ in range(stop + steps)]
    return losses[stop:], training.error()


straight(SEED, {}, 2, 3)

# %% [markdown]
# Write `save(training)`, which gives all that has to be kept, as plain data, and `load(training, saved)`, which puts it
# into a training that was set up anew, with another seed and the same settings. From there on it has to go on as if
# nobody had stopped it: the same losses, the same error at the end. What was saved must stay as it was while the training
# goes on.
#
# Leave the last two functions of the cell as they are: the tests call them.
#
# Predict first. A training is loaded with its weights and nothing else. Which is the first step whose loss is another
# one, with `STILL` settings (no shuffling, no noise, no dropout), and which with all of them? Try it, with a `load` of
# one line. Then make a list of all that a step changes.
#
# <details><summary>Hint: how many?</summary>
#
# Eight things change from step to step. Seven of them are attributes of the training. The eighth is the generator that the
# dropout draws from, which is torch's own: `torch.get_rng_state()`.
#
# </details>
#
# <details><summary>Hint: what has a state</summary>
#
# Networks, optimisers and schedules have `state_dict()` and `load_state_dict(...)`, a torch generator `get_state()` and
# `set_state(...)`, NumPy's `noises.bit_generator.state`, which can be read and set. What `state_dict` gives is not a copy.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "resume", "grade": false, "solution": true, "locked": false, "task": false}
def save(training):
    ### BEGIN SOLUTION
    state = {
        name: getattr(training, name).state_dict()
        for name in ("net", "running", "optimiser", "schedule")
    }
    state["generators"] = (
        torch.get_rng_state(),
        training.orders.get_state(),
        training.noises.bit_generator.state,
    )
    state["left"] = training.left
    return deepcopy(state)
    ### END SOLUTION


def load(training, saved):
    ### BEGIN SOLUTION
    for name in ("net", "running", "optimiser", "schedule"):
        getattr(training, name).load_state_dict(saved[name])
    dropouts, orders, noises = saved["generators"]
    torch.set_rng_state(dropouts)
    training.orders.set_state(orders)
    training.noises.bit_generator.state = noises
    training.left = saved["left"]
    ### END SOLUTION


def checkpoints(seed, settings, stops):
    """What is saved after each of the numbers of steps in `stops`, of one training that goes
    on.
    """
    training, kept = Training(seed, **settings), []
    for step in range(1, max(stops) + 1):
        training.step()
        if step in stops:
            kept.append(save(training))
    return kept


def resumed(settings, saved, steps):
    """(losses of the next `steps` steps, error at the end) of a training that is loaded."""
    training = Training(0, **settings)
    load(training, deepcopy(saved))
    return [training.step() for _ in range(steps)], training.error()


# %%
resumed({}, checkpoints(SEED, {}, [6])[0], 5), straight(SEED, {}, 6, 5)

# %% nbgrader={"schema_version": 3, "grade_id": "resume-losses", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
losses, _ = resumed(STILL, checkpoints(SEED, STILL, [8])[0], 6)
assert np.allclose(losses, straight(SEED, STILL, 8, 6)[0], rtol=1e-9)
### BEGIN HIDDEN TESTS
for stop in (4, 12):
    seed = int(np.random.default_rng().integers(1, 10**6))
    losses, _ = resumed(STILL, checkpoints(seed, STILL, [stop])[0], 15)
    expect(losses, straight(seed, STILL, stop, 15)[0], 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "resume-error", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
_, error = resumed(STILL, checkpoints(SEED, STILL, [8])[0], 6)
assert abs(error / straight(SEED, STILL, 8, 6)[1] - 1) < 1e-9
### BEGIN HIDDEN TESTS
seed = int(np.random.default_rng().integers(1, 10**6))
expect(
    resumed(STILL, checkpoints(seed, STILL, [16])[0], 3)[1],
    straight(seed, STILL, 16, 3)[1],
    1e-9,
)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "resume-mid-pass", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
shuffled = {"noise": 0.0, "dropout": 0.0}
losses, _ = resumed(shuffled, checkpoints(SEED, shuffled, [6])[0], 9)
assert np.allclose(losses, straight(SEED, shuffled, 6, 9)[0], rtol=1e-9)
### BEGIN HIDDEN TESTS
for stop in (1, 7, 8):
    seed = int(np.random.default_rng().integers(1, 10**6))
    losses, _ = resumed(shuffled, checkpoints(seed, shuffled, [stop])[0], 9)
    expect(losses, straight(seed, shuffled, stop, 9)[0], 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "resume-all-that-is-drawn", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
losses, error = resumed({}, checkpoints(SEED, {}, [6])[0], 9)
right = straight(SEED, {}, 6, 9)
assert np.allclose(losses, right[0], rtol=1e-9) and abs(error / right[1] - 1) < 1e-9
### BEGIN HIDDEN TESTS
for stop in (3, 10):
    seed = int(np.random.default_rng().integers(1, 10**6))
    for settings in ({}, {"noise": 0.7, "dropout": 0.1}):
        kept = checkpoints(seed, settings, [stop])
        checkpoints(seed + 1, settings, [2])
        losses, error = resumed(settings, kept[0], 9)
        right = straight(seed, settings, stop, 9)
        expect(losses, right[0], 1e-9)
        expect(error, right[1], 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "resume-from-an-earlier-one", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
kept = checkpoints(SEED, STILL, [4, 8, 12])
right = straight(SEED, STILL, 4, 6)
losses, error = resumed(STILL, kept[0], 6)
assert np.allclose(losses, right[0], rtol=1e-9) and abs(error / right[1] - 1) < 1e-9
### BEGIN HIDDEN TESTS
seed = int(np.random.default_rng().integers(1, 10**6))
kept = checkpoints(seed, STILL, [4, 8, 16])
for stop, saved in zip((4, 8, 16), kept):
    losses, error = resumed(STILL, saved, 7)
    right = straight(seed, STILL, stop, 7)
    expect(losses, right[0], 1e-9)
    expect(error, right[1], 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# A network gives each part on an assembly line a score: the higher, the more it looks faulty. After every pass a script
# asks how well the scores tell {{FAULTY}} faulty parts from {{GOOD}} good ones. It looks at all pairs of a faulty and a
# good part and counts in how many the faulty one scores higher, and in how many both score the same. The first number
# plus half of the second, as a share of all pairs, is known as the area under the curve, AUC. It takes longer than the
# pass.


# %% nbgrader={"schema_version": 3, "grade_id": "ranked_slowly", "grade": false, "solution": false, "locked": true, "task": false}
def ranked_slowly(scores, is_faulty):
    """(pairs of a faulty and a good part in which the faulty one scores higher, pairs in which
    both score the same).
    """
    good, higher, same = scores[~is_faulty], 0, 0
    for score in scores[is_faulty]:
        higher += int((good < score).sum())
        same += int((good == score).sum())
    return higher, same


def scored(random, faulty, good):
    """(scores, is_faulty) of so many parts, in float32. The network computes in bfloat16, so
    that many scores are equal.
    """
    is_faulty = random.permutation(np.arange(faulty + good) < faulty)
    return torch.from_numpy(
        random.normal(1.2 * is_faulty, 1)
    ).bfloat16().float().numpy(), is_faulty


scores, is_faulty = scored(np.random.default_rng(SEED), FAULTY, GOOD)
ranked_slowly(scores, is_faulty)

# %% [markdown]
# Write `ranked(scores, is_faulty)`, which returns the same two numbers and is at least {{TIMES}} times as fast. Which
# tolerance do two counts need? None: they are the same, to the last pair.
#
# | gate | points |
# | --- | ---: |
# | the answer is right: a tuple of two numbers, exactly those, on scores you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 3 |
#
# Guess how much you gain by one comparison of all faulty parts with all good ones, a table of {{FAULTY}} by {{GOOD}}, and
# how much by `np.count_nonzero` in the place of `sum`. Try both. Then ask how many of all these comparisons are needed.
#
# <details><summary>Hint: the same question, thousands of times</summary>
#
# For each faulty part the question is how many good parts score lower. Were the good ones in order, you would look up a
# place, and read no other score.
#
# </details>
#
# <details><summary>Hint: two places</summary>
#
# `np.searchsorted(ordered, values, side="left")` and `side="right"`. They differ where a value is among those in order.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "ranked", "grade": false, "solution": true, "locked": false, "task": false}
def ranked(scores, is_faulty):
    ### BEGIN SOLUTION
    good, faulty = (
        np.sort(scores[~is_faulty]),
        np.sort(scores[is_faulty]),
    )  # in order, neighbours look at the same places
    lower, not_higher = (np.searchsorted(good, faulty, side) for side in ("left", "right"))
    return int(lower.sum()), int((not_higher - lower).sum())
    ### END SOLUTION


# %%
race = compare(ranked_slowly, ranked, scores, is_faulty, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "ranked-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    return scored(random, FAULTY - int(random.integers(20)), GOOD - int(random.integers(20)))


gates = four_gates("ranked", "ranked_slowly", draw=draw, same=0.0, target=TIMES)
### END HIDDEN TESTS
tied = np.array([0.5, 2.0, 2.0, 1.0, 2.0], dtype="float32")
assert ranked(tied, np.array([False, True, False, True, False])) == (2, 2)
### BEGIN HIDDEN TESTS
for faulty, good in ((1, 1), (1, 300), (300, 1)):
    few = scored(np.random.default_rng(), faulty, good)
    expect(ranked(*few), ranked_slowly(*few))
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranked-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert ranked(scores, is_faulty) != ranked(-scores, is_faulty)
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranked-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranked-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 3}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
