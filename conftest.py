"""What every test run of the book needs: one chapter at will, and no cell that passes without being checked."""

import os

import pytest
from nbval.plugin import IPyNbCell

from book.chapters import find_chapters
from book.run import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # for the kernels that nbval starts


def pytest_addoption(parser):
    parser.addoption("--chapter", default="", help="run one chapter with its rules and its sabotages: 01")


def pytest_collection_modifyitems(config, items):
    """With --chapter, keep what speaks of that chapter only."""
    number = config.getoption("--chapter")
    try:
        chapters = find_chapters(number)
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None
    if number:
        items[:] = [item for item in items if any(chapter.name in item.nodeid for chapter in chapters)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """nbval lets a cell without a stored run pass, whatever it does: here it fails."""
    if isinstance(item, IPyNbCell) and item.cell.source.strip() and item.cell.execution_count is None:
        pytest.fail(
            f"Code cell {item.cell_num + 1} has no stored run to be checked against: run make refresh.", pytrace=False
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Beside a red claim, show what was measured now and what is stored."""
    report = yield
    if report.failed and isinstance(item, IPyNbCell) and call.when == "call":
        report.sections.append(("claims, stored and now", evidence(item)))
    return report


def evidence(closing_item):
    """For each claim of a chapter, the line stored with it and the line printed by this run."""
    lines = []
    for item in closing_item.parent.session.items:
        if item.parent is closing_item.parent and "claim(" in getattr(item, "cell", {}).get("source", ""):
            for word, outputs in (("stored", item.cell.outputs), ("now", item.test_outputs or [])):
                texts = "".join(output.get("text", "") for output in outputs)
                lines += [f"{word:>6}  {line}" for line in texts.splitlines()]
    return "\n".join(lines)
