"""A diagnosis names what is planted, calls healthy what is, gives back what it borrowed, and ends in a sentence."""

import random
import subprocess
import sys
from time import perf_counter

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import steptime
from book.chapters import ROOT
from steptime.__main__ import main
from steptime.diagnosis import Unfinished, clock
from steptime.diagnosis.trials import see_sizes
from tests.loops import alike, healthy, planted
from tests.loops.training import Training, in_memory, network, numbers

RANKS = {}


@pytest.fixture(autouse=True)
def threads_as_they_were():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def rank(diagnosis, cause):
    """The place of a cause in the list; None where it is not there."""
    places = [place for place, finding in enumerate(diagnosis.findings, 1) if finding.cause.startswith(cause)]
    return places[0] if places else None


@pytest.mark.long
@pytest.mark.parametrize("name", planted.FAULTS)
def test_a_planted_fault_is_found(name):
    diagnosis = steptime.diagnose(*getattr(planted, name)(), seconds=8)
    RANKS[name] = rank(diagnosis, planted.FAULTS[name])
    print(diagnosis)
    assert len(RANKS) - sum(place in (1, 2) for place in RANKS.values()) <= 1, RANKS  # 14 of 15, not each
    assert not diagnosis.healthy


@pytest.mark.long
@pytest.mark.parametrize("name", healthy.HEALTHY)
def test_a_healthy_loop_is_called_healthy(name):
    diagnosis = steptime.diagnose(*getattr(healthy, name)())
    assert diagnosis.healthy and "Healthy" in repr(diagnosis), diagnosis


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "gzip_source",
        "pictures_with_names",
        "other_model_validates",
        "summed_losses",
        "printed_loss",
        "double_loss",
        "checkpointed",
        "looked_for_a_nan",
        "read_ahead_in_chunks",
    ],
)
def test_loops_that_are_alike(name):
    diagnosis = steptime.diagnose(*getattr(alike, name)(), seconds=12)
    if alike.CAUSES[name] is None:
        assert diagnosis.healthy, diagnosis
    else:
        assert rank(diagnosis, alike.CAUSES[name]) in (1, 2), diagnosis


def everything(training):
    """All that a diagnosis could disturb, as texts."""
    states = [training.net.state_dict(), training.optimizer.state_dict()]
    grads = [each.grad for each in training.net.parameters()]
    return repr([random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), states, grads])


def test_all_is_given_back():
    training = Training()
    training.optimizer = torch.optim.Adam(training.net.parameters())
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(
        TensorDataset(*numbers(128)), batch_size=16, shuffle=True, generator=generator, num_workers=1,
        persistent_workers=True,
    )  # fmt: skip
    training.step(next(iter(in_memory(batch_size=16))))

    def step(batch):
        random.random(), np.random.random(), torch.rand(1)
        training.net.train(not training.net.training)
        training.step(batch)

    torch.set_printoptions(precision=12, threshold=10**6)
    before, drawn = everything(training), generator.get_state()
    diagnosis = steptime.diagnose(loader, step, training.net, training.optimizer, seconds=2)
    assert everything(training) == before and torch.equal(generator.get_state(), drawn)
    torch.set_printoptions(profile="default")
    assert loader._iterator is None and training.net.training
    assert "so are model and optimiser" in repr(diagnosis)


def test_it_says_that_a_step_has_trained():
    training = Training()
    before = training.net[0].weight.detach().clone()
    diagnosis = steptime.diagnose(in_memory(), training.step, seconds=2)
    assert "no model and optimizer was handed over: these calls have trained for good" in repr(diagnosis)
    assert not torch.equal(training.net[0].weight, before)


def test_a_step_that_does_not_train_has_trained_nothing():
    net = network(512, 3)
    diagnosis = steptime.diagnose(in_memory(), lambda batch: net(batch[0]).sum().backward, seconds=2)
    assert "trained for good" not in repr(diagnosis)


def test_it_ends_in_time_and_draws():
    start = perf_counter()
    diagnosis = steptime.diagnose(*planted.storage_latency(), seconds=3)
    assert perf_counter() - start < 10
    picture = diagnosis.plot()
    assert "wait for the batch" in picture.alt and "%" in picture.caption and "<img alt=" in picture._repr_html_()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, batch):
        self.layer(batch["x"] if isinstance(batch, dict) else batch).sum().backward()


def tensors(count=10):
    return [torch.rand(8, 64) for _ in range(count)]


def dicts():
    return [{"x": each} for each in tensors()]


@pytest.mark.parametrize(
    "loader",
    [tensors, lambda: iter(tensors()), lambda: (each for each in tensors(2)), dicts, lambda: tensors(1)],
    ids=["list", "iterator", "generator", "dicts", "one"],
)
@pytest.mark.parametrize("wrap", [lambda step: step, lambda step: lambda batch: step(batch), lambda step: step.forward])
def test_loaders_and_steps_of_all_kinds(loader, wrap):
    loader = loader()
    diagnosis = steptime.diagnose(loader, wrap(Net()), seconds=1)
    assert "a step takes" in repr(diagnosis)
    if hasattr(loader, "__next__"):
        assert "cannot be put back" in repr(diagnosis)


def test_a_compiled_step():
    net = torch.nn.Linear(64, 10)
    step = torch.compile(lambda batch: net(batch).sum().backward(), backend="eager")
    assert "torch.compile in use" in repr(steptime.diagnose(tensors(), step, net, seconds=2))


def test_the_clock_does_not_count_its_own_reading():
    assert min(clock.since(clock.now()).wall for _ in range(200)) < 5e-6


def test_what_a_change_of_size_costs_is_no_fixed_cost():
    """After a large batch the caches hold its numbers, so the first small one takes longer than those that follow."""
    last = 0

    def step(batch):
        nonlocal last
        sum(range(200 * (len(batch) + 300 * (len(batch) != last))))
        last = len(batch)

    assert see_sizes(step, torch.zeros(100), 5).fixed < 0.2


def test_autocast_within_the_step_is_seen():
    net = torch.nn.Linear(64, 10)

    def step(batch):
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(batch).sum()
        loss.backward()

    assert "autocast in use" in repr(steptime.diagnose(tensors(), step, net, seconds=2))


def test_a_step_that_raises_is_a_sentence_and_what_was_measured():
    count = [0]

    def step(batch):
        count[0] += 1
        if count[0] == 7:
            raise KeyError("lost")

    with pytest.raises(Unfinished, match=r"^step raised KeyError in its call 7: 'lost'$") as caught:
        steptime.diagnose(tensors(), step)
    assert len(caught.value.diagnosis.evidence.supply.log) == 6
    assert "What was measured until then:" in repr(caught.value.diagnosis)


def test_a_step_that_raises_at_once():
    with pytest.raises(Unfinished, match="ZeroDivisionError in its call 1"):
        steptime.diagnose(tensors(), lambda batch: 1 / 0)


def test_an_empty_loader_leaves_the_random_states():
    class Drawing:
        def __iter__(self):
            torch.rand(1)
            return iter(())

    before = torch.get_rng_state()
    with pytest.raises(ValueError, match="no batch"):
        steptime.diagnose(Drawing(), print)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_elsewhere():
    net = torch.nn.Linear(64, 10, device="meta")
    with pytest.raises(Unfinished, match=r"\(the batch is on cpu, the model on meta\)$"):
        steptime.diagnose(tensors(), lambda batch: net(batch).sum().item(), net)


def test_a_loader_that_raises():
    def loader():
        yield from tensors(3)
        raise OSError("gone")

    with pytest.raises(Unfinished, match=r"^The loader raised OSError after 3 batches: gone$"):
        steptime.diagnose(loader(), Net())


def generates(batch):
    yield batch


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], print), "the loader gave no batch"),
        ((3, print), "needs a loader or another iterable of batches, got a int"),
        ((tensors(), 3), "needs a function that takes a step on a batch, got a int"),
        ((tensors(), lambda x, y: None), r"called with one argument, a batch .* wrap it, as in lambda batch"),
        ((tensors(), generates), "generates returns before its work is done"),
        ((tensors(), print, 3), "model needs a state_dict to be given back, and a int has none"),
        ((tensors(), print, None, None, 0), "seconds must be above 0, not 0"),
    ],
)
def test_bad_input_is_a_sentence(arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        steptime.diagnose(*arguments)


def command(*words):
    whole = [sys.executable, "-m", "steptime", "diagnose", *words]
    return subprocess.run(whole, capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_command_prints_the_page_and_draws(tmp_path):
    file = tmp_path / "step.png"
    done = command("tests.loops.planted:checkpoint_each_step", "--seconds", "5", "--plot", str(file))
    assert done.returncode == 0 and "a checkpoint in each step" in done.stdout and file.stat().st_size > 5_000


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nothing", "'nothing' names no function: write module:function"),
        ("no_such_module:loop", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("math:loop", "math has no function loop."),
        ("math:pi", "math:pi is a float, no function."),
        ("math:sin", "math:sin raised TypeError"),
        ("time:time", "time:time returns a float: let it return loader, step"),
    ],
)
def test_the_command_says_in_a_sentence_what_is_wrong(place, sentence, capsys):
    assert main(["diagnose", place]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
