"""Why a step computes for longer than it need: the networks and operators it calls, and what it leaves behind."""

from steptime.diagnosis.calls import grows
from steptime.diagnosis.finding import Finding
from steptime.diagnosis.operators import OPTIMIZER, UPDATE
from steptime.diagnosis.python_causes import claimed, named_seconds, python_seconds, rest_finding
from steptime.machine import usable_cores
from steptime.units import duration

CALL = ("05", "What does a call cost?")
ELEMENTWISE = frozenset(
    """add sub mul div rsub pow sqrt rsqrt square addcmul addcdiv lerp zero copy neg abs sign maximum clamp
    clamp_min reciprocal norm linalg_vector_norm exp log where""".split()  # noqa: SIM905
)
"""Operators that an update of parameters is made of."""

MANY = 4
"""So many operators for each parameter tensor and more, and the optimiser is one of many small operators."""


def step_findings(evidence):
    """Findings about what a step computes."""
    findings = [_evaluation(evidence), _repeated(evidence), _growth(evidence), _recompiling(evidence)]
    findings += [_threads(evidence), _double(evidence), _update(evidence), _samples(evidence)]
    findings += [rest_finding(evidence, python_of_samples(evidence))]
    return [finding for finding in findings if finding]


def _evaluation(evidence):
    if not evidence.forwards or not evidence.forwards.kinds.keys() & {"evaluated", "repeated"}:
        return _after_backward(evidence)
    if "evaluated" not in evidence.forwards.kinds:
        return None
    return _forward_passes(
        evidence,
        "evaluated",
        "the step evaluates",
        "evaluate once an epoch; what a frozen network says of a sample, compute once and keep",
        "without gradients or in evaluation mode",
        ("05", "Which part first?"),
    )


def _after_backward(evidence):
    """An evaluation that is no Module's: operators after the backward pass that update no parameter."""
    operators = evidence.operators
    if operators is None or not operators.parameters:
        return None

    def evaluates(call):
        shapes = [shape for shape in call.shapes if shape]
        return call.part == UPDATE and not set(shapes) <= operators.parameter_shapes

    number = sum(call.outer and evaluates(call) for call in operators.calls)
    seconds = operators.own(evaluates) - named_seconds(evidence)  # printing a tensor calls operators too
    return Finding(
        "the step evaluates: it computes after its backward pass",
        evidence.share(seconds),
        "do it once an epoch",
        f"{number} operator calls after the backward pass update no parameter and take {duration(seconds)} of "
        f"{duration(operators.plain)}",
        ("05", "Which part first?"),
        certain=True,
    )


def _repeated(evidence):
    if not evidence.forwards or "repeated" not in evidence.forwards.kinds:
        return None
    return _forward_passes(
        evidence,
        "repeated",
        "the forward pass is computed twice",
        "keep the output of the first and use it again",
        "on an input that it has had in this step",
        ("02", "What do the operators do?"),
    )


def _forward_passes(evidence, kind, cause, advice, how, section):
    """A finding about the forward passes of a kind."""
    passes, _, name = evidence.forwards.kinds[kind]
    share = evidence.forwards.share(kind)
    number = f"{passes} forward pass{'es' * (passes > 1)}"
    seen = f"{number} of {name} in each step {how}, {share:.0%} of the computation"
    return Finding(cause, share * evidence.compute / evidence.step, advice, seen, section, certain=True)


def _growth(evidence):
    growth = evidence.growth
    if growth is None:
        return None
    graphs = growth.nodes >= 1
    if not graphs and not (growth.tensors >= 1 and growth.steps_left < 100_000):
        return None
    left = f", and after {growth.steps_left:,.3g} more steps the memory is full" if growth.steps_left < 1e9 else ""
    return Finding(
        "memory grows: losses are kept with their graphs" if graphs else "memory grows: tensors are kept",
        0.0,
        "keep numbers: loss.item(), or loss.detach()" if graphs else "keep numbers, or move what is kept to a file",
        f"each step leaves {growth.tensors:.3g} tensors, {growth.nodes:.3g} nodes of graphs and "
        f"{growth.bytes / 1e6:,.3g} MB behind{left}",
        ("07", "What does a step keep?"),
        ends=True,
    )


def _recompiling(evidence):
    graphs = evidence.compiled.graphs
    if graphs < 2:
        return None
    steps = max(1, len(evidence.supply.log) - 1)
    return Finding(
        "the step is compiled again and again for new shapes",
        evidence.compiling / evidence.step,
        "torch.compile(dynamic=True), or pad the batches to a few shapes",
        f"{graphs} graphs in {steps} steps after the first, {duration(evidence.compiled.seconds / graphs)} each",
        ("05", "What does torch.compile capture?"),
        certain=True,
    )


def _threads(evidence):
    threads = evidence.threads
    if threads is None or threads.fewer >= threads.now:
        return None
    return Finding(
        "more threads than cores",
        (1 - threads.fewer / threads.now) * evidence.compute / evidence.step,
        f"torch.set_num_threads({threads.best}), OMP_NUM_THREADS={threads.best}",
        f"{threads.count} threads on {usable_cores()} usable cores: a step computes {duration(threads.now)}, with "
        f"{threads.best} thread{'s' * (threads.best > 1)} {duration(threads.fewer)}",
        ("05", "How many threads?"),
    )


def _double(evidence):
    operators = evidence.operators
    if operators is None:
        return None
    seconds = operators.own(_is_double)
    names = [call.name for call in sorted(operators.calls, key=lambda call: -call.own) if _is_double(call)]
    return Finding(
        "float64, twice the bytes and half the speed",
        evidence.share(seconds / 2),
        "convert data and parameters to float32 (NumPy makes float64 unless told otherwise)",
        f"{len(names)} operator calls a step take 64-bit floats, {names[0] if names else 'none'} first, and spend "
        f"{duration(seconds)} of {duration(operators.plain)}",
        ("06", "Is it faster here?"),
    )


def _is_double(call):
    # A number in Python, as in 0.9 * tensor, is a 64-bit tensor without dimensions, and makes nothing else so wide.
    return any(kind == "double" and shape for kind, shape in zip(call.types, call.shapes, strict=False))


def _update(evidence):
    operators = evidence.operators
    if operators is None or not operators.parameters:
        return None
    shapes = operators.parameter_shapes

    def is_update(call):
        return call.part == OPTIMIZER or (call.part == UPDATE and _is_update(call, shapes))

    number = sum(call.outer and is_update(call) for call in operators.calls)
    each = number / operators.parameters
    if each < MANY:
        return None
    by_hand = _cost(evidence, lambda call: call.part == UPDATE and is_update(call))
    seconds = max(operators.optimizer_seconds, operators.seconds(OPTIMIZER)) + by_hand
    who = f"the optimiser {operators.optimizer}" if operators.optimizer else "an update by hand"
    return Finding(
        "an optimiser of many small operators",
        evidence.share(seconds),
        "one of torch.optim's with foreach=True, or with fused=True where it takes it",
        f"{who} calls {number} operators a step for {operators.parameters} parameter tensors and takes "
        f"{duration(seconds)} of {duration(operators.plain)}",
        CALL,
    )


def _is_update(call, shapes):
    """Whether it is an operator of the kind that updates parameters, on what has a parameter's shape, or on a list."""
    name = call.name.removeprefix("aten::")
    if name.startswith("_foreach_") or name.startswith("_fused_"):
        return True
    return bool(call.shapes[:1]) and call.shapes[0] in shapes and name.rstrip("_") in ELEMENTWISE


def _samples(evidence):
    """Operators or functions that are called once for each sample: twice as often for twice the batch."""
    if evidence.half is None:
        return None
    half, half_calls = evidence.half
    apart = evidence.samples - evidence.samples // 2
    growing, seconds, number = [], 0.0, 0
    if evidence.operators:
        counts, fewer = evidence.operators.counts, half.counts
        growing = {name for name in counts if grows(counts[name], fewer[name], apart)}
        seconds = _cost(evidence, lambda call: call.name in growing)
        number = sum(counts[name] for name in growing)
    called = None
    if evidence.calls:
        per_sample = evidence.calls.that_grow(half_calls, apart, claimed(evidence.calls))
        in_python = sum(function.own for function in per_sample)
        called = max(per_sample, key=lambda function: function.own, default=None)
        if in_python > seconds:
            seconds, number = in_python, max(number, sum(function.calls for function in per_sample))
    if not number:
        return None
    where = f", {called} first" if called else ""
    return Finding(
        "the step loops over its samples",
        evidence.share(seconds),
        "one call for the whole batch: vectorise, or torch.vmap",
        f"{number:,.4g} of its calls double with the batch of {evidence.samples}{where}; together {duration(seconds)} "
        f"of {duration(evidence.plain)}",
        ("01", "What does a Python loop cost?"),
    )


def python_of_samples(evidence):
    """Seconds of a step in functions, not torch's, that are called for each sample."""
    if evidence.half is None or evidence.calls is None:
        return 0.0
    apart = evidence.samples - evidence.samples // 2
    growing = evidence.calls.that_grow(evidence.half[1], apart, claimed(evidence.calls))
    return sum(each.own for each in growing if not each.is_torch)


def size_finding(evidence, others):
    """The fixed cost of a step that a larger batch would share; without the share of which `others` speak."""
    sizes = evidence.sizes
    if sizes is None or sizes.fixed < 0.5:
        return None
    return Finding(
        "calls cost more than what they compute",
        sizes.fixed * evidence.compute / evidence.step - others,
        "a larger batch, if the training bears it; fewer and larger calls: torch.compile",
        f"a batch of {evidence.samples} takes one thread {duration(sizes.one)}, four times as many samples "
        f"{duration(sizes.larger)}: {sizes.fixed:.0%} of a step do not grow with the batch",
        CALL,
        changes=True,
    )


def _cost(evidence, chosen):
    """Seconds of a step in the operators for which `chosen(call)` is true, with the Python that calls them."""
    operators = evidence.operators
    outer = [call for call in operators.calls if call.outer]
    part = sum(map(chosen, outer)) / max(1, len(outer))
    return operators.own(chosen) + part * max(0.0, operators.between - python_seconds(evidence))
