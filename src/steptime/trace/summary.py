"""The answers as one JSON object, for programs."""

TOP = 10

NOTHING_THERE = "there is no gap, or no operator or label covers its middle on the thread that launches"

ASKED = {
    "steps_ms": "steps",
    "span_ms": "span",
    "devices": "busy",
    "kernel_median_us": "kernels",
    "top_kernels": "kernels",
    "copies_ms": "copies",
    "launch_latency_us": "launch_latency",
    "largest_gap_ms": "gaps",
    "largest_gap_cpu": "gaps",
    "data_wait_share": "data_wait",
}
"""Which question a key of the object answers, where it has another name."""


def summary(trace):
    """A dict of plain values. Units as the keys say, shares from 0 to 1.

    What the file does not tell is None, and `reasons` says under the same key why.
    """
    answers = {
        "steps_ms": trace.steps and [step.ms for step in trace.steps],
        "span_ms": trace.span and trace.span.ms,
        "devices": trace.busy and {d: {"busy_ms": b.busy_ms, "idle": b.idle} for d, b in trace.busy.items()},
        **_kernels(trace),
        "copies_ms": trace.copies and {kind: copies.ms for kind, copies in trace.copies.items()},
        "copies": trace.copies and {kind: vars(copies) for kind, copies in trace.copies.items()},
        "overlap": trace.overlap and {device: vars(overlap) for device, overlap in trace.overlap.items()},
        **_gaps(trace),
        "data_wait_share": trace.data_wait and trace.data_wait.share,
        "data_wait_calls": trace.data_wait and len(trace.data_wait.each_ms),
        "memory": _memory(trace),
        "operators": trace.operators and [[o.name, o.calls, o.total_us, o.self_us] for o in trace.operators],
        "step_contents": trace.step_contents and [_content(content) for content in trace.step_contents],
    }
    asked = {key: ASKED.get(key, key) for key, value in answers.items() if value is None}
    reasons = {key: trace.reasons.get(question, NOTHING_THERE) for key, question in asked.items()}
    health = {"repaired": dict(trace.health.repaired), "skipped": dict(trace.health.skipped)}
    health |= {"truncated": trace.health.truncated, "notes": trace.health.notes}
    return {"file": str(trace.path), "format": trace.format, "health": health, **answers, "reasons": reasons}


def _kernels(trace):
    kernels, latency = trace.kernels, trace.launch_latency
    return {
        "kernels": kernels and kernels.count,
        "kernel_median_us": kernels and kernels.median_us,
        "kernel_histogram": kernels and {"from_us": kernels.edges[:-1], "counts": kernels.histogram},
        "top_kernels": kernels and kernels.by_name[:TOP],
        "launch_calls": trace.launch_calls,
        "kernels_per_launch": trace.kernels_per_launch,
        "launch_latency_us": latency
        and {
            "median": latency.median_us,
            "negative": latency.negative,
            "matched": latency.matched,
            "launched_before_window": latency.unmatched,
        },
    }


def _gaps(trace):
    longest = trace.gaps[0] if trace.gaps else None
    return {
        "largest_gap_ms": longest and longest.ms,
        "largest_gap_cpu": longest and longest.cpu,
        "gaps": trace.gaps and [vars(gap) for gap in trace.gaps],
    }


def _memory(trace):
    """The largest reserve of any device and the drops of all; each device under `devices`."""
    if trace.memory is None:
        return None
    devices = {
        device: {"reserved_max": each.reserved_max, "allocated_max": each.allocated_max, "drops": each.drops}
        for device, each in trace.memory.items()
    }
    reserved, drops = (
        max(each.reserved_max for each in trace.memory.values()),
        sum(e.drops for e in trace.memory.values()),
    )
    return {"reserved_max": reserved, "drops": drops, "devices": devices}


def _content(content):
    return {"number": content.step.number, "ms": content.step.ms} | {
        key: value for key, value in vars(content).items() if key != "step"
    }
