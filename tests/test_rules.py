"""Each of the book's rules notices when it is broken: a small chapter keeps to all of them, until one is."""

import os
import subprocess
import sys

import nbformat
import pytest

from book.chapters import ROOT, Chapter
from book.refresh import seal, store
from book.rules import RULES, dead_links, is_a_pair, pictures_without_alt
from book.run import run

TEXT = """\
# %% [markdown]
# # A chapter
#
# **Does it hold?** [Itself](specimen_01.ipynb), [the source](https://example.org/paper) and `[code](not/a/link)`.

# %%
from steptime import claim, claims

# %% [markdown]
# ## Is two two?
#
# ![A two](two.png)

# %%
claim("two is two", 2 == 1 + 1)

# %% [markdown]
# ## Is three three?

# %%
three = 1 + 2
claim("three is three", three == 3)

# %% [markdown]
# ## What held on this machine?

# %% tags=["nbval-check-output"]
claims.close()
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The small chapter, run once: its text and its notebook as they are stored."""
    chapter = write(tmp_path_factory.mktemp("executed"), TEXT)
    store(run(chapter.read_text(), chapter.notebooks), chapter, card="processor  a fast one")
    return chapter.notebook.read_text(encoding="utf-8")


def write(folder, text, notebook=None):
    chapter = Chapter("specimen_01", folder)
    chapter.text.parent.mkdir(exist_ok=True)
    chapter.text.write_text(text, encoding="utf-8")
    (folder / "two.png").touch()
    if notebook is not None:
        chapter.notebook.write_text(notebook, encoding="utf-8")
    return chapter


@pytest.fixture
def chapter(tmp_path, executed):
    return write(tmp_path, TEXT, executed)


def breaches(chapter):
    return {rule.__name__: list(rule(chapter)) for rule in RULES if list(rule(chapter))}


def test_what_a_progress_bar_leaves_is_not_stored(chapter):
    notebook = chapter.read_notebook()
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", name="stderr", text="\r      \r")]
    store(notebook, chapter, card="")
    assert not chapter.read_notebook().cells[1].outputs and not breaches(chapter)


def rewrite(chapter, old, new):
    """Change the text alone."""
    text = chapter.text.read_text(encoding="utf-8")
    assert old in text
    chapter.text.write_text(text.replace(old, new), encoding="utf-8")


def edit(chapter, change, sealed=True):
    """Change the notebook's cells; sealed, so that only the rule in question can notice."""
    notebook = chapter.read_notebook()
    change(notebook.cells)
    if sealed:
        notebook.metadata["steptime"]["outputs"] = seal(notebook)
    nbformat.write(notebook, chapter.notebook)


def test_the_small_chapter_keeps_to_every_rule(chapter):
    assert breaches(chapter) == {} and not list(is_a_pair(chapter))


def test_a_notebook_without_a_text(chapter):
    chapter.text.unlink()
    assert list(is_a_pair(chapter)) == [
        "specimen_01.ipynb has no text: write notebooks/text/specimen_01.py or delete the notebook."
    ]


def test_a_text_without_a_notebook(chapter):
    chapter.notebook.unlink()
    assert list(is_a_pair(chapter)) == ["specimen_01.py has no notebook: run make refresh CHAPTER=specimen."]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 == 1 + 1", "2 == 2"),  # code
        ("# A chapter", "# The chapter"),  # prose
        ("\n# %%\nthree", "\n# %% [markdown]\n# More.\n\n# %%\nthree"),  # a cell more
        ('\n# %% tags=["nbval-check-output"]', "\n# %%"),  # a tag
    ],
)
def test_a_text_that_went_on_without_its_notebook(chapter, old, new):
    rewrite(chapter, old, new)
    [breach] = breaches(chapter)["agrees_with_its_text"]
    assert breach.endswith("run make refresh CHAPTER=specimen.")


def test_a_cell_without_a_stored_run(chapter):
    edit(chapter, lambda cells: cells[3].update(execution_count=None, outputs=[]))
    assert breaches(chapter) == {
        "was_run_from_top_to_bottom": ["Code cell 2 has no stored run: run make refresh CHAPTER=specimen."]
    }


def test_cells_run_in_another_order(chapter):
    edit(chapter, lambda cells: (cells[3].update(execution_count=3), cells[5].update(execution_count=2)))
    assert len(breaches(chapter)["was_run_from_top_to_bottom"]) == 2


def test_a_stored_error(chapter):
    error = nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
    edit(chapter, lambda cells: cells[3].outputs.append(error))
    assert "stores an error" in breaches(chapter)["was_run_from_top_to_bottom"][0]


def test_a_stored_output_edited_by_hand(chapter):
    edit(chapter, lambda cells: cells[3].outputs[0].update(text="True   two is two · 1,000x\n"), sealed=False)
    assert list(breaches(chapter)) == ["stores_what_the_machine_said"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda cells: cells.pop(), "The last cell must be claims.close()."),
        (
            lambda cells: cells.append(nbformat.v4.new_markdown_cell("The end.")),
            "The last cell must be claims.close().",
        ),
        (lambda cells: cells[-1].metadata.pop("tags"), "must carry the tag nbval-check-output"),
        (lambda cells: cells[-1].metadata.tags.append("nbval-skip"), "must carry the tag nbval-check-output"),
        (lambda cells: cells[3].metadata.update(tags=["nbval-skip"]), "Code cell 2 is tagged for nbval"),
        (lambda cells: cells[3].update(source="# NBVAL_SKIP\n" + cells[3].source), "Code cell 2 is tagged for nbval"),
        (lambda cells: cells[3].update(source=cells[3].source + "\nclaims.close()"), "Code cell 2 closes the claims"),
        (lambda cells: cells[-1].update(outputs=[]), "does not store a True for each claim"),
        (lambda cells: swap(cells[-1], "True   two", "False  two"), "does not store a True for each claim"),
        (lambda cells: swap(cells[-1], "True   two", "cannot tell two"), "does not store a True for each claim"),
        (lambda cells: swap(cells[-1], "True   two is two\n", ""), "does not store a True for each claim"),
        (lambda cells: swap(cells[-1], "2 of 2", "1 of 2"), "stores '1 of 2 claims hold on this machine'"),
    ],
)
def test_a_closing_cell_that_does_not_close(chapter, change, sentence):
    edit(chapter, change)
    assert sentence in "\n".join(breaches(chapter)["closes"])


def swap(cell, old, new):
    assert old in cell.outputs[0].text
    cell.outputs[0].text = cell.outputs[0].text.replace(old, new)


def test_claims_that_no_sabotage_could_find(chapter):
    rewrite(chapter, 'claim("two is two"', 'claim(f"two is {2}"')
    assert breaches(chapter)["names_its_claims"] == [
        "A claim under 'Is two two?' is not written out: give it a plain string."
    ]


def test_a_claim_before_the_first_section(chapter):
    rewrite(chapter, "import claim, claims", "import claim, claims\nclaim('one is one', 1 == 1)")
    assert "A claim stands before the first section" in breaches(chapter)["names_its_claims"][0]


def test_a_cell_that_is_no_plain_python(chapter):
    rewrite(chapter, "three = 1 + 2", "%timeit 1 + 2")
    with pytest.raises(ValueError, match=r"Cell 5 of specimen_01\.py is no plain Python: invalid syntax"):
        chapter.read_text()


def test_two_claims_with_one_text(chapter):
    rewrite(chapter, "three is three", "two is two")
    assert breaches(chapter)["names_its_claims"] == ["Two claims say 'two is two': give each a text of its own."]


def test_a_cell_too_long(chapter):
    rewrite(chapter, "three = 1 + 2", "three = 1 + 2\n" * 26)
    assert breaches(chapter)["has_short_cells"] == ["Code cell 3 has 27 lines: at most 25."]


def test_a_line_too_long(chapter):
    rewrite(chapter, "three = 1 + 2", f"three = 1 + 2  # {'x' * 79}")
    assert breaches(chapter)["has_short_cells"] == ["Code cell 3 has a line of 96 characters: at most 95."]


def test_cells_that_are_long_as_a_rule(chapter):
    rewrite(chapter, "three = 1 + 2", "three = 1 + 2\n" * 5)
    rewrite(chapter, 'claim("two', 'two = 2\n\n\n\n\n\ntwo = 2\ntwo = 2\ntwo = 2\ntwo = 2\nclaim("two')
    rewrite(chapter, "from steptime", "import os\nimport sys\nimport math\nimport time\nfrom steptime")
    assert "the median is 5.5" in breaches(chapter)["has_short_cells"][0]


def test_a_picture_without_alt_text_in_the_prose(chapter):
    rewrite(chapter, "![A two]", "![]")
    edit(chapter, lambda cells: cells[2].update(source=cells[2].source.replace("![A two]", "![ ]")))
    assert breaches(chapter)["describes_its_figures"] == ["Cell 2 shows a picture without alt text."]


@pytest.mark.parametrize(
    ("data", "metadata", "fine"),
    [
        ({"image/png": "iVBORw0KGgo="}, {}, False),
        ({"image/png": "iVBORw0KGgo="}, {"image/png": {"alt": "A curve"}}, True),
        ({"text/html": '<img src="data:image/png;base64,iVBORw0KGgo=">'}, {}, False),
        ({"text/html": '<img alt="A curve" src="data:image/png;base64,iVBORw0KGgo=">'}, {}, True),
    ],
)
def test_a_picture_without_alt_text_in_an_output(chapter, data, metadata, fine):
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    edit(chapter, lambda cells: cells[3].outputs.append(output))
    assert ("describes_its_figures" not in breaches(chapter)) == fine


@pytest.mark.parametrize(
    ("markdown", "count"),
    [("![](a.png)", 1), ("![a](a.png)", 0), ('<img src="a">', 1), ("<IMG alt='' src='a'>", 1), ("<img alt='a'>", 0)],
)
def test_pictures_without_alt(markdown, count):
    assert len(pictures_without_alt(markdown)) == count


def test_a_link_that_leads_nowhere(chapter):
    rewrite(chapter, "(specimen_01.ipynb)", "(specimen_02.ipynb)")
    assert breaches(chapter)["has_links_that_resolve"] == ["The link to specimen_02.ipynb leads nowhere."]


def test_links(tmp_path):
    (tmp_path / "a.md").touch()
    assert not list(dead_links("[a](a.md) [b](a.md#part) [c](https://a.org) [d](#here) `[e](e)`", tmp_path))
    for markdown in (
        "[a](b.md)",
        '[a](b.md "title")',
        "![a](b.md)",
        '<a href="b.md">',
        "<img src='b.md'>",
        "[a]: b.md",
    ):
        assert list(dead_links(markdown, tmp_path)) == ["The link to b.md leads nowhere."]
    assert list(dead_links("[a](http://a.org)", tmp_path)) == [
        "The link to http://a.org is not encrypted: write https."
    ]


def test_a_section_that_begins_inside_a_cell(chapter):
    rewrite(chapter, "# ![A two]", "# ## Is it?\n#\n# ![A two]")
    assert breaches(chapter)["starts_each_section_with_a_cell"] == [
        "The heading '## Is it?' stands inside a cell: let it begin one."
    ]


def test_a_section_that_leans_on_another(chapter):
    rewrite(chapter, 'claim("two is two", 2 == 1 + 1)', 'two = 2\nclaim("two is two", two == 2)')
    rewrite(chapter, "three == 3", "three == two + 1")
    assert breaches(chapter)["has_sections_that_stand_alone"] == [
        "The section 'Is three three?' uses two, which neither it nor the first cell makes."
    ]


def test_a_section_that_leans_on_a_second_opening_cell(chapter):
    rewrite(chapter, "\n# %% [markdown]\n# ## Is two", "\n# %%\ntwo = 2\n\n# %% [markdown]\n# ## Is two")
    assert "One code cell must stand" in breaches(chapter)["has_sections_that_stand_alone"][0]


def test_a_chapter_without_a_first_cell(chapter):
    rewrite(chapter, "\n# %%\nfrom steptime import claim, claims\n", "")
    assert "One code cell must stand" in breaches(chapter)["has_sections_that_stand_alone"][0]
    assert any("uses claim" in breach for breach in breaches(chapter)["has_sections_that_stand_alone"])


def test_code_changed_on_both_sides_without_a_run(chapter):
    rewrite(chapter, "three == 3", "three == 1 + 2")
    change = {"source": chapter.read_text().cells[5].source}
    edit(chapter, lambda cells: cells[5].update(change), sealed=False)
    assert list(breaches(chapter)) == ["stores_what_the_machine_said"]


def nbval(chapter, folder):
    """pytest's last lines on the small chapter, under the book's own settings."""
    for name in ("pyproject.toml", "conftest.py"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", chapter.notebook.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_nbval_passes_the_small_chapter(chapter, tmp_path):
    assert "4 passed" in nbval(chapter, tmp_path)


def test_nbval_fails_a_cell_without_a_stored_run(chapter, tmp_path):
    edit(chapter, lambda cells: cells[3].update(execution_count=None, outputs=[]))
    said = nbval(chapter, tmp_path)
    assert "Code cell 2 has no stored run to be checked against: run make refresh." in said and "1 error" in said


def test_nbval_fails_a_claim_that_turned_false_and_shows_both_figures(chapter, tmp_path):
    edit(chapter, lambda cells: cells[5].update(source=cells[5].source.replace("1 + 2", "1 + 1")))
    said = nbval(chapter, tmp_path)
    assert "1 failed" in said and "stored  True   three is three" in said and "now  False  three is three" in said


def test_nbval_fails_a_cannot_tell(chapter, tmp_path):
    source = 'from steptime import Verdict\nclaim("three is three", Verdict(None, "1.00x (0.98-1.02)"))'
    edit(chapter, lambda cells: cells[5].update(source=source))
    said = nbval(chapter, tmp_path)
    assert "1 failed" in said and "Cell outputs differ" in said and "now  cannot tell three is three" in said
