# %% [markdown]
# # Problem set 03: Timelines
#
# *Five problems, 30 points, 45 to 60 minutes. It goes with chapter 03, Timelines.*
#
# - Write your answers into the cells that say `your answer`. Add cells where you like: they count too.
# - The other cells are the set's. What you change in them is put back before grading.
# - Each problem ends with tests. The ones you see here are some of those that count.
# - Your functions are called with inputs you have not seen, in a process of their own. They may read no files of others,
#   start no programs and take at most 10 seconds a call. They return plain data: numbers, texts, lists, dicts, arrays.

# %% tags=["variant"] nbgrader={"schema_version": 3, "grade_id": "variant", "grade": false, "solution": false, "locked": true, "task": false}
SEED = draw.randrange(10**6)
LAUNCH = draw.choice((3, 4, 5))
WHITE = draw.choice((6, 8, 10))
COPIES = draw.randrange(1_700, 1_900)
KERNELS = draw.randrange(900, 1_100)
TIMES = draw.choice((8, 9))

# %% nbgrader={"schema_version": 3, "grade_id": "imports", "grade": false, "solution": false, "locked": true, "task": false}
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median

import numpy as np

from steptime import compare

# %% [markdown]
# Problems 1 to 4 read events as torch.profiler writes them: plain dicts, in no order that helps. Times are in whole
# microseconds. No machine was measured: `record` runs a program on paper and returns the events. A program is a list of
# lines:
#
# | line | what it does |
# | --- | --- |
# | `("load", 90)` | the thread works for 90 µs under that name; any name will do |
# | `("forward", [...])` | a label around the lines in the list; it ends 1 µs after the last of them |
# | `("launch gemm", 40)` | a call of {{LAUNCH}} µs, which puts a kernel of 40 µs into the stream |
# | `("launch gemm", [40, 20])` | one call, two kernels |
# | `("copy batch", 70)` | the same for a copy, which goes into a stream of its own |
# | `("wait", 0)` | waits until both streams are done, 2 µs at least |


# %% nbgrader={"schema_version": 3, "grade_id": "record", "grade": false, "solution": false, "locked": true, "task": false}
ON_THREADS = ("cpu_op", "user_annotation", "cuda_runtime")
ON_DEVICE = ("kernel", "gpu_memcpy")


class Run:
    """A thread and its two streams on paper. events: what they did; now: the time that the
    thread has reached.
    """

    def __init__(self, thread, stream, begin):
        self.events = [
            {
                "ph": "M",
                "name": "thread_name",
                "pid": 21,
                "tid": thread,
                "args": {"name": "python"},
            }
        ]
        self.now, self.thread, self.stream, self.free, self.calls = (
            begin,
            thread,
            stream,
            {},
            1_000 * thread,
        )

    def do(self, lines):
        for name, how in lines:
            start, (word, _, work) = self.now, name.partition(" ")
            if word in ("launch", "copy"):
                self.launch(word, work, how if isinstance(how, list) else [how])
            elif name == "wait":
                self.now = max([self.now + 2, *self.free.values()])
                self.call("cudaDeviceSynchronize", start)
            elif isinstance(how, list):
                self.do(how)
                self.now += 1
                self.add("user_annotation", name, start, self.now, 21, self.thread)
            else:
                self.now += how
                self.add("cpu_op", name, start, self.now, 21, self.thread)

    def launch(self, word, work, pieces):
        start, self.now = self.now, self.now + LAUNCH
        self.call("cudaLaunchKernel" if word == "launch" else "cudaMemcpyAsync", start)
        category, stream = (
            ("kernel", self.stream) if word == "launch" else ("gpu_memcpy", self.stream + 10)
        )
        for us in pieces:
            begin = max(self.now, self.free.get(stream, 0))
            self.free[stream] = begin + us
            self.add(
                category,
                work,
                begin,
                begin + us,
                0,
                stream,
                device=0,
                stream=stream,
                correlation=self.calls,
            )

    def call(self, name, start):
        self.calls += 1
        self.add(
            "cuda_runtime", name, start, self.now, 21, self.thread, correlation=self.calls
        )

    def add(self, category, name, start, end, process, thread, **arguments):
        event = {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread}
        self.events.append(event | {"ts": start, "dur": end - start, "args": arguments})


def record(lines, thread=21, stream=7, begin=0):
    """The events of a run of a program."""
    run = Run(thread, stream, begin)
    run.do(lines)
    return run.events


# %%
record([("load", 90), ("launch gemm", 40)])

# %% [markdown]
# ## 1. Which bar has the time to itself?
#
# A training of six steps. It waits for the device after every third one.


# %% nbgrader={"schema_version": 3, "grade_id": "training", "grade": false, "solution": false, "locked": true, "task": false}
def training(random, steps):
    """The program of a training: each step loads, goes forward and backward, and every third
    one waits.
    """

    def us(low, high):
        return int(random.integers(low, high))

    def forward():
        product = ("aten::addmm", [("aten::empty", us(1, 5)), ("launch gemm", us(30, 80))])
        return "aten::linear", [("aten::t", us(2, 7)), product]

    def backward():
        return "AddmmBackward0", [
            ("aten::t", us(2, 7)),
            ("launch gemm", [us(30, 80), us(30, 80)]),
        ]

    lines = []
    for number in range(steps):
        passes = [
            ("forward", [forward() for _ in range(4)]),
            ("backward", [backward() for _ in range(4)]),
        ]
        last = [("item", [("wait", 0)])] if number % 3 == 2 else []
        lines.append((f"ProfilerStep#{number}", [("load", us(40, 90)), *passes, *last]))
    return lines


recording = record(training(np.random.default_rng(SEED), 6))
len(recording), sorted({event["name"] for event in recording})

# %% [markdown]
# Write `self_times(events)`: a dict with the self time of each name on the threads, in microseconds. It is the sum over
# all bars of that name: the length of the bar, less the lengths of the bars right under it.
#
# - The bars are the events whose `"cat"` is in `ON_THREADS`. An event with `"ph"` other than `"X"` has no length.
# - A lane is a pair of `"pid"` and `"tid"`. A bar lies under another of its lane when it begins no earlier and ends no
#   later.
# - Two bars may begin together: the longer one holds the other. No two bars of a lane have both ends in common.
#
# Before you run it: in `recording`, which name has most time to itself? And how much is left for the label `forward`, which
# covers all four layers?
#
# <details><summary>Hint: keep the bars that are open</summary>
#
# Go through the bars of a lane by their starts, of two that begin together the longer one first. Keep a list of the bars
# you are in. Take away from its end what is over when the next bar begins: what then stands at the end holds the next bar.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "self-times", "grade": false, "solution": true, "locked": false, "task": false}
def self_times(events):
    ### BEGIN SOLUTION
    lanes = defaultdict(list)
    for event in events:
        if event.get("cat") in ON_THREADS:
            lanes[event["pid"], event["tid"]].append(event)
    own = Counter()
    for bars in lanes.values():
        inside = []
        for bar in sorted(bars, key=lambda bar: (bar["ts"], -bar["dur"])):
            while inside and inside[-1]["ts"] + inside[-1]["dur"] <= bar["ts"]:
                inside.pop()
            own[bar["name"]] += bar["dur"]
            if inside:
                own[inside[-1]["name"]] -= bar["dur"]
            inside.append(bar)
    return dict(own)
    ### END SOLUTION


# %%
for name, us in sorted(self_times(recording).items(), key=lambda row: -row[1]):
    print(f"{us:>6,} µs  {name}")

# %% nbgrader={"schema_version": 3, "grade_id": "self-times-nested", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
small = record(
    [("forward", [("linear", [("transpose", 2), ("launch gemm", 40)]), ("relu", 5)])]
)
assert self_times(small) == {
    "forward": 1,
    "linear": 1,
    "transpose": 2,
    "cudaLaunchKernel": LAUNCH,
    "relu": 5,
}
### BEGIN HIDDEN TESTS
for count in (1, 4, 7):
    random = np.random.default_rng()
    seen = record(training(random, count))
    bars = [event for event in seen if event.get("cat") in ON_THREADS]
    bars.sort(key=lambda bar: (bar["ts"], -bar["dur"]))
    deepest = np.full(max(bar["ts"] + bar["dur"] for bar in bars), -1)
    for place, bar in enumerate(bars):
        deepest[bar["ts"] : bar["ts"] + bar["dur"]] = place
    right = dict.fromkeys((bar["name"] for bar in bars), 0)
    for place in deepest.tolist():
        right[bars[place]["name"]] += 1
    shuffled = [seen[place] for place in random.permutation(len(seen))]
    expect(self_times(shuffled), right)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "self-times-lanes", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
two = record([("forward", [("linear", 30)])]) + record(
    [("backward", [("relu", 12)])], thread=22, stream=8, begin=10
)
assert self_times(two) == {"forward": 1, "linear": 30, "backward": 1, "relu": 12}
### BEGIN HIDDEN TESTS
for _ in range(5):
    random = np.random.default_rng()
    us = random.integers(1, 40, (4, 30)).tolist()
    one = [("forward", [("linear", a), ("relu", b)]) for a, b in zip(us[0], us[1])]
    other = [("backward", [("relu", a), ("linear", b)]) for a, b in zip(us[2], us[3])]
    seen = record(one) + record(other, thread=22, stream=8, begin=int(random.integers(0, 50)))
    seen = [seen[place] for place in random.permutation(len(seen))]
    linear, relu = sum(us[0]) + sum(us[3]), sum(us[1]) + sum(us[2])
    expect(self_times(seen), {"forward": 30, "backward": 30, "linear": linear, "relu": relu})
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "self-times-own-name", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
assert self_times(record([("block", [("block", [("relu", 5)]), ("relu", 2)])])) == {
    "block": 2,
    "relu": 7,
}
### BEGIN HIDDEN TESTS
a, b, c = np.random.default_rng().integers(2, 90, 3).tolist()
deep = [
    ("block", [("relu", a), ("block", [("block", [("relu", b)]), ("norm", c)])]),
    ("block", c),
]
expect(self_times(record(deep)), {"block": 3 + c, "relu": a + b, "norm": c})
### END HIDDEN TESTS

# %% [markdown]
# ## 2. What did the label launch?
#
# Write `ranges(events, name)`: a list with a dict for each label of that name (category `user_annotation`), in the order
# in which they begin:
#
# - `"label"`: its own width;
# - `"projected"`: from the start of the first piece of work that was launched in it to the end of the last;
# - `"waited"`: the median over these pieces, of the time from the start of the launch to the start of the piece.
#
# A call (category `cuda_runtime`) is in a label when it is of the label's lane and begins in it. Its pieces of work are the
# events of a category in `ON_DEVICE` with its correlation, in `event["args"]["correlation"]`. One call may have several, or
# none: a wait has a correlation, too. A recording may lack the call of a piece, or the piece of a call; such a one does not
# count. Where a label has no piece of work, `"projected"` and `"waited"` are `None`.
#
# Predict for `recording`: what becomes of `"waited"` from the first `forward` to the third, and from there to the fourth?
#
# <details><summary>Hint: not by the clock</summary>
#
# While the label lasts, the device does what an earlier label launched. So make a dict first: from a correlation to the
# pieces of work that carry it.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "ranges", "grade": false, "solution": true, "locked": false, "task": false}
def ranges(events, name):
    ### BEGIN SOLUTION
    events = [event for event in events if event["ph"] == "X"]
    works = defaultdict(list)
    for event in events:
        if event["cat"] in ON_DEVICE:
            works[event["args"]["correlation"]].append(event)
    calls = [event for event in events if event["cat"] == "cuda_runtime"]
    labels = [
        event
        for event in events
        if event["cat"] == "user_annotation" and event["name"] == name
    ]
    found = []
    for label in sorted(labels, key=lambda label: label["ts"]):
        lane, end = (label["pid"], label["tid"]), label["ts"] + label["dur"]
        own = [
            call
            for call in calls
            if (call["pid"], call["tid"]) == lane and label["ts"] <= call["ts"] < end
        ]
        pieces = [(call, work) for call in own for work in works[call["args"]["correlation"]]]
        projected = waited = None
        if pieces:
            first = min(work["ts"] for _, work in pieces)
            projected = max(work["ts"] + work["dur"] for _, work in pieces) - first
            waited = median(work["ts"] - call["ts"] for call, work in pieces)
        found.append({"label": label["dur"], "projected": projected, "waited": waited})
    return found
    ### END SOLUTION


# %%
for label in ranges(recording, "forward"):
    print(label)

# %% nbgrader={"schema_version": 3, "grade_id": "ranges-projected", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
seen = record(
    [
        ("forward", [("launch gemm", 40), ("launch gemm", [70, 30])]),
        ("forward", [("launch relu", 25)]),
    ]
)
assert [label["label"] for label in ranges(seen, "forward")] == [2 * LAUNCH + 1, LAUNCH + 1]
assert [label["projected"] for label in ranges(seen, "forward")] == [140, 25]
### BEGIN HIDDEN TESTS
for _ in range(5):
    random = np.random.default_rng()
    steps = [random.integers(20, 90, int(random.integers(1, 6))).tolist() for _ in range(12)]
    lines = []
    for number, us in enumerate(steps):
        pieces = (
            [("launch gemm", us)]
            if number % 3 == 0
            else [("launch gemm", each) for each in us]
        )
        lines += [("load", 9), ("forward", pieces), ("backward", [("launch other", 50)])]
    seen = record([*lines, ("wait", 0)])
    seen = [seen[place] for place in random.permutation(len(seen))]
    expect(
        [label["projected"] for label in ranges(seen, "forward")], [sum(us) for us in steps]
    )
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranges-waited", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
seen = record([("launch gemm", 200), ("forward", [("launch gemm", 40), ("launch gemm", 70)])])
assert ranges(seen, "forward")[0]["waited"] == 220 - LAUNCH / 2
### BEGIN HIDDEN TESTS
for count in (1, 4, 9):
    us = np.random.default_rng().integers(20, 90, count)
    seen = record([("forward", [("launch gemm", each) for each in us.tolist()])])
    waits = LAUNCH + np.cumsum(us) - us - LAUNCH * np.arange(count)
    expect(ranges(seen, "forward")[0]["waited"], float(np.median(waits)), 1e-9)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranges-lanes", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
one = record([("forward", [("launch gemm", 40), ("launch gemm", 70)])])
other = record([("launch other", 30), ("launch other", 900)], thread=22, stream=8, begin=1)
assert ranges(one + other, "forward") == ranges(one, "forward")
assert ranges(one, "forward")[0]["projected"] == 110
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
steps = random.integers(30, 90, (8, 3)).tolist()
one = record([("forward", [("launch gemm", us) for us in step]) for step in steps])
other = record(
    [("evaluate", [("launch gemm", 600), ("copy batch", 900)])] * 20,
    thread=22,
    stream=8,
    begin=2,
)
found = ranges(other + one, "forward")
expect([label["projected"] for label in found], [sum(step) for step in steps])
expect([label["label"] for label in found], [3 * LAUNCH + 1] * 8)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "ranges-lost", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
nothing = record([("launch gemm", 500), ("forward", [("load", 20), ("wait", 0)])])
assert ranges(nothing, "forward") == [{"label": 501, "projected": None, "waited": None}]
### BEGIN HIDDEN TESTS
us = np.random.default_rng().integers(20, 90, 3).tolist()
whole = record(
    [
        ("forward", [("launch first", us[0]), ("launch second", us[1])]),
        ("forward", [("launch third", us[2])]),
    ]
)
calls = [
    event["args"]["correlation"] for event in whole if event["name"] == "cudaLaunchKernel"
]
without_call = [
    event
    for event in whole
    if (event["name"], event["args"].get("correlation")) != ("cudaLaunchKernel", calls[0])
]
expect([label["projected"] for label in ranges(without_call, "forward")], us[1:])
without_work = [event for event in whole if event["name"] not in ("first", "third")]
expect([label["projected"] for label in ranges(without_work, "forward")], [us[1], None])
### END HIDDEN TESTS

# %% [markdown]
# ## 3. What does the white say?
#
# Five runs. `loop` repeats the lines that an order names, each with a length around the one given.


# %% nbgrader={"schema_version": 3, "grade_id": "loop", "grade": false, "solution": false, "locked": true, "task": false}
def loop(random, order, times, **around):
    """A program: the lines of an order, so many times; what takes a length takes between 0.9
    and 1.1 of it.
    """
    called = {"launch": "launch work", "copy": "copy batch"}
    return [
        (
            called.get(word, word),
            0 if word == "wait" else round(around[word] * random.uniform(0.9, 1.1)),
        )
        for word in order.split() * times
    ]


random = np.random.default_rng(SEED)
runs = {
    "one by one": record(loop(random, "load launch wait", 20, load=300, launch=600)),
    "ahead": record(loop(random, "launch load wait", 20, load=300, launch=600)),
    "loss read": record(loop(random, "prepare launch wait", 20, prepare=300, launch=600)),
    "loss not read": record(loop(random, "prepare launch", 20, prepare=300, launch=90)),
    "copy beside": record(
        loop(random, "copy launch prepare wait", 20, prepare=200, copy=700, launch=300)
    ),
}

# %% [markdown]
# Write two functions. `gaps(events)` gives the white of the device: a list of tuples `(start, end)`, in their order, one
# for each stretch between the first piece of work and the last in which no stream worked. Work that follows at once leaves
# no gap.
#
# `row(events, white)` says what the white means. `white` is what `gaps` gives. The answer is the first of these texts whose
# condition holds:
#
# | text | condition |
# | --- | --- |
# | `"busy"` | the white is less than {{WHITE}} % of the time from the start of the first piece of work to the end of the last |
# | `"data"` | for more than half of the white the thread is in `load`, or in what lies under it |
# | `"launch"` | for more than half of the white it is in `cudaLaunchKernel` |
# | `"read"` | more than half of the white is in gaps that begin during a `cudaDeviceSynchronize`, or just when it ends |
# | `"python"` | none of these |
#
# Write down five texts for the five runs before you look. `one by one` and `loss read` both wait after every step, and
# behind each wait there is white. Why does only the second read a result too often?
#
# <details><summary>Hint: how far does the work reach?</summary>
#
# Go through the pieces by their starts, and keep the latest end so far. A long kernel may reach beyond several copies that
# begin after it and end before it does.
#
# </details>
#
# <details><summary>Hint: what two stretches have in common</summary>
#
# `min` of the two ends less `max` of the two starts, where that is more than 0.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "gaps", "grade": false, "solution": true, "locked": false, "task": false}
def gaps(events):
    ### BEGIN SOLUTION
    works = sorted(
        (work["ts"], work["ts"] + work["dur"])
        for work in events
        if work.get("cat") in ON_DEVICE
    )
    white, reach = [], works[0][0] if works else 0
    for start, end in works:
        if start > reach:
            white.append((reach, start))
        reach = max(reach, end)
    return white
    ### END SOLUTION


# %% nbgrader={"schema_version": 3, "grade_id": "gaps-one-stream", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
seen = record(
    [("launch work", 50), ("launch work", 30), ("wait", 0), ("load", 100), ("launch work", 20)]
)
assert gaps(seen) == [(LAUNCH + 80, 2 * LAUNCH + 180)]
### BEGIN HIDDEN TESTS
us = np.random.default_rng().integers(10, 90, (15, 2)).tolist()
lines = [
    line for load, work in us for line in (("load", load), ("launch work", work), ("wait", 0))
]
seen, now, right = record(lines), 0, []
for load, work in us:
    right.append((now, now + load + LAUNCH))
    now += load + LAUNCH + work
expect(gaps(seen), right[1:])
expect(gaps(record([("load", 9), ("launch work", 50), ("launch work", 50)])), [])
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "gaps-streams", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
seen = record(
    [
        ("launch work", 200),
        ("copy batch", 20),
        ("copy batch", 10),
        ("wait", 0),
        ("load", 40),
        ("copy batch", 5),
    ]
)
assert gaps(seen) == [(LAUNCH + 200, 2 * LAUNCH + 240)]
### BEGIN HIDDEN TESTS
for _ in range(8):
    random = np.random.default_rng()
    order = " ".join(random.choice(["copy", "launch", "load"], 60))
    seen = record(loop(random, order, 1, copy=60, launch=40, load=45))
    works = [
        (work["ts"], work["ts"] + work["dur"]) for work in seen if work.get("cat") in ON_DEVICE
    ]
    first, last = min(start for start, _ in works), max(end for _, end in works)
    is_white = np.ones(last - first + 1, dtype=int)
    for start, end in works:
        is_white[start - first : end - first] = 0
    is_white[-1] = 0
    edges = np.diff(is_white, prepend=0)
    starts, ends = (np.flatnonzero(edges == edge) + first for edge in (1, -1))
    shuffled = [seen[place] for place in random.permutation(len(seen))]
    expect(gaps(shuffled), list(zip(starts.tolist(), ends.tolist())))
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "row", "grade": false, "solution": true, "locked": false, "task": false}
def row(events, white):
    ### BEGIN SOLUTION
    bars = [
        (event, event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["ph"] == "X"
    ]
    works = [(start, end) for event, start, end in bars if event["cat"] in ON_DEVICE]
    whole = max(end for _, end in works) - min(start for start, _ in works)
    idle = sum(end - start for start, end in white)

    def of(name):
        return [(start, end) for event, start, end in bars if event["name"] == name]

    def white_in(name):
        return sum(
            max(0, min(end, stop) - max(start, begin))
            for start, end in white
            for begin, stop in of(name)
        )

    waits = of("cudaDeviceSynchronize")
    behind = [gap for gap in white if any(begin <= gap[0] <= stop for begin, stop in waits)]
    if idle < WHITE / 100 * whole:
        return "busy"
    if white_in("load") > idle / 2:
        return "data"
    if white_in("cudaLaunchKernel") > idle / 2:
        return "launch"
    return "read" if sum(end - start for start, end in behind) > idle / 2 else "python"
    ### END SOLUTION


# %%
for name, seen in runs.items():
    print(f"{name:<14} {row(seen, gaps(seen))}")

# %% nbgrader={"schema_version": 3, "grade_id": "row-data-or-busy", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
seen = record([("load", 100), ("launch work", 50), ("wait", 0)] * 2)
assert row(seen, [(LAUNCH + 150, 2 * LAUNCH + 250)]) == "data"
assert row(record([("launch work", 50), ("launch work", 50)]), []) == "busy"
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
for right, lines in [
    ("data", loop(random, "load launch wait", 20, load=400, launch=500)),
    ("data", loop(random, "load launch", 20, load=400, launch=100)),
    (
        "data",
        [("load", [("open", 100), ("decode", 200)]), ("launch work", 300), ("wait", 0)] * 20,
    ),
    ("busy", loop(random, "launch load wait", 20, load=300, launch=500)),
    ("busy", loop(random, "load launch wait", 20, load=20, launch=1_000)),
]:
    seen = record(lines)
    works = sorted(
        (work["ts"], work["ts"] + work["dur"]) for work in seen if work.get("cat") in ON_DEVICE
    )
    white = [(end, start) for (_, end), (start, _) in pairwise(works) if start > end]
    expect(row(seen, white), right)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "row-whose-fault", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
seen = record([("prepare", 100), ("launch work", 50), ("wait", 0)] * 2)
assert row(seen, [(LAUNCH + 150, 2 * LAUNCH + 250)]) == "read"
seen = record([("prepare", 100), ("launch work", 50)] * 2)
assert row(seen, [(LAUNCH + 150, 2 * LAUNCH + 200)]) == "python"
### BEGIN HIDDEN TESTS
random = np.random.default_rng()
for right, lines in [
    ("read", loop(random, "prepare launch wait", 20, prepare=300, launch=600)),
    ("read", loop(random, "prepare launch wait", 20, prepare=200, launch=1_000)),
    ("read", loop(random, "prepare launch wait load", 20, prepare=300, launch=600, load=100)),
    ("python", loop(random, "prepare launch", 20, prepare=300, launch=100)),
    ("python", loop(random, "launch prepare wait", 20, prepare=300, launch=100)),
    ("launch", [("launch work", 1)] * 90 + [("wait", 0)]),
    ("launch", ([("launch work", 1)] * 20 + [("wait", 0)]) * 4),
]:
    seen = record(lines)
    works = sorted(
        (work["ts"], work["ts"] + work["dur"]) for work in seen if work.get("cat") in ON_DEVICE
    )
    white = [(end, start) for (_, end), (start, _) in pairwise(works) if start > end]
    expect(row(seen, white), right)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. What would a faster loader bring?
#
# In both runs below loading takes the same share of the table. In one of them a loader that is four times faster helps a
# lot, in the other hardly. In which, and how much?

# %% nbgrader={"schema_version": 3, "grade_id": "two-runs", "grade": false, "solution": false, "locked": true, "task": false}
random = np.random.default_rng(SEED)
turns = loop(random, "load launch wait", 30, load=480, launch=500)
ahead = loop(random, "launch load wait", 30, load=480, launch=500)

# %% [markdown]
# The critical path of a run is a chain of bars from its beginning to its end, each of which had to end before the next could
# begin. You find it from the end backwards. The runs here have one thread and one stream. On the thread each bar begins
# where the one before it ends, and none lies under another.
#
# - Begin with the last bar of the thread.
# - Before a bar of the thread comes the thread's bar before it.
# - But a wait that ends just when a piece of work ends is not on the path. Its place has that piece of work.
# - Before a piece of work that begins just when another one ends comes that other one; before any other the call that
#   launched it.
#
# Write two functions:
#
# - `critical(events)`: how long the path is in each name, in microseconds, as a dict with the names on the path. The lengths
#   add up to the whole run.
# - `at_best(events, name, times)`: how many times faster the whole run gets at best, when all that is called `name` gets
#   `times` times faster. This is Amdahl's law with the part p taken from the path, not from the table.
#
# Predict for both runs whether the bound will be reached. When the path gets shorter, another chain may be the longest.
#
# <details><summary>Hint: three dicts</summary>
#
# From the time at which a bar of the thread ends to that bar, the same for the pieces of work, and from a correlation to its
# call. Then each step back is one look into one of them.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "critical", "grade": false, "solution": true, "locked": false, "task": false}
def critical(events):
    ### BEGIN SOLUTION
    thread = {bar["ts"] + bar["dur"]: bar for bar in events if bar.get("cat") in ON_THREADS}
    works = {work["ts"] + work["dur"]: work for work in events if work.get("cat") in ON_DEVICE}
    calls = {
        bar["args"]["correlation"]: bar
        for bar in thread.values()
        if bar["cat"] == "cuda_runtime"
    }
    path, bar = Counter(), thread[max(thread)]
    while bar is not None:
        if bar["name"] == "cudaDeviceSynchronize" and bar["ts"] + bar["dur"] in works:
            bar = works[bar["ts"] + bar["dur"]]
        path[bar["name"]] += bar["dur"]
        if bar["cat"] in ON_DEVICE:
            bar = works.get(bar["ts"]) or calls[bar["args"]["correlation"]]
        else:
            bar = thread.get(bar["ts"])
    return dict(path)
    ### END SOLUTION


# %%
critical(record(turns)), critical(record(ahead))

# %% nbgrader={"schema_version": 3, "grade_id": "critical-turns", "grade": true, "solution": false, "locked": true, "task": false, "points": 1}
seen = record([("load", 100), ("launch work", 50), ("wait", 0)])
assert critical(seen) == {"load": 100, "cudaLaunchKernel": LAUNCH, "work": 50}
### BEGIN HIDDEN TESTS
us = np.random.default_rng().integers(10, 90, (15, 3)).tolist()
lines = [
    line
    for a, b, c in us
    for line in (("load", a), ("launch work", b), ("wait", 0), ("save", c))
]
load, work, save = (sum(column) for column in zip(*us))
expect(
    critical(record(lines)),
    {"load": load, "work": work, "save": save, "cudaLaunchKernel": 15 * LAUNCH},
)
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "critical-beside", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
seen = record([("launch work", 500), ("load", 100), ("wait", 0)])
assert critical(seen) == {"cudaLaunchKernel": LAUNCH, "work": 500}
seen = record([("launch work", 50), ("load", 100), ("wait", 0)])
assert critical(seen) == {"cudaLaunchKernel": LAUNCH, "load": 100, "cudaDeviceSynchronize": 2}


### BEGIN HIDDEN TESTS
def longest(lines):
    """The same from the beginning on, by the lines: what lies on the path to where the thread
    is, and the stream.
    """
    now, free, here, there = 0, 0, Counter(), Counter()
    for name, us in lines:
        if name == "wait" and free >= now + 2:
            now, here = free, there.copy()
            continue
        kind = {"wait": "cudaDeviceSynchronize", "launch work": "cudaLaunchKernel"}.get(
            name, name
        )
        takes = {"wait": 2, "launch work": LAUNCH}.get(name, us)
        now, here = now + takes, here + Counter({kind: takes})
        if name == "launch work":
            there = (here if now > free else there) + Counter({"work": us})
            free = max(now, free) + us
    return dict(here)


for _ in range(12):
    random = np.random.default_rng()
    order = " ".join(random.choice(["load", "prepare", "launch", "launch", "wait"], 50))
    lines = loop(random, f"load launch {order} wait", 1, load=90, prepare=30, launch=80)
    seen = record(lines)
    shuffled = [seen[place] for place in random.permutation(len(seen))]
    expect(critical(shuffled), longest(lines))
### END HIDDEN TESTS


# %% nbgrader={"schema_version": 3, "grade_id": "at-best", "grade": false, "solution": true, "locked": false, "task": false}
def at_best(events, name, times):
    ### BEGIN SOLUTION
    path = critical(events)
    whole = sum(path.values())
    return whole / (whole - path.get(name, 0) * (1 - 1 / times))
    ### END SOLUTION


# %%
for lines in (turns, ahead):
    took, less = (
        max(event.get("ts", 0) + event.get("dur", 0) for event in record(run))
        for run in (lines, [(name, us / 4 if name == "load" else us) for name, us in lines])
    )
    print(
        f"at best {at_best(record(lines), 'load', 4):.2f} times, "
        f"in fact {took / less:.2f} times"
    )

# %% nbgrader={"schema_version": 3, "grade_id": "at-best-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
seen = record([("load", 600), ("launch work", 400 - LAUNCH), ("wait", 0)])
assert abs(at_best(seen, "load", 3) - 1 / 0.6) < 1e-9
assert at_best(record([("launch work", 500), ("load", 100), ("wait", 0)]), "load", 4) == 1
### BEGIN HIDDEN TESTS
for times in (1.5, 4, 50):
    load, work = np.random.default_rng().integers(200, 400, 2).tolist()
    one_by_one = [("load", load), ("launch work", work), ("wait", 0)] * 6
    ahead_of_it = [("launch work", 900), ("load", load), ("wait", 0)] * 4
    seen, whole = (
        record(one_by_one + ahead_of_it),
        6 * (load + LAUNCH + work) + 4 * (LAUNCH + 900),
    )
    expect(at_best(seen, "load", times), whole / (whole - 6 * load * (1 - 1 / times)), 1e-9)
    expect(
        at_best(seen, "work", times),
        whole / (whole - (6 * work + 3_600) * (1 - 1 / times)),
        1e-9,
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Make it faster
#
# A script asks of each copy how much of it is hidden: how long some kernel ran beside it. Copies and kernels come as
# arrays of starts and durations, in no order. The kernels are of several streams, so some of them run at once.


# %% nbgrader={"schema_version": 3, "grade_id": "slow", "grade": false, "solution": false, "locked": true, "task": false}
def hidden_slowly(copy_start, copy_duration, kernel_start, kernel_duration):
    """How much of each copy lies beside a kernel: an array as long as that of the copies."""
    order = np.argsort(kernel_start, kind="stable")
    kernel_start, kernel_end = (
        kernel_start[order],
        kernel_start[order] + kernel_duration[order],
    )
    hidden = []
    for start, duration in zip(copy_start, copy_duration):
        begin, end = (
            np.clip(times, start, start + duration) for times in (kernel_start, kernel_end)
        )
        reach = np.maximum.accumulate(end)  # how far the kernels reach that have begun so far
        free = np.maximum(begin[1:] - reach[:-1], 0)
        hidden.append(reach[-1] - begin[0] - free.sum())
    return np.array(hidden)


def streams(random, copies, kernels):
    """Starts and durations of so many copies and so many kernels."""
    copy_start, kernel_start = (
        random.uniform(0, 60.0 * kernels, count) for count in (copies, kernels)
    )
    return (
        copy_start,
        random.uniform(50, 400, copies),
        kernel_start,
        random.uniform(5, 95, kernels),
    )


work = streams(np.random.default_rng(SEED), COPIES, KERNELS)

# %% [markdown]
# Write `hidden(copy_start, copy_duration, kernel_start, kernel_duration)`, which returns the same and is at least {{TIMES}}
# times as fast on {{COPIES}} copies and {{KERNELS}} kernels. There are four gates, each with its points, and each opens only
# behind the one before it:
#
# | gate | points |
# | --- | ---: |
# | the answer is right: an array of the same type and shape, its values within 1e-9, on recordings you never saw | 2 |
# | the work is done: it is right at every call of a race in which no input comes twice | 2 |
# | it is faster, beyond the noise | 2 |
# | it is at least {{TIMES}} times as fast | 4 |
#
# The slow function looks at every pair of a copy and a kernel. Guess how many kernels run beside a copy at some time, and
# how much there is to gain. Then guess what you gain when the kernels are merged once, in front of the loop, into stretches
# that lie apart.
#
# <details><summary>Hint: count what stays</summary>
#
# Merging takes work out of each turn of the loop, but the turns stay, each with its calls of NumPy. What can be asked for
# all copies at once?
#
# </details>
#
# <details><summary>Hint: a clock that runs only while a kernel does</summary>
#
# Let b(t) be how long the device was busy with kernels from the beginning until t. What is hidden of a copy is b(end) -
# b(start). Between the ends of the merged stretches b is a straight line: `np.interp`.
#
# </details>


# %% nbgrader={"schema_version": 3, "grade_id": "hidden", "grade": false, "solution": true, "locked": false, "task": false}
def hidden(copy_start, copy_duration, kernel_start, kernel_duration):
    ### BEGIN SOLUTION
    order = np.argsort(kernel_start)
    start = kernel_start[order]
    reach = np.maximum.accumulate(start + kernel_duration[order])
    apart = np.flatnonzero(start[1:] > reach[:-1])
    starts, ends = np.append(start[0], start[apart + 1]), np.append(reach[apart], reach[-1])
    busy = np.cumsum(ends - starts)
    edges = np.column_stack([starts, ends]).ravel()
    until = np.column_stack([busy - (ends - starts), busy]).ravel()
    return np.interp(copy_start + copy_duration, edges, until) - np.interp(
        copy_start, edges, until
    )
    ### END SOLUTION


# %%
race = compare(hidden_slowly, hidden, *work, same=1e-9, budget=3)
race


# %% nbgrader={"schema_version": 3, "grade_id": "hidden-right", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
### BEGIN HIDDEN TESTS
def draw(random):
    copies, kernels = (
        int(random.integers(count - 20, count + 20)) for count in (COPIES, KERNELS)
    )
    return streams(random, copies, kernels)


gates = four_gates("hidden", "hidden_slowly", draw=draw, same=1e-9, target=TIMES)
### END HIDDEN TESTS
copies, kernels = (
    np.array([[5.0, 30.0], [10.0, 10.0]]),
    np.array([[8.0, 0.0, 9.0], [6.0, 7.0, 2.0]]),
)
assert np.allclose(hidden(*copies, *kernels), [8.0, 0.0])
assert np.allclose(hidden(*kernels, *copies), [6.0, 2.0, 2.0])
### BEGIN HIDDEN TESTS
gates.right()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "hidden-done", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
copy, kernel = np.array([[5.0], [10.0]]), np.array([[0.0], [8.0]])
assert hidden(*copy, *kernel)[0] == 3 and hidden(*copy, *kernel + 2)[0] == 7
### BEGIN HIDDEN TESTS
gates.done()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "hidden-faster", "grade": true, "solution": false, "locked": true, "task": false, "points": 2}
# In your notebook: race.at_least(1.25)
### BEGIN HIDDEN TESTS
gates.faster()
### END HIDDEN TESTS

# %% nbgrader={"schema_version": 3, "grade_id": "hidden-target", "grade": true, "solution": false, "locked": true, "task": false, "points": 4}
# In your notebook: race.at_least(TIMES)
### BEGIN HIDDEN TESTS
gates.reaches_target()
### END HIDDEN TESTS
