# %% [markdown]
# # Timelines
#
# **When does it happen, and why is there white space?**
#
# A table of operators says how much. A timeline says when, on which thread, and beside what. After this chapter you can
# read one: your own, and any file that somebody sends you. You know six patterns and what each usually means, and you have
# mended five of them once. Read it if you know which operator is slow and not why, or if a device idles.
#
# *25 minutes to read, 25 seconds to run.*
#
# A GPU is not needed. The queue of chapter 01 plays its part: work runs on a thread of its own while your code goes on. Its
# `Recorder` writes what happened in torch.profiler's format, so that the same reader reads both.

# %%
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, schedule

from steptime import PairedRatios, Verdict, annotate, claim, claim_on, claims, compare, trace
from steptime.recorder import Recorder
from steptime.stream import Stream
from steptime.style import COLOURS, Picture, figure

torch.set_num_threads(1)


def read_back(recording):
    """The trace of a recording, by way of the file that it writes."""
    with TemporaryDirectory() as folder:
        recording.export_chrome_trace(str(Path(folder, "trace.json")))
        return trace.read(Path(folder, "trace.json"))


# %% [markdown]
# ## What does a timeline show?
#
# Begin with a run of torch itself: two layers, three recorded steps. Two labels are our own, the rest is torch's.
# `trace.read` takes any file that torch.profiler wrote and needs no torch to do so; its answers are attributes, its
# picture is `plot`.

# %%
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
images, labels = torch.randn(512, 64), torch.randint(10, (512,))


# %%
def train_step():
    optimiser.zero_grad()
    with annotate("forward"):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
    with annotate("backward"):
        loss.backward()
    optimiser.step()


# %%
plan = schedule(wait=1, warmup=1, active=3, repeat=1)
with profile(activities=[ProfilerActivity.CPU], schedule=plan) as recording:
    for _ in range(5):
        train_step()
        recording.step()

# %%
mine = read_back(recording)

# %% [markdown]
# Before you look: forward and backward, which takes longer?

# %%
mine.plot(3)

# %% [markdown]
# Read it in this order:
#
# - **Lanes.** Each group of rows is a thread. A GPU adds a lane for each of its streams.
# - **Width is duration.** The wide bars are where the time is.
# - **Nesting is the call tree.** What lies under a bar was called by it.
# - **White space is waiting**, or work that nobody recorded: plain Python, most of the time.
#
# Backward is the longer: a layer has one product forward, and two backward (the first layer one). The two labels hold their
# operators, and the operators hold others. In the backward pass a bar like `AddmmBackward0` is named after the forward
# operator that it undoes.
#
# The tree is what makes self times: a bar less the bars under it. If that is right, then the self times add up to the
# steps, and nothing is counted twice.

# %%
print("          self    total")
own = sum(row.self_us for row in mine.operators)
steps = sum(step.ms * 1e3 for step in mine.steps)
for row in mine.operators[:5]:
    print(f"{row.calls:>3} calls {row.self_us:8.1f} {row.total_us:8.1f} µs  {row.name}")
print(f"all self times {own:,.0f} µs, the steps {steps:,.0f} µs")

# %% [markdown]
# **On which thread does backward run?** On a GPU run it has a thread of its own, and you look for it in another lane: a
# long wait there is a finding. On a CPU, the thread that calls it does the work.


# %%
def threads(beginning):
    """The lanes in which there is work whose name begins like that."""
    is_meant = [mine.names[name].startswith(beginning) for name in mine.spans.name]
    return {mine.lanes[lane] for lane in mine.spans.lane[is_meant]}


threads("aten::addmm"), threads("autograd::engine")

# %%
numbers, share = [step.number for step in mine.steps], own / steps
claim("the file holds steps 2, 3 and 4", numbers == [2, 3, 4])
adds_up = Verdict(abs(share - 1) < 0.02, f"{share:.2%} of the steps")
claim("the self times add up to the steps within 2 %", adds_up)

# %%
same_thread = threads("aten::addmm") == threads("autograd::engine")
claim("on the CPU, backward runs on the thread of forward", same_thread)

# %% [markdown]
# ## How does a launch find its work?
#
# Launch twenty products of two matrices on the queue and record it. The launches will stand in your thread's lane, the
# products in the stream's.

# %%
a, into = torch.rand(640, 640), torch.empty(640, 640)


def product():
    torch.mm(a, a, out=into)


# %%
with Stream() as stream, Recorder() as recorder:
    for _ in range(20):
        stream.launch(product)
    stream.synchronize()
    recorder.step()
seen = read_back(recorder)

# %%
seen.plot()

# %% [markdown]
# The upper lane is your thread: a stroke of launches, then one long wait. The lower lane is the device: one product after
# the other, without a gap. The picture calls it GPU 0, as it would a real one; here it is the queue's thread. Launches
# are so short that they look like one stroke. How does one know which of them made which product? Each has a number, the
# *correlation*, and its work carries the same. (One launch may have many pieces of work: a CUDA graph does.)
#
# How long does the first product wait after its launch, and how long the last one?


# %%
def of(name):
    """The spans of that name, in the order they began."""
    return seen.spans[[seen.names[number] == name for number in seen.spans.name]]


launches, works = of("streamLaunch"), of("product")

# %%
started = dict(zip(works.correlation, works.start))
waits = [
    started[number] - start for number, start in zip(launches.correlation, launches.start)
]
first, last = float(waits[0]) / 1e3, float(waits[-1]) / 1e3
print(f"from launch to start: the first {first:.3f} ms, the last {last:.1f} ms")

# %%
joined = seen.launch_latency.matched == 20 and seen.kernels_per_launch == 1
queued = Verdict(last >= 5 * first, f"{first:.3f} ms and {last:.1f} ms")
claim("each of twenty pieces of work is joined to a launch of its own", joined)
claim("the last waits at least 5 times as long as the first", queued)

# %% [markdown]
# The first wait is that of an idle thread being woken, the last one that of nineteen products before it. A long wait from
# launch to start is good news: the queue is full, so the device never has to wait for you. Where launch and start are
# close together all the time, the device is faster than your Python.

# %% [markdown]
# ## What does a label measure?
#
# Put a label around the launches of a step. What will it time: the launching or the work?


# %%
a, into = torch.rand(400, 400), torch.empty(400, 400)


def product():
    torch.mm(a, a, out=into)


# %%
with Stream() as stream, Recorder() as recorder:
    for _ in range(20):
        with annotate("forward"):
            for _ in range(4):
                stream.launch(product)
        stream.synchronize()

# %%
seen = read_back(recorder)

# %% [markdown]
# For each label, its own width; and from the start of the first product that it launched to the end of the last:

# %%
is_label, is_work = (
    [seen.names[number] == name for number in seen.spans.name]
    for name in ("forward", "product")
)
labels, works = seen.spans[is_label].duration, seen.spans[is_work]
projected = works.end[3::4] - works.start[::4]

# %%
ratios = PairedRatios(zip(projected, labels))
print(f"label {median(labels):.0f} µs, projected {median(projected):.0f} µs")
ratios

# %%
a_fifth = ratios.at_least(5)
claim("the label is at most a fifth as wide as the work that it launched", a_fifth)

# %% [markdown]
# Some fifty times on one machine: the label is no measure of the work. A label times the enqueueing. Nsight Systems
# therefore draws each range twice: where your thread was in it, and *projected* onto the GPU, from the first to the last
# piece of work launched in it. The second is the one you want.
#
# `annotate` makes torch's labels and NVTX ranges with one line. Chapter 02 measured what it costs when nobody records.

# %% [markdown]
# ## Why does the device wait for data?
#
# A batch lies on a slow disk: it takes 16 ms to come. (It sleeps: a disk that answers keeps no processor busy.) Then the
# device has two or three times as long to work on it. As people write it first:

# %%
a, into = torch.rand(1_200, 1_200), torch.empty(1_200, 1_200)


@annotate("load")
def load():
    sleep(0.016)


def train_on_batch():
    torch.mm(a, a, out=into)


# %%
with Stream() as stream, Recorder() as recorder:
    for _ in range(40):
        load()
        stream.launch(train_on_batch)
        stream.synchronize()
        recorder.step()

# %%
one_by_one = read_back(recorder)

# %%
one_by_one.plot(4, 6)

# %% [markdown]
# The pale red stretches are gaps in the device's lane. The orange bar is your thread waiting for the device, and the gap is
# the device waiting for your thread: they take turns, so nobody works all the time. Look up from a gap to see what your
# thread did meanwhile. The reader does the same for the longest gaps:

# %%
inner = [gap for gap in one_by_one.gaps if not gap.at_edge]
for gap in inner[:3]:
    print(f"{gap.ms:.1f} ms, the CPU was in: {gap.cpu}")

# %% [markdown]
# **The mend**: load the next batch while the device works on this one. Launch first, then load, then wait. The order of
# three lines changes, and one batch is loaded before the first step. How much of the idle time will be left?

# %%
with Stream() as stream, Recorder() as recorder:
    load()
    recorder.step()
    for _ in range(40):
        stream.launch(train_on_batch)
        load()
        stream.synchronize()
        recorder.step()

# %%
ahead = read_back(recorder)

# %%
ahead.plot(4, 6)


# %%
def idle(seen, first=2):
    """Milliseconds that the device did nothing, for each step from step `first` on."""
    steps = seen.step_contents[first:]
    return np.maximum([step.step.ms - step.busy_ms["0"] for step in steps], 0.001)


before, after = idle(one_by_one), idle(ahead)
f"idle in a step: {np.median(before):.1f} ms one by one, {np.median(after):.1f} ms ahead"

# %%
loading = sum(gap.cpu == "load" for gap in inner)
mostly_loading = Verdict(loading > len(inner) / 2, f"{loading} of the {len(inner)} longest")
claim("in most gaps between two batches the CPU was loading", mostly_loading)

# %%
idle_time = PairedRatios(zip(before, after))
claim("loaded ahead, the device idles less than half as long in a step", idle_time.at_least(2))

# %% [markdown]
# **A table cannot show this.** Both runs launch the same work and load the same batches (and one more), so their rows of
# work and of loading are alike. In the table the waits get shorter, and nothing says why. Use both: the table for how
# much, the timeline for when and why. How far loading ahead can go, and with how many workers, is chapter 04.

# %% [markdown]
# ## What does reading the loss cost?
#
# `loss.item()` returns a number. On a CPU the number is there, and it costs nothing. On a device your code has to wait
# until all that was launched is done: it *synchronises*. Then, while it prepares the next step, the queue is empty.
#
# Here each step takes 3 ms to prepare and some 6 ms on the device (on one machine). The loss is read after each.

# %%
a, into = torch.rand(640, 640), torch.empty(640, 640)


def train_on_batch():
    torch.mm(a, a, out=into)


# %%
def run(every, steps=60):
    """Read the loss after every `every` steps."""
    losses = []
    with Stream() as stream, Recorder() as recorder:
        for number in range(steps):
            with annotate("prepare"):
                sleep(0.003)
            stream.launch(train_on_batch)
            if number % every == every - 1:
                stream.synchronize()
                losses.append(float(into[0, 0]))
            recorder.step()
    return read_back(recorder)


each = run(1)

# %%
each.plot(4, 6)

# %% [markdown]
# A gap after each step, and before each gap a wait. The wait itself is not the loss: the device works meanwhile. The loss
# is the gap that follows, for nothing could be launched ahead. **The mend**: read the loss every tenth step. The others
# would stay on the device, to be added up there. Guess how many waits are left of sixty, and what becomes of the gaps.

# %%
seldom = run(10)
seldom.plot(4, 6)


# %%
def waits(seen):
    return {row.name: row.calls for row in seen.operators}["streamSynchronize"]


def idle(seen):
    """Milliseconds that the device did nothing, for each step after the first."""
    steps = seen.step_contents[1:]
    return np.maximum([step.step.ms - step.busy_ms["0"] for step in steps], 0.001)


# %%
for name, seen in (("each", each), ("seldom", seldom)):
    print(f"{name:<7} {waits(seen):>3} waits, {idle(seen).sum():.1f} ms idle")

# %%
fewer = (waits(each), waits(seldom)) == (60, 6)
idle_time = PairedRatios(zip(idle(each), idle(seldom)))
claim("reading every tenth loss leaves 6 of 60 waits", fewer)
claim("and in most steps less than half of the idle time", idle_time.at_least(2))

# %% [markdown]
# In the first picture the queue is never more than one deep. In the second, launches run ahead: steps begin before the
# work of the last one has begun, and the device never looks up. That is what a queue is for.
#
# What waits: `.item()`, `.cpu()`, `print` of a tensor, `if loss > limit`, `nonzero`. None of them says so.

# %% [markdown]
# ## What does a storm of launches look like?
#
# Scale and shift 100,000 numbers. One way goes piece by piece, 200 pieces of 500 numbers; the other does all at once.

# %%
x, y = torch.rand(100_000), torch.empty(100_000)
pieces = list(zip(x.split(500), y.split(500)))


# %%
def scale(source, target):
    torch.mul(source, 3.0, out=target)


def shift(target):
    target.add_(1.0)


# %%
def piece_by_piece(stream):
    for source, target in pieces:
        stream.launch(scale, source, target)
        stream.launch(shift, target)
    stream.synchronize()
    return y


def at_once(stream):
    stream.launch(scale, x, y)
    stream.launch(shift, y)
    stream.synchronize()
    return y


# %% [markdown]
# Equal first, to the last bit. Then: how many times faster?

# %%
stream = Stream()
race = compare(piece_by_piece, at_once, stream, same=0, guess=10)
race

# %%
recorded = []
for way in (piece_by_piece, at_once):
    with Recorder() as recorder:
        way(stream)
    recorded.append(read_back(recorder))

# %%
stream.close()
recorded[0].plot()

# %%
recorded[1].plot()

# %%
counts = [seen.kernels.count for seen in recorded]
for seen in recorded:
    print(seen.kernels)

# %%
claim("pieces and whole give the same numbers", race.same)
claim("400 launches become 2", counts == [400, 2])
claim("at once is at least 4 times faster", race.at_least(4))

# %% [markdown]
# Above, the lane of the device is a picket fence. On one machine a piece takes some ten microseconds, and the time
# between two pieces is as long: taking the next note from the queue costs the same, however little it asks for. Below,
# two bars: the same numbers, and another scale of time.
#
# A dense row of very short pieces of work: the device could do more, but it gets it in crumbs. The run is *launch-bound*.
# Do more with each launch: larger batches, fused operators, `torch.compile`, a CUDA graph (chapter 05). The same shows in
# the table as much time in calls of the CUDA API. Make fewer.

# %% [markdown]
# ## Why is the copy in the way?
#
# Each step needs a batch of 64 MB on the device. Copy, then compute: in the order of one stream.

# %%
batch, a, into = torch.rand(16_000_000), torch.rand(1_000, 1_000), torch.empty(1_000, 1_000)
buffers = [torch.empty_like(batch) for _ in range(2)]
answers = []


def train_on(buffer):
    torch.mm(a, a, out=into)
    answers.append(float(buffer[-1]))


# %%
with Stream() as stream, Recorder() as recorder:
    for _ in range(10):
        stream.copy(buffers[0], batch)
        stream.launch(train_on, buffers[0])
        stream.synchronize()
        recorder.step()

# %%
serial = read_back(recorder)

# %%
serial.plot(4, 6)

# %% [markdown]
# Green, then blue, then green: the copy stands alone, and nothing is computed meanwhile. It needs another part of the
# machine than the product does (on a GPU a copy engine of its own), and still the product waits. **The mend**: a second
# stream, and a second buffer, so that the next batch comes while this one is used. On a GPU the batch must also lie in
# pinned memory (`pin_memory`) and be copied with `non_blocking=True`, or your thread waits for the copy. Will the copies
# get shorter?

# %%
with Stream() as compute, Stream() as copies, Recorder() as recorder:
    copies.copy(buffers[0], batch)
    copies.synchronize()
    for number in range(10):
        compute.launch(train_on, buffers[number % 2])
        copies.copy(buffers[(number + 1) % 2], batch)
        compute.synchronize(), copies.synchronize()
        recorder.step()

# %%
overlapped = read_back(recorder)

# %%
overlapped.plot(4, 6)

# %%
overlaps = [seen.overlap["0"] for seen in (serial, overlapped)]
shares = [overlap.copies_hidden_ms / overlap.copies_ms for overlap in overlaps]
[f"{share:.0%} of the copying is hidden under compute" for share in shares]

# %%
none = Verdict(shares[0] < 0.01, f"{shares[0]:.1%}")
some = Verdict(shares[1] > 0.1, f"{shares[1]:.0%}")
claim("both ways see the same batch twenty times", answers == 20 * [float(batch[-1])])
claim("on one stream no copy is hidden", none)
claim("on a stream of their own at least a tenth of the copying is", some)

# %% [markdown]
# Now green lies beside blue, in a lane of its own, and the step is little longer than its compute. The copies do not get
# shorter, they get out of the way: most of them, unless a neighbour keeps one of the two threads from a core. The price
# is a second buffer, and the care to write into one while the other is read. (They may even get longer: both use the
# same memory.)

# %% [markdown]
# ## What does the memory line tell?
#
# A device's allocator keeps what was freed, to hand it out again. *Reserved* is what it holds, *allocated* what is in
# use. Here is the smallest model of it: blocks fit their own size only, and when the device is full, all free ones are
# given back. Chapter 07 has the whole one.


# %%
class Pool:
    """Keeps freed blocks for requests of the same size, up to a capacity."""

    def __init__(self, recorder):
        self.recorder, self.free, self.reserved = recorder, [], 0

    def use(self, size, capacity=100):
        """Take a block of a size, use it, free it."""
        if size not in self.free and self.reserved + size > capacity:
            self.reserved -= sum(self.free)
            self.free.clear()
            self.recorder.memory(self.reserved, 0)
        if size not in self.free:
            self.reserved += size
            self.free.append(size)
        self.recorder.memory(self.reserved, size)


# %% [markdown]
# Sixty batches of sentences, between 10 and 40 tokens long; then the same, filled up to 40. Draw both lines in your head.

# %%
lengths = np.random.default_rng(0).integers(10, 41, 60).tolist()
lines = {}
for name, sizes in (("as they come", lengths), ("filled up to 40", [40] * 60)):
    with Recorder() as recorder:
        pool = Pool(recorder)
        for size in sizes:
            pool.use(size)
            recorder.step()
    lines[name] = read_back(recorder).memory["0"]

# %%
canvas, axes = figure()
for (name, line), colour in zip(lines.items(), ("threshold", "estimate")):
    axes.step(range(len(line.reserved)), line.reserved, color=COLOURS[colour], label=name)
axes.set(xlabel="requests and returns, in order", ylabel="reserved, in tokens", ylim=(0, 130))
axes.legend(frameon=False, ncols=2)
drops = [line.drops for line in lines.values()]
alt = f"Reserved memory: as they come it falls {drops[0]} times, filled up {drops[1]} times."
Picture(canvas, alt, "Varying lengths saw: reserve, fill up, give back. One length is flat.")

# %%
saws, flat = Verdict(drops[0] >= 5, f"{drops[0]} times"), drops[1] == 0
claim("with varying lengths reserved memory falls at least 5 times", saws)
claim("with one length it never falls", flat)

# %% [markdown]
# The first line climbs with every new length until the device is full. Then all that lies free is given back, and it
# climbs again. Filling up wastes some memory in each batch and needs the least in all.
#
# A saw means that memory is given back and asked for again. On a GPU both calls are slow, and giving back waits until the
# device has done all its work. On your own run:
# `profile_memory=True`, then `trace.read(file).memory`.

# %% [markdown]
# ## Which kernel is worth the work?
#
# A table of kernels has a column of calls and one of time, and the eye goes to the wrong one. Three kinds of work in a
# step: many small ones, some middle ones, and one large. Which to improve first?

# %%
small, middle, large = (torch.rand(size, size) for size in (32, 128, 640))


def normalise():
    small.sum()


def project():
    middle @ middle


def attend():
    large @ large


# %%
with Stream() as stream, Recorder() as recorder:
    for _ in range(5):
        for work in [normalise] * 12 + [project] * 4 + [attend]:
            stream.launch(work)
        stream.synchronize()
        recorder.step()
seen = read_back(recorder)
for name, ms, calls in seen.kernels.by_name:
    print(f"{ms / seen.kernels.total_ms:6.1%}  {ms:7.2f} ms  {calls:>3} calls  {name}")

# %%
longest = max(seen.kernels.by_name, key=lambda row: row[1])
most_often = max(seen.kernels.by_name, key=lambda row: row[2])
differ = longest[0] != most_often[0]
claim("the kernel called most often is not the one that takes most of the time", differ)

# %% [markdown]
# If one dominates, change its algorithm or its shape: a product whose sizes are multiples of 8 or 64, attention that keeps no
# matrix of weights (chapter 05). If none does, no single one is worth it.

# %% [markdown]
# ## What does Nsight Systems add?
#
# NVIDIA's own profiler sees the whole system: every process, the operating system's calls, the CUDA calls, the GPU. *Not
# run here: it needs an NVIDIA GPU.* It is free. Linux and Windows can record; the window that shows reports runs on macOS
# too. It comes with the CUDA toolkit or as a download of its own; if `nsys` is not found, put the `bin` folder of the
# installation on `PATH`.
#
# ```
# nsys profile --trace=cuda,nvtx,osrt --output=report python train.py
# nsys stats report.nsys-rep
# ```
#
# | option | what it does |
# | --- | --- |
# | `--trace=cuda,nvtx,osrt` | CUDA calls and kernels, your labels, calls into the system. (`cudart`, in old texts, is no name of a trace) |
# | `--pytorch=autograd-nvtx` | a range for each of torch's operators; none of your own needed |
# | `--capture-range=cudaProfilerApi --capture-range-end=stop` | record only between `torch.cuda.profiler.start()` and `stop()` |
# | `--cuda-memory-usage=true` | the memory line. It slows down a run that allocates often |
#
# A report ends in `.nsys-rep` (`.qdrep` in old texts). Started on a launcher, `nsys` follows its child processes: several
# ranks, one report. The window has three views worth knowing: the timeline, the summaries below it (`nsys stats` prints
# the like: kernels by time, copies, ranges), and the CUDA calls of each thread.
#
# Good at: several processes or GPUs at once, what the system does meanwhile, ranges projected onto the GPU. The price: it
# must be learned, reports grow fast, and they want a window. For one process and its operators, torch.profiler and
# [Perfetto](https://ui.perfetto.dev) are enough. NVTX ranges are optional; with `annotate` you have them.
#
# **[GPU]** The label really is a range: opened inside of it, another one lies one level deeper.


# %%
def a_label_is_a_range():
    outside = torch.cuda.nvtx.range_push("outside")
    torch.cuda.nvtx.range_pop()
    with annotate("forward"):
        inside = torch.cuda.nvtx.range_push("inside")
        torch.cuda.nvtx.range_pop()
    return inside == outside + 1


claim_on("CUDA", "a label of annotate is an NVTX range", a_label_is_a_range)

# %% [markdown]
# ## Can these numbers be right?
#
# A case, as it was told of a real job. Loading took over 60 % of it. Eight workers instead of four, and a faster
# decoder, cut loading by more than 30 %. The job took 20 % less. Before you go on: is that possible?
#
# *Amdahl's law*: if a part p of the time is cut by c, the whole is cut by p times c. 60 % times 30 % is 18 %. Run such a
# job: 30 of 50 ms are loading, and it is cut by 30 %.


# %%
def jobs(*loads, rest=0.020, times=30):
    """(least ms of the whole, of its loading) of a job for each load; the jobs take turns."""
    with Recorder() as recorder:
        for load in loads * times:
            with annotate("load"):
                sleep(load)
            recorder.step()  # a step is half of a job here
            with annotate("compute"):
                sleep(rest)
            recorder.step()
    halves = [step.ms for step in read_back(recorder).steps]
    halves = np.reshape(halves, (times, len(loads), 2))
    least = np.min(halves, axis=0)  # who sleeps may be woken late, but never early
    return zip(least.sum(axis=1).tolist(), least[:, 0].tolist())


# %%
(before, loading), (after, loading_less) = jobs(0.030, 0.021)
part, cut, saved = loading / before, 1 - loading_less / loading, 1 - after / before

# %%
print(f"loading is {part:.1%} of the job, and it is cut by {cut:.1%}")
print(f"{part * cut:.1%} expected, {saved:.1%} saved")

# %%
foretold = Verdict(abs(saved - part * cut) < 0.02, f"{part * cut:.1%} and {saved:.1%}")
claim("Amdahl's product foretells the saving within 2 points", foretold)
less = Verdict(saved < 0.2, f"{saved:.1%}")
claim("a cut of 30 % in 60 % of the job saves less than 20 %", less)

# %% [markdown]
# So what must have held? "Over" and "more than" have to carry it: with 60 % of the job, loading was cut by a third (33.3
# %); or with a cut of 30 %, it was two thirds of the job (66.7 %). And two things more: all of the loading delayed the
# job, none of it was hidden under the computing; and the eight workers took nothing from the rest.
#
# Do this sum with every speed-up you are told. It takes a minute, it needs no machine, and it finds those that cannot be.

# %% [markdown]
# ## Can you read a file of somebody else?
#
# The book keeps two small files, recorded on a machine without a GPU: the same training, its data once from the main
# process and once from four workers. Three lines read them.

# %%
shipped = ("traces/loader_in_main.json.gz", "traces/loader_with_workers.json.gz")
alone, helped = (trace.read(path) for path in shipped)
for seen in (alone, helped):
    print(f"a step takes {median(step.ms for step in seen.steps):.1f} ms")
    print("waiting for data:", seen.data_wait)

# %%
waiting = [seen.data_wait.share for seen in (alone, helped)]
claim("in the first file more than half of the time is waiting for data", waiting[0] > 0.5)
claim("in the second file it is less than a quarter", waiting[1] < 0.25)

# %% [markdown]
# **Your own file.** Put its path here: any that torch.profiler wrote since 2021, plain or `.gz`, with or without a GPU.
# What the file does not tell, the page does not make up: it says why not.

# %%
yours = "traces/loader_in_main.json.gz"
trace.read(yours)

# %% [markdown]
# The same from a terminal, where no notebook is: `python -m steptime trace FILE --plot timeline.png`.

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | gaps in the device lane, the CPU loads | data comes too late | load ahead, more workers, a faster format (chapter 04) |
# | gaps after a wait, once a step | something reads a result: `.item()`, `print`, `.cpu()` | read it seldom, or later |
# | gaps, and the CPU is busy with Python | preparing a step takes longer than doing it | do less per step; compile |
# | a dense row of very short kernels | launch-bound | larger batches, fuse, compile, a CUDA graph (chapter 05) |
# | much time in calls of the CUDA API | the same, or many allocations | make fewer calls |
# | a long copy every step that overlaps nothing | it waits in the stream of the compute | pin, `non_blocking`, a buffer more |
# | reserved memory like a saw | varying sizes miss the allocator's cache | pad, buckets, one buffer (chapter 07) |
# | one kernel takes most of the time | its algorithm or its shape | another algorithm, another shape |
# | backward waits in its own lane | a hook, a collective, a slow Python function | look at what ends the wait |
# | a wide first step | one-off costs | warm up outside, then by schedule (chapter 02) |
# | no white in the device lane | it is busy: good, or busy with waste | the table, then chapters 05 and 06 |

# %% [markdown]
# ## Exercises
#
# 1. In *Why does the device wait for data*, let loading take 20 ms. How idle is the device after the mend, and which
#    bound is that?
# 2. Read the loss every second step, every fifth. From when on does it gain no more, and why?
# 3. In the storm, change the size of the pieces. At which size are launching and working equal?
# 4. Give `Pool` a request that any larger free block may serve. What becomes of the saw, and what is wasted?
# 5. A job: loading 40 %, computing 50 %, saving 10 %. Loading becomes 4 times faster. What is saved, and what would save
#    more?
# 6. Record five steps of your own script with a schedule, and read the file here. Which row of the table above is it?
#
# Problem set 03 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=03`
# puts it into `build/release`. Exercise 1 comes back there as problem 3, exercise 5 as problem 4.

# %% [markdown]
# ## Sources
#
# - G. M. Amdahl, *Validity of the single processor approach to achieving large scale computing capabilities*, AFIPS 1967.
# - Google, *Trace Event Format*, 2016: the format of these files.
# - NVIDIA, *Nsight Systems User Guide*, 2025: options, views, statistics. Not run here.
# - NVIDIA, *NVTX*, documentation, 2025: ranges.
# - PyTorch contributors, *Kineto* and *torch.profiler*, 2025: categories, correlation.
# - Y. Hao and others, *Holistic Trace Analysis*, documentation, 2023: idle time and its causes.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
