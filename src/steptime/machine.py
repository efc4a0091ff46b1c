"""The machine that everything is measured on."""

import math
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from steptime import stream

SCHEDULER = Path("/proc/thread-self/schedstat")
"""Where Linux tells how long a thread stood in line for a core; other systems do not tell."""

QUOTAS = (
    (Path("/sys/fs/cgroup/cpu.max"),),
    (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")),
)
"""Where Linux tells a container how much of its cores it may use, in control groups of version 2 and of version 1."""

CORES = Path("/sys/devices/system/cpu")
"""Where Linux describes the caches of each core."""


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
    import torch  # not at the top: it takes seconds, and most of this package does without

    compiler = _compiler()
    rows = (
        ("processor", f"{_processor()}, {_cores()}"),
        ("threads", f"torch {torch.get_num_threads()}, BLAS {_blas_threads()}"),
        ("memory", _memory()),
        ("GPU", _gpu(torch) or "none"),
        ("system", f"{platform.system()} {platform.release()}"),
        (
            "versions",
            ", ".join([f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in ("torch", "numpy"))]),
        ),
        ("compiler", compiler or "none"),
    )
    missing = []
    if not has("CUDA"):
        missing.append("CUDA: sections marked [GPU] show their code and do not run")
        if shutil.which("nvidia-smi") and not torch.version.cuda:
            missing.append("CUDA in torch: there is an NVIDIA driver, but this torch was built without it")
    if not has("a C++ compiler"):
        lacking = "headers for the C++ compiler, its own or Python's" if compiler else "a C++ compiler"
        if compiler and not _links_to_torch():
            lacking = "a path to torch without a space, which its call of the compiler does not quote"
        missing.append(f"{lacking}: torch.compile cannot run on the CPU")
    if not SCHEDULER.exists():
        missing.append("the scheduler's statistics: a reading that was interrupted cannot be told from others")
    return Card(rows, tuple(missing))


def has(need):
    """True where this machine has what some sections need: "CUDA" or "a C++ compiler". Raises ValueError for others.

    The compiler counts if it builds a file that includes what torch.compile does, and torch can tell it where its own
    libraries are; on Windows it need only be there.
    """
    if need == "CUDA":
        import torch

        return torch.cuda.is_available()
    if need == "a C++ compiler":
        if sys.platform == "win32":
            return _compiler() is not None
        return _compiler() is not None and _links_to_torch() and _builds(shutil.which(_compiler_name()))
    raise ValueError(f'There is no telling whether a machine has {need!r}: ask for "CUDA" or "a C++ compiler".')


def device():
    """The torch.device to run on: CUDA where there is one, or else MPS, or else the CPU. Tried on a CPU only."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


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
    """How many cores this process may use at once: a container or a scheduler can allow fewer than there are."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, math.ceil(_quota() or cores))


def last_level_cache(threads):
    """Bytes of last-level cache that so many threads can have to themselves; 0 where none is told, as outside Linux."""
    caches = set()
    for index in CORES.glob("cpu[0-9]*/cache/index*"):
        try:
            level, size, cores = ((index / name).read_text().strip() for name in ("level", "size", "shared_cpu_list"))
        except OSError:
            continue
        caches.add((int(level), 2**10 * int(size.removesuffix("K")), cores))
    sizes = sorted(size for level, size, _ in caches if level == max(caches)[0])
    return sum(sizes[-threads:])


def _quota():
    """The time of how many cores a container may use, a fraction perhaps; None where nothing limits it."""
    for files in QUOTAS:
        try:
            quota, period = " ".join(file.read_text() for file in files).split()
        except OSError:
            continue
        if quota not in ("max", "-1"):
            return int(quota) / int(period)
    return None


def _cores():
    cores = f"{usable_cores()} of {os.cpu_count()} cores usable"
    return f"{cores}, a quota allows the time of {_quota():.3g}" if _quota() else cores


def _processor():
    """The processor's name as its maker sells it, or else its architecture."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        answer = _ask("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
        if answer:
            return answer
    return platform.processor() or platform.machine()


def _memory():
    import psutil

    try:
        return f"{psutil.virtual_memory().total / 2**30:.0f} GiB"
    except OSError:  # Linux without /proc
        return "unknown"


def _blas_threads():
    import numpy  # noqa: F401  threadpoolctl sees a library only once it is loaded
    from threadpoolctl import threadpool_info

    counts = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    return " or ".join(map(str, sorted(counts))) or "unknown"


def _gpu(torch):
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties().total_memory / 2**30
        return f"{torch.cuda.get_device_name()}, {memory:.0f} GiB, {torch.cuda.device_count()} in all"
    if torch.backends.mps.is_available():
        return "Apple (MPS)"
    return None


def _compiler():
    """The C++ compiler that torch.compile takes on a CPU, as it names itself; None where there is none."""
    name = _compiler_name()
    return (shutil.which(name) and name) if sys.platform == "win32" else _ask(name, "--version")


def _compiler_name():
    return os.environ.get("CXX", {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))


def _links_to_torch():
    """False where torch's folder has a space in its name: torch.compile of torch 2.13 hands it over in two pieces."""
    return " " not in find_spec("torch").origin


@cache
def _builds(compiler):
    """True where it builds a library with Python's headers and, on Linux, OpenMP's: as torch.compile's kernels are."""
    headers = ["Python.h"] if sys.platform == "darwin" else ["Python.h", "omp.h"]
    options = ["-std=c++20", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
    if sys.platform != "darwin":
        options.append("-fopenmp")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text("".join(f"#include <{header}>\n" for header in headers))
        return _ask(compiler, *options, str(source), "-o", str(source.with_suffix(".so"))) is not None


def _ask(*command):
    """The first line that a command answers; None where there is no such command or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.partition("\n")[0].strip()
