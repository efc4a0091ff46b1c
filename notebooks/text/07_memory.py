# %% [markdown]
# # Memory
#
# **Where did the memory go?**
#
# After this chapter you can count what a training step keeps, before you run it; you know what checkpointing trades; and
# you can say why a GPU reports far more memory reserved than your tensors need, and what steadies it. Read it when
# memory runs out, or before a model or a batch gets larger.
#
# *25 minutes to read, 15 seconds to run. No GPU is needed: bytes are counted on the CPU, and the GPU's allocator is a
# model that follows PyTorch's rules, with exact counts.*

# %%
import random
from itertools import accumulate
from tempfile import mkdtemp
from time import perf_counter

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint_sequential

from steptime import PairedRatios, claim, claim_on, claims
from steptime.allocations import peak, record, replay
from steptime.allocator import MIB, Allocator, OutOfMemory
from steptime.style import COLOURS, Picture, figure

torch.set_num_threads(1)

# %% [markdown]
# ## What does a step keep?
#
# Four things. The *parameters*. A *gradient* for each of them. What the *optimiser* remembers from step to step, its
# *state*. And the *activations*: results of the forward pass that the backward pass needs again, kept from the one to the
# other. The first three depend on the network alone; the last on the batch too. Take a network of three layers and 512
# samples.

# %%
torch.manual_seed(0)
layers = [
    torch.nn.Linear(64, 512),
    torch.nn.GELU(),
    torch.nn.Linear(512, 512),
    torch.nn.GELU(),
]
net = torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))

# %%
x, labels = torch.rand(512, 64), torch.randint(10, (512,))
parameters = sum(parameter.nbytes for parameter in net.parameters())
f"{parameters:,} bytes of parameters"

# %% [markdown]
# Count the rest on paper first. Gradients: as many bytes as the parameters. Adam keeps two running means for each number,
# of its gradient and of the gradient's square: twice the parameters. And the activations? To give a gradient, a linear
# layer needs its input, and GELU needs its input. So each of the four results of 512 x 512 numbers between the layers is
# kept once.
#
# Check that. A hook sees each tensor that torch saves; parameters and x are there anyway and do not count.


# %%
def saved(forward):
    """Bytes kept for backward, less those of the parameters, x and the labels."""
    pieces = {}

    def note(tensor):
        pieces[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        answer = forward()
    for tensor in (*net.parameters(), x, labels):
        pieces.pop(tensor.untyped_storage()._cdata, None)
    return sum(pieces.values()), answer


# %%
activations, answer = saved(lambda: net(x))
by_hand = 4 * 512 * 512 * 4
activations, by_hand

# %%
claim(
    "the network keeps four results of 512 x 512 numbers of 4 bytes, and nothing else",
    activations == by_hand,
)

# %% [markdown]
# With more samples they grow in proportion; a batch of 1,024 keeps twice as much.
#
# **Counted, then measured.** A count is a theory. `record` runs a function under the profiler and lists each piece of
# memory that it asked for, as a number above 0, and gave back, below. The sum is what it left behind. After a forward
# pass: the activations and the answer, to the byte?

# %%
held = []
events = record(lambda: held.append(net(x)))
left = sum(size for _, size in events)
left, activations + held[0].nbytes

# %%
claim(
    "a forward pass leaves what was counted, to the byte", left == activations + answer.nbytes
)

# %% [markdown]
# Now a whole step with Adam, the first one. It makes gradients that were not there, and Adam's state. All else should be
# gone when it is over. Predict the bytes that it leaves behind, from the 1,204,264 of the parameters.


# %%
def step():
    cross_entropy(net(x), labels).backward()
    optimiser.step()


def remembered():
    return sum(
        tensor.nbytes for state in optimiser.state.values() for tensor in state.values()
    )


# %%
optimiser = torch.optim.Adam(net.parameters())
events = record(step)
gradients = sum(p.grad.nbytes for p in net.parameters() if p.grad is not None)
left = sum(size for _, size in events)
print(f"{left:,} left; gradients {gradients:,}, Adam {remembered():,}")

# %%
claim("gradients take as much as the parameters", gradients == parameters)

# %%
counters = 4 * len(list(net.parameters()))  # Adam also counts its steps, once for each tensor
claim("Adam remembers twice the parameters", remembered() == 2 * parameters + counters)
claim(
    "a first step leaves gradients and Adam's state, to the byte",
    left == gradients + remembered(),
)

# %% [markdown]
# So Adam trains in four times the memory of the parameters, before one activation is kept. A network of a billion
# parameters in float32 wants 16 GB for that; for using it, 4 suffice. Plain SGD has no state and trains in twice the
# parameters.
#
# Draw a second step: bytes in use beyond those at its start, request by request. The gradients were given back first.
# Where is the peak: in the forward pass, in the backward pass, in the optimiser?

# %%
optimiser.zero_grad()
use = list(accumulate(size for _, size in record(step)))

# %%
canvas, axes = figure()
axes.plot([size / MIB for size in use], color=COLOURS["estimate"], drawstyle="steps-post")
axes.axhline(activations / MIB, color=COLOURS["threshold"], linestyle="--", linewidth=1)
axes.set(xlabel="requests and frees of one step", ylabel="MiB above the start")
alt = f"Memory climbs to {max(use) / MIB:.1f} MiB and falls to {use[-1] / MIB:.1f} MiB."
Picture(
    canvas,
    alt,
    "Up through the forward pass; backward frees, and adds gradients. Dashed: activations.",
)

# %% [markdown]
# The peak comes where backward has begun: nearly all activations are still there, and the first gradients are too. This
# is the moment at which a step runs out of memory, and the line of Python it blames is `backward`. The lower hill after
# it is Adam, which needs room for its arithmetic on the largest layer. With a small batch that hill is the higher one.
# (On a GPU Adam takes all layers at once, unless told `foreach=False`, and needs that room for all of them.)

# %% [markdown]
# ## What does checkpointing trade?
#
# Activations need not be kept: they can be computed again. *Checkpointing* cuts a network into segments, keeps only the
# input of each, and runs a segment's forward pass a second time when backward comes to it. Memory for arithmetic.
#
# Sixteen equal layers, in four segments. How much lower is the peak, and how many layers run in all?

# %%
torch.manual_seed(0)
linear = [torch.nn.Linear(256, 256) for _ in range(16)]
net = torch.nn.Sequential(*(torch.nn.Sequential(layer, torch.nn.GELU()) for layer in linear))
x, ran = torch.rand(512, 256), []
for layer in linear:
    layer.register_forward_hook(lambda layer, *_: ran.append(layer))


# %%
def kept(x):
    net.zero_grad()
    net(x).square().mean().backward()
    return [parameter.grad for parameter in net.parameters()]


def recomputed(x):
    net.zero_grad()
    checkpoint_sequential(net, 4, x, use_reentrant=False).square().mean().backward()
    return [parameter.grad for parameter in net.parameters()]


# %% [markdown]
# Equal first. The same operators run on the same numbers, only twice, so ask for the same bits. (With dropout it matters
# that the second run draws the same random numbers; `checkpoint` puts the generator back for that.)

# %%
gradients = [gradient.clone() for gradient in kept(x)]
same = all(map(torch.equal, gradients, recomputed(x)))
claim("checkpointing gives the same gradients, bit for bit", same)


# %%
def counted(function):
    net.zero_grad()
    ran.clear()
    return peak(record(function, x)), len(ran)


# %%
(peak_kept, ran_kept), (peak_again, ran_again) = counted(kept), counted(recomputed)
print(f"kept: {peak_kept / MIB:.1f} MiB, {ran_kept} layers run")
print(f"computed again: {peak_again / MIB:.1f} MiB, {ran_again} layers run")

# %%
claim("with checkpoints the peak is less than two thirds", peak_again < 2 / 3 * peak_kept)
claim(
    "and 28 layers run for 16, three of four segments twice", (ran_kept, ran_again) == (16, 28)
)

# %% [markdown]
# At the peak there are the inputs of the segments, and the activations of one segment only. The last segment is not
# computed again, since backward begins with it.
#
# What does it cost in time? The backward pass of a product does two products, so it is worth about two forward passes,
# and a step three. Three quarters of a forward pass come on top: a quarter more, in theory. That is far below the
# factor of two from which this book claims a time. Look at it all the same: both in turns, and how many times longer
# the recomputing step takes.


# %%
def taken(function):
    start = perf_counter()
    function(x)
    return perf_counter() - start


PairedRatios((taken(recomputed), taken(kept)) for _ in range(24))

# %% [markdown]
# Some more time for a much lower peak: worth it if the memory buys a batch or a model that you need, and not else. With n
# layers in sqrt(n) segments, memory grows like sqrt(n) instead of n (Chen and others, 2016). Parameters, gradients and
# Adam's state are not touched by it.

# %% [markdown]
# ## Why is nothing given back?
#
# On a GPU memory is asked for with `cudaMalloc`, which is slow, and given back with `cudaFree`, which waits until all
# kernels are done. A step makes hundreds of tensors. So PyTorch keeps what you free and hands it out again: a *caching
# allocator*, which stands between your tensors and the device.
#
# `Allocator` is a model of it. It has no memory, only the books: it follows the same rules, so its counts are exact, and
# it runs anywhere. Ask for 50 MiB a hundred times, and free it each time. How many calls does the device see?

# %%
allocator = Allocator()
for _ in range(100):
    block = allocator.malloc(50 * MIB)
    allocator.free(block)
allocator

# %%
claim(
    "a hundred requests of one size are one call to the device", allocator.device_mallocs == 1
)

# %% [markdown]
# Nothing is *allocated* any more, and 50 MiB stay *reserved*. `nvidia-smi` shows the second figure, and people take it
# for a leak. On a GPU `torch.cuda.memory_allocated()` and `torch.cuda.memory_reserved()` tell the two apart.
#
# The device is asked for whole *segments*, and blocks are cut from them. How large is the segment for a request of 1,000
# bytes, of 3 MiB, and of 15 MiB?

# %%
for size in (1_000, 3 * MIB, 15 * MIB):
    allocator = Allocator()
    block = allocator.malloc(size)
    print(
        f"{size:>10,} bytes: a block of {block.size:,} in {allocator.reserved / MIB:.0f} MiB"
    )

# %% [markdown]
# | request | pool | segment |
# | --- | --- | --- |
# | up to 1 MiB, rounded up to 512 bytes | small | 2 MiB |
# | below 10 MiB | large | 20 MiB |
# | from 10 MiB on | large | the request, rounded up to 2 MiB |
#
# A request gets the smallest free block that is large enough. What is left over of it is cut off and can serve another
# request; a rest of 1 MiB or less in the large pool stays with the block. Freed neighbours in a segment merge again.
#
# But only a whole segment can be given back to the device: while any piece is in use, it stays. Here is a device of 100
# MiB. 90 are asked for and freed; then 30 are asked for, which are cut from the 90. Can it give another 70?

# %%
allocator = Allocator(capacity=100 * MIB)
allocator.free(allocator.malloc(90 * MIB))
allocator.malloc(30 * MIB)
try:
    allocator.malloc(70 * MIB)
except OutOfMemory as error:
    print(error)

# %%
free = allocator.capacity - allocator.allocated
claim(
    "a request of 70 MiB fails on a device with 70 MiB free",
    free == 70 * MIB and allocator.retries == 1 and allocator.allocated == 30 * MIB,
)

# %% [markdown]
# 60 MiB are free inside a segment and 10 outside, and the two do not join. This is *fragmentation*: enough in sum, too
# little in one piece. PyTorch's own message says it with the words "reserved by PyTorch but unallocated".

# %% [markdown]
# ## What do varying lengths cost?
#
# A layer of a transformer, texts of different lengths: most are short, a few are long, as texts are. How do their memory
# requests get on with a cache? First record what one step asks for, at each length.

# %%
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
optimiser = torch.optim.Adam(layer.parameters())


def step(length):
    layer(torch.rand(1, length, 128)).square().mean().backward()
    optimiser.step()
    optimiser.zero_grad()


# %%
step(32)  # Adam sets up its state
steps = {length: record(step, length) for length in range(32, 513, 32)}
print(f"{len(steps[512])} requests and frees, {peak(steps[512]) / MIB:.1f} MiB at the peak")

# %% [markdown]
# Now replay forty steps on the model, every size 64 times as large, as for a larger model and batch. Parameters and
# Adam's state are asked for first and stay. First at one length, 512: each text is padded to the longest. When will the
# device be asked?


# %%
def train(lengths, **options):
    allocator = Allocator(**options)
    for parameter in layer.parameters():
        for _ in ("parameter", "mean", "mean square"):
            allocator.malloc(64 * parameter.nbytes)
    for length in lengths:
        larger = [(address, 64 * size) for address, size in steps[length]]
        replay(larger, allocator.malloc, allocator.free)
    return allocator


def needed(allocator):
    return max(allocated for allocated, _ in allocator.curve)


# %%
fixed, first = train([512] * 40), train([512])
fixed

# %%
claim(
    "at one length the first step makes all calls to the device",
    fixed.device_mallocs == first.device_mallocs,
)

# %% [markdown]
# From the second step on the cache serves everything: the same requests come in the same order, and each finds the block
# that it had before.
#
# Now the lengths as they come. No step needs more than before, most need far less. Guess: how many calls, and how many
# MiB reserved?

# %%
drawn = random.Random(0)
natural = [32 * round(drawn.lognormvariate(5, 0.6) / 32) for _ in range(40)]
lengths = [min(max(length, 32), 512) for length in natural]
sorted(lengths)[::8], max(lengths)

# %%
varying = train(lengths)
varying

# %%
varying.plot()

# %%
print(
    f"needed at most: {needed(fixed) / MIB:.0f} MiB fixed, {needed(varying) / MIB:.0f} varying"
)
claim("varying lengths need no more at once than one length", needed(varying) <= needed(fixed))

# %%
claim(
    "and yet they reserve at least 1.3 times as much",
    varying.reserved >= 1.3 * fixed.reserved,
)
claim(
    "and make at least 1.3 times the calls to the device",
    varying.device_mallocs >= 1.3 * fixed.device_mallocs,
)

# %% [markdown]
# **Why?** A longer text than any before finds no block that is large enough: what was cached for short ones is too small,
# or was cut into pieces of which one is in use. So the device is asked again, and what it gave before stays reserved for
# texts that are short. The line of *reserved* climbs in stairs, each a new longest or an unlucky order.
#
# **What steadies it?** Pad to a few lengths, *buckets*: here to multiples of 128. Or let the longest text come first,
# once, so that all later ones fit into its blocks. Or let a segment grow where it ends, so that nothing large is ever too
# small: `PYTORCH_ALLOC_CONF=expandable_segments:True`, on Linux. Rank the three before you look.

# %%
buckets = train([128 * -(-length // 128) for length in lengths])
longest_first = train([512, *lengths])
expandable = train(lengths, expandable=True)
for name in ("fixed", "varying", "buckets", "longest_first", "expandable"):
    print(f"{name:<14}{globals()[name]}")

# %%
claim(
    "buckets make fewer calls and reserve less than lengths as they come",
    buckets.device_mallocs < varying.device_mallocs and buckets.reserved < varying.reserved,
)

# %%
claim(
    "with the longest first, the same lengths reserve less than 1.2 times the fixed length",
    longest_first.reserved < 1.2 * fixed.reserved,
)

# %%
claim(
    "expandable segments reserve less than 1.25 times what is needed",
    expandable.reserved < 1.25 * needed(expandable),
)

# %% [markdown]
# Buckets help, and less than one hopes: they are fewer lengths, and still arrive in any order. Padding also costs
# arithmetic on nothing. One step on the longest possible text, before the first, is nearly free, and it shows at once
# whether the memory is enough. Growing segments come nearest to what is needed, and cost one setting. Buffers that you
# make once and reuse do the same by hand.
#
# **The worst order** is the one of a curriculum that begins with short texts. How bad is it?

# %%
ascending = train(sorted(lengths))
ascending

# %%
claim(
    "sorted upwards, the same lengths reserve over 1.6 times what the fixed length does",
    ascending.reserved > 1.6 * fixed.reserved,
)

# %% [markdown]
# ## What happens when the device is full?
#
# So far the device had no end. Now it has 200 MiB. To see the rule alone: each request is 2 MiB larger than the last, as
# if texts grew, and each is freed before the next. No more than 68 MiB are ever in use. What will the line of *reserved*
# look like?


# %%
def growing(**options):
    allocator = Allocator(capacity=200 * MIB, **options)
    for size in range(12, 70, 2):
        block = allocator.malloc(size * MIB)
        allocator.free(block)
    return allocator


full = growing()
full.plot()

# %% [markdown]
# It swings. No cached block is large enough, so each request asks the device, until it has no more. That `cudaMalloc`
# fails, all free segments are given back, the request is tried again, and the stairs begin anew. On a GPU each such fall
# waits for all running kernels: a slow step, for no reason that the code shows.
# `torch.cuda.memory_stats()["num_alloc_retries"]` counts them.

# %%
print(full, f"{full.retries} retries")
claim(
    "a full device takes back what is cached and is asked again",
    full.retries > 0 and full.device_frees > full.retries,
)

# %% [markdown]
# Two ways out: collect early, or one segment that grows. The setting for the first is `garbage_collection_threshold:0.6`,
# and it acts only once `torch.cuda.set_per_process_memory_fraction` has told the process its share of the device. Which
# of the two makes fewer calls?

# %%
collected, grown = growing(collect_above=0.6), growing(expandable=True)
print(f"collected  {collected}, {collected.retries} retries")
print(f"grown      {grown}, {grown.retries} retries")

# %%
claim(
    "collecting early, no request fails first", collected.retries == 0 < collected.device_frees
)
claim(
    "a growing segment needs a quarter of the calls",
    4 * grown.device_mallocs < full.device_mallocs,
)

# %% [markdown]
# Collecting early gives old segments back before a request fails. It makes as many calls, but a few at a time, and
# without the stop for all unfinished work that a failed request begins with. (A `cudaFree` alone can still wait.) A
# segment that grows asks only for what is missing.
#
# **And `empty_cache()`?** People call it in the loop to be safe. Thirty requests of one size, the cache emptied after
# each:

# %%
emptied = Allocator()
for _ in range(30):
    emptied.free(emptied.malloc(50 * MIB))
    emptied.empty_cache()
emptied

# %%
claim("emptying the cache asks the device for every request", emptied.device_mallocs == 30)

# %% [markdown]
# The cache would have served 29 of the 30. Call it once, between two phases of a program, if at all.

# %% [markdown]
# ## [GPU] Does the model agree with the device?
#
# The model follows rules that were read in PyTorch's source; here it is held against the real thing. The same requests go
# to the model and to CUDA's own allocator, and then `torch.cuda.memory_stats` tells the calls and the bytes. Run it in a
# kernel that has not used the GPU yet, or blocks that are there already spoil the count. It was not run on the machine
# that stored this page.


# %%
def requests():
    """Addresses and sizes of 400 requests, small and large, half of them freed on the way."""
    drawn, events, held = random.Random(0), [], {}
    for address in range(400):
        held[address] = int(2 ** drawn.uniform(8, 26))
        events.append((address, held[address]))
        if len(held) > 20:
            freed = drawn.choice(list(held))
            events.append((freed, -held.pop(freed)))
    return events


# %%
def model_agrees_with_cuda():
    torch.cuda.init()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats()
    give, take = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    held = replay(requests(), give, take)
    after, model = torch.cuda.memory_stats(), Allocator()
    replay(requests(), model.malloc, model.free)
    for address in held.values():
        take(address)
    names = "num_device_alloc", "reserved_bytes.all.current", "allocated_bytes.all.current"
    seen = [after.get(name, 0) - before.get(name, 0) for name in names]
    print(f"device {seen}, model {model}")
    return seen == [model.device_mallocs, model.reserved, model.allocated]


claim_on("CUDA", "the model and the device agree in calls and bytes", model_agrees_with_cuda)

# %% [markdown]
# **A snapshot** answers the question *whose* memory it is: every request, with the lines of Python that made it. Open the
# file at pytorch.org/memory_viz, which draws it in your browser and sends it nowhere. (`export_memory_timeline` of older
# texts is deprecated.)


# %%
def snapshot():
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    model = torch.nn.Linear(4_096, 4_096, device="cuda")
    for length in (256, 512, 1_024):
        model(torch.rand(length, 4_096, device="cuda")).sum().backward()
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    file = mkdtemp() + "/snapshot.pickle"
    torch.cuda.memory._dump_snapshot(file)
    print(f"written to {file}")
    torch.cuda.memory._record_memory_history(enabled=None)
    return len(entries) > 0


claim_on("CUDA", "the snapshot holds the requests of three steps", snapshot)

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | out of memory in the first backward | activations | a smaller batch, checkpointing, 16 bits |
# | out of memory in the first `optimizer.step()` | Adam's state, twice the parameters | another optimiser, sharded state |
# | out of memory after hours | a longer text than ever, or fragmentation | the longest first, expandable segments |
# | reserved far above allocated | cached blocks; no leak | nothing, or steadier lengths |
# | allocated grows from step to step | something holds tensors: a list of losses, say | `.detach()`, `.item()` |
# | reserved climbs in stairs | lengths vary | buckets, the longest first |
# | reserved swings, a slow step at each fall | failed requests, the cache is thrown away | expandable segments, a collection threshold |
# | `empty_cache()` in the loop | calls to the device for every request | take it out |

# %% [markdown]
# ## Exercises
#
# 1. Count the activations of the first network at a batch of 1,024, by hand, then with `saved`. What changes in the rest?
# 2. Replace Adam by SGD, then by SGD with momentum. Predict what a first step leaves behind, in bytes.
# 3. Try 2, 8 and 16 segments of the sixteen layers. Which has the lowest peak? Why not the one with the most segments?
# 4. Give `train` a `max_split` of 32 MiB. What does it do to reserved memory here, and by which rule?
# 5. How small may the `capacity` of varying lengths be before a step fails? And with `expandable=True`?
# 6. Find a sequence of five requests that wastes half of what is reserved.
#
# Problem set 07 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=07`
# puts it into `build/release`. Exercise 1 comes back there as problem 2, exercise 3 as problem 3, exercise 5
# as problem 4.

# %% [markdown]
# ## Sources
#
# - T. Chen, B. Xu, C. Zhang and C. Guestrin, *Training Deep Nets with Sublinear Memory Cost*, 2016.
# - D. P. Kingma and J. Ba, *Adam: A Method for Stochastic Optimization*, 2015.
# - PyTorch contributors, *CUDA semantics: memory management* and *Understanding CUDA Memory Usage*, 2026; the source of
#   the allocator, `c10/core/CachingDeviceAllocator.h`, 2026.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
