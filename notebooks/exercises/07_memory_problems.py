# %% [markdown]
# # Problem set 07: Memory
#
# *Five problems, 30 points, 50 to 60 minutes. It goes with chapter 07, Memory.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, tensors.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
DEPTH = draw.randrange(5, 9)
HIDDEN = 64 * draw.randrange(5, 11)
SAMPLES = 32 * draw.randrange(3, 8)
CAPACITY = 6 * draw.randrange(12, 40)
WIDTH = draw.randrange(46, 53)
STRIDE = draw.randrange(6, 10)
WINDOWS = draw.randrange(1_450, 1_550)
TIMES = draw.choice((18, 20))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
from itertools import combinations, pairwise
from math import ceil

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint_sequential

from steptime import compare
from steptime.allocations import peak, record, replay
from steptime.allocator import MIB, Allocator, OutOfMemory

torch.set_num_threads(1)

# %% [markdown]
# ## 1. Whose memory is it?
#
# A profiler wrote down what one training step asked of memory: the phase, an address, and the bytes, above 0 for a request and
# below 0 for a free. An address that was given back is handed out again. The log begins with the gradients of the step before,
# which are given back: they were asked for before the log began.


# %% nbgrader={"schema_version": 3, "grade_id": "training-step", "grade": false, "solution": false, "locked": true, "task": false}
def training_step(random, depth, batch):
    """(phase, address, bytes) of each request and each free of a training step, in their
    order.
    """
    widths = random.integers(30, 120, depth + 1).tolist()
    weights = [4 * inputs * outputs for inputs, outputs in pairwise(widths)]
    results = [4 * batch * width for width in widths[1:]]
    log, spare = [], []

    def ask(phase, size):
        log.append((phase, spare.pop() if spare else 1_000 + len(log), size))
        return log[-1][1]

    def free(phase, address, size):
        log.append((phase, address, -size))
        spare.append(address)

    for address, weight in enumerate(weights):
        free("zero_grad", address, weight)
    kept = []
    for size in results:
        kept.append(ask("forward", size))
        free("forward", ask("forward", size // 2), size // 2)
    above = ask("backward", results[-1]), results[-1]
    for weight, address, size in reversed(list(zip(weights, kept, results))):
        ask("backward", weight)
        below = ask("backward", size), size
        free("backward", address, size)
        free("backward", *above)
        above = below
    free("backward", *above)
    for weight in weights:
        free("optimiser", ask("optimiser", 2 * weight), 2 * weight)
    return log


log = training_step(np.random.default_rng(SEED), DEPTH, 64)
print(f"{len(log)} lines")
log[:2], log[DEPTH : DEPTH + 4]

# %% [markdown]
# Write `at_peak(log)`. It looks at the moment at which most bytes are in use, the first one if there are several, and gives a dict:
#
# - `"peak"`: the bytes in use then, beyond those in use when the log begins;
# - `"phase"`: the phase of the line with which that is reached;
# - `"held"`: which phase asked for what is in use then, of what this log asked for: `{phase: bytes}`, without phases that hold
#   nothing;
# - `"older"`: the bytes given back by then which this log did not ask for.
#
# Predict the phase of the peak for a batch of 64 samples, and for one of 2.
#
# <details><summary>Hint: one dict for what is in use</summary>
#
# Keep `{address: (phase, bytes)}`. A request puts an entry in, a free takes it out. What is freed and has no entry is older.
#
# </details>
#
# <details><summary>Hint: a check</summary>
#
# What is held, less what is older, is the peak.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "at-peak", "grade": false, "solution": true, "locked": false, "task": false}
def at_peak(log):
    ### BEGIN SOLUTION
    use, older, pieces, found = 0, 0, {}, {"peak": 0}
    for phase, address, size in log:
        use += size
        if size > 0:
            pieces[address] = phase, size
        elif pieces.pop(address, None) is None:
            older -= size
        if use > found["peak"]:
            held = {}
            for owner, piece in pieces.values():
                held[owner] = held.get(owner, 0) + piece
            found = {"peak": use, "phase": phase, "held": held, "older": older}
    return found
    ### END SOLUTION


# %%
for batch in (64, 2):
    print(batch, at_peak(training_step(np.random.default_rng(SEED), DEPTH, batch)))

# %% nbgrader={"schema_version": 3, "grade_id": "at-peak-where", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
short = [
    ("zero_grad", 9, -50),
    ("forward", 9, 60),
    ("backward", 7, 20),
    ("backward", 9, -60),
    ("optimiser", 9, 10),
]
assert at_peak(short)["peak"] == 30
assert at_peak(short)["phase"] == "backward"
### BEGIN HIDDEN TESTS
for batch in (1, 2, 40, 300):
    for _ in range(5):
        other = training_step(np.random.default_rng(), DEPTH + 2, batch)
        use = np.cumsum([size for _, _, size in other])
        answer = at_peak(other)
        expect(
            [answer["peak"], answer["phase"]], [int(use.max()), other[int(use.argmax())][0]]
        )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "at-peak-held", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
short = [
    ("forward", 1, 40),
    ("forward", 2, 10),
    ("forward", 2, -10),
    ("backward", 2, 30),
    ("backward", 1, -40),
]
assert at_peak(short)["held"] == {"forward": 40, "backward": 30}
### BEGIN HIDDEN TESTS
for batch in (1, 2, 40, 300):
    for _ in range(5):
        other = training_step(np.random.default_rng(), DEPTH + 2, batch)
        last = int(np.cumsum([size for _, _, size in other]).argmax())
        held = {}
        for line, (phase, address, size) in enumerate(other[: last + 1]):
            if size > 0 and (address, -size) not in [
                entry[1:] for entry in other[line : last + 1]
            ]:
                held[phase] = held.get(phase, 0) + size
        expect(at_peak(other)["held"], held)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "at-peak-older", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert at_peak([("forward", 1, 40), ("backward", 1, -40)])["older"] == 0
assert (
    at_peak([("zero_grad", 9, -50), ("forward", 9, 60), ("backward", 9, -60)])["older"] == 50
)
### BEGIN HIDDEN TESTS
for batch in (2, 40, 300):
    other = training_step(np.random.default_rng(), DEPTH + 2, batch)
    expect(
        at_peak(other)["older"], -sum(size for phase, _, size in other if phase == "zero_grad")
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Will it fit?
#
# A network is a list of layers: `("linear", inputs, outputs)`, with a bias, or `("gelu",)`, `("relu",)`, `("tanh",)`. All
# numbers are in float32. `kept` builds it, runs it forward and counts the bytes that are kept for backward, less those of the
# parameters and of the network's input.


# %% nbgrader={"schema_version": 3, "grade_id": "kept", "grade": false, "solution": false, "locked": true, "task": false}
def network(layers):
    """The network that a list of layers describes."""
    kinds = {
        "linear": torch.nn.Linear,
        "gelu": torch.nn.GELU,
        "relu": torch.nn.ReLU,
        "tanh": torch.nn.Tanh,
    }
    return torch.nn.Sequential(*(kinds[kind](*sizes) for kind, *sizes in layers))


def kept(layers, batch):
    """Bytes that are kept from forward to backward, less those of the parameters and the
    network's input.
    """
    net, x, saved = network(layers), torch.rand(batch, layers[0][1]), {}

    def note(tensor):
        saved[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        net(x)
    for tensor in (*net.parameters(), x):
        saved.pop(tensor.untyped_storage()._cdata, None)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def stack(activation):
    """Three linear layers with an activation after the first and the second."""
    return [
        ("linear", 64, HIDDEN),
        (activation,),
        ("linear", HIDDEN, HIDDEN),
        (activation,),
        ("linear", HIDDEN, 10),
    ]


print(f"{kept(stack('gelu'), SAMPLES):,} bytes kept with GELU")

# %% [markdown]
# With ReLU in the place of GELU, is it more, less, or the same? For the backward pass a linear layer and GELU need their input;
# ReLU and Tanh need their result. What two layers need is kept once. Predict the bytes, and then call `kept`.
#
# Write `ledger(layers, batch, optimiser)`, which counts before anything runs. It gives a dict of bytes:
#
# - `"parameters"`, and `"gradients"` as they are after a backward pass;
# - `"state"`: what the optimiser remembers after its first step. `"sgd"` remembers nothing, `"momentum"` one number for each
#   parameter, `"adam"` what it does in the chapter, with its counters: 4 bytes for each weight and 4 for each bias, whatever
#   their sizes;
# - `"activations"`: what `kept` counts, for such a batch.
#
# It builds no network: some that it is asked about do not fit into this machine.
#
# Then write `largest_batch(layers, optimiser, memory)`: the largest batch with which all four together take at most `memory`
# bytes, and 0 where not even one sample fits.
#
# <details><summary>Hint: number the results</summary>
#
# Result 0 is the network's input, result 1 what the first layer gives, and so on. Each layer needs its input, with the number
# of the layer, or its result, one more. Collect the numbers in a set.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "ledger", "grade": false, "solution": true, "locked": false, "task": false}
def ledger(layers, batch, optimiser):
    ### BEGIN SOLUTION
    widths, needed, numbers, tensors = [layers[0][1]], set(), 0, 0
    for place, (kind, *sizes) in enumerate(layers):
        if kind == "linear":
            inputs, outputs = sizes
            numbers += (inputs + 1) * outputs
            tensors += 2
        widths.append(outputs)
        needed.add(place if kind in ("linear", "gelu") else place + 1)
    state = {"sgd": 0, "momentum": 4 * numbers, "adam": 8 * numbers + 4 * tensors}
    activations = sum(4 * batch * widths[place] for place in needed - {0})
    return {
        "parameters": 4 * numbers,
        "gradients": 4 * numbers,
        "state": state[optimiser],
        "activations": activations,
    }
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "ledger-fixed", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
for optimiser, bytes_of_state in (("sgd", 0), ("momentum", 80), ("adam", 168)):
    page = ledger([("linear", 3, 5), ("gelu",)], 7, optimiser)
    assert (page["parameters"], page["gradients"], page["state"]) == (80, 80, bytes_of_state)
### BEGIN HIDDEN TESTS
for each, counter, optimiser in ((0, 0, "sgd"), (4, 0, "momentum"), (8, 4, "adam")):
    sizes = np.random.default_rng().integers(3, 900, 4).tolist()
    layers = [
        ("linear", *sizes[:2]),
        ("tanh",),
        ("linear", *sizes[1:3]),
        ("relu",),
        ("linear", *sizes[2:]),
    ]
    numbers = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    page = ledger(layers, 4, optimiser)
    right = [4 * numbers, 4 * numbers, each * numbers + 6 * counter]
    expect([page["parameters"], page["gradients"], page["state"]], right)
page = ledger([("linear", 60_000, 70_000), ("gelu",), ("linear", 70_000, 5)], 10, "adam")
numbers = 60_001 * 70_000 + 70_001 * 5
expect(
    [page["parameters"], page["gradients"], page["state"]],
    [4 * numbers, 4 * numbers, 8 * numbers + 16],
)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ledger-activations", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert ledger(stack("gelu"), SAMPLES, "sgd")["activations"] == kept(stack("gelu"), SAMPLES)
assert ledger(stack("relu"), SAMPLES, "sgd")["activations"] == kept(stack("relu"), SAMPLES)
assert ledger([("linear", 8, 8), ("relu",), ("gelu",)], 100, "sgd")["activations"] == 3_200
### BEGIN HIDDEN TESTS
for _ in range(25):
    random = np.random.default_rng()
    sizes, layers = random.integers(3, 60, 5).tolist(), []
    for pair in pairwise(sizes):
        layers.append(("linear", *pair))
        layers += [
            (kind,)
            for kind in random.choice(["gelu", "relu", "tanh"], random.integers(0, 3)).tolist()
        ]
    batch = int(random.integers(1, 90))
    expect(ledger(layers, batch, "adam")["activations"], kept(layers, batch))
large = [
    ("linear", 9, 10**9),
    ("tanh",),
    ("linear", 10**9, 10**8),
    ("gelu",),
    ("linear", 10**8, 3),
]
expect(ledger(large, 50, "sgd")["activations"], 4 * 50 * (10**9 + 2 * 10**8))
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "largest-batch", "grade": false, "solution": true, "locked": false, "task": false}
def largest_batch(layers, optimiser, memory):
    ### BEGIN SOLUTION
    page = ledger(layers, 1, optimiser)
    for_one = page.pop("activations")
    return max(0, (memory - sum(page.values())) // for_one)
    ### END SOLUTION


# %%
for activation in ("gelu", "relu"):
    for optimiser in ("adam", "sgd"):
        samples = largest_batch(stack(activation), optimiser, 32 * MIB)
        print(f"{activation} and {optimiser}: {samples:,} samples in 32 MiB")

# %% nbgrader={"schema_version": 3, "grade_id": "largest-batch-fits", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert (
    largest_batch([("linear", 3, 5), ("tanh",)], "momentum", 80 + 80 + 80 + 20 * 7 + 19) == 7
)
assert largest_batch([("linear", 3, 5), ("tanh",)], "momentum", 100) == 0
### BEGIN HIDDEN TESTS
for activations_of_one, activation in ((16, "gelu"), (8, "relu")):
    for times, optimiser in ((2, "sgd"), (3, "momentum"), (4, "adam")):
        width, batch = np.random.default_rng().integers(10, 400, 2).tolist()
        layers = [
            ("linear", 20, width),
            (activation,),
            ("linear", width, width),
            (activation,),
            ("linear", width, 7),
        ]
        numbers = 21 * width + (width + 1) * width + (width + 1) * 7
        room = (
            4 * times * numbers
            + 24 * (optimiser == "adam")
            + activations_of_one * width * batch
        )
        expect(
            [largest_batch(layers, optimiser, bytes_) for bytes_ in (room - 1, room)],
            [batch - 1, batch],
        )
    expect(largest_batch(layers, "adam", 1_000), 0)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Where to cut?
#
# A network is now a list of layers `(size, seconds)`: the bytes that the layer keeps for backward, all of them its input, and the
# seconds of its forward pass. Checkpointing cuts it into segments. They are given by the numbers of their first layers: `[0]` is
# one segment, `[0, 3]` has a second one that begins with layer 3.
#
# Backward goes through the segments from the last to the first. While it is in one, there are in memory:
#
# - what the layers of this segment keep;
# - the input of each segment before it, which is what that segment's first layer keeps.
#
# The segments behind it are done, and nothing of them is left. A segment's forward pass is run a second time when backward comes
# to it; that of the last segment is not.
#
# Write `trade(layers, starts)`: the peak in bytes and the seconds that are spent on running layers again, as a tuple. Sixteen
# layers of size 1 peak at 16 in one segment. Predict the peaks in 2, 4, 8 and 16 segments of equal length.
#
# <details><summary>Hint: segments as slices</summary>
#
# `zip(starts, [*starts[1:], len(layers)])` gives the two ends of each segment. Go through them, and keep the sum of the inputs met
# so far.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "trade", "grade": false, "solution": true, "locked": false, "task": false}
def trade(layers, starts):
    ### BEGIN SOLUTION
    inputs = most = 0
    for first, end in zip(starts, [*starts[1:], len(layers)]):
        most = max(most, inputs + sum(size for size, _ in layers[first:end]))
        inputs += layers[first][0]
    return most, sum(seconds for _, seconds in layers[: starts[-1]])
    ### END SOLUTION


# %% [markdown]
# Look at it in PyTorch: 16 linear layers and 16 GELUs, each of which keeps its input of half a MiB. Backward makes gradients too, and
# asks for some room to work in, which comes on top of each prediction. By how much are they all too low?

# %%
torch.manual_seed(0)
modules = [
    module for _ in range(16) for module in (torch.nn.Linear(256, 256), torch.nn.GELU())
]
net, x = torch.nn.Sequential(*modules), torch.rand(512, 256)


def step(segments):
    checkpoint_sequential(net, segments, x, use_reentrant=False).square().mean().backward()


for segments in (1, 2, 4, 8, 16, 32):
    predicted, again = trade([(MIB / 2, 1)] * 32, list(range(0, 32, 32 // segments)))
    net.zero_grad()
    measured = peak(record(step, segments))
    print(
        f"{segments:>2} segments: {again:>2} layers again, "
        f"{predicted / MIB:4.1f} MiB predicted, {measured / MIB:.1f} seen"
    )

# %% nbgrader={"schema_version": 3, "grade_id": "trade-peak", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert trade([(1, 1.0)] * 16, [0])[0] == 16
assert trade([(1, 1.0)] * 16, [0, 4, 8, 12])[0] == 7
assert trade([(1, 1.0)] * 16, list(range(16)))[0] == 16
assert trade([(5, 1.0), (9, 1.0), (1, 1.0), (1, 1.0)], [0, 2])[0] == 14
### BEGIN HIDDEN TESTS
for _ in range(20):
    random = np.random.default_rng()
    sizes = random.integers(1, 10**6, 14).tolist()
    starts = [0, *sorted(random.choice(range(1, 14), 4, replace=False).tolist())]
    ends = [*starts[1:], 14]
    there = [
        sum(sizes[start] for start in starts if start < first) + sum(sizes[first:end])
        for first, end in zip(starts, ends)
    ]
    expect(trade([(size, 1.0) for size in sizes], starts)[0], max(there))
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "trade-seconds", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert trade([(1, 2.0)] * 16, [0])[1] == 0
assert trade([(1, 2.0)] * 16, [0, 4, 8, 12])[1] == 24
### BEGIN HIDDEN TESTS
seconds = np.random.default_rng().uniform(1, 9, 12).tolist()
layers = [(1, each) for each in seconds]
expect(
    [trade(layers, starts)[1] for starts in ([0, 5], [0, 1, 2, 11])],
    [sum(seconds[:5]), sum(seconds[:11])],
    1e-9,
)
### END HIDDEN TESTS

# %% [markdown]
# Write `choose(layers, limit)`: the starts with the fewest seconds spent on running again, of all those whose peak is at most
# `limit` bytes; any of them, where several are equal; `None` where there are none. There are at most 11 layers, so at most 1,024 ways
# to cut, and a computer tries them all. In your list of starts, how long is the last segment, and why?


# %% nbgrader={"schema_version": 3, "grade_id": "choose", "grade": false, "solution": true, "locked": false, "task": false}
def choose(layers, limit):
    ### BEGIN SOLUTION
    behind = range(1, len(layers))
    ways = [[0, *cuts] for count in range(len(layers)) for cuts in combinations(behind, count)]
    fitting = [starts for starts in ways if trade(layers, starts)[0] <= limit]
    return min(fitting, key=lambda starts: trade(layers, starts)[1], default=None)
    ### END SOLUTION


# %%
random = np.random.default_rng(SEED)
layers = list(
    zip((random.integers(1, 9, 10) * MIB).tolist(), random.uniform(0.01, 0.05, 10).tolist())
)
for share in (1, 0.8, 0.6, 0.4):
    starts = choose(layers, share * sum(size for size, _ in layers))
    print(
        f"at most {share:.0%} of the memory: {starts}", trade(layers, starts) if starts else ""
    )

# %% nbgrader={"schema_version": 3, "grade_id": "choose-best", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert choose([(3, 1.0), (3, 2.0), (3, 4.0)], 9) == [0]
assert choose([(1, 1.0), (3, 2.0), (3, 4.0), (3, 1.0)], 7) == [0, 2]
assert choose([(3, 1.0), (3, 2.0), (3, 4.0)], 5) is None
### BEGIN HIDDEN TESTS


def traded(layers, starts):
    there = 0
    for first, end in zip(starts, [*starts[1:], len(layers)]):
        inputs = sum(layers[start][0] for start in starts if start < first)
        there = max(there, inputs + sum(size for size, _ in layers[first:end]))
    return there, sum(seconds for _, seconds in layers[: starts[-1]])


for _ in range(12):
    random = np.random.default_rng()
    layers = list(zip(random.integers(1, 100, 9).tolist(), random.uniform(1, 2, 9).tolist()))
    ways = [[0, *cuts] for count in range(9) for cuts in combinations(range(1, 9), count)]
    costs = [traded(layers, starts) for starts in ways]
    lowest, whole = min(costs)[0], sum(size for size, _ in layers)
    for limit in (lowest, (2 * lowest + whole) // 3, (lowest + 2 * whole) // 3, whole):
        starts = choose(layers, limit)
        assert starts in ways, f"{starts} is no list of starts"
        there, again = traded(layers, starts)
        assert there <= limit, f"{starts} peaks at {there}, and the limit is {limit}"
        expect(again, min(seconds for bytes_, seconds in costs if bytes_ <= limit), 1e-9)
    expect(choose(layers, lowest - 1), None)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. How small may the device be?
#
# Texts of different lengths, in a training on the model of the allocator. Each step asks for three tensors, larger for a longer text,
# and something small is kept until the next step is under way. The events are those of the chapter: `(address, bytes)`, below 0
# for a free.


# %% nbgrader={"schema_version": 3, "grade_id": "texts", "grade": false, "solution": false, "locked": true, "task": false}
def texts(random, steps, parts=(4, 2, 3)):
    """(address, bytes) of each request and each free of a training on texts of different
    lengths.
    """
    events, kept = [], []
    for address in range(0, 4 * steps, 4):
        length = 4 * MIB * int(random.integers(3, 13))
        first, second, third = (
            (address + place, part * length) for place, part in enumerate(parts)
        )
        small = address + 3, 2 * MIB
        events += [
            first,
            second,
            *freed(kept),
            *freed([first]),
            small,
            third,
            *freed([second, third]),
        ]
        kept = [small]
    return events


def freed(pieces):
    """The frees of pieces that were asked for."""
    return [(address, -size) for address, size in pieces]


events = texts(np.random.default_rng(SEED), 10)
print(f"{peak(events) / MIB:.0f} MiB needed at most")

# %% [markdown]
# Write `smallest(events, expandable)`: the smallest device, in whole MiB, on which `Allocator` gets through all events, without
# or with expandable segments. One MiB less, and it runs out of memory. You have what the chapter has: `replay`, `peak`,
# `Allocator`, `OutOfMemory`, `MIB`.
#
# Guess first how far the two lie above the MiB that are needed.
#
# <details><summary>Hint: where to begin</summary>
#
# No device that is smaller than the peak of the events will do. From there on, try.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "smallest", "grade": false, "solution": true, "locked": false, "task": false}
def smallest(events, expandable):
    ### BEGIN SOLUTION
    capacity = ceil(peak(events) / MIB)
    while True:
        allocator = Allocator(capacity=capacity * MIB, expandable=expandable)
        try:
            replay(events, allocator.malloc, allocator.free)
        except OutOfMemory:
            capacity += 1
        else:
            return capacity
    ### END SOLUTION


# %%
smallest(events, False), smallest(events, True)

# %% nbgrader={"schema_version": 3, "grade_id": "smallest-of-segments", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert smallest([(0, 30 * MIB), (1, 9 * MIB)], False) == 50
assert smallest([(0, 90 * MIB), (0, -90 * MIB), (1, 30 * MIB), (2, 70 * MIB)], False) == 160
### BEGIN HIDDEN TESTS


def gets_through(events, capacity, expandable):
    allocator = Allocator(capacity=capacity * MIB, expandable=expandable)
    try:
        replay(events, allocator.malloc, allocator.free)
    except OutOfMemory:
        return False
    return True


for parts in ((4, 2, 3), (2, 4, 3), (5, 2, 4)):
    for _ in range(2):
        other = texts(np.random.default_rng(), 8, parts)
        sizes = range(ceil(peak(other) / MIB), 1_000)
        expect(
            smallest(other, False),
            next(size for size in sizes if gets_through(other, size, False)),
        )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "smallest-of-pages", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert smallest([(0, 30 * MIB), (1, 9 * MIB)], True) == 40
### BEGIN HIDDEN TESTS


def gets_through(events, capacity, expandable):
    allocator = Allocator(capacity=capacity * MIB, expandable=expandable)
    try:
        replay(events, allocator.malloc, allocator.free)
    except OutOfMemory:
        return False
    return True


for parts in ((4, 2, 3), (2, 4, 3), (5, 2, 4)):
    for _ in range(2):
        other = texts(np.random.default_rng(), 8, parts)
        sizes = range(ceil(peak(other) / MIB), 1_000)
        expect(
            smallest(other, True),
            next(size for size in sizes if gets_through(other, size, True)),
        )
### END HIDDEN TESTS

# %% [markdown]
# Now make it fail. Write `stuck(capacity)`: at most 12 events, in bytes, for a device of `capacity` bytes with segments that are not
# expandable. The last one is a request, which is refused although at least 2.5 times as many bytes are free. All others get
# through. The capacity is an even number of MiB, at least 60 MiB: take {{CAPACITY}} MiB to try it with. `refused` tells how
# many times the last request was free.
#
# <details><summary>Hint: free is not free</summary>
#
# Fill a segment, and leave small blocks between large holes. How many holes does it take?
#
# </details>
#
# <details><summary>Hint: what a small block is</summary>
#
# It has to come from the pool of the large ones, and a request gets the smallest free block that is large enough.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "refused", "grade": false, "solution": false, "locked": true, "task": false}
def refused(events, capacity):
    """How many times the last request's bytes were free when it was refused; 0 where it was
    not, or another one was.
    """
    allocator, (_, size) = Allocator(capacity=capacity), events[-1]
    try:
        replay(events[:-1], allocator.malloc, allocator.free)
    except OutOfMemory:
        return 0
    free = capacity - allocator.allocated
    try:
        allocator.malloc(size)
    except OutOfMemory:
        return free / size
    return 0


# %% nbgrader={"schema_version": 3, "grade_id": "stuck", "grade": false, "solution": true, "locked": false, "task": false}
def stuck(capacity):
    ### BEGIN SOLUTION
    wall = 2 * MIB
    hole = (capacity - 2 * wall) // 3
    filled = [(0, capacity), (0, -capacity), (1, hole), (2, wall), (3, hole), (4, wall)]
    return [*filled, (1, -hole), (3, -hole), (5, hole + MIB)]
    ### END SOLUTION


# %%
refused(stuck(CAPACITY * MIB), CAPACITY * MIB)

# %% nbgrader={"schema_version": 3, "grade_id": "stuck-with-room", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
for capacity in (60 * MIB, CAPACITY * MIB):
    assert len(stuck(capacity)) <= 12
    assert refused(stuck(capacity), capacity) >= 2.5
### BEGIN HIDDEN TESTS
for capacity in (2 * MIB * np.random.default_rng().integers(30, 400, 8)).tolist():
    events = stuck(capacity)
    assert len(events) <= 12, f"{len(events)} events"
    times = refused(events, capacity)
    assert times >= 2.5, f"on {capacity / MIB:.0f} MiB: {times:.2f} times"
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# A language model is trained on windows of a long row of tokens. Every {{STRIDE}} tokens one begins, {{WIDTH}} tokens long. The
# labels of a window are the tokens one place further on, but a separator between two texts is no label: -100 stands there, which
# `cross_entropy` ignores.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
SEPARATOR, IGNORED = 0, -100


def windows_slowly(tokens, width, stride):
    """(inputs, labels), each with a row for each window."""
    inputs = torch.empty(0, width, dtype=tokens.dtype)
    labels = torch.empty(0, width, dtype=tokens.dtype)
    for start in range(0, len(tokens) - width, stride):
        label = tokens[start + 1 : start + 1 + width].clone()
        label[label == SEPARATOR] = IGNORED
        inputs = torch.cat([inputs, tokens[start : start + width].unsqueeze(0)])
        labels = torch.cat([labels, label.unsqueeze(0)])
    return inputs, labels


def row_of_tokens(random, length):
    """Tokens of 16 bits, one in forty of them a separator."""
    tokens = random.integers(1, 8_000, length, dtype=np.int16)
    tokens[random.random(length) < 1 / 40] = SEPARATOR
    return torch.from_numpy(tokens)


tokens = row_of_tokens(np.random.default_rng(SEED), (WINDOWS - 1) * STRIDE + WIDTH + 1)

# %% [markdown]
# Write `windows(tokens, width, stride)`, which returns the same and is at least {{TIMES}} times as fast on {{WINDOWS}} windows. The
# tokens are used again, so it must leave them as they are. What it returns is only read, so it may share its memory with the
# tokens, and rows may share theirs. There are four gates, each with its points, and each opens only behind the one before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: two tensors of the same type and shape, with equal values, and the tokens unchanged, on tokens you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# Count first: how many bytes do the two calls of `cat` copy in all, and how many bytes has the result? Then guess how much you gain
# when the rows go into a list, and one `torch.stack` at the end makes a tensor of them.
#
# <details><summary>Hint: what grows</summary>
#
# `cat` makes a new tensor and copies all rows that are there already. With n windows that is about n²/2 rows. But the list, too,
# makes several small tensors for each window. The separators can be replaced in the whole row of tokens at once.
#
# </details>
#
# <details><summary>Hint: windows are views</summary>
#
# A view is a storage with an offset, sizes and strides. Rows whose offsets grow by `stride` need no copy: look for
# `unfold`, or `as_strided`. What is then written into one row is written into its neighbours too.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "windows", "grade": false, "solution": true, "locked": false, "task": false}
def windows(tokens, width, stride):
    ### BEGIN SOLUTION
    labels = tokens.clone()
    labels[labels == SEPARATOR] = IGNORED
    return tokens[:-1].unfold(0, width, stride), labels[1:].unfold(0, width, stride)
    ### END SOLUTION


# %%
race = compare(windows_slowly, windows, tokens, WIDTH, STRIDE, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "with-tokens", "grade": false, "solution": false, "locked": true, "task": false}
def windows_and_tokens(tokens, width, stride):
    """What is graded: the answer, and the tokens as they are after it."""
    return windows(tokens, width, stride), tokens


def slowly_and_tokens(tokens, width, stride):
    """The same with the slow function."""
    return windows_slowly(tokens, width, stride), tokens


# %% nbgrader={"schema_version": 3, "grade_id": "windows-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    width = WIDTH + int(random.integers(-4, 5))
    windows_asked = WINDOWS + int(random.integers(-20, 21))
    length = (windows_asked - 1) * STRIDE + width + int(random.integers(1, STRIDE + 1))
    return row_of_tokens(random, length), width, STRIDE


gates = four_gates(
    "windows_and_tokens", "slowly_and_tokens", draw=draw, same=0.0, target=TIMES
)
### END HIDDEN TESTS
few = torch.tensor([5, 6, 0, 7, 8, 9], dtype=torch.int16)
inputs, labels = windows(few, 3, 2)
assert inputs.tolist() == [[5, 6, 0], [0, 7, 8]]
assert labels.tolist() == [[6, -100, 7], [7, 8, 9]]
assert few.tolist() == [5, 6, 0, 7, 8, 9]
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "windows-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
assert not torch.equal(
    windows(tokens, WIDTH, STRIDE)[0], windows(tokens + 1, WIDTH, STRIDE)[0]
)
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "windows-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "windows-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
