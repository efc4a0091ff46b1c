"""Every chapter and every page keeps to the book's own rules."""

import re

import pytest

from book.chapters import ROOT, all_chapters, code_cells, find_chapters
from book.rules import RULES, dead_links, is_a_pair, pictures_without_alt
from book.run import printed

PAGES = [page for folder in (".", "docs", "benchmarks") for page in sorted((ROOT / folder).glob("*.md"))]


@pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: chapter.name)
@pytest.mark.parametrize("rule", [is_a_pair, *RULES], ids=lambda rule: rule.__name__)
def test_chapter(chapter, rule):
    breaches = list(is_a_pair(chapter)) or list(rule(chapter))
    assert not breaches, "\n".join(breaches)


def test_the_readme_shows_what_is_stored():
    """The block with a race and its claims is what the chapter said when it was last run."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [shown] = [block for block in readme.split("```") if block.startswith("\nsame answer")]
    [measurement] = find_chapters("01")
    stored = []
    for cell in code_cells(measurement.read_notebook().cells):
        stored += printed(cell).splitlines()
        stored += [output.data.get("text/plain") for output in cell.outputs if "data" in output]
    assert [line for line in shown.splitlines() if line and line not in stored] == []


def test_the_verdicts_of_the_readme_are_stored():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (True|False|cannot tell) \| (.+) \| (\d\d) \|$", readme)
    assert rows
    for verdict, text, number in rows:
        [chapter] = find_chapters(number)
        assert f"{verdict:<6} {text}" in printed(chapter.read_notebook().cells[-1]).splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page):
    markdown = page.read_text(encoding="utf-8")
    breaches = [*dead_links(markdown, page.parent), *pictures_without_alt(markdown)]
    assert not breaches, "\n".join(breaches)
