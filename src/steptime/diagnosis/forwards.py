"""Which networks a step calls: with or without gradients, for training or not, and twice on the same input."""

from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Forwards:
    """Seconds that one step spends in forward passes, by their kind; each pass counts once, with all it calls.

    kinds: {kind: (passes, seconds, name of the network called most)} with the kinds "trained", "evaluated" (without
    gradients, or in evaluation mode beside others in training mode), "repeated" (on an input that it has had in this
    step) and "recomputed" (that, within the backward pass, as checkpointing does). step: seconds of the whole step.
    """

    kinds: dict
    step: float

    def share(self, kind):
        """The part of the step, 0 to 1, spent in passes of this kind."""
        return self.kinds.get(kind, (0, 0.0, ""))[1] / self.step


class _Pass:
    def __init__(self, module, kind, start):
        self.module, self.kind, self.start, self.inner = module, kind, start, 0.0


def see_forwards(function):
    """Call a function once and watch all networks that it calls: Forwards. What it calls by no Module is not seen."""
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    running, inputs, found = [], {}, {}

    def enter(module, arguments):
        running.append(_Pass(module, _kind(module, arguments, inputs), perf_counter()))

    def leave(module, arguments, output):
        while running and running[-1].module is not module:  # one that raised, and was caught
            running.pop()
        if not running:
            return
        this = running.pop()
        seconds = perf_counter() - this.start
        above = running[-1] if running else None
        if above is None or (this.kind != above.kind and above.kind == "trained"):
            passes, total, names = found.setdefault(this.kind, (0, 0.0, {}))
            names[type(module).__name__] = names.get(type(module).__name__, 0) + 1
            found[this.kind] = (passes + 1, total + seconds - this.inner, names)
            if above:
                above.inner += seconds
        elif above:
            above.inner += this.inner

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        start = perf_counter()
        function()
        step = perf_counter() - start
    finally:
        for hook in hooks:
            hook.remove()
    if "trained" not in found and "frozen" in found:
        found["trained"] = found.pop("frozen")  # some train in evaluation mode, so that normalisation stays as it is
    elif "frozen" in found:
        passes, seconds, names = found.pop("frozen")
        others = found.get("evaluated", (0, 0.0, {}))
        found["evaluated"] = (passes + others[0], seconds + others[1], names | others[2])
    kinds = {kind: (passes, seconds, max(names, key=names.get)) for kind, (passes, seconds, names) in found.items()}
    return Forwards(kinds, step)


def _kind(module, arguments, inputs):
    import torch

    first = next((each for each in arguments if isinstance(each, torch.Tensor)), None)
    if first is not None and any(True for _ in module.parameters()):
        had = inputs.setdefault((id(module), module.training), [])
        if any(_same(first, version, earlier) for version, earlier in had):
            return "recomputed" if torch._C._current_graph_task_id() != -1 else "repeated"
        had.append((_version(first), first))
    if not torch.is_grad_enabled():
        return "evaluated"
    return "trained" if module.training else "frozen"


def _same(tensor, version, earlier):
    """Whether a tensor holds what an earlier one held. One that was written to since is another, and none is kept."""
    import torch

    if _version(earlier) != version or tensor.shape != earlier.shape or tensor.dtype != earlier.dtype:
        return False
    if tensor.data_ptr() == earlier.data_ptr():
        return True
    return tensor.device == earlier.device and torch.equal(tensor, earlier)


def _version(tensor):
    """How often it was written to; 0 for a tensor of inference mode, which does not count."""
    return 0 if tensor.is_inference() else tensor._version
