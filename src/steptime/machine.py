"""The machine that everything is measured on."""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from steptime import stream


@dataclass(frozen=True)
class Card:
    """What a reader of a measurement must know about the machine; shown as a small table.

    rows: (name, value) pairs in reading order.
    missing: what some sections need and this machine lacks, with what it is needed for.
    """

    rows: tuple
    missing: tuple

    def __repr__(self):
        width = max(len(name) for name, _ in self.rows)
        lines = [f"{name:<{width}}  {value}" for name, value in self.rows]
        lines += [f"{'not here':<{width}}  {what}" for what in self.missing]
        return "\n".join(lines)


def card():
    """Look at this machine and describe it."""
    import psutil
    import torch  # not at the top: it takes seconds, and most of this package does without

    memory = psutil.virtual_memory().total / 2**30
    rows = (
        ("processor", f"{_processor()}, {usable_cores()} of {os.cpu_count()} cores usable"),
        ("threads", f"torch {torch.get_num_threads()}, BLAS {_blas_threads()}"),
        ("memory", f"{memory:.0f} GiB"),
        ("GPU", _gpu(torch) or "none"),
        ("system", f"{platform.system()} {platform.release()}"),
        (
            "versions",
            ", ".join([f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in ("torch", "numpy"))]),
        ),
    )
    missing = []
    if not torch.cuda.is_available():
        missing.append("CUDA: sections marked [GPU] show their code and do not run")
    if not any(map(shutil.which, ("g++", "clang++", "cl"))):
        missing.append("a C++ compiler: torch.compile cannot run on the CPU")
    return Card(rows, tuple(missing))


def synchronise():
    """Wait until all that was launched is done, on the streams of this process and on a CUDA or MPS device in use.

    Raises RuntimeError where work on a stream raised. Not tried with CUDA or MPS: no such machine was at hand.
    """
    stream.synchronize()
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()


def usable_cores():
    """How many cores this process may use: a container or a scheduler can allow fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor():
    """The processor's name as its maker sells it, or else its architecture."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        question = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(question, capture_output=True, text=True, check=False).stdout.strip()
        if answer:
            return answer
    return platform.processor() or platform.machine()


def _blas_threads():
    import numpy  # noqa: F401  threadpoolctl sees a library only once it is loaded
    from threadpoolctl import threadpool_info

    counts = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    return " or ".join(map(str, sorted(counts))) or "unknown"


def _gpu(torch):
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    if torch.backends.mps.is_available():
        return "Apple (MPS)"
    return None
