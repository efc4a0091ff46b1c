"""Data sets on real photographs: one set of records in every form, found by workers that are spawned."""

import pickle
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import ChainDataset, ConcatDataset, DataLoader, Subset

from steptime.sources import (
    Draws,
    Everything,
    Pictures,
    Remote,
    Shards,
    Share,
    Texts,
    Traced,
    own_generator,
    photographs,
    write_shards,
)

pytestmark = pytest.mark.usefixtures("time_limit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photographs(tmp_path_factory.mktemp("a cache") / "photographs")


@pytest.fixture(scope="module")
def texts(folder):
    return Texts(folder / "records.jsonl")


@pytest.fixture(scope="module")
def shards(folder):
    return Shards(folder / "shards")


def test_they_are_made_once_and_whole(folder):
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert photographs(folder) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == made
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_two_that_make_them_at_once_do_not_collide(tmp_path):
    with ProcessPoolExecutor(2) as both:
        folders = list(both.map(photographs, [tmp_path / "data"] * 2))
    assert [len(Texts(folder / "records.jsonl")) for folder in folders] == [2_080] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_both_forms_hold_the_same_records(texts, shards):
    assert len(texts) == len(shards) == 2_080
    for index in range(2_080):
        (text, label), (array, other) = texts[index], shards[index]
        assert text.dtype == array.dtype == np.uint8 and text.shape == (768,)
        assert np.array_equal(text, array) and label == other
    assert Counter(int(label) for _, label in shards) == {0: 1_040, 1: 1_040}


def test_the_records_are_the_photographs(texts):
    from sklearn.datasets import load_sample_image

    pixels, label = texts[2 * 41 + 1]  # 40 pieces a row: the second of the second row, of the flower
    assert label == 1 and np.array_equal(pixels.reshape(16, 16, 3), load_sample_image("flower.jpg")[16:32, 16:32])


def test_a_list_of_numbers_gives_a_batch(shards):
    chosen = [5, 2_000, 700, 5]
    pixels, labels = shards[chosen]
    assert np.array_equal(shards[500:520][0], shards[list(range(500, 520))][0]) and len(shards[:][1]) == 2_080
    assert pixels.shape == (4, 768) and pixels.flags.writeable
    for place, index in enumerate(chosen):
        assert np.array_equal(pixels[place], shards[index][0]) and labels[place] == shards[index][1]


def test_a_negative_number_counts_from_the_end(texts, shards):
    for data in (texts, shards):
        for index in (-1, np.int64(-2_080)):
            (pixels, label), (same, other) = data[index], data[2_080 + index]
            assert np.array_equal(pixels, same) and label == other


@pytest.mark.parametrize("index", [2_080, -2_081, 10**9])
def test_beyond_the_last_record_is_an_error(texts, shards, index):
    for read in (lambda: texts[index], lambda: shards[index], lambda: shards[[0, index]]):
        with pytest.raises(IndexError):
            read()


def test_shards_are_read_by_name_in_another_process(shards):
    pickled = pickle.dumps(shards)
    assert len(pickled) < 2_000 and np.array_equal(pickle.loads(pickled)[77][0], shards[77][0])


def test_a_last_shard_may_be_short(tmp_path, texts):
    write_shards(Subset(texts, range(10)), tmp_path / "few", size=4)
    assert len(list((tmp_path / "few").glob("pixels-*.npy"))) == 3
    assert np.array_equal(Shards(tmp_path / "few")[9][0], texts[9][0])


def test_pictures_are_decoded(folder):
    pictures = Pictures(folder / "jpeg")
    small, label = pictures[len(pictures) - 1]
    assert small.shape == (64, 64, 3) and small.dtype == np.uint8 and small.std() > 10 and label == 1
    assert len(pictures) > 200
    batch, labels = pictures[[3, len(pictures) - 1]]
    assert np.array_equal(batch[1], small) and labels.tolist() == [1, 1]


def test_a_remote_source_waits_and_passes_on(texts):
    remote = Remote(texts, 0.02, stall=0.06)
    seconds = []
    for index in (6, 7):
        start = time.perf_counter()
        assert np.array_equal(remote[index][0], texts[index][0])
        seconds.append(time.perf_counter() - start)
    assert 0.02 <= seconds[0] < 0.06 <= seconds[1]


def test_spawned_workers_find_every_source(folder, texts, shards):
    """One pair of workers for all: each imports torch anew."""
    sources = [texts, shards, Pictures(folder / "jpeg"), Remote(texts, 0.001), Draws(3, 0)]
    records = ConcatDataset([Subset(source, range(3)) for source in [*sources, Traced(texts)]])
    loader = DataLoader(
        records, batch_size=None, num_workers=2, multiprocessing_context="spawn", persistent_workers=True
    )
    came = list(loader)
    assert len(came) == 18
    for index in range(3):
        assert torch.equal(came[index][0], came[3 + index][0]) and came[index][1] == came[3 + index][1]
    assert len({came[15 + index][0] for index in range(3)}) == 2


def test_spawned_workers_split_a_stream_too():
    """Everything and Share in one stream, as each worker that is spawned imports torch anew."""
    stream = ChainDataset([Everything(4), Share(8)])
    loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert Counter(map(int, loader)) == {**dict.fromkeys(range(4), 2 + 1), **dict.fromkeys(range(4, 8), 1)}


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_stream_is_repeated_by_every_worker_unless_it_is_split(workers):
    def count(dataset):
        return Counter(int(number) for number in DataLoader(dataset, batch_size=None, num_workers=workers))

    assert count(Everything(10)) == dict.fromkeys(range(10), max(workers, 1))
    assert count(Share(10)) == dict.fromkeys(range(10), 1)


@pytest.mark.parametrize(
    ("mend", "different", "context"), [(None, 5, None), (own_generator, 10, None), (own_generator, 10, "spawn")]
)
def test_a_generator_is_copied_into_every_worker_unless_each_gets_its_own(mend, different, context):
    torch.manual_seed(0)
    options = {"num_workers": 2, "worker_init_fn": mend, "multiprocessing_context": context}
    loader = DataLoader(Draws(10, seed=0), batch_size=None, **options)
    from_numpy, from_torch, held = zip(*loader, strict=True)
    assert len(set(from_numpy)) == len(set(from_torch)) == 10 and len(set(held)) == different
    if context is None:  # another pass, another seed
        assert ([each[2] for each in loader] == list(held)) == (mend is None)
