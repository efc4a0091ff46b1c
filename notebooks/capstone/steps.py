"""The way from train_slow.py to train_fast.py, one mend after the other: each a small diff in steps/.

A diff is applied by what it says, not by its line numbers, so one mend can also be tried out of its turn.
"""

from functools import cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
NAMES = [path.stem for path in sorted((HERE / "steps").glob("*.diff"))]


def diff(name):
    """The text of a mend, as a unified diff."""
    return (HERE / "steps" / f"{name}.diff").read_text(encoding="utf-8")


def patched(text, patch):
    """A text after a unified diff. Raises ValueError where the old lines of a hunk do not stand in it exactly once."""
    for hunk in patch.split("\n@@ ")[1:]:
        lines = hunk.splitlines(keepends=True)[1:]  # the first tells where it stood
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        if text.count(old) != 1:
            raise ValueError(f"These lines stand {text.count(old)} times in the text, not once:\n{old}")
        text = text.replace(old, new)
    return text


def text(*names):
    """train_slow.py after the mends of these names, in this order."""
    source = (HERE / "train_slow.py").read_text(encoding="utf-8")
    for name in names:
        source = patched(source, diff(name))
    return source


@cache
def script(*names):
    """That text as a module, to be called."""
    module = ModuleType("train_" + "_".join(names or ("slow",)))
    exec(compile(text(*names), f"{module.__name__}.py", "exec"), module.__dict__)
    return module


def after(done):
    """The script after the first `done` mends: 0 gives the slow one, len(NAMES) the fast one."""
    return script(*NAMES[:done])
