"""Grade an attempt at the capstone: python notebooks/capstone/check.py MY_TRAIN.py

The attempt and train_slow.py train in turn, each in a process of its own, on sheets dealt anew for every run, with the
classes renamed. The answers stay here. Four gates, in this order, and the first that stays shut ends it:
correct, changed, beyond the noise, beyond the target.
"""

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # for the processes that are started, too
import sheets

from steptime import PairedRatios, verify
from steptime.units import duration

SLOW = Path(__file__).with_name("train_slow.py")
RUNS = 14  # of each script, after one to warm up; nothing can be said of their ratio before 13
MOST = 28  # runs, where the ratio is not certain before
LOOK = 5  # runs after which a wrong attempt is told from a right one
MARGIN = 0.05  # of accuracy; the sheets differ from run to run, so the accuracy varies more than over seeds alone
TARGET = 10  # times faster
LIMIT = 60  # seconds for one training, and for loading a script


class NotCorrect(Exception):
    """The attempt gave no answer, or none of the right form."""


def main(arguments=None):
    """Print each gate that an attempt comes to, with a sentence; 0 where it passes all, 1 if not, 2 for no file."""
    parser = argparse.ArgumentParser(prog="check.py", description="Grade an attempt at the capstone.")
    parser.add_argument("attempt", type=Path, help="a script with train(folder, seed)")
    attempt = parser.parse_args(arguments).attempt
    if not attempt.is_file():
        print(f"There is no file {attempt}.", file=sys.stderr)
        return 2
    for name, is_open, sentence in grade(attempt):
        print(f"{'passed' if is_open else 'failed'}  {name:<17}  {sentence}", flush=True)
        if not is_open:
            return 1
    return 0


def grade(attempt):
    """(gate, whether it is open, one sentence why) for each gate up to the first that stays shut."""
    try:
        started = Trainer(SLOW), Trainer(attempt)  # side by side, since loading torch takes seconds
        with started[0] as slow, started[1] as tried:
            runs = train_in_turn(slow, tried, is_copy(attempt))
    except NotCorrect as problem:
        yield "correct", False, str(problem)
        return
    yield "correct", *correct(runs[:RUNS])
    yield "changed", *changed(attempt)
    ratios = ratios_of(runs)
    seen = f"{duration(median(runs, 0))} -> {duration(median(runs, 1))}, {ratios}."
    faster = ratios.above(1)
    yield "beyond the noise", faster is True, f"{'Certainly' if faster else 'Not certainly'} faster: {seen}"
    reached = ratios.above(TARGET)
    yield "beyond the target", reached is True, f"{'At least' if reached else 'Not certainly'} {TARGET}x: {seen}"


def train_in_turn(slow, tried, is_copy):
    """[(the slow script's Run, the attempt's)], RUNS of them, and more, MOST at most, for a certain ratio."""
    first, runs = run(slow, tried, 0), []  # which also loads what is loaded at first use
    repeats = min(5, max(1, int(first[0].seconds / first[1].seconds)))
    while len(runs) < RUNS or (ratios_of(runs).above(TARGET) is None and len(runs) < MOST):
        runs.append(run(slow, tried, len(runs) + 1, repeats))
        if is_copy or (len(runs) == LOOK and verdict(runs).answer is False):
            break
    return runs


def ratios_of(runs):
    """The PairedRatios of the slow script's seconds over the attempt's."""
    return PairedRatios((old.seconds, new.seconds) for old, new in runs)


def correct(runs):
    """(whether the accuracies agree, one sentence)."""
    same = [old.classes == new.classes for old, new in runs]
    if all(same):
        return True, "The same classes as the slow script, digit by digit."
    answer, evidence = verdict(runs).answer, verdict(runs).evidence
    said = {
        True: "Equivalent accuracy",
        False: "Another accuracy",
        None: "Nobody can tell whether the accuracy is the same",
    }
    return answer is True, f"{said[answer]}: {evidence}."


def verdict(runs):
    """Is the attempt's accuracy equivalent?"""
    return verify.equivalent(*([side.accuracy for side in sides] for sides in zip(*runs, strict=True)), MARGIN)


def changed(attempt):
    """(whether it is another program, one sentence)."""
    if is_copy(attempt):
        return False, "This is the slow script: nothing but comments, texts and spaces differs."
    return True, "Another program than the slow script."


def is_copy(attempt):
    """True where two scripts differ in comments, docstrings and spaces alone."""
    return skeleton(attempt) == skeleton(SLOW)


def skeleton(path):
    """A script's syntax without what says nothing to Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [part for part in body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
            node.body = kept or [ast.Pass()]
    return ast.dump(tree)


class Run(NamedTuple):
    """A script's turn: its first answer, and of all its trainings the mean share that is right and the mean seconds."""

    classes: list
    accuracy: float
    seconds: float


def run(slow, tried, number, repeats=1):
    """(the slow script's Run, the attempt's) on the same sheets, which neither has seen.

    repeats: how often the attempt trains in its turn, on other sheets from the second on, lest one interruption speak
    for it.
    """
    sides = [lambda: train(slow, number), lambda: train(tried, number, repeats)]
    if number % 2:
        return sides[0](), sides[1]()
    second = sides[1]()
    return sides[0](), second


def train(trainer, number, repeats=1):
    """The Run of a script."""
    answers, right, seconds = [], [], []
    for secret in range(number, number + 1_000 * repeats, 1_000):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            dealt = Path(folder) / "sheets"
            truth = sheets.deal(dealt, SECRET + secret, renamed=True)
            start = perf_counter()
            classes = trainer.ask(str(dealt), secret)
            seconds.append(perf_counter() - start)
        answers.append(in_form(classes, len(truth)))
        right.append(np.mean(np.array(classes) == truth))
    return Run(answers[0], float(np.mean(right)), float(np.mean(seconds)))


SECRET = int.from_bytes(np.random.default_rng().bytes(4), "little")
"""Where the deals of this grading begin: other ones each time, so that nothing kept from an earlier one fits."""


def in_form(classes, count):
    """The classes, if they are `count` whole numbers from 0 to 9. Raises NotCorrect, with one sentence, if not."""
    if not isinstance(classes, list):
        raise NotCorrect(f"train must return one class for each of the {count} test digits, not {classes!r}.")
    if len(classes) != count:
        raise NotCorrect(f"train returned {len(classes)} classes for {count} test digits.")
    odd = [each for each in classes if type(each) is not int or not 0 <= each <= 9]
    if odd:
        raise NotCorrect(f"A class is a whole number from 0 to 9; train returned {odd[0]!r}.")
    return classes


def median(runs, side):
    return float(np.median([sides[side].seconds for sides in runs]))


class Trainer:
    """A script in a process of its own, which ends with the `with` block."""

    def __init__(self, path):
        self._name, (self._pipe, theirs) = path.name, multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")  # a fork would know what is known here
        self._process = context.Process(target=serve, args=(theirs, str(path.resolve())), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self):
        try:
            self._answer("load")
        except NotCorrect:
            self.__exit__()
            raise
        return self

    def ask(self, folder, seed):
        """What train(folder, seed) returned. Raises NotCorrect where it raised, died or did not end in time."""
        self._pipe.send_bytes(json.dumps([folder, seed]).encode())
        return self._answer("train")

    def _answer(self, what):
        try:
            if not self._pipe.poll(LIMIT):
                raise NotCorrect(f"{self._name} did not {what} within {LIMIT} s.")
            said = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError, ValueError):
            raise NotCorrect(f"The process of {self._name} ended without an answer.") from None
        if "problem" in said:
            raise NotCorrect(said["problem"])
        return said["classes"]

    def __exit__(self, *_):
        self._process.kill()
        self._process.join()


def serve(pipe, path):
    """In the script's process: load it, then answer each [folder, seed]. What it prints is swallowed."""
    name = Path(path).name
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            specification = importlib.util.spec_from_file_location("attempt", path)
            attempt = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(attempt)
            train = attempt.train
        except BaseException as error:
            answer(pipe, problem=f"{name} could not be loaded: {type(error).__name__}: {error}.")
            return
        answer(pipe, classes=None)
        while True:
            folder, seed = json.loads(pipe.recv_bytes())
            try:
                answer(pipe, classes=plain(train(Path(folder), seed)))
            except BaseException as error:
                answer(pipe, problem=f"train raised {type(error).__name__}: {error}.")


def plain(classes):
    """What train returned as a list of numbers, where it is a list, a tuple, an array or a tensor; else as text."""
    if hasattr(classes, "tolist"):
        return classes.tolist()
    if isinstance(classes, (list, tuple)):
        return [each.item() if hasattr(each, "item") else each for each in classes]
    return repr(classes)


def answer(pipe, **said):
    pipe.send_bytes(json.dumps(said, default=repr).encode())


if __name__ == "__main__":
    sys.exit(main())
