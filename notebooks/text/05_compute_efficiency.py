# %% [markdown]
# # Compute efficiency
#
# **The data are there. Why does the step not get faster?**
#
# After this chapter you can say what limits a piece of a step: the cost of calling it, the memory it moves, or its
# arithmetic. You know what batching, fusion, `torch.compile` and a better attention can give, and what they cannot.
# Read it if the processor is busy; if it waits for data, read [chapter 04](04_data_supply.ipynb) first.
#
# *30 minutes to read, 35 seconds to run.*

# %%
import logging
import math
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
import torch
from threadpoolctl import threadpool_info
from torch._inductor import config as inductor
from torch._inductor import metrics
from torch._inductor.utils import fresh_cache
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from steptime import PairedRatios, Verdict, bench, claim, claim_on, claims, compare, machine
from steptime.bounds import amdahl, rank
from steptime.roofline import measure_roofs, work_of
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration

torch.set_num_threads(1)
inductor.compile_threads = 1  # in this process, not in a pool of others

# %% [markdown]
# ## What does a call cost?
#
# A network of 58 numbers, so 48 multiplications and as many additions for a sample, and 256 samples for it. It can take
# them one by one, or many in a batch. It is this small so that nothing but the price of calling it is left to see.

# %%
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
net.requires_grad_(False)
samples = torch.rand(256, 4)


# %%
def in_batches(size, x):
    return torch.cat([net(batch) for batch in x.split(size)])


# %% [markdown]
# **Equal first.** Each sample's answer does not depend on the others. Is it the same to the last bit?

# %%
torch.equal(in_batches(1, samples), in_batches(256, samples))

# %% [markdown]
# Do not count on it. For another shape the library may take another kernel, which adds in another order. So ask for
# equality to rounding. Then guess: how much cheaper is a sample in a batch of 16, and in one of 256?

# %%
alone, by_16 = partial(in_batches, 1), partial(in_batches, 16)
race_16 = compare(alone, by_16, samples, same=1e-5, budget=2, guess=16)
race_16

# %%
by_256 = partial(in_batches, 256)
race_256 = compare(alone, by_256, samples, same=1e-5, budget=2, guess=256)
race_256

# %%
claim("a sample's answer is the same in any batch, to rounding", race_256.same)
claim("in a batch of 16 a sample is at least 5 times cheaper than alone", race_16.at_least(5))
claim(
    "in a batch of 256 a sample is at least 20 times cheaper than alone", race_256.at_least(20)
)

# %% [markdown]
# **Why?** A call has a fixed price: Python finds the method, torch looks at types and shapes, chooses a kernel, and asks
# for memory for the result; three layers, three times. The arithmetic for one sample is nothing beside that. A batch pays
# the price once, so sixteen samples cost nearly as much as one.
#
# So does it go on like that? Draw it: nanoseconds a sample over the size of the batch. Where will the line bend?

# %%
sizes = [4**power for power in range(9)]
costs = [bench(net, torch.rand(size, 4), seconds=0.05).median / size for size in sizes]
bend = next(size for size, cost in zip(sizes, costs) if cost < 2 * min(costs))
f"{duration(costs[0])} alone, {duration(min(costs))} at best, near it from {bend:,} samples on"

# %%
canvas, axes = figure()
axes.plot(sizes, [1e9 * cost for cost in costs], marker="o", color=COLOURS["estimate"])
axes.axhline(1e9 * min(costs), color=COLOURS["threshold"], linestyle="--", linewidth=1)
axes.set(xscale="log", yscale="log", xlabel="samples in a batch", ylabel="ns a sample")
alt = f"A sample costs {duration(costs[0])} alone and {duration(min(costs))} in large batches."
Picture(
    canvas,
    alt,
    "The fixed price is shared until nothing of it is left to share: then comes a floor.",
)

# %% [markdown]
# There is a floor: the work itself, which no batch can share. Beyond the bend a larger batch buys next to nothing, and
# where its results no longer fit a cache the line may even turn up. A sample in a batch of 16,384, does it still take at
# least a quarter as long as in one of 1,024?

# %%
many = torch.rand(16_384, 4)
huge, large = partial(in_batches, 16_384), partial(in_batches, 1_024)
floor = compare(huge, large, many, same=1e-5, budget=2)
floor

# %%
claim(
    "16 times the batch, 16,384 for 1,024, does not make a sample 4 times as cheap",
    floor.at_least(0.25),
)

# %% [markdown]
# Throughput alone does not choose the batch. It also decides how many steps the training takes, as [chapter
# 01](01_measurement.ipynb) shows. Take the smallest batch near the floor that still learns well.

# %% [markdown]
# ## Which of the two roofs?
#
# A processor does so many operations on numbers a second (*FLOP/s*), and memory brings so many bytes. A function that
# wants both takes at least the longer of the two times. What are the limits here? One thread, numbers of 32 bits.

# %%
roofs = measure_roofs(seconds=1)
roofs

# %% [markdown]
# The first comes from the fastest product of two matrices, the second from a sum of two arrays, each 64 MiB where
# memory allows, which is more than most caches hold. Code whose numbers come from memory hardly gets above either,
# however clever, so they are called *roofs* (Williams and others, 2009). What a cache holds can come faster.
#
# The quotient of a function's operations and bytes is its *arithmetic intensity*. Below the point where the roofs meet,
# memory is the limit; above it, arithmetic. It can be counted before anything is timed. Two candidates: a product of two
# matrices, and a chain of element-wise operators, as activations, dropout and optimisers are full of.

# %%
matrix = torch.rand(1_024, 1_024)
x = torch.rand(2**22)


def chain(x):
    return ((x * 0.5 + 1) * x - 0.25).clamp(0, 1)


# %% [markdown]
# How many operations a byte does each do? Count on paper: the product does 2 x 1,024^3 operations on three matrices. The
# chain has five operators; each reads one array or two, and writes one.

# %%
product_work, chain_work = work_of(torch.mm, matrix, matrix), work_of(chain, x)
print(product_work.intensity, product_work)
print(chain_work.intensity, chain_work)

# %%
product, eager = roofs.place(torch.mm, matrix, matrix), roofs.place(chain, x)
roofs.plot(product, eager)

# %%
print(product)
print(eager)

# %%
claim(
    "a product of 1,024 does over 100 operations a byte, the chain less than 1 in 4 bytes",
    product_work.intensity > 100 and chain_work.intensity < 1 / 4,
)

# %% [markdown]
# The product lives under the flat roof. The chain lives under the slope: the arithmetic units wait for memory nearly all
# the time, so a processor that calculates faster would not help it. How many times more operations a second does the
# product do? Take both in turns, so that the ratio has an interval.


# %%
def taken(function, *arguments):
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


# %%
product_flops, chain_flops = product_work.flops, chain_work.flops
rates = PairedRatios(
    (product_flops / taken(torch.mm, matrix, matrix), chain_flops / taken(chain, x))
    for _ in range(24)
)
rates

# %%
claim("the product does at least 8 times the operations a second", rates.at_least(8))

# %% [markdown]
# **Two ways out.** Numbers of 16 bits halve the bytes. And *fusion*: do all five operators on a number while it is at
# hand, and only then fetch the next. It reads x once, writes once, and does the same arithmetic.

# %%
fused_work = work_of(chain, x, fused=True)
halved_work = work_of(chain, x.bfloat16())
print(
    f"{chain_work.bytes:,} bytes, {fused_work.bytes:,} fused, {halved_work.bytes:,} in 16 bits"
)

# %%
claim(
    "fused, the chain does the same operations and moves less than a fifth of the bytes",
    fused_work.flops == chain_work.flops and 5 * fused_work.bytes < chain_work.bytes,
)
claim("numbers of 16 bits halve what it moves", 2 * halved_work.bytes == chain_work.bytes)

# %% [markdown]
# Some fusions are there already, if you know the operator. a + 3b is two of them, or one. Count the bytes before you run
# this: how many times faster can it get?

# %%
a, b = torch.rand(2**22), torch.rand(2**22)


def in_two(a, b):
    return a + 3 * b


def in_one(a, b):
    return torch.add(a, b, alpha=3)


# %%
print(f"{work_of(in_two, a, b).bytes / work_of(in_one, a, b).bytes:.2f} times the bytes")
race = compare(in_two, in_one, a, b, same=1e-6, budget=1)
race

# %%
claim("one operator for two gives the same numbers", race.same)
claim(
    "and moves three fifths of the bytes",
    5 * work_of(in_one, a, b).bytes == 3 * work_of(in_two, a, b).bytes,
)

# %% [markdown]
# The bytes said what to expect, within what the caches and the memory for the result do to it. For a chain that nobody
# has written an operator for there is a compiler. That is what the next two sections are about.

# %% [markdown]
# ## What does torch.compile capture?
#
# At the first call `torch.compile` follows your function line by line, with types and shapes in place of numbers. It
# writes down the operators and hands that *graph* to a *backend*, which turns it into code. Here is a backend that only
# keeps the graph and runs it as it is. It needs no compiler, so it shows what is captured, anywhere.


# %%
def captured(function, **options):
    """(the function, compiled; the graphs captured so far)"""
    graphs = []

    def keep(graph, example):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    return torch.compile(function, backend=keep, **options), graphs


# %%
def chain(x):
    return ((x * 0.5 + 1) * x - 0.25).clamp(0, 1)


x = torch.rand(1_000)
compiled, graphs = captured(chain)
claim("captured, the chain gives the same numbers", torch.equal(compiled(x), chain(x)))

# %% [markdown]
# How many graphs were made, and what is in them?

# %%
print(graphs[0].code)

# %%
claim("the chain is captured as one graph", len(graphs) == 1)

# %% [markdown]
# The whole chain is there in one piece, so a backend can fuse it. No data went in: the graph holds what is done to any x
# of this kind, and *guards* check at each call whether x is still of that kind.
#
# **Graph breaks.** This version looks at a number and then decides. Python needs the number now, so the graph must end
# there. How many pieces will there be, and which operators are in each?


# %%
def deciding(x):
    y = x * 0.5 + 1
    if y.sum() > 10:
        y = y * x
    return (y - 0.25).clamp(0, 1)


# %%
compiled, graphs = captured(deciding)
same = torch.equal(compiled(x), deciding(x))
for graph in graphs:
    print([node.name for node in graph.graph.nodes if node.op.startswith("call")])

# %%
claim("a decision in the middle breaks it into two graphs", same and len(graphs) == 2)

# %% [markdown]
# Two pieces, and a trip back to Python in between; on a GPU the decision also waits for the device. `.item()`, `print`
# and a library that torch does not know do the same. The cure is to say the choice in torch's own words.


# %%
def choosing(x):
    y = x * 0.5 + 1
    y = torch.where(y.sum() > 10, y * x, y)
    return (y - 0.25).clamp(0, 1)


# %%
compiled, graphs = captured(choosing)
same = torch.equal(compiled(x), deciding(x))
claim("with torch.where it is one graph again", same and len(graphs) == 1)

# %% [markdown]
# With `fullgraph=True` a break is an error, which tells you the line. Use it on the part that must be fast.
#
# **Recompilations.** A guard that fails means a new graph, and with a real backend a new compilation: seconds, in the
# middle of the training. Now call the chain with eleven lengths, as texts have them. How many graphs?


# %%
def graphs_for_lengths(**options):
    torch._logging.set_logs(dynamo=logging.ERROR)
    compiled, graphs = captured(chain, **options)
    for length in range(100, 111):
        compiled(torch.rand(length))
    return len(graphs)


# %%
by_default, one_each = graphs_for_lengths(), graphs_for_lengths(dynamic=False)
print(f"{by_default} by default, {one_each} with dynamic=False")

# %%
claim("eleven lengths make two graphs", by_default == 2)

# %% [markdown]
# At the second length torch notices that lengths vary and makes a graph for any length. Told not to, it makes one for
# each until a limit, eight as it comes, and then gives up without an error: the other three lengths run as if you had
# never compiled. It only warns, and here the warning was turned off.

# %%
limit = torch._dynamo.config.recompile_limit
claim(
    "told that lengths are fixed, it makes a graph for each, up to the limit",
    one_each == limit < 11,
)

# %% [markdown]
# ## What does a compiler make of it?
#
# On a CPU the usual backend, *inductor*, writes C++ and compiles it. Count what it writes, and time its first call. This
# needs a C++ compiler; where there is none the section says so and goes on.


# %%
def chain(x):
    return ((x * 0.5 + 1) * x - 0.25).clamp(0, 1)


def compiled_and_counted(function, *arguments):
    """The function compiled anew, seconds of its first call, and the kernels generated."""
    torch._dynamo.reset()
    metrics.reset()
    compiled = torch.compile(lambda *arguments: function(*arguments))
    with fresh_cache():
        start = perf_counter()
        compiled(*arguments)
    return compiled, perf_counter() - start, metrics.generated_kernel_count


# %% [markdown]
# A *kernel* is a compiled loop over the numbers of a tensor. The chain has five operators, and each is a kernel of its
# own when it runs *eagerly*, one line of Python after the other. How many kernels are left? And after how many calls is
# the first one paid back?


# %%
def one_kernel():
    x = torch.rand(2**22)
    compiled, first, kernels = compiled_and_counted(chain, x)
    race = compare(chain, compiled, x, same=1e-6, budget=2)
    print(f"{work_of(chain, x).operators} operators, {kernels} kernel; {race}")
    saved = median(eager - fused for eager, fused in race.pairs)
    paid = f"paid back after {first / saved:,.0f} calls" if saved > 0 else "never paid back"
    print(f"first call {duration(first)}: {paid}")
    return Verdict(race.same and kernels == 1, f"{kernels} generated")


claim_on("a C++ compiler", "the compiler makes one kernel of five operators", one_kernel)

# %% [markdown]
# One kernel reads x once and writes once: the roofline's second way out, written for you. The price is the first call. A
# script that runs a few hundred steps may never see the gain; a training of days does.
#
# **Where it does not help.** A product of two matrices is one call of a library that people have tuned for decades. What
# is there left to fuse?


# %%
def nothing_to_fuse():
    matrix = torch.rand(512, 512)
    compiled, first, kernels = compiled_and_counted(torch.mm, matrix, matrix)
    race = compare(torch.mm, compiled, matrix, matrix, same=1e-6, budget=1)
    print(f"{kernels} kernels generated, first call {duration(first)}; {race}")
    return Verdict(race.same and kernels == 0, f"{kernels} generated")


claim_on("a C++ compiler", "of a product alone it makes no kernel at all", nothing_to_fuse)

# %% [markdown]
# It calls the same library, by another way, with guards to check on top. Look at the roofline first: what already touches
# the flat roof has nothing to gain from fusion. What is launch-bound or memory-bound has.

# %% [markdown]
# ## What does attention keep?
#
# Attention compares each of N tokens with each. Written out, it makes a matrix of N x N weights for each head, turns each
# row into shares by softmax, and uses it once, to average the values.


# %%
def written_out(query, key, value):
    weights = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return weights.softmax(-1) @ value


def tokens(count):
    torch.manual_seed(0)
    return [torch.randn(1, 4, count, 32, requires_grad=True) for _ in range(3)]


# %% [markdown]
# `scaled_dot_product_attention` computes the same in blocks and never holds the matrix (Dao and others, 2022). Equal
# first, in float32:

# %%
race = compare(written_out, scaled_dot_product_attention, *tokens(512), same=1e-5, budget=2)
race

# %%
claim("both forms of attention agree to 1e-5", race.same)

# %% [markdown]
# **What is kept for backward?** What the gradient will need is saved while the forward pass runs. torch lets you watch: a
# hook sees each tensor that is saved. Count the bytes, each piece of memory once.


# %%
def kept(function, *arguments):
    """Bytes of each piece of memory that backward will need, the largest last."""
    pieces = {}

    def note(tensor):
        pieces[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        answer = function(*arguments)
    return sorted(pieces.values()) if answer.requires_grad else []


# %% [markdown]
# Four heads, 1,024 tokens, 32 numbers each: a query of 0.5 MiB. How many MiB does either form keep? And for twice the
# tokens?

# %%
bytes_kept = {
    (form.__name__, count): kept(form, *tokens(count))
    for form in (written_out, scaled_dot_product_attention)
    for count in (1_024, 2_048)
}
for (name, count), pieces in bytes_kept.items():
    print(f"{name:<29}{count:>6} tokens {sum(pieces) / 2**20:>6.2f} MiB")

# %%
names = "written_out", "scaled_dot_product_attention"
(short, long), (block_short, block_long) = (
    [bytes_kept[name, count] for count in (1_024, 2_048)] for name in names
)
matrix = 4 * 4 * 1_024 * 1_024
claim("written out, attention keeps the whole matrix of weights", short[-1] == matrix)
claim(
    "in blocks it keeps less than a sixth of the bytes, nothing as large as the matrix",
    6 * sum(block_short) < sum(short) and block_short[-1] < matrix,
)
claim(
    "twice the tokens double what blocks keep and more than triple what is written out",
    sum(block_long) == 2 * sum(block_short) and sum(long) > 3 * sum(short),
)

# %% [markdown]
# How can it do without? A softmax needs the sum of its row, but the sum can be kept while the row goes by block by block,
# and what was averaged before is scaled when the sum grows. For backward the blocks are computed again from query and
# key, with the help of one number a row.
#
# So the block form turns a cost that grows with the square of the length into one that grows with the length. The
# arithmetic is the same or a little more: its gain is the roofline's again, fewer bytes. Write out attention only where
# you need to see the weights. torch has no counter for the peak of memory on a CPU; what is kept for backward can be
# counted exactly.

# %% [markdown]
# ## [GPU] What if the launches are the limit?
#
# On a GPU each kernel is launched from the CPU, some microseconds each. Where kernels are shorter than that, the GPU
# waits for Python. A *CUDA graph* records the launches once and replays all of them with one call, on the same memory. So
# a new input is copied into the buffer of the old one.


# %%
def replayed():
    layers = [torch.nn.Linear(64, 64, device="cuda") for _ in range(40)]
    net, x = (
        torch.nn.Sequential(*layers).requires_grad_(False),
        torch.rand(8, 64, device="cuda"),
    )
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # warm up before the recording
            net(x)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        answer = net(x)
    race = compare(net, lambda _: (graph.replay(), answer)[1], x, same=1e-6, budget=2)
    print(race)
    return race.at_least(2)


claim_on("CUDA", "40 small layers replayed are at least twice as fast as launched", replayed)

# %% [markdown]
# `torch.compile(mode="reduce-overhead")` records such graphs for you.

# %% [markdown]
# ## Which part first?
#
# A part that takes the share p of a step and gets s times faster makes the step 1 / (1 - p + p / s) times faster. This is
# *Amdahl's law*. Even with a part gone altogether no more than 1 / (1 - p) is left to win:

# %%
for share in (0.1, 0.5, 0.9):
    print(
        f"{share:.0%} of a step: {amdahl(share):.2f}x at most, {amdahl(share, 2):.2f}x at half"
    )

# %% [markdown]
# Here is a step in three parts. Each image is shifted by up to a row and a column, one after the other; a small network
# gives the loss and its gradients; the optimiser changes the weights. Somebody wants to write a faster optimiser for
# it. Guess the three shares first.

# %%
torch.manual_seed(0)
images, labels = torch.rand(256, 8, 8), torch.randint(10, (256,))
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.Linear(32, 10))
optimiser = torch.optim.SGD(net.parameters(), lr=0.01)


# %%
def shift(batch):
    places = torch.randint(-1, 2, (len(batch), 2)).tolist()
    return torch.stack([image.roll(place, (0, 1)) for image, place in zip(batch, places)])


def learn(batch):
    loss = cross_entropy(net(batch), labels)
    loss.backward()
    return loss


def update():
    optimiser.step()
    optimiser.zero_grad()


# %%
parts = {
    "shift": bench(lambda: shift(images)).median,
    "learn": bench(lambda: learn(images)).median,
    "update": bench(update).median,
}
rank(parts)

# %% [markdown]
# The bound is known before a line is written. A perfect optimiser, one that takes no time at all, gains a few percent;
# a perfect shift makes the step several times faster. Do not believe it, check it: leave one part out altogether, which
# is faster than any rewriting of it, and race the rest against the whole step. The steps differ on purpose, so there is
# no equal answer to ask for: all that *same answer* compares here is the shape of the loss.


# %%
def step(shifts=True, updates=True):
    batch = shift(images) if shifts else images
    loss = learn(batch)
    if updates:
        update()
    return loss.shape


# %%
without_update = compare(partial(step, updates=False), step, budget=2)
without_shift = compare(step, partial(step, shifts=False), budget=2)
print(f"the whole step against the step without the update: {without_update}")
print(f"without the shift: {without_shift}")

# %%
claim(
    "without the update the step keeps more than half of its time",
    without_update.at_least(0.5),
)
claim("without the shift the step is at least twice as fast", without_shift.at_least(2))

# %% [markdown]
# Rank the parts by their bound before you touch any. Then do it again: once the largest part is mended, another one is
# the largest.

# %% [markdown]
# ## How many threads?
#
# torch cuts one large operation into pieces for several *intra-op threads*, as many as there are cores unless told
# otherwise. NumPy's products have threads of their own, in a library of their own. Does setting the one set the other?
# (Some builds of NumPy, conda's and Apple's, hide their library: then the list below is empty and nobody can tell.)


# %%
def blas_threads():
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [pool["num_threads"] for pool in pools if "numpy" in pool["filepath"].lower()]


np.ones((2, 2)) @ np.ones((2, 2))
before, torch_before = blas_threads(), torch.get_num_threads()

# %%
torch.set_num_threads(torch_before + 2)
after, torch_after = blas_threads(), torch.get_num_threads()
torch.set_num_threads(torch_before)
before, after

# %%
only_torch = torch_after == torch_before + 2 and before == after
claim(
    "torch.set_num_threads gives torch two more threads and NumPy's library none",
    Verdict(
        only_torch if before else None, f"torch has {torch_after}, NumPy {after or 'unknown'}"
    ),
)

# %% [markdown]
# **How many are enough?** Time a large product and a small one with one thread, with one for each core, and with four for
# each core. The last is called *oversubscribed*: more threads want to run than can. It happens when each of several
# workers brings its own threads.


# %%
def with_threads(count, side):
    matrix = torch.rand(side, side)
    alone = matrix @ matrix
    torch.set_num_threads(count)
    try:
        assert torch.allclose(matrix @ matrix, alone, rtol=1e-4)  # equal first
        return bench(torch.mm, matrix, matrix, seconds=0.1).median
    finally:
        torch.set_num_threads(1)


# %%
for count in dict.fromkeys([1, machine.usable_cores(), 4 * machine.usable_cores()]):
    large, small = with_threads(count, 512), with_threads(count, 64)
    print(f"{count:>3} threads: {duration(large)} for 512, {duration(small)} for 64")

# %% [markdown]
# No claim here: your neighbours decide. On idle cores the large product gains nearly what the cores give, and the small
# one nothing. With more threads than cores, or beside busy programs, the pieces wait for the one that got no core.
#
# So count: processes times threads, against the cores you may use. A `DataLoader` gives each of its workers one torch
# thread. A worker that computes with NumPy brings as many threads as the library likes, unless `OMP_NUM_THREADS` says
# otherwise.
#
# And another number of threads can change the last digits of a sum, because its pieces are added up in another order:
# [chapter 08](08_verification.ipynb) shows it.

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | the same time for 1 sample and for 16 | the fixed cost of a call | larger batches, up to the bend |
# | a larger batch, no more samples a second | the floor is reached | stop there; look at the roofs |
# | few operations a byte | memory is the limit | fuse, compile, 16 bits, fewer temporaries |
# | over a hundred operations a byte | arithmetic is the limit | a lower precision that the hardware supports, fewer operations |
# | a slow step once in a while, then fast again | a recompilation for a new shape | `dynamic=True`, padding to a few lengths |
# | compiled, and no faster | graph breaks, or one large product | `fullgraph=True`; leave it eager |
# | a GPU that waits between very short kernels | launches are the limit | a CUDA graph, `mode="reduce-overhead"` |
# | memory grows with the square of the length | weights of attention are kept | `scaled_dot_product_attention` |
# | hours spent on a part, the step hardly faster | a small share | rank by Amdahl's bound first |
# | more workers, slower steps | more threads than cores | one thread for each worker |

# %% [markdown]
# ## Exercises
#
# 1. Give the network of the first section hidden layers of 512. Where does the line bend now, and why earlier?
# 2. What is the smallest square product whose intensity lies right of your ridge? Place it. Does it reach the flat roof?
# 3. Fuse the chain by hand: take blocks of 2^15 numbers through all five operators. From which length of x on does it pay?
# 4. Put a `print` in the middle of `chain` and count the graphs. Then set `fullgraph=True`.
# 5. Count what attention keeps with `is_causal=True`, and with a mask of your own.
# 6. In `step`, replace the loop of `shift` by one indexing operation for the whole batch. Compute the bound first, then race it.
#
# Problem set 05 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=05`
# puts it into `build/release`. Exercise 1 comes back there as problem 3, exercise 2 as problem 1, exercise 3
# as problem 2.

# %% [markdown]
# ## Sources
#
# - G. M. Amdahl, *Validity of the single processor approach to achieving large scale computing capabilities*, 1967.
# - S. Williams, A. Waterman and D. Patterson, *Roofline: an insightful visual performance model for multicore
#   architectures*, 2009.
# - J. D. McCalpin, *Memory bandwidth and machine balance in current high performance computers*, 1995: STREAM's triad.
# - J. Ansel and others, *PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
#   Compilation*, 2024.
# - T. Dao and others, *FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness*, 2022.
# - PyTorch contributors, *torch.compile*, *CUDA graphs* and *Autograd: saved tensors hooks*, 2026.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
