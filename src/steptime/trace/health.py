"""What was wrong with a file, and what was done about it."""

from collections import Counter
from dataclasses import dataclass, field


class NotATrace(ValueError):
    """A file that gives nothing to read; its text is one sentence for the person who named it."""


@dataclass
class Health:
    """The state a trace file was in.

    repaired: what was mended -> how often. skipped: what was left out -> how often.
    truncated: None, or {"byte": where the text ends, "events": how many complete ones came before}.
    notes: sentences on what is odd or missing.
    """

    repaired: Counter = field(default_factory=Counter)
    skipped: Counter = field(default_factory=Counter)
    truncated: dict | None = None
    notes: list = field(default_factory=list)

    def note(self, sentence):
        """Add a sentence, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def cut(self, byte, events):
        """Take down that the text ends at `byte`, after `events` complete events."""
        self.truncated = {"byte": byte, "events": events}
        self.note(
            f"truncated at byte {byte:,}, {events:,} complete events recovered: the last step may be cut, "
            "and counts and totals are those of what is left"
        )

    def __repr__(self):
        lines = [f"repaired: {what} ({count:,})" for what, count in self.repaired.items()]
        lines += [f"skipped: {count:,} {what}" for what, count in self.skipped.items()]
        return "\n".join([*lines, *self.notes]) or "nothing to report"
