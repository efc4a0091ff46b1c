"""The traces that chapter 03 reads are the book's own, small, and tell what the chapter says."""

import gzip
import re

import pytest

from book import picture
from book.chapters import ROOT
from book.traces import FOLDER, WORKERS, record
from steptime import trace


@pytest.fixture(scope="module")
def shipped():
    return {name: trace.read(FOLDER / f"{name}.json.gz") for name in WORKERS}


def test_the_main_process_waits_and_workers_take_the_waiting_away(shipped):
    alone, helped = (shipped[name].data_wait.share for name in ("loader_in_main", "loader_with_workers"))
    assert alone > 0.5 and helped < 0.25


def test_both_hold_the_same_steps_of_the_same_network(shipped):
    numbers = [[step.number for step in seen.steps] for seen in shipped.values()]
    assert numbers == [[10, 11, 12, 13]] * 2
    products = [{o.name: o.calls for o in seen.operators}["aten::addmm"] for seen in shipped.values()]
    assert products == [8, 8]


def test_they_are_whole_small_and_name_no_host(shipped):
    for name, seen in shipped.items():
        path = FOLDER / f"{name}.json.gz"
        assert not seen.health.truncated and not seen.health.repaired and not seen.health.skipped
        assert path.stat().st_size < 50_000
        hosts = re.findall(r'"host_name": "(.*?)"', gzip.decompress(path.read_bytes()).decode())
        assert set(hosts) <= {"-"}


def test_every_trace_of_the_folder_is_regenerated_by_the_target():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.json.gz" for name in WORKERS}


def test_the_opening_picture_says_what_they_hold(shipped):
    drawn = [text.get_text() for text in picture.opening(shipped).axes[0].texts]
    assert drawn == [f"{seen.span.ms:.0f} ms" for seen in shipped.values()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"{text}," in readme for text in drawn)


def test_a_new_recording_tells_the_same(tmp_path):
    record(tmp_path / "new.json.gz", workers=0)
    seen = trace.read(tmp_path / "new.json.gz")
    assert [step.number for step in seen.steps] == [10, 11, 12, 13] and seen.data_wait.share > 0.2
