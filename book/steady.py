"""Run the chapters again and again, every other time beside noisy neighbours, and table what each claim came to."""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from contextlib import nullcontext

from book.chapters import ROOT, code_cells, find_chapters, sections
from book.dependencies import state
from book.neighbours import neighbours
from book.run import run_claims

RECORD = ROOT / ".steady" / "runs.jsonl"


def main(arguments):
    """Bring every chapter to the number of passes asked for and print the table; 1 unless every claim always held."""
    parser = argparse.ArgumentParser(prog="make steady", description=__doc__)
    parser.add_argument("--runs", type=at_least_one, default=4, help="passes wanted, those on record included")
    parser.add_argument("--chapter", default="", help="one chapter's number; all without it")
    asked = parser.parse_args(arguments)
    try:
        chapters = find_chapters(asked.chapter)
    except ValueError as problem:
        return str(problem)
    for chapter in chapters:
        for number in range(len(passes(chapter)), asked.runs):
            record(chapter, number)
    rows = {chapter.name: passes(chapter) for chapter in chapters}
    print(table(rows))
    return int(not all(held(run, claims_of(chapter)) for chapter in chapters for run in rows[chapter.name]))


def at_least_one(text):
    """The number of passes that a text asks for."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of passes: ask for at least 1.")
    return int(text)


def record(chapter, number):
    """Run a chapter once, beside neighbours where `number` is odd, and put down what its claims came to."""
    loaded = bool(number % 2)
    print(f"{chapter.name}: pass {number + 1}{' beside neighbours' if loaded else ''}", flush=True)
    start = time.monotonic()
    with neighbours(seed=number) if loaded else nullcontext():
        verdicts, errors = run_claims(code_cells(chapter.read_text().cells), chapter.notebooks)
    claims = [
        {"claim": text, "word": v.word, "margin": v.margin, "evidence": v.evidence} for text, v in verdicts.items()
    ]
    run = {"chapter": chapter.name, "state": state(chapter), "loaded": loaded, "claims": claims, "errors": errors}
    run["seconds"] = round(time.monotonic() - start, 1)
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def passes(chapter):
    """The recorded passes of a chapter as it is today: after a change of what its verdicts depend on it starts anew."""
    if not RECORD.exists():
        return []
    with RECORD.open(encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    now = state(chapter)
    return [run for run in runs if (run["chapter"], run["state"]) == (chapter.name, now)]


def claims_of(chapter):
    """The texts of all claims a chapter makes."""
    return [text for section in sections(chapter.read_text())[1] for text in section.claims]


def held(run, claims):
    """True where a pass made each of the claims, all were True and nothing raised."""
    said = [(claim["claim"], claim["word"]) for claim in run["claims"]]
    return not run["errors"] and said == [(text, "True") for text in claims]


EXACT = (True, float("inf"))  # the badness of what was True and has no margin


def badness(claim):
    """The order in which the passes of one claim are worth a look: not True before True, then the smallest margin."""
    return claim["word"] == "True", float("inf") if claim["margin"] is None else claim["margin"]


def table(rows):
    """A table in Markdown: per chapter, and per claim that is timed or was not always True, what it came to.

    rows: {the name of a chapter: its recorded passes}. The rest are exact, and counted in the chapter's row.
    """
    lines = ["| claim | passes | loaded | True | cannot tell | False | smallest margin | evidence there |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, runs in rows.items():
        claims = defaultdict(list)
        for run in runs:
            for claim in run["claims"]:
                claims[claim["claim"]].append(claim | {"loaded": run["loaded"]})
        exact = [text for text, seen in claims.items() if badness(min(seen, key=badness)) == EXACT]
        took = " and ".join(
            f"{statistics.median(run['seconds'] for run in runs if run['loaded'] == loaded):.0f} s {where}"
            for loaded, where in ((False, "quiet"), (True, "beside neighbours"))
            if any(run["loaded"] == loaded for run in runs)
        )
        words = [claim["word"] for seen in claims.values() for claim in seen]
        lines.append(row(f"**{name}**, {took}", runs, words, "", f"{len(claims)} claims, {len(exact)} of them exact"))
        for text, seen in claims.items():
            if text not in exact:
                worst = min(seen, key=badness)
                margin = "exact" if worst["margin"] is None else f"{worst['margin']:.3g}x"
                lines.append(row(text, seen, [claim["word"] for claim in seen], margin, worst["evidence"]))
        lines += [f"| *{name} raised {error}* |" + " |" * 7 for run in runs for error in run["errors"]]
    return "\n".join(lines)


def row(what, passes, words, margin, evidence):
    """A row of the table: the passes, those of them beside neighbours, and how often each verdict was met in them."""
    counts = [len(passes), sum(each["loaded"] for each in passes)]
    counts += [words.count(word) for word in ("True", "cannot tell", "False")]
    return f"| {what} | {' | '.join(f'{count:,}' for count in counts)} | {margin} | {evidence} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
