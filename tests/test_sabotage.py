"""Every claim of the book is broken on purpose, once, and has to notice."""

import pytest

from book.chapters import Chapter, all_chapters, sections
from book.run import run_claims
from book.sabotage import Sabotage, alone, sabotaged_cells, sabotages, verdict_under

CHAPTERS = all_chapters()
SABOTAGES = [(chapter, sabotage) for chapter in CHAPTERS for sabotage in sabotages(chapter)]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_claim_has_one_sabotage(chapter):
    claims = [text for section in sections(chapter.read_text())[1] for text in section.claims]
    assert [sabotage.claim for sabotage in sabotages(chapter)] == claims, f"tests/sabotage/{chapter.name}.toml"


@pytest.mark.parametrize(
    ("chapter", "sabotage"), SABOTAGES, ids=[f"{chapter.name}: {sabotage.claim}" for chapter, sabotage in SABOTAGES]
)
def test_claim_turns_false(chapter, sabotage):
    verdict, errors = verdict_under(chapter, sabotage)
    assert verdict is not None, f"The sabotage broke the section, not the claim: {'; '.join(errors)}"
    assert verdict.answer is False, f"The claim did not notice: {verdict!r}"
    assert not verdict.evidence.startswith("the answers differ"), "The sabotage broke the answer, not the speed."


SECTIONS = [
    (chapter, section) for chapter in CHAPTERS for section in sections(chapter.read_text())[1] if section.claims
]


@pytest.mark.parametrize(
    ("chapter", "section"), SECTIONS, ids=[f"{chapter.name}: {section.title}" for chapter, section in SECTIONS]
)
def test_section_alone_is_true(chapter, section):
    """Unbroken, and after the first cell alone: only then does a sabotage that turns it False show anything."""
    verdicts, errors = run_claims(alone(chapter.read_text(), section), chapter.notebooks)
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


def test_a_broken_claim_is_seen_as_false(chapter):
    verdict, errors = verdict_under(chapter, Sabotage("two is two", "two = 1 + 1", "two = 1 + 2"))
    assert verdict.answer is False and not errors


def test_a_claim_that_cannot_fail_is_seen(chapter):
    verdict, _ = verdict_under(chapter, Sabotage("anything goes", "two = 1 + 1", "two = 1 + 2"))
    assert verdict.answer is True


def test_a_sabotage_that_breaks_the_section_is_told_apart(chapter):
    verdict, errors = verdict_under(chapter, Sabotage("two is two", "two = 1 + 1", "two = 1 / 0"))
    assert verdict is None and errors[0] == "ZeroDivisionError: division by zero"


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
