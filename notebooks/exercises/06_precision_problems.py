# %% [markdown]
# # Problem set 06: Precision
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 06, Precision.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, lists, dicts, tensors.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
EXPONENT = draw.choice((6, 7))
MANTISSA = draw.choice((5, 6, 8, 9))
WAIT = draw.choice((6, 8, 9))
CHUNK = draw.choice((16, 32, 64))
ALLOWED = draw.choice((0.015, 0.018, 0.02))
BLOCK = draw.randrange(21, 28)
LENGTH = 1_500 * BLOCK + draw.randrange(3, BLOCK - 3)
TIMES = draw.choice((24, 25, 26))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
import math

import numpy as np
import torch

from steptime import compare
from steptime.answers import difference

torch.set_num_threads(1)

# %% [markdown]
# ## 1. What does a format hold?
#
# A chip has numbers of its own: a sign, {{EXPONENT}} bits of exponent, {{MANTISSA}} of mantissa. They are read as the chapter
# reads fp16 and bf16. An exponent of all ones is kept for infinity and for what is no number. One of all zeros begins with "0."
# in the place of "1.", at the power of the smallest normal number.
#
# Write `reach(exponent, mantissa)`. It gives what a format with so many bits holds, as a dict:
#
# - `"largest"`: its largest number;
# - `"normal"`: its smallest normal number;
# - `"least"`: its smallest number above 0.
#
# Which of the three change with one more bit of mantissa, and which with one more bit of exponent?
#
# <details><summary>Hint: what stands for 2^0?</summary>
#
# With 8 bits the exponent 127 does, half of 255 rounded down. So the exponent 1 stands for 2^-126 and 254 for 2^127. With 5 bits
# it is 15.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "reach", "grade": false, "solution": true, "locked": false, "task": false}
def reach(exponent, mantissa):
    ### BEGIN SOLUTION
    middle = 2 ** (exponent - 1) - 1
    normal = 2.0 ** (1 - middle)
    return {
        "largest": (2 - 2.0**-mantissa) * 2.0**middle,
        "normal": normal,
        "least": normal * 2.0**-mantissa,
    }
    ### END SOLUTION


# %%
reach(EXPONENT, MANTISSA)

# %% nbgrader={"schema_version": 3, "grade_id": "reach-normal", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
for dtype, exponent, mantissa in (
    (torch.float16, 5, 10),
    (torch.bfloat16, 8, 7),
    (torch.float32, 8, 23),
):
    found, info = reach(exponent, mantissa), torch.finfo(dtype)
    assert (found["largest"], found["normal"]) == (info.max, info.smallest_normal)
### BEGIN HIDDEN TESTS
for exponent, mantissa in ((EXPONENT, MANTISSA), (5, 2), (8, 10), (7, 3), (4, 4)):
    found, last = reach(exponent, mantissa), 2 ** (exponent - 1) - 1
    largest = sum(2.0 ** (last - place) for place in range(mantissa + 1))
    expect([found["largest"], found["normal"] * 2.0 ** (last - 1)], [largest, 1.0], 1e-12)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "reach-least", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert reach(5, 10)["least"] == 2**-24
### BEGIN HIDDEN TESTS
for exponent, mantissa in ((EXPONENT, MANTISSA), (5, 2), (8, 7), (8, 10), (4, 4)):
    expect(
        reach(exponent, mantissa)["least"],
        math.ldexp(1.0, 2 - 2 ** (exponent - 1) - mantissa),
        1e-12,
    )
### END HIDDEN TESTS

# %% [markdown]
# Now do by hand what a chip does after each operation. Write `rounded(x, mantissa)`: the number nearest to `x` that has at most
# so many bits of mantissa. Where two are equally near, take the one whose last bit is 0. The exponent reaches as far as you like,
# so nothing overflows or underflows.
#
# <details><summary>Hint: take the number apart</summary>
#
# `math.frexp(x)` gives a part from 0.5 to 1 and a power of two. Move the part up until all bits that stay are in front of the
# point; `math.ldexp` does it. Python's `round` goes to the even number at a tie.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "rounded", "grade": false, "solution": true, "locked": false, "task": false}
def rounded(x, mantissa):
    ### BEGIN SOLUTION
    part, power = math.frexp(x)
    return math.ldexp(round(math.ldexp(part, mantissa + 1)), power - mantissa - 1)
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "rounded-nearest", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert (
    rounded(70_000.0, 7) == 70_144
    and rounded(-1 / 3, 10) == -0.333251953125
    and rounded(0.0, 7) == 0
)
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
wide = (random.choice([-1, 1], 60) * 10 ** random.uniform(-30, 30, 60)).astype("float32")
wide = (wide.view("int32") | 1).view("float32")  # so none is a tie
expect([rounded(float(x), 7) for x in wide], torch.tensor(wide).bfloat16().tolist())
near = (random.uniform(-900, 900, 60).astype("float32").view("int32") | 1).view("float32")
expect([rounded(float(x), 10) for x in near], torch.tensor(near).half().tolist())
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "rounded-ties", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert [rounded(257.0, 7), rounded(259.0, 7)] == [256, 260]
### BEGIN HIDDEN TESTS
odd = [float(2 * number + 1) for number in np.random.default_rng().integers(128, 256, 30)]
expect([rounded(x, 7) for x in odd], torch.tensor(odd).bfloat16().tolist())
expect([rounded(x / -64, 7) for x in odd], (torch.tensor(odd) / -64).bfloat16().tolist())
more = [float(2 * number + 1) for number in np.random.default_rng().integers(1_024, 2_048, 30)]
expect([rounded(x, 10) for x in more], torch.tensor(more).half().tolist())
### END HIDDEN TESTS


# %% [markdown]
# Then write `counts_to(step, mantissa)`: begin at 0, add the whole number `step` again and again, and round each sum. Where
# does it stop changing? In bf16 it is 256 for steps of 1. Predict it for 2 and for 3 before you write a line.


# %% nbgrader={"schema_version": 3, "grade_id": "counts-to", "grade": false, "solution": true, "locked": false, "task": false}
def counts_to(step, mantissa):
    ### BEGIN SOLUTION
    total = 0
    while (after := rounded(total + step, mantissa)) != total:
        total = after
    return total
    ### END SOLUTION


# %%
[counts_to(step, 7) for step in (1, 2, 3)]


# %% nbgrader={"schema_version": 3, "grade_id": "counts-to-the-end", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert counts_to(1, 7) == 256 and counts_to(1, 10) == 2_048


### BEGIN HIDDEN TESTS
def counted(step, dtype):
    total, step = (torch.tensor(number, dtype=dtype) for number in (0, step))
    while total + step != total:
        total = total + step
    return total.item()


for step in (2, 3, 5, 12):
    expect(counts_to(step, 7), counted(step, torch.bfloat16))
expect(
    [counts_to(step, 10) for step in (2, 3)], [counted(step, torch.float16) for step in (2, 3)]
)
expect(counts_to(1, MANTISSA), 2 ** (MANTISSA + 1))
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Where does the scale go?
#
# A training in fp16 wrote down the largest gradient of each step, unscaled. `real` shows them to torch's own `GradScaler` and
# gives the scale before each step, and the one after the last.


# %% nbgrader={"schema_version": 3, "grade_id": "real", "grade": false, "solution": false, "locked": true, "task": false}
class Idle:
    """An optimiser with one weight that it never changes."""

    def __init__(self, weight):
        self.param_groups = [{"params": [weight]}]

    def step(self):
        """Do nothing."""


def real(largest, start, wait):
    """The scales of torch's GradScaler: init_scale is start, growth_interval is wait."""
    weight = torch.zeros((), requires_grad=True)
    optimiser, scaler = (
        Idle(weight),
        torch.amp.GradScaler("cpu", init_scale=start, growth_interval=wait),
    )
    scales = [start]
    for size in largest:
        scaler.scale(torch.zeros(()))
        weight.grad = torch.tensor(size * scales[-1]).half().float()
        scaler.step(optimiser)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def sizes_of_gradients(steps, random):
    """The largest gradient of each step: it wanders, by a factor of four now and then."""
    drift = np.cumsum(random.choice([-2, 0, 0, 0, 0, 0, 0, 2], steps))
    return (2.0 ** drift.clip(-14, 14) * random.uniform(0.5, 1, steps)).tolist()


largest = sizes_of_gradients(120, np.random.default_rng(SEED))
[f"2^{math.log2(scale):.0f}" for scale in real(largest, 2.0**20, WAIT)[:12]]

# %% [markdown]
# Write `scales(largest, start, wait)`, which returns the same list, by the three rules of the chapter and without a scaler. A step
# overflows where its largest gradient, times the scale and rounded to fp16, is infinite. After `wait` good steps in a row the
# scale is doubled. With every change of the scale the count begins anew.
#
# Draw the first twelve scales on paper for gradients that stay at 1, a start at 2^18 and a `wait` of {{WAIT}}.
#
# <details><summary>Hint: when is it infinite?</summary>
#
# Ask a tensor: `torch.tensor(number).half().isinf()`. 65,504 is the largest number, and what lies above by less than half a step
# is rounded down to it.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "scales", "grade": false, "solution": true, "locked": false, "task": false}
def scales(largest, start, wait):
    ### BEGIN SOLUTION
    seen, good = [start], 0
    for size in largest:
        scale = seen[-1]
        good += 1
        if torch.tensor(size * scale).half().isinf():
            scale, good = scale / 2, 0
        elif good == wait:
            scale, good = scale * 2, 0
        seen.append(scale)
    return seen
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "scales-halved", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert scales([1.0] * 6, 2.0**18, 100) == [
    2.0**18,
    2.0**17,
    2.0**16,
    2.0**15,
    2.0**15,
    2.0**15,
    2.0**15,
]
assert scales([65_510.0, 65_520.0], 1.0, 100) == [1, 1, 0.5]
### BEGIN HIDDEN TESTS
for start in (2.0**32, 2.0**24):
    other = sizes_of_gradients(80, np.random.default_rng())
    expect(scales(other, start, 100), real(other, start, 100))
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "scales-doubled", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert scales([1.0] * 7, 2.0**14, 2) == [
    2.0**14,
    2.0**14,
    2.0**15,
    2.0**15,
    2.0**16,
    2.0**15,
    2.0**15,
    2.0**16,
]
assert scales(largest, 2.0**20, WAIT) == real(largest, 2.0**20, WAIT)
### BEGIN HIDDEN TESTS
expect(scales([4.0] * 8 + [0.5] * 30, 2.0**16, 5), real([4.0] * 8 + [0.5] * 30, 2.0**16, 5))
for wait in (1, 3, 7):
    other = sizes_of_gradients(200, np.random.default_rng())
    expect(scales(other, 2.0**10, wait), real(other, 2.0**10, wait))
### END HIDDEN TESTS

# %% [markdown]
# Let the largest gradient stay as it is, and the scale have found its place. Which share of the steps is skipped then? Write
# `skipped(wait)`, for ever: a short formula, which `scales` can confirm. What does it give for torch's own 2,000?


# %% nbgrader={"schema_version": 3, "grade_id": "skipped", "grade": false, "solution": true, "locked": false, "task": false}
def skipped(wait):
    ### BEGIN SOLUTION
    return 1 / (wait + 1)
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "skipped-share", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert 0 < skipped(2_000) < skipped(5) < skipped(1) < 1
### BEGIN HIDDEN TESTS
for wait in (1, 2, 5, WAIT):
    # the first step finds the place
    steady = real([1.0] * (20 * (wait + 1) + 1), 2.0**16, wait)[1:]
    halved = sum(np.diff(steady) < 0)
    expect(skipped(wait), halved / (20 * (wait + 1)), 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# Somebody wants one scale for good. Write `best(gradients)` for a float32 tensor of unscaled gradients. It returns two numbers:
#
# - the largest power of two by which all of them can be multiplied and still be finite in fp16; it may lie below 1;
# - which share of the gradients that are not 0 becomes 0 in fp16 at that scale.
#
# Guess for `gradients` below: with no scale a third of them vanishes. Which share is it with the best one?


# %% nbgrader={"schema_version": 3, "grade_id": "gradients", "grade": false, "solution": false, "locked": true, "task": false}
def trained(count, middle, width, random):
    """Gradients whose sizes lie around 2^middle, a tenth of them 0."""
    sizes = 2.0 ** random.normal(middle, width, count) * random.choice([-1, 1], count)
    return torch.tensor(sizes * (random.random(count) > 0.1), dtype=torch.float32)


gradients = trained(20_000, -23, 4.5, np.random.default_rng(SEED))
(gradients.half()[gradients != 0] == 0).float().mean().item()


# %% nbgrader={"schema_version": 3, "grade_id": "best", "grade": false, "solution": true, "locked": false, "task": false}
def best(gradients):
    ### BEGIN SOLUTION
    scale = 2.0**120
    while (gradients * scale).half().isinf().any():
        scale /= 2
    there = gradients[gradients != 0]
    return scale, ((there * scale).half() == 0).double().mean().item()
    ### END SOLUTION


# %%
best(gradients)

# %% nbgrader={"schema_version": 3, "grade_id": "best-scale", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert best(torch.tensor([0.75, -1.0, 0.0]))[0] == 2**15
assert best(torch.tensor([40_000.0, -70_000.0]))[0] == 0.5
### BEGIN HIDDEN TESTS
for middle, width in ((-20, 5), (-9, 3), (4, 4)):
    other = trained(6_000, middle, width, np.random.default_rng())
    powers = [
        power for power in range(-40, 60) if (other.double() * 2.0**power).abs().max() < 65_520
    ]
    expect(best(other)[0], 2.0 ** max(powers))
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "best-vanished", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert best(torch.tensor([1.0, 0.0, 0.0, 2.0**-50]))[1] == 0.5
### BEGIN HIDDEN TESTS
for middle, width in ((-20, 9), (-9, 11), (4, 10)):
    other = trained(6_000, middle, width, np.random.default_rng())
    power = max(
        power for power in range(-60, 60) if (other.double() * 2.0**power).abs().max() < 65_520
    )
    gone = ((other.double() * 2.0**power).abs() <= 2.0**-25) & (other != 0)
    expect(best(other)[1], (gone.sum() / (other != 0).sum()).item(), 1e-6)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. What gets lost on the way?
#
# Adding up in bf16 goes wrong in two places of a training: in long sums, and in weights. Both can be mended without a wider type.
#
# **Long sums.** Write `in_chunks(values, size)` for a bf16 tensor in one dimension. It adds up each `size` values in a row, the last
# chunk may have fewer, and then the chunks' sums. Both go from the first to the last, and each single addition is rounded to bf16.
# It returns one number, as a bf16 tensor without dimensions. Mind that `sum()` adds up in float32 inside.


# %% nbgrader={"schema_version": 3, "grade_id": "in-chunks", "grade": false, "solution": true, "locked": false, "task": false}
def in_chunks(values, size):
    ### BEGIN SOLUTION
    def one_by_one(values):
        total = torch.zeros((), dtype=torch.bfloat16)
        for value in values:
            total = total + value
        return total

    return one_by_one([one_by_one(chunk) for chunk in values.split(size)])
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "in-chunks-each-rounded", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert in_chunks(torch.ones(1_000, dtype=torch.bfloat16), 1_000) == 256
assert in_chunks(torch.ones(1_000, dtype=torch.bfloat16), CHUNK) == 1_000


### BEGIN HIDDEN TESTS
def added(values):
    total = torch.zeros((), dtype=torch.bfloat16)
    for value in values:
        total = total + value
    return total


for count, size in ((600, 37), (512, 64), (900, 900), (300, 7)):
    values = torch.tensor(np.random.default_rng().uniform(0, 2, count)).bfloat16()
    expect(in_chunks(values, size), added([added(chunk) for chunk in values.split(size)]))
### END HIDDEN TESTS

# %% [markdown]
# With which sizes are ones counted right? Write `sizes(count, mantissa)`: the list of those among 1, 2, 4, 8, ... up to
# `count` with which `count` ones give `count`, in a format with so many bits of mantissa. `count` is a power of two, too. Predict
# it on paper for 4,096 ones in bf16. Problem 1 tells you the two limits.
#
# <details><summary>Hint: both limits</summary>
#
# A chunk of ones must not reach beyond the number to which the format counts. And how many chunks of one size can be added until
# one of them is half a step?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "sizes", "grade": false, "solution": true, "locked": false, "task": false}
def sizes(count, mantissa):
    ### BEGIN SOLUTION
    most = 2 ** (mantissa + 1)
    powers = [2**power for power in range(count.bit_length())]
    return [size for size in powers if size <= most and count // size <= most]
    ### END SOLUTION


# %%
ones = torch.ones(4_096, dtype=torch.bfloat16)
[int(in_chunks(ones, size)) for size in (1, CHUNK, 512)], sizes(4_096, 7)

# %% nbgrader={"schema_version": 3, "grade_id": "sizes-both-limits", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert sizes(256, 7) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
### BEGIN HIDDEN TESTS
for mantissa in (7, 10, MANTISSA):
    for power in (1, mantissa, mantissa + 1, mantissa + 4, 2 * mantissa + 2, 2 * mantissa + 3):
        right = range(max(0, power - mantissa - 1), min(power, mantissa + 1) + 1)
        found = sizes(2**power, mantissa)
        expect(list(found), [2**size for size in right])
### END HIDDEN TESTS

# %% [markdown]
# **Weights.** A training has no room for master weights, which cost four bytes a weight. But it has two bytes a weight for a rest:
# a bf16 tensor with what the rounding took away. Write `updated(weight, rest, update)`. All three are bf16 tensors of one shape. It
# returns two of the kind, the new weight and the new rest: together they hold what `weight` and `rest` held, less the update. The
# first rest is all 0. What you keep in it, and with which sign, is up to you: you get it back in the next step.
#
# The chapter takes 0.001 from 1 a hundred times. In how many of these steps will the weight move?
#
# <details><summary>Hint: what did the step really do?</summary>
#
# The step was to take `wanted = update + rest` away. It took `weight - new` away, a difference of two neighbours, in which nothing is
# rounded. What lies between the two is the new rest.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "updated", "grade": false, "solution": true, "locked": false, "task": false}
def updated(weight, rest, update):
    ### BEGIN SOLUTION
    wanted = update + rest
    new = weight - wanted
    return new, wanted - (weight - new)
    ### END SOLUTION


# %%
weight, rest = torch.ones(1).bfloat16(), torch.zeros(1).bfloat16()
passed = [weight.item()]
for _ in range(100):
    weight, rest = updated(weight, rest, torch.tensor([0.001]).bfloat16())
    passed.append(weight.item())
len(set(passed)), passed[-1]

# %% nbgrader={"schema_version": 3, "grade_id": "updated-arrives", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
weight, rest = torch.tensor([1.0, 2.0, -3.0]).bfloat16(), torch.zeros(3).bfloat16()
for _ in range(100):
    weight, rest = updated(weight, rest, torch.full((3,), 0.001).bfloat16())
assert weight.dtype == rest.dtype == torch.bfloat16
assert (weight - torch.tensor([0.9, 1.9, -3.1])).abs().max() < 0.01

# %% nbgrader={"schema_version": 3, "grade_id": "updated-all-weights", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
weight, rest = updated(
    torch.ones(2, 3).bfloat16(),
    torch.zeros(2, 3).bfloat16(),
    torch.full((2, 3), 0.5).bfloat16(),
)
assert weight.shape == rest.shape == (2, 3) and weight.tolist() == [[0.5] * 3] * 2
### BEGIN HIDDEN TESTS
for start, step in ((1.0, 1e-3), (0.0, 1e-2), (30.0, 0.01)):
    random = np.random.default_rng()
    side = random.choice([-1, 1], (8, 5))
    weight = torch.tensor(side * start * random.uniform(0.7, 1.4, (8, 5))).bfloat16()
    rest, exact = torch.zeros_like(weight), weight.double()
    for _ in range(400):
        update = torch.tensor(side * step * random.uniform(-1, 3, (8, 5))).bfloat16()
        weight, rest = updated(weight, rest, update)
        exact = exact - update.double()
        assert weight.dtype == rest.dtype == torch.bfloat16, "the weight and the rest are bf16"
    off = ((weight.double() - exact).abs() / exact.abs().clamp(min=step)).max().item()
    assert off < 1 / 128, f"after 400 steps a weight is {off:.1%} off"
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Which operators want float32?
#
# An operator in 16 bits loses digits in two places: its input is rounded before it begins, and its own arithmetic is rounded.
# `.float()` at its beginning mends the second. It cannot bring back what the first took: for that, all that comes before the
# operator has to be float32 too. Here are eight operators with inputs.


# %% nbgrader={"schema_version": 3, "grade_id": "operators", "grade": false, "solution": false, "locked": true, "task": false}
def one_by_one(x):
    """The sum, each addition in the type of x."""
    total = x.new_zeros(())
    for value in x:
        total = total + value
    return total


def log_of_the_other(p):
    """The logarithm of 1 - p, as a loss takes it of a probability."""
    return (1 - p).log()


def difference_of_squares(x):
    """The variance as the mean of squares less the square of the mean."""
    return (x * x).mean() - x.mean() ** 2


def inputs(random):
    """{name: (operator, its input in float32)}."""

    def tensor(values):
        return torch.tensor(values, dtype=torch.float32)

    return {
        "relu": (torch.relu, tensor(random.normal(0, 2, 500))),
        "product": (lambda x: x @ x.T, tensor(random.normal(0, 1, (24, 48)))),
        "sum, one by one": (one_by_one, tensor(random.uniform(0.5, 1.5, 700))),
        "sum of squares": (lambda x: (x * x).sum(), tensor(random.uniform(300, 900, 400))),
        "exp": (torch.exp, tensor(random.uniform(16, 18, 300))),
        "softmax of large scores": (
            lambda x: x.softmax(-1),
            tensor(random.uniform(40, 62, (80, 30))),
        ),
        "log of 1 - p": (log_of_the_other, tensor(1 - 10 ** random.uniform(-5, -4, 200))),
        "a variance": (difference_of_squares, tensor(random.normal(50, 3, 2_000))),
    }


operators = inputs(np.random.default_rng(SEED))

# %% [markdown]
# Write `advice(operator, x, name, allowed)`. `x` is the input in float32, `name` is `"float16"` or `"bfloat16"`. It returns one of
# three texts, the first that is true:
#
# - `"16 bits"`: the operator gives the right answer with its input in the type `name`;
# - `"float32 inside"`: it gives the right answer with its input cast to that type and from there to float32;
# - `"float32 before"`: neither is enough.
#
# An answer is right where it is finite and at most `allowed` away from the operator's answer to `x` in float64, as the chapter
# measures it: the largest difference, divided by the largest size in the float64 answer.
#
# Before you run the table: write down what you expect of the eight, in both types.
#
# <details><summary>Hint: a type has a name</summary>
#
# `getattr(torch, "bfloat16")` is `torch.bfloat16`. `difference(expected, actual)` is what the chapter measures with.
#
# </details>
#
# <details><summary>Hint: no number</summary>
#
# Infinity less infinity is no number, and that is neither above nor below any other. `difference` says infinite for both. Does
# a comparison of your own?
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "advice", "grade": false, "solution": true, "locked": false, "task": false}
def advice(operator, x, name, allowed):
    ### BEGIN SOLUTION
    right, narrow = operator(x.double()), x.to(getattr(torch, name))
    if difference(right, operator(narrow)) <= allowed:
        return "16 bits"
    return (
        "float32 inside"
        if difference(right, operator(narrow.float())) <= allowed
        else "float32 before"
    )
    ### END SOLUTION


# %%
for title, (operator, x) in operators.items():
    print(
        f"{title:<24} {advice(operator, x, 'bfloat16', ALLOWED):<15} "
        f"{advice(operator, x, 'float16', ALLOWED)}"
    )

# %% nbgrader={"schema_version": 3, "grade_id": "advice-16-bits", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert advice(*operators["relu"], "bfloat16", ALLOWED) == "16 bits"
assert advice(*operators["sum, one by one"], "bfloat16", ALLOWED) != "16 bits"
### BEGIN HIDDEN TESTS
others = inputs(np.random.default_rng())
expect(
    [
        advice(*others[title], "bfloat16", ALLOWED)
        for title in ("relu", "product", "sum of squares")
    ],
    ["16 bits"] * 3,
)
halves = torch.tensor(np.random.default_rng().integers(1, 90, 50) / 2, dtype=torch.float32)
expect(
    [advice(lambda x: x * 2, halves, name, 0.0) for name in ("float16", "bfloat16")],
    ["16 bits"] * 2,
)
assert advice(lambda x: x * 900 - x * 800, halves + 100, "float16", ALLOWED) != "16 bits", (
    "this is no number in fp16"
)
assert advice(*others["a variance"], "bfloat16", ALLOWED) != "16 bits"
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "advice-inside-or-before", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert advice(*operators["sum, one by one"], "bfloat16", ALLOWED) == "float32 inside"
assert advice(*operators["log of 1 - p"], "bfloat16", ALLOWED) == "float32 before"
### BEGIN HIDDEN TESTS
for _ in range(3):
    others = inputs(np.random.default_rng())
    expect(advice(*others["sum, one by one"], "bfloat16", ALLOWED), "float32 inside")
    expect(advice(*others["a variance"], "bfloat16", ALLOWED), "float32 inside")
    for title in ("log of 1 - p", "softmax of large scores"):
        expect(advice(*others[title], "bfloat16", ALLOWED), "float32 before")
    times = torch.tensor(
        5_000 + np.random.default_rng().uniform(0, 1, 60), dtype=torch.float32
    )
    expect(advice(lambda x: x - x[0], times, "bfloat16", ALLOWED), "float32 before")
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "advice-other-type", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert advice(*operators["sum of squares"], "bfloat16", ALLOWED) == "16 bits"
assert advice(*operators["sum of squares"], "float16", ALLOWED) == "float32 inside"
### BEGIN HIDDEN TESTS
others = inputs(np.random.default_rng())
for title, bfloat16, float16 in (
    ("sum of squares", "16 bits", "float32 inside"),
    ("exp", "float32 before", "float32 inside"),
    ("product", "16 bits", "16 bits"),
):
    expect(
        [advice(*others[title], name, ALLOWED) for name in ("bfloat16", "float16")],
        [bfloat16, float16],
    )
reaching = torch.tensor(np.random.default_rng().uniform(1e5, 3e5, 80), dtype=torch.float32)
expect(
    [advice(torch.relu, reaching, name, ALLOWED) for name in ("bfloat16", "float16")],
    ["16 bits", "float32 before"],
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# A training on several machines sends its gradients in 8 bits. It cuts them into blocks of {{BLOCK}}, and each block gets a scale of its
# own, such that its largest gradient becomes 127 or -127. So a block of small gradients keeps its digits beside a block of
# large ones. It works, and takes longer than sending them as they are.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
def quantised_slowly(gradients, block):
    """(int8 numbers, a float32 scale for each block): a bf16 gradient is about its number
    times its block's scale.
    """
    numbers, scales = [], []
    for piece in gradients.split(block):
        piece = piece.float()
        largest = piece.abs().max()
        scale = largest / 127 if largest > 0 else torch.ones(())
        numbers.append((piece / scale).round().to(torch.int8))
        scales.append(scale)
    return torch.cat(numbers), torch.stack(scales)


def layered(length, block, random):
    """bf16 gradients whose size changes from block to block; in some blocks all are 0."""
    blocks = -(-length // block)
    size = 2.0 ** random.integers(-22, -2, blocks) * (random.random(blocks) > 0.02)
    return torch.tensor(
        np.repeat(size, block)[:length] * random.normal(0, 1, length)
    ).bfloat16()


sent = layered(LENGTH, BLOCK, np.random.default_rng(SEED))

# %% [markdown]
# Write `quantised(gradients, block)`, which returns the same two tensors and is at least {{TIMES}} times as fast on {{LENGTH}} gradients.
# The same, here, means to the last bit: the other machines compute with what arrives. There are four gates, each with its points,
# and each opens only behind the one before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: int8 numbers and float32 scales, exactly the same, on gradients you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# How many operators of torch does one block need, and how many blocks are there? Guess from that how long a call takes, and how
# long it would take with the same arithmetic in one operator each.
#
# <details><summary>Hint: a block is a row</summary>
#
# Operators like `amax` work along one dimension. A tensor with a row for each block needs each operator once. The last block is
# shorter: which value can you append that is never the largest in size?
#
# </details>
#
# <details><summary>Hint: almost the same</summary>
#
# `x * (1 / scale)` rounds twice and `x / scale` once. At a tie that decides, and bf16 gradients have many ties: each half of a
# block's largest is 63.5 scales. And in bf16 the steps from 64 on are one half: cast before you divide.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "quantised", "grade": false, "solution": true, "locked": false, "task": false}
def quantised(gradients, block):
    ### BEGIN SOLUTION
    count = len(gradients)
    rows = torch.nn.functional.pad(gradients, (0, -count % block)).reshape(-1, block).float()
    scales = rows.abs().amax(dim=1) / 127
    scales[scales == 0] = 1
    numbers = (rows / scales[:, None]).round().to(torch.int8)
    return numbers.reshape(-1)[:count], scales
    ### END SOLUTION


# %%
race = compare(quantised_slowly, quantised, sent, BLOCK, budget=6)
race


# %% nbgrader={"schema_version": 3, "grade_id": "quantised-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    block = int(random.integers(BLOCK - 2, BLOCK + 3))
    length = 1_500 * block + int(random.integers(1, block))
    return layered(length, block, random), block


gates = four_gates("quantised", "quantised_slowly", draw=draw, same=0.0, target=TIMES)
### END HIDDEN TESTS
numbers, scales_of_blocks = quantised(torch.tensor([1.0, -2.0, 0.0, 0.0, 127.0]).bfloat16(), 2)
assert numbers.dtype == torch.int8 and numbers.tolist() == [64, -127, 0, 0, 127]
assert scales_of_blocks.dtype == torch.float32 and scales_of_blocks.tolist()[1:] == [1, 1]
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "quantised-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert not torch.equal(quantised(sent, BLOCK)[0], quantised(sent.flip(0), BLOCK)[0])
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "quantised-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "quantised-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
