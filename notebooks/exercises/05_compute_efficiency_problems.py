# %% [markdown]
# # Problem set 05: Compute efficiency
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 05, Compute efficiency.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays,
#   tensors.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
PEAK = draw.choice((80, 100, 125))
BANDWIDTH = draw.choice((10, 12, 15))
PRICE = draw.choice((4, 5, 6))
ROWS = draw.choice((512, 640, 768))
WIDTH = draw.choice((128, 160, 192))
FASTER = draw.choice((6, 8, 10))
SAMPLES = draw.randrange(420, 451)
INPUTS = draw.randrange(160, 173)
OUTPUTS = draw.randrange(160, 173)
TIMES = draw.choice((10, 11))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
import math
from statistics import median

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from steptime import compare
from steptime.bounds import amdahl, rank
from steptime.roofline import work_of
from steptime.units import duration

torch.set_num_threads(1)

# %% [markdown]
# ## 1. What is the limit?
#
# A machine does at most {{PEAK}} GFLOP/s, its memory brings at most {{BANDWIDTH}} GB/s, and a call of an operator takes
# {{PRICE}} µs even if it does next to nothing. A profiler wrote down the operators of one training step on it: a name, how
# many calls, FLOPs and bytes of one call, and the seconds of all calls together.


# %% nbgrader={"schema_version": 3, "grade_id": "step", "grade": false, "solution": false, "locked": true, "task": false}
machine = {"peak": PEAK * 1e9, "bandwidth": BANDWIDTH * 1e9, "price": PRICE * 1e-6}


def profiled(machine, random, calls):
    """The rows of one step: (name, calls, FLOPs of a call, bytes of a call, seconds of all
    calls).

    calls: how many each operator gets.
    """
    side, many, few = 1_024, 2**22, 2**9
    brings = machine["bandwidth"]
    rows = [
        (
            "mm",
            2 * side**3,
            12 * side**2,
            2 * side**3 / machine["peak"] / random.uniform(0.86, 0.96),
        ),
        ("gelu", many, 8 * many, 8 * many / brings / random.uniform(0.7, 0.95)),
        ("mul", few, 12 * few, machine["price"] / random.uniform(0.7, 0.95)),
        ("add", 2**16, 12 * 2**16, 12 * 2**16 / brings / random.uniform(1.5, 3)),
        ("index", 0, 2**23, 2**23 / brings / random.uniform(0.15, 0.4)),
    ]
    return [
        (name, count, *work, float(count * taken))
        for (name, *work, taken), count in zip(rows, calls)
    ]


step = profiled(machine, np.random.default_rng(SEED), (6, 12, 9_000, 60, 3))
for name, calls, flops, moved, seconds in step:
    print(
        f"{name:<6}{calls:>6,} calls of {flops:>13,} FLOPs and {moved:>10,} bytes: "
        f"{duration(seconds):>8} in all"
    )

# %% [markdown]
# One call takes at least the price, at least its bytes over the bandwidth, and at least its FLOPs over the peak. The longest of
# the three times says what limits it, and the share that it reaches is this time over the seconds that the call took.
#
# Write `limited(row, machine)`. It returns a tuple of a text and the share:
#
# - `"price"`, `"memory"` or `"arithmetic"`, by the longest of the three times;
# - but `"cache"` where the share is above 1: then not all bytes can have come from memory;
# - and `"unknown"` where the share is below 0.5: then something else must be the limit.
#
# Guess the five texts first, from the table alone.
#
# <details><summary>Hint: one call or all of them</summary>
#
# The table has FLOPs and bytes of one call and seconds of all. Bring them to the same footing before you compare.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "limited", "grade": false, "solution": true, "locked": false, "task": false}
def limited(row, machine):
    ### BEGIN SOLUTION
    _, calls, flops, moved, seconds = row
    least = {
        "price": machine["price"],
        "memory": moved / machine["bandwidth"],
        "arithmetic": flops / machine["peak"],
    }
    limit = max(least, key=least.get)
    share = least[limit] / (seconds / calls)
    return "cache" if share > 1 else "unknown" if share < 0.5 else limit, share
    ### END SOLUTION


# %%
for row in step:
    print(row[0], limited(row, machine))

# %% nbgrader={"schema_version": 3, "grade_id": "limited-three-limits", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
plain = {"peak": 100.0, "bandwidth": 10.0, "price": 1.0}
limit, share = limited(("mm", 2, 500, 20, 12.5), plain)
assert limit == "arithmetic" and abs(share - 0.8) < 1e-9
assert limited(("gelu", 1, 10, 40, 5.0), plain)[0] == "memory"
assert limited(("mul", 50, 10, 4, 80.0), plain)[0] == "price"
### BEGIN HIDDEN TESTS
for _ in range(10):
    mm, gelu, mul, _, _ = profiled(machine, np.random.default_rng(), (5, 30, 700, 60, 4))
    expect(limited(mm, machine), ("arithmetic", mm[2] / machine["peak"] * mm[1] / mm[4]), 1e-9)
    expect(
        limited(gelu, machine),
        ("memory", gelu[3] / machine["bandwidth"] * gelu[1] / gelu[4]),
        1e-9,
    )
    expect(limited(mul, machine), ("price", machine["price"] * mul[1] / mul[4]), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "limited-cache-or-unknown", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
plain = {"peak": 100.0, "bandwidth": 10.0, "price": 1.0}
assert limited(("add", 1, 10, 40, 2.0), plain)[0] == "cache"
assert limited(("index", 1, 0, 40, 10.0), plain)[0] == "unknown"
### BEGIN HIDDEN TESTS
for _ in range(10):
    *_, add, index = profiled(machine, np.random.default_rng(), (5, 30, 700, 60, 4))
    expect(
        limited(add, machine), ("cache", add[3] / machine["bandwidth"] * add[1] / add[4]), 1e-9
    )
    expect(
        limited(index, machine),
        ("unknown", index[3] / machine["bandwidth"] * index[1] / index[4]),
        1e-9,
    )
### END HIDDEN TESTS

# %% [markdown]
# Products take most of the time: would you begin there? Suppose that all calls of one operator can be made in a single call,
# which takes exactly the longest of its three times: one price, all the bytes, all the FLOPs. Where that is longer than the
# operator takes now, nothing is saved.
#
# Write `mend(step, machine)`. It returns a tuple: the name of the operator with which most seconds are saved, and how many
# times faster the whole step gets.


# %% nbgrader={"schema_version": 3, "grade_id": "mend", "grade": false, "solution": true, "locked": false, "task": false}
def mend(step, machine):
    ### BEGIN SOLUTION
    saved = {}
    for name, calls, flops, moved, seconds in step:
        least = max(
            machine["price"],
            calls * moved / machine["bandwidth"],
            calls * flops / machine["peak"],
        )
        saved[name] = max(seconds - least, 0.0)
    best = max(saved, key=saved.get)
    whole = sum(seconds for *_, seconds in step)
    return best, whole / (whole - saved[best])
    ### END SOLUTION


# %%
print(rank({name: seconds for name, *_, seconds in step}))
mend(step, machine)

# %% nbgrader={"schema_version": 3, "grade_id": "mend-first", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
plain = {"peak": 100.0, "bandwidth": 10.0, "price": 1.0}
name, factor = mend(
    [("mm", 1, 900, 10, 10.0), ("mul", 6, 10, 4, 9.0), ("add", 1, 1, 40, 1.0)], plain
)
assert name == "mul" and abs(factor - 20 / 13.4) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(10):
    random = np.random.default_rng()
    calls = [
        int(random.integers(*ends))
        for ends in ((1, 20), (4, 60), (300, 9_000), (10, 200), (1, 12))
    ]
    other = profiled(machine, random, calls)
    random.shuffle(other)
    roofs = machine["bandwidth"], machine["peak"]
    bound = [
        max(machine["price"], n * moved / roofs[0], n * flops / roofs[1])
        for _, n, flops, moved, _ in other
    ]
    won, place = max(
        (max(row[4] - least, 0.0), place)
        for place, (row, least) in enumerate(zip(other, bound))
    )
    expect(
        mend(other, machine),
        (other[place][0], amdahl(won / sum(row[4] for row in other))),
        1e-9,
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What does fusion leave?
#
# A program is a list of lines: the name of a result, an operator, and its operands. An operand is the name of an array or a
# number. Each result gets a name of its own. `"mm"` is a product of matrices; all other operators go element by element. Here
# is a block of a network, once for torch and once as a program.


# %% nbgrader={"schema_version": 3, "grade_id": "block", "grade": false, "solution": false, "locked": true, "task": false}
def block(x, up, bias, down):
    h = x @ up
    a = h + bias
    g = torch.sigmoid(a) * a
    return x + 0.5 * (g @ down)


program = [
    ("h", "mm", ["x", "up"]),
    ("a", "add", ["h", "bias"]),
    ("s", "sigmoid", ["a"]),
    ("g", "mul", ["s", "a"]),
    ("z", "mm", ["g", "down"]),
    ("half", "mul", [0.5, "z"]),
    ("y", "add", ["x", "half"]),
]
inner, outer, weights = ROWS * 4 * WIDTH, ROWS * WIDTH, 4 * WIDTH * WIDTH
numbers = {"x": outer, "up": weights, "bias": 4 * WIDTH, "down": weights}
numbers |= {
    "h": inner,
    "a": inner,
    "s": inner,
    "g": inner,
    "z": outer,
    "half": outer,
    "y": outer,
}


def any_program(random, lines, products):
    """(a program of chance, how many numbers each array has); products: the share of lines
    that are products.
    """
    program, names = [], ["x", "w", "b"]
    for line in range(lines):
        first, second = (names[place] for place in random.choice(len(names), 2, replace=False))
        elementwise = [
            ("mul", [first, second]),
            ("add", [0.5, first]),
            ("sigmoid", [first]),
            ("sub", [first, first]),
        ]
        chosen = (
            ("mm", [first, second])
            if random.random() < products
            else elementwise[random.integers(4)]
        )
        program.append((f"v{line}", *chosen))
        names = [*names, f"v{line}"]
    return program, {name: int(random.integers(10, 1_000)) for name in names}


# %% [markdown]
# A compiler turns each run of lines without a product into one kernel. A product stays what it is, a call of a library, and
# counts as a kernel of its own.
#
# Write `traffic(program, numbers, wanted)`. `numbers` says how many numbers an array has, 4 bytes each; `wanted` names the
# results that are needed after the program. It returns a dict of three whole numbers:
#
# - `"eager"`: bytes moved without a compiler. Each line reads its operands and writes its result. Operands that are numbers
#   cost nothing; an array that stands twice in a line is read twice, as `work_of` counts it.
# - `"kernels"`: how many kernels the compiler leaves, products included.
# - `"fused"`: bytes moved by these kernels. A kernel reads each array that it uses and did not make itself, once, however often
#   it uses it. It writes those of its results that are wanted or that a later kernel reads. Both hold for a product, too.
#
# How many times fewer bytes will the block move? And how many if `a` is wanted for backward too? Guess both.
#
# <details><summary>Hint: two passes</summary>
#
# Cut the program into kernels first: a list of lists of lines. Then a kernel has two sets of names, those that it reads and
# those that it makes. What it reads from outside is the difference.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "traffic", "grade": false, "solution": true, "locked": false, "task": false}
def traffic(program, numbers, wanted):
    ### BEGIN SOLUTION
    def size(names):
        return 4 * sum(numbers[name] for name in names)

    eager, kernels, open_one = 0, [], False
    for line in program:
        result, operator, operands = line
        eager += size([result, *(operand for operand in operands if isinstance(operand, str))])
        if operator == "mm" or not open_one:
            kernels.append([])
        kernels[-1].append(line)
        open_one = operator != "mm"
    made = [{result for result, _, _ in kernel} for kernel in kernels]
    used = [
        {name for *_, operands in kernel for name in operands if isinstance(name, str)}
        for kernel in kernels
    ]
    fused = 0
    for place in range(len(kernels)):
        needed_later = set(wanted).union(*used[place + 1 :])
        fused += size(used[place] - made[place]) + size(made[place] & needed_later)
    return {"eager": eager, "kernels": len(kernels), "fused": fused}
    ### END SOLUTION


# %%
for wanted in (["y"], ["a", "y"]):
    moved = traffic(program, numbers, wanted)
    print(wanted, moved, f"{moved['eager'] / moved['fused']:.2f} times fewer bytes")
arrays = [
    torch.rand(size)
    for size in ((ROWS, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH))
]
work_of(block, *arrays)

# %% nbgrader={"schema_version": 3, "grade_id": "traffic-eager", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert traffic([("y", "add", ["x", 1])], {"x": 10, "y": 10}, ["y"])["eager"] == 80
assert traffic([("y", "mul", ["x", "x"])], {"x": 10, "y": 10}, ["y"])["eager"] == 120
### BEGIN HIDDEN TESTS
shapes = (ROWS, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH)
expect(
    traffic(program, numbers, ["y"])["eager"], work_of(block, *map(torch.ones, shapes)).bytes
)
for _ in range(10):
    other, its_numbers = any_program(np.random.default_rng(), 12, 0.3)
    touched = [
        name for result, _, operands in other for name in (result, *operands) if name != 0.5
    ]
    expect(
        traffic(other, its_numbers, ["v11"])["eager"],
        4 * sum(its_numbers[name] for name in touched),
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "traffic-kernels", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert traffic(program, numbers, ["y"])["kernels"] == 4
assert traffic(program[1:4], numbers, ["g"])["kernels"] == 1
### BEGIN HIDDEN TESTS
for _ in range(10):
    other, its_numbers = any_program(np.random.default_rng(), 15, 0.4)
    runs = "".join("m" if operator == "mm" else "e" for _, operator, _ in other)
    wanted = runs.count("m") + sum(1 for run in runs.split("m") if run)
    expect(traffic(other, its_numbers, ["v14"])["kernels"], wanted)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "traffic-one-kernel", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
chain = [("a", "mul", ["x", 0.5]), ("b", "mul", ["a", "x"]), ("y", "add", ["b", "x"])]
assert traffic(chain, dict.fromkeys("xaby", 10), ["y"])["fused"] == 80
### BEGIN HIDDEN TESTS
for _ in range(10):
    other, its_numbers = any_program(np.random.default_rng(), 9, 0.0)
    outside = {name for *_, operands in other for name in operands if name in ("x", "w", "b")}
    expect(
        traffic(other, its_numbers, ["v8"])["fused"],
        4 * sum(its_numbers[name] for name in (*outside, "v8")),
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "traffic-between-kernels", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
few = {"x": 1, "w": 1, "a": 100, "b": 10, "z": 1_000}
assert (
    traffic([("a", "exp", ["x"]), ("b", "neg", ["a"]), ("z", "mm", ["b", "w"])], few, ["z"])[
        "fused"
    ]
    == 4 * 1_022
)
### BEGIN HIDDEN TESTS
for _ in range(20):
    other, its_numbers = any_program(np.random.default_rng(), 12, 0.4)
    kernel_of, last = {}, None
    for number, (result, operator, _) in enumerate(other):
        last = (
            number
            if operator == "mm" or last is None or other[number - 1][1] == "mm"
            else last
        )
        kernel_of[result] = last
    reads = {(kernel_of[line[0]], name) for line in other for name in line[2] if name != 0.5}
    reads = {(kernel, name) for kernel, name in reads if kernel_of.get(name) != kernel}
    writes = {name for _, name in reads if name in kernel_of} | {"v11"}
    moved = sum(its_numbers[name] for _, name in reads) + sum(
        its_numbers[name] for name in writes
    )
    expect(traffic(other, its_numbers, ["v11"])["fused"], 4 * moved)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "traffic-wanted-for-backward", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
chain = [("a", "mul", ["x", 0.5]), ("b", "mul", ["a", "x"]), ("y", "add", ["b", "x"])]
assert traffic(chain, dict.fromkeys("xaby", 10), ["a", "y"])["fused"] == 120
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    other, its_numbers = any_program(random, 9, 0.0)
    kept = [f"v{line}" for line in range(9) if random.random() < 0.5]
    outside = {name for *_, operands in other for name in operands if name in ("x", "w", "b")}
    expect(
        traffic(other, its_numbers, kept)["fused"],
        4 * sum(its_numbers[name] for name in (*outside, *kept)),
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Where does the line bend?
#
# Somebody timed a network with batches of ten sizes, fifteen times each, on a machine with neighbours. These made some calls
# longer and none shorter. The log has (size of the batch, seconds of the call).


# %% nbgrader={"schema_version": 3, "grade_id": "timed", "grade": false, "solution": false, "locked": true, "task": false}
def timed(random, price, each):
    """A log of calls that take `price` seconds and `each` seconds a sample, when nothing
    disturbs them.
    """
    sizes = random.permutation(np.repeat(4 ** np.arange(10), 15)).tolist()
    slower = 1 + random.exponential(0.02, len(sizes))
    interrupted = 0.005 * (random.random(len(sizes)) < 0.05)
    return [
        (size, float((price + size * each) * s + i))
        for size, s, i in zip(sizes, slower, interrupted)
    ]


random = np.random.default_rng(SEED)
log = timed(random, random.uniform(1e-5, 4e-5), random.uniform(1e-7, 4e-7))
for size in (1, 64, 4**9):
    print(
        f"{size:>7,} samples:",
        ", ".join(duration(seconds) for count, seconds in log if count == size),
    )

# %% [markdown]
# Write `fitted(log)`. It returns a tuple: the fixed price of a call and the time of each sample, in seconds, as they are on a
# machine without neighbours. 5 % off is near enough.
#
# Try a straight line first, `np.polyfit` through all points. What does it say about the price, and why?
#
# <details><summary>Hint: fifteen times of one call</summary>
#
# A mean is moved by a single interruption. The median is not, and neither is the shortest.
#
# </details>
#
# <details><summary>Hint: a percent of what?</summary>
#
# One percent of the largest batch's time is several times the whole price, and least squares see nothing else. Look where
# the price is nearly all there is, at the smallest batches, and where it is next to nothing. Or divide the equation
# `seconds = price + size * each` by `seconds`, so that one percent counts the same everywhere.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "fitted", "grade": false, "solution": true, "locked": false, "task": false}
def fitted(log):
    ### BEGIN SOLUTION
    sizes = sorted({size for size, _ in log})
    typical = [median(seconds for size, seconds in log if size == wanted) for wanted in sizes]
    share = np.array([[1 / seconds, size / seconds] for size, seconds in zip(sizes, typical)])
    price, each = np.linalg.lstsq(share, np.ones(len(sizes)), rcond=None)[0]
    return float(price), float(each)
    ### END SOLUTION


# %%
print(
    "a straight line says:",
    *(duration(float(number)) for number in np.polyfit(*zip(*log), 1)[::-1]),
)
print("you say:", *(duration(number) for number in fitted(log)))

# %% nbgrader={"schema_version": 3, "grade_id": "fitted-price", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
price, each = fitted([(size, 3 + 2 * size) for size in (1, 10, 100, 1_000)])
assert abs(price - 3) < 1e-6
### BEGIN HIDDEN TESTS
for _ in range(5):
    random = np.random.default_rng()
    price, each = random.uniform(1e-5, 4e-5), random.uniform(1e-7, 4e-7)
    found = fitted(timed(random, price, each))[0]
    assert abs(found / price - 1) < 0.05, (
        f"the price is {duration(price)}, not {duration(found)}"
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "fitted-each", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
price, each = fitted([(size, 3 + 2 * size) for size in (1, 10, 100, 1_000)])
assert abs(each - 2) < 1e-6
### BEGIN HIDDEN TESTS
for _ in range(5):
    random = np.random.default_rng()
    price, each = random.uniform(1e-5, 4e-5), random.uniform(1e-7, 4e-7)
    found = fitted(timed(random, price, each))[1]
    assert abs(found / each - 1) < 0.05, (
        f"a sample takes {duration(each)}, not {duration(found)}"
    )
### END HIDDEN TESTS

# %% [markdown]
# Now use the line.
#
# - Write `smallest(price, each, share)`: the smallest batch that gives at least `share` of the samples a second that no batch,
#   however large, can exceed.
# - Write `gain(price, each, size, faster)`: how many times faster a call with a batch of `size` gets on a processor that does
#   the work of a sample `faster` times as fast. The price stays.
#
# Somebody buys a processor that is {{FASTER}} times as fast. How much faster does a call get with 1, 64 and 4,096 samples?
# Guess all three.


# %% nbgrader={"schema_version": 3, "grade_id": "smallest", "grade": false, "solution": true, "locked": false, "task": false}
def smallest(price, each, share):
    ### BEGIN SOLUTION
    return max(1, math.ceil(share * price / ((1 - share) * each)))
    ### END SOLUTION


# %%
print({share: smallest(*fitted(log), share) for share in (0.5, 0.9, 0.99)})

# %% nbgrader={"schema_version": 3, "grade_id": "smallest-batch", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert smallest(30, 1, 0.75) == 90
assert smallest(0.1, 1, 0.5) == 1
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    price, each, share = (
        random.uniform(10, 90),
        random.uniform(0.1, 2),
        random.uniform(0.2, 0.98),
    )
    count = smallest(price, each, share)
    assert count == int(count) >= 1
    reached, before = (size / (price + size * each) * each for size in (count, count - 1))
    assert reached > share - 1e-9, (
        f"{count} samples reach {reached:.4f} of what there is, not {share:.4f}"
    )
    assert before < share + 1e-9, f"{count - 1} samples are enough"
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "gain", "grade": false, "solution": true, "locked": false, "task": false}
def gain(price, each, size, faster):
    ### BEGIN SOLUTION
    return (price + size * each) / (price + size * each / faster)
    ### END SOLUTION


# %%
print({size: gain(*fitted(log), size, FASTER) for size in (1, 64, 4_096)})

# %% nbgrader={"schema_version": 3, "grade_id": "gain-faster-processor", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(gain(8, 1, 8, 4) - 1.6) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(10):
    random = np.random.default_rng()
    price, each, size, faster = (float(number) for number in random.uniform(1, 50, 4))
    expect(
        gain(price, each, size, faster),
        amdahl(size * each / (price + size * each), faster),
        1e-9,
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 4. How much of the peak?
#
# A network is a stack of linear layers, each with a ReLU behind it. Its widths are a list: `[64, 256, 10]` is a layer from 64
# to 256 numbers and one from 256 to 10. In fine-tuning some layers are frozen: their weights get no gradient. torch's own
# counter tells how many FLOPs the products of one step do, if you let it run one.


# %% nbgrader={"schema_version": 3, "grade_id": "counted", "grade": false, "solution": false, "locked": true, "task": false}
def counted(samples, widths, trained):
    """FLOPs in the products of one step, forward and backward, by torch's counter.

    trained: for each layer, the first one first, whether its weights get a gradient.
    """
    net = torch.nn.Sequential()
    for inputs, outputs, is_trained in zip(widths, widths[1:], trained):
        net.append(torch.nn.Linear(inputs, outputs).requires_grad_(is_trained))
        net.append(torch.nn.ReLU())
    with FlopCounterMode(display=False) as counter:
        net(torch.ones(samples, widths[0])).sum().backward()
    return counter.get_total_flops()


widths = [3 * WIDTH, 4 * WIDTH, 4 * WIDTH, 4 * WIDTH, 10]
print(f"all trained: {counted(32, widths, [True] * 4):,} FLOPs a step")

# %% [markdown]
# Write `operations(samples, widths, trained)`, which says the same without running anything: the widths may be those of a
# network that does not fit your memory. `trained` says for each layer, the first one first, whether its weights get a gradient;
# for at least one it is `True`. A layer has up to three products:
#
# - forward: of its inputs and its weights;
# - backward, if it is trained: of the gradient at its outputs and its inputs, which gives the gradient of the weights;
# - backward, if a layer before it is trained: of the gradient at its outputs and its weights, which gives the gradient at its
#   inputs.
#
# Each of them does 2 x samples x inputs x outputs FLOPs. Many people reckon that backward costs twice the forward pass. What
# does a step of the four layers above cost if only the last is trained, as a share of the full step? And if only the first is?
#
# <details><summary>Hint: who needs it?</summary>
#
# Nobody needs the gradient at the network's inputs, the data. Go through the layers from the first to the last and remember
# whether one that is trained has come.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "operations", "grade": false, "solution": true, "locked": false, "task": false}
def operations(samples, widths, trained):
    ### BEGIN SOLUTION
    flops, below = 0, False
    for inputs, outputs, is_trained in zip(widths, widths[1:], trained):
        flops += 2 * samples * inputs * outputs * (1 + is_trained + below)
        below = below or is_trained
    return flops
    ### END SOLUTION


# %%
full = operations(32, widths, [True] * 4)
for trained in ([True] * 4, [False] * 3 + [True], [True] + [False] * 3):
    count = operations(32, widths, trained)
    print(
        trained,
        f"{count:,}, the counter says {counted(32, widths, trained):,}: "
        f"{count / full:.0%} of the full step",
    )

# %% nbgrader={"schema_version": 3, "grade_id": "operations-all-trained", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert operations(32, [64, 256, 10], [True, True]) == counted(32, [64, 256, 10], [True, True])
### BEGIN HIDDEN TESTS
for _ in range(10):
    random = np.random.default_rng()
    sizes = [int(size) for size in random.integers(2, 50, random.integers(2, 8))]
    expect(
        operations(7, sizes, [True] * (len(sizes) - 1)),
        counted(7, sizes, [True] * (len(sizes) - 1)),
    )
large = 10**6 + int(np.random.default_rng().integers(1_000))
expect(
    operations(4_096, [large, large, 10], [True, True]),
    2 * 4_096 * (2 * large**2 + 30 * large),
)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "operations-some-frozen", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
for trained in ([False, True], [True, False]):
    assert operations(32, [64, 256, 10], trained) == counted(32, [64, 256, 10], trained)
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    sizes = [int(size) for size in random.integers(2, 50, 7)]
    trained = [bool(flip) for flip in random.random(6) < 0.4]
    trained[random.integers(6)] = True
    expect(operations(7, sizes, trained), counted(7, sizes, trained))
### END HIDDEN TESTS

# %% [markdown]
# A training wrote down every step as (seconds, samples). Write `utilisation(log, flops, peak)`: the FLOPs a second that the
# network asked for, as a share of the machine's peak, over all steps but the first, which sets things up. `flops` are those of
# one sample, forward and backward. Some batches are smaller than the others.
#
# This share is known as MFU, for model FLOPs utilisation. What a program computes a second time, or for padding, takes seconds
# and adds nothing to it.


# %% nbgrader={"schema_version": 3, "grade_id": "utilisation", "grade": false, "solution": true, "locked": false, "task": false}
def utilisation(log, flops, peak):
    ### BEGIN SOLUTION
    seconds, samples = (sum(column) for column in zip(*log[1:]))
    return samples * flops / seconds / peak
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "utilisation-share", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert abs(utilisation([(9.0, 4), (2.0, 4), (1.0, 2)], 50, 1_000) - 0.1) < 1e-9
### BEGIN HIDDEN TESTS
for _ in range(5):
    random = np.random.default_rng()
    samples = random.choice([64, 64, 64, 20], 40).tolist()
    seconds = random.uniform(0.1, 0.3, 40) + 5 * (np.arange(40) == 0)
    done = sum(samples[1:]) * 12_345_678
    steps = list(zip(seconds.tolist(), samples))
    expect(utilisation(steps, 12_345_678, 9e11), float(done / seconds[1:].sum() / 9e11), 1e-9)
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# No single sample shall pull the network far. So a script computes the gradient of each sample, scales it down to the length
# `limit` where it is longer, and only then adds them up. Take a linear layer. A sample's error, the gradient at the layer's
# outputs, is the gradient of the bias; the outer product of its error and its inputs is the gradient of the weights. The length
# is that of both together: the root of the sum of all squares.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
def clip_slowly(errors, inputs, limit):
    """(gradient of the weights, gradient of the bias): sums over the samples, each scaled down
    to `limit` before.

    errors: samples x outputs. inputs: samples x inputs. limit: above 0.
    """
    weights, bias = torch.zeros(errors.shape[1], inputs.shape[1]), torch.zeros(errors.shape[1])
    for error, x in zip(errors, inputs):
        weight = torch.outer(error, x)
        length = (weight.square().sum() + error.square().sum()).sqrt()
        scale = (limit / length).clamp(max=1)
        weights += scale * weight
        bias += scale * error
    return weights, bias


def layer(random, samples, inputs, outputs):
    """(errors, inputs, limit) of a layer. Some errors are large, and some all zero, where
    nothing is left to learn.
    """
    size = random.lognormal(0, 1, (samples, 1)) * (random.random((samples, 1)) < 0.9)
    errors = torch.from_numpy(
        (random.normal(size=(samples, outputs)) * size).astype("float32")
    )
    x = torch.from_numpy(random.normal(size=(samples, inputs)).astype("float32"))
    return errors, x, float(random.uniform(0.5, 1.5) * math.sqrt(inputs * outputs))


errors, inputs, limit = layer(np.random.default_rng(SEED), SAMPLES, INPUTS, OUTPUTS)

# %% [markdown]
# Write `clip(errors, inputs, limit)`, which returns the same and is at least {{TIMES}} times as fast on {{SAMPLES}} samples of
# {{INPUTS}} inputs and {{OUTPUTS}} outputs. There are four gates, each with its points, and each opens only behind the one
# before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: two tensors of the same type and shape, their values within 1e-4, on samples you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# The first idea is to make all outer products at once, without a loop. Count before you try it: how many operators does the
# slow function call, and how many bytes does an array of all outer products have? How many times faster will that idea be?
#
# <details><summary>Hint: what is the price, what is traffic?</summary>
#
# The loop pays the price of a dozen calls and more for each sample. With the large array it is paid once, but each operator
# that touches the array moves over 40 MB. A fast answer makes neither the calls nor the array. What are the outer products
# needed for? For two things.
#
# </details>
#
# <details><summary>Hint: the length</summary>
#
# The squares of an outer product are the products of the squares. So their sum is a product of two sums, and no outer product
# is needed to know it. Do not forget the bias.
#
# </details>
#
# <details><summary>Hint: the sum</summary>
#
# A scale can be moved from the outer product to the error. Then write down one entry of the sum: over all samples, error times
# input. Which one operator does that?
#
# </details>


# %%
print(work_of(clip_slowly, errors, inputs, limit))
print(f"all outer products: {4 * SAMPLES * INPUTS * OUTPUTS:,} bytes")


# %% nbgrader={"schema_version": 3, "grade_id": "clip", "grade": false, "solution": true, "locked": false, "task": false}
def clip(errors, inputs, limit):
    ### BEGIN SOLUTION
    lengths = (errors.square().sum(1) * (inputs.square().sum(1) + 1)).sqrt()
    errors = errors * (limit / lengths).clamp(max=1)[:, None]
    return errors.T @ inputs, errors.sum(0)
    ### END SOLUTION


# %%
race = compare(clip_slowly, clip, errors, inputs, limit, same=1e-4, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "clip-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    samples, inputs, outputs = (
        int(random.integers(most - 9, most + 1)) for most in (SAMPLES, INPUTS, OUTPUTS)
    )
    return layer(random, samples, inputs, outputs)


gates = four_gates("clip", "clip_slowly", draw=draw, same=1e-4, target=TIMES)
### END HIDDEN TESTS
one = torch.tensor([[3.0, 4.0]])
weights, bias = clip(one, torch.zeros(1, 3), 2.5)
assert torch.allclose(weights, torch.zeros(2, 3)) and torch.allclose(
    bias, torch.tensor([1.5, 2.0])
)
weights, bias = clip(torch.cat([one, 0 * one]), torch.ones(2, 3), 100.0)
assert torch.allclose(weights, one.T.expand(2, 3)) and torch.allclose(bias, one[0])
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "clip-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert not torch.equal(clip(errors, inputs, limit)[1], clip(errors + 1, inputs, limit)[1])
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "clip-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "clip-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
