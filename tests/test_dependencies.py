"""A campaign starts anew when what a chapter's verdicts depend on changes, and only then."""

import pytest

from book.chapters import Chapter
from book.dependencies import modules_of, state

TEXT = """\
# %% [markdown]
# # A chapter

# %%
from steptime import bench  # a comment
bench(sum, (1, 2))
"""


@pytest.fixture
def chapter(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "small.json").write_text("[]")
    chapter = Chapter("77_small", tmp_path)
    chapter.text.write_text(TEXT)
    return chapter


def names(sources):
    return {path.stem for path in modules_of(sources)}


@pytest.mark.parametrize(
    ("before", "after", "anew"),
    [
        ("# # A chapter", "# # Another name for it", False),
        ("# a comment", "# another comment", False),
        ("(1, 2)", "(1, 3)", True),
        ("import bench", "import bench, claim", True),
    ],
)
def test_prose_and_comments_change_nothing_and_code_does(chapter, before, after, anew):
    was = state(chapter)
    chapter.text.write_text(TEXT.replace(before, after))
    assert (state(chapter) != was) == anew


def test_a_file_counts_for_the_chapter_that_names_its_folder(chapter):
    chapter.text.write_text(TEXT + 'open("traces/small.json")\n')
    was = state(chapter)
    (chapter.notebooks / "traces" / "small.json").write_text("[1]")
    assert state(chapter) != was
    chapter.text.write_text(TEXT)
    was = state(chapter)
    (chapter.notebooks / "traces" / "small.json").write_text("[]")
    assert state(chapter) == was


@pytest.mark.parametrize(
    "source",
    [
        "from steptime import compare",
        "import steptime.compare",
        "from steptime.compare import compare",
        "def f():\n from steptime import bench",
    ],
)
def test_what_a_module_imports_counts_too_and_what_nobody_imports_does_not(source):
    found = names([source])
    assert {"measure", "observe", "stream"} <= found
    assert not {"run", "allocator", "verify"} & found


def test_a_package_counts_with_its_modules():
    assert {"parse", "gaps", "timeline"} <= names(["from steptime import trace"])
    assert {"step_causes", "supply_causes"} <= names(["from steptime import diagnose"])
