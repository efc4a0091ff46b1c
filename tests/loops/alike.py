"""Loops that are like the planted ones but not these. CAUSES says what is to be found: None where nothing is."""

import copy
import gzip
import io
import itertools
import json
import pickle
import random
import tempfile
import time

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from tests.loops.training import Training, in_memory, network, numbers

CAUSES = {
    "optimiser_in_place": "an optimiser of many small operators",
    "adam_tensor_by_tensor": "an optimiser of many small operators",
    "gzip_source": "preparing a batch computes: bytes are unpacked",
    "comma_source": "preparing a batch computes: text is parsed",
    "pictures_with_names": "preparing a batch computes: pictures are decoded",
    "augmented_in_python": "preparing a batch computes: Python for each record",
    "slow_collate": "preparing a batch computes: records are fetched and joined",
    "endless_stream": "preparing a batch computes",
    "workers_for_memory": "workers cost more than they give",
    "other_model_validates": "the step evaluates",
    "evaluates_with_graph": "the step evaluates",
    "forward_under_no_grad": "the forward pass is computed twice",
    "summed_losses": "memory grows: losses are kept with their graphs",
    "kept_outputs": "memory grows: tensors are kept",
    "pickled_state": "a checkpoint in each step",
    "json_of_a_tensor": "logging writes numbers as text",
    "numbers_one_by_one": "the step loops over its samples",
    "copied_deeply": "the data set is copied for each pass",
    "read_ahead_in_chunks": "the data are slow to come",
    "looked_for_a_nan": "anomaly mode is on",
    "printed_loss": None,
    "appended_labels": None,
    "double_loss": None,
    "checkpointed": None,
    "trained_in_evaluation_mode": None,
    "dynamic_shapes": None,
    "kept_numbers": None,
}


def ready():
    """Batches that need not be fetched."""
    return list(in_memory(batch_size=256, count=1_280))


def big():
    """A network whose computation outweighs what is done beside it."""
    return Training(network(512, 4))


def beside(training, act, batch_size=256):
    """The training's step, and `act(batch)` after it."""

    def step(batch):
        training.step(batch)
        act(batch)

    return in_memory(batch_size=batch_size), step, training.net, training.optimizer


class Records(Dataset):
    """Records made from what is stored by `make(stored)`."""

    def __init__(self, stored, make):
        self.stored, self.make = stored, make

    def __len__(self):
        return len(self.stored)

    def __getitem__(self, index):
        return self.make(self.stored[index])


def optimiser_in_place():
    net = network(32, 16)
    moments = [torch.zeros_like(each) for each in net.parameters()]

    def step(batch):
        inputs, classes = batch
        for parameter in net.parameters():
            parameter.grad = None
        cross_entropy(net(inputs), classes).backward()
        for parameter, moment in zip(net.parameters(), moments, strict=True):
            gradient = parameter.grad
            gradient.add_(parameter.data, alpha=1e-4)
            moment.mul_(0.9).add_(gradient)
            gradient.add_(moment, alpha=0.9)
            parameter.data.add_(gradient.mul_(0.5), alpha=-0.01)
            parameter.data.clamp_(-10, 10)

    return in_memory(), step, net, None


def adam_tensor_by_tensor():
    training = Training(network(32, 16))
    training.optimizer = torch.optim.Adam(training.net.parameters(), foreach=False)
    return training.with_loader(in_memory())


def gzip_source():
    inputs, classes = numbers(256, 1024)
    stored = [(gzip.compress(x.numpy().tobytes()), y) for x, y in zip(inputs, classes, strict=True)]

    def make(record):
        return torch.frombuffer(bytearray(gzip.decompress(record[0])), dtype=torch.float32), record[1]

    return Training(network(inputs=1024)).with_loader(DataLoader(Records(stored, make), batch_size=32))


def comma_source():
    inputs, classes = numbers(256, 256)
    stored = [(",".join(map(str, x)), y) for x, y in zip(inputs.tolist(), classes.tolist(), strict=True)]

    def make(record):
        return torch.tensor([float(word) for word in record[0].split(",")]), record[1]

    return Training(network(inputs=256)).with_loader(DataLoader(Records(stored, make), batch_size=32))


def pictures_with_names():
    """Pictures to be decoded, and for each a little text to be parsed."""
    files = []
    for pixels in np.random.default_rng(0).integers(0, 256, (64, 96, 96), dtype=np.uint8):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        files.append((",".join(["class", "3", *map(str, range(200))]), file.getvalue()))

    def make(record):
        words = record[0].split(",")
        pixels = np.asarray(Image.open(io.BytesIO(record[1])).resize((16, 16)), dtype=np.float32)
        return torch.from_numpy(pixels.reshape(-1)), int(words[1])

    return Training(network(inputs=256)).with_loader(DataLoader(Records(files, make), batch_size=32))


def augmented_in_python():
    inputs, classes = numbers(256)
    stored = list(zip(inputs.tolist(), classes.tolist(), strict=True))

    def make(record):
        return torch.tensor([x + 0.1 * random.gauss(0, 1) for x in record[0]]), record[1]

    return Training().with_loader(DataLoader(Records(stored, make), batch_size=32))


def _collate(records):
    total = 0.0
    for inputs, _ in records:
        for value in inputs.tolist():
            total += value * value
    return default_collate(records)


def slow_collate():
    loader = DataLoader(TensorDataset(*numbers(256, 1024)), batch_size=64, collate_fn=_collate)
    return Training(network(inputs=1024)).with_loader(loader)


def endless_stream():
    inputs, classes = numbers(64)
    texts = json.dumps(inputs.tolist())

    def stream():
        for _ in itertools.count():
            yield torch.tensor(json.loads(texts)), classes

    return Training().with_loader(stream())


def workers_for_memory():
    return Training().with_loader(DataLoader(TensorDataset(*numbers(256)), batch_size=64, num_workers=2))


def other_model_validates():
    other = network(256, 2).eval()
    inputs, classes = numbers(2_000)

    def act(batch):
        with torch.inference_mode():
            (other(inputs).argmax(1) == classes).float().mean().item()

    return beside(Training(), act, batch_size=64)


def evaluates_with_graph():
    training = Training(network(256, 2))
    inputs, classes = numbers(2_000)

    def act(batch):
        training.net.eval()
        (training.net(inputs).argmax(1) == classes).float().mean().item()
        training.net.train()

    return beside(training, act, batch_size=64)


def forward_under_no_grad():
    training = Training(network(256, 4))

    def act(batch):
        with torch.no_grad():
            training.net(batch[0])

    return beside(training, act)


def summed_losses():
    training, total = Training(network(256, 3)), [0.0]

    def act(batch):
        total[0] = total[0] + training.loss(*batch)

    return beside(training, act, batch_size=64)


def kept_outputs():
    training, kept = Training(network(256, 3)), []

    def act(batch):
        kept.append(torch.zeros(200_000))

    return beside(training, act)


def pickled_state():
    training = Training(network(256, 3))

    def act(batch):
        with tempfile.TemporaryFile() as file:
            pickle.dump({name: each.detach().numpy() for name, each in training.net.named_parameters()}, file)
            pickle.dump(copy.deepcopy(training.net), file)

    return beside(training, act, batch_size=64)


def json_of_a_tensor():
    training, file = Training(network(256)), tempfile.TemporaryFile("w")  # noqa: SIM115

    def act(batch):
        json.dump([each.tolist() for each in training.net.parameters()], file)

    return beside(training, act, batch_size=64)


def numbers_one_by_one():
    training = Training()

    def act(batch):
        scores = training.net(batch[0]).detach().numpy()
        [float(np.exp(each - each.max()).sum()) for each in scores]

    _, *rest = beside(training, act)
    return list(in_memory(batch_size=256)), *rest


class InChunks:
    """A loader that fetches two batches at once: the second does not wait."""

    def __init__(self):
        self.inputs, self.classes = numbers()

    def __iter__(self):
        for start in range(0, len(self.classes), 64):
            if start % 128 == 0:
                time.sleep(0.02)
            yield self.inputs[start : start + 64], self.classes[start : start + 64]


def read_ahead_in_chunks():
    return Training().with_loader(InChunks())


def looked_for_a_nan():
    training = Training()
    plain = training.step

    def step(batch):
        with torch.autograd.set_detect_anomaly(True):
            plain(batch)

    training.step = step
    return training.with_loader(in_memory())


class CopiedDeeply:
    """A loader that copies its records, pass by pass."""

    def __init__(self):
        inputs, classes = numbers(1_000)
        self.records = [{"x": x, "y": y} for x, y in zip(inputs.numpy(), classes.numpy(), strict=True)]

    def __iter__(self):
        records = copy.deepcopy(self.records)
        for start in range(0, len(records), 200):
            yield default_collate(records[start : start + 200])


def copied_deeply():
    training = Training()

    def step(batch):
        training.step((batch["x"], batch["y"]))

    return CopiedDeeply(), step, training.net, training.optimizer


def printed_loss():
    training = big()

    def act(batch):
        print(f"loss {training.last.item():.4f}")

    plain = training.loss

    def loss(inputs, classes):
        training.last = plain(inputs, classes)
        return training.last

    training.loss = loss
    return ready(), *beside(training, act)[1:]


def appended_labels():
    seen = []

    def act(batch):
        for label in batch[1]:
            seen.append(int(label))

    return ready(), *beside(big(), act)[1:]


def double_loss():
    training = big()
    training.loss = lambda inputs, classes: cross_entropy(training.net(inputs).double(), classes)
    return training.with_loader(ready())


def checkpointed():
    training = big()
    training.loss = lambda inputs, classes: cross_entropy(
        checkpoint(training.net, inputs.requires_grad_(), use_reentrant=False), classes
    )
    return training.with_loader(ready())


def trained_in_evaluation_mode():
    training = big()
    training.net.eval()
    return training.with_loader(ready())


def dynamic_shapes():
    training = big()
    training.loss = torch.compile(training.loss, backend="aot_eager")
    inputs, classes = numbers(512)
    return training.with_loader([(inputs[:length], classes[:length]) for length in range(200, 260, 3)])


def kept_numbers():
    training, numbers_kept = big(), []
    plain = training.loss

    def loss(inputs, classes):
        value = plain(inputs, classes)
        numbers_kept.append(value.detach())
        return value

    training.loss = loss
    return training.with_loader(ready())
