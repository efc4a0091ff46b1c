# %% [markdown]
# # Measurement
#
# **How long does it take, and how sure are you?**
#
# After this chapter you can time a piece of a training script so that the number means something: with the right answer,
# without the first call, with the work really done, beside the noise of your machine. And you can say which of three
# things got faster: a step, a sample, or the way to an accuracy.
#
# *25 minutes to read, 30 seconds to run.*
#
# Five rules, each with a section that breaks it to see what happens:
#
# 1. Check first that the answers agree.
# 2. Warm up, and write the one-off cost down apart.
# 3. Wait until the work is done before you read the clock.
# 4. Repeat; quote the median and its spread.
# 5. Compare under the same conditions: machine, input, threads, load.

# %%
import dis
import random
import timeit
from functools import partial
from itertools import repeat
from statistics import mean, median
from time import perf_counter, sleep

import numpy as np
import torch
import torch.utils.benchmark
from sklearn.datasets import load_digits

from steptime import PairedRatios, Verdict, bench, claim, claim_on, claims, compare
from steptime.stream import Event, Stream
from steptime.style import COLOURS, Picture, figure
from steptime.units import duration

torch.set_num_threads(1)

# %% [markdown]
# ## What does a Python loop cost?
#
# A training script normalises its inputs, and for that it needs their variance: the mean of the squares of the
# centred pixels. Here are the pixels of 1,797 scanned digits, 8 by 8 each.

# %%
images = load_digits().images
pixels = images.ravel() - images.mean()
len(pixels)

# %% [markdown]
# Square each number, add up the squares, divide by how many there are. In Python, word for word:


# %%
def loop(x):
    total = 0.0
    for number in x:
        total += number * number
    return total / len(x)


# %% [markdown]
# And in NumPy, for the whole array at once:


# %%
def vectorised(x):
    return np.mean(x * x)


# %% [markdown]
# **Equal first.** Do the two agree to the last digit? Say yes or no, then look.

# %%
float(loop(pixels)), float(vectorised(pixels))

# %% [markdown]
# Not to the last digit. The loop adds one number after the other and rounds each time. NumPy adds in many short sums
# and then adds those, so it rounds in other places. One rounding is off by at most one part in 2^53, and in the loop a
# number goes through up to 115,008 of them: 1.3e-11 at the worst. A tolerance of 1e-10 lets every such difference pass and
# stops a real mistake. Leave out a single bright pixel and the mean moves by 2e-5 of itself.
#
# **Then fast.** How many times faster is the second? Replace the 30 by your guess before you run this.

# %%
guess = 30
race = compare(loop, vectorised, pixels, same=1e-10, guess=guess)
race

# %% [markdown]
# **Why?** Look at what Python does for each pixel: it is all that stands between `FOR_ITER` and `JUMP_BACKWARD`.

# %%
dis.dis(loop)

# %% [markdown]
# Python carries these out once per pixel, and for each product and each sum it first looks what it was given and makes
# an object for the result. `vectorised` looks once, at the whole array; the arithmetic then runs in compiled code,
# several numbers at a time.
#
# **Is the race fair?** The loop runs over a NumPy array, which makes a new object for every number: one of NumPy's own,
# slower to multiply than a Python number. A plain list holds Python numbers already. Same loop, same sums: does it matter?

# %%
numbers = pixels.tolist()
compare(loop, lambda _: loop(numbers), pixels, guess=1)

# %% [markdown]
# It does. Most of the loop's time went into NumPy's objects, not into Python's. So we gave the slow side a worse form than
# it deserves, and our ratio flattered the fast one. The fair race is this:

# %%
race = compare(lambda _: loop(numbers), vectorised, pixels, same=1e-10)
race

# %%
claim("the loop and the vectorised form agree to 1e-10", race.same)
claim(
    "the vectorised form is at least 20 times faster than the loop over a list",
    race.at_least(20),
)

# %% [markdown]
# Still a large ratio, and several times smaller than the first. Before you quote a speed-up, give the slow side its best
# form. This book quotes the second ratio.

# %% [markdown]
# ## Why is the first call slow?
#
# Cameras store brightness on a curve, and a loader often bends it back. To raise 65,536 grey levels to a power for each
# pixel is slow, so this one looks them up in a table. The table is made when it is first needed.


# %%
class Straighten:
    """Grey levels of 16 bits, from the camera's curve to brightness."""

    table, built = None, 0

    def __call__(self, image):
        if self.table is None:
            self.table = np.array([(level / 65_535) ** 2.2 for level in range(65_536)])
            self.built += 1
        return self.table[image]


# %% [markdown]
# All digits as one such image. How much longer than the others does the first call take: twice, ten times, more?

# %%
image = (load_digits().images * 4_095).astype(np.uint16)
straighten = Straighten()
bench(straighten, image)

# %% [markdown]
# The first call stands apart, at the end of the line, because it is another quantity. Averaged into the others it would
# belong to none of them. How often was the table built in all those calls?

# %%
straighten.built

# %% [markdown]
# One first call is one reading, and a single reading proves little. So race them: on one side a new `Straighten` each time,
# on the other the one that is warm.

# %%
race = compare(lambda image: Straighten()(image), straighten, image)
race

# %%
claim("the table is built once, whatever the number of calls", straighten.built == 1)
claim("a first call takes at least 10 times as long as a later one", race.at_least(10))

# %% [markdown]
# Neither number is wrong. A script that runs ten steps pays mostly the first; one that runs a million never notices it.
# Write both down. These are the one-off costs you will meet by name:
#
# | cost | when it comes | what it is |
# | --- | --- | --- |
# | allocation | the first tensors of each size | memory is asked for, and a page is only handed over when it is first written to |
# | lazily loaded modules | the first use of a function | Python imports, CUDA loads a kernel's code onto the device |
# | choice of algorithm | the first convolution of each shape | cuDNN tries several and keeps the fastest, if `torch.backends.cudnn.benchmark` is on |
# | `torch.compile` | the first call, and again for another kind of input | the function is traced, translated and compiled: seconds to minutes |
# | the file cache | the first pass over the data | later passes find the files in memory, if they fit |

# %% [markdown]
# ## Who is being timed?
#
# A GPU works behind your back. A line of Python hands it a piece of work and goes on at once; the work waits in a queue,
# a *stream*, and runs when its turn comes. The clock on the wall does not know that.
#
# Here is such a queue without a GPU. A `Stream` runs what you launch on a thread of its own, in order, while your code goes
# on: NumPy and torch let go of the interpreter while they compute, so both really run at once. The work is a product of
# two matrices.

# %%
a, b, c = torch.rand(700, 700), torch.rand(700, 700), torch.empty(700, 700)
work = partial(torch.mm, a, b, out=c)
bench(work)

# %% [markdown]
# Launch it on a stream and read the clock before and after. Predict the number.

# %%
stream = Stream()
stream.launch(work)
stream.synchronize()  # the thread is warm now
start = perf_counter()
stream.launch(work)
duration(perf_counter() - start)

# %% [markdown]
# That is the price of putting a note into a queue. The product was still being computed when the clock was read. To wait
# for it is called to *synchronise*:

# %%
start = perf_counter()
stream.launch(work)
stream.synchronize()
duration(perf_counter() - start)

# %% [markdown]
# One reading each proves little, so take thirty pairs. `PairedRatios` gives the median of their ratios and the interval
# it can lie in.


# %%
def launched_and_done():
    start = perf_counter()
    stream.launch(work)
    launched = perf_counter() - start
    stream.synchronize()
    return perf_counter() - start, launched


ratios = PairedRatios(launched_and_done() for _ in range(30))
ratios

# %%
claim(
    "the clock sees less than a tenth of the work if nobody waits for it", ratios.at_least(10)
)

# %% [markdown]
# **Which line gets the blame?** Time a step line by line: launch a product, launch another, then read one number of the
# result. Which of the three lines takes the time?


# %%
def step_by_lines():
    times = [perf_counter()]
    stream.launch(work)
    times.append(perf_counter())
    stream.launch(work)
    times.append(perf_counter())
    stream.synchronize()  # what .item() does on a GPU
    float(c[0, 0])
    times.append(perf_counter())
    return np.diff(times)


lines = [step_by_lines() for _ in range(60)]
for line, seconds in zip(("launch", "launch", "read one number"), np.median(lines, axis=0)):
    print(f"{line:<16} {duration(seconds)}")

# %%
read_and_launch = PairedRatios((read, first + second) for first, second, read in lines)
claim(
    "the line that waits takes at least 10 times as long as those that launch the work",
    read_and_launch.at_least(10),
)

# %% [markdown]
# The last line computes nothing. It is the first that has to wait, so it pays for the two above it. People have rewritten
# such a line for days.
#
# **Events.** To time a piece of work inside a queue, put a mark before it and one after it. The queue writes down the time
# when it comes to a mark, and nobody has to wait in between. The names are those of `torch.cuda`.

# %%
begin, end = Event(), Event()
begin.record(stream)
for _ in range(10):
    stream.launch(work)
end.record(stream)
stream.synchronize()
print(f"{begin.elapsed_time(end) / 10:.2f} ms a product")

# %% [markdown]
# `bench` and `compare` synchronise before they read the clock, on a stream and on a GPU. This is why they report the work:

# %%
bench(stream.launch, work)

# %% [markdown]
# **[GPU]** The same with CUDA events, around twenty steps of a small network: milliseconds a step, and samples a second. It
# runs where there is a GPU.


# %%
def cuda_events_see_the_work():
    layer, x = (
        torch.nn.Linear(4_096, 4_096, device="cuda"),
        torch.rand(4_096, 4_096, device="cuda"),
    )
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    layer(x).sum().backward()
    torch.cuda.synchronize()
    start = perf_counter()
    begin.record()
    for _ in range(20):
        layer(x).sum().backward()
    end.record()
    enqueued = perf_counter() - start
    torch.cuda.synchronize()
    step = begin.elapsed_time(end) / 20
    print(f"{step:.2f} ms a step, {4_096 / step * 1e3:,.0f} samples a second")
    print(f"launched in {duration(enqueued / 20)} a step")
    return enqueued < 20 * step / 1e3


claim_on("CUDA", "twenty steps are launched before they are done", cuda_events_see_the_work)

# %%
stream.close()

# %% [markdown]
# ## How many readings, and which number?
#
# A training step of 1 ms, read fifty times. During one of the readings something else happens: a backup starts, a page
# is swapped in, a colleague logs on. Here the step itself sleeps once, nine times as long as all readings before it took.


# %%
def readings_with_one_interruption():
    seen = []
    for number in range(50):
        start = perf_counter()
        sum(range(20_000))
        if number == 45:
            sleep(9 * sum(seen))
        seen.append(perf_counter() - start)
    return seen


seen = readings_with_one_interruption()

# %% [markdown]
# What does one reading in fifty do to the mean, and what to the median? Guess both before you look.

# %%
others = seen[:45] + seen[46:]
print(f"without it: mean {duration(mean(others))}, median {duration(median(others))}")
print(f"with it:    mean {duration(mean(seen))}, median {duration(median(seen))}")

# %%
average, typical = mean(seen), median(seen)
low, high = np.quantile(others, (0.25, 0.75))
claim("one interruption in fifty at least doubles the mean", average >= 2 * mean(others))
claim("the median stays between the quartiles of the others", low <= typical <= high)

# %% [markdown]
# The mean is now a time that hardly any reading took. Quote the median, and beside it the *spread*: between which times the
# middle half of the readings lies. `bench` prints both.
#
# Is the minimum not better still? It forgets whatever the machine did to you, but also whatever your code does to itself now
# and then: a collection of garbage, a batch of long texts. And it rests on one reading.

# %% [markdown]
# ## What can the clock see?
#
# Read the clock a hundred thousand times in a row. Two readings differ by what it takes to read it, or by nothing where
# the clock does not tick so fast.

# %%
ticks = np.diff([perf_counter() for _ in range(100_000)])
print(f"smallest step {duration(ticks[ticks > 0].min())}")
print(f"between two readings {duration(np.median(ticks))}")

# %% [markdown]
# How long does one addition take? Time it alone, between two looks at the clock. Then time a thousand in a row and divide.
# Which of the two times is longer, and by how much?


# %%
def alone(x):
    seen = []
    for _ in repeat(None, 1_000):
        start = perf_counter()
        x + x
        seen.append(perf_counter() - start)
    return median(seen)


def looped(x):
    start = perf_counter()
    for _ in repeat(None, 1_000):
        x + x
    return (perf_counter() - start) / 1_000


additions = PairedRatios((alone(1.5), looped(1.5)) for _ in range(30))
duration(alone(1.5)), duration(looped(1.5)), additions

# %%
claim(
    "an addition timed alone seems to take at least 1.5 times as long as in a loop",
    additions.at_least(1.5),
)

# %% [markdown]
# Alone, you time the clock. So a short function is called in a loop, long enough that two looks at the clock do not matter,
# and the number of calls is told:

# %%
bench(partial(max, 3, 5))

# %% [markdown]
# ## Is it slower, or is it later?
#
# This training step keeps its losses and averages them, to print a smooth curve. The list grows, so each step takes a
# little longer than the last.


# %%
class Step:
    """A step that averages all losses so far: 20 more of them each time."""

    def __init__(self):
        self.losses = []

    def __call__(self):
        self.losses += [0.5] * 20
        sum(self.losses) / len(self.losses)


# %% [markdown]
# Somebody wants to know whether a flag makes the step faster. They run a hundred steps without it, then a hundred with it. The
# flag does nothing at all: both run the same code. What will they find?


# %%
def read(step):
    start = perf_counter()
    step()
    return perf_counter() - start


def one_after_the_other():
    step = Step()
    without = [read(step) for _ in range(100)]
    with_flag = [read(step) for _ in range(100)]
    return median(with_flag), median(without)


later = PairedRatios(one_after_the_other() for _ in range(20))
later

# %% [markdown]
# The flag makes it much slower, they say, and they say so with twenty repetitions. Now take the two in turns, and let a coin
# decide who goes first in each pair.


# %%
def in_pairs(step, pairs=400):
    for _ in range(pairs):
        first, second = read(step), read(step)
        yield (first, second) if random.random() < 0.5 else (second, first)


paired = PairedRatios(in_pairs(Step()))
paired

# %%
claim(
    "timed one after the other, the same step seems at least 1.5 times slower",
    later.at_least(1.5),
)
claim("timed in pairs, it takes as long as itself within 5 %", paired.within(0.05))

# %% [markdown]
# Nothing about the second way is cleverer, it only asks at the same time. Whatever drifts, drifts for both: a list that grows,
# a processor that gets warm, a neighbour who comes and goes. `compare` draws its pairs like this.

# %% [markdown]
# ## What can your machine tell apart?
#
# Race a function against itself: an *A/A experiment*. There is nothing to find, so all that it shows is noise.


# %%
def add_up(rounds):
    total = 0.0
    for number in repeat(1.5, rounds):
        total += number
    return 0


same = compare(add_up, add_up, 20_000, budget=2)
same.within(0.05)

# %% [markdown]
# Each dot is a pair. How far do single pairs stray from 1, and how far does the median?

# %%
same.plot()

# %%
strayed = [abs(one / other - 1) for one, other in same.pairs]
half, tenth = np.quantile(strayed, (0.5, 0.9))
print(f"one pair in two strays by more than {half:.1%}, one in ten by more than {tenth:.1%}")
print(f"all {len(same.pairs)} pairs together: the ratio is {same.ratios}")

# %% [markdown]
# The first line is your noise floor for a single look: a difference smaller than that, seen once, is nothing. The second is
# what pairs make of it.
#
# An instrument that always says *no difference* would pass this test. So give it one to find: the same function with 5 %
# more rounds.

# %%
slower = compare(partial(add_up, 21_000), partial(add_up, 20_000), budget=2)
slower.differs()

# %%
claim("a function takes as long as itself within 5 %", same.within(0.05))
claim(
    "a race of a function against itself finds no difference",
    same.differs().answer is not True,
)
claim("5 % more work is found to take longer", slower.differs())

# %% [markdown]
# ## Faster at what?
#
# A batch of 1,024 images takes longer than a batch of 16. It also holds more. Three quantities are called speed:
#
# - *latency*: seconds a step;
# - *throughput*: samples a second;
# - *time to accuracy*: seconds until the network is right often enough.
#
# Train one network on the digits at four batch sizes, all else equal. Before you look: which size wins in each of the three?

# %%
images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
x, y = torch.tensor(images[order] / 16, dtype=torch.float32), torch.tensor(labels[order])
x, y, held_out, truth = x[:1_280], y[:1_280], x[1_280:], y[1_280:]


# %%
class Training:
    """A network with one hidden layer, and its optimiser; called with a batch, it steps."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        )
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def __call__(self, x, y):
        self.optimiser.zero_grad()
        torch.nn.functional.cross_entropy(self.net(x), y).backward()
        self.optimiser.step()

    def accuracy(self):
        with torch.no_grad():
            return (self.net(held_out).argmax(1) == truth).float().mean().item()


# %%
def batches(size):
    """Batches without end, shuffled anew for each pass over the data."""
    shuffle = torch.Generator().manual_seed(0)
    while True:
        for chosen in torch.randperm(len(x), generator=shuffle).split(size):
            if len(chosen) == size:
                yield x[chosen], y[chosen]


# %% [markdown]
# Only the steps are timed. A look at the accuracy, after every tenth step, costs time as well and would hide them.


# %%
def train(size, target=0.95):
    """The seconds of each step, until `target` of the held-out digits are right."""
    training, seconds = Training(), []
    for batch in batches(size):
        start = perf_counter()
        training(*batch)
        seconds.append(perf_counter() - start)
        if len(seconds) % 10 == 0 and training.accuracy() >= target:
            return seconds


train(16)  # the very first steps pay for what torch sets up
runs = {size: train(size) for size in (16, 64, 256, 1_024)}

# %%
print("batch    latency  samples/s   to 95 %: steps  samples  seconds")
for size, seconds in runs.items():
    steps, latency = len(seconds), median(seconds)
    print(f"{size:>5}  {duration(latency):>9}  {size / latency:>9,.0f}", end="")
    print(f"  {steps:>14}  {steps * size:>7,}  {duration(sum(seconds)):>7}")

# %%
sizes, first = list(runs), runs[16]
lines = {
    "latency": [median(seconds) / median(first) for seconds in runs.values()],
    "throughput": [size / 16 * median(first) / median(runs[size]) for size in sizes],
    "time to 95 %": [sum(seconds) / sum(first) for seconds in runs.values()],
}
canvas, axes = figure()
for (name, values), colour, mark in zip(lines.items(), COLOURS.values(), "os^"):
    axes.plot(sizes, values, marker=mark, color=colour, label=name)
axes.set(xscale="log", yscale="log", xlabel="samples in a batch", ylabel="times batch 16")
axes.set_xticks(sizes, sizes)
axes.set_yticks([1, 2, 5, 10], ["1x", "2x", "5x", "10x"])
axes.minorticks_off()
axes.legend(frameon=False)
ends = "; ".join(f"{name} goes to {values[-1]:.2g}x" for name, values in lines.items())
caption = "Throughput rises with the batch, and the time to the same accuracy rises too."
Picture(canvas, f"From batch 16 to 1,024: {ends}.", caption)

# %% [markdown]
# Nearly the same number of steps, whatever the batch! Each step is a small one, by the learning rate, and a batch of 1,024
# only says more exactly which way to go. So the largest batch has the highest throughput and is the last to arrive: it does
# more work a second, and far more work in all.

# %%
steps = {size: len(seconds) for size, seconds in runs.items()}
samples = steps[1_024] * 1_024 / (steps[16] * 16)
evidence = (
    f"{steps[16]} steps of 16 and {steps[1_024]} of 1,024: {samples:.0f} times the samples"
)
claim(
    "batches of 1,024 need at least 10 times the samples that batches of 16 need",
    Verdict(samples >= 10, evidence),
)
claim("64 times the batch saves less than half of the steps", steps[1_024] > steps[16] / 2)

# %% [markdown]
# People who train with large batches raise the learning rate with them, and that buys some of the steps back (exercise 5).
# So *samples a second* compares two ways of doing the same steps. It does not compare two batch sizes.
#
# Training is claimed in steps in this book, not in seconds. Steps are exact, and seconds are printed beside them.

# %% [markdown]
# ## Is timeit not enough?
#
# Often it is. Here is the loop against the vectorised form once more, by `timeit` alone: sixty pairs.

# %%
numbers = (load_digits().images.ravel() / 16).tolist()
array = np.array(numbers)


def loop():
    return sum(number * number for number in numbers) / len(numbers)


def vectorised():
    return np.mean(array * array)


readings = PairedRatios(
    (timeit.timeit(loop, number=1), timeit.timeit(vectorised, number=1)) for _ in range(60)
)
readings

# %%
claim("timeit alone finds the vectorised form at least 5 times faster", readings.at_least(5))

# %% [markdown]
# Where the effect is large, any careful clock shows it. Now an effect that is not there: the vectorised form against itself,
# twenty times. `timeit` gives the best of five for each side. `torch.utils.benchmark` gives the middle half of its
# readings, and people take two halves that do not overlap for a difference. How many of the twenty times will each of the
# two find one of more than 2 %?


# %%
def best(function):
    return min(timeit.repeat(function, number=20, repeat=5))


def middle_half(function):
    timed = torch.utils.benchmark.Timer(
        "function()", globals={"function": function}
    ).blocked_autorange(min_run_time=0.02)
    return np.quantile(timed.times, (0.25, 0.75))


found = {"timeit": 0, "torch.utils.benchmark": 0}
for _ in range(20):
    found["timeit"] += abs(best(vectorised) / best(vectorised) - 1) > 0.02
    one, other = middle_half(vectorised), middle_half(vectorised)
    found["torch.utils.benchmark"] += bool(
        max(one[0], other[0]) > 1.02 * min(one[1], other[1])
    )
found

# %% [markdown]
# On a quiet machine few, on a busy one many: run the cell again while something else works. Neither tool is at fault. They
# measure one function at a time, and whatever changes in between looks like a difference. Here is what each does for you:
#
# | | `timeit` | `torch.utils.benchmark` | `compare` |
# | --- | --- | --- | --- |
# | calls a short function in a loop | you say how often | yes | yes |
# | leaves the first call out | no | yes | yes, and keeps it |
# | waits for a GPU | no | yes | yes |
# | one thread, unless told otherwise | no | yes | no: as you set it |
# | checks the answers | no | no | yes |
# | takes both sides in turns | no | no | yes |
# | says *cannot tell* | no | warns of a wide spread | yes |
# | enough for | an effect of 2x or more, on the CPU | one operator over many sizes and threads, GPU too | a decision |

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | a `for` loop over the numbers of an array or a tensor | the interpreter works once per number | one operation on the whole array |
# | a loop slower over an array than over a list | NumPy makes an object for each number | `.tolist()` once, or no loop |
# | answers that agree to 12 digits, not to 16 | the same additions in another order | a tolerance that follows from the number of additions |
# | answers that agree to 3 digits | a mistake, or a lower precision | find out which before you time anything |
# | a first call many times longer than the rest | something is built, loaded or compiled once | write it down apart, then time the rest |
# | a step of microseconds on a GPU | only the launch was timed | synchronise, or use events |
# | `.item()`, `print` or `.cpu()` is the slowest line | it waits for the work launched above it | time with events, or profile |
# | a mean far above the median | a few long readings | quote the median, then look for what they were |
# | all readings near 50 ns, or in whole microseconds | you time the clock | call the function in a loop |
# | the second of two always wins, or always loses | drift, or a cache that is warm | take both in turns |
# | more samples a second, and a later finish | more work for the same accuracy | compare the time to accuracy |

# %% [markdown]
# ## Exercises
#
# 1. `x * x` writes a second array as large as the first. Find a form that does not (a vector times itself is a number) and
#    race it against `vectorised`. Predict the ratio.
# 2. In the first race set `same=0` and run it again. What does it say, and what did it not do?
# 3. Race the two forms on `pixels[:10]`, then on more. From which length on is the vectorised form faster?
# 4. Launch 2,000 products of two 10 by 10 matrices on a `Stream` and time each launch. Which one is slow, and why? (The
#    queue holds 1,024.)
# 5. Let `Training` take a learning rate that grows with the batch size, up to 0.8. How many steps do large batches save now?
#    Where does it stop to help?
# 6. How small a difference can your machine find in two seconds? Race `add_up` against itself with 2 %, 1 %, 0.5 % and
#    0.2 % more rounds. Then do it while a video plays.
#
# Problem set 01 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=01`
# puts it into `build/release`. Exercise 4 comes back there as problem 3, exercise 5 as problem 2.

# %% [markdown]
# ## Sources
#
# - E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998: the digits.
# - N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, chapter 4: how far a sum can be off.
# - NumPy developers, *NumPy reference*, `numpy.sum`, 2025: partial pairwise summation.
# - Python Software Foundation, *The Python Standard Library*, `dis`, `time` and `timeit`, 2025.
# - PyTorch contributors, *CUDA semantics* and *Benchmark Utils*, 2025: asynchronous execution; what the timer does.
# - T. Hoefler and R. Belli, *Scientific Benchmarking of Parallel Computing Systems*, SC 2015: medians, spreads, warm-up.
# - A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, *Game-Theoretic Statistics and Safe Anytime-Valid Inference*, 2023: why
#   one may stop when one likes.
# - C. J. Shallue and others, *Measuring the Effects of Data Parallelism on Neural Network Training*, JMLR 2019: steps to an
#   accuracy against batch size.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
