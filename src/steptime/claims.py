"""Claims with three answers: True, False, or that this machine cannot tell."""

import sys
from dataclasses import dataclass

from steptime import machine


class CannotTell(Exception):
    """Somebody asked for yes or no where the evidence gives neither."""


class ClaimFailed(AssertionError):
    """A claim of the chapter is False on this machine."""


@dataclass(frozen=True)
class Verdict:
    """An answer with its evidence.

    answer: True, False, or None for *cannot tell*.
    evidence: the figures behind it, in one line.
    margin: how many times the evidence could shrink before a True is in doubt (below 1: it is); None where
        the answer is exact and has no distance to a threshold.
    """

    answer: bool | None
    evidence: str = ""
    margin: float | None = None

    def __post_init__(self):
        if self.answer is not None and not isinstance(self.answer, bool):
            raise TypeError(f"A Verdict answers True, False or None, not {self.answer!r}.")

    def __bool__(self):
        if self.answer is None:
            raise CannotTell(f"This machine cannot tell ({self.evidence or 'no evidence'}): ask for .answer instead.")
        return self.answer

    @property
    def word(self):
        """`True`, `False` or `cannot tell`."""
        return "cannot tell" if self.answer is None else str(self.answer)

    def __repr__(self):
        return f"{self.word} · {self.evidence}" if self.evidence else self.word


class Ledger:
    """The claims of one chapter, in the order they were made."""

    def __init__(self):
        self.verdicts = {}  # the text of a claim -> its Verdict
        self._cells = {}  # the text of a claim -> the cell that made it
        self._cell = None

    def enter(self, cell):
        """A notebook cell starts to run: what it claimed before is out of date."""
        self._cell = cell
        for text in [text for text, made_by in self._cells.items() if made_by == cell]:
            del self.verdicts[text], self._cells[text]

    def claim(self, text, verdict):
        """State `text` as a claim of this chapter and print its verdict.

        verdict: True or False (NumPy's and torch's single booleans too) or a Verdict.
        Raises TypeError for anything else and ValueError for a text that is empty or already claimed.
        """
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            raise ValueError(f"A claim needs a sentence on one line, not {text!r}.")
        if text in self.verdicts:
            raise ValueError(f"Two claims say {text!r}: give each claim a text of its own.")
        verdict = _as_verdict(text, verdict)
        self.verdicts[text], self._cells[text] = verdict, self._cell
        _print(text, verdict)

    def claim_on(self, need, text, measure):
        """State a claim that only a machine with `need`, say "CUDA", can show; it is no part of `close`.

        measure: called without arguments where the machine has it; gives the verdict, as `claim` takes it.
        Elsewhere it says that it was not run. Raises ClaimFailed, here and at once, where the verdict is False.
        """
        if not machine.has(need):
            print(f"not run here: it needs {need} ({text})")
            return
        verdict = _as_verdict(text, measure())
        _print(text, verdict)
        if verdict.answer is False:
            raise ClaimFailed(f"{text}: False on this machine.")

    def close(self):
        """Print every claim with its verdict; call it in the last cell, as often as you like.

        The text is the same on every machine where all claims hold. Evidence is printed only for the others.
        Raises ClaimFailed when a claim is False, ValueError when none was made.
        """
        if not self.verdicts:
            raise ValueError("No claim was made: run the cells above first.")
        answers = [verdict.answer for verdict in self.verdicts.values()]
        for text, verdict in self.verdicts.items():
            print(_line(text, verdict))
            if verdict.answer is not True and verdict.evidence:
                print(f"            measured: {verdict.evidence}")
        print(f"{answers.count(True)} of {len(answers)} claims hold on this machine")
        if None in answers:
            print(
                "Where it says cannot tell: stop what else runs, or allow a larger budget, and run that section again."
            )
        if False in answers:
            false = "; ".join(text for text, verdict in self.verdicts.items() if verdict.answer is False)
            raise ClaimFailed(f"{answers.count(False)} of {len(answers)} claims are False on this machine: {false}.")


def _print(text, verdict):
    print(_line(text, verdict), f" · {verdict.evidence}" if verdict.evidence else "", sep="")


def _line(text, verdict):
    return f"{verdict.word:<6} {text}"


def _as_verdict(text, value):
    if isinstance(value, Verdict):
        return value
    shape = getattr(value, "shape", ())
    plain = value.item() if hasattr(value, "item") and shape == () else value
    if isinstance(plain, bool):
        return Verdict(plain)
    if value is None:
        problem = "got None: did the function that judges it forget to return?"
    elif shape != ():
        problem = f"got {len(shape)} dimensions of answers, shape {tuple(shape)}: reduce them to one with .all()."
    else:
        problem = f"got {value!r} ({type(value).__name__}): compare it with something, so that it is True or False."
    raise TypeError(f"The claim {text!r} {problem}")


def _follow_notebook(ledger):
    """Tell the ledger which notebook cell runs, so that running a cell again replaces its claims."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return

    def enter(info):
        ledger.enter(info.cell_id or info.raw_cell)

    shell.events.register("pre_run_cell", enter)
    # The cell that imports this module runs already, so its event is past.
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    ledger.enter(parent.get("metadata", {}).get("cellId") or parent.get("content", {}).get("code"))


_ledger = Ledger()
_follow_notebook(_ledger)
claim, claim_on, close, verdicts = _ledger.claim, _ledger.claim_on, _ledger.close, _ledger.verdicts
