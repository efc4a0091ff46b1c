"""Train a network to read handwritten digits from scanned sheets: python train_fast.py FOLDER SEED.

FOLDER holds train/ and test/ with sheets of 10 by 10 digits, and labels.txt with the digits of each train sheet.
Prints the classes of the test digits.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy

EPOCHS, BATCH = 3, 100
MEAN, DEVIATION = 73.0, 90.0  # of the grey levels


def read(folder):
    """The pixels of all digits of a folder of sheets, sheet by sheet, row by row: (digits, 64)."""
    sheets = np.stack([np.array(Image.open(path)) for path in sorted(folder.glob("*.png"))])
    return sheets.reshape(-1, 10, 8, 10, 8).swapaxes(2, 3).reshape(-1, 64)


def normalise(pixels):
    """The pixels with a mean of 0 and a deviation of 1 over all digits, as a tensor."""
    return torch.from_numpy((pixels - MEAN) / DEVIATION).float()


def batches(pixels, labels):
    """All digits in an order drawn anew, batch by batch."""
    order = torch.randperm(len(pixels))
    return zip(pixels[order].split(BATCH), labels[order].split(BATCH), strict=True)


def network():
    """A network of one wide layer."""
    return torch.nn.Sequential(torch.nn.Linear(64, 1600), torch.nn.ReLU(), torch.nn.Linear(1600, 10))


def learn(net, optimiser, pixels, labels):
    """One step of training; its loss."""
    optimiser.zero_grad()
    loss = cross_entropy(net(pixels), labels)
    loss.backward()
    optimiser.step()
    return loss.item()


@torch.no_grad()
def classify(net, pixels):
    """The class of each digit."""
    return net(pixels).argmax(1).tolist()


def train(folder, seed):
    """Train on the sheets of folder/train; the classes of the digits in folder/test, in order."""
    torch.manual_seed(seed)
    folder = Path(folder)
    labels = [int(label) for label in (folder / "labels.txt").read_text().replace("\n", "")]
    train_pixels, train_labels = normalise(read(folder / "train")), torch.tensor(labels)
    net = network()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.005, fused=True)
    losses = []
    for epoch in range(EPOCHS):
        for pixels, labels in batches(train_pixels, train_labels):
            losses.append(learn(net, optimiser, pixels, labels))
        right = torch.tensor(classify(net, train_pixels)) == train_labels
        accuracy = right.float().mean()
        print(f"epoch {epoch + 1}: mean loss so far {np.mean(losses):.4f}, accuracy in training {accuracy:.1%}")
    return classify(net, normalise(read(folder / "test")))


if __name__ == "__main__":
    print(train(sys.argv[1], int(sys.argv[2])))
