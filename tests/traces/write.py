"""Small traces written by hand, for what no machine at hand records; times in microseconds."""

import json


def span(category, name, start, duration, *, pid=7, tid=7, **arguments):
    """An event of some duration."""
    place = {"pid": pid, "tid": tid, "ts": start, "dur": duration}
    return {"ph": "X", "cat": category, "name": name, **place, "args": arguments}


def step(number, start, duration, **place):
    return span("user_annotation", f"ProfilerStep#{number}", start, duration, **place)


def launched(correlation, call, start, kernel, begins, duration, *, device=0, stream=7, thread=7):
    """A launch call of 5 microseconds and its kernel."""
    return [
        span("cuda_runtime", call, start, 5, tid=thread, correlation=correlation),
        on_device("kernel", kernel, begins, duration, device=device, stream=stream, correlation=correlation),
    ]


def on_device(category, name, start, duration, *, device=0, stream=7, **arguments):
    return span(category, name, start, duration, pid=device, tid=stream, device=device, stream=stream, **arguments)


def document(*events, **header):
    """The text of a trace with these events."""
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)})


def training():
    """Two steps of 1 ms on one GPU: waiting for data first, then a copy, two kernels, and a wait for the result."""
    events = []
    for number, zero in ((3, 0), (4, 1000)):
        events += [
            step(number, zero, 1000),
            span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", zero, 400),
            span("cpu_op", "aten::to", zero + 410, 40),
            span("cuda_runtime", "cudaMemcpyAsync", zero + 420, 10, correlation=number * 10),
            on_device(
                "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", zero + 450, 50, correlation=number * 10, bytes=4096
            ),
            span("cpu_op", "aten::addmm", zero + 470, 30),
            *launched(number * 10 + 1, "cudaLaunchKernel", zero + 480, "gemm", zero + 500, 200),
            span("cpu_op", "aten::relu", zero + 510, 20),
            *launched(number * 10 + 2, "cudaLaunchKernel", zero + 515, "relu", zero + 700, 100),
            span("cpu_op", "aten::item", zero + 600, 250),
            span("cuda_runtime", "cudaStreamSynchronize", zero + 610, 195, correlation=number * 10 + 3),
        ]
    return events
