"""A course from this book: problem sets that are handed out without their solutions and grade themselves.

What a student wrote runs in a process of its own (`worker`), and the tests of a set in another (`judge`). Between the
two go only plain data (`wire`).
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def folder_at(text):
    """The folder that a person names on a command line, where not every shell knows that ~ is home."""
    return Path(text).expanduser()
