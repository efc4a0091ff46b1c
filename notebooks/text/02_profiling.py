# %% [markdown]
# # Profiling
#
# **Where does the time go?**
#
# After this chapter you can find the slow part of a training script before you change it: with a profiler that counts
# calls, one that reads lines, one that only looks now and then, and with torch's own. You know what each of them sees, what
# it costs, and how to record few steps and the right ones. Read it if your training is slow and you do not know where.
#
# *25 minutes to read, 25 seconds to run.*
#
# Bottlenecks are seldom where one guesses. Half of the time goes into a few lines, and they are not those that look
# clever. So each section asks you for a guess first. Being wrong is the point: it shows what you would have rewritten for
# nothing.
#
# The order of the chapter is the order in which to use the tools: from coarse and cheap to fine and dear. Stop at the first
# that answers your question.

# %%
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from contextlib import nullcontext
from cProfile import Profile
from io import StringIO
from pathlib import Path
from pstats import Stats
from tempfile import TemporaryDirectory

import numpy as np
import torch
from line_profiler import LineProfiler
from threadpoolctl import threadpool_limits
from torch.profiler import ProfilerActivity, profile, record_function

from steptime import Verdict, annotate, bench, claim, claim_on, claims, compare
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration

torch.set_num_threads(1)
limited = threadpool_limits(1)  # torch's setting does not reach NumPy's BLAS

# %% [markdown]
# ## Which function takes the time?
#
# A data set lies on the disk as text: each sample a JSON list of 200 numbers. A step loads a batch of 256 and sends it
# through a layer with 64 outputs.

# %%
samples = np.random.default_rng(0).random((256, 200))
weights = np.random.default_rng(1).random((200, 64))
texts = [json.dumps(sample) for sample in samples.tolist()]


# %%
def decode(text):
    return json.loads(text)


def load_batch(texts):
    return np.array([decode(text) for text in texts])


# %%
def compute(batch):
    return np.maximum(batch @ weights, 0).sum()


def train(steps=5):
    return [compute(load_batch(texts)) for _ in range(steps)]


# %% [markdown]
# The layer multiplies 3.3 million pairs of numbers. The loader reads 51,200 numbers. Which share of the time goes into
# loading? Write your guess as a number from 0 to 1.

# %%
guess = 0.3
recording = Profile()
losses = recording.runcall(train)
table = Stats(recording, stream=StringIO())

# %% [markdown]
# `cProfile` comes with Python. It notes each call of a function: how often, how long in all, and how long without the
# functions that it called in turn. **Read the calls first.** They are exact, and they tell you whether the program does what
# you think it does.

# %%
rows = {name: row for (_, _, name), row in table.stats.items()}
calls = {name: rows[name][1] for name in ("load_batch", "compute", "decode")}
calls

# %% [markdown]
# Five batches, each loaded once and computed once; 256 texts in each. Nothing runs twice. That is worth a look: a loader
# that runs once for training and once more for a forgotten printout is found here, and by no clock. **Then the time**,
# with all that was called in between:

# %%
seconds = {name: rows[name][3] for name in calls}
loading = seconds["load_batch"] / (seconds["load_batch"] + seconds["compute"])
for name, spent in seconds.items():
    print(f"{name:<12} {calls[name]:>6,} calls  {duration(spent):>8}")
print(f"loading: {loading:.0%} of both; your guess {guess:.0%}")

# %%
as_expected = list(calls.values()) == [5, 5, 1_280]
mostly_loading = Verdict(loading >= 0.8, f"{loading:.1%} of both")
claim("five batches make 5 calls of load_batch, 5 of compute and 1,280 of decode", as_expected)
claim("loading takes at least 80 % of loading and computing", mostly_loading)

# %% [markdown]
# Multiplying is what processors are built for: several products at a time, and one after the other without a branch. To
# read a number from text, one looks at each of its 16 digits or so, asks whether it is a digit at all, and puts them
# together in the end.
#
# A faster layer would have saved almost nothing here, and a GPU would have saved the same. **The mend is the storage
# format**: write the numbers as the bytes that the memory holds, once, before the training begins. Then loading is
# copying. The answer must be the same to the last bit, so the tolerance below is 0.

# %%
stored = samples.tobytes()


def load_bytes(_):
    return np.frombuffer(stored).reshape(256, 200).copy()


race = compare(load_batch, load_bytes, texts, same=0)
race

# %%
claim("a batch stored as bytes is the same as the one stored as text", race.same)
claim("a batch stored as bytes loads at least 10 times faster", race.at_least(10))

# %% [markdown]
# ## Which line takes the time?
#
# `cProfile` stops at functions. A function of thirty lines is one row in its table, and often the row that you knew
# already. Here is the loader once more, as people often write it, with all in one function. Three lines
# could be slow: reading, scaling, or putting together. Which one?

# %%
samples = np.random.default_rng(0).random((256, 200)).tolist()
texts = [json.dumps(sample) for sample in samples]


def load_batch(texts):
    rows = []
    for text in texts:
        numbers = json.loads(text)
        largest = max(numbers)
        rows.append([number / largest for number in numbers])
    return np.array(rows)


# %% [markdown]
# A *line profiler* notes the time whenever the next line of a function begins. You say which functions.

# %%
lines = LineProfiler(load_batch)
for _ in range(5):
    lines.runcall(load_batch, texts)
lines.print_stats(stripzeros=True, stream=(page := StringIO()))
print(re.sub(r"File: .*\n", "", page.getvalue()))

# %% [markdown]
# The two columns to read are *Hits*, how often a line ran, and *% Time*. The line of `json.loads` ran once for each text. So
# did the two below it, and each took far less.

# %%
[timings] = lines.get_stats().timings.values()
hits, ticks = zip(*((hits, ticks) for _, hits, ticks in timings))
per_text = [spent for count, spent in zip(hits, ticks) if count == 5 * 256]
slowest = max(per_text, default=0) / sum(ticks)
mostly_one = Verdict(slowest > 1 / 3, f"{slowest:.0%} of the function")

# %%
claim("three lines of the loader run once for each of the 1,280 texts", len(per_text) == 3)
claim("one of the lines takes more than a third of the function's time", mostly_one)

# %% [markdown]
# So the reading is the first thing to change here, and the scaling the second. It is done number by number, in Python; on the
# whole array it would be one operation.
#
# A line profiler sees no more than the functions you name: a call of another function is one line to it. Use `cProfile` to
# choose the functions, and this to read them. And noting the time at each line costs time itself: two sections on.

# %% [markdown]
# ## Can one look without touching?
#
# Both tools so far are told of every call or line, and answering takes time. A *sampling profiler* does not note calls.
# It looks at the program a thousand times a second and asks: which functions are you in? A function that takes half of
# the time is met in half of the looks.
#
# The idea fits into twenty lines. A second thread looks at the first.


# %%
def look_at(function, every=0.001):
    """How many looks met each function, while `function` ran."""
    met, done, runner = Counter(), threading.Event(), threading.get_ident()

    def look():
        while not done.wait(every):
            frame, names = sys._current_frames()[runner], set()
            while frame is not None:
                names.add(frame.f_code.co_name)
                frame = frame.f_back
            met.update(names)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the one who looks gets its turn at once, not after 5 ms
    looker = threading.Thread(target=look)
    looker.start()
    try:
        function()
    finally:
        done.set()
        looker.join()
        sys.setswitchinterval(usual)
    return met


# %% [markdown]
# The loader and the layer again. How many looks will it take to see what `cProfile` saw?

# %%
texts = [json.dumps(sample) for sample in np.random.default_rng(0).random((256, 200)).tolist()]
weights = np.random.default_rng(1).random((200, 64))


def load_batch():
    return np.array([json.loads(text) for text in texts])


def layer(batch):
    return np.maximum(batch @ weights, 0).sum()


# %%
def train(steps=10):
    for _ in range(steps):
        layer(load_batch())


met = look_at(train)
loading = met["load_batch"] / met["train"]
print(f"{met['train']} looks: {met['load_batch']} met load_batch, {met['layer']} met layer")

# %% [markdown]
# The looks are chance, so their shares are estimates: with 250 looks a share of one half is known to about 6 points. Look
# longer and it gets better. No function pays for being short and called often.
#
# And what does it not see? **Calls.** That `load_batch` was met a hundred times does not say whether it was called ten times
# or once. `cProfile` counted how many calls in the same ten steps?

# %%
recording = Profile()
recording.runcall(train)
counted = Stats(recording, stream=StringIO()).total_calls
print(f"cProfile noted {counted:,} calls, the sampler looked {met['train']} times")

# %%
mostly_loading = Verdict(loading > 0.5, f"{loading:.0%} of {met['train']} looks")
many_more = counted >= 10 * met["train"]
claim("most looks at the loop meet the loader", mostly_loading)
claim("cProfile notes at least 10 times as many calls as the sampler takes looks", many_more)

# %% [markdown]
# One thing about the twenty lines: the looker needs the interpreter's lock to look. A thread that is busy in Python keeps
# it for 5 ms, unless it lets go by itself. Set shorter turns, as above, or the looker looks when the other lets go, and
# not when the time has come.
#
# `py-spy` does this from outside: another process reads the memory of yours. So it needs no change of your script and no
# restart: `py-spy record --pid 1234`. What it needs are rights. On macOS it must run as root; on Linux a system may allow it
# for processes that it started itself, as here, and not for others. Each line of its answer is a stack, the outermost
# function first, and the number of looks that met it. These are the three met most often:

# %%
script = """import json
text = json.dumps([0.123] * 200)
def load():
    for _ in range(20_000): json.loads(text)
load()
"""

# %%
with TemporaryDirectory() as folder:
    Path(folder, "script.py").write_text(script)
    command = [
        Path(sys.executable).with_name("py-spy"),
        "record",
        "--format=raw",
        "--output=looks",
        "--",
        sys.executable,
        "script.py",
    ]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, timeout=20, check=True)
        looks = Path(folder, "looks").read_text().splitlines()
        print(*sorted(looks, key=lambda line: -int(line.split()[-1]))[:3], sep="\n")
    except (OSError, subprocess.SubprocessError) as problem:
        print("py-spy cannot look here:", problem)

# %% [markdown]
# ## What does looking cost?
#
# Profilers change what they measure. They do not slow everything alike, and that is the trouble: what is called often looks
# worse than it is. Here is their worst case: a function that does next to nothing, called 20,000
# times.


# %%
def double(number):
    return number + number


def add_up(count):
    total = 0
    for number in range(count):
        total += double(number)
    return total


# %% [markdown]
# How many times slower does it run under `cProfile`, and how many times under the line profiler? Write your guesses in
# place of the two 1.5.


# %%
def with_cprofile(count):
    return Profile().runcall(add_up, count)


by_calls = compare(with_cprofile, add_up, 20_000, same=0, guess=1.5)
by_calls

# %%
reader = LineProfiler(add_up, double)


def with_lines(count):
    return reader.runcall(add_up, count)


by_lines = compare(with_lines, add_up, 20_000, same=0, guess=1.5)
by_lines

# %%
claim("cProfile makes a loop of tiny calls at least twice as slow", by_calls.at_least(2))
claim("a line profiler makes it at least 3 times as slow", by_lines.at_least(3))

# %% [markdown]
# The line profiler pays for three lines a round, `cProfile` for one call. So a function that is called very often looks
# slower under a profiler than it is, and it can come to the top of a table where it does not belong.
#
# Now the loader of text, an eighth of a batch, first without `cProfile` and then with it. Is it slowed as much?

# %%
numbers = np.random.default_rng(0).random((32, 200))
texts = [json.dumps(sample) for sample in numbers.tolist()]


def load_batch():
    return np.array([json.loads(text) for text in texts])


def load_profiled():
    return Profile().runcall(load_batch)


# %%
of_loader = compare(load_batch, load_profiled, same=0)
of_loader

# %%
claim("cProfile makes the loader less than twice as slow", of_loader.at_least(0.5))

# %% [markdown]
# A ratio near 1: the loader makes ten calls for a text of 200 numbers, and the numbers are read outside of Python, where no
# Python profiler looks.
#
# The costs in the table were seen on one machine, and the ratios above are yours.
#
# Profile to find out *where*. Then take the profiler off, and race to find out *how much*.
#
# | tool | it sees | it costs | it does not see |
# | --- | --- | --- | --- |
# | `cProfile` | each call of a function | a few 100 ns a call | lines, what torch does inside; other threads are missing, or mixed in from Python 3.12 on |
# | `line_profiler` | each line of the functions you name | a few 100 ns a line | all others |
# | `py-spy` | where Python is, every 10 ms | next to nothing, and rights | how often something was called |
# | `torch.profiler` | each operator, on a GPU each kernel | some µs an operator, memory, a file | plain Python, unless asked |
# | Nsight Systems | the whole system: GPU, CUDA calls, threads | learning it; large reports | which line of Python |

# %% [markdown]
# ## What do the operators do?
#
# An *operator* is what torch calls a piece of its work: `aten::addmm` multiplies two matrices and adds a third. Python
# calls a few, those call others, and the backward pass calls more. No Python profiler sees them: to `cProfile`,
# `loss.backward()` is one long call. torch has a profiler of its own, which is told by each operator when it begins and
# ends.
#
# First the loader that reads text, under a label of our own: `annotate` puts it into the table. Which operators will stand
# beside it?

# %%
numbers = np.random.default_rng(0).random((256, 200))
texts = [json.dumps(sample) for sample in numbers.tolist()]
with profile(activities=[ProfilerActivity.CPU]) as recording, annotate("load_texts"):
    batch = np.array([json.loads(text) for text in texts])

# %%
in_loader = {row.key: row.count for row in recording.key_averages()}
in_loader

# %%
operators = [name for name in in_loader if name.startswith("aten::")]
label_alone = in_loader.get("load_texts") == 1 and not operators
claim("torch.profiler shows the label of the loader and no operator", label_alone)

# %% [markdown]
# None: reading text is no work of torch's. The label has a time, and what it was spent on is not told. For that there is
# `cProfile`. Now what torch's profiler is made for, a network:

# %%
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)


@annotate("load_batch")
def load_batch():
    return torch.randn(256, 64), torch.randint(10, (256,))


# %%
@annotate("train_step")
def train_step(images, labels):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    optimiser.step()


def count(steps, load=load_batch):
    """How often each operator and each label came up."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recording:
        for _ in range(steps):
            train_step(*load())
    return recording, {row.key: row.count for row in recording.key_averages()}


# %% [markdown]
# Two layers, forward and backward, five steps. Predict how often each comes up: `aten::addmm`, a layer forward?
# `aten::mm`, a plain product of two matrices? `aten::relu`?

# %%
recording, calls = count(5)
for name in ("load_batch", "train_step", "aten::addmm", "aten::mm", "aten::relu"):
    print(f"{calls[name]:>3}  {name}")

# %% [markdown]
# Each layer is one `addmm`: the product with its weights, plus its bias. Ten of them: two layers, five steps. But **15
# `mm`**? Backward, each layer has two products to compute, one for the gradient of its weights and one for that of its
# input: four a step would make 20. Look at the shapes.

# %%
for row in recording.key_averages(group_by_input_shape=True):
    if row.key == "aten::mm":
        print(f"{row.count} of {row.input_shapes[0]} by {row.input_shapes[1]}")

# %% [markdown]
# Read them as in the first section: the calls before the time. The last layer has both of its products, a [10, 256] by
# [256, 128] for its weights and a [256, 10] by [10, 128] for what came into it. The first layer has one.
#
# Nobody needs the gradient of the images: they do not learn. So the first layer leaves out its second product. Ask for it,
# and there are 20.


# %%
def load_learning():
    images, labels = load_batch()
    return images.requires_grad_(), labels


_, with_input = count(5, load_learning)
with_input["aten::mm"]

# %%
labelled = (calls["load_batch"], calls["train_step"])
seen = tuple(calls[name] for name in ("aten::addmm", "aten::mm", "aten::relu"))
claim("five steps make 5 load_batch and 5 train_step", labelled == (5, 5))
claim("they make 10 addmm, 15 mm and 5 relu", Verdict(seen == (10, 15, 5), str(seen)))

# %%
five_more = with_input["aten::mm"] == calls["aten::mm"] + 5
claim("if the input needs a gradient, five more products are computed", five_more)

# %% [markdown]
# ## Is this time plausible?
#
# The table of operators has three columns to read together. *Calls* says how often. *Self* is the time in the operator
# itself, *total* includes those it called. A long total with a short self only passes its time on. A long self is where
# work is done, or where a call is paid for: the calls tell which. Sort by self first.

# %%
a, b = torch.rand(4, 4), torch.rand(4, 4)
with profile(activities=[ProfilerActivity.CPU]) as recording:
    for _ in range(100):
        torch.addmm(b, a, b).relu().sum()

# %%
print("calls      self     total  operator")
rows = recording.key_averages()
for row in sorted(rows, key=lambda row: -row.self_cpu_time_total)[:5]:
    own, whole = duration(row.self_cpu_time_total / 1e6), duration(row.cpu_time_total / 1e6)
    print(f"{row.count:>5}  {own:>8}  {whole:>8}  {row.key}")

# %% [markdown]
# `relu` passes time on: it calls `clamp_min`, and nothing else. If that is so, what must hold of the columns?

# %%
by_name = {row.key: row for row in rows}
outer, inner = by_name["aten::relu"], by_name["aten::clamp_min"]
passed_on = outer.cpu_time_total - outer.self_cpu_time_total
adds_up = abs(passed_on - inner.cpu_time_total) < 0.01 * passed_on
claim("the total of relu less its self time is the total of clamp_min", adds_up)

# %% [markdown]
# Then ask: **is this time plausible for this operator?** A product of two 4 by 4 matrices takes 64 multiplications and as
# many additions. A core does billions a second. What should it take, and what does it take?
#
# Time the same call at more sizes, product and sum in one. At which size does it begin to take longer?

# %%
sizes = (2, 4, 8, 16, 32, 64, 128, 256, 512)
matrices = {size: torch.rand(size, size) for size in sizes}


def multiply(size):
    matrices[size] @ matrices[size] + matrices[size]
    return 0  # so that two sizes can race


seconds = {size: bench(multiply, size, seconds=0.1).median for size in sizes}

# %%
for size, spent in seconds.items():
    speed = 2 * size**3 / spent / 1e9
    print(f"{size:>4} {duration(spent):>9}  {speed:8.3f} billion operations a second")
turn = next(size for size in sizes if seconds[size] > 2 * min(seconds.values()))

# %%
canvas, axes = figure()
micro = [spent * 1e6 for spent in seconds.values()]
axes.axhline(min(micro), color=COLOURS["pairs"], label="the price of the call")
axes.plot(sizes, micro, marker="o", color=COLOURS["estimate"], label="measured")
axes.set(xscale="log", yscale="log", xlabel="rows and columns", ylabel="microseconds a call")
axes.set_xticks(sizes, sizes)
axes.minorticks_off()
axes.legend(frameon=False)
alt = f"Time of a call against size: flat at first, twice as long from {turn} on, then steep."
caption = f"Flat while the call itself costs most; from about {turn} on the arithmetic does."
Picture(canvas, alt, caption)

# %% [markdown]
# Sixteen operations or eight thousand: a few microseconds either way. Sixteen do not take that long, so the time is not
# for the arithmetic. The flat part is the price of a call: Python, choosing the operator, making the result. There, a
# program is *overhead-bound*: a faster processor of numbers would not help, fewer calls would. The steep part is
# *compute-bound*: twice the size is eight times the arithmetic, and nearly eight times the time.

# %%
flat = compare(lambda: multiply(2), lambda: multiply(8))
steep = compare(lambda: multiply(512), lambda: multiply(64))
flat, steep

# %%
claim("8 by 8 takes less than twice as long as 2 by 2: 64 times the work", flat.at_least(0.5))
claim("512 by 512 takes at least 50 times as long as 64 by 64", steep.at_least(50))

# %% [markdown]
# On a GPU the flat part is longer. *Recorded elsewhere, on an A100*: product and sum at 64 by 64 kept the CPU busy for 2.3 ms
# and the GPU for 0.023 ms. At 4,096 by 4,096 it was 4.9 ms and 4.5 ms. If the CPU column is much longer than the GPU
# column, you wait for Python.

# %% [markdown]
# ## Which part of the layer?
#
# A table adds up by name. One operator can stand for many places. A step has dozens of `aten::mm`: which of them belong
# to attention, and which part of it? Labels say so, and they nest. Here is attention written out, one head.

# %%
x = torch.randn(8, 128, 64)
into_three, out_of = torch.nn.Linear(64, 3 * 64), torch.nn.Linear(64, 64)


@annotate("attention")
def attention(x):
    with annotate("projection"):
        query, key, value = into_three(x).chunk(3, dim=-1)
    with annotate("scores"):
        scores = query @ key.transpose(1, 2) / 8
    with annotate("softmax"):
        weights = scores.softmax(-1)
    with annotate("mix"):
        return out_of(weights @ value)


# %% [markdown]
# Which of the four parts takes longest: projection, scores, softmax or mix?

# %%
with profile(activities=[ProfilerActivity.CPU]) as recording, torch.no_grad():
    for _ in range(20):
        attention(x)
rows = {row.key: row for row in recording.key_averages()}
for name in ("attention", "projection", "scores", "softmax", "mix"):
    whole = duration(rows[name].cpu_time_total / 1e6)
    print(f"{name:<11} {rows[name].count:>3} calls  {whole:>8}")

# %%
names = ("projection", "scores", "softmax", "mix")
parents = [event.cpu_parent for event in recording.events() if event.name in names]
inside = sum(parent is not None and parent.name == "attention" for parent in parents)
claim("four labels a call lie inside the label of the layer", inside == 4 * 20)

# %% [markdown]
# `annotate` calls torch's `record_function` when a profiler records. Nsight Systems sees the same label, and so does the
# recorder of the next chapter. On a GPU, the label tells the time on the CPU; the kernels launched under it are counted
# in the column of the device.
#
# What does a label cost when nobody records? You would like to leave it in.


# %%
def with_torch():
    with record_function("step"):
        return 0


def with_annotate():
    with annotate("step"):
        return 0


race = compare(with_torch, with_annotate)
race

# %%
a_third = race.at_least(3)
claim("with no profiler on, annotate costs less than a third of record_function", a_third)

# %% [markdown]
# `record_function` calls two operators of torch, to open and to close the label, whether anybody listens or not. `annotate`
# asks first. On one machine, the call around it included, it took 1 µs.

# %% [markdown]
# ## Which steps are in the file?
#
# A training run has a million steps, and a file of all of them opens nowhere. A *schedule* picks: skip some (`wait`),
# record and throw away some (`warmup`), keep some (`active`), then the same again (`repeat`). Steps count from 0, and you
# say when one ends.
#
# `wait` costs nothing, `warmup` costs as much as recording: the profiler runs already, and what it saw is thrown away.
#
# With one to wait, one to warm up, three to keep, twice: which steps will be kept of the first twelve?

# %%
plan = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)


def kept(plan, steps=12):
    """The numbers of the steps in each of the files that a plan leaves."""
    with TemporaryDirectory() as folder:
        handler = torch.profiler.tensorboard_trace_handler(folder)
        options = {"schedule": plan, "on_trace_ready": handler, "acc_events": True}
        with profile(activities=[ProfilerActivity.CPU], **options) as recording:
            for _ in range(steps):
                torch.ones(8).sum()
                recording.step()
        texts = [file.read_text() for file in sorted(Path(folder).iterdir())]
    found = [set(re.findall(r'"ProfilerStep#(\d+)"', text)) for text in texts]
    return [sorted(map(int, numbers)) for numbers in found]


# %%
files = kept(plan)
files

# %% [markdown]
# Two files, one for each cycle of five steps; the last two steps came after both. Leave `repeat` out and it never stops:
# a file every five steps, until the disk is full.

# %%
without_end = kept(torch.profiler.schedule(wait=1, warmup=1, active=3), steps=16)
planned = [[2, 3, 4], [7, 8, 9]]
claim("the plan keeps steps 2 to 4 in one file and 7 to 9 in another", files == planned)
claim("without repeat, a third file follows", without_end == [*planned, [12, 13, 14]])

# %% [markdown]
# ## Why is the first recorded step the widest?
#
# Something is made on the first call. Here a layer adds waves to its input and builds the table of them when it first sees
# a length.


# %%
class Waves(torch.nn.Module):
    """Adds waves to a sequence, from a table for its length, made when it is first needed."""

    def __init__(self):
        super().__init__()
        self.tables = {}

    @annotate("build the table")
    def build(self, length):
        places, waves = range(length), range(1, 65)
        return torch.tensor([[np.sin(place / wave) for wave in waves] for place in places])

    def forward(self, x):
        if len(x) not in self.tables:
            self.tables[len(x)] = self.build(len(x))
        return x + self.tables[len(x)]


# %% [markdown]
# Record three steps, at a short length and a long one. Once as it comes, once with a call *before* the profiler starts. What
# will the first of the three steps look like in each?


# %%
def first_steps(length, warm):
    """(how often the table was built while recording, microseconds of each step)"""
    waves, x = Waves(), torch.randn(length, 64)
    if warm:
        waves(x)
    with profile(activities=[ProfilerActivity.CPU]) as recording:
        for _ in range(3):
            with annotate("step"):
                waves(x)
    events = recording.events()
    built = sum(event.name == "build the table" for event in events)
    steps = [event.time_range.elapsed_us() for event in events if event.name == "step"]
    return built, steps


# %%
recorded = {}
for length in (16, 512):
    for warm in (False, True):
        recorded[length, warm], steps = first_steps(length, warm)
        shown = "".join(f"{spent:10,.0f} µs" for spent in steps)
        print(f"length {length:>3}, {'warm' if warm else 'cold'}: {shown}")

# %%
cold = (recorded[16, False], recorded[512, False])
warm = (recorded[16, True], recorded[512, True])
claim("recorded cold, the table is built in the file, at both lengths", cold == (1, 1))
claim("with a call before the profiler starts it is not", warm == (0, 0))

# %% [markdown]
# Cold, the first step holds what no later one does, and the table of operators adds it to the others: on one machine the
# average of the three steps is some 10 times a later step at the short length, and some 50 times at the long one. The
# longer the sequence, the wider the first step. *Recorded elsewhere, on an A100*: a gap of about 228 µs before the first
# product, while cuBLAS asked for its workspace, chose an algorithm and loaded the code of the kernel.
#
# The profiler has a first call too: its own buffers. The remedy is both. Run your code before the profiler starts, and
# let the schedule warm the profiler up. Warming up moves a one-off cost out of the picture. It removes nothing: the
# script still pays it.

# %% [markdown]
# ## What does recording add?
#
# Five steps of the small network, with one option after the other. Each answers a question. Which one makes the file
# largest?

# %%
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
images, labels = torch.randn(256, 64), torch.randint(10, (256,))


def step():
    torch.nn.functional.cross_entropy(net(images), labels).backward()


# %%
def recorded(steps=5, **options):
    """(events, bytes) of the file."""
    with profile(activities=[ProfilerActivity.CPU], **options) as recording:
        for _ in range(steps):
            step()
    with TemporaryDirectory() as folder:
        recording.export_chrome_trace(str(Path(folder, "trace.json")))
        text = Path(folder, "trace.json").read_text()
    return len(json.loads(text)["traceEvents"]), len(text)


recorded()  # the first one holds what is set up once
sizes = {"nothing more": recorded()}

# %%
for option in ("record_shapes", "profile_memory", "with_stack"):
    sizes[option] = recorded(**{option: True})
for option, (events, size) in sizes.items():
    print(f"{option:<15} {events:>6,} events  {size:>8,} bytes")

# %% [markdown]
# - `record_shapes`: which sizes came in? No event more, each a little longer. It also keeps the inputs alive for a while.
# - `profile_memory`: who allocates? An event for each piece of memory that comes or goes.
# - `with_stack`: which line of Python? An event for each call of a Python function.
#
# Two more for special questions: `with_flops` estimates the arithmetic of products and convolutions, `with_modules` names the
# layers (of TorchScript models only).

# %%
plain, shapes, memory, stack = sizes.values()
no_event_more = plain[0] == shapes[0] and shapes[1] > 1.2 * plain[1]
claim("record_shapes adds bytes and no event", no_event_more)

# %%
more_and_more = plain[0] < memory[0] < stack[0]
claim("profile_memory adds events, and with_stack adds more of them", more_and_more)

# %% [markdown]
# And what does a longer run add? Ten times the steps:

# %%
longer = recorded(steps=50)
per_step = (longer[1] - plain[1]) / 45
print(f"{per_step:,.0f} bytes a step, {per_step * 1e6 / 1e9:,.0f} GB for a million steps")

# %%
claim("fifty steps make a file at least 8 times as large as five", longer[1] >= 8 * plain[1])

# %% [markdown]
# This network has two layers. A large one can make a hundred times as many events. Viewers read a file as a whole, and
# from some hundred megabytes on they give up. Three to five steps show all that a thousand show, since the steps are
# alike. If they are not alike, record two windows.
#
# It costs time as well, whatever the option. Twenty steps with and without the plain profiler:


# %%
def twenty_steps(recording):
    with recording:
        for _ in range(20):
            step()
    return 0


def profiled():
    return twenty_steps(profile(activities=[ProfilerActivity.CPU]))


compare(profiled, lambda: twenty_steps(nullcontext()))

# %% [markdown]
# We claim nothing about that ratio: it depends on how long your operators take. The rule stands without it. Switch on
# as little as answers the question.
#
# **[GPU]** If only the kernels are asked for, record only them. It runs where there is a GPU.


# %%
def kernels_alone():
    x = torch.rand(512, 512, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as recording:
        (x @ x).sum().item()
    with TemporaryDirectory() as folder:
        recording.export_chrome_trace(str(Path(folder, "trace.json")))
        events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    kinds = Counter(event.get("cat") for event in events)
    print(kinds)
    return kinds["kernel"] > 0 and kinds["cpu_op"] == 0


claim_on("CUDA", "recorded alone, kernels come without operators of the CPU", kernels_alone)

# %% [markdown]
# ## What can be done with a recording?
#
# Three things: print a table, write a file, let a handler name the files. The table is enough for *how much*. The file keeps
# what the table adds up: when each operator ran, on which thread, and under which label.

# %%
with profile(activities=[ProfilerActivity.CPU]) as recording:
    torch.rand(64, 64).softmax(0)
rows = recording.key_averages()
print(rows.table(sort_by="self_cpu_time_total", row_limit=3, max_name_column_width=20))

# %% [markdown]
# The file is JSON. Drop it on [Perfetto](https://ui.perfetto.dev), which reads it in your browser, or on
# `chrome://tracing`; the next chapter reads it with a few lines of Python. It can be written once. Guess what a second
# time does.

# %%
with TemporaryDirectory() as folder:
    recording.export_chrome_trace(str(Path(folder, "trace.json")))
    written = json.loads(Path(folder, "trace.json").read_text())
    try:
        recording.export_chrome_trace(str(Path(folder, "again.json")))
        refused = ""
    except RuntimeError as problem:
        refused = str(problem)
refused

# %%
operators = sum(event.get("cat") == "cpu_op" for event in written["traceEvents"])
all_there = operators >= sum(row.count for row in rows)
claim("the file holds the operators of the table", all_there)
claim("a recording can be written once", refused == "Trace is already saved.")

# %% [markdown]
# Three warnings:
#
# - The TensorBoard plugin for these files is retired. The handler above keeps its name and still writes files that
#   Perfetto opens.
# - Some tools that share traces upload your file to a public place (trace-util is one). It holds names of your code,
#   and with `with_stack` your paths.
# - Use `torch.profiler`, never `torch.autograd.profiler`. It is the old one, its arguments differ, and many pages on the web
#   still show it.
#
# If lines that begin with `USDT:` come up among your outputs, they are torch's own and mean nothing. Set
# `KINETO_LOG_LEVEL=99` in the environment to hide them, as this book does.

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | far more calls than steps, or than samples | something runs once per sample, or twice | move it out of the loop; work on batches |
# | the loader takes most of the time | decoding text or images | another storage format, workers (chapter 04) |
# | a long total, a short self | it only calls the slow one | go one level down |
# | a tiny function at the top of cProfile | the profiler's own price, times many calls | confirm with a sampler or a race |
# | microseconds for a tensor of any size | overhead-bound | fewer, larger calls; fuse; compile (chapter 05) |
# | CPU time far above GPU time | the GPU waits for Python | the same |
# | `aten::copy_`, `aten::to` high up | data is moved or converted each step | keep it in place, in one precision |
# | the first step is many times wider | a one-off cost | a warm-up outside and one in the schedule |
# | a file of gigabytes | every step was recorded | `schedule` with `repeat`, fewer options |

# %% [markdown]
# ## Exercises
#
# 1. Store the batch as `float32` instead of `float64`. What does the loader gain now, and what else changes?
# 2. In `look_at`, leave out the line that sets the switch interval. Which function is met too often now, and why? (Which
#    of the two lets go of the interpreter while it works?)
# 3. Add a third layer to the small network. Predict how many `addmm` and `mm` five steps make, then count.
# 4. Find a size at which the product takes twice as long with two threads as with one (`torch.set_num_threads(2)`).
# 5. Write attention with `scaled_dot_product_attention` instead. Which labels can stay, and what becomes of the operators?
# 6. Choose a schedule that keeps steps 100 to 102 and 200 to 202 and nothing else. Check it with `kept`.
#
# Problem set 02 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=02`
# puts it into `build/release`. Exercise 2 comes back there as problem 3.

# %% [markdown]
# ## Sources
#
# - Python Software Foundation, *The Python Profilers* and `sys._current_frames`, *The Python Standard Library*, 2025.
# - R. Kern and others, *line_profiler*, documentation, 2025.
# - B. Frederickson, *py-spy: Sampling profiler for Python programs*, documentation, 2024: what it needs on which system.
# - PyTorch contributors, *torch.profiler* and *PyTorch Profiler recipe*, 2025: schedules, options, handlers.
# - D. E. Knuth, *An Empirical Study of FORTRAN Programs*, Software: Practice and Experience, 1971: most of the time in little
#   of the code.
# - S. L. Graham, P. B. Kessler and M. K. McKusick, *gprof: a Call Graph Execution Profiler*, SIGPLAN 1982: self and total.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
