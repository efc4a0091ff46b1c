"""The answers as a page a person can read."""

from statistics import median

from steptime.units import duration

ROWS = 10
WIDTH = 70  # characters of a name
HEADINGS = {
    "steps": "steps",
    "busy": "busy and idle of a device",
    "gaps": "gaps",
    "kernels": "kernels",
    "launch_calls": "launch calls",
    "launch_latency": "launch latency",
    "copies": "copies",
    "overlap": "overlap",
    "data_wait": "waiting for data",
    "memory": "reserved memory",
    "operators": "operators",
}


def page(trace):
    """The page as text: what the file is, what it tells, and what it does not tell with the reason."""
    sections = [_file, _steps, _devices, _gaps, _kernels, _copies, _operators, _memory]
    shown = ["\n".join(lines) for section in sections if (lines := list(section(trace)))]
    return "\n\n".join([*shown, *_absent(trace), *_health(trace)])


def printable(name, width=WIDTH):
    """A name on one line and not too long, whatever characters it holds."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def _file(trace):
    yield printable(str(trace.path), 200)
    yield f"{trace.format}; {len(trace.spans):,} pieces of work"
    if trace.span:
        yield f"span: {_ms(trace.span.ms)} ({trace.span.of}); shares are shares of it"


def _steps(trace):
    if trace.steps is None:
        return
    first, *rest = [step.ms for step in trace.steps]
    against = f", the others {_ms(median(rest))} (median)" if rest else ""
    yield f"Steps: {len(trace.steps):,}; the first {_ms(first)}{against}"
    heads = ["step", "took", *(f"GPU {d} busy" for d in trace.unions or ()), "kernels", "copies", "waiting"]
    rows = [heads, *map(_step_row, trace.step_contents[:ROWS])]
    told = [place for place in range(len(heads)) if any(row[place] for row in rows[1:])]
    yield from _table([[row[place] for place in told] for row in rows])
    if len(trace.steps) > ROWS:
        yield f"  … and {len(trace.steps) - ROWS:,} more"


def _step_row(content):
    took = content.step.ms
    busy = [f"{_ms(ms)}, {_share(ms, took)}" for ms in (content.busy_ms or {}).values()]
    kernels = "" if content.kernels is None else f"{content.kernels:,}"
    copies, waiting = ("" if ms is None else _ms(ms) for ms in (content.copies_ms, content.wait_ms))
    return [str(content.step.number), _ms(took), *busy, kernels, copies, waiting]


def _devices(trace):
    for device, busy in (trace.busy or {}).items():
        idle = "" if busy.idle is None else f": idle {busy.idle:.1%} of the span"
        yield f"GPU {device}: busy {_ms(busy.busy_ms)}{idle}"
    if trace.data_wait:
        wait = trace.data_wait
        yield (
            f"Waiting for the DataLoader: {wait.share:.1%} of the span, {_ms(wait.ms)} in {len(wait.each_ms):,} calls "
            f"(median {_ms(median(wait.each_ms))}, longest {_ms(max(wait.each_ms))})"
        )


def _gaps(trace):
    if not trace.gaps:
        return
    yield "Gaps, the longest first: when, and what the CPU was doing in the middle"
    zero = trace.span.start
    rows = [
        [_ms((gap.start - zero) / 1e3), f"GPU {gap.device}", _ms(gap.ms), printable(gap.cpu or gap.python or "-", 44)]
        for gap in trace.gaps[:5]
    ]
    for line, gap in zip(_table(rows), trace.gaps, strict=False):
        yield line
        yield f"      {printable(gap.cause, 100)}"


def _kernels(trace):
    if trace.kernels:
        kernels = trace.kernels
        yield f"Kernels: {kernels.count:,}, {_ms(kernels.total_ms)} in all, median {duration(kernels.median_us / 1e6)}"
        bins = zip(kernels.edges, kernels.edges[1:], kernels.histogram, strict=False)
        yield from _table([[_bin(low, high), f"{count:,}", _bar(count, kernels)] for low, high, count in bins if count])
        yield from _table([[_ms(ms), f"{calls:,}x", printable(name)] for name, ms, calls in kernels.by_name[:ROWS]])
    if trace.launch_calls:
        calls = ", ".join(f"{printable(name)} {count:,}" for name, count in trace.launch_calls.items())
        per = f"; kernels per launch: {trace.kernels_per_launch:.3g}" if trace.kernels_per_launch else ""
        yield f"Launch calls: {calls}{per}"
    if trace.launch_latency:
        latency = trace.launch_latency
        yield (
            f"From launch to start: median {_us(latency.median_us)} of {latency.matched:,} kernels"
            f"{f', {latency.negative:,} negative' if latency.negative else ''}"
        )


def _copies(trace):
    for kind, copies in (trace.copies or {}).items():
        size = "size unknown" if copies.bytes is None else f"{copies.bytes / 1e6:,.3g} MB"
        yield f"Copies {kind}: {copies.count:,}, {_ms(copies.ms)}, {size}"
    for device, overlap in (trace.overlap or {}).items():
        for what in ("copies", "communication"):
            ms, hidden = (getattr(overlap, f"{what}_{kind}") for kind in ("ms", "hidden_ms"))
            if ms:
                yield f"GPU {device}: {what} take {_ms(ms)}, {_ms(hidden)} of it hidden under compute"


def _operators(trace):
    if not trace.operators:
        return
    yield "On the CPU, by self time"
    heads = ["self", "total", "calls", ""]
    rows = [[_us(o.self_us), _us(o.total_us), f"{o.calls:,}", printable(o.name)] for o in trace.operators[:ROWS]]
    yield from _table([heads, *rows])


def _memory(trace):
    for device, memory in (trace.memory or {}).items():
        allocated = "" if memory.allocated_max is None else f", allocated at most {memory.allocated_max / 1e6:,.3g} MB"
        drops = f"it fell {memory.drops:,} times" if memory.drops else "it never fell"
        yield f"Memory of GPU {device}: reserved at most {memory.reserved_max / 1e6:,.3g} MB, {drops}{allocated}"


def _absent(trace):
    """What the file does not tell, the questions with one reason together."""
    reasons = {}
    for question, heading in HEADINGS.items():
        if question in trace.reasons:
            reasons.setdefault(trace.reasons[question], []).append(heading)
    if reasons:
        yield "\n".join(["Not told", *(f"  {', '.join(what)}: {why}" for why, what in reasons.items())])


def _health(trace):
    lines = repr(trace.health).splitlines()
    yield "\n".join(["Health of the file", *(f"  {printable(line, 200)}" for line in lines)])


def _ms(ms):
    return duration(ms / 1e3) if ms else "0"


def _us(us):
    return duration(us / 1e6) if us else "0"


def _share(part, whole):
    return f"{part / whole:.0%}" if whole else "-"


def _bin(low, high):
    return f"{low:g} to {high:g} µs" if high < float("inf") else f"{low:g} µs and more"


def _bar(count, kernels):
    return "#" * round(30 * count / max(kernels.histogram))


def _table(rows):
    """Rows of texts as lines: columns to the right, the last to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *cells, last = row
        yield (
            "  " + "  ".join([*(cell.rjust(width) for cell, width in zip(cells, widths, strict=False)), last]).rstrip()
        )
