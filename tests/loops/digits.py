"""The loop of PyTorch's basic image example, on scikit-learn's digits: what a new user diagnoses first."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import log_softmax, max_pool2d, nll_loss, relu
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions and two linear layers, with dropout."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(256, 128), nn.Linear(128, 10)

    def forward(self, images):
        x = relu(self.conv2(relu(self.conv1(images))))
        x = torch.flatten(self.dropout1(max_pool2d(x, 2)), 1)
        return log_softmax(self.fc2(self.dropout2(relu(self.fc1(x)))), dim=1)


def loop():
    """Loader, step, model and optimiser."""
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    loader = DataLoader(TensorDataset(images, torch.tensor(labels)), batch_size=64, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)

    def step(batch):
        data, target = batch
        optimizer.zero_grad()
        nll_loss(model(data), target).backward()
        optimizer.step()

    return loader, step, model, optimizer
