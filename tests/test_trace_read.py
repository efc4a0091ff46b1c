"""Any file in: eras, packings, encodings, and faults that are mended, counted or said in one sentence."""

import gzip
import json
import os

import pytest

from book.chapters import ROOT
from steptime.trace import Health, NotATrace, parse, read
from steptime.trace.source import Source
from tests.traces.write import document, launched, on_device, span, step, training

RECORDED = ROOT / "tests" / "traces" / "cpu.json.gz"
MUL = span("cpu_op", "aten::mul", 10, 50)
ADD = span("cpu_op", "aten::add", 70, 20)


@pytest.fixture
def reads(tmp_path):
    """Write text or bytes into a file and read it."""

    def read_it(content, name="trace.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(path)

    return read_it


def calls(trace):
    """{name: calls} of what ran on the CPU."""
    return {operator.name: operator.calls for operator in trace.operators}


def test_a_recorded_trace_of_today():
    trace = read(RECORDED)
    counts = calls(trace)
    assert counts["aten::addmm"] == 6 and counts["aten::mm"] == 9 and counts["ProfilerStep*"] == 3
    assert [step.number for step in trace.steps] == [2, 3, 4]
    assert len(trace.data_wait.each_ms) == 3 and 0 < trace.data_wait.share < 1
    assert trace.format.startswith("torch.profiler of today") and repr(trace.health) == "nothing to report"
    selves = sum(operator.self_us for operator in trace.operators)
    assert 1e-3 * selves == pytest.approx(trace.span.ms, rel=0.1)


def test_torch_says_the_same_of_a_step_recorded_now(reads, tmp_path):
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.nn.functional.linear(torch.ones(8, 8), torch.ones(8, 8)).relu().exp()
    profiler.export_chrome_trace(str(tmp_path / "now.json"))
    ours = {o.name: o for o in read(tmp_path / "now.json").operators}
    for row in profiler.key_averages():
        assert ours[row.key].calls == row.count
        assert ours[row.key].total_us == pytest.approx(row.cpu_time_total, abs=0.1)
        assert ours[row.key].self_us == pytest.approx(row.self_cpu_time_total, abs=0.1)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([MUL, ADD]),
        json.dumps({"traceEvents": [MUL, ADD]}),
        json.dumps(
            {"deviceProperties": [{"traceEvents": []}], "traceEvents": [MUL, ADD], "traceName": '"traceEvents": ['}
        ),
        json.dumps({"distributedInfo": {"rank": 0}, "traceEvents": [MUL, ADD]}, indent=4),
        "\n\n [" + json.dumps(MUL) + ",\r\n" + json.dumps(ADD) + "]\n\n",
    ],
    ids=["list", "object", "traceEvents in other places", "indented", "white space"],
)
def test_the_form_does_not_matter(reads, text):
    trace = reads(text)
    assert calls(trace) == {"aten::mul": 1, "aten::add": 1} and repr(trace.health) == "nothing to report"


PLAIN = document(MUL, ADD).encode()


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (gzip.compress(PLAIN), "trace.json.gz", "nothing to report"),
        (gzip.compress(PLAIN), "trace.json", "packed with gzip, though its name does not say so"),
        (PLAIN, "trace.json.gz", "named .gz, yet it is not packed"),
        (gzip.compress(gzip.compress(PLAIN)), "trace.json.gz", "packed with gzip 2 times over"),
        (gzip.compress(PLAIN[:90]) + gzip.compress(PLAIN[90:]), "trace.json.gz", "nothing to report"),
        (gzip.compress(PLAIN) + b"junk", "trace.json.gz", "bytes after the end of the gzip data were not read"),
        (b"\xef\xbb\xbf" + PLAIN, "trace.json", "nothing to report"),
        (PLAIN.decode().encode("utf-16"), "trace.json", "repaired: UTF-16-LE instead of UTF-8"),
        (PLAIN.decode().encode("utf-16-be"), "trace.json", "repaired: UTF-16-BE instead of UTF-8"),
    ],
)
def test_the_packing_and_the_encoding_do_not_matter(reads, content, name, said):
    trace = reads(content, name)
    assert calls(trace) == {"aten::mul": 1, "aten::add": 1} and said in repr(trace.health)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace("aten::mul", r"D:\run\new\mul"), "unescaped backslashes (1)"),
        (lambda text: text.replace("aten::mul", "D:\\run\\").replace('\\"', '\\"'), "unescaped backslashes (1)"),
        (lambda text: text.replace("aten::mul", "a\tb"), "control characters (1)"),
        (lambda text: text.replace('"args": {}', '"args": {"GB/s": -inf}'), "inf or nan (2)"),
        (lambda text: text.replace('"args": {}', '"args": {"GB/s": nan}'), "inf or nan (2)"),
        (lambda text: text.replace('"args": {}', '"args": {},'), "trailing commas (2)"),
        (lambda text: text.replace("}, {", "} {"), "nothing to report"),
        (lambda text: text.replace("]}", ",]}"), "trailing commas (1)"),
        (lambda text: text + text, "more text after the end of the trace"),
        (lambda text: text.replace("]}", '], "traceName": "C:\\work\\x.json"}'), "unescaped backslashes (1)"),
    ],
)
def test_what_was_meant_is_mended_and_said(reads, damage, said):
    trace = reads(damage(document(MUL, ADD)))
    assert len(trace.spans) == 2 and calls(trace)["aten::add"] == 1 and said in repr(trace.health)


def test_a_name_keeps_its_backslashes_where_one_of_them_escapes_nothing(reads):
    windows = span("python_function", r"C:\new\Lib\toy\net.py(3): f", 0, 5), span("python_function", "x", 1, 2)
    text = json.dumps(list(windows)).replace("\\\\", "\\").replace('"x"', r'"\toy\test.py(1): g"')
    assert reads(text).names == [r"C:\new\Lib\toy\net.py(3): f", r"\toy\test.py(1): g"]
    escaped = reads(json.dumps([span("python_function", "two\nlines", 0, 5)]))
    assert escaped.names == ["two\nlines"] and not escaped.health.repaired


def test_bytes_that_are_no_text_cost_only_themselves(reads):
    trace = reads(document(MUL, ADD).encode().replace(b"aten::mul", b"caf\xe9 \xff"))
    assert trace.names == ["caf\ufffd \ufffd", "aten::add"]
    assert trace.health.repaired == {"bytes that are not text": 2}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({**MUL, "ts": "10", "dur": "50"}, "nothing to report"),
        ({**MUL, "dur": -3}, "skipped: 1 events with a negative duration"),
        ({key: value for key, value in MUL.items() if key != "dur"}, "skipped: 1 events without a duration"),
        ({**MUL, "ts": None}, "skipped: 1 events without a time stamp"),
        ({**MUL, "ts": float("nan")}, "skipped: 1 events without a time stamp"),
        ({**MUL, "dur": 1.7e15}, "skipped: 1 events that last longer than a day"),
        ({key: value for key, value in MUL.items() if key != "tid"}, "skipped: 1 malformed events"),
        (None, "skipped: 1 entries that are no events"),
        ({**MUL, "ph": "B"}, "skipped: 1 events that begin and do not end"),
        ({**MUL, "ph": "E"}, "skipped: 1 ends without a beginning"),
        ({**MUL, "args": None}, "nothing to report"),
        ({**MUL, "args": [[[]]], "id": {}}, "nothing to report"),
    ],
)
def test_an_event_that_cannot_be_used_is_counted(reads, event, said):
    trace = reads(document(ADD, event))
    assert said in repr(trace.health) and calls(trace)["aten::add"] == 1
    assert ("aten::mul" in calls(trace)) == (said == "nothing to report")


def test_begin_and_end_are_one_event(reads):
    place = {"pid": 1, "tid": 1}
    outer, inner = ({"ph": "B", "cat": "cpu_op", "name": name, "ts": ts, **place} for name, ts in (("a", 0), ("b", 10)))
    trace = reads(document(outer, inner, {"ph": "E", "ts": 30, **place}, {"ph": "E", "ts": 100, **place}))
    assert {o.name: (o.total_us, o.self_us) for o in trace.operators} == {"a": (100, 80), "b": (20, 20)}


def test_the_order_of_events_does_not_matter(reads):
    events = training()
    first, second = reads(document(*events)), reads(document(*reversed(events)))
    assert repr(first) == repr(second)


@pytest.mark.parametrize("epoch", [0, 1712195495519000, 1712195495519000.125])
def test_times_are_exact_however_late_they_are(reads, epoch):
    text = document(*launched(1, "cudaLaunchKernel", epoch + 100, "k", epoch + 110, 5)).replace("'", "")
    assert reads(text).launch_latency.median_us == 10


def test_nanoseconds_after_an_epoch_are_not_lost(reads):
    text = document(*launched(1, "cudaLaunchKernel", 11111, "k", 22222, 5))
    text = text.replace("11111", "1712195495519789.001").replace("22222", "1712195495519799.626")
    assert reads(text).launch_latency.median_us == pytest.approx(10.625, abs=1e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_file_gives_what_came_before_the_cut(reads, packed):
    text = document(*(span("cpu_op", f"op{i}", 10 * i, 5) for i in range(2000))).encode()
    whole = gzip.compress(text, mtime=0) if packed else text
    for part in (0.1, 0.5, 0.9):
        trace = reads(whole[: int(part * len(whole))])
        cut = trace.health.truncated
        assert cut["events"] == len(trace.spans) > 0 and f"truncated at byte {cut['byte']:,}" in repr(trace)
        if not packed:
            assert cut["byte"] == int(part * len(text)) and abs(len(trace.spans) - 2000 * part) < 30


def test_damage_in_the_middle_costs_the_events_it_hit(reads, monkeypatch):
    monkeypatch.setattr(parse, "LONGEST_STRING", 2_000)
    text = document(*(span("cpu_op", f"op{i}", 10 * i, 5) for i in range(3000)))
    middle = len(text) // 2
    for junk in ("\0" * 500, '"', "{{[[", "}}]]", '\\"x', "," * 9):
        trace = reads(text[:middle] + junk + text[middle + len(junk) :])
        assert 2985 <= len(trace.spans) <= 3000 and trace.health.truncated is None
        assert len(trace.spans) == 3000 or trace.health.skipped or trace.health.repaired


def test_an_event_larger_than_a_chunk_is_read(reads):
    huge = span("cpu_op", "aten::cat", 0, 5, shapes=[{"name": "x", "dims": [1] * 50}] * 6000)
    assert len(document(huge)) > 1_000_000
    assert calls(reads(document(MUL, huge, ADD)))["aten::cat"] == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty: the profiler was stopped before writing, or step() was never called."),
        (b" \n\n", "is empty: the profiler was stopped before writing, or step() was never called."),
        (gzip.compress(b"", mtime=0), "is empty: the profiler was stopped before writing, or step() was never called."),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "is a PNG image, no trace."),
        (b"PK\x03\x04" + b"\0" * 90, "is a zip archive, no trace."),
        (b"<!DOCTYPE html><html>", "is a web page or XML, no trace."),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a Git LFS pointer, not the file it stands for, no trace.",
        ),
        (b"step,loss\n1,2.5\n", "is not JSON, so torch.profiler did not write it."),
        (b"\0" * 4096, "is not JSON, so torch.profiler did not write it."),
        (b'{"a": 1}', "holds no traceEvents: another tool wrote it."),
        (b'{"schemaVersion": 1, "traceEv', "ends before its first event."),
        (b'{"traceEvents": []}', "holds no events: the profiler was stopped before it recorded any."),
        (b'{"traceEvents": {"a": 1}}', "holds no traceEvents: another tool wrote it."),
        (b'[{"ph": "M", "name": "process_name"}]', "holds no event with a time and a duration, only 1 others."),
        (
            json.dumps([span("blink", "paint", 0, 1), span("v8", "compile", 0, 1)]).encode(),
            "holds no event of a kind that torch.profiler writes, but blink (1), v8 (1): another tool wrote it.",
        ),
        (b"[" * 200_000, "holds no events: the profiler was stopped before it recorded any."),
    ],
)
def test_what_is_no_trace_is_one_sentence(reads, tmp_path, content, sentence):
    with pytest.raises(NotATrace) as refused:
        reads(content)
    assert str(refused.value) == f"{tmp_path / 'trace.json'} {sentence}"


def test_what_cannot_be_opened_is_one_sentence(tmp_path):
    for path, sentence in (
        (tmp_path, "is a directory: name one file in it"),
        (tmp_path / "none.json", "cannot be read: No such file or directory"),
        (tmp_path / "a\0b", "cannot be read"),
    ):
        with pytest.raises(NotATrace, match=sentence):
            read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_does_not_keep_us_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotATrace, match="is no regular file: save it to one first"):
        read(tmp_path / "pipe")


def test_a_file_that_grows_is_read_up_to_where_it_was(tmp_path):
    path, health = tmp_path / "trace.json", Health()
    texts = [json.dumps(span("cpu_op", f"op{i}", i, 1)) for i in range(9000)]
    path.write_text("[" + ",".join(texts[:5000]), encoding="utf-8")
    events = parse.Parser(Source(path, health)).read()
    next(events)
    with path.open("a", encoding="utf-8") as file:
        file.write("," + ",".join(texts[5000:]))
    assert len(list(events)) == 4999 and health.truncated["events"] == 5000
    assert "somebody is still writing it" in repr(health)


def test_the_2021_format_and_its_memory_events(reads):
    text = document(
        span("Operator", "ProfilerStep#1", 0, 100, pid=5, tid="5"),
        span("Runtime", "cudaLaunchKernel", 10, 5, pid=5, tid="5", correlation=1),
        span("Kernel", "k", 20, 30, pid=0, tid="stream 7", device=0, stream=7, correlation=1),
        {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "pid": 5,
            "tid": 5,
            "ts": 3,
            "args": {"Device Type": 1, "Device Id": 0},
        },
    )
    trace = reads(text)
    assert trace.format.startswith("torch.profiler of 2021") and trace.busy["0"].busy_ms == pytest.approx(0.03)
    assert trace.memory is None and "as those of 2021 do" in trace.reasons["memory"]


def test_gpu_work_is_told_by_its_category_not_by_its_arguments(reads):
    trace = reads(document(step(1, 0, 100), span("cpu_op", "triton_mm", 0, 50, stream=7, device=0)))
    assert trace.busy is None and trace.reasons["busy"] == "no GPU event: only the CPU was recorded"


def test_events_of_an_accelerator_that_is_not_known_are_named(reads):
    trace = reads(document(step(1, 0, 100), span("mtia_ccp_events", "dma", 0, 50)))
    assert trace.busy is None and "does not know: mtia_ccp_events (1)" in trace.reasons["busy"]


def test_events_hours_away_from_the_rest_are_left_out(reads):
    events = [step(1, 1e13, 100), on_device("kernel", "k", 1e13, 50), on_device("kernel", "lost", 5, 50)]
    trace = reads(document(*events))
    assert trace.span.ms == pytest.approx(0.1) and trace.kernels.count == 1
    assert trace.health.skipped == {"GPU events stamped a day or more away from the rest": 1}
