"""The roofs that `steptime.roofline` measures, beside a STREAM triad built from C, the fastest torch.mm, and theory.

    python benchmarks/roofs.py              one thread, about a minute
    python benchmarks/roofs.py --threads 2

The theoretical peak is cores x clock x operations a cycle. The clock is the one that a chain of dependent additions,
one a cycle, shows in C while it is measured; the operations a cycle are those of two units for fused multiplications
and additions of the widest vectors that torch uses here, which holds for x86 since 2013 and not for every processor.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from steptime import machine
from steptime.roofline import array_length, measure_roofs

SIDES = (512, 768, 1_024, 1_536, 2_048)
PATIENCE = 3.0  # seconds: no larger product is tried where it would take longer
ROUNDS = 3
VECTOR_BYTES = {"AVX2": 32, "AVX512": 64}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

C = """
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }

/* Seconds of the fastest of `runs` triads. */
double triad(float *a, const float *b, const float *c, float s, ptrdiff_t n, int runs) {
    double best = 1e9;
    for (int run = 0; run < runs; run++) {
        double start = now();
        #pragma omp parallel for
        for (ptrdiff_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
        double taken = now() - start;
        if (taken < best) best = taken;
    }
    return best;
}

#define ADD x += y; __asm__ volatile("" : "+r"(x), "+r"(y));
#define EIGHT ADD ADD ADD ADD ADD ADD ADD ADD

/* Cycles a second, if each addition waits for the one before and takes a cycle. */
double clock_rate(void) {
    double best = 0;
    for (int run = 0; run < 20; run++) {
        uint64_t x = 1, y = 3, rounds = 200000;
        double start = now();
        for (uint64_t i = 0; i < rounds; i++) { EIGHT EIGHT }
        double rate = 16 * rounds / (now() - start);
        if (rate > best) best = rate;
    }
    return best;
}
"""


def built(folder):
    """The C code as a library. Raises RuntimeError, with the compiler's words, where it cannot be built."""
    source, library = Path(folder) / "stream.c", Path(folder) / "stream.so"
    source.write_text(C)
    compiler = os.environ.get("CC", "gcc")
    command = [compiler, "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise RuntimeError(f"A C compiler is needed: {problem}. CC names another one.") from None
    if done.returncode:
        raise RuntimeError(f"{compiler} cannot build the triad: {done.stderr.strip()}")
    functions = ctypes.CDLL(str(library))
    pointer = ctypes.c_void_p
    functions.triad.argtypes = [pointer, pointer, pointer, ctypes.c_float, ctypes.c_ssize_t, ctypes.c_int]
    functions.triad.restype = functions.clock_rate.restype = ctypes.c_double
    return functions


def triad_bandwidth(functions, count, runs=20):
    """Bytes a second of a = b + 3 c in C, three arrays counted as in STREAM, and whether a is right."""
    b, c = torch.rand(count), torch.rand(count)
    a = torch.zeros(count)
    seconds = functions.triad(a.data_ptr(), b.data_ptr(), c.data_ptr(), 3.0, count, runs)
    return 3 * a.nbytes / seconds, torch.allclose(a, b + 3 * c)


def fastest_product(dtype):
    """FLOP/s of the fastest torch.mm over SIDES, five runs each, or as many as begin within a second."""
    best = 0.0
    for side in SIDES:
        a, b = torch.rand(side, side).to(dtype), torch.rand(side, side).to(dtype)
        if best and 2 * side**3 / best > PATIENCE:
            break
        begin, runs = perf_counter(), 0
        while runs < 5 and perf_counter() - begin < 1:
            start, runs = perf_counter(), runs + 1
            torch.mm(a, b)
            best = max(best, 2 * side**3 / (perf_counter() - start))
    return best


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args(arguments).threads
    torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # read by the C code's OpenMP, unless torch loaded the same library
    print(machine.card(), end="\n\n")
    with tempfile.TemporaryDirectory() as folder:
        try:
            functions = built(folder)
        except RuntimeError as problem:
            return str(problem)
        print("| roof | steptime | peer | steptime / peer | bound | holds | theory |")
        print("| --- | ---: | ---: | ---: | ---: | --- | ---: |")
        turns = [(measure_roofs().bandwidth, triad_bandwidth(functions, array_length())) for _ in range(ROUNDS)]
        if not all(right for _, (_, right) in turns):
            return "The triad in C gives wrong numbers."
        ours, theirs = max(ours for ours, _ in turns), max(theirs for _, (theirs, _) in turns)
        print(f"| bandwidth, GB/s, against STREAM's triad in C | {row(ours, theirs, bound=0.2)} | |")
        clock = functions.clock_rate()
        for dtype in DTYPES:
            turns = [(measure_roofs(dtype).flops, fastest_product(dtype)) for _ in range(ROUNDS)]
            ours, theirs = (max(side) for side in zip(*turns, strict=True))
            theory = peak(dtype, clock, threads)
            print(f"| {dtype}, GFLOP/s, against the fastest torch.mm | {row(ours, theirs, bound=0.15)} | {theory} |")
        print(f"\n{threads} thread(s); the clock ran at {clock / 1e9:.2f} GHz; best of {ROUNDS} turns of either.")
    return 0


def row(ours, theirs, bound):
    """The cells of both sides in units of 1e9, and whether ours is within a share of theirs."""
    holds = abs(ours / theirs - 1) <= bound
    return f"{ours / 1e9:.3g} | {theirs / 1e9:.3g} | {ours / theirs:.2f} | {bound:.0%} | {holds}"


def peak(dtype, clock, threads):
    """GFLOP/s of two units that multiply and add a vector each cycle; for float32 and float64 where that is known."""
    width = VECTOR_BYTES.get(torch.backends.cpu.get_cpu_capability())
    if not width or dtype.itemsize < 4:
        return ""
    cores = min(threads, machine.usable_cores())
    return f"{cores * clock * 2 * 2 * width / dtype.itemsize / 1e9:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
