"""How fast and how small `steptime.trace` reads a large trace, beside HolisticTraceAnalysis on the same file.

    python benchmarks/trace_load.py FILE HTA_PYTHON

HTA_PYTHON is a Python that has HolisticTraceAnalysis 0.5.0. Each reading is a process of its own that imports, reads
and answers: how long each step took, and how often and how long in all each operator, label and call ran. The answers
are compared (HTA rounds starts and ends to microseconds); whole processes are timed, in turns. Exits with 1 where
the answers differ, or steptime is less than 3 times as fast or needs more than a tenth of the memory.
"""

import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROUNDS = 3
FASTER, SMALLER = 3, 10

REPORT = """
import json, resource, sys
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"steps_ms": steps_ms, "operators": operators, "peak": peak}))
"""

STEPTIME = """
import sys
from steptime import trace
read = trace.read(sys.argv[1])
steps_ms = [step.ms for step in read.steps]
operators = {o.name: [o.calls, o.total_us] for o in read.operators if o.name != "ProfilerStep*"}
"""

HTA = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
events, symbols = analysis.t.get_trace(0), analysis.t.symbol_table.get_sym_table()
kinds = events["cat"].map(lambda number: symbols[number])
events = events[kinds.isin(["cpu_op", "user_annotation"]) | kinds.str.endswith("_runtime")]
rows = events.groupby("name")["dur"].agg(["count", "sum"])
named = {symbols[number]: [int(calls), float(total)] for number, calls, total in rows.itertuples()}
steps_ms = [total / 1e3 for name, (calls, total) in named.items() if name.startswith("ProfilerStep#")]
operators = {name: row for name, row in named.items() if not name.startswith("ProfilerStep#")}
"""


def reading(python, script, path):
    """(seconds of the whole process, what it reported)."""
    begin = time.perf_counter()
    done = subprocess.run([python, "-c", script + REPORT, str(path)], capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, json.loads(done.stdout.splitlines()[-1])


def agree(ours, theirs):
    """Whether both tell the same steps and operators, two microseconds allowed for the rounded ends of each call."""
    if ours["operators"].keys() != theirs["operators"].keys() or len(ours["steps_ms"]) != len(theirs["steps_ms"]):
        return False
    steps = zip(sorted(ours["steps_ms"]), sorted(theirs["steps_ms"]), strict=True)
    rows = ((*ours["operators"][name], *theirs["operators"][name]) for name in ours["operators"])
    return all(abs(a - b) <= 2e-3 for a, b in steps) and all(
        calls == their_calls and abs(total - their_total) <= 2 * calls + 1e-3
        for calls, total, their_calls, their_total in rows
    )


def main(path, hta_python):
    """Print the table; 0 where steptime keeps what it promises."""
    readers = {"steptime.trace": (sys.executable, STEPTIME), "HolisticTraceAnalysis 0.5.0": (hta_python, HTA)}
    times, reports = {name: [] for name in readers}, {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, (python, script) in readers.items():
            seconds, report = reading(python, script, path)
            times[name].append(seconds)
            reports[name].append(report)
    ours, theirs = ([median(times[name]), max(report["peak"] for report in reports[name])] for name in readers)
    same = all(agree(*pair) for pair in zip(*reports.values(), strict=True))
    print(f"{path.name}, {len(reports['steptime.trace'][0]['operators']):,} names of operators, labels and calls;")
    print(f"{ROUNDS} fresh processes each, in turns; Python {platform.python_version()}, {platform.machine()}.")
    print("The answers are the same.\n" if same else "The answers DIFFER.\n")
    print("| | whole process, median | each | peak memory |\n| --- | ---: | --- | ---: |")
    for name, (seconds, peak) in zip(readers, (ours, theirs), strict=True):
        each = ", ".join(f"{took:.1f}" for took in times[name])
        print(f"| {name} | {seconds:.2f} s | {each} | {peak / 1e6:,.0f} MB |")
    faster, smaller = (b / a for a, b in zip(ours, theirs, strict=True))
    print(f"| ratio | {faster:.1f} | | {smaller:.1f} |")
    return 0 if same and faster >= FASTER and smaller >= SMALLER else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
