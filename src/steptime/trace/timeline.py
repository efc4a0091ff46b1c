"""The timeline as a picture: one row of bars per thread and depth, one per stream, gaps of the devices shaded."""

from statistics import median

import numpy as np

from steptime.style import COLOURS, Picture, figure
from steptime.trace.intervals import between, union
from steptime.trace.kinds import COPY, FILL, KERNEL, LABEL, ON_DEVICE, OPERATOR, RUNTIME
from steptime.trace.page import printable

KINDS = {
    LABEL: ("label", "label, step"),
    OPERATOR: ("operator", "operator"),
    RUNTIME: ("call", "CUDA or HIP call"),
    KERNEL: ("kernel", "kernel"),
    COPY: ("copy", "copy, memset"),
    FILL: ("copy", "copy, memset"),
}
LANES = 6  # of the CPU, and of each device: those with the most to show
DEEPEST = 7  # rows of one thread; what nests deeper is left out
HAIRLINE = 1 / 2500  # of the window: what is narrower is drawn as wide as this, together with its neighbours
NOTED = 0.01  # of the window: shorter gaps are not shaded
LEGIBLE = 0.006  # of the window: about the width of a letter


def timeline(trace, first=None, last=None):
    """A Picture of the steps numbered `first` to `last`; of a typical step, or of all where there are no steps.

    Raises ValueError where the file has no such step.
    """
    low, high, what = _window(trace, first, first if last is None else last)
    spans = trace.spans[(trace.spans.start < high) & (trace.spans.end > low) & np.isin(trace.spans.kind, list(KINDS))]
    lanes = _lanes(trace, spans)
    bars = [(spans[spans.lane == lane], name, device) for lane, name, device in lanes]
    depths = [_depths(each) for each, _, _ in bars]
    rows = [min(DEEPEST, int(depth.max()) + 1) for depth in depths]
    canvas, axes = figure(11, 1.3 + 0.2 * (sum(rows) + len(rows)))
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    top, ticks, gaps = 0, [], {}
    for (each, name, device), depth, height in zip(bars, depths, rows, strict=True):
        if device is not None:
            gaps[device] = _shade(axes, trace, device, low, high, top, height)
        _draw(axes, trace, each, depth, top, low, high)
        ticks.append((top + height / 2 - 0.5, name))
        top += height + 1
    _mark_steps(axes, trace, low, high)
    axes.set(xlim=(0, (high - low) / 1e3), ylim=(top - 1.3, -0.7), xlabel=f"ms from the start of {what}")
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    shaded = sum(gaps.values())  # those of a device stand in the lane of each of its streams
    _legend(axes, spans, shaded)
    alt = f"Timeline of {what}, {(high - low) / 1e3:.3g} ms: {len(lanes)} lanes, {shaded} gaps shaded."
    return Picture(canvas, alt, "Width is duration, rows of one thread nest, white is waiting.")


def _window(trace, first, last):
    """(from, to, in words) in microseconds."""
    steps = trace.steps
    if first is None:
        if not steps:
            if not trace.span or not trace.span.ms:
                raise ValueError(f"{trace.path} has nothing to draw: no event has a duration.")
            return trace.span.start, trace.span.end, "the trace"
        typical = median(step.ms for step in steps)
        chosen = [min(steps, key=lambda step: abs(step.ms - typical))]
    else:
        if not steps:
            raise ValueError(f"{trace.path} has no steps to choose from: {trace.reasons['steps']}.")
        chosen = [step for step in steps if first <= step.number <= last]
        if not chosen:
            numbers = [step.number for step in steps]
            raise ValueError(f"{trace.path} has no such step: its steps are {min(numbers)} to {max(numbers)}.")
    numbers = sorted({chosen[0].number, chosen[-1].number})
    low, high = chosen[0].start, max(step.end for step in chosen)
    if high <= low:
        raise ValueError(f"{trace.path} has nothing to draw there: step {numbers[0]} has no length.")
    return low, high, f"step{'s' * (len(numbers) - 1)} {' to '.join(map(str, numbers))}"


def _lanes(trace, spans):
    """(lane, its name, device or None): threads first, then streams, in the order of their names."""
    found = []
    for lane, total in zip(*_work(spans), strict=True):
        mine = spans[spans.lane == lane].of(*ON_DEVICE)
        thread = trace.lanes[lane][1]
        if len(mine):
            device, stream = trace.devices[mine.device[0]], thread.removeprefix("stream ")
            found.append((device, f"GPU {device}\nstream {stream}", lane, total))
        else:
            found.append((None, f"thread {thread}", lane, total))
    kept = []
    for device in sorted({row[0] for row in found}, key=lambda name: (name is not None, name or "")):
        mine = sorted((row for row in found if row[0] == device), key=lambda row: -row[3])[:LANES]
        kept += [(lane, printable(name.replace("\n", " "), 24), device) for _, name, lane, _ in mine]
    return kept


def _work(spans):
    lanes = np.unique(spans.lane)
    return lanes, [float(spans.duration[spans.lane == lane].sum()) for lane in lanes]


def _depths(spans):
    """How many intervals of the lane are open where each begins."""
    depths, ends = np.zeros(len(spans), int), []
    for place, (start, end) in enumerate(zip(spans.start.tolist(), spans.end.tolist(), strict=True)):
        while ends and ends[-1] <= start:
            ends.pop()
        depths[place] = len(ends)
        ends.append(end)
    return depths


def _draw(axes, trace, spans, depths, top, low, high):
    hairline = (high - low) * HAIRLINE
    for kind, (colour, _) in KINDS.items():
        for depth in range(DEEPEST):
            those = spans[(spans.kind == kind) & (depths == depth)]
            narrow = those.duration < hairline
            wide = those[~narrow]
            start, end = union(those.start[narrow], those.start[narrow] + hairline)
            start, end = np.concatenate([wide.start, start]), np.concatenate([wide.end, end])
            bars = np.column_stack([np.maximum(start, low) - low, np.minimum(end, high) - np.maximum(start, low)]) / 1e3
            place = (top + depth - 0.45, 0.9)
            axes.broken_barh(bars, place, facecolor=COLOURS[colour], edgecolor="white", linewidth=0.3)
            for name, begin, stop in zip(wide.name, wide.start, wide.end, strict=True):
                _write(
                    axes, trace.names[name], max(begin, low) - low, min(stop, high) - low, high - low, top + depth, kind
                )


def _write(axes, name, begin, stop, whole, row, kind):
    letters = int((stop - begin) / whole / LEGIBLE)
    if letters >= 5:
        colour = "white" if kind in ON_DEVICE else "black"
        plain = name.removeprefix("void ").encode("ascii", "replace").decode()  # what the font is sure to have
        text = printable(plain, letters)
        axes.text(
            (begin + stop) / 2e3,
            row,
            text,
            ha="center",
            va="center",
            fontsize=6,
            color=colour,
            parse_math=False,
            clip_on=True,
        )


def _shade(axes, trace, device, low, high, top, height):
    """Shade the gaps of a device behind its lane; how many."""
    start, end = between(*trace.unions[device], low, high)
    long = end - start > NOTED * (high - low)
    bars = np.column_stack([start[long] - low, (end - start)[long]]) / 1e3
    axes.broken_barh(bars, (top - 0.6, height + 0.2), facecolor=COLOURS["gap"], linewidth=0)
    return int(np.count_nonzero(long))


def _mark_steps(axes, trace, low, high):
    for step in trace.steps or ():
        if low <= step.start < high:
            axes.axvline((step.start - low) / 1e3, color=COLOURS["pairs"], linewidth=0.8, linestyle="--")
            axes.annotate(
                f"step {step.number}", ((step.start - low) / 1e3, 1), xycoords=("data", "axes fraction"), fontsize=7
            )


def _legend(axes, spans, shaded):
    from matplotlib.patches import Patch

    shown = {KINDS[kind] for kind in np.unique(spans.kind)}
    patches = [Patch(color=COLOURS[colour], label=label) for colour, label in sorted(shown)]
    if shaded:
        patches.append(Patch(color=COLOURS["gap"], label="gap of the device"))
    axes.legend(handles=patches, frameon=False, ncols=6, loc="lower right", bbox_to_anchor=(1, 1.02), fontsize="small")
