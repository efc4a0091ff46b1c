"""Record the small traces that chapter 03 reads: one training on the CPU, its data from the main process, then workers.

Each sample sleeps 3 ms, as one that a disk brings; the network computes a little. Host names are left out.
"""

import gzip
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from book.chapters import ROOT

FOLDER = ROOT / "notebooks" / "traces"
WORKERS = {"loader_in_main": 0, "loader_with_workers": 4}


class Slow(Dataset):
    """Samples that take their time."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        if place >= self.count:
            raise IndexError(place)
        time.sleep(0.003)
        generator = torch.Generator().manual_seed(place)
        return torch.randn(1_024, generator=generator), place % 10


def record(path, workers, batch=8, steps=14):
    """Train for some steps, keep four of them, and write the trace as gzip."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(1_024, 4_096), torch.nn.ReLU(), torch.nn.Linear(4_096, 10))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Slow(batch * steps), batch_size=batch, num_workers=workers)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=9, warmup=1, active=4, repeat=1)
    ) as recording:
        for inputs, targets in loader:
            loss = torch.nn.functional.cross_entropy(net(inputs), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            recording.step()
    with TemporaryDirectory() as folder:
        plain = Path(folder, "trace.json")
        recording.export_chrome_trace(str(plain))
        text = re.sub(r'"(host_name|traceName)": "[^"]*"', r'"\1": "-"', plain.read_text(encoding="utf-8"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main():
    """Record all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, workers in WORKERS.items():
        record(FOLDER / f"{name}.json.gz", workers)
        print(f"recorded {name}")


if __name__ == "__main__":
    sys.exit(main())
