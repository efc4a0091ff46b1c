"""Everything that a diagnosis borrows, given back as it was: random states, the loader, the model, the optimiser."""

import contextlib
import copy
import random

import numpy as np


@contextlib.contextmanager
def as_it_was(loader, model=None, optimizer=None):
    """Give back, when the block is over, what was there at its start.

    That is: the states of Python's, NumPy's and torch's global generators and of those that the loader, its sampler and
    its data set hold; the loader's workers; threads; state_dicts, gradients and modes of model and optimiser.
    """
    with contextlib.ExitStack() as stack:
        for kept in (_generators(loader), _workers(loader), _threads(), _model(model), _optimizer(optimizer)):
            stack.enter_context(kept)
        yield


@contextlib.contextmanager
def _generators(loader):
    import torch

    python, numpy, held = random.getstate(), np.random.get_state(), [(it, _state(it)) for it in _held(loader)]
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for generator, state in held:
            _set_state(generator, state)


def _held(loader):
    """The generators that a loader holds, or an object that it holds."""
    import torch

    kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    places, seen = [loader], set()
    for _ in range(3):
        places = [member for place in places for member in getattr(place, "__dict__", {}).values()]
        for member in places:
            if isinstance(member, kinds) and id(member) not in seen:
                seen.add(id(member))
                yield member


def _state(generator):
    if hasattr(generator, "bit_generator"):
        return copy.deepcopy(generator.bit_generator.state)
    return generator.getstate() if hasattr(generator, "getstate") else generator.get_state()


def _set_state(generator, state):
    if hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        (getattr(generator, "setstate", None) or generator.set_state)(state)


@contextlib.contextmanager
def _workers(loader):
    """A DataLoader keeps persistent workers in `_iterator`; end them where it had none."""
    had = getattr(loader, "_iterator", None)
    try:
        yield
    finally:
        if had is None and (workers := getattr(loader, "_iterator", None)) is not None:
            if hasattr(workers, "_shutdown_workers"):
                workers._shutdown_workers()
            loader._iterator = None


@contextlib.contextmanager
def _threads():
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def _model(model):
    if model is None:
        yield
        return
    state = copy.deepcopy(model.state_dict())
    parameters, modules = (getattr(model, name, tuple) for name in ("parameters", "modules"))
    grads = [(each, None if each.grad is None else each.grad.detach().clone()) for each in parameters()]
    modes = [(module, module.training) for module in modules()]
    try:
        yield
    finally:
        model.load_state_dict(state)
        for parameter, grad in grads:
            parameter.grad = grad
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def _optimizer(optimizer):
    if optimizer is None:
        yield
        return
    state = copy.deepcopy(optimizer.state_dict())
    try:
        yield
    finally:
        optimizer.load_state_dict(state)
