"""Train a network to read handwritten digits from scanned sheets: python train_slow.py FOLDER SEED.

FOLDER holds train/ and test/ with sheets of 10 by 10 digits, and labels.txt with the digits of each train sheet.
Prints the classes of the test digits.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCH, MICRO_BATCH = 3, 100, 10
MEAN, DEVIATION = 73.0, 90.0  # of the grey levels


class Digits(Dataset):
    """The digits of a folder of sheets, with their labels."""

    def __init__(self, folder, labels):
        self.sheets = sorted(folder.glob("*.png"))
        self.labels = labels

    def __len__(self):
        return 100 * len(self.sheets)

    def __getitem__(self, number):
        digit = cut(self.sheets[number // 100], number % 100)
        return normalise(digit), self.labels[number]


def cut(path, place):
    """The digit at a place of a sheet, counted row by row."""
    row, column = divmod(place, 10)
    sheet = Image.open(path)
    return sheet.crop((8 * column, 8 * row, 8 * column + 8, 8 * row + 8))


def normalise(digit):
    """The pixels of a digit, with a mean of 0 and a deviation of 1 over all digits."""
    pixels = []
    for y in range(8):
        for x in range(8):
            pixels.append((digit.getpixel((x, y)) - MEAN) / DEVIATION)
    return np.array(pixels)


def network():
    """A network of one wide layer, in the precision of the pixels."""
    net = torch.nn.Sequential(torch.nn.Linear(64, 1600), torch.nn.ReLU(), torch.nn.Linear(1600, 10))
    return net.double()  # or: expected scalar type Float but found Double


class Adam:
    """The optimiser of Kingma and Ba, 2015."""

    def __init__(self, parameters, lr):
        self.parameters, self.lr, self.steps = list(parameters), lr, 0
        self.means = [torch.zeros_like(weight) for weight in self.parameters]
        self.squares = [torch.zeros_like(weight) for weight in self.parameters]

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for weight, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            mean.copy_(0.9 * mean + 0.1 * weight.grad)
            square.copy_(0.999 * square + 0.001 * weight.grad**2)
            expected_mean = mean / (1 - 0.9**self.steps)
            expected_square = square / (1 - 0.999**self.steps)
            weight.copy_(weight - self.lr * expected_mean / (torch.sqrt(expected_square) + 1e-8))

    def zero_grad(self):
        for weight in self.parameters:
            weight.grad = None


def learn(net, optimiser, pixels, labels):
    """One step of training, in micro-batches that fit into memory; the loss of each."""
    losses = []
    optimiser.zero_grad()
    for part, known in zip(pixels.split(MICRO_BATCH), labels.split(MICRO_BATCH), strict=True):
        with torch.autograd.set_detect_anomaly(True):  # there was a NaN in March
            loss = cross_entropy(net(part), known, reduction="sum") / len(pixels)
            loss.backward()
        losses.append(loss)
    optimiser.step()
    return losses


def classify(net, digits):
    """The class of each digit."""
    outputs = [net(torch.tensor(pixels)) for pixels, _ in digits]
    return [output.argmax().item() for output in outputs]


def train(folder, seed):
    """Train on the sheets of folder/train; the classes of the digits in folder/test, in order."""
    torch.manual_seed(seed)
    folder = Path(folder)
    labels = [int(label) for label in (folder / "labels.txt").read_text().replace("\n", "")]
    digits = Digits(folder / "train", labels)
    net = network()
    optimiser = Adam(net.parameters(), lr=0.005)
    losses = []
    for epoch in range(EPOCHS):
        loader = DataLoader(digits, batch_size=BATCH, shuffle=True)
        for pixels, labels in loader:
            losses += learn(net, optimiser, pixels, labels)
            print(f"mean loss so far {torch.stack(losses).mean().item():.4f}", end="\r")
        right = [found == known for found, known in zip(classify(net, digits), digits.labels, strict=True)]
        print(f"epoch {epoch + 1}: accuracy in training {sum(right) / len(right):.1%}")
    test = folder / "test"
    return classify(net, Digits(test, [0] * 100 * len(list(test.glob("*.png")))))


if __name__ == "__main__":
    print(train(sys.argv[1], int(sys.argv[2])))
