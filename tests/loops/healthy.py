"""Two loops without a fault: one bound by its computation, one whose workers hide that its data come slowly."""

from torch.utils.data import DataLoader

from tests.loops.planted import Slow
from tests.loops.training import Training, in_memory, network

HEALTHY = ("compute_bound", "hidden_loading")


def compute_bound():
    return Training(network(768, 3)).with_loader(in_memory(batch_size=256, count=2_560))


def hidden_loading():
    training = Training(network(768, 3, inputs=64))
    loader = DataLoader(Slow(2_048, 0.00002), batch_size=128, num_workers=1, persistent_workers=True)
    return training.with_loader(loader)
