"""Any bytes in: an answer or one sentence out, within a time limit.

Cases in a run: 100 of arbitrary bytes, 100 of arbitrary JSON, 300 of damaged traces, 200 of strange events.
"""

import gzip
import json
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from book.chapters import ROOT
from steptime.trace import NotATrace, read
from steptime.trace.summary import summary
from tests.traces.write import document, training

LIMIT = timedelta(seconds=2)
RECORDED = gzip.decompress((ROOT / "tests" / "traces" / "cpu.json.gz").read_bytes())
GOOD = (document(*training()).encode(), RECORDED[:6000], gzip.compress(document(*training()).encode()))


def cases(count):
    return settings(
        max_examples=count, deadline=LIMIT, suppress_health_check=list(HealthCheck), database=None, derandomize=True
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Write bytes into a file; what comes out must be clean JSON and a page, or one sentence."""
    path = tmp_path_factory.mktemp("anything") / "trace.json"

    def answer(content):
        path.write_bytes(content)
        try:
            trace = read(path)
        except NotATrace as refused:
            sentence = str(refused)
            assert sentence.startswith(str(path)) and sentence.endswith(".") and "\n" not in sentence
            return None
        found = summary(trace)
        json.dumps(found, allow_nan=False)
        assert repr(trace).startswith(str(path))
        for each in found["devices"].values() if found["devices"] else ():
            assert each["idle"] is None or -1e-9 <= each["idle"] <= 1
        assert all(self_us >= 0 for *_, self_us in found["operators"] or ())
        return found

    return answer


@cases(100)
@given(content=st.binary(max_size=400))
def test_any_bytes(answers, content):
    answers(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@cases(100)
@given(value=VALUES, inside=st.booleans())
def test_any_json(answers, value, inside):
    answers(json.dumps({"traceEvents": value} if inside else value).encode())


@cases(300)
@given(data=st.data())
def test_a_damaged_trace(answers, data):
    content = bytearray(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        other = data.draw(st.integers(0, len(content)))
        kind = data.draw(st.sampled_from(["cut", "flip", "splice", "drop", "insert"]))
        if kind == "cut":
            del content[place:]
        elif kind == "flip" and place < len(content):
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "splice":
            content[place:place] = content[other : other + 200]
        elif kind == "drop":
            del content[place : place + data.draw(st.integers(1, 50))]
        else:
            content[place:place] = data.draw(
                st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b"\0", b"NaN"])
            )
    answers(bytes(content))


WORDS = ["kernel", "cpu_op", "user_annotation", "cuda_runtime", "gpu_memcpy", "Operator", "python_function", "blink"]
NAMES = ["ProfilerStep#1", "ProfilerStep#2", "aten::mm", "cudaLaunchKernel", "[memory]", "Memcpy HtoD", "ncclX"]
NUMBERS = st.integers(0, 50) | st.floats() | st.integers() | st.sampled_from(["7", "x", None, 1e300, -1])
STRANGE = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXXXBEiMsf"), "name": st.sampled_from(NAMES), "pid": st.integers(0, 1) | VALUES},
    optional={
        "tid": st.integers(0, 1) | VALUES,
        "cat": st.sampled_from(WORDS) | VALUES,
        "ts": NUMBERS,
        "dur": NUMBERS,
        "args": st.dictionaries(
            st.sampled_from(["correlation", "device", "bytes", "Device Type", "Device Id", "Total Reserved"]),
            NUMBERS | VALUES,
        )
        | VALUES,
    },
)


@cases(200)
@given(events=st.lists(STRANGE, max_size=12))
def test_strange_events(answers, events):
    answers(document(*training()[:4], *events).encode())
    answers(document(*events).encode())
