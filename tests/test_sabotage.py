"""Every claim of the book is broken on purpose, once, and has to notice."""

from contextlib import ExitStack
from functools import cache

import pytest

from book import opened as opening
from book.chapters import Chapter, all_chapters, code_cells, sections
from book.opened import opened
from book.sabotage import Sabotage, sabotaged_cells, sabotages

CHAPTERS = all_chapters()
SABOTAGES = [(chapter, sabotage) for chapter in CHAPTERS for sabotage in sabotages(chapter)]


@pytest.fixture(scope="module")
def run_section():
    """From a chapter and cells of one of its sections to the claims they make, after its first cell."""
    with ExitStack() as stack:
        chapters = cache(lambda chapter: stack.enter_context(opened(chapter)))
        yield lambda chapter, cells: chapters(chapter)(cells)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_claim_has_one_sabotage(chapter):
    claims = [text for section in sections(chapter.read_text())[1] for text in section.claims]
    assert [sabotage.claim for sabotage in sabotages(chapter)] == claims, f"tests/sabotage/{chapter.name}.toml"


@pytest.mark.sabotage
@pytest.mark.parametrize(
    ("chapter", "sabotage"), SABOTAGES, ids=[f"{chapter.name}: {sabotage.claim}" for chapter, sabotage in SABOTAGES]
)
def test_claim_turns_false(chapter, sabotage, run_section):
    verdicts, errors = run_section(chapter, sabotaged_cells(chapter.read_text(), sabotage))
    verdict = verdicts.get(sabotage.claim)
    assert verdict is not None, f"The sabotage broke the section, not the claim: {'; '.join(errors)}"
    assert verdict.answer is False, f"The claim did not notice: {verdict!r}"
    assert not verdict.evidence.startswith("the answers differ"), "The sabotage broke the answer, not the speed."


SECTIONS = [
    (chapter, section) for chapter in CHAPTERS for section in sections(chapter.read_text())[1] if section.claims
]


@pytest.mark.sabotage
@pytest.mark.parametrize(
    ("chapter", "section"), SECTIONS, ids=[f"{chapter.name}: {section.title}" for chapter, section in SECTIONS]
)
def test_section_alone_is_true(chapter, section, run_section):
    """Unbroken, and after the first cell alone: only then does a sabotage that turns it False show anything."""
    verdicts, errors = run_section(chapter, code_cells(section.cells))
    assert not errors
    assert {text: verdict.word for text, verdict in verdicts.items()} == dict.fromkeys(section.claims, "True"), verdicts


TEXT = """\
# %%
from steptime import claim

# %% [markdown]
# ## Is two two?

# %%
two = 1 + 1
claim("two is two", two == 2)
claim("anything goes", two != 7)
"""


@pytest.fixture
def chapter(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "specimen.py").write_text(TEXT, encoding="utf-8")
    return Chapter("specimen", tmp_path)


def broken(chapter, run_section, claim, becomes):
    """(the verdict on a claim, errors met) after `two = 1 + 1` became something else."""
    cells = sabotaged_cells(chapter.read_text(), Sabotage(claim, "two = 1 + 1", becomes))
    verdicts, errors = run_section(chapter, cells)
    return verdicts.get(claim), errors


@pytest.mark.parametrize("can_fork", {opening.CAN_FORK, False})
def test_a_broken_claim_is_seen_as_false(chapter, run_section, can_fork, monkeypatch):
    monkeypatch.setattr(opening, "CAN_FORK", can_fork)
    verdict, errors = broken(chapter, run_section, "two is two", "two = 1 + 2")
    assert verdict.answer is False and not errors


def test_a_claim_that_cannot_fail_is_seen(chapter, run_section):
    verdict, _ = broken(chapter, run_section, "anything goes", "two = 1 + 2")
    assert verdict.answer is True


def test_a_sabotage_that_breaks_the_section_is_told_apart(chapter, run_section):
    verdict, errors = broken(chapter, run_section, "two is two", "two = 1 / 0")
    assert verdict is None and errors[0] == "ZeroDivisionError: division by zero"


def test_a_section_that_ends_its_process_is_told_apart(chapter, run_section):
    verdict, errors = broken(chapter, run_section, "two is two", "import os; os._exit(3)")
    assert verdict is None and "ended without an answer" in errors[0]


def test_no_section_leans_on_another(chapter, run_section):
    broken(chapter, run_section, "two is two", "two = three = 1 + 2")
    verdict, errors = broken(chapter, run_section, "two is two", "two = three")
    assert verdict is None and errors[0] == "NameError: name 'three' is not defined"


@pytest.mark.parametrize(
    ("sabotage", "sentence"),
    [
        (Sabotage("two is three", "two = 1 + 1", ""), "made by 0 sections"),
        (Sabotage("two is two", "two = 1", ""), "stands 0 times in the section"),
        (Sabotage("two is two", 'claim("two is two", two == 2)', ""), "is the claim itself"),
    ],
)
def test_a_sabotage_that_fits_nothing_is_a_sentence(chapter, sabotage, sentence):
    with pytest.raises(ValueError, match=sentence):
        sabotaged_cells(chapter.read_text(), sabotage)
