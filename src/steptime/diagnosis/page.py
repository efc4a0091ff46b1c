"""A diagnosis as a page that a person can read."""

from statistics import quantiles

from steptime import machine
from steptime.units import duration, times

ROWS = 6
CHAPTERS = {
    "01": "Measurement",
    "02": "Profiling",
    "03": "Timelines",
    "04": "Data supply",
    "05": "Compute efficiency",
    "06": "Precision",
    "07": "Memory",
    "08": "Verification",
}


def page(diagnosis):
    """The page as text."""
    evidence = diagnosis.evidence
    sections = [_problem(diagnosis), _step(diagnosis)]
    if len(evidence.supply.log):
        sections += [_supply(evidence), _where(diagnosis), _operators(evidence), _machine(evidence), _tries(diagnosis)]
    sections += [_absent(evidence), _left(evidence)]
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))


def _problem(diagnosis):
    if diagnosis.problem:
        yield diagnosis.problem
        yield "What was measured until then:" if len(diagnosis.evidence.supply.log) else "No step was measured."


def _step(diagnosis):
    evidence = diagnosis.evidence
    log = evidence.supply.log
    if not len(log):
        return
    samples = f", {evidence.samples:,} samples a batch" if evidence.samples else ""
    yield f"{diagnosis.name}: a step takes {duration(evidence.step)}{samples}"
    steps = [wait + compute for wait, compute in zip(log.waits[1:], log.computes[1:], strict=True)]
    if len(steps) > 1:
        low, _, high = quantiles(steps, n=4, method="inclusive")
        yield f"  {len(log):,} steps; the middle half takes {duration(low)} to {duration(high)}"
    yield (
        f"  the first step took {duration(log.waits[0] + log.computes[0])}: {duration(log.waits[0])} until its batch "
        f"came, {duration(log.computes[0])} to compute"
    )


def _supply(evidence):
    supply = evidence.supply
    workers = f"{supply.workers} workers" if supply.workers else "no workers"
    yield (
        f"Supply: {supply.wait / evidence.step:.0%} of a step waits for its batch, {duration(supply.wait)} ({workers}; "
        f"{supply.passes} pass{'es' * (supply.passes > 1)} begun)"
    )
    if evidence.same:
        yield f"  same batch: {evidence.same!r}"
    alone = (evidence.serial or supply).wait
    producers = max(1, supply.workers)
    bound = max(alone / producers, evidence.compute)
    reached = min(1.0, bound / evidence.step)
    name = f"{producers} producer{'s' * (producers > 1)} that never compete{'s' * (producers == 1)}"
    if evidence.serial or not supply.workers:
        yield f"  overlap bound: {duration(bound)} a step with {name}; {reached:.0%} of it is reached"


def _where(diagnosis):
    yield "Where a step goes"
    for line in repr(diagnosis.parts).splitlines():
        yield f"  {line}"


def _operators(evidence):
    operators = evidence.operators
    if operators is None:
        return
    number = len(operators.calls)
    yield f"Operators: {number:,} calls a step, {duration(operators.plain / max(1, number))} of the step for each"
    yield "      self  calls"
    for name, calls, seconds in operators.by_own[:ROWS]:
        yield f"  {duration(seconds) if seconds else '0':>8}  {calls:>5,}  {name}"
    sizes = evidence.sizes
    if sizes:
        kind = "overhead-bound" if sizes.fixed >= 0.5 else "compute-bound"
        yield (
            f"  {kind}: four times the batch takes {times(sizes.larger / sizes.one)} as long, {sizes.fixed:.0%} of a "
            "step are fixed"
        )
    if operators.synchronising:
        cost = "which stops nothing on a CPU" if not operators.trace.busy else "and each stops the launching"
        yield f"  {operators.synchronising} calls a step read a value (.item() and the like), {cost}"
    for device, busy in (operators.trace.busy or {}).items():
        yield f"  GPU {device}: busy {busy.busy_ms / max(1e-9, operators.trace.span.ms):.0%} of the recorded steps"
    for kind, copies in (operators.trace.copies or {}).items():
        yield f"  copies {kind}: {copies.count:,}, {duration(copies.ms / 1e3)} in the recorded steps"


def _machine(evidence):
    import torch

    growth = evidence.growth
    yield f"Threads: {torch.get_num_threads()} of torch on {machine.usable_cores()} usable cores"
    if growth:
        grows = f"{growth.bytes / 1e6:,.3g} MB a step" if growth.bytes > 1e3 else "does not grow"
        yield f"Memory: {grows}"
    if evidence.operators:
        types = _types(evidence.operators)
        autocast = "autocast in use" if evidence.is_autocast else "no autocast"
        compiled = "torch.compile in use" if evidence.is_compiled else "no torch.compile"
        yield f"Precision: {types}; {autocast}; {compiled}"


def _types(operators):
    """The floating point types by the time spent on them, the longest first."""
    names = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
    seconds = {}
    for call in operators.calls:
        for kind in {kind for kind, shape in zip(call.types, call.shapes, strict=False) if shape} & names.keys():
            seconds[kind] = seconds.get(kind, 0.0) + call.own
    return ", ".join(names[kind] for kind in sorted(seconds, key=lambda kind: -seconds[kind])) or "no floats"


def _tries(diagnosis):
    if not (diagnosis.findings or diagnosis.healthy):
        if not diagnosis.problem:
            yield "Nothing was found, but there was no time to see all: give it more, seconds=60."
        return
    if diagnosis.healthy:
        evidence = diagnosis.evidence
        yield "Healthy: nothing was found that would make a step 1.18 times as fast."
        yield (
            f"  The computation is the limit: {duration(evidence.compute)} of {duration(evidence.step)}. What is left: "
            "another precision, torch.compile, another model (chapters 05 and 06)."
        )
        return
    yield "What to try"
    for place, finding in enumerate(diagnosis.findings, start=1):
        gain = "before the run ends by itself" if finding.ends else f"at most {times(finding.bound)} faster"
        number, section = finding.chapter
        yield f"{place}. {finding.cause}: {gain}"
        yield f"   try    {finding.advice}"
        yield f"   seen   {finding.evidence}"
        yield f'   read   chapter {number}, {CHAPTERS[number]}: "{section}"'


def _absent(evidence):
    reasons = {}
    for phase, why in evidence.absent.items():
        reasons.setdefault(why, []).append(phase.replace("_", " "))
    if reasons:
        yield "Not seen"
        for why, phases in reasons.items():
            yield f"  {', '.join(phases)}: {why}"


def _left(evidence):
    yield f"The step was called {evidence.calls_of_step} times. Random states and the loader are as they were"
    trained = evidence.operators and evidence.operators.parameters
    if evidence.supply.once:
        yield f"  but it is an iterator: {evidence.supply.taken} batches were taken from it, and cannot be put back."
    if evidence.is_model and evidence.is_optimizer:
        yield "  and so are model and optimiser. What else the step keeps, in lists or files, it has kept."
    elif trained or evidence.operators is None:
        lacking = " and ".join(
            name for name, given in (("model", evidence.is_model), ("optimizer", evidence.is_optimizer)) if not given
        )
        yield f"  but the step trains, and no {lacking} was handed over: these calls have trained for good."
