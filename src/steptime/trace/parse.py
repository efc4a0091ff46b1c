"""From chunks of text to events, one at a time, with no more of the text in memory than a few of them need.

The standard parser reads each event. Where it stops, the event is mended (`repair`) or, if that fails too, left out and
the next one looked for: a cut or damaged file gives all its events but those that were hit.
"""

import json
import re
from decimal import Decimal

from steptime.trace.health import NotATrace
from steptime.trace.repair import BACKSLASHES, Hopeless, Incomplete, mend

LONGEST = 8_000_000
"""Characters: what has not ended by then never will."""

LONGEST_STRING = 500_000
"""Characters: a string that goes on for longer lacks its closing quote."""

SPACE = re.compile(r"\s*")
BETWEEN = re.compile(r"[\s,]*")
EVENT = re.compile(r'[,\[}]\s*(\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|s|bp|args)"\s*:)')
EVENTS = re.compile(r'("traceEvents"\s*:\s*\[)')
STRING = r'"[^"\\\x00-\x1f]*+"'
NAMES = re.compile(
    rf"""(?: [\s,]*+ \{{ \s*+
        (?: "name"\s*+:\s*+"\w++"\s*+,\s*+"ph"\s*+:\s*+"M" | "ph"\s*+:\s*+"M"\s*+,\s*+"name"\s*+:\s*+"\w++" )
        (?: \s*+,\s*+ "(?:ts|pid|tid)" \s*+:\s*+ (?: [-\d.]++ | {STRING} ) )*+
        \s*+,\s*+ "args" \s*+:\s*+ \{{ \s*+ "\w++" \s*+:\s*+ (?: [-\d]++ | {STRING} ) \s*+ \}} \s*+ \}}
    )++""",
    re.VERBOSE,
)
"""A run of names of processes and threads: two thirds of some files, of no use here, and skipped a third faster so."""

EPOCH = re.compile(r"\d{16}\.\d{3}(?!\d)")
AGAIN = object()
OVERLAP = 200  # characters: a pattern may lie across two chunks


def _number(text):
    """A number with a point; an epoch in microseconds with three decimals is more than a float can hold."""
    return Decimal(text) if len(text) > 19 and text[-4] == "." else float(text)


plain = json.JSONDecoder().scan_once
exact = json.JSONDecoder(parse_float=_number).scan_once


class Parser:
    """Reads one document, an object with traceEvents or a bare list of events.

    keys: those of its outermost object. is_list: whether it is a bare list. events: how many were read so far.
    names_unescaped: whether an event's name held a backslash that escapes nothing.
    """

    def __init__(self, source):
        self._source, self._chunks, self._health = source, source.chunks(), source.health
        self._text, self._at, self._lost = "", 0, False
        self.keys, self.is_list, self.events, self.names_unescaped = [], False, 0, False

    def read(self):
        """Yield each event as a dict, and whatever else stands among them. Raises NotATrace."""
        first = self._next(SPACE)
        if not first:
            raise NotATrace("is empty: the profiler was stopped before writing, or step() was never called")
        if first not in "{[":
            raise NotATrace("is not JSON, so torch.profiler did not write it")
        self._at += 1
        self.is_list = first == "["
        yield from self._read_events() if self.is_list else self._read_object()
        if not self._lost and self._next(SPACE):
            self._health.note("there is more text after the end of the trace: it was not read")

    def _read_object(self):
        """The keys of the outermost object, in whatever order; yields the events of traceEvents."""
        found = False
        while (first := self._next(BETWEEN)) and first != "}":
            try:
                if first != '"':
                    raise Hopeless
                key = self._value()
                if self._next(SPACE) != ":":
                    raise Hopeless
                self._at += 1
                if self._next(SPACE) == "[" and key == "traceEvents":
                    self._at, found = self._at + 1, True
                    yield from self._read_events()
                else:
                    self._value()
                self.keys.append(key)
            except (Hopeless, Incomplete):
                self._health.skipped["stretches that are no JSON"] += 1
                if not self._find(EVENTS):
                    self._lost = True
            if self._lost:
                break
        self._at += 1
        if not found:
            wrote = "holds no traceEvents: another tool wrote it" if first == "}" else "ends before its first event"
            raise NotATrace(wrote)
        if not first:
            self._cut()

    def _read_events(self):
        """Yield what stands in the list, up to its end."""
        text, at, between, names = self._text, self._at, BETWEEN.match, NAMES.match
        scan = exact if EPOCH.search(text) else plain
        while True:
            if run := names(text, at):
                self.events += text.count('"args"', at, run.end())
                at = run.end()
            gap = between(text, at)
            at = gap.end()
            try:
                event, at = scan(text, at)
            except (StopIteration, ValueError, RecursionError) as problem:
                self._at = at
                if self._next(BETWEEN) == "]":
                    self._at += 1
                    if "," in gap[0]:
                        self._health.repaired["trailing commas"] += 1
                    return
                event = self._recover(problem)
                if self._lost:
                    return
                text, at = self._text, self._at
            if event is not AGAIN:
                self.events += 1
                yield event

    def _recover(self, problem):
        """A mended event, or AGAIN where it is worth looking again from here; `_lost` is set where it is not."""
        if self._seems_cut(problem) and self._more():
            return AGAIN
        following = EVENT.search(self._text, self._at + 1)
        if not following and self._more():
            return AGAIN
        end = following.start(1) if following else len(self._text)
        try:
            event, length, repaired = mend(self._text[self._at : end], 0)
        except (Hopeless, Incomplete) as failure:
            self._at = end
            self._lost = not following
            if self._lost and isinstance(failure, Incomplete):
                self._cut()
            else:
                self._health.skipped["unreadable events"] += 1
            return AGAIN
        self._at += length
        self._take_down(event, repaired)
        return event

    def _seems_cut(self, problem):
        """Whether the parser stopped where the text read so far ends: in a string, or with a word half read."""
        where = getattr(problem, "pos", getattr(problem, "value", 0))
        return where > len(self._text) - (LONGEST_STRING if "Unterminated" in str(problem) else 8)

    def _take_down(self, value, repaired):
        self._health.repaired.update(repaired)
        if BACKSLASHES in repaired and isinstance(value, dict) and "\\" in str(value.get("name")):
            self.names_unescaped = True

    def _value(self):
        """The value that begins here, mended if need be. Raises Incomplete or Hopeless."""
        while True:
            try:
                value, end = plain(self._text, self._at)
            except (StopIteration, ValueError, RecursionError):
                if self._more():
                    continue
                if len(self._text) - self._at > LONGEST:
                    raise Hopeless from None
                value, end, repaired = mend(self._text, self._at)
                self._take_down(value, repaired)
            if end == len(self._text) and self._more():  # a number may go on in the next chunk
                continue
            self._at = end
            return value

    def _next(self, pattern):
        """Skip what matches; the character that comes next, or "" at the end of the text."""
        while True:
            self._at = pattern.match(self._text, self._at).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _find(self, pattern):
        """Go to the next match of the pattern's group; False where none comes."""
        while not (match := pattern.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - OVERLAP)
            if not self._more():
                return False
        self._at = match.start(1)
        return True

    def _more(self):
        """Take in at least as much text as is waiting; False at the end, and where too much is waiting already."""
        waiting = self._text[self._at :]
        if len(waiting) > LONGEST:
            return False
        pieces, wanted = [waiting], max(len(waiting), 1)
        for piece in self._chunks:
            pieces.append(piece)
            wanted -= len(piece)
            if wanted <= 0:
                break
        self._text, self._at = "".join(pieces), 0
        return len(self._text) > len(waiting)

    def _cut(self):
        self._lost = True
        self._health.cut(self._source.bytes, self.events)
