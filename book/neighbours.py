"""Noisy neighbours: one process per core that works in bursts of random length, kind and strength."""

import os
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLOT = 0.010  # seconds: a neighbour works for a share of each slot


@contextmanager
def neighbours(seed=0):
    """Keep every usable core busy in bursts while the block runs; end the processes it started when it is over."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    started = [
        subprocess.Popen([sys.executable, "-m", "book.neighbours", str(core), str(seed)], cwd=ROOT) for core in cores
    ]
    try:
        yield
        if any(process.poll() is not None for process in started):
            raise RuntimeError("A noisy neighbour ended early: what was measured beside it was measured in quiet.")
    finally:
        for process in started:
            process.kill()
            process.wait()


def work_forever(core, seed):
    """Alternate between rest and work, 0.2 to 3 s each; the kind of work and its share of the core are drawn anew."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    drawn = random.Random(f"{seed} {core}")
    numbers, block = list(range(5_000)), bytearray(8_000_000)
    kinds = (lambda: sum(n * n for n in numbers), lambda: bytes(block), lambda: sorted(numbers, key=lambda n: -n))
    parent = os.getppid()
    while True:
        time.sleep(drawn.uniform(0.2, 3))
        kind, share, end = drawn.choice(kinds), drawn.uniform(0.3, 1), time.monotonic() + drawn.uniform(0.2, 3)
        while time.monotonic() < end:
            if os.getppid() != parent:  # whoever started this is gone
                return
            rest = time.monotonic() + SLOT * share
            while time.monotonic() < rest:
                kind()
            time.sleep(SLOT * (1 - share))


if __name__ == "__main__":
    work_forever(int(sys.argv[1]), sys.argv[2])
