# %% [markdown]
# # Data supply
#
# **Does training wait for its data, and what would it gain if it did not?**
#
# After this chapter you can say what part of a step is waiting, compute the best that overlapping could give, reach it, and
# say why it is not reached. You know what each option of torch's `DataLoader` costs, and two ways in which several
# workers can spoil an epoch without a word. Read it before you make a network faster: a step that waits for its data
# is what people find most often, and it hides whatever else you change.
#
# *25 minutes to read, 30 seconds to run. Longer where each worker is a new Python: on macOS and Windows, not tried yet.*
#
# The data are two photographs, a temple in China and a flower, cut into small pieces. Which of the two does a piece come
# from? The first cell writes them, once, to `.cache/steptime` in your home folder: 14 MB of JSON texts, arrays and JPEG files.

# %%
import inspect
import os
import tempfile
import warnings
from collections import Counter
from itertools import count, islice
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter, process_time, sleep

import numpy as np
import psutil
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, Subset

from steptime import PairedRatios, Verdict, claim, claim_on, claims, compare, sources
from steptime.pipeline import pipeline
from steptime.style import COLOURS, Picture, figure
from steptime.supply import same_batch, watch
from steptime.units import duration

torch.set_num_threads(1)
warnings.filterwarnings(
    "ignore", "This DataLoader will create"
)  # more workers than cores: we do so on purpose
data = sources.photographs()

# %% [markdown]
# ## Does training wait for its data?
#
# Each record is a line of text: 768 numbers, the colours of 16 by 16 pixels, and a label.

# %%
texts = sources.Texts(data / "records.jsonl")
print(f"{texts.path.read_text()[:60]} … {len(texts):,} records")


# %%
class Training:
    """A small network and its optimiser. Called with a batch, it takes a step."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(768, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        )
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def __call__(self, batch):
        pixels, labels = batch
        self.optimiser.zero_grad()
        torch.nn.functional.cross_entropy(self.net(pixels / 255), labels).backward()
        self.optimiser.step()


# %% [markdown]
# `watch` gives you the loader back, with a log. Put it into the loop where the loader stood, and nothing else changes. The
# time until a batch arrives is the *wait*, the rest of the step is the *computation*. Before you run it: what part of the
# time will be waiting? That is the *wait share*.

# %%
training = Training()
loader = watch(DataLoader(texts, batch_size=64, shuffle=True))
for _ in range(3):
    for batch in loader:
        training(batch)
loader.log

# %%
loader.log.plot()

# %%
waits_and_computations = PairedRatios(zip(loader.log.waits, loader.log.computes))

# %%
claim(
    "a step waits at least 2 times as long for its batch as it computes on it",
    waits_and_computations.at_least(2),
)

# %% [markdown]
# Most of this training is reading. A network that took no time at all would save only the small part of each bar.
#
# **Believe it?** There is another way to ask, which needs no clock inside of the step. Train on the loader's batches. Then
# train on one batch that stays in place, for as many steps. Nothing has to be supplied now, so what the steps lose is the
# price of supply. This is the *same-batch experiment*.

# %%
seen = same_batch(DataLoader(texts, batch_size=16, shuffle=True), training, steps=120)
seen

# %% [markdown]
# Both ways say that most of the step is supply. If they are right, a wait and a step on the kept batch make up a whole
# step. Expect a little less: after all the reading, what the step needs is no longer in the processor's caches.

# %%
waits, computes = np.array(seen.supplied.waits), np.array(seen.supplied.computes)
kept = np.array(seen.kept.computes)
rebuilt = PairedRatios(zip(waits + computes, waits + kept))

# %%
claim(
    "a wait and a step on the kept batch make up a step within a third", rebuilt.within(0.33)
)

# %% [markdown]
# Where they do not agree, look at the difference. A batch that is decoded at its first use, inside of the step, is supply
# that nobody sees waiting: only the same-batch experiment finds it.

# %% [markdown]
# ## What does the format cost?
#
# If preparing is what takes the time, prepare less. To parse a number from text means to look at each of its digits, every
# epoch again. `write_shards` has written the same records as bytes: files of up to 512 records, called *shards*.

# %%
texts, shards = sources.Texts(data / "records.jsonl"), sources.Shards(data / "shards")
sorted(path.name for path in shards.folder.iterdir())


# %%
def from_texts(chosen):
    pixels, labels = zip(*(texts[number] for number in chosen))
    return np.stack(pixels), np.array(labels)


def from_shards(chosen):
    return shards[chosen]


# %% [markdown]
# Equal first, exactly. Then: how many times faster is a batch of 64 records, drawn at random?

# %%
chosen = np.random.default_rng(0).permutation(len(shards))[:64].tolist()
guess = 10
race = compare(from_texts, from_shards, chosen, budget=3, guess=guess)
race

# %%
text_bytes = texts.path.stat().st_size
shard_bytes = sum(path.stat().st_size for path in shards.folder.iterdir())
evidence = f"{text_bytes:,} and {shard_bytes:,} bytes"
evidence

# %%
claim("the shards hold the same records as the texts", race.same)
claim(
    "a batch from the shards comes at least 15 times faster than from the texts",
    race.at_least(15),
)
claim(
    "as text the records take at least 3 times the bytes",
    Verdict(text_bytes >= 3 * shard_bytes, evidence),
)

# %% [markdown]
# The bytes alone do not explain it. Four times fewer of them come many times faster, since nothing is parsed and no file
# is opened for each record: a row of the file is a row of the array.
#
# The files are *mapped into memory*. Opening one reads next to nothing; the system reads a page of it, 4 KiB or more, when
# somebody first touches it, and throws it away again when memory gets short. So the data may be larger than the memory.
#
# **Cold or warm?** What was read once stays in memory as long as there is room: the *file cache*. Here we ask Linux to
# forget the file and read it, then read it again. Guess how much faster the second is. (macOS and Windows have no such
# request.)


# %%
def read_the_texts(is_cold):
    """Seconds, and blocks of 512 bytes that came from the disk."""
    import resource

    with texts.path.open("rb") as file:
        if is_cold:
            os.fsync(file.fileno())  # what is not on the disk yet is not forgotten
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        blocks, start = resource.getrusage(resource.RUSAGE_SELF).ru_inblock, perf_counter()
        file.read()
        return perf_counter() - start, resource.getrusage(
            resource.RUSAGE_SELF
        ).ru_inblock - blocks


# %%
for state in ("cold", "warm") * 3 if hasattr(os, "posix_fadvise") else ():
    seconds, blocks = read_the_texts(state == "cold")
    print(f"{state}: {duration(seconds)}, {blocks:,} blocks from the disk")

# %% [markdown]
# A benchmark that reads a small data set again and again times the memory, not the disk. The first epoch is the honest
# one; where the data do not fit into memory, so is every other. On a virtual machine even a cold read may come from its
# host's memory. If no block came from the disk when it was cold, your home folder may lie in memory or on a network, and
# the request did nothing.

# %% [markdown]
# ## What is decoded twice?
#
# Pictures come as JPEG. Here are larger pieces of the photographs, 256 by 256 pixels, each decoded and made smaller when
# it is asked for. That happens in every epoch, and the result is always the same.

# %%
pictures = sources.Pictures(data / "jpeg")
chosen = list(range(8))
sizes = [path.stat().st_size for path in pictures.paths]
print(f"{len(pictures)} files of {np.mean(sizes):,.0f} bytes")

# %% [markdown]
# So decode once and keep what comes out, in shards. How many times faster is every later epoch?

# %%
folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
start = perf_counter()
sources.write_shards(pictures, Path(folder.name) / "decoded")
decoded = sources.Shards(Path(folder.name) / "decoded")
print(f"decoded {len(decoded)} pictures once in {duration(perf_counter() - start)}")

# %%
race = compare(
    lambda: np.stack([pictures[number][0] for number in chosen]),
    lambda: decoded[chosen][0],
    budget=3,
)
race

# %%
claim("what was decoded once is what is decoded again", race.same)
claim("8 decoded pictures come at least 15 times faster than 8 JPEG files", race.at_least(15))

# %% [markdown]
# It has a price. At full size a decoded picture takes 196,608 bytes, many times its file, and a disk that is far away may
# make you wait longer for them than the decoding took. Here the pictures were made small first. And what is drawn at
# random for each epoch, a crop or a flip, must still be done in the loader, after the shards are read.

# %% [markdown]
# ## What can overlap give at best?
#
# Some preparation is waiting: for a disk, for a server. Here is a source that answers after 30 ms. The computation stands
# in for that of a GPU: the processor rests for 8 ms.


# %%
def train(loader, seconds=0.008):
    watched = watch(loader)
    for _ in watched:
        sleep(seconds)
    return watched.log


remote = sources.Remote(range(100), latency=0.03)

# %%
serial = train(DataLoader(Subset(remote, range(41)), batch_size=None))
serial

# %% [markdown]
# Preparation t_d and computation t_c come one after the other: a step takes t_d + t_c. A second process, a *worker*, can
# prepare the next batch during the computation. Then the slower of the two sets the pace: max(t_d, t_c). With w workers
# that prepare at the same time it is max(t_d / w, t_c). Nothing that overlaps can be faster: this is the *bound*.

# %%
print(f"serial            {duration(serial.serial)}")
for workers in (1, 2, 4, 8):
    print(
        f"bound, {workers} worker{'s' * (workers > 1)}  {duration(serial.bound(workers)):>8}"
    )

# %% [markdown]
# So two workers promise about 15 ms a step, and eight promise no more than 8 ms. The bound costs you one log. Is it
# reached?

# %%
one = train(DataLoader(Subset(remote, range(41)), batch_size=None, num_workers=1))
two = train(DataLoader(Subset(remote, range(82)), batch_size=None, num_workers=2))
two.plot(bound=serial.bound(2))

# %%
print(f"one worker   {duration(one.step)} a step · {one.reached(serial, 1)} of the bound")
print(f"two workers  {duration(two.step)} a step · {two.reached(serial, 2)} of the bound")

# %%
claim("one worker reaches max(t_d, t_c) within 15 %", one.reached(serial, 1).within(0.15))
claim("two workers reach max(t_d / 2, t_c) within 15 %", two.reached(serial, 2).within(0.15))

# %% [markdown]
# Look at the first bar. Before anything can overlap, the workers must start, and somebody must prepare the first batch.
# Let the workers stay, and only the second remains: the *filling* of the pipeline, once for every epoch. Twenty short
# epochs, with a computation so long that two workers are never late:

# %%
loader = DataLoader(
    Subset(remote, range(4)), batch_size=None, num_workers=2, persistent_workers=True
)
train(loader)  # the workers start
epochs = [train(loader, seconds=0.02) for _ in range(20)]
filling = PairedRatios((log.waits[0], np.mean(log.waits[1:])) for log in epochs)
filling

# %%
claim(
    "the first step of an epoch waits at least 4 times as long as the others",
    filling.at_least(4),
)

# %% [markdown]
# No other option of a loader brings you below the bound with w workers. Where t_d / w is the larger, faster preparation
# does, as in the two sections before. Where t_c is, only a faster computation (chapter 05).

# %% [markdown]
# ## Why do workers help less when they compute?
#
# A worker that waits for a server needs no processor. A worker that decodes JPEG needs one all the time, and you have
# only so many. To see the same everywhere, this section keeps to two cores where the system lets it.

# %%
kernel = psutil.Process()
can_be_kept = hasattr(kernel, "cpu_affinity")
all_cores = kernel.cpu_affinity() if can_be_kept else range(psutil.cpu_count())
if can_be_kept:
    kernel.cpu_affinity(all_cores[:2])
cores = min(2, len(all_cores)) if can_be_kept else len(all_cores)

# %%
pictures = sources.Pictures(data / "jpeg")
batches = [*BatchSampler([*range(len(pictures))] * 4, batch_size=4, drop_last=True)]
many = 2 * cores
print(f"{len(batches)} batches, {cores} cores, up to {many} workers")

# %% [markdown]
# How long is a processor busy with one batch? `process_time` counts only the time that it works for us, neighbours or not.


# %%
def core_time(chosen):
    start = process_time()
    pictures[chosen]
    return process_time() - start


core_times = [core_time(chosen) for chosen in batches[:40]]
busy = float(np.median(core_times))
duration(busy)

# %% [markdown]
# One source computes that long for each batch. Another waits eight times as long and hardly computes. Nothing trains here:
# we only want the batches. How many times faster than no worker are two, and how many times faster are twice as many
# workers as cores? Guess for both sources.


# %%
def log_of(source, workers):
    enough = batches if workers else batches[:60]
    watched = watch(DataLoader(source, sampler=enough, batch_size=None, num_workers=workers))
    for _ in watched:
        pass
    return watched.log


# %%
kinds = {
    "computing": pictures,
    "waiting": sources.Remote(sources.Shards(data / "shards"), latency=8 * busy),
}
counts = sorted({0, 2, many})
logs = {
    (name, workers): log_of(source, workers)
    for name, source in kinds.items()
    for workers in counts
}
speed = {key: logs[key[0], 0].step / log.step for key, log in logs.items()}
for (name, workers), log in logs.items():
    times = f"{speed[name, workers]:.1f}x"
    print(f"{name:<9}  {workers} workers  {duration(log.step):>8} a batch  {times}")

# %%
canvas, axes = figure()
for name, colour, mark in zip(kinds, (COLOURS["threshold"], COLOURS["estimate"]), "os"):
    axes.plot(
        counts,
        [speed[name, workers] for workers in counts],
        marker=mark,
        color=colour,
        label=name,
    )
axes.plot([1, many], [1, many], color=COLOURS["pairs"], linestyle="--", label="no competition")
axes.set(xlabel="workers", ylabel="times as fast as none", xticks=counts, ylim=(0, None))
axes.legend(frameon=False)
alt = "; ".join(
    f"{name} with {workers} workers {times:.1f}x" for (name, workers), times in speed.items()
)
Picture(
    canvas,
    f"Speed against workers: {alt}.",
    "Workers that wait add up. Workers that compute share the cores.",
)

# %%
steps = np.add(logs["computing", many].waits, logs["computing", many].computes)[1:]
rounds = steps[: len(steps) // many * many].reshape(-1, many).mean(axis=1)
missed = PairedRatios(zip(rounds, np.array(core_times) / many))
waited = logs["waiting", many].reached(logs["waiting", 0], many)
if can_be_kept:
    kernel.cpu_affinity(all_cores)

# %%
claim(
    "twice as many computing workers as cores stay at least 1.25 times above t_d / w",
    missed.at_least(1.25),
)
claim(
    "as many workers that wait reach at least three quarters of the bound",
    waited.at_least(0.75),
)

# %% [markdown]
# The bound asked for workers that do not compete. These do: two cores give two seconds of work a second, whoever asks.
# With w workers on c cores a batch that computes takes at least t_d / min(w, c), and on a machine that others use even
# the second worker may bring little. Training needs a core too.
#
# So look first at what your loader does. If it waits, add workers until the bound or the memory ends. If it computes, the
# number of cores is the end, and only less work helps. torch warns of more workers than cores, and for loaders that compute
# it is right. (We silenced it in the first cell.)

# %% [markdown]
# ## How far ahead do workers work?
#
# A worker that is done goes on with the next batch, up to a limit: `prefetch_factor` batches for each worker, 2 unless you
# say otherwise. They lie in memory. The *sampler* draws the numbers of the records, so count how many it has drawn when
# the first batch arrives.


# %%
class Counted:
    """A sampler that counts what was drawn of it."""

    def __init__(self, count):
        self.numbers, self.drawn = range(count), 0

    def __iter__(self):
        for number in self.numbers:
            self.drawn += 1
            yield number

    def __len__(self):
        return len(self.numbers)


# %%
shards = sources.Shards(data / "shards")


def drawn_ahead(factor):
    sampler = Counted(100)
    batches = iter(
        DataLoader(
            shards, sampler=sampler, batch_size=None, num_workers=2, prefetch_factor=factor
        )
    )
    next(batches)
    return sampler.drawn - 1


# %%
ahead = {factor: drawn_ahead(factor) for factor in (1, 2, 8)}
ahead

# %%
claim(
    "two workers are given 2 x prefetch_factor batches ahead",
    ahead == {factor: 2 * factor for factor in ahead},
)

# %% [markdown]
# What is it good for? Not for the pace: that is the bound's. But preparation is not always equally long. This source
# answers at once, but every eighth record takes 40 ms: 5 ms on average. A computation of 8 ms could hide all of it. Does
# it?


# %%
def uneven(factor):
    source = sources.Remote(range(144), latency=0, stall=0.04)
    loader = watch(DataLoader(source, batch_size=None, num_workers=1, prefetch_factor=factor))
    for _ in loader:
        sleep(0.008)
    return loader.log


# %%
short, long = uneven(1), uneven(8)
short.plot()

# %%
by_eight = PairedRatios(
    zip(*(np.reshape(log.waits[8:], (-1, 8)).sum(axis=1) for log in (short, long)))
)
print(f"waiting: {short.wait_share:.0%} with a factor of 1, {long.wait_share:.0%} with 8")

# %%
claim("working 8 batches ahead takes at least half of the waiting away", by_eight.at_least(2))

# %% [markdown]
# Every eighth step waits, though on average there is time enough: one batch in store lasts 8 ms, the stall 40. Eight in
# store outlast it. If the wait share stays as it is when you raise `prefetch_factor`, preparation is too slow on average,
# and more batches in store only cost memory.

# %% [markdown]
# ## What do workers cost?
#
# A loader starts its workers at the beginning of an epoch and ends them with it, unless `persistent_workers=True`. The
# source tells which process read a record. How many processes do two workers make in three epochs?

# %%
source = Subset(sources.Traced(sources.Shards(data / "shards")), range(8))


def three_epochs(persistent):
    loader = watch(
        DataLoader(source, batch_size=None, num_workers=2, persistent_workers=persistent)
    )
    readers = {process for _ in range(3) for process, _ in loader}
    firsts = ", ".join(duration(wait) for wait in loader.log.waits[::8])
    print(f"{len(readers)} processes; first batches after {firsts}")
    return len(readers)


# %%
started = {persistent: three_epochs(persistent) for persistent in (False, True)}

# %%
claim("two workers are six processes in three epochs", started[False] == 6)
claim("with persistent_workers they are two", started[True] == 2)

# %% [markdown]
# Nor are the batches that they bring free. A batch that a worker made is handed over to your process: it is put into
# shared memory, a handle to it goes through a queue, and both processes have to be woken. Here are batches from the
# shards, nothing else to do, from a worker and without any. Which is faster?


# %%
def waits(workers):
    parts = [slice(start, start + 64) for start in range(0, 2_048, 64)]
    loader = watch(
        DataLoader(
            sources.Shards(data / "shards"),
            sampler=parts,
            batch_size=None,
            num_workers=workers,
        )
    )
    for _ in loader:
        pass
    return loader.log.waits[1:]


handed_over = PairedRatios(zip(waits(1), waits(0)))
handed_over

# %%
claim(
    "a batch that takes no time to prepare takes at least 2 times longer from a worker",
    handed_over.at_least(2),
)

# %% [markdown]
# Workers are for preparation that takes longer than the handing over. From fast shards, read in the loop.
#
# On Linux, up to Python 3.13, a worker is a copy of your process (*fork*): a fraction of a second. On macOS
# and Windows it is a new Python that imports everything anew (*spawn*), torch too: seconds, in every epoch unless the
# workers persist. Since Python 3.14 Linux forks them from a small server process (*forkserver*) that knows nothing of
# yours, so they import too. Such a worker has to find your data set by its name, in a module. That is why the sources
# of this chapter are in a file and not in its cells:

# %%
print(inspect.getsource(sources.Share))

# %% [markdown]
# ## What does the batch size do to the loader?
#
# This source takes 5 ms for a request, be it for one record or for a hundred. Predict the samples a second for batches
# of 1, 16 and 256 records.

# %%
remote = sources.Remote(sources.Shards(data / "shards"), latency=0.005)


def batches_of(size, drop_last=False):
    return DataLoader(
        remote,
        sampler=BatchSampler(SequentialSampler(remote), size, drop_last),
        batch_size=None,
    )


# %%
for size in (1, 16, 256):
    loader = watch(batches_of(size))
    for _ in islice(loader, 9):
        pass
    wait = loader.log.wait
    print(f"{size:>4} a batch: {duration(wait)} a step, {size / wait:>8,.0f} samples a second")

# %% [markdown]
# The fixed price of a request is shared by the batch. But the batch size also changes what is learnt, as chapter 01 has
# shown, so it is not the loader's to choose. Ask for several records at once even where a batch is small.
#
# And the last batch? 2,080 records make 32 batches of 64 and a rest.

# %%
sizes = [len(labels) for _, labels in batches_of(64)]
full = [len(labels) for _, labels in batches_of(64, drop_last=True)]
len(sizes), sizes[-1], len(full), full[-1]

# %%
claim("64 a batch give 33 steps, the last of 32 records", (len(sizes), sizes[-1]) == (33, 32))
claim("drop_last gives 32 steps of 64", full == [64] * 32)

# %% [markdown]
# A batch of another size is another shape: with `torch.compile` that costs a compilation (chapter 05), and its gradient is
# noisier. Where records are drawn anew in each epoch, dropping the rest loses nothing for long.
#
# **[GPU]** A GPU fetches a batch from memory by itself, while the processor goes on, if the batch lies in *pinned*
# memory, which the system may not move. `DataLoader(..., pin_memory=True)` puts it there, and `.to("cuda",
# non_blocking=True)` does not wait. It takes both. From pinned memory without `non_blocking` the copy is faster, but you
# wait for it; from ordinary memory you wait in any case, until the batch has been copied out. This runs where there is
# a GPU, and was not run for this book yet.


# %%
def pinned_copies_are_not_waited_for():
    pageable = torch.zeros(100_000_000, dtype=torch.uint8)
    pinned = pageable.pin_memory()

    def returned(batch):
        torch.cuda.synchronize()
        start = perf_counter()
        batch.to("cuda", non_blocking=True)
        return perf_counter() - start

    return PairedRatios((returned(pageable), returned(pinned)) for _ in range(30)).at_least(3)


claim_on(
    "CUDA",
    "a copy from pinned memory returns at least 3 times sooner",
    pinned_copies_are_not_waited_for,
)

# %% [markdown]
# ## Does every sample come once?
#
# A data set with an index is split by the loader: each worker is told which records to fetch. A stream has no index. An
# `IterableDataset` is copied into every worker, and each copy starts from the beginning. Here are the two sources, as
# they are:

# %%
print(inspect.getsource(sources.Everything), inspect.getsource(sources.Share), sep="\n")


# %%
def times_seen(stream, workers):
    loader = DataLoader(stream, batch_size=None, num_workers=workers)
    return Counter(Counter(int(number) for number in loader).values())


# %% [markdown]
# How often does a sample of 1,000 come with two workers? `{2: 1000}` means that a thousand samples came twice.

# %%
unsplit = times_seen(sources.Everything(1_000), 2)
split = times_seen(sources.Share(1_000), 2)
alone = times_seen(sources.Share(1_000), 0)
unsplit, split, alone

# %%
claim("two workers give every sample of a stream twice", unsplit == {2: 1_000})

# %%
claim(
    "split by get_worker_info, every sample comes once, with workers and without",
    split == alone == {1: 1_000},
)

# %% [markdown]
# No error, no warning: an epoch has twice the samples, and the network sees everything twice. (torch warns only where
# the stream has a length and somebody asked the loader for it.) It is found by counting. Streams read from files are
# split by files instead: worker k takes every w-th shard.

# %% [markdown]
# ## Do two workers draw the same random numbers?
#
# Loaders change records at random: they crop, flip, brighten. The random numbers come from NumPy's global generator, or
# from torch's, or from one that the data set holds. A worker gets a copy of the data set. What becomes of the third?

# %%
draws = [*DataLoader(sources.Draws(1_000, seed=0), batch_size=None, num_workers=2)]
different = {
    name: len(set(column)) for name, column in zip(("NumPy's", "torch's", "held"), zip(*draws))
}
different

# %%
claim(
    "the global generators never repeat a number",
    different["NumPy's"] == different["torch's"] == 1_000,
)
claim("a generator that the data set holds gives each number twice", different["held"] == 500)

# %% [markdown]
# torch gives every worker a seed of its own, and from it NumPy's global generator and Python's `random` theirs. It cannot
# know of yours: both workers hold a copy in the same state. And the next epoch, with new workers, starts from the same
# copy again. The mend is a function that each worker calls when it starts:

# %%
print(inspect.getsource(sources.own_generator))

# %%
loader = DataLoader(
    sources.Draws(1_000, seed=0),
    batch_size=None,
    num_workers=2,
    worker_init_fn=sources.own_generator,
)
held = [number for _ in range(2) for _, _, number in loader]
len(held), len(set(held))

# %%
claim(
    "with a generator for each worker, no number repeats in two epochs",
    len(set(held)) == 2_000,
)

# %% [markdown]
# To have the same numbers again on purpose, give the loader a seed: `generator=torch.Generator().manual_seed(0)`. The
# workers' seeds come from it.

# %% [markdown]
# ## What if the DataLoader does not fit?
#
# A batch need not be a list of records. It can be a simulation, an archive of pictures, whatever one file holds. Then you
# want the same machine without the data set: processes that produce, a queue in front of the consumer, and a *bound* on
# the queue, or fast producers fill the memory.
#
# `steptime.pipeline` is such a thing, in [one short file](../src/steptime/pipeline.py). Each producer has a pipe of its
# own. The consumer hands out jobs, `ahead` to each producer at most, and takes the batches in the order of the jobs.
# Equal first:

# %%
pictures = sources.Pictures(data / "jpeg")
jobs = np.arange(64).reshape(-1, 4).tolist()
made = [pixels for pixels, _ in pipeline(pictures.__getitem__, jobs, producers=2)]
same = all(np.array_equal(pixels, pictures[job][0]) for pixels, job in zip(made, jobs))

# %%
claim("the pipeline gives the pictures of all jobs, in order", same and len(made) == len(jobs))

# %% [markdown]
# The jobs may go on for ever. How many are handed out when the first three batches are taken, with two producers and
# `ahead=4`?

# %%
numbers = count()
batches = pipeline(pictures.__getitem__, numbers, producers=2, ahead=4)
for _ in islice(batches, 3):
    pass
handed_out = next(numbers)
handed_out

# %%
claim(
    "after 3 batches 2 x 4 more jobs are handed out, and none beyond", handed_out == 3 + 2 * 4
)

# %% [markdown]
# **Shutting down** is what such programs get wrong. The consumer stops in the middle while the producers wait with full
# pipes. The pipeline tells them to stop, empties the pipes so that nobody waits, and sees them end. It does so when the
# generator is closed: by `break`, when nobody holds it any more, or by `.close()`. An error keeps it for its traceback,
# so `contextlib.closing` is safer. Two producers run now. Close them:


# %%
def producers():
    return [process.pid for process in active_children() if process.name == "producer"]


running = producers()
batches.close()
running, producers()

# %%
claim(
    "two producers ran, and none is left when the consumer stops early",
    len(running) == 2 and not producers(),
)

# %% [markdown]
# And if a producer dies, since the system kills it for its memory? A queue that both share would wait for ever. A pipe
# that has lost its other end says so. `os._exit` ends a process on the spot:

# %%
try:
    [*pipeline(os._exit, [1] * 10, producers=2)]
    told = "nothing"
except RuntimeError as error:
    told = str(error)
told

# %%
claim("a producer that dies is told of, and none is left", "died" in told and not producers())

# %% [markdown]
# The `DataLoader` does the same work: it watches its workers, and an error in one is raised in your loop. Write a
# pipeline of your own only where its data set and sampler do not fit.

# %% [markdown]
# ## What does a worker cost in memory?
#
# A forked worker shares all memory with its parent until one of the two writes to a page; then it gets a copy of that
# page. Reading seems harmless. But every Python object holds a count of who uses it, and to read the object is to write
# that count.
#
# Here are the texts six times, as a list of Python strings, and the same bytes in one mapped file.

# %%
lines = [
    f"{copy}{line}"
    for copy in range(6)
    for line in (data / "records.jsonl").read_text().splitlines()
]
folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
as_bytes = np.array(lines, dtype=bytes).view(np.uint8).reshape(len(lines), -1)
np.save(Path(folder.name) / "pixels-000.npy", as_bytes)
np.save(Path(folder.name) / "labels-000.npy", np.zeros(len(lines), dtype=np.int64))
mapped = sources.Shards(folder.name)
print(f"{len(lines):,} texts, {as_bytes.nbytes / 1e6:.0f} MB")

# %%
claim(
    "the mapped file holds the same texts",
    [bytes(row).rstrip(b"\0").decode() for row in mapped[:][0]] == lines,
)


# %% [markdown]
# Two workers read everything, each a half. How much memory will a worker have that it shares with nobody?


# %%
def private_bytes(source):
    parts = [slice(start, start + 520) for start in range(0, len(lines), 520)]
    seen = DataLoader(sources.Traced(source), sampler=parts, batch_size=None, num_workers=2)
    by_process = dict(list(seen))  # the last figure of each
    return min(by_process.values())


# %%
of_list, of_mapped = private_bytes(lines), private_bytes(mapped)
evidence = (
    f"{of_list / 1e6:.1f} MB with the list, {of_mapped / 1e6:.1f} MB with the mapped file"
)
claim(
    "a worker that reads half of a list keeps 8 MB more than one that reads a mapped file",
    Verdict(of_list - of_mapped > 8e6, evidence),
)

# %% [markdown]
# The copies come page by page as long as the workers live, until each holds the whole list: people take it for a leak.
# Spawned workers are sent it all at the start. Keep records in arrays, mapped if they are many: an array of a million
# numbers is one Python object, with one count.

# %% [markdown]
# ## What to look for
#
# | what you see | what it usually means | what to try |
# | --- | --- | --- |
# | a wait share near 0 | the computation is the limit | leave the loader alone; chapter 05 |
# | a large wait share, cores idle | preparation waits, for a disk or a server | more workers, larger requests |
# | a large wait share, cores busy | preparation computes | decode once, binary shards; workers up to the cores |
# | the same-batch experiment sees more than the wait share | supply inside of the step | decode in the loader, not at first use |
# | a step near max(t_d / w, t_c) | the bound is reached | only faster preparation helps |
# | every n-th step waits | preparation is uneven | a larger `prefetch_factor` |
# | every w-th step waits | w workers deliver in bursts | more workers, or nothing: it is the pace that counts |
# | the first step of each epoch takes seconds | workers start | `persistent_workers=True` |
# | a fast second epoch | the file cache is warm | time the first epoch, or more data than memory |
# | an epoch w times as long with w workers | a stream that is not split | `get_worker_info()` |
# | augmentation that repeats | a generator copied into every worker | `worker_init_fn` |
# | memory that grows while the workers live | pages of Python objects, copied | arrays, mapped files |
# | a program that does not end | a producer waits with a full queue | tell it, empty the queue, join it |

# %% [markdown]
# ## Exercises
#
# 1. Give the first section's loader two workers. Predict the step from its log before you run it. Does the machine keep up?
# 2. Let a batch parse its texts when it is first used, in the step. What does the wait share say, and what the
#    same-batch experiment?
# 3. With `t_d` = 30 ms and `t_c` = 8 ms, how many workers are enough? Check with the remote source, then add two more.
# 4. Decode the pictures at four times the size (`sources.SMALL = 256`). At which size is decoding a JPEG file faster than
#    fetching the decoded picture from a source of 100 MB a second?
# 5. Let the uneven source stall for 80 ms. Why does no `prefetch_factor` help now?
# 6. Split the stream for three workers so that each takes one stretch of it. What comes out in another order, and when
#    does that matter?
# 7. Watch the loader of your own training script for fifty steps. What does its bound say?
#
# Problem set 04 goes with this chapter: five problems with tests that grade them, about an hour. `make release SET=04`
# puts it into `build/release`. Exercise 3 comes back there as problem 1, exercise 5 as problem 3, exercise 6
# as problem 4.

# %% [markdown]
# ## Sources
#
# - PyTorch contributors, *torch.utils.data*, 2025: workers, prefetching, persistent workers, pinned memory, seeds,
#   iterable data sets.
# - D. G. Murray and others, *tf.data: A Machine Learning Data Processing Framework*, VLDB 2021: supply as a pipeline
#   with a bound.
# - J. Mohan and others, *Analyzing and Mitigating Data Stalls in DNN Training*, VLDB 2021: stalls measured by training
#   on data kept in place.
# - A. Aizman, G. Maltby and T. Breuel, *High Performance I/O For Large Scale Deep Learning*, 2019: shards.
# - Python Software Foundation, *multiprocessing*, in The Python Standard Library, 2025: start methods, pipes.
# - G. K. Wallace, *The JPEG Still Picture Compression Standard*, 1992: what decoding has to do.
# - scikit-learn developers, *Loading sample images*, 2025: the photographs.

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
