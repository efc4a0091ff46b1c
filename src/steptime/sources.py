"""Where batches come from: data sets on real photographs, in a module so that workers started by spawn can import them.

Two photographs that scikit-learn ships, a temple in China and a flower, are cut into pieces; which of the two a piece
comes from is its label. The same records are written as JSON texts and as arrays in shards, larger pieces as JPEG.
"""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

SIDE = 16  # pixels of a record, and its three colours
PICTURE = 256  # pixels of a JPEG file, from which SMALL are kept
SMALL = 64


def photographs(folder=None):
    """The folder with `records.jsonl`, `shards` and `jpeg`: made once, in about two seconds, found again later.

    folder: where; by default one in the reader's cache.
    """
    folder = Path(folder or Path.home() / ".cache" / "steptime" / "photographs-1")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        started = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            _make(started)
            started.rename(folder)  # whole or not at all, whoever else is at it
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(started, ignore_errors=True)
    return folder


def _make(folder):
    from PIL import Image
    from sklearn.datasets import load_sample_image

    (folder / "jpeg").mkdir()
    images = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
    with (folder / "records.jsonl").open("w", encoding="utf-8") as texts:
        for top, left in _corners(images[0].shape, SIDE, SIDE):
            for label, image in enumerate(images):
                piece = image[top : top + SIDE, left : left + SIDE]
                texts.write(json.dumps({"pixels": piece.ravel().tolist(), "label": label}) + "\n")
    for number, (top, left) in enumerate(_corners(images[0].shape, PICTURE, 24)):
        for label, image in enumerate(images):
            piece = Image.fromarray(image[top : top + PICTURE, left : left + PICTURE])
            piece.save(folder / "jpeg" / f"{number:03}-{label}.jpg", quality=90)
    write_shards(Texts(folder / "records.jsonl"), folder / "shards")


def _corners(shape, side, step):
    height, width = shape[:2]
    return [(top, left) for top in range(0, height - side + 1, step) for left in range(0, width - side + 1, step)]


def write_shards(dataset, folder, size=512):
    """Write (array, label) records as arrays of `size` records each, to be read by `Shards`."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, len(dataset), size)):
        pixels, labels = zip(*(dataset[i] for i in range(start, min(start + size, len(dataset)))), strict=True)
        np.save(folder / f"pixels-{number:03}.npy", np.stack(pixels))
        np.save(folder / f"labels-{number:03}.npy", np.array(labels))


class Texts(Dataset):
    """JSON texts, one a line, parsed when they are asked for: (768 numbers 0 to 255 as uint8, label)."""

    def __init__(self, path):
        self.path = Path(path)
        lengths = [len(line) for line in self.path.read_bytes().splitlines(keepends=True)]
        self._starts = np.cumsum([0, *lengths])

    def __len__(self):
        return len(self._starts) - 1

    def __getitem__(self, index):
        index = range(len(self))[index]  # counts from the end where it is negative
        start, end = self._starts[index], self._starts[index + 1]
        with self.path.open("rb") as file:  # opened each time: forked workers would share one place in one file
            file.seek(start)
            record = json.loads(file.read(end - start))
        return np.array(record["pixels"], dtype=np.uint8), record["label"]


class Shards(Dataset):
    """Arrays written by `write_shards`, mapped into memory: the system reads a page when it is first touched.

    Indexed as an array is: a number gives a record (array, label), a list or a slice a batch (arrays, labels).
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self._shards = [
            [np.asarray(np.load(path, mmap_mode="r")) for path in sorted(self.folder.glob(f"{kind}-*.npy"))]
            for kind in ("pixels", "labels")
        ]
        self._starts = np.cumsum([0, *map(len, self._shards[1])])

    def __reduce__(self):  # a worker that is spawned maps the files itself, and gets no copy of what is in them
        return Shards, (self.folder,)

    def __len__(self):
        return int(self._starts[-1])

    def __getitem__(self, index):
        numbers = np.arange(len(self))[index]
        shards = np.searchsorted(self._starts, numbers, side="right") - 1
        places = numbers - self._starts[shards]
        if np.ndim(numbers) == 0:
            pixels, labels = (kind[shards] for kind in self._shards)
            return pixels[places].copy(), labels[places]
        return tuple(_gather(kind, shards, places) for kind in self._shards)


def _gather(arrays, shards, places):
    gathered = np.empty((len(places), *arrays[0].shape[1:]), arrays[0].dtype)
    for shard in np.unique(shards):
        chosen = shards == shard
        gathered[chosen] = arrays[shard][places[chosen]]
    return gathered


class Pictures(Dataset):
    """JPEG files, decoded and made small when they are asked for: (64 x 64 x 3 as uint8, label).

    A number gives a picture, a list of numbers a batch, as from `Shards`.
    """

    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if np.ndim(index):
            return tuple(map(np.array, zip(*(self[number] for number in index), strict=True)))
        from PIL import Image

        with Image.open(self.paths[index]) as image:
            small = image.resize((SMALL, SMALL), Image.Resampling.BILINEAR)
        return np.array(small), int(self.paths[index].stem[-1])


class Remote(Dataset):
    """A data set far away: every request takes `latency` seconds more, in which nobody computes.

    stall: seconds that each eighth record takes instead, as where a cache is missed; None: none does.
    """

    def __init__(self, dataset, latency, stall=None):
        self.dataset, self.latency, self.stall = dataset, latency, stall

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        stalls = self.stall is not None and np.ndim(index) == 0 and index % 8 == 7
        time.sleep(self.stall if stalls else self.latency)
        return self.dataset[index]


class Everything(IterableDataset):
    """The numbers of all records, from first to last, whoever asks."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


class Share(Everything):
    """The same stream, split: of n workers, number k takes every n-th record from k on."""

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return iter(range(first, self.count, step))


class Draws(Dataset):
    """Three random numbers a record: from NumPy's global generator, from torch's, from one that the data set holds."""

    def __init__(self, count, seed):
        self.count, self.random = count, np.random.default_rng(seed)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return np.random.random(), float(torch.rand((), dtype=torch.float64)), self.random.random()


def own_generator(_):
    """For `worker_init_fn`: give the copy of the data set in this worker a generator of its own."""
    info = get_worker_info()
    info.dataset.random = np.random.default_rng(info.seed)


class Traced(Dataset):
    """Tells who read a record of a data set: (number of the process, bytes that no other process shares with it)."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        self.dataset[index]
        return os.getpid(), psutil.Process().memory_full_info().uss
