"""The two roofs over a machine, arithmetic and memory, and where a function stands under them.

A function that does `flops` operations on numbers and moves `bytes` to and from memory takes at least the longer of
flops / peak and bytes / bandwidth. Which one is longer depends on flops / bytes alone, its arithmetic intensity.
Williams, Waterman and Patterson, Roofline: an insightful visual performance model for multicore architectures, 2009.
"""

import math
from dataclasses import dataclass
from time import perf_counter

import psutil
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from steptime import machine
from steptime.measure import bench
from steptime.observe import name_of
from steptime.style import COLOURS, Picture, figure

SIDES = (512, 1_024, 2_048)
"""Square matrices whose product is tried for the peak: large enough to keep the arithmetic units busy."""

ARRAY = 2**24
"""Numbers in an array of the triad, 64 MiB: the least, and all where the system tells of no larger cache."""


@dataclass(frozen=True)
class Work:
    """What a function does, whatever the machine: operations on numbers, bytes moved, calls of torch's operators."""

    flops: int
    bytes: int
    operators: int = 1

    @property
    def intensity(self):
        """Operations on numbers for each byte moved; infinite where none is moved."""
        return self.flops / self.bytes if self.bytes else math.inf


def work_of(function, *arguments, fused=False):
    """Call a function once and count its Work.

    flops: those of products, convolutions and attention by torch's own counter; one for each element of the result of
    an element-wise operator, one for each element that a reduction reads; others (softmax, say, and those on lists of
    tensors, which optimisers use) count as none. Attention's backward pass computes its weights again.
    bytes: every operator reads its tensors from memory and writes its results there, views apart. With `fused` only
    the tensors among the arguments and in the answer are moved: what one kernel for all of it would do at best.
    Counts eager code: what torch.compile makes of it is not seen.
    """
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # torch's counter knows those of CUDA only
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    extra = {attention: _first(3, sdpa_flop_count), backward: _first(4, sdpa_backward_flop_count)}
    with FlopCounterMode(display=False, custom_mapping=extra) as counter, _Traffic() as traffic:
        answer = function(*arguments)
    flops = counter.get_total_flops() + traffic.flops
    if fused:
        return Work(flops, _size((*arguments, answer)))
    return Work(flops, traffic.bytes, traffic.operators)


def _first(count, formula):
    """The formula for an operator whose first arguments alone matter."""
    return lambda *shapes, **_: formula(*shapes[:count])


class _Traffic(TorchDispatchMode):
    """Counts what torch's own counter leaves out: bytes, and the FLOPs of element-wise operators and reductions."""

    def __init__(self):
        super().__init__()
        self.flops, self.bytes, self.operators = 0, 0, 0

    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        keywords = keywords or {}
        answer = operator(*arguments, **keywords)
        if _moves_nothing(operator, arguments, answer):
            return answer
        schema = {arg.name: arg for arg in operator._schema.arguments}
        named = dict(zip(schema, arguments, strict=False)) | keywords
        read = [value for name, value in named.items() if not schema[name].is_out]
        changed = [value for name, value in named.items() if schema[name].is_write]
        written = {id(tensor): tensor for tensor in _tensors([changed, answer])}  # what is changed is often the answer
        self.operators += 1
        self.bytes += _size(read) + _size(written)
        if torch.Tag.pointwise in operator.tags:
            self.flops += sum(tensor.numel() for tensor in _tensors(answer))
        elif torch.Tag.reduction in operator.tags:
            self.flops += _tensors(arguments)[0].numel()
        return answer


def _moves_nothing(operator, arguments, answer):
    """True for views, and for operators that only set memory aside."""
    if "empty" in operator.__name__:
        return True
    old = {tensor.untyped_storage()._cdata for tensor in _tensors(arguments)}
    shares = any(tensor.untyped_storage()._cdata in old for tensor in _tensors(answer))
    return shares and not operator._schema.is_mutable


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _size(tree):
    """Bytes of all tensors in it; one that repeats its numbers, an expanded one, has only those it stores."""
    return sum(min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in _tensors(tree))


@dataclass(frozen=True)
class Roofs:
    """What this machine does at most: `flops` operations and `bandwidth` bytes a second, for a dtype and threads."""

    flops: float
    bandwidth: float
    dtype: torch.dtype
    threads: int

    @property
    def ridge(self):
        """The intensity, in operations a byte, below which memory is the limit and above which arithmetic is."""
        return self.flops / self.bandwidth

    def at(self, intensity):
        """The operations a second that can be reached at an intensity."""
        return min(self.flops, self.bandwidth * intensity)

    def least_seconds(self, work):
        """No function with this Work takes less, unless its data are in a cache."""
        return max(work.flops / self.flops, work.bytes / self.bandwidth)

    def place(self, function, *arguments, work=None, name=None, seconds=0.3):
        """Time a function and say where it stands, as a Spot.

        work: its Work, where `work_of(function, *arguments)` would not see it. seconds: of measuring.
        """
        work = work or work_of(function, *arguments)
        return Spot(name or name_of(function), work, bench(function, *arguments, seconds=seconds).median, self)

    def plot(self, *spots):
        """A Picture of the two roofs with the spots under them, on logarithmic axes."""
        canvas, axes = figure()
        intensities = [self.ridge, *(spot.work.intensity for spot in spots)]
        ends = min(intensities) / 4, max(intensities) * 4
        line = [ends[0], self.ridge, ends[1]]
        axes.plot(line, [self.at(x) / 1e9 for x in line], color=COLOURS["threshold"], label="roofs")
        for spot, mark in zip(spots, "osD^vP*X<>" * len(spots), strict=False):
            axes.plot(spot.work.intensity, spot.rate / 1e9, mark, color=COLOURS["estimate"], label=spot.name)
        axes.set(xscale="log", yscale="log", xlabel="FLOP a byte", ylabel="GFLOP/s")
        axes.legend(frameon=False, fontsize="small", loc="lower right")
        alt = "; ".join(map(repr, (self, *spots)))
        return Picture(canvas, alt, "Left of the bend memory is the limit, right of it arithmetic.")

    def __repr__(self):
        kind, threads = str(self.dtype).removeprefix("torch."), f"{self.threads} thread{'s' * (self.threads > 1)}"
        roofs = f"{self.flops / 1e9:.3g} GFLOP/s, {self.bandwidth / 1e9:.3g} GB/s"
        return f"{kind}, {threads}: {roofs}, they meet at {self.ridge:.3g} FLOP a byte"


@dataclass(frozen=True)
class Spot:
    """A function under the roofs: its Work, and the median of its times in seconds."""

    name: str
    work: Work
    seconds: float
    roofs: Roofs

    @property
    def rate(self):
        """Operations a second."""
        return self.work.flops / self.seconds

    @property
    def limit(self):
        """`memory` or `arithmetic`: the roof above it."""
        return "memory" if self.work.intensity < self.roofs.ridge else "arithmetic"

    @property
    def share(self):
        """How much of what the roof allows it reaches; above 1 where a cache holds its data."""
        return self.roofs.least_seconds(self.work) / self.seconds

    def __repr__(self):
        reached = f"{self.rate / 1e9:.3g} GFLOP/s, {self.share:.0%} of the {self.limit} roof"
        return f"{self.name}: {self.work.intensity:.3g} FLOP a byte, {reached}"


def measure_roofs(dtype=torch.float32, seconds=2.0):
    """Measure the Roofs of this machine's processor for a dtype and the threads that torch uses.

    The peak is that of the fastest product of two square matrices, the bandwidth that of STREAM's triad,
    a = b + s c, which moves three numbers for each one of the result. The fastest run counts: what disturbs one only
    makes it slower. seconds: of measuring, about; products of a slow dtype are small ones, and at least one is made.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"measure_roofs: there is no FLOP/s of {dtype}: ask for a floating-point dtype.")
    if not seconds > 0:
        raise ValueError(f"measure_roofs: seconds must be above 0, not {seconds!r}.")
    try:
        torch.mm(torch.ones(1, 1).to(dtype), torch.ones(1, 1).to(dtype))
    except RuntimeError:
        raise ValueError(f"measure_roofs: torch makes no product of matrices of {dtype} on the CPU.") from None
    return Roofs(_peak(dtype, seconds / 2), _bandwidth(seconds / 2), dtype, torch.get_num_threads())


def _peak(dtype, seconds):
    best, end = 0.0, perf_counter() + seconds
    for side in SIDES:
        a, b = (torch.rand(side, side).to(dtype) for _ in range(2))
        out, flops = torch.empty_like(a), 2 * side**3
        if best and flops / best > end - perf_counter():
            break
        fastest = _fastest(lambda: torch.mm(a, b, out=out), seconds / len(SIDES))  # noqa: B023  called at once
        best = max(best, flops / fastest)
    return best


def array_length():
    """How many float32 the triad's arrays have: four times the last-level cache, as STREAM's rules ask for, 64 MiB at
    least, and less where three of them would take over an eighth of the free memory.
    """
    cache = machine.last_level_cache(torch.get_num_threads())  # in bytes: as many float32 are four times its size
    return min(max(ARRAY, cache), psutil.virtual_memory().available // 100)


def _bandwidth(seconds):
    count = array_length()
    a, b, c = (torch.ones(count) for _ in range(3))
    fastest = _fastest(lambda: torch.add(b, c, alpha=3.0, out=a), seconds)
    return 3 * a.nbytes / fastest


def _fastest(function, seconds):
    """Seconds of the fastest call of several, after one that does not count unless it takes all the time there is."""
    end, times = perf_counter() + seconds, []
    while not times or (perf_counter() < end):
        start = perf_counter()
        function()
        times.append(perf_counter() - start)
    return min(times)
