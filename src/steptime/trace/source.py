"""From a path to text: plain or gzip by its first bytes, any Unicode encoding, and what is left of a damaged file."""

import codecs
import os
import stat
import zlib
from itertools import chain
from pathlib import Path

from steptime.trace.health import NotATrace

CHUNK = 1 << 16
"""Bytes at a time: memory must not grow with the file's text."""

GZIP = b"\x1f\x8b"
FOREIGN = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"<": "a web page or XML",
    b"version https://git-lfs": "a Git LFS pointer, not the file it stands for",
    b"SQLite format 3": "a database, such as Nsight Systems exports",
    b"\x80": "a Python pickle",
}
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
UNMARKED = {0: "utf-16-be", 1: "utf-16-le"}  # where the NUL stands in the first two bytes of JSON


class Source:
    """The text of one file, chunk by chunk.

    bytes: how many bytes of text, unpacked, came so far. health: is told what was odd.
    damaged: whether the file broke off or became unreadable before its end.
    """

    def __init__(self, path, health):
        self.path, self.health, self.bytes, self.damaged = Path(path), health, 0, False

    def chunks(self):
        """Yield pieces of the text, up to where the file is damaged.

        Raises NotATrace when the file cannot be read, is empty, or begins like something else.
        """
        try:
            with _open(self.path) as file:
                yield from self._decode(self._unpack(self._read(file)))
        except OSError as error:
            raise NotATrace(f"cannot be read: {error.strerror or error}") from None

    def _read(self, file):
        """What was there when it was opened: a file that keeps growing must not keep us."""
        size = left = os.fstat(file.fileno()).st_size
        while left and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece
        if left or os.fstat(file.fileno()).st_size != size:
            self.health.note("the file changed while it was read: somebody is still writing it")

    def _unpack(self, pieces):
        first, pieces = _peek(pieces)
        if self.path.suffix == ".gz" and not first.startswith(GZIP):
            self.health.note("named .gz, yet it is not packed")
        layers = 0
        while first.startswith(GZIP) and layers < 3:
            layers += 1
            first, pieces = _peek(self._inflate(pieces))
        if layers and self.path.suffix != ".gz":
            self.health.note("packed with gzip, though its name does not say so")
        if layers > 1:
            self.health.note(f"packed with gzip {layers} times over")
        return pieces

    def _inflate(self, pieces):
        """Unpack gzip, several members in a row too; what comes before a fault is kept."""
        member, begun = zlib.decompressobj(31), False
        for piece in pieces:
            while piece:
                begun = True
                try:
                    yield member.decompress(piece, CHUNK)
                except zlib.error:
                    self._break("the gzip data is damaged")
                    return
                piece = member.unconsumed_tail
                if member.eof:
                    piece, member, begun = member.unused_data, zlib.decompressobj(31), False
                    if piece and not GZIP.startswith(piece[:2]):
                        self.health.note("bytes after the end of the gzip data were not read")
                        return
        if begun:
            self._break("the gzip data ends in the middle")

    def _break(self, sentence):
        self.damaged = True
        self.health.note(sentence)

    def _decode(self, pieces):
        first, pieces = _peek(pieces)
        if not first:
            return
        for start, what in FOREIGN.items():
            if first.startswith(start):
                raise NotATrace(f"is {what}, no trace")
        encoding, mark = _encoding(first)
        if encoding != "utf-8":
            self.health.repaired[f"{encoding.upper()} instead of UTF-8"] = 1
        decoder, skip = codecs.getincrementaldecoder(encoding)(), len(mark)
        for piece in chain(pieces, [b""]):
            self.bytes += len(piece)
            piece, skip = piece[skip:], max(0, skip - len(piece))
            held = decoder.getstate()
            try:
                text = decoder.decode(piece, final=not piece and not skip)
            except UnicodeDecodeError:
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                decoder.setstate(held)
                text = decoder.decode(piece, final=not piece)
            if decoder.errors == "replace" and "\ufffd" in text:
                self.health.repaired["bytes that are not text"] += text.count("\ufffd")
            yield text


def _open(path):
    """The file opened for reading, if it is one that ends."""
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise NotATrace("cannot be read: a path has no NUL in it") from None
    if stat.S_ISDIR(mode):
        raise NotATrace("is a directory: name one file in it")
    if not stat.S_ISREG(mode):
        raise NotATrace("is no regular file: save it to one first")
    return path.open("rb", buffering=0)


def _peek(pieces):
    """(the first piece that is not empty or b"", all pieces)."""
    pieces = iter(pieces)
    first = next((piece for piece in pieces if piece), b"")
    return first, chain([first], pieces)


def _encoding(first):
    """(encoding, byte order mark) of a text by its first bytes."""
    for mark, encoding in MARKS.items():
        if first.startswith(mark):
            return encoding, mark
    place = first[:2].find(b"\0")
    return (UNMARKED[place] if len(first) > 1 and place >= 0 and first[:2].strip(b"\0") else "utf-8"), b""
