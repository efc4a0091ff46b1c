"""Make the book into pages for the web, from the stored notebooks: none is run.

The pages' sources are laid out in build/pages, as Sphinx wants them; what it makes of them lies in build/html.
"""

import base64
import re
import shutil
import struct
import subprocess
import sys
from functools import cache

import nbformat

from book import reference
from book.chapters import ROOT, all_chapters, code_cells, sections
from book.run import printed
from book.terms import all_terms, mark

FRAME = ROOT / "docs" / "web"
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "html"
FIGURE = re.compile(
    r'<figure><img alt="([^"]*)" src="data:image/png;base64,([^"]*)"><figcaption>(.*?)</figcaption></figure>', re.DOTALL
)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)\)")
VERDICT = re.compile(r"(True|False|cannot tell) +(.+)")
NOT_RUN = re.compile(r"(not run here: [^(]+?) \((.+)\)")
SIGNS = "| what you see | what it usually means | what to try |"


def main():
    """Lay the pages out and let Sphinx make a site of them; a warning is an error."""
    chapters = [chapter for chapter in all_chapters() if chapter.notebook.exists()]
    lay_out(chapters)
    shutil.rmtree(SITE, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    made = subprocess.run([*sphinx, "-c", str(FRAME), str(PAGES), str(SITE)], check=False).returncode
    if made:
        return "The site was not made: mend the warnings above."
    shutil.rmtree(SITE / ".doctrees")
    for path in SITE.rglob("*.map"):  # 3.5 MB for who debugs the theme
        path.unlink()
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file())
    print(f"{SITE.relative_to(ROOT)}/index.html and {len(chapters)} chapters, {size / 1e6:.1f} MB in all")
    return 0


def lay_out(chapters):
    """Write the source of every page, with the pictures and files they point to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "notebooks", PAGES / "stored", ignore=shutil.ignore_patterns("text", ".*"))
    shutil.copytree(ROOT / "src" / "steptime", PAGES / "src" / "steptime", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", PAGES / "docs", ignore=shutil.ignore_patterns("web", "*.md"))
    (PAGES / "extra" / "figures").mkdir(parents=True)
    terms = all_terms(chapters)
    for chapter in chapters:
        here = [term for places in terms.values() for term in places if term.chapter == chapter]
        nbformat.write(chapter_page(chapter, here), PAGES / f"{chapter.name}.ipynb")
    parts = {
        "chapters": chapters_table(),
        "contents": "\n".join(f"{chapter.number} {title(chapter)} <{chapter.name}>" for chapter in chapters),
        "claims": claims_in_all(chapters),
        "signs": signs_table(chapters),
        "terms": terms_list(terms),
        "reference": reference.page(chapters),
    }
    for page in FRAME.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name, part in parts.items():
            text = text.replace(f"<!-- {name} -->", part)
        (PAGES / page.name).write_text(text, encoding="utf-8")


def chapter_page(chapter, terms):
    """The stored notebook as a page: what its claims came to on top, places to link to, figures as files."""
    notebook = chapter.read_notebook()
    opening = nbformat.v4.new_markdown_cell(verdicts(chapter, notebook))
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            marked = mark(cell.source, [term for term in terms if term.cell == place])
            cell.source = LINK.sub(to_stored, marked.replace("](../", "]("))
        else:
            cell.outputs = [output for output in cell.outputs if output.get("text", "shown").strip()]
            for output in cell.outputs:
                if "text/html" in output.get("data", {}):
                    to_file = picture_files(f"{chapter.number}-{place}")
                    output.data["text/html"] = FIGURE.sub(to_file, output.data["text/html"])
    for number, section in enumerate(sections(notebook)[1], start=1):
        section.cells[0].source = f"({label(chapter, number)})=\n{section.cells[0].source}"
    notebook.cells.insert(1, opening)
    return notebook


def to_stored(match):
    """A match of LINK, led to the copy of the file that it names beside the notebooks; of a folder the text alone."""
    text, target = match.groups()
    beside = ROOT / "notebooks" / target
    if beside.is_dir():
        return text
    return f"[{text}](stored/{target})" if beside.is_file() and beside.suffix != ".ipynb" else match[0]


def picture_files(name):
    """A function that stores the picture of a match of FIGURE under a name and gives the HTML to show it."""

    def to_file(match):
        alt, data, caption = match.groups()
        png = base64.b64decode(data)
        width, height = struct.unpack(">II", png[16:24])
        (PAGES / "extra" / "figures" / f"{name}.png").write_bytes(png)
        image = f'<img alt="{alt}" src="figures/{name}.png" width="{width}" height="{height}" loading="lazy">'
        # Sphinx's search reads text and no attributes: that is what the hidden line is for.
        hidden = f"<span hidden>{alt}</span>"
        return f'<figure><a href="figures/{name}.png">{image}</a><figcaption>{caption}</figcaption>{hidden}</figure>'

    return to_file


def verdicts(chapter, notebook):
    """The opening of a chapter's page: the notebook, the machine that ran it, and what each claim came to there."""
    *lines, summary = printed(notebook.cells[-1]).splitlines()
    rows = [VERDICT.fullmatch(line).groups() for line in lines if VERDICT.fullmatch(line)]
    where = {}
    for number, section in enumerate(sections(notebook)[1], start=1):
        where |= dict.fromkeys(section.claims, number)
        said = "\n".join(printed(cell) for cell in code_cells(section.cells))
        for verdict, text in NOT_RUN.findall(said):
            rows.append((verdict, text))
            where[text] = number
    table = [f"| {word} | [{plain(text)}](#{label(chapter, where[text])}) |" for word, text in rows]
    return "\n".join(
        [
            ":::::{container} verdicts",
            f"[This notebook](path:stored/{chapter.name}.ipynb) was run on {machine(notebook)}.",
            "[Run it on yours](#run-it): its times will differ there.\n",
            f"<details open><summary>{summary.replace('this', 'that')}</summary>\n",
            "| verdict | claim |\n| --- | --- |",
            *table,
            "\n</details>\n",
            ":::::",
        ]
    )


def machine(notebook):
    """The machine that ran a chapter, in a line, from the card that the refresh stored with it."""
    card = notebook.metadata.get("steptime", {}).get("machine")
    if card is None:  # stored before the refresh did so
        return "a machine that was not noted"
    rows = dict(re.findall(r"(?m)^(\w+) +(.+)$", card))
    told = [rows["processor"], rows["memory"], f"GPU: {rows['GPU']}", rows["system"], rows["versions"]]
    return plain("; ".join(told))


def label(chapter, section):
    """The name of a section's place, for links from any page."""
    return f"section-{chapter.number}-{section}"


def plain(text):
    """Text for Markdown to show as it stands."""
    return re.sub(r"([\\`*_\[\]<>|#$~{}])", r"\\\1", text)


@cache
def title(chapter):
    """What stands in a chapter's first line."""
    return re.match(r"# (.+)", chapter.read_notebook().cells[0].source)[1]


def chapters_table():
    """The README's table of chapters, with links to the pages."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"(?m)^## Chapters\n\n((?:\|.*\n)+)", readme)[1]
    return table.replace("](notebooks/", "](")


def claims_in_all(chapters):
    """How many claims hold, of how many, in the chapters as they are stored."""
    closings = "\n".join(printed(chapter.read_notebook().cells[-1]) for chapter in chapters)
    words = [match[1] for match in map(VERDICT.fullmatch, closings.splitlines()) if match]
    return f"{words.count('True')} of {len(words)} claims"


def signs_table(chapters):
    """The closing tables of all chapters in one, each row with its chapter."""
    rows = []
    known = {chapter.number: chapter for chapter in chapters}
    for chapter in chapters:
        for number, section in enumerate(sections(chapter.read_notebook())[1], start=1):
            _, found, table = section.cells[0].source.partition(SIGNS)
            for row in table.splitlines()[2:] if found else ():
                if not row.startswith("|"):
                    break
                rows.append(f"{row} [{chapter.number} {title(chapter)}](#{label(chapter, number)}) |")
    table = "\n".join([f"{SIGNS} where |", "| --- | --- | --- | --- |", *rows])
    return re.sub(r"chapter (\d\d)", lambda m: f"[chapter {m[1]}]({known[m[1]].name}.ipynb)", table)


def terms_list(terms):
    """Every term, what is said where it is defined, and a link to each such place."""
    entries = []
    for name, places in terms.items():
        links = [f"[{term.chapter.number} {title(term.chapter)}](#{term.anchor})" for term in places]
        entries.append(f"{plain(name)}\n  {places[0].quote} {' · '.join(links)}\n")
    return "\n".join(entries)


if __name__ == "__main__":
    sys.exit(main())
