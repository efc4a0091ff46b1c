"""What the categories of an event mean, in the words of every era."""

OPERATOR, LABEL, PYTHON, RUNTIME, KERNEL, COPY, FILL = range(7)
"""An operator, a record_function label or a step, a Python function, a CUDA or HIP call; a kernel, a copy, a memset."""

ON_CPU = (OPERATOR, LABEL, PYTHON, RUNTIME)
ON_DEVICE = (KERNEL, COPY, FILL)

_KINDS = {
    "cpu_op": OPERATOR,
    "operator": OPERATOR,  # 2021 wrote labels and steps as operators too
    "user_annotation": LABEL,
    "python_function": PYTHON,
    "runtime": RUNTIME,
    "kernel": KERNEL,
    "memcpy": COPY,
    "gpu_memcpy": COPY,
    "memset": FILL,
    "gpu_memset": FILL,
}
_NO_WORK = ("trace", "gpu_user_annotation", "overhead", "cuda_sync", "ac2g", "async", "fwdbwd")


def kind_of(category):
    """One of the kinds; None for what is no work of its own (a label mirrored on the device); KeyError if unknown."""
    for word in str(category).lower().split(","):
        if word in _KINDS:
            return _KINDS[word]
        if word.endswith(("_runtime", "_driver")):
            return RUNTIME
        if word in _NO_WORK:
            return None
    raise KeyError(category)


def kind_by_process(process, name):
    """The kind of an event without a category: torch.autograd.profiler's own export tells it by the process."""
    if process == "CPU functions":
        return OPERATOR
    if process == "CUDA functions":
        return COPY if str(name).startswith("Memcpy") else FILL if str(name).startswith("Memset") else KERNEL
    raise KeyError(process)
