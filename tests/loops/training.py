"""What the loops share: images made at random, a network, and a plain step."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

INPUTS, CLASSES = 64, 10


def numbers(count=640, inputs=INPUTS):
    """(inputs, classes) of so many samples."""
    torch.manual_seed(0)
    return torch.rand(count, inputs), torch.randint(CLASSES, (count,))


def in_memory(count=640, batch_size=64, inputs=INPUTS):
    return DataLoader(TensorDataset(*numbers(count, inputs)), batch_size=batch_size)


def network(width=64, depth=1, inputs=INPUTS):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
    for _ in range(depth - 1):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, CLASSES))


class Training:
    """A network, an optimiser, and the step that PyTorch's tutorials take; other loops change a part of it."""

    def __init__(self, net=None, lr=0.01):
        self.net = net or network()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr)

    def step(self, batch):
        inputs, classes = batch
        self.optimizer.zero_grad()
        self.loss(inputs, classes).backward()
        self.optimizer.step()

    def loss(self, inputs, classes):
        return cross_entropy(self.net(inputs), classes)

    def with_loader(self, loader):
        """What `diagnose` takes: loader, step, model, optimiser."""
        return loader, self.step, self.net, self.optimizer
