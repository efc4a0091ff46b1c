"""Recorded cpu.json.gz with torch 2.13: two layers in training for three of five steps, fed by a DataLoader.

python tests/traces/record.py
"""

import gzip
import re
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset


def record(path):
    """Write the trace as gzip."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(5 * 32, 64), torch.randint(10, (5 * 32,)))
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3)) as profiler:
        for inputs, targets in DataLoader(data, batch_size=32):
            with record_function("forward"):
                loss = torch.nn.functional.cross_entropy(net(inputs), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(plain))
        text = re.sub(r'"(host_name|traceName)": "[^"]*"', r'"\1": "-"', plain.read_text(encoding="utf-8"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    record(Path(__file__).with_name("cpu.json.gz"))
