"""One JSON value that the standard parser refuses, mended as far as it can be told what was meant."""

import json
import re
from collections import Counter

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
OTHER = r'|[{}\[\],:]|[^\s"{}\[\],:]+|"'
TOKENS = (
    # A backslash before a quote escapes it …
    re.compile(r'"(?:[^"\\]|\\.)*+"' + OTHER, re.DOTALL),
    # … unless what follows shows that the quote ends a path: "C:\logs\", "pid": 1
    re.compile(r'"(?:[^"\\]|\\(?!"\s*[,:}\]]).)*+\\?"' + OTHER, re.DOTALL),
)
BAD_ESCAPE = re.compile(r'(?:[^\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+\\', re.DOTALL)
lenient = json.JSONDecoder(strict=False).scan_once
CONTROL = re.compile(r"[\x00-\x1f]")
PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
CLOSES = {"}": "{", "]": "["}

BACKSLASHES = "unescaped backslashes"


class Incomplete(Exception):
    """The text ends before the value does."""


class Hopeless(Exception):
    """No way was found to make JSON of it."""


def mend(text, at):
    """(value, where it ends, Counter of what was repaired) for the object or string that begins at text[at].

    Raises Incomplete where more text might help, Hopeless where it would not.
    """
    if found := _mend_strings(text, at):
        return found
    problem = Hopeless
    for token in TOKENS:
        try:
            return _mend(token, text, at)
        except Incomplete:
            problem = Incomplete
        except Hopeless:
            pass
    raise problem


def _mend_strings(text, at):
    """The same where nothing but strings is wrong and the text ends with the value: ten times as fast, else None."""
    repaired = Counter()
    mended = QUOTED.sub(lambda match: _string(match[0], repaired), text[at:])
    try:
        value, end = lenient(mended, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    return None if mended[end:].strip(" \t\r\n,") else (value, len(text), repaired)


def _mend(token, text, at):
    pieces, open_brackets, repaired, end = [], [], Counter(), at
    for match in token.finditer(text, at):
        word, end = match[0], match.end()
        if word == '"':  # and no end of the string in sight
            raise Incomplete
        if word in "{[":
            open_brackets.append(word)
        elif word in CLOSES:
            if not open_brackets or open_brackets.pop() != CLOSES[word]:
                raise Hopeless
            if pieces[-1] == ",":
                pieces.pop()
                repaired["trailing commas"] += 1
        elif word[0] == '"':
            word = _string(word, repaired)
        elif word not in ",:":
            word = _word(word, repaired)
        pieces.append(word)
        if not open_brackets:
            break
    if open_brackets or not pieces:
        raise Incomplete
    try:
        return lenient("".join(pieces), 0)[0], end, repaired
    except (StopIteration, ValueError, RecursionError):
        raise Hopeless from None


def _string(quoted, repaired):
    if "\\" not in quoted and quoted.isprintable():
        return quoted
    if CONTROL.search(quoted):
        repaired["control characters"] += 1
    if not BAD_ESCAPE.match(quoted[1:-1]):
        return quoted
    # Whoever wrote one backslash unescaped wrote none escaped: "\toy" in such a string is no TAB and "oy".
    repaired[BACKSLASHES] += 1
    return '"' + re.sub(r'\\(?!")', r"\\\\", quoted[1:-1]) + '"'


def _word(word, repaired):
    if PLAIN.fullmatch(word) or word in ("NaN", "Infinity", "-Infinity"):
        return word
    repaired["words that JSON does not know, as inf or nan"] += 1
    try:
        number = float(word)
    except ValueError:
        return "null"
    return repr(number) if abs(number) < float("inf") else "null"
