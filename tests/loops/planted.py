"""Fifteen loops, each with one fault. FAULTS says which, in the words of the diagnosis."""

import json
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from steptime.machine import usable_cores
from tests.loops.training import Training, in_memory, network, numbers

FAULTS = {
    "storage_latency": "the data are slow to come",
    "text_decoding": "preparing a batch computes: text is parsed",
    "worker_start": "the workers start again for each pass",
    "sample_loop": "the step loops over its samples",
    "double_precision": "float64",
    "many_threads": "more threads than cores",
    "kept_losses": "memory grows: losses are kept with their graphs",
    "new_shapes": "the step is compiled again and again",
    "tiny_batches": "calls cost more than what they compute",
    "optimiser_by_hand": "an optimiser of many small operators",
    "copied_each_pass": "the data set is copied for each pass",
    "printed_tensors": "logging writes numbers as text",
    "checkpoint_each_step": "a checkpoint in each step",
    "evaluation_each_step": "the step evaluates",
    "forward_twice": "the forward pass is computed twice",
}


class Slow(Dataset):
    """Records that take their time, in which nobody computes."""

    def __init__(self, count=128, seconds=0.001):
        self.records, self.seconds = list(zip(*numbers(count), strict=True)), seconds

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.records[index]


class Texts(Dataset):
    """Records as JSON texts."""

    def __init__(self, count=256, inputs=256):
        pixels, classes = numbers(count, inputs)
        self.texts = [json.dumps({"x": x, "y": y}) for x, y in zip(pixels.tolist(), classes.tolist(), strict=True)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        record = json.loads(self.texts[index])
        return torch.tensor(record["x"]), record["y"]


class Copying:
    """A loader that shuffles a copy of the whole data set, pass by pass."""

    def __init__(self, count=12_000, batch_size=1024):
        self.inputs, self.classes = numbers(count)
        self.batch_size = batch_size

    def __len__(self):
        return len(self.classes) // self.batch_size

    def __iter__(self):
        inputs, classes = [list(each) for each in (self.inputs.clone(), self.classes.clone())]
        for start in range(0, self.batch_size * len(self), self.batch_size):
            chosen = slice(start, start + self.batch_size)
            yield torch.stack(inputs[chosen]), torch.stack(classes[chosen])


def storage_latency():
    return Training().with_loader(DataLoader(Slow(), batch_size=16))


def text_decoding():
    return Training(network(inputs=256)).with_loader(DataLoader(Texts(), batch_size=32))


def worker_start():
    training = Training(network(512, 3))
    return training.with_loader(DataLoader(Slow(64, 0.001), batch_size=16, num_workers=2))


def sample_loop():
    training = Training()

    def loss(inputs, classes):
        return sum(cross_entropy(training.net(x[None]), y[None]) for x, y in zip(inputs, classes, strict=True))

    training.loss = loss
    return training.with_loader(in_memory(batch_size=16))


def double_precision():
    training = Training(network(512, 4).double())
    inputs, classes = numbers()
    return training.with_loader(DataLoader(TensorDataset(inputs.double(), classes), batch_size=128))


def many_threads():
    torch.set_num_threads(8 * usable_cores())
    return Training(network(128, 6)).with_loader(in_memory())


def kept_losses():
    training, losses = Training(network(256, 3)), []

    def step(batch):
        inputs, classes = batch
        training.optimizer.zero_grad()
        loss = training.loss(inputs, classes)
        loss.backward(retain_graph=True)
        training.optimizer.step()
        losses.append(loss)

    return in_memory(batch_size=128), step, training.net, training.optimizer


def new_shapes():
    training = Training()
    training.loss = torch.compile(training.loss, dynamic=False, backend="aot_eager")
    inputs, classes = numbers()
    lengths = [20 + number for number in range(20)]
    batches = [(inputs[:length], classes[:length]) for length in lengths]
    return training.with_loader(batches)


def tiny_batches():
    return Training().with_loader(in_memory(batch_size=1))


def optimiser_by_hand():
    net = network(32, 16)
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in net.parameters()]

    def step(batch):
        inputs, classes = batch
        net.zero_grad()
        cross_entropy(net(inputs), classes).backward()
        with torch.no_grad():
            for parameter, (first, second) in zip(net.parameters(), moments, strict=True):
                first.copy_(0.9 * first + 0.1 * parameter.grad)
                second.copy_(0.999 * second + 0.001 * parameter.grad * parameter.grad)
                parameter -= 0.001 * first / (second.sqrt() + 1e-8)

    return in_memory(), step, net, None


def copied_each_pass():
    return Training().with_loader(Copying())


def printed_tensors():
    training, file = Training(network(256)), tempfile.TemporaryFile("w")  # noqa: SIM115

    def step(batch):
        training.step(batch)
        print(training.net[2].weight, training.net[2].weight.grad, file=file)

    return in_memory(), step, training.net, training.optimizer


def checkpoint_each_step():
    training, folder = Training(network(256)), tempfile.TemporaryDirectory()

    def step(batch):
        training.step(batch)
        torch.save(training.net.state_dict(), Path(folder.name) / "last.pt")

    return in_memory(), step, training.net, training.optimizer


def evaluation_each_step():
    training = Training(network(256))
    inputs, classes = numbers(2_000)

    def step(batch):
        training.step(batch)
        training.net.eval()
        with torch.no_grad():
            (training.net(inputs).argmax(1) == classes).float().mean()
        training.net.train()

    return in_memory(), step, training.net, training.optimizer


def forward_twice():
    training = Training(network(256, 4))

    def step(batch):
        training.step(batch)
        inputs, classes = batch
        (training.net(inputs).argmax(1) == classes).float().mean()

    return in_memory(batch_size=128), step, training.net, training.optimizer
