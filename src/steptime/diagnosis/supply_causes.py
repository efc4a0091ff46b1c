"""Why a step waits for its batch."""

from math import ceil

from steptime.diagnosis.calls import is_waiting
from steptime.diagnosis.finding import Finding
from steptime.machine import usable_cores
from steptime.units import duration

BOUND = ("04", "What can overlap give at best?")
FORMAT = ("04", "What does the format cost?")
DECODED = ("04", "What is decoded twice?")
COMPETE = ("04", "Why do workers help less when they compute?")
WORKERS = ("04", "What do workers cost?")
COLLATE = ("04", "What does the batch size do to the loader?")

PARSING = ("json", "csv", "xml", "yaml", "'split'", "'strip'", "literal_eval", "fromstring", "loadtxt")
PREPARATIONS = (
    ("text is parsed", PARSING, FORMAT),
    ("bytes are unpacked", ("zlib", "gzip", "bz2", "lzma", "zstd", "decompress"), FORMAT),
    ("pictures are decoded", ("PIL", "ImagingDecoder", "jpeg", "imread", "imdecode"), DECODED),
)
"""What preparing can be, the words by which a function of it is known, and where the book speaks of it."""

NOTABLE = 0.01
"""The part of preparing that the functions of its kind take at least: those that do the work may be far below them."""

JOINING = ("collate", "utils/data")
"""The words by which a function is known that fetches records and makes a batch of them."""

COPIES = ("copy", "clone", "deepcopy", "array", "tolist", "concatenate", "cat", "pickle", "load", "dump", "list")


def supply_findings(evidence):
    """Findings about the wait for a batch and the start of a pass."""
    findings = [_latency(evidence), _preparation(evidence), _start(evidence), _workers(evidence)]
    return [finding for finding in findings if finding]


def _waiting(evidence):
    """(seconds a batch takes to prepare without workers, part of it in which nobody computes)."""
    seen = evidence.serial or evidence.supply
    return seen.wait, seen.idle_share


def _is_behind(evidence):
    """Whether so many workers are too slow by the overlap bound too: t_d / w above t_c.

    Where they are not, what is waited for is a core that others had, or the way of the batch between processes.
    """
    supply = evidence.supply
    return not evidence.serial or evidence.serial.wait > supply.workers * evidence.compute


def _latency(evidence):
    supply = evidence.supply
    alone, idle = _waiting(evidence)
    if not _is_behind(evidence):
        return None
    workers = max(supply.workers + 1, min(64, ceil(alone / evidence.compute)))
    advice = f"let it wait beside the computation: DataLoader(num_workers={workers}, persistent_workers=True)"
    if supply.once or not hasattr(supply.loader, "num_workers"):
        advice = "let it wait beside the computation: a DataLoader with workers, or steptime.pipeline"
    return Finding(
        "the data are slow to come (latency)",
        supply.wait * (1.0 if idle >= 0.5 else idle) / evidence.step,
        advice,
        f"{_wait_sentence(evidence)}; preparing a batch takes {duration(alone)}, and for {idle:.0%} of that nobody "
        "here computes: it waits for a disk, a server or another process",
        BOUND,
    )


def _preparation(evidence):
    supply = evidence.supply
    alone, idle = _waiting(evidence)
    if not _is_behind(evidence):
        return None
    what, place, section = _what_is_prepared(evidence)
    cores = usable_cores()
    overlapped = max(alone / max(1, cores - 1), evidence.compute)
    hint = f"; {cores} cores allow no less than {duration(overlapped)} a step" if not supply.workers else ""
    return Finding(
        f"preparing a batch computes: {what}",
        supply.wait * (1.0 if idle < 0.5 else 1 - idle) / evidence.step,
        f"do it once, keep the result (arrays, shards), then overlap the rest with workers{hint}",
        f"{_wait_sentence(evidence)}; preparing a batch takes {duration(alone)}, and for {1 - idle:.0%} of that the "
        f"processor computes{place}",
        section,
    )


def _what_is_prepared(evidence):
    """(what it is, where most of its time goes, the section)."""
    if evidence.preparation is None:
        return "Python before the batch is there", "", COMPETE
    function = evidence.preparation.heaviest(evidence.preparation.keys(is_waiting))
    if function is None:
        return "torch's operators on each batch", "", COMPETE
    place = f", most of it in {function}, {function.calls:,.3g} calls a batch"
    # The largest share: whoever interrupts a small function makes it notable too.
    what, words, section = max(PREPARATIONS, key=lambda each: evidence.preparation.share(each[1]))
    if evidence.preparation.share(words) >= NOTABLE:
        return what, place, section
    if any(word in f"{function.file} {function.name}" for word in JOINING):
        return "records are fetched and joined one by one", place, COLLATE
    return "Python for each record", place, COMPETE


def _start(evidence):
    supply = evidence.supply
    if not evidence.start:
        return None
    first = f"the first batch of a pass comes after {duration(supply.start + supply.wait)}, others after "
    first += f"{duration(supply.wait)}, and a pass has {supply.length:,} steps"
    share = evidence.start / evidence.step
    if supply.workers:
        again = not getattr(supply.loader, "persistent_workers", False)
        return Finding(
            "the workers start again for each pass" if again else "each pass starts slowly",
            share,
            "keep them: DataLoader(persistent_workers=True)" if again else "look at what the loader does first",
            f"{first}; {supply.workers} workers",
            WORKERS,
        )
    if evidence.pass_start is None:
        return Finding("each pass starts slowly", share, "look at what the loader does first", first, WORKERS)
    calls, size = evidence.pass_start
    function = calls.heaviest() or max(calls.functions.values(), key=lambda each: each.own)
    copied = size > 1e6 or any(word in str(function).lower() for word in COPIES)
    return Finding(
        "the data set is copied for each pass" if copied else "each pass starts slowly",
        share,
        "make it once, outside of the loader's __iter__",
        f"{first}; the first one asks for {size / 1e6:,.3g} MB, and most of its time goes to {function}",
        ("04", "What does a worker cost in memory?") if copied else WORKERS,
    )


def _workers(evidence):
    supply, serial = evidence.supply, evidence.serial
    if serial is None:
        return None
    gain = supply.wait + evidence.start - serial.wait
    return Finding(
        "workers cost more than they give",
        gain / evidence.step,
        "leave them out: DataLoader(num_workers=0)",
        f"with {supply.workers} workers a step waits {duration(supply.wait + evidence.start)}, the start of each pass "
        f"counted in; without them a batch is ready after {duration(serial.wait)}",
        WORKERS,
    )


def _wait_sentence(evidence):
    return f"a step waits {duration(evidence.supply.wait)} for its batch and computes {duration(evidence.compute)}"
