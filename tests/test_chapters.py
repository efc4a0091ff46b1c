"""Every chapter and every page keeps to the book's own rules."""

import pytest

from book.chapters import ROOT, all_chapters, find_chapters
from book.rules import RULES, dead_links, is_a_pair, pictures_without_alt

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: chapter.name)
@pytest.mark.parametrize("rule", [is_a_pair, *RULES], ids=lambda rule: rule.__name__)
def test_chapter(chapter, rule):
    breaches = list(is_a_pair(chapter)) or list(rule(chapter))
    assert not breaches, "\n".join(breaches)


def test_the_readme_shows_the_verdict_that_is_stored():
    [measurement] = find_chapters("01")
    verdict = measurement.read_notebook().cells[-1].outputs[0].text
    assert f"\n{verdict}```\n" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page):
    markdown = page.read_text(encoding="utf-8")
    breaches = [*dead_links(markdown, page.parent), *pictures_without_alt(markdown)]
    assert not breaches, "\n".join(breaches)
